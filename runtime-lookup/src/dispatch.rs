//! Runs the choice: a [`TunedGemm`] for a device, a [`Plan`] for each weight matrix.
//!
//! A plan resolves each M once: looks it up, prepares the choice, packs the weights in the choice's form. From then on a
//! run is a small search and a launch, without a lock or an allocation. Whatever stands in the choice's way (nothing
//! tuned, a library that is absent or of another build, a refusal, no memory to pack) is a typed [`Fallback`] that is
//! found once and remembered, and the baseline runs instead: nothing raises in serving. The one exception is a launch
//! that may have started: running another after it could add twice, so its error goes to the caller.
//!
//! All launches of one [`TunedGemm`] go to one stream, one after the other; they share one workspace.

mod plan;
mod resolve;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::rc::Rc;

use rustc_hash::FxHashMap;
use tgemm_db::{Constraints, Problem, Site, Solution};
use tgemm_kernels::{Buffer, Context, Error, Stream};

pub use plan::Plan;
use resolve::Resolved;
pub use resolve::{Fallback, prepare};

use crate::{Database, HitKind};

/// The most problems that are kept ready; what comes after is made ready again at every call.
pub const PROBLEMS_MAX: usize = 1 << 16;

/// Why a product could not be computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DispatchError {
    /// There is neither a usable choice nor a library that takes the problem.
    #[error("no library here computes {problem} ({reason})")]
    NoBaseline {
        /// What was asked for.
        problem: Box<Problem>,
        /// What the libraries said.
        reason: String,
    },
    /// The baseline failed, and there is nothing behind it.
    #[error("the baseline failed on {problem}: {error}")]
    Baseline {
        /// What was asked for.
        problem: Box<Problem>,
        /// Why.
        error: Error,
    },
    /// A launch failed after it may have begun: the output is not to be trusted, and nothing was run instead.
    #[error("{problem} may have run in part: {error}")]
    MayHaveRun {
        /// What was asked for.
        problem: Box<Problem>,
        /// Why.
        error: Error,
    },
    /// A plan belongs to one weight matrix, whose packed form it keeps.
    #[error("the plan of {site} was packed from other weights; make one plan a weight matrix")]
    OtherWeights {
        /// The plan's site.
        site: Box<Site>,
    },
}

/// What a caller may set.
#[derive(Clone, Debug)]
pub struct DispatchOptions {
    /// What the user allows; an engine that holds plain weights only says so here.
    pub constraints: Constraints,
    /// What runs where nothing is tuned: the `via` of a baseline, or a library's name. `None`, or a name that offers
    /// nothing for a problem: the first library that does.
    pub baseline: Option<String>,
    /// Where launches go.
    pub stream: Stream,
}

impl Default for DispatchOptions {
    fn default() -> DispatchOptions {
        DispatchOptions { constraints: Constraints::default(), baseline: None, stream: Stream::DEFAULT }
    }
}

/// How often what was run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Runs of a choice, by how the lookup answered.
    pub applied: BTreeMap<HitKind, u64>,
    /// Runs of the baseline because nothing was tuned.
    pub missed: u64,
    /// Runs of the baseline although something was tuned, by reason.
    pub fallen_back: BTreeMap<&'static str, u64>,
}

/// What became of one problem.
#[derive(Clone, Debug)]
pub struct ProblemReport {
    /// The problem.
    pub problem: Problem,
    /// How the lookup answered.
    pub kind: HitKind,
    /// The M that the choice was tuned at.
    pub tuned_m: Option<u32>,
    /// What runs; `None` if nothing has run yet.
    pub solution: Option<Solution>,
    /// Why the choice does not run, if one was found.
    pub fallback: Option<Fallback>,
    /// Runs of the choice.
    pub applied: u64,
    /// Runs of the baseline.
    pub baseline: u64,
}

/// Tuned products on one device. A clone shares everything with its original.
#[derive(Clone)]
pub struct TunedGemm<'a> {
    shared: Rc<Shared<'a>>,
}

/// What all plans of a [`TunedGemm`] share.
struct Shared<'a> {
    context: &'a dyn Context,
    database: &'a Database,
    options: DispatchOptions,
    ready: RefCell<FxHashMap<Problem, Rc<Resolved>>>,
    workspace: RefCell<Option<Buffer>>,
    packed_bytes: Cell<u64>,
}

impl<'a> TunedGemm<'a> {
    /// Runs what `database` chose on what `context` holds. An empty database runs the baseline throughout.
    pub fn new(context: &'a dyn Context, database: &'a Database, options: DispatchOptions) -> TunedGemm<'a> {
        let shared = Shared {
            context,
            database,
            options,
            ready: RefCell::default(),
            workspace: RefCell::default(),
            packed_bytes: Cell::new(0),
        };
        TunedGemm { shared: Rc::new(shared) }
    }

    /// The plan of one weight matrix at `site`.
    pub fn plan(&self, site: Site) -> Plan<'a> {
        Plan::new(Rc::clone(&self.shared), site)
    }

    /// Memory that all plans hold in packed weights, bytes.
    pub fn packed_bytes(&self) -> u64 {
        self.shared.packed_bytes.get()
    }

    /// How often what was run, over all plans.
    pub fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        for resolved in self.shared.ready.borrow().values() {
            let (applied, baseline) = (resolved.applied.get(), resolved.baseline_runs.get());
            if applied > 0 {
                *counters.applied.entry(resolved.kind).or_default() += applied;
            }
            match &*resolved.fallback.borrow() {
                Some(fallback) if baseline > 0 => *counters.fallen_back.entry(fallback.name()).or_default() += baseline,
                _ => counters.missed += baseline,
            }
        }
        counters
    }

    /// What became of every problem so far, in the order of their keys.
    pub fn report(&self) -> Vec<ProblemReport> {
        let mut report: Vec<_> = self.shared.ready.borrow().values().map(|resolved| resolved.report()).collect();
        report.sort_by_key(|line| line.problem);
        report
    }
}

impl Shared<'_> {
    fn resolve(&self, problem: Problem) -> Rc<Resolved> {
        if let Some(resolved) = self.ready.borrow().get(&problem) {
            return Rc::clone(resolved);
        }
        let resolved = Rc::new(Resolved::new(self.context, self.database, &self.options, problem));
        let mut ready = self.ready.borrow_mut();
        if ready.len() < PROBLEMS_MAX {
            ready.insert(problem, Rc::clone(&resolved));
        }
        resolved
    }

    /// Scratch memory of at least `bytes`; no allocation once it has grown.
    fn workspace(&self, bytes: usize) -> Result<(*mut c_void, usize), Error> {
        if bytes == 0 {
            return Ok((std::ptr::null_mut(), 0));
        }
        let mut workspace = self.workspace.borrow_mut();
        if workspace.as_ref().is_none_or(|buffer| buffer.bytes() < bytes) {
            // Launches that are still under way use the old one.
            self.context.synchronize()?;
            *workspace = Some(self.context.alloc(bytes)?);
        }
        Ok(workspace.as_mut().map_or((std::ptr::null_mut(), 0), |buffer| (buffer.as_mut_ptr(), buffer.bytes())))
    }
}
