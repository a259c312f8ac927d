//! One problem from its list of candidates to its choice.

use std::collections::HashMap;
use std::time::Instant;

use tgemm_db::choice::Baseline;
use tgemm_db::outcome::{Outcome, OutcomeKind, Phase, Sample};
use tgemm_db::{Choice, Constraints, Environment, Problem, Recorded, Solution, Trial, WeightForm};
use tgemm_kernels::measure::no_worse_than_baseline;

use super::session::{BlockResult, Halt, Session};
use crate::race::{Entrant, Race, Rules, Standing, Step};
use crate::worker::Candidate;

/// Share of a problem's time in which new candidates are still looked at; the rest is kept for the race.
const LOOK_SHARE: f64 = 0.6;

/// What a contest works under.
pub struct Terms<'a> {
    /// What the user allows.
    pub constraints: &'a Constraints,
    /// The numbers of the race.
    pub rules: &'a Rules,
    /// Seed of shuffles and of the confirmation's operands.
    pub seed: u64,
    /// When this problem's time is up; `None`: no limit.
    pub deadline: Option<Instant>,
    /// How often each solution (by [`family`]) won before: those are looked at first.
    pub wins: &'a HashMap<String, u32>,
}

/// What came of one problem.
#[derive(Debug)]
pub struct Contest {
    /// Every candidate with its one outcome.
    pub trials: Vec<Trial>,
    /// The choice; `None` if no candidate gave a right result.
    pub choice: Option<Choice>,
    /// Was the choice re-measured on fresh buffers?
    pub confirmed: bool,
}

/// A candidate on its way to an outcome.
struct Contender {
    number: usize,
    trial: Trial,
    probe_us: Option<f64>,
    settled: bool,
}

/// What two solutions of different problems share when they are "the same one": library, name, parameters, form.
pub fn family(solution: &Solution) -> String {
    format!("{}|{}|{}|{}", solution.library(), solution.name, solution.params, solution.weight_form)
}

/// Runs the contest of one problem. `earlier` are the trials of a sweep that was cut short: final failures among them
/// are not tried again. `save` is told each trial as soon as its outcome is known, and again when it has grown.
///
/// # Errors
/// A [`Halt`] that ends more than this problem; everything found out before it has been saved.
pub fn run(
    session: &mut Session,
    environment: &Environment,
    recorded: &Recorded,
    earlier: &[Trial],
    terms: &Terms<'_>,
    save: &mut dyn FnMut(&Trial),
) -> Result<Contest, Halt> {
    let problem = &recorded.problem;
    let offered = session.turn_to(problem)?;
    let mut field = line_up(offered, earlier, terms);
    look_at_all(session, problem, &mut field, terms, save)?;
    let entered: Vec<usize> = (0..field.len()).filter(|&i| is_in(&field[i])).collect();
    let (race, arms) = race(session, &mut field, &entered, terms)?;
    settle(&race, &arms, &mut field, save);
    let conclusion = race.conclude();
    let confirmed = conclusion.as_ref().is_some_and(|c| c.confirmed);
    let choice = conclusion.map(|end| {
        let contender = &field[arms[end.chosen]];
        let baselines = end.baselines.iter().map(|&(arm, time_us)| {
            let trial = &field[arms[arm]].trial;
            Baseline { via: trial.baseline_via.clone().unwrap_or_default(), solution: trial.solution.clone(), time_us }
        });
        Choice {
            problem: *problem,
            device: environment.device.clone(),
            solution: contender.trial.solution.clone(),
            time_us: end.time_us,
            ratio: end.ratio,
            verdict: end.verdict,
            baselines: baselines.collect(),
            error_over_bound: contender.trial.error.map_or(0.0, |e| e.max_over_bound),
            err_ratio: contender.trial.error.map_or(0.0, |e| e.share_beyond),
            pack_us: contender.trial.pack_us,
            count: recorded.count,
            tuned_at: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            origin: None,
        }
    });
    Ok(Contest { trials: field.into_iter().map(|c| c.trial).collect(), choice, confirmed })
}

fn is_in(contender: &Contender) -> bool {
    contender.trial.outcome.kind == OutcomeKind::Ok && contender.probe_us.is_some()
}

/// The candidates that the constraints admit, in the order in which they are looked at: baselines, earlier winners,
/// then one of each library in turn, so that a budget that ends early has seen all libraries.
fn line_up(offered: Vec<Candidate>, earlier: &[Trial], terms: &Terms<'_>) -> Vec<Contender> {
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
    let known = |solution: &Solution| {
        earlier.iter().find(|t| t.outcome.kind.is_final_failure() && t.solution.key() == solution.key())
    };
    keyed
        .into_iter()
        .map(|((_, _, _, number), candidate)| match known(&candidate.solution) {
            Some(trial) => Contender { number, trial: trial.clone(), probe_us: None, settled: true },
            None => {
                let outcome = Outcome::new(OutcomeKind::Untried, "the budget ended before its turn");
                let trial = Trial {
                    solution: candidate.solution,
                    baseline_via: candidate.baseline_via,
                    outcome,
                    finalist: false,
                    error: None,
                    pack_us: None,
                    samples: Vec::new(),
                };
                Contender { number, trial, probe_us: None, settled: false }
            }
        })
        .collect()
}

/// Looks at one candidate after the other; those far behind are dropped at once, since packed weights cost memory.
fn look_at_all(
    session: &mut Session,
    problem: &Problem,
    field: &mut [Contender],
    terms: &Terms<'_>,
    save: &mut dyn FnMut(&Trial),
) -> Result<(), Halt> {
    let started = Instant::now();
    let look_until = terms.deadline.map(|end| started + end.saturating_duration_since(started).mul_f64(LOOK_SHARE));
    let mut best_us = f64::INFINITY;
    let mut baseline_error = None;
    for contender in field.iter_mut().filter(|c| !c.settled) {
        let is_baseline = contender.trial.baseline_via.is_some();
        // Without a baseline nothing can be compared: those get a look whatever the time.
        if !is_baseline && look_until.is_some_and(|end| Instant::now() >= end) {
            save(&contender.trial);
            continue;
        }
        // What cannot be among the best is not worth a rotation of packed weights.
        let enough_us = if is_baseline { f64::INFINITY } else { best_us * terms.rules.prune_factor };
        let look = match session.look(contender.number, enough_us) {
            Ok(look) => look,
            Err(Halt::BudgetOver) => {
                save(&contender.trial);
                continue;
            }
            Err(halt) => return Err(halt),
        };
        let trial = &mut contender.trial;
        // What runs is read back, but a row must be found again under the solution that was asked for.
        trial.solution.workspace_bytes = look.ran.workspace_bytes;
        (trial.outcome, trial.error, trial.pack_us) = (look.outcome, look.error, look.pack_us);
        if trial.solution.key() != look.ran.key() && trial.outcome.kind == OutcomeKind::Ok {
            trial.outcome = Outcome::new(OutcomeKind::Unsupported, format!("the library ran {} instead", look.ran));
        }
        if trial.outcome.kind == OutcomeKind::Ok
            && let (Some(error), Some(baseline)) = (&trial.error, &baseline_error)
            && !no_worse_than_baseline(problem, error, baseline)
        {
            let why = format!("error {:.2e}, the baseline's is {:.2e}", error.max_relative, baseline.max_relative);
            trial.outcome = Outcome::new(OutcomeKind::Wrong, why);
        }
        if trial.outcome.kind == OutcomeKind::Ok {
            contender.probe_us = look.probe_us;
            let time_us = look.probe_us.unwrap_or(f64::INFINITY);
            trial.samples = vec![Sample { phase: Phase::Probe, block: 0, time_us }];
            best_us = best_us.min(time_us);
            if is_baseline && baseline_error.is_none() {
                baseline_error = trial.error;
            }
            if !is_baseline && time_us > best_us * terms.rules.prune_factor {
                trial.outcome = Outcome::new(OutcomeKind::Pruned, format!("{:.1}x the best", time_us / best_us));
                session.release(contender.number)?;
            }
        }
        save(trial);
    }
    Ok(())
}

/// Races those who are in. Returns the race and, for each of its arms, the place in the field.
fn race(
    session: &mut Session,
    field: &mut [Contender],
    entered: &[usize],
    terms: &Terms<'_>,
) -> Result<(Race, Vec<usize>), Halt> {
    let arms = entered.to_vec();
    let entrants: Vec<Entrant> = arms
        .iter()
        .map(|&i| Entrant {
            baseline: field[i].trial.baseline_via.is_some(),
            probe_us: field[i].probe_us.unwrap_or(f64::INFINITY),
            rank: rank(&field[i].trial.solution, i),
        })
        .collect();
    let mut race = Race::new(&entrants, terms.rules.clone(), terms.seed);
    let mut released = vec![false; arms.len()];
    loop {
        for (arm, done) in released.iter_mut().enumerate() {
            if !*done && !race.is_needed(arm) {
                session.release(field[arms[arm]].number)?;
                *done = true;
            }
        }
        if terms.deadline.is_some_and(|end| Instant::now() >= end) {
            race.stop();
        }
        let step = match race.step() {
            Step::Done => return Ok((race, arms)),
            Step::Refresh => refresh(session, &mut race, &arms, field, terms),
            Step::Measure { entries, .. } => measure(session, &mut race, &arms, field, &entries),
        };
        match step {
            Err(Halt::BudgetOver) => race.stop(),
            other => other?,
        }
    }
}

/// Fresh operands of other values at other addresses; whoever is not right on them too is out.
fn refresh(
    session: &mut Session,
    race: &mut Race,
    arms: &[usize],
    field: &mut [Contender],
    terms: &Terms<'_>,
) -> Result<(), Halt> {
    for (arm, &i) in arms.iter().enumerate() {
        if !race.is_needed(arm) {
            session.release(field[i].number)?;
        }
    }
    session.refresh(terms.seed.wrapping_add(1))?;
    for (arm, &i) in arms.iter().enumerate() {
        if race.is_needed(arm)
            && let Some(outcome) = session.verify_again(field[i].number)?
        {
            race.retire(arm);
            field[i].trial.outcome = outcome;
        }
    }
    Ok(())
}

/// One block; whoever fails in it is out.
fn measure(
    session: &mut Session,
    race: &mut Race,
    arms: &[usize],
    field: &mut [Contender],
    entries: &[usize],
) -> Result<(), Halt> {
    let expected = |&arm: &usize| (field[arms[arm]].number, field[arms[arm]].probe_us.unwrap_or(1.0));
    let block: Vec<(usize, f64)> = entries.iter().map(expected).collect();
    let guilty = match session.measure(&block)? {
        BlockResult::Times(times_us) => {
            race.feed(&times_us);
            return Ok(());
        }
        BlockResult::Guilty(guilty) => guilty,
        // Somebody spoils it for the others. The baselines are what runs today, and together; the rest goes.
        BlockResult::Together(outcome) => {
            let contends = |arm: &&usize| field[arms[**arm]].trial.baseline_via.is_none();
            let contenders: Vec<usize> = entries.iter().filter(contends).copied().collect();
            let blamed = if contenders.is_empty() { entries } else { &contenders };
            blamed.iter().map(|&arm| (field[arms[arm]].number, outcome.clone())).collect()
        }
    };
    for (number, outcome) in guilty {
        if let Some(arm) = arms.iter().position(|&i| field[i].number == number) {
            race.retire(arm);
            field[arms[arm]].trial.outcome = outcome;
        }
    }
    Ok(())
}

/// Fixed order among equals: what asks least of its user first.
fn rank(solution: &Solution, place: usize) -> u64 {
    let form = match solution.weight_form {
        WeightForm::Plain => 0u64,
        _ => 1,
    };
    let threads = solution.params.parse::<u64>("threads").unwrap_or(0).min(0xffff);
    let workspace = u64::from(64 - solution.workspace_bytes.leading_zeros());
    form << 60 | threads << 40 | workspace << 20 | (place as u64).min(0xfffff)
}

/// Writes the race's samples and standings into the trials.
fn settle(race: &Race, arms: &[usize], field: &mut [Contender], save: &mut dyn FnMut(&Trial)) {
    for (arm, &i) in arms.iter().enumerate() {
        let trial = &mut field[i].trial;
        trial.samples = race.samples(arm).to_vec();
        trial.finalist = race.is_finalist(arm);
        if race.standing(arm) == Standing::Pruned {
            trial.outcome = Outcome::new(OutcomeKind::Pruned, "in the slower half of a round");
        }
        save(trial);
    }
}
