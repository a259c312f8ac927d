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
use super::mix::{self, Group, Mixed};
use super::order::Order;
use super::session::{Halt, Session};
use super::{Settings, SweepError};
use crate::plan::{self, Item};
use crate::stats;
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

/// What looks at a choice, each in a process of its own, come to; `None` of no look.
///
/// It holds if it does in all of them. Its ratio is then [over those processes](stats::over_processes) and the one that made
/// it, whose was `stored` if that was found in the same way: what a process knows of its own figure says nothing of the next.
pub fn agreed(stored: Option<Ratio>, looks: &[Review]) -> Option<Review> {
    if let [only] = looks {
        return Some(only.clone());
    }
    let worse = |a: &&Review, b: &&Review| a.badness().total_cmp(&b.badness());
    let worst = looks.iter().max_by(worse)?;
    if !matches!(worst, Review::Holds(_)) {
        return Some(worst.clone());
    }
    let seen =
        looks.iter().filter_map(|look| if let Review::Holds(ratio) = look { Some(ratio.estimate) } else { None });
    let ratios: Vec<f64> = stored.iter().map(|ratio| ratio.estimate).chain(seen).collect();
    Some(stats::over_processes(&ratios).map_or_else(|| worst.clone(), Review::Holds))
}

impl Review {
    /// What a ratio says.
    pub fn of(ratio: Ratio) -> Review {
        if ratio.estimate > SLOWER_MAX { Review::Slower(ratio) } else { Review::Holds(ratio) }
    }

    /// The more, the less can be said for the choice.
    fn badness(&self) -> f64 {
        match self {
            Review::Baseline => 0.0,
            Review::Holds(ratio) | Review::Slower(ratio) => ratio.estimate.min(f64::MAX),
            Review::NoBaseline => f64::MAX,
            Review::Refused(_) => f64::INFINITY,
        }
    }
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
    /// Opens the device of `settings`, in a process of its own, until `end`.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(
        settings: &'a Settings,
        end: Option<Instant>,
        interrupt: &Interrupt,
    ) -> Result<Reviewer<'a>, SweepError> {
        let mut session = Session::new(&settings.device, settings.bench.clone(), settings.sample_us, interrupt.clone());
        let (environment, _) = session.open().map_err(|halt| SweepError::Device(halt.to_string()))?;
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
        Ok(contest.against_baseline.map_or(Review::NoBaseline, Review::of))
    }

    /// What of `choices` an engine's step runs together, and this device can; `holds` says of which choices a ratio is wanted.
    pub fn groups(&self, choices: &[Choice], order: &Order, holds: impl Fn(usize) -> bool) -> Vec<Group> {
        mix::groups(choices, &self.environment, &self.settings.bench, order, holds)
    }

    /// Times a group together. An inner error says why it could not be.
    ///
    /// # Errors
    /// What ends the whole review.
    pub fn mix(&mut self, group: &Group) -> Result<Result<Mixed, String>, Halt> {
        mix::run(&mut self.session, self.settings, self.end, group)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(estimate: f64) -> Option<Ratio> {
        Some(Ratio { estimate, low: estimate, high: estimate })
    }

    fn holds(estimate: f64) -> Review {
        Review::Holds(Ratio { estimate, low: estimate * 0.999, high: estimate * 1.001 })
    }

    #[test]
    fn one_process_is_taken_at_its_word() {
        assert_eq!(agreed(stored(0.9), &[holds(0.95)]), Some(holds(0.95)));
        assert_eq!(agreed(stored(0.9), &[]), None);
    }

    #[test]
    fn several_processes_give_what_changes_from_one_to_the_next() {
        let Some(Review::Holds(ratio)) = agreed(stored(0.90), &[holds(0.94), holds(0.98)]) else { panic!("it holds") };
        assert!((ratio.estimate - 0.94).abs() < 0.001, "{ratio:?}");
        assert!(ratio.low < 0.90 && ratio.high > 0.98, "a further one may lie outside of their range: {ratio:?}");
        let Some(Review::Holds(these)) = agreed(None, &[holds(0.94), holds(0.98)]) else { panic!("it holds") };
        assert!(
            (these.low - 0.94).abs() < 1e-9 && (these.high - 0.98).abs() < 1e-9,
            "the range of these two alone: {these:?}"
        );
        let many: Vec<Review> = (0..9).map(|at| holds(0.90 + 0.01 * f64::from(at))).collect();
        let Some(Review::Holds(ratio)) = agreed(stored(0.94), &many) else { panic!("it holds") };
        assert!((ratio.estimate - 0.94).abs() < 0.001, "{ratio:?}");
        assert!(0.86 < ratio.low && ratio.high < 1.02, "no wider than where a further one lies: {ratio:?}");
    }

    #[test]
    fn one_bad_look_is_enough() {
        let slower = Review::Slower(Ratio { estimate: 1.05, low: 1.04, high: 1.06 });
        let refused = Review::Refused("wrong".into());
        assert_eq!(agreed(stored(0.9), &[holds(0.9), slower.clone(), holds(0.8)]), Some(slower.clone()));
        assert_eq!(agreed(stored(0.9), &[slower, refused.clone(), holds(0.9)]), Some(refused));
        assert_eq!(agreed(stored(1.0), &[Review::Baseline, Review::Baseline]), Some(Review::Baseline));
        assert_eq!(agreed(stored(0.9), &[holds(0.9), Review::NoBaseline]), Some(Review::NoBaseline));
    }
}
