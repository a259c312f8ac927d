//! The first look at a problem's candidates: who lines up, what each look finds, and where the search goes on.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use tgemm_db::outcome::{ErrorFigures, Outcome, OutcomeKind, Phase, Sample};
use tgemm_db::solution::ALGO_PARAM;
use tgemm_db::{Problem, Solution, Trial};
use tgemm_kernels::measure::no_worse_than_baseline;

use super::contest::Terms;
use super::session::{Halt, Session};
use crate::worker::Candidate;

/// Share of a problem's time in which new candidates are still looked at; the rest is kept for the race.
const LOOK_SHARE: f64 = 0.6;

/// A candidate on its way to an outcome.
pub(super) struct Contender {
    pub(super) number: usize,
    pub(super) trial: Trial,
    pub(super) probe_us: Option<f64>,
    pub(super) settled: bool,
}

/// What two solutions of different problems share when they are "the same one": library, index, name, form, and the
/// parameters that name it (not hipBLASLt's bytes, which hold something of the problem too).
pub fn family(solution: &Solution) -> String {
    let named = solution.params.iter().filter(|(name, _)| *name != ALGO_PARAM);
    let params = named.fold(String::new(), |text, (name, value)| format!("{text};{name}={value}"));
    format!("{}|{}|{}|{params}|{}", solution.library(), solution.index, solution.name, solution.weight_form)
}

pub(super) fn is_in(contender: &Contender) -> bool {
    contender.trial.outcome.kind == OutcomeKind::Ok && contender.probe_us.is_some()
}

/// The candidates that the constraints admit, in the order in which they are looked at: baselines, earlier winners,
/// then one of each library in turn, so that a budget that ends early has seen all libraries.
pub(super) fn line_up(offered: Vec<Candidate>, earlier: &[Trial], terms: &Terms<'_>) -> Vec<Contender> {
    let mut turn: HashMap<String, usize> = HashMap::new();
    let mut keyed: Vec<_> = offered
        .into_iter()
        .enumerate()
        .filter(|(_, c)| c.baseline_via.is_some() || terms.constraints.refuse(&c.solution).is_none())
        .map(|(number, candidate)| {
            let turn = turn.entry(candidate.solution.library().to_owned()).or_default();
            *turn += 1;
            let wins = terms.wins.get(&family(&candidate.solution)).copied().unwrap_or(0);
            ((candidate.baseline_via.is_none(), u32::MAX - wins, *turn, number), candidate)
        })
        .collect();
    keyed.sort_by_key(|(key, _)| *key);
    keyed.into_iter().map(|((_, _, _, number), candidate)| enter(number, candidate, earlier)).collect()
}

/// A candidate at the start: with the failure that an earlier sweep found, or untried.
pub(super) fn enter(number: usize, candidate: Candidate, earlier: &[Trial]) -> Contender {
    let key = candidate.solution.key();
    let is_known = |t: &&Trial| t.outcome.kind.is_final_failure() && t.solution.key() == key;
    if let Some(trial) = earlier.iter().find(is_known) {
        return Contender { number, trial: trial.clone(), probe_us: None, settled: true };
    }
    let trial = Trial {
        solution: candidate.solution,
        baseline_via: candidate.baseline_via,
        outcome: Outcome::new(OutcomeKind::Untried, "the budget ended before its turn"),
        finalist: false,
        error: None,
        pack_us: None,
        samples: Vec::new(),
    };
    Contender { number, trial, probe_us: None, settled: false }
}

/// Best candidates around which the search goes on.
const SEARCHED_AROUND: usize = 3;

/// The first look at candidates: what is known while it goes on.
pub(super) struct Looking<'a> {
    problem: &'a Problem,
    terms: &'a Terms<'a>,
    /// When no new candidates are looked at any more.
    until: Option<Instant>,
    best_us: f64,
    baseline_error: Option<ErrorFigures>,
}

impl<'a> Looking<'a> {
    pub(super) fn new(problem: &'a Problem, terms: &'a Terms<'a>) -> Looking<'a> {
        let now = Instant::now();
        let until = terms.deadline.map(|end| now + end.saturating_duration_since(now).mul_f64(LOOK_SHARE));
        Looking { problem, terms, until, best_us: f64::INFINITY, baseline_error: None }
    }

    fn is_over(&self) -> bool {
        self.until.is_some_and(|end| Instant::now() >= end)
    }

    /// Looks at one candidate after the other.
    pub(super) fn look_at_all(
        &mut self,
        session: &mut Session,
        field: &mut [Contender],
        save: &mut dyn FnMut(&Trial),
    ) -> Result<(), Halt> {
        for contender in field.iter_mut().filter(|c| !c.settled) {
            // Without a baseline nothing can be compared: those get a look whatever the time.
            if contender.trial.baseline_via.is_none() && self.is_over() {
                save(&contender.trial);
                continue;
            }
            match self.look_at(session, contender) {
                Ok(()) | Err(Halt::BudgetOver) => save(&contender.trial),
                Err(halt) => return Err(halt),
            }
        }
        Ok(())
    }

    /// One candidate: loaded, checked, timed once. Those far behind are dropped at once, since packed weights cost memory.
    fn look_at(&mut self, session: &mut Session, contender: &mut Contender) -> Result<(), Halt> {
        let is_baseline = contender.trial.baseline_via.is_some();
        // What cannot be among the best is not worth a rotation of packed weights.
        let enough_us = if is_baseline { f64::INFINITY } else { self.best_us * self.terms.rules.prune_factor };
        let look = session.look(contender.number, enough_us)?;
        let trial = &mut contender.trial;
        // What runs is read back, but a row must be found again under the solution that was asked for.
        trial.solution.workspace_bytes = look.ran.workspace_bytes;
        trial.solution.graph_safe = look.graph_safe.or(trial.solution.graph_safe);
        (trial.outcome, trial.error, trial.pack_us) = (look.outcome, look.error, look.pack_us);
        if trial.solution.key() != look.ran.key() && trial.outcome.kind == OutcomeKind::Ok {
            trial.outcome = Outcome::new(OutcomeKind::Unsupported, format!("the library ran {} instead", look.ran));
        }
        if trial.outcome.kind == OutcomeKind::Ok
            && let (Some(error), Some(baseline)) = (&trial.error, &self.baseline_error)
            && !no_worse_than_baseline(self.problem, error, baseline)
        {
            let why = format!("error {:.2e}, the baseline's is {:.2e}", error.max_relative, baseline.max_relative);
            trial.outcome = Outcome::new(OutcomeKind::Wrong, why);
        }
        if trial.outcome.kind == OutcomeKind::Ok {
            contender.probe_us = look.probe_us;
            let time_us = look.probe_us.unwrap_or(f64::INFINITY);
            trial.samples = vec![Sample { phase: Phase::Probe, block: 0, time_us }];
            self.best_us = self.best_us.min(time_us);
            if is_baseline && self.baseline_error.is_none() {
                self.baseline_error = trial.error;
            }
            if !is_baseline && time_us > self.best_us * self.terms.rules.prune_factor {
                let behind = format!("{:.1}x the best", time_us / self.best_us);
                trial.outcome = Outcome::new(OutcomeKind::Pruned, behind);
                session.release(contender.number)?;
            }
        }
        Ok(())
    }

    /// Looks at the neighbours of the best, as long as that finds something better and there is time.
    pub(super) fn search_on(
        &mut self,
        session: &mut Session,
        field: &mut Vec<Contender>,
        earlier: &[Trial],
        save: &mut dyn FnMut(&Trial),
    ) -> Result<(), Halt> {
        let mut searched = HashSet::new();
        for _ in 0..self.terms.search_rounds {
            let before_us = self.best_us;
            for number in best(field, SEARCHED_AROUND) {
                if self.is_over() || !searched.insert(number) {
                    continue;
                }
                let near = match session.search_around(number) {
                    Ok(near) => near,
                    Err(Halt::BudgetOver) => return Ok(()),
                    Err(halt) => return Err(halt),
                };
                let from = field.len();
                for number in near {
                    let solution = session.solution(number).clone();
                    if self.terms.constraints.refuse(&solution).is_none() {
                        field.push(enter(number, Candidate { solution, baseline_via: None }, earlier));
                    }
                }
                self.look_at_all(session, &mut field[from..], save)?;
            }
            if self.best_us > before_us * (1.0 - self.terms.rules.min_gain) {
                break;
            }
        }
        Ok(())
    }
}

/// The numbers of the `count` fastest candidates by their probes.
fn best(field: &[Contender], count: usize) -> Vec<usize> {
    let mut probed: Vec<(f64, usize)> =
        field.iter().filter(|c| is_in(c)).filter_map(|c| Some((c.probe_us?, c.number))).collect();
    probed.sort_by(|a, b| a.0.total_cmp(&b.0));
    probed.into_iter().take(count).map(|(_, number)| number).collect()
}
