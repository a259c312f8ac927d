//! Which of several choices for one problem is better: one order for merging and for lookup.

use std::cmp::Ordering;

use crate::choice::{Choice, Verdict};
use crate::solution::Solution;

/// What the order looks at.
#[derive(Clone, Copy, Debug)]
pub struct Standing<'a> {
    /// Upper end of the interval of time over baseline; infinite where nothing was compared.
    pub bound: f64,
    /// When it was tuned, RFC 3339 in UTC; empty if unknown.
    pub tuned_at: &'a str,
    /// Microseconds a call; not a number where the source has no time.
    pub time_us: f64,
    /// What was chosen.
    pub solution: &'a Solution,
}

impl<'a> Standing<'a> {
    /// Where `choice` stands.
    pub fn of(choice: &'a Choice) -> Standing<'a> {
        let bound = if was_compared(choice) { choice.ratio.high } else { f64::INFINITY };
        Standing { bound, tuned_at: &choice.tuned_at, time_us: choice.time_us, solution: &choice.solution }
    }

    /// Better first; equal only where nothing that counts differs.
    pub fn compare(&self, other: &Standing<'_>) -> Ordering {
        self.bound
            .total_cmp(&other.bound)
            .then_with(|| without_zone(other.tuned_at).cmp(without_zone(self.tuned_at)))
            .then_with(|| self.undated_us().total_cmp(&other.undated_us()))
            .then_with(|| self.solution.cmp(other.solution))
    }

    /// The time, where it may speak at all: see [`compare`].
    fn undated_us(&self) -> f64 {
        if self.bound.is_finite() { 0.0 } else { self.time_us }
    }
}

/// Better first: the lower upper end of time over baseline; then the newer; then the order of the solutions, so that
/// equal rows have one order everywhere.
///
/// Microseconds never outrank the ratio: they were taken on different days, the ratio side by side. A row that was never
/// compared with a baseline (an imported one) has no upper end: it stands behind every row that has one, whatever its
/// time. Among such rows of one age the time is all there is, and only there it decides, before the solutions do: it
/// is also what AITER's own merge goes by.
pub fn compare(a: &Choice, b: &Choice) -> Ordering {
    Standing::of(a).compare(&Standing::of(b))
}

/// Was the choice raced against a baseline, so that its ratio says something?
fn was_compared(choice: &Choice) -> bool {
    !matches!(choice.verdict, Verdict::NoBaseline | Verdict::Unknown)
}

/// Time stamps in UTC sort as text, once the `Z` no longer stands where another has more digits of its second.
fn without_zone(stamp: &str) -> &str {
    stamp.strip_suffix('Z').unwrap_or(stamp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::sample::{Figures, choice};

    fn better(a: Figures, b: Figures) {
        let (a, b) = (choice(a), choice(b));
        assert_eq!(compare(&a, &b), Ordering::Less, "{a:?}\n{b:?}");
        assert_eq!(compare(&b, &a), Ordering::Greater);
    }

    #[test]
    fn the_bound_outranks_age_and_time() {
        let base = Figures { verdict: Verdict::Faster, high: 0.9, time_us: 50.0, ..Figures::default() };
        better(base, Figures { high: 0.95, time_us: 1.0, tuned_at: "2026-02-01T00:00:00Z", ..base });
    }

    #[test]
    fn a_row_that_was_never_compared_stands_behind_whatever_its_time() {
        let tie = Figures { verdict: Verdict::Same, time_us: 50.0, ..Figures::default() };
        for verdict in [Verdict::Unknown, Verdict::NoBaseline] {
            better(tie, Figures { verdict, time_us: 1.0, tuned_at: "2026-02-01T00:00:00Z", ..tie });
            // Whatever its ratio says: nothing stands behind it.
            better(tie, Figures { verdict, high: 0.1, ..tie });
        }
    }

    #[test]
    fn then_the_newer_and_an_undated_row_is_oldest() {
        let base = Figures { tuned_at: "2026-01-01T00:00:00.5Z", time_us: 9.0, ..Figures::default() };
        better(base, Figures { tuned_at: "2026-01-01T00:00:00Z", time_us: 1.0, ..base });
        better(base, Figures { tuned_at: "", time_us: 1.0, ..base });
    }

    #[test]
    fn time_speaks_only_among_undated_rows_without_a_ratio() {
        let base = Figures { time_us: 1.0, index: 7, ..Figures::default() };
        better(base, Figures { time_us: 2.0, index: 1, ..base });
        better(base, Figures { time_us: f64::NAN, index: 1, ..base });
        let raced = Figures { verdict: Verdict::Faster, high: 0.9, ..base };
        better(Figures { time_us: 2.0, index: 1, ..raced }, raced);
    }
}
