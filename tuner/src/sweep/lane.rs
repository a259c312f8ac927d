//! The lanes of a sweep: one a device. Devices of one kind share a plan, and whichever is free takes the next problem.
//!
//! Each lane keeps to one thread from the start of its first worker to the end of its last: a worker dies with the thread
//! that started it.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tgemm_db::outcome::OutcomeKind;
use tgemm_db::store::{EnvironmentId, RunId, Store, StoreError};
use tgemm_db::{Environment, Problem, Recorded, Trial};
use tgemm_kernels::Ask;

use super::contest::{self, Contest, Terms};
use super::session::{Halt, Session};
use super::{Disturbances, Event, Settings, Summary, SweepError, look, search_rounds};
use crate::plan::{self, Item, Plan};
use crate::worker::Interrupt;

/// Who is told everything as it happens, from whichever lane.
pub type Watch<'a> = dyn FnMut(Event<'_>) + Send + 'a;

/// What all lanes share.
pub(super) struct Lanes<'a> {
    recorded: &'a [Recorded],
    run: RunId,
    settings: &'a Settings,
    interrupt: &'a Interrupt,
    end: Option<Instant>,
    store: Mutex<&'a mut Store>,
    watch: Mutex<&'a mut Watch<'a>>,
    groups: Mutex<Vec<Arc<Group>>>,
    /// The database failed: nothing more is worth measuring.
    broken: AtomicBool,
}

/// Devices of one kind and the plan that they share.
struct Group {
    environment: EnvironmentId,
    plan: Plan,
    already_chosen: usize,
    /// The first problem that nobody has taken.
    next: AtomicUsize,
    /// How many devices take part.
    lanes: AtomicUsize,
    /// How often each solution won, whichever device found it.
    wins: Mutex<HashMap<String, u32>>,
}

impl Group {
    fn left(&self) -> usize {
        self.plan.items.len().saturating_sub(self.next.load(Ordering::Relaxed))
    }
}

/// What one lane came to; the error, if any, ended it.
pub(super) type Lane = (Summary, Option<SweepError>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Lanes<'a> {
    pub(super) fn new(
        recorded: &'a [Recorded],
        store: &'a mut Store,
        run: RunId,
        settings: &'a Settings,
        interrupt: &'a Interrupt,
        watch: &'a mut Watch<'a>,
    ) -> Lanes<'a> {
        Lanes {
            recorded,
            run,
            settings,
            interrupt,
            end: settings.budget.map(|budget| Instant::now() + budget),
            store: Mutex::new(store),
            watch: Mutex::new(watch),
            groups: Mutex::default(),
            broken: AtomicBool::new(false),
        }
    }

    fn tell(&self, event: Event<'_>) {
        (*lock(&self.watch))(event);
    }

    /// Problems that no lane took, and those that were chosen before.
    pub(super) fn left_alone(&self) -> (usize, usize) {
        let groups = lock(&self.groups);
        if groups.is_empty() {
            return (self.recorded.len(), 0);
        }
        groups.iter().fold((0, 0), |(left, chosen), group| (left + group.left(), chosen + group.already_chosen))
    }

    /// Sweeps on `device` until nothing is left for it.
    pub(super) fn lane(&self, device: &str) -> Lane {
        let mut summary = Summary::default();
        let error = self.lane_into(device, &mut summary).err();
        if let Some(SweepError::Store(_)) = &error {
            self.broken.store(true, Ordering::Relaxed);
        }
        (summary, error)
    }

    fn lane_into(&self, device: &str, summary: &mut Summary) -> Result<(), SweepError> {
        let settings = self.settings;
        let mut session = Session::new(device, settings.bench.clone(), settings.sample_us, self.interrupt.clone());
        session.set_library_files(settings.library_files.clone());
        let (environment, absent) = match session.open() {
            Ok(opened) => opened,
            Err(Halt::Interrupted) => {
                summary.interrupted = true;
                return Ok(());
            }
            Err(halt) => return Err(SweepError::Device(halt.to_string())),
        };
        session.set_deadline(self.end);
        let group = match self.join(&mut session, &environment, &absent)? {
            Ok(group) => group,
            Err(Halt::Device(why)) => return Err(SweepError::Device(why)),
            Err(_) => {
                summary.interrupted = self.interrupt.is_set();
                return Ok(());
            }
        };
        while let Some((number, item, slice)) = self.take(&group) {
            self.tell(Event::Begun { number, item, device });
            let wins = lock(&group.wins).clone();
            let terms = Terms {
                constraints: &settings.constraints,
                rules: &settings.rules,
                seed: settings.bench.seed,
                deadline: slice.map(|slice| Instant::now() + slice),
                search_rounds: search_rounds(settings.bench.effort),
                wins: &wins,
            };
            let disturbed_before = session.disturbances().blocks;
            let ended = self.one(&mut session, &environment, group.environment, item, &terms)?;
            let Disturbances { blocks, last, .. } = session.disturbances();
            if *blocks > disturbed_before {
                self.tell(Event::Disturbed { device, blocks: blocks - disturbed_before, why: last });
            }
            match ended {
                Ok(contest) => {
                    if let Some(choice) = &contest.choice {
                        *lock(&group.wins).entry(look::family(&choice.solution)).or_insert(0) += 1;
                    }
                    account(summary, item, &contest);
                    self.tell(Event::Finished { number, contest: &contest });
                }
                Err(Halt::Problem(why)) => {
                    self.tell(Event::Impossible { item, why: &why });
                    summary.failed.push((item.recorded.clone(), why));
                }
                Err(Halt::BudgetOver) => summary.untouched += 1,
                Err(Halt::Interrupted) => {
                    summary.untouched += 1;
                    break;
                }
                Err(Halt::Device(why)) => {
                    summary.untouched += 1;
                    return Err(SweepError::Device(why));
                }
            }
        }
        summary.interrupted = self.interrupt.is_set();
        summary.disturbances = session.disturbances().clone();
        Ok(())
    }

    /// Joins the devices of the same kind, or makes the plan as the first of them.
    fn join(
        &self,
        session: &mut Session,
        environment: &Environment,
        absent: &[(String, String)],
    ) -> Result<Result<Arc<Group>, Halt>, StoreError> {
        let mut groups = lock(&self.groups);
        let id = lock(&self.store).environment(environment)?;
        if let Some(group) = groups.iter().find(|group| group.environment == id) {
            group.lanes.fetch_add(1, Ordering::Relaxed);
            return Ok(Ok(Arc::clone(group)));
        }
        let chosen = self.workspaces(id)?;
        let mut done = HashSet::new();
        for (row, asks) in plan::by_problem(self.recorded) {
            let workspace_bytes_max = asks.iter().filter_map(|ask| ask.workspace_bytes_max).min().unwrap_or(u64::MAX);
            if chosen.get(&row.problem).is_some_and(|&used| used > workspace_bytes_max) {
                continue;
            }
            match self.is_done(session, id, &row.problem, &asks)? {
                Ok(false) => {}
                Ok(true) => {
                    done.insert(row.problem);
                }
                Err(halt) => return Ok(Err(halt)),
            }
        }
        let todo: Vec<Recorded> = self.recorded.iter().filter(|row| !done.contains(&row.problem)).cloned().collect();
        let group = Arc::new(Group {
            environment: id,
            already_chosen: done.len(),
            plan: plan::plan(&todo, &environment.device),
            next: AtomicUsize::new(0),
            lanes: AtomicUsize::new(1),
            wins: Mutex::default(),
        });
        let (plan, already_chosen) = (&group.plan, group.already_chosen);
        self.tell(Event::Planned { environment, absent, plan, already_chosen });
        groups.push(Arc::clone(&group));
        Ok(Ok(group))
    }

    /// The workspace of each choice there is; empty where no recorded problem limits it.
    fn workspaces(&self, id: EnvironmentId) -> Result<HashMap<Problem, u64>, StoreError> {
        if self.recorded.iter().all(|row| row.workspace_bytes_max.is_none()) {
            return Ok(HashMap::new());
        }
        let stored = lock(&self.store).choices_with_environment()?;
        let here = stored
            .into_iter()
            .filter(|stored| stored.environment_id == id && *stored.constraints == self.settings.constraints);
        Ok(here.map(|stored| (stored.choice.problem, stored.choice.solution.workspace_bytes)).collect())
    }

    /// Is this problem done: chosen, with no candidate left untried, and held against the baselines of all the ways in which
    /// it is asked for now? A recording may come later that asks through another API.
    fn is_done(
        &self,
        session: &mut Session,
        id: EnvironmentId,
        problem: &Problem,
        asks: &[Ask],
    ) -> Result<Result<bool, Halt>, StoreError> {
        if self.settings.again {
            return Ok(Ok(false));
        }
        let trials = {
            let store = lock(&self.store);
            if !store.has_choice(id, &self.settings.constraints, problem)? {
                return Ok(Ok(false));
            }
            store.trials(id, problem)?
        };
        if trials.iter().any(|trial| trial.outcome.kind == OutcomeKind::Untried) {
            return Ok(Ok(false));
        }
        let raced = |t: &&Trial| t.baseline_via.is_some() || t.outcome.kind.is_final_failure();
        let known: HashSet<String> = trials.iter().filter(raced).map(|trial| look::family(&trial.solution)).collect();
        let baselines = match session.baselines(problem, asks) {
            Ok(baselines) => baselines,
            Err(halt) => return Ok(Err(halt)),
        };
        Ok(Ok(baselines.iter().all(|baseline| known.contains(&look::family(baseline)))))
    }

    /// The next problem with its place in the plan and its time; `None` when it is time to stop.
    fn take<'g>(&self, group: &'g Group) -> Option<(usize, &'g Item, Option<Duration>)> {
        let now = Instant::now();
        let stop = self.interrupt.is_set() || self.broken.load(Ordering::Relaxed);
        if stop || self.end.is_some_and(|end| now >= end) {
            return None;
        }
        let number = group.next.fetch_add(1, Ordering::Relaxed);
        let left = group.plan.items.get(number..).filter(|left| !left.is_empty())?;
        // Several lanes have as many times the time, but none has more than there is.
        let lanes = group.lanes.load(Ordering::Relaxed) as u32;
        let slice = self.end.map(|end| {
            let remaining = end.saturating_duration_since(now);
            plan::slice(left, remaining * lanes).min(remaining)
        });
        left.first().map(|item| (number, item, slice))
    }

    /// One problem: its contest, every trial stored as it comes, its choice last.
    fn one(
        &self,
        session: &mut Session,
        environment: &Environment,
        id: EnvironmentId,
        item: &Item,
        terms: &Terms<'_>,
    ) -> Result<Result<Contest, Halt>, StoreError> {
        let problem = &item.recorded.problem;
        let earlier = if self.settings.again { Vec::new() } else { lock(&self.store).trials(id, problem)? };
        let mut failure = None;
        let contest = {
            let mut save = |trial: &Trial| {
                self.tell(Event::Tried { trial });
                if failure.is_none() {
                    failure = lock(&self.store).save_trial(self.run, id, problem, trial).err();
                }
            };
            contest::run(session, environment, item, &earlier, terms, &mut save)
        };
        if let Some(failure) = failure {
            return Err(failure);
        }
        if let Ok(Contest { choice: Some(choice), .. }) = &contest {
            lock(&self.store).save_choice(self.run, id, terms.constraints, choice)?;
        }
        Ok(contest)
    }
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
