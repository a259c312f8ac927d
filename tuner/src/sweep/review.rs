//! Choices looked at again, and the race held against itself.
//!
//! A review re-measures each choice beside its baselines, in a fresh process, on fresh operands. The noise check enters
//! copies of the baseline as candidates: every win among them is a mistake of the race.

use std::collections::HashMap;
use std::time::Instant;

use tgemm_db::choice::Ratio;
use tgemm_db::outcome::OutcomeKind;
use tgemm_db::{Choice, Environment, Recorded, Verdict};

use super::contest::{self, Contest, Terms};
use super::session::{Halt, Session};
use super::{Settings, SweepError};
use crate::plan::{self, Item};
use crate::worker::Interrupt;

/// A choice may be this much slower than its baseline before it counts as slower: two runs of the same kernel differ by
/// as much.
pub const SLOWER_MAX: f64 = 1.0 / 0.99;

/// What a second look at a choice found.
#[derive(Clone, Debug, PartialEq)]
pub enum Review {
    /// It is its baseline: nothing to compare.
    Baseline,
    /// As fast as its baselines or faster: time over the best one's.
    Holds(Ratio),
    /// Slower than its best baseline by more than noise.
    Slower(Ratio),
    /// It does not run here, or gives wrong results.
    Refused(String),
    /// No baseline was to be had.
    NoBaseline,
}

/// What the race made of copies of the baseline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Noise {
    /// Problems raced.
    pub problems: usize,
    /// Problems in which a copy was chosen over the baseline.
    pub switches: usize,
    /// Problems in which the race would not say.
    pub ambiguous: usize,
    /// Problems that could not be raced.
    pub failed: usize,
}

/// One device for reviews.
pub struct Reviewer<'a> {
    session: Session,
    environment: Environment,
    settings: &'a Settings,
    end: Option<Instant>,
}

impl<'a> Reviewer<'a> {
    /// Opens the device of `settings`.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(settings: &'a Settings, interrupt: &Interrupt) -> Result<Reviewer<'a>, SweepError> {
        let mut session = Session::new(&settings.device, settings.bench.clone(), settings.sample_us, interrupt.clone());
        let (environment, _) = session.open().map_err(|halt| SweepError::Device(halt.to_string()))?;
        let end = settings.budget.map(|budget| Instant::now() + budget);
        session.set_deadline(end);
        Ok(Reviewer { session, environment, settings, end })
    }

    /// The device and its libraries.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Is the time up?
    pub fn is_over(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }

    fn duel(&mut self, row: &Recorded, choice: Option<&Choice>, copies: usize) -> Result<Contest, Halt> {
        let plan = plan::plan(std::slice::from_ref(row), &self.environment.device);
        let item: &Item = &plan.items[0];
        let wins = HashMap::new();
        let terms = Terms {
            constraints: &self.settings.constraints,
            rules: &self.settings.rules,
            seed: self.settings.bench.seed,
            deadline: self.end,
            search_rounds: 0,
            wins: &wins,
        };
        let solution = choice.map(|choice| &choice.solution);
        // The calls that the choice was made against: others were never promised anything.
        let against = choice.map_or(&[][..], |choice| &choice.baselines);
        contest::duel(&mut self.session, &self.environment, item, against, solution, copies, &terms)
    }

    /// Looks at `choice` again.
    ///
    /// # Errors
    /// What ends the whole review.
    pub fn review(&mut self, choice: &Choice) -> Result<Review, Halt> {
        if choice.is_baseline() {
            return Ok(Review::Baseline);
        }
        if let Some(here) = self.environment.build(choice.solution.library())
            && let Some(difference) = choice.solution.build.difference(here)
        {
            return Ok(Review::Refused(difference.to_string()));
        }
        let contest = match self.duel(&Recorded::bare(choice.problem), Some(choice), 1) {
            Ok(contest) => contest,
            Err(Halt::Problem(why)) => return Ok(Review::Refused(why)),
            Err(halt) => return Err(halt),
        };
        let Some(own) = contest.trials.iter().find(|trial| trial.baseline_via.is_none()) else {
            return Ok(Review::NoBaseline);
        };
        if own.outcome.kind != OutcomeKind::Ok {
            return Ok(Review::Refused(format!("{}: {}", own.outcome.kind, own.outcome.detail)));
        }
        Ok(match contest.against_baseline {
            None => Review::NoBaseline,
            Some(ratio) if ratio.estimate > SLOWER_MAX => Review::Slower(ratio),
            Some(ratio) => Review::Holds(ratio),
        })
    }

    /// Races `copies` copies of the baseline of `row`'s problem against it, and adds what came of it to `noise`.
    ///
    /// # Errors
    /// What ends the whole check.
    pub fn race_itself(&mut self, row: &Recorded, copies: usize, noise: &mut Noise) -> Result<(), Halt> {
        let contest = match self.duel(row, None, copies) {
            Ok(contest) => contest,
            Err(Halt::Problem(_)) => {
                noise.failed += 1;
                return Ok(());
            }
            Err(halt) => return Err(halt),
        };
        noise.problems += 1;
        match contest.choice.map(|choice| choice.verdict) {
            Some(Verdict::Faster) => noise.switches += 1,
            Some(Verdict::Ambiguous) => noise.ambiguous += 1,
            Some(_) => {}
            None => noise.failed += 1,
        }
        Ok(())
    }
}
