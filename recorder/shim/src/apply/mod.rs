//! Tuned choices in the place of a library's own: which, and whether a call may have it.
//!
//! | variable | meaning |
//! |---|---|
//! | `TGEMM_APPLY=1` | apply; `dry` looks up and counts only |
//! | `TGEMM_DB` | the databases, `:`-separated, the first counts most |
//!
//! Choices are made ready when a device is first seen at a call, and one by one for problems that come later, but never while
//! anything is captured: making ready allocates. A call gets a choice only within the workspace that it brought, with sums as
//! exact as the library's own. What refuses before it has enqueued anything gives the call back, once and for all; what may
//! have run does not, since beta would be added twice.

mod launch;
mod plan;

use std::path::PathBuf;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use tgemm_kernels::Backend as _;
use tgemm_kernels::gpu::attach::{self, Attached};
use tgemm_lookup::load::ENV_DATABASES;
use tgemm_lookup::{Database, Levels};
use tgemm_recorder::counters::{Counter, Counters};
use tgemm_recorder::{Entry, PROBLEMS_MAX};
use tgemm_vendor::gpu::{Dialect, Runtime};

pub use launch::{Launch, Launched, factors};
use plan::{Known, Plan};

use crate::captures;
use crate::stream::capture_of;

/// Most devices of one process.
const DEVICES_MAX: usize = 64;

/// What is applied in this process.
pub struct Applier {
    is_dry: bool,
    files: Vec<PathBuf>,
    runtimes: [OnceLock<Option<Runtime>>; 2],
    devices: [[OnceLock<Option<Ready>>; DEVICES_MAX]; 2],
}

/// A device with its choices.
struct Ready {
    database: Database,
    attached: Attached,
    known: Known,
    /// The plan of each entry of the recorder, by its number.
    plans: Box<[AtomicPtr<Plan>]>,
}

impl Applier {
    /// What the environment asks for; `None`: nothing.
    pub fn from_env() -> Option<Applier> {
        let mode = std::env::var_os("TGEMM_APPLY")?;
        if matches!(mode.to_str(), Some("" | "0" | "false" | "off" | "no")) {
            return None;
        }
        let databases = std::env::var_os(ENV_DATABASES).unwrap_or_default();
        let files: Vec<PathBuf> =
            std::env::split_paths(&databases).filter(|file| !file.as_os_str().is_empty()).collect();
        Some(Applier {
            is_dry: mode == "dry",
            files,
            runtimes: [const { OnceLock::new() }; 2],
            devices: [const { [const { OnceLock::new() }; DEVICES_MAX] }; 2],
        })
    }

    /// Runs the choice for `entry` in the place of the call that `on` is, if there is one and it may be. `None`: the call is to
    /// go its way.
    pub fn run(&self, counters: &Counters, dialect: Dialect, entry: &Entry, on: &Launch) -> Option<Launched> {
        let plan = match self.plan(dialect, entry, on) {
            Ok(plan) => plan,
            Err(why) => {
                counters.add(why, 1);
                return None;
            }
        };
        if self.is_dry {
            counters.add(plan.missed(on).unwrap_or(Counter::DryHit), 1);
            return None;
        }
        match plan.run(on) {
            Ok(launched) => {
                counters.add(Counter::Applied, 1);
                Some(launched)
            }
            Err(why) => {
                counters.add(why, 1);
                None
            }
        }
    }

    fn plan(&self, dialect: Dialect, entry: &Entry, on: &Launch) -> Result<&'static Plan, Counter> {
        let at = dialect.pick(0, 1);
        // Everything that is made below is made outside of captures. The stream is asked too: a program with the runtime in
        // itself begins captures that are not seen.
        let may_make = || !captures::any() && capture_of(dialect, on.stream as usize).is_none();
        let runtime = match self.runtimes[at].get() {
            Some(runtime) => runtime.as_ref(),
            None if may_make() => self.runtimes[at].get_or_init(|| attach::runtime(dialect).ok()).as_ref(),
            None => return Err(Counter::MissedUnderCapture),
        };
        let device = runtime.and_then(|runtime| runtime.current_device().ok()).ok_or(Counter::MissedNotTuned)?;
        let slot = self.devices[at].get(device as usize).ok_or(Counter::MissedNotTuned)?;
        let ready = match slot.get() {
            Some(ready) => ready.as_ref(),
            None if may_make() => slot.get_or_init(|| self.open(dialect, device)).as_ref(),
            None => return Err(Counter::MissedUnderCapture),
        };
        ready.ok_or(Counter::MissedNotTuned)?.plan(entry, may_make)
    }

    /// Reads the databases for the current device.
    fn open(&self, dialect: Dialect, device: u32) -> Option<Ready> {
        let attached = match Attached::to_current(dialect) {
            Ok(attached) => attached,
            Err(error) => {
                tgemm_recorder::warn(&format!("nothing is applied: {error}"));
                return None;
            }
        };
        let (database, report) = Database::open(&self.files, attached.environment());
        // Only what was measured at this very problem: a neighbour's choice may be slower than what the host has.
        let database = database.with_levels(Levels::EXACT);
        if database.is_empty() || report.files.iter().any(|file| file.error.is_some()) {
            tgemm_recorder::warn(&format!("for {dialect}:{device}: {report}"));
        }
        let plans = (0..PROBLEMS_MAX).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
        let known = Known::of(&database, &attached);
        Some(Ready { database, attached, known, plans })
    }
}

impl Ready {
    fn plan(&self, entry: &Entry, may_make: impl FnOnce() -> bool) -> Result<&'static Plan, Counter> {
        let slot = &self.plans[entry.number()];
        // SAFETY: a slot holds null or a plan that is never freed; Acquire pairs with the Release below.
        if let Some(plan) = unsafe { slot.load(Ordering::Acquire).as_ref() } {
            return Ok(plan);
        }
        let plan = self.known.find(&entry.asked().problem, &self.database, &self.attached, may_make())?;
        slot.store(ptr::from_ref(plan).cast_mut(), Ordering::Release);
        Ok(plan)
    }
}
