//! What runs for one problem: its choice made ready, or why not; and its baseline, made ready when first needed.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tgemm_db::device::Difference;
use tgemm_db::{Problem, Solution, WeightForm};
use tgemm_kernels::{Ask, Backend, BaselineSolution, Effort, Error, Library, Prepared, library};

use super::{DispatchError, DispatchOptions, ProblemReport, Shared};
use crate::HitKind;

/// Why a choice that the lookup found does not run. Found once, remembered; the baseline runs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fallback {
    /// Its library could not be opened in this process.
    #[error("library {0} is not here")]
    LibraryAbsent(String),
    /// Its library is of another build.
    #[error("{0}")]
    BuildDiffers(Difference),
    /// The library does not take it, here or for this problem.
    #[error("not prepared: {0}")]
    Prepare(Error),
    /// The library made something else ready than was asked for.
    #[error("asked for '{asked}', got '{got}'")]
    OtherSolution {
        /// The choice's index and name.
        asked: String,
        /// What the library says it would run.
        got: String,
    },
    /// The weights could not be packed.
    #[error("weights not packed: {0}")]
    Pack(Error),
    /// The launch was refused before anything started.
    #[error("not started: {0}")]
    Launch(Error),
}

impl Fallback {
    /// The reason in one word, for counters.
    pub fn name(&self) -> &'static str {
        match self {
            Fallback::LibraryAbsent(_) => "library_absent",
            Fallback::BuildDiffers(_) => "build_differs",
            Fallback::Prepare(_) => "not_prepared",
            Fallback::OtherSolution { .. } => "other_solution",
            Fallback::Pack(_) => "not_packed",
            Fallback::Launch(_) => "not_started",
        }
    }
}

/// One problem, resolved.
pub(super) struct Resolved {
    pub problem: Problem,
    pub kind: HitKind,
    tuned_m: Option<u32>,
    /// The choice, made ready; `None` where nothing was found or it could not be.
    pub choice: Option<Box<dyn Prepared>>,
    fallback: OnceLock<Fallback>,
    baseline: OnceLock<Result<Box<dyn Prepared>, DispatchError>>,
    pub applied: AtomicU64,
    pub baseline_runs: AtomicU64,
}

impl Resolved {
    /// Looks `problem` up and makes its choice ready.
    pub fn new(shared: &Shared, problem: Problem) -> Resolved {
        let hit = shared.database.lookup(&problem, &shared.options.constraints);
        let prepared = hit.choice.map(|choice| prepare(shared.backend.libraries(), &problem, &choice.solution));
        let (choice, fallback) = match prepared {
            None => (None, None),
            Some(Ok(prepared)) => (Some(prepared), None),
            Some(Err(fallback)) => (None, Some(fallback)),
        };
        Resolved {
            problem,
            kind: hit.kind,
            tuned_m: hit.tuned_m,
            choice,
            fallback: fallback.map_or_else(OnceLock::new, OnceLock::from),
            baseline: OnceLock::new(),
            applied: AtomicU64::new(0),
            baseline_runs: AtomicU64::new(0),
        }
    }

    /// The choice, if it may run.
    #[inline]
    pub fn usable(&self) -> Option<&dyn Prepared> {
        match self.fallback.get() {
            None => self.choice.as_deref(),
            Some(_) => None,
        }
    }

    /// Notes that the choice does not work here: from now on the baseline runs.
    #[cold]
    pub fn give_up(&self, reason: Fallback) {
        // The first reason stands.
        let _ = self.fallback.set(reason);
    }

    /// Why the choice does not run, if one was found.
    pub fn fallback(&self) -> Option<&Fallback> {
        self.fallback.get()
    }

    /// Was the baseline asked for?
    pub fn has_baseline(&self) -> bool {
        self.baseline.get().is_some()
    }

    /// What runs without a choice; made ready on the first call.
    #[inline]
    pub fn baseline(&self, shared: &Shared) -> Result<&dyn Prepared, DispatchError> {
        let prepared = || prepare_baseline(&*shared.backend, &shared.options, self.problem);
        let baseline = self.baseline.get_or_init(prepared);
        baseline.as_deref().map_err(Clone::clone)
    }

    pub fn report(&self) -> ProblemReport {
        let baseline = self.baseline.get().and_then(|baseline| baseline.as_deref().ok());
        ProblemReport {
            problem: self.problem,
            kind: self.kind,
            tuned_m: self.tuned_m,
            solution: self.usable().or(baseline).map(|prepared| prepared.ran().clone()),
            fallback: self.fallback.get().cloned(),
            applied: self.applied.load(Ordering::Relaxed),
            baseline: self.baseline_runs.load(Ordering::Relaxed),
        }
    }
}

/// A solution as messages show it: index and name.
fn label(solution: &Solution) -> String {
    format!("{} {}", solution.index, solution.name)
}

/// Makes `solution` ready for `problem` with one of `libraries`.
///
/// # Errors
/// Why the caller's own way is to be gone instead.
pub fn prepare(
    libraries: &[Box<dyn Library>],
    problem: &Problem,
    solution: &Solution,
) -> Result<Box<dyn Prepared>, Fallback> {
    let library = libraries.iter().find(|library| library.build().library == solution.library());
    let library = library.ok_or_else(|| Fallback::LibraryAbsent(solution.library().to_owned()))?;
    // The database was admitted against an environment; what counts is the library that is open here.
    if let Some(difference) = solution.build.difference(library.build()) {
        return Err(Fallback::BuildDiffers(difference));
    }
    let prepared = library.prepare(problem, solution).map_err(Fallback::Prepare)?;
    let ran = prepared.ran();
    let same_name = solution.name.is_empty() || ran.name == solution.name;
    match ran.index == solution.index && same_name {
        true => Ok(prepared),
        false => Err(Fallback::OtherSolution { asked: label(solution), got: label(ran) }),
    }
}

/// All baselines for `problem`, the wanted one first. Whoever forbids packed weights may change them in place, so that none may
/// pack them: a library whose own way does is asked for the first that does not.
fn baselines(backend: &dyn Backend, options: &DispatchOptions, problem: &Problem) -> Vec<BaselineSolution> {
    let may_pack = options.constraints.weight_forms.contains(&WeightForm::Prepacked);
    let is_allowed = |solution: &Solution| may_pack || solution.weight_form != WeightForm::Prepacked;
    let mut all = Vec::new();
    for library in backend.libraries() {
        let own = library.baselines(problem, &Ask::default());
        let has_own = !own.is_empty();
        let before = all.len();
        all.extend(own.into_iter().filter(|baseline| is_allowed(&baseline.solution)));
        if has_own && all.len() == before {
            let listed = library.candidates(problem, Effort::Minimal, &Ask::default()).unwrap_or_default();
            let first = listed.into_iter().find(is_allowed);
            let via = library.build().library.clone();
            all.extend(first.map(|solution| BaselineSolution { via, solution }));
        }
    }
    if let Some(wanted) = &options.baseline {
        // A stable sort keeps the libraries' own order among the rest.
        all.sort_by_key(|baseline| match baseline.via == *wanted {
            true => 0,
            false if baseline.solution.library() == wanted => 1,
            false => 2,
        });
    }
    all
}

fn prepare_baseline(
    backend: &dyn Backend,
    options: &DispatchOptions,
    problem: Problem,
) -> Result<Box<dyn Prepared>, DispatchError> {
    let mut reasons = Vec::new();
    for BaselineSolution { via, solution } in baselines(backend, options, &problem) {
        let prepared = library(backend, solution.library()).map(|library| library.prepare(&problem, &solution));
        match prepared {
            Some(Ok(prepared)) => return Ok(prepared),
            Some(Err(error)) => reasons.push(format!("{via}: {error}")),
            None => {}
        }
    }
    let reason = if reasons.is_empty() { "none offers a baseline".to_owned() } else { reasons.join("; ") };
    Err(DispatchError::NoBaseline { problem: Box::new(problem), reason })
}

impl fmt::Debug for Resolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.problem, self.kind)
    }
}
