//! What runs for one problem: its choice made ready, or why there is none.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use tgemm_db::{Constraints, Numerics, Problem, WeightForm};
use tgemm_kernels::Backend as _;
use tgemm_kernels::gpu::attach::Attached;
use tgemm_kernels::{Launch as Failed, Prepared, Stream};
use tgemm_lookup::Database;
use tgemm_lookup::dispatch::{self, Fallback};
use tgemm_recorder::counters::Counter;

use super::launch::{Launch, Launched};

/// Most choices that are made ready before the first call: some 100 us each. Others follow as their problems come.
const READY_AT_START_MAX: usize = 4096;

/// What runs for one problem.
pub(super) struct Plan {
    /// The choice, ready; or what to count where the call goes its own way.
    ready: Result<Box<dyn Prepared>, Counter>,
    /// It refused once: never again.
    gave_up: AtomicBool,
}

/// What the shim lets a choice be: weights as the host holds them, sums as exact as the library's own.
fn constraints() -> Constraints {
    Constraints { weight_forms: BTreeSet::from([WeightForm::Plain]), ..Constraints::default() }
}

/// What anybody would let it be.
fn loosest() -> Constraints {
    Constraints {
        weight_forms: BTreeSet::from([WeightForm::Plain, WeightForm::Prepacked]),
        numerics: Numerics::Partial16,
        ..Constraints::default()
    }
}

impl Plan {
    fn make(problem: &Problem, database: &Database, attached: &Attached) -> Plan {
        Plan { ready: Plan::ready(problem, database, attached), gave_up: AtomicBool::new(false) }
    }

    fn ready(problem: &Problem, database: &Database, attached: &Attached) -> Result<Box<dyn Prepared>, Counter> {
        let Some(choice) = database.lookup(problem, &constraints()).choice else {
            let is_there = database.lookup(problem, &loosest()).choice.is_some();
            return Err(if is_there { Counter::MissedConstraint } else { Counter::MissedNotTuned });
        };
        if choice.is_baseline() {
            return Err(Counter::LeftAsIs);
        }
        if choice.solution.graph_safe == Some(false) {
            // The same call may be captured later, and what was captured must be what was checked.
            return Err(Counter::MissedConstraint);
        }
        dispatch::prepare(attached.libraries(), problem, &choice.solution).map_err(|why| match why {
            Fallback::BuildDiffers(_) => Counter::FallenBackBuildDiffers,
            _ => Counter::FallenBackNotPrepared,
        })
    }

    /// What keeps `on` from having the choice, if anything does.
    pub(super) fn missed(&self, on: &Launch) -> Option<Counter> {
        match &self.ready {
            Err(why) => Some(*why),
            Ok(_) if self.gave_up.load(Ordering::Relaxed) => Some(Counter::FallenBackNotStarted),
            Ok(ready) if ready.workspace_bytes() > on.io.workspace_bytes => Some(Counter::MissedWorkspace),
            Ok(_) => None,
        }
    }

    /// Runs the choice on the operands of `on`.
    ///
    /// # Errors
    /// What to count; nothing was enqueued.
    pub(super) fn run(&self, on: &Launch) -> Result<Launched, Counter> {
        if let Some(why) = self.missed(on) {
            return Err(why);
        }
        let ready = self.ready.as_ref().map_err(|why| *why)?;
        // SAFETY: these are the operands of the host's own call of this very problem, and its workspace, which is large
        // enough; the choice takes plain weights.
        match unsafe { ready.launch(&on.io, Stream(on.stream)) } {
            Ok(()) => Ok(Launched::Enqueued),
            Err(Failed::NotEnqueued(_)) => {
                self.gave_up.store(true, Ordering::Relaxed);
                Err(Counter::FallenBackNotStarted)
            }
            Err(Failed::MayHaveRun(_)) => Ok(Launched::Failed(on.failed_status)),
        }
    }
}

/// The plans of a device by problem. Plans live as long as the process.
pub(super) struct Known(Mutex<HashMap<Problem, &'static Plan>>);

impl Known {
    /// Those of the choices in `database`.
    pub(super) fn of(database: &Database, attached: &Attached) -> Known {
        let problems = database.choices().iter().take(READY_AT_START_MAX).map(|choice| choice.problem);
        let made = problems.map(|problem| {
            let plan: &'static Plan = Box::leak(Box::new(Plan::make(&problem, database, attached)));
            (problem, plan)
        });
        Known(Mutex::new(made.collect()))
    }

    /// The plan of `problem`, made if it may be.
    ///
    /// # Errors
    /// It would have to be made now, and may not.
    pub(super) fn find(
        &self,
        problem: &Problem,
        database: &Database,
        attached: &Attached,
        may_make: bool,
    ) -> Result<&'static Plan, Counter> {
        // Plans are whole before they go in: a panic elsewhere leaves nothing broken behind it.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = known.get(problem) {
            return Ok(plan);
        }
        if !may_make {
            let is_there = database.lookup(problem, &loosest()).choice.is_some();
            return Err(if is_there { Counter::MissedUnderCapture } else { Counter::MissedNotTuned });
        }
        let plan = Box::leak(Box::new(Plan::make(problem, database, attached)));
        known.insert(*problem, plan);
        Ok(plan)
    }
}
