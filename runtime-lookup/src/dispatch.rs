//! Runs the choice: a [`TunedGemm`] for a device, a [`Plan`] for each weight matrix.
//!
//! ```
//! # #[cfg(not(miri))] {
//! use std::sync::Arc;
//! use tgemm_db::{DType, Site};
//! use tgemm_kernels::cpu::CpuContext; // `gpu::attach::Attached::to_current(Dialect::Hip)` for the engine's own GPU
//! use tgemm_kernels::{Backend, Operands, Stream};
//! use tgemm_lookup::Database;
//! use tgemm_lookup::dispatch::{DispatchError, DispatchOptions, TunedGemm};
//!
//! let device = Arc::new(CpuContext::open());
//! let (database, report) = Database::open(&["tuned.csv".into()], device.environment()); // nothing there: baselines run
//! eprintln!("{report}");
//! let gemm = TunedGemm::new(device, Arc::new(database), DispatchOptions::default());
//!
//! let weights = vec![1.0f32; 8 * 4]; // 8 out features of 4 in features
//! let mut layer = gemm.plan(Site::linear(8, 4, DType::F32)); // once a weight matrix
//! let stream = Stream::DEFAULT; // a hipStream_t or CUstream of any binding: Stream(raw)
//! // SAFETY: the weights are 8 x 4 numbers, and stay where they are.
//! let warmed = unsafe { layer.warm(2, weights.as_ptr().cast(), stream) }; // before a capture, or the first token
//!
//! let (x, mut out) = (vec![1.0f32; 2 * 4], vec![0.0f32; 2 * 8]);
//! let io = Operands {
//!     x: x.as_ptr().cast(),
//!     w: weights.as_ptr().cast(),
//!     out: out.as_mut_ptr().cast(),
//!     ..Operands::default()
//! };
//! // SAFETY: x has 2 x 4 numbers and out room for 2 x 8, and a CPU's launch is over when it returns.
//! match unsafe { layer.run(2, &io, stream) } {
//!     Ok(()) => assert_eq!(out, [4.0; 16]),
//!     Err(DispatchError::NoBaseline { reason, .. }) => eprintln!("no GEMM library is here: {reason}"),
//!     Err(error) => panic!("{error}"),
//! }
//! # drop(warmed);
//! # }
//! ```
//!
//! A plan resolves each M once: looks it up, prepares the choice, packs the weights in the choice's form where the
//! constraints let it. From then on a run is a small search and a launch, without a lock or an allocation. Whatever stands in
//! the choice's way (nothing tuned, a library that is absent or of another build, a refusal, no memory to pack) is a typed
//! [`Fallback`] that is found once and remembered, and the baseline runs instead: nothing raises in serving. The exceptions
//! are a launch that may have started, since running another after it could add twice, and what follows from captures.
//!
//! **Threads and streams.** A [`TunedGemm`] is shared by any number of threads; a [`Plan`] is one thread's at a time, and a
//! layer may have several. Every run says its stream. Launches into one stream follow one another and share its workspace,
//! which only grows; what it outgrew is kept until the last plan is gone, since captured graphs hold its address.
//!
//! **Captures.** After [`Plan::warm`] with a stream, runs at that M into that stream allocate nothing and make nothing ready,
//! so they may be captured. What would have to be made under a capture is refused with [`DispatchError::NotWarm`] before
//! anything is enqueued. A graph goes on using the workspace of the stream that it was captured on: replay it where that
//! stream has nothing else under way, or give its runs a workspace of their own. Set [`Constraints::graph_safe`] to leave out
//! solutions that are not known to bear it.

mod plan;
mod resolve;
#[cfg(test)]
mod tests;
mod workspace;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;
use tgemm_db::problem::Invalid;
use tgemm_db::{Constraints, Problem, Site, Solution};
use tgemm_kernels::{Backend, Error};

pub use plan::Plan;
use resolve::Resolved;
pub use resolve::{Fallback, prepare};
pub use workspace::QUEUES_MAX;
use workspace::Workspaces;

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
    /// There is no such problem.
    #[error("{problem}: {invalid}")]
    Invalid {
        /// What was asked for.
        problem: Box<Problem>,
        /// What is wrong with it.
        invalid: Invalid,
    },
    /// The stream is being captured, and something would have to be made first. Nothing was enqueued.
    #[error("{problem} cannot be captured yet: {lacks}; warm its plan for this M and stream first")]
    NotWarm {
        /// What was asked for.
        problem: Box<Problem>,
        /// What is not ready.
        lacks: &'static str,
    },
    /// A plan belongs to one weight matrix, whose packed form it keeps.
    #[error("the plan of {site} was packed from other weights; make one plan a weight matrix")]
    OtherWeights {
        /// The plan's site.
        site: Box<Site>,
    },
}

/// What a caller may set.
#[derive(Clone, Debug, Default)]
pub struct DispatchOptions {
    /// What the user allows; an engine that holds plain weights only, or writes into them in place, says so here.
    pub constraints: Constraints,
    /// What runs where nothing is tuned: the `via` of a baseline, or a library's name. `None`, or a name that offers
    /// nothing for a problem: the first library that does.
    pub baseline: Option<String>,
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
pub struct TunedGemm {
    shared: Arc<Shared>,
}

/// What all plans of a [`TunedGemm`] share.
struct Shared {
    // Before the backend: its memory is freed while its libraries are there.
    workspaces: Workspaces,
    ready: Mutex<FxHashMap<Problem, Arc<Resolved>>>,
    backend: Arc<dyn Backend>,
    database: Arc<Database>,
    options: DispatchOptions,
    packed_bytes: AtomicU64,
}

impl TunedGemm {
    /// Runs what `database` chose on what `backend` holds. An empty database runs the baseline throughout.
    pub fn new(backend: Arc<dyn Backend>, database: Arc<Database>, options: DispatchOptions) -> TunedGemm {
        let (workspaces, ready, packed_bytes) = Default::default();
        TunedGemm { shared: Arc::new(Shared { workspaces, ready, backend, database, options, packed_bytes }) }
    }

    /// The plan of one weight matrix at `site`.
    pub fn plan(&self, site: Site) -> Plan {
        Plan::new(Arc::clone(&self.shared), site)
    }

    /// Where it runs.
    pub fn backend(&self) -> &dyn Backend {
        &*self.shared.backend
    }

    /// Memory that all plans hold in packed weights, bytes.
    pub fn packed_bytes(&self) -> u64 {
        self.shared.packed_bytes.load(Ordering::Relaxed)
    }

    /// Memory that all streams hold as workspaces, bytes.
    pub fn workspace_bytes(&self) -> u64 {
        self.shared.workspaces.bytes()
    }

    /// How often what was run, over all plans.
    pub fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        for resolved in self.shared.ready().values() {
            let applied = resolved.applied.load(Ordering::Relaxed);
            let baseline = resolved.baseline_runs.load(Ordering::Relaxed);
            if applied > 0 {
                *counters.applied.entry(resolved.kind).or_default() += applied;
            }
            match resolved.fallback() {
                Some(fallback) if baseline > 0 => *counters.fallen_back.entry(fallback.name()).or_default() += baseline,
                _ => counters.missed += baseline,
            }
        }
        counters
    }

    /// What became of every problem so far, in the order of their keys.
    pub fn report(&self) -> Vec<ProblemReport> {
        let mut report: Vec<_> = self.shared.ready().values().map(|resolved| resolved.report()).collect();
        report.sort_by_key(|line| line.problem);
        report
    }
}

impl Shared {
    fn ready(&self) -> MutexGuard<'_, FxHashMap<Problem, Arc<Resolved>>> {
        // What goes in is whole: a panic elsewhere leaves nothing broken behind it.
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `problem` made ready; `None` if it is not, and may not be made so now.
    fn resolve(&self, problem: Problem, is_forbidden: impl FnOnce() -> bool) -> Option<Arc<Resolved>> {
        if let Some(resolved) = self.ready().get(&problem) {
            return Some(Arc::clone(resolved));
        }
        if is_forbidden() {
            return None;
        }
        // Outside of the lock, as it takes long; of two threads that do the same, the first one's stands.
        let resolved = Arc::new(Resolved::new(self, problem));
        let mut ready = self.ready();
        if ready.len() >= PROBLEMS_MAX {
            return Some(resolved);
        }
        Some(Arc::clone(ready.entry(problem).or_insert(resolved)))
    }
}

/// Shared by threads, and handed from one to another.
const _: () = {
    const fn shared<T: Send + Sync + Clone>() {}
    const fn handed<T: Send>() {}
    shared::<TunedGemm>();
    handed::<Plan>();
};
