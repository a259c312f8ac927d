//! Which of several choices for one problem is better.

use std::cmp::Ordering;

use tgemm_db::{Choice, Verdict};

/// Was the choice raced against a baseline, so that its ratio says something?
fn was_compared(choice: &Choice) -> bool {
    !matches!(choice.verdict, Verdict::NoBaseline | Verdict::Unknown)
}

/// Better first: the lower upper end of time over baseline; compared before never compared, and among the never
/// compared the faster; then the newer; then the order of the solutions, so that equal rows have one order everywhere.
///
/// Microseconds never outrank the ratio: they were taken on different days, the ratio side by side.
pub(crate) fn compare(a: &Choice, b: &Choice) -> Ordering {
    let uncompared_us = |choice: &Choice| if was_compared(choice) { 0.0 } else { choice.time_us };
    a.ratio
        .high
        .total_cmp(&b.ratio.high)
        .then_with(|| was_compared(b).cmp(&was_compared(a)))
        .then_with(|| uncompared_us(a).total_cmp(&uncompared_us(b)))
        .then_with(|| b.tuned_at.cmp(&a.tuned_at))
        .then_with(|| a.solution.cmp(&b.solution))
}
