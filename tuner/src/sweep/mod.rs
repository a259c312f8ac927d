//! A sweep: every problem of a plan through its contest, everything found out stored at once, exactly resumable.

pub mod builds;
pub mod contest;
mod disturbances;
mod lane;
mod look;
pub mod mix;
pub mod order;
mod patience;
pub mod review;
pub mod session;

use std::time::Duration;

use tgemm_db::store::{RunId, Store, StoreError};
use tgemm_db::{Choice, Constraints, Environment, Recorded, Trial};
use tgemm_kernels::Effort;

pub use disturbances::Disturbances;
pub use lane::Watch;
pub use session::{BenchSettings, Halt, Session};

use crate::device;
use crate::plan::{Item, Plan};
use crate::race::Rules;
use crate::worker::Interrupt;
use contest::Contest;
use lane::{Lane, Lanes};

/// What a sweep works under.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Device as on the command line; a sweep takes several, see [`device::names`].
    pub device: String,
    /// How operands are made and candidates listed.
    pub bench: BenchSettings,
    /// What may be chosen.
    pub constraints: Constraints,
    /// The numbers of the race.
    pub rules: Rules,
    /// Time for the whole sweep; `None`: no limit.
    pub budget: Option<Duration>,
    /// How long one sample should take, microseconds.
    pub sample_us: f64,
    /// Tune problems again that have a choice already.
    pub again: bool,
    /// Library files that workers are to open; see [`builds::files`].
    pub library_files: Vec<builds::FileVar>,
}

/// One thing that happened, for whoever shows the sweep.
#[derive(Debug)]
pub enum Event<'a> {
    /// The device is open and the plan is made.
    Planned {
        /// Where.
        environment: &'a Environment,
        /// Libraries that could not be opened, with the reason.
        absent: &'a [(String, String)],
        /// What is to be done.
        plan: &'a Plan,
        /// Problems that have a choice already and are left alone.
        already_chosen: usize,
    },
    /// The next problem begins.
    Begun {
        /// Its place in the plan, from 0.
        number: usize,
        /// What.
        item: &'a Item,
        /// Where, as on the command line.
        device: &'a str,
    },
    /// A candidate has its outcome (and once more when the race is over).
    Tried {
        /// With everything about it.
        trial: &'a Trial,
    },
    /// Blocks of the problem that ends here were thrown away.
    Disturbed {
        /// Where, as on the command line.
        device: &'a str,
        /// How many.
        blocks: u32,
        /// By what, the last time.
        why: &'a str,
    },
    /// A problem is over.
    Finished {
        /// Its place in the plan, from 0.
        number: usize,
        /// What came of it.
        contest: &'a Contest,
    },
    /// A problem could not be set up at all.
    Impossible {
        /// What.
        item: &'a Item,
        /// Why not.
        why: &'a str,
    },
}

/// How a sweep ended.
#[derive(Debug, Default)]
pub struct Summary {
    /// Choices made in this run, in order.
    pub choices: Vec<Choice>,
    /// Problems left alone because they had a choice.
    pub already_chosen: usize,
    /// Problems without any right solution, with the reason.
    pub failed: Vec<(Recorded, String)>,
    /// Problems that the budget or the user left no time for.
    pub untouched: usize,
    /// Candidates that the budget left no time for.
    pub untried: usize,
    /// Did the user stop it?
    pub interrupted: bool,
    /// Blocks thrown away because something else was at work on the device.
    pub disturbances: Disturbances,
    /// Devices that could not be opened or were lost while others went on, with the reason.
    pub lost: Vec<(String, String)>,
}

/// Why a sweep could not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    /// The device cannot be opened, or was lost.
    #[error("{0}")]
    Device(String),
    /// The database cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Sweeps `recorded` (merged rows) into `store`, on every device of `settings` at once. `watch` is told everything as it
/// happens.
///
/// # Errors
/// Only what ends the whole sweep; what was finished before stays stored. A problem that fails is part of the summary, and so
/// is a device that is lost while others go on.
pub fn run<'a>(
    recorded: &'a [Recorded],
    store: &'a mut Store,
    run: RunId,
    settings: &'a Settings,
    interrupt: &'a Interrupt,
    watch: &'a mut Watch<'a>,
) -> Result<Summary, SweepError> {
    let devices = device::names(&settings.device).map_err(|e| SweepError::Device(e.to_string()))?;
    let lanes = Lanes::new(recorded, store, run, settings, interrupt, watch);
    let ended: Vec<(String, Lane)> = match &devices[..] {
        [device] => vec![(device.clone(), lanes.lane(device))],
        devices => std::thread::scope(|scope| {
            let lanes = &lanes;
            let running: Vec<_> = devices.iter().map(|device| scope.spawn(move || lanes.lane(device))).collect();
            let joined = devices.iter().cloned().zip(running).map(|(device, lane)| {
                let died = |_| (Summary::default(), Some(SweepError::Device("its thread died".into())));
                (device, lane.join().unwrap_or_else(died))
            });
            joined.collect()
        }),
    };
    let (untouched, already_chosen) = lanes.left_alone();
    sum(ended, Summary { untouched, already_chosen, ..Summary::default() })
}

/// All lanes together; a device that was lost is an error only if none is left, a database always.
fn sum(ended: Vec<(String, Lane)>, mut all: Summary) -> Result<Summary, SweepError> {
    let lanes = ended.len();
    for (device, (lane, error)) in ended {
        all.choices.extend(lane.choices);
        all.failed.extend(lane.failed);
        all.untouched += lane.untouched;
        all.untried += lane.untried;
        all.interrupted |= lane.interrupted;
        all.disturbances.add(lane.disturbances);
        match error {
            None => {}
            Some(SweepError::Device(why)) => all.lost.push((device, why)),
            Some(other) => return Err(other),
        }
    }
    match all.lost.first() {
        Some((_, why)) if all.lost.len() == lanes => Err(SweepError::Device(why.clone())),
        _ => Ok(all),
    }
}

/// Rounds of search around the best, by effort.
fn search_rounds(effort: Effort) -> u32 {
    match effort {
        Effort::Minimal => 0,
        Effort::Balanced => 1,
        Effort::Extensive => 2,
        Effort::Full => 4,
    }
}
