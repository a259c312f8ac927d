//! A sweep: every problem of a plan through its contest, everything found out stored at once, exactly resumable.

pub mod contest;
mod look;
pub mod review;
pub mod session;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tgemm_db::outcome::OutcomeKind;
use tgemm_db::store::{EnvironmentId, RunId, Store, StoreError};
use tgemm_db::{Choice, Constraints, Environment, Recorded, Trial};
use tgemm_kernels::Effort;

pub use session::{BenchSettings, Disturbances, Halt, Session};

use crate::plan::{self, Item, Plan};
use crate::race::Rules;
use crate::worker::Interrupt;
use contest::{Contest, Terms};

/// What a sweep works under.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Device as on the command line.
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
    },
    /// A candidate has its outcome (and once more when the race is over).
    Tried {
        /// With everything about it.
        trial: &'a Trial,
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

/// Where a sweep's results go.
struct Ledger<'a> {
    store: &'a mut Store,
    run: RunId,
    environment: EnvironmentId,
}

impl Ledger<'_> {
    /// Is this problem done: chosen, with no candidate left untried?
    fn is_done(&self, constraints: &Constraints, row: &Recorded) -> Result<bool, StoreError> {
        if !self.store.has_choice(self.environment, constraints, &row.problem)? {
            return Ok(false);
        }
        let trials = self.store.trials(self.environment, &row.problem)?;
        Ok(trials.iter().all(|trial| trial.outcome.kind != OutcomeKind::Untried))
    }
}

/// Sweeps `recorded` (merged rows) into `store`. `watch` is told everything as it happens.
///
/// # Errors
/// Only what ends the whole sweep; what was finished before stays stored. A problem that fails is part of the summary.
pub fn run(
    recorded: &[Recorded],
    store: &mut Store,
    run: RunId,
    settings: &Settings,
    interrupt: &Interrupt,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<Summary, SweepError> {
    let started = Instant::now();
    let mut session = Session::new(&settings.device, settings.bench.clone(), settings.sample_us, interrupt.clone());
    let (environment, absent) = match session.open() {
        Ok(opened) => opened,
        Err(Halt::Interrupted) => {
            return Ok(Summary { interrupted: true, untouched: recorded.len(), ..Summary::default() });
        }
        Err(halt) => return Err(SweepError::Device(halt.to_string())),
    };
    let environment_id = store.environment(&environment)?;
    let mut ledger = Ledger { store, run, environment: environment_id };
    let mut todo = Vec::new();
    for row in recorded {
        if settings.again || !ledger.is_done(&settings.constraints, row)? {
            todo.push(row.clone());
        }
    }
    let mut summary = Summary { already_chosen: recorded.len() - todo.len(), ..Summary::default() };
    let plan = plan::plan(&todo, &environment.device);
    watch(Event::Planned {
        environment: &environment,
        absent: &absent,
        plan: &plan,
        already_chosen: summary.already_chosen,
    });

    let end = settings.budget.map(|budget| started + budget);
    session.set_deadline(end);
    let mut wins = HashMap::new();
    for (number, item) in plan.items.iter().enumerate() {
        let now = Instant::now();
        if interrupt.is_set() || end.is_some_and(|end| now >= end) {
            summary.interrupted = interrupt.is_set();
            summary.untouched = plan.items.len() - number;
            break;
        }
        let slice_end = end.map(|end| now + plan::slice(&plan.items[number..], end.saturating_duration_since(now)));
        watch(Event::Begun { number, item });
        let terms = Terms {
            constraints: &settings.constraints,
            rules: &settings.rules,
            seed: settings.bench.seed,
            deadline: slice_end,
            search_rounds: search_rounds(settings.bench.effort),
            wins: &wins,
        };
        match one(&mut session, &environment, item, &terms, settings.again, &mut ledger, watch)? {
            Ok(contest) => {
                if let Some(choice) = &contest.choice {
                    *wins.entry(look::family(&choice.solution)).or_insert(0) += 1;
                }
                account(&mut summary, item, &contest);
                watch(Event::Finished { number, contest: &contest });
            }
            Err(Halt::Problem(why)) => {
                watch(Event::Impossible { item, why: &why });
                summary.failed.push((item.recorded.clone(), why));
            }
            Err(Halt::BudgetOver) => summary.untouched += 1,
            Err(Halt::Interrupted) => {
                summary.interrupted = true;
                summary.untouched = plan.items.len() - number;
                break;
            }
            Err(Halt::Device(why)) => return Err(SweepError::Device(why)),
        }
    }
    summary.disturbances = session.disturbances().clone();
    Ok(summary)
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

/// One problem: its contest, every trial stored as it comes, its choice last.
fn one(
    session: &mut Session,
    environment: &Environment,
    item: &Item,
    terms: &Terms<'_>,
    again: bool,
    ledger: &mut Ledger<'_>,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<Result<Contest, Halt>, StoreError> {
    let problem = &item.recorded.problem;
    let earlier = if again { Vec::new() } else { ledger.store.trials(ledger.environment, problem)? };
    let mut failure = None;
    let contest = {
        let mut save = |trial: &Trial| {
            watch(Event::Tried { trial });
            if failure.is_none() {
                failure = ledger.store.save_trial(ledger.run, ledger.environment, problem, trial).err();
            }
        };
        contest::run(session, environment, item, &earlier, terms, &mut save)
    };
    if let Some(failure) = failure {
        return Err(failure);
    }
    if let Ok(Contest { choice: Some(choice), .. }) = &contest {
        ledger.store.save_choice(ledger.run, ledger.environment, terms.constraints, choice)?;
    }
    Ok(contest)
}

fn account(summary: &mut Summary, item: &Item, contest: &Contest) {
    let untried = contest.trials.iter().filter(|t| t.outcome.kind == OutcomeKind::Untried).count();
    summary.untried += untried;
    match &contest.choice {
        Some(choice) => summary.choices.push(choice.clone()),
        None if untried > 0 && untried == contest.trials.len() => summary.untouched += 1,
        None => summary.failed.push((item.recorded.clone(), why_none(contest))),
    }
}

/// Why no candidate could be chosen, in one line.
fn why_none(contest: &Contest) -> String {
    if contest.trials.is_empty() {
        return "no library here offers a solution for it".into();
    }
    let reasons: Vec<String> = contest
        .trials
        .iter()
        .filter(|t| t.outcome.kind != OutcomeKind::Untried)
        .map(|t| format!("{}: {} {}", t.solution, t.outcome.kind, t.outcome.detail))
        .collect();
    format!("none of {} candidates gave a right result ({})", contest.trials.len(), reasons.join("; "))
}
