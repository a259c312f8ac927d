//! One problem from its list of candidates to its choice.

use std::collections::HashMap;
use std::time::Instant;

use tgemm_db::choice::{Baseline, Ratio};
use tgemm_db::outcome::{Outcome, OutcomeKind};
use tgemm_db::{Choice, Constraints, Environment, Solution, Trial, WeightForm};

use super::look::{Contender, Looking, enter, is_in, line_up};
use super::session::{BlockResult, Halt, Session};
use crate::plan::Item;
use crate::race::{Entrant, Race, Rules, Standing, Step};
use crate::worker::Candidate;

/// Share of a race's time that is kept for its final and confirmation: without them nothing is decided.
const FINAL_SHARE: f64 = 0.6;

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
    /// How many rounds of search there may be around what proved good.
    pub search_rounds: u32,
    /// How often each solution won before, by its library, index and name: those are looked at first.
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
    /// Time of the first contender over that of the best baseline, whoever was chosen; `None` if they never met.
    pub against_baseline: Option<Ratio>,
}

/// Runs the contest of `item`'s problem. `earlier` are the trials of a sweep that was cut short: final failures among them
/// are not tried again. `save` is told each trial as soon as its outcome is known, and again when it has grown.
///
/// # Errors
/// A [`Halt`] that ends more than this problem; everything found out before it has been saved.
pub fn run(
    session: &mut Session,
    environment: &Environment,
    item: &Item,
    earlier: &[Trial],
    terms: &Terms<'_>,
    save: &mut dyn FnMut(&Trial),
) -> Result<Contest, Halt> {
    let mut offered = session.turn_to(&item.recorded.problem, &item.asks)?;
    keep_baselines(session, &mut offered, earlier);
    let mut field = line_up(offered, earlier, terms);
    let mut looking = Looking::new(&item.recorded.problem, terms);
    looking.look_at_all(session, &mut field, save)?;
    looking.search_on(session, &mut field, earlier, save)?;
    decide(session, environment, item, field, terms, save)
}

/// What was a baseline before stays one: a choice serves every way in which its problem was ever asked for here, not just
/// those of the recording in hand.
fn keep_baselines(session: &mut Session, offered: &mut Vec<Candidate>, earlier: &[Trial]) {
    for trial in earlier.iter().filter(|trial| trial.baseline_via.is_some()) {
        let key = trial.solution.key();
        match offered.iter_mut().find(|candidate| candidate.solution.key() == key) {
            Some(candidate) if candidate.baseline_via.is_some() => {}
            Some(candidate) => candidate.baseline_via.clone_from(&trial.baseline_via),
            None => {
                let candidate =
                    Candidate { solution: trial.solution.clone(), baseline_via: trial.baseline_via.clone() };
                session.admit(candidate.clone());
                offered.push(candidate);
            }
        }
    }
}

/// A contest of the baselines and `copies` arms of one solution: a choice that is looked at again, or the first baseline
/// against itself where `solution` is `None`. The baselines are those of `against`; where that is empty, those of today.
///
/// # Errors
/// As [`run`].
pub fn duel(
    session: &mut Session,
    environment: &Environment,
    item: &Item,
    against: &[Baseline],
    solution: Option<&Solution>,
    copies: usize,
    terms: &Terms<'_>,
) -> Result<Contest, Halt> {
    let offered = session.turn_to(&item.recorded.problem, &item.asks)?;
    let baselines: Vec<(usize, Candidate)> = match against {
        [] => offered.into_iter().enumerate().filter(|(_, candidate)| candidate.baseline_via.is_some()).collect(),
        against => {
            let candidates = against.iter().map(|baseline| Candidate {
                solution: baseline.solution.clone(),
                baseline_via: Some(baseline.via.clone()),
            });
            candidates.map(|candidate| (session.admit(candidate.clone()), candidate)).collect()
        }
    };
    let own = solution.or(baselines.first().map(|(_, candidate)| &candidate.solution)).cloned();
    // Against itself only one baseline runs: another one may be slower, and beating it would be no mistake.
    let opponents = if solution.is_some() { baselines.len() } else { 1 };
    let mut field: Vec<Contender> =
        baselines.into_iter().take(opponents).map(|(number, candidate)| enter(number, candidate, &[])).collect();
    if let Some(solution) = own {
        for _ in 0..copies {
            let candidate = Candidate { solution: solution.clone(), baseline_via: None };
            field.push(enter(session.admit(candidate.clone()), candidate, &[]));
        }
    }
    Looking::new(&item.recorded.problem, terms).look_at_all(session, &mut field, &mut |_| {})?;
    decide(session, environment, item, field, terms, &mut |_| {})
}

/// The race among those who are right, and what follows from it.
fn decide(
    session: &mut Session,
    environment: &Environment,
    item: &Item,
    mut field: Vec<Contender>,
    terms: &Terms<'_>,
    save: &mut dyn FnMut(&Trial),
) -> Result<Contest, Halt> {
    let entered: Vec<usize> = (0..field.len()).filter(|&i| is_in(&field[i])).collect();
    let (race, arms) = race(session, &mut field, &entered, terms)?;
    settle(&race, &arms, &mut field, save);
    let contender = arms.iter().position(|&i| field[i].trial.baseline_via.is_none());
    let against_baseline = contender.and_then(|arm| race.against_best_baseline(arm));
    let conclusion = race.conclude();
    let confirmed = conclusion.as_ref().is_some_and(|c| c.confirmed);
    let choice = conclusion.map(|end| {
        let contender = &field[arms[end.chosen]];
        let baselines = end.baselines.iter().map(|&(arm, time_us)| {
            let trial = &field[arms[arm]].trial;
            Baseline { via: trial.baseline_via.clone().unwrap_or_default(), solution: trial.solution.clone(), time_us }
        });
        Choice {
            problem: item.recorded.problem,
            device: environment.device.clone().into(),
            solution: contender.trial.solution.clone(),
            time_us: end.time_us,
            ratio: end.ratio,
            verdict: end.verdict,
            baselines: baselines.collect(),
            error_over_bound: contender.trial.error.map_or(0.0, |e| e.max_over_bound),
            err_ratio: contender.trial.error.map_or(0.0, |e| e.share_beyond),
            pack_us: contender.trial.pack_us,
            count: item.recorded.count,
            tuned_at: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            origin: None,
        }
    });
    Ok(Contest { trials: field.into_iter().map(|c| c.trial).collect(), choice, confirmed, against_baseline })
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
    let began = Instant::now();
    let halving_until =
        terms.deadline.map(|end| began + end.saturating_duration_since(began).mul_f64(1.0 - FINAL_SHARE));
    loop {
        if halving_until.is_some_and(|end| Instant::now() >= end) {
            race.hurry();
        }
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
        // No figures: the block is void, and the race asks for it again a few times.
        BlockResult::Disturbed => {
            race.feed(&[]);
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
