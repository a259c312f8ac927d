//! What differs between two tables of choices, problem by problem.

use std::collections::HashMap;

use crate::choice::Choice;
use crate::device::Device;
use crate::merge::{compare, identity};
use crate::problem::Problem;

/// A problem that both tables have a choice for, and where the two differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change<'a> {
    /// In the first table.
    pub old: &'a Choice,
    /// In the second.
    pub new: &'a Choice,
}

impl Change<'_> {
    /// The time now over the time before: below 1 is faster now. `None` where a table does not say.
    pub fn time_ratio(&self) -> Option<f64> {
        let ratio = self.new.time_us / self.old.time_us;
        (ratio.is_finite() && ratio > 0.0).then_some(ratio)
    }

    /// Is it the same solution, only measured anew?
    pub fn is_same_winner(&self) -> bool {
        self.old.solution.key() == self.new.solution.key()
    }
}

/// All differences of two tables, each list in the order of problems.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diff<'a> {
    /// Only the second has a choice.
    pub added: Vec<&'a Choice>,
    /// Only the first has one.
    pub removed: Vec<&'a Choice>,
    /// Another solution is chosen.
    pub changed: Vec<Change<'a>>,
    /// The same solution is chosen, its figures differ.
    pub retimed: Vec<Change<'a>>,
    /// Problems whose choices are equal, wherever they came from.
    pub same: usize,
}

impl Diff<'_> {
    /// Do the tables choose the same?
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}

/// Compares two tables. Of several choices for one problem and device, as of several builds, the best speaks: that is
/// what a lookup would try first. A device counts as the same by everything but its cache size.
pub fn diff<'a>(old: &'a [Choice], new: &'a [Choice]) -> Diff<'a> {
    let (before, mut after) = (best(old), best(new));
    let mut diff = Diff::default();
    for (key, old) in before {
        let Some(new) = after.remove(&key) else {
            diff.removed.push(old);
            continue;
        };
        let change = Change { old, new };
        if identity::content(old) == identity::content(new) {
            diff.same += 1;
        } else if change.is_same_winner() {
            diff.retimed.push(change);
        } else {
            diff.changed.push(change);
        }
    }
    diff.added.extend(after.into_values());
    diff.added.sort_by_key(|choice| order(choice));
    diff.removed.sort_by_key(|choice| order(choice));
    diff.changed.sort_by_key(|change| order(change.old));
    diff.retimed.sort_by_key(|change| order(change.old));
    diff
}

type Key = (Problem, Device);

fn best(choices: &[Choice]) -> HashMap<Key, &Choice> {
    let mut best: HashMap<Key, &Choice> = HashMap::new();
    for choice in choices {
        let device = Device { last_level_cache_bytes: 0, ..(*choice.device).clone() };
        best.entry((choice.problem, device))
            .and_modify(|have| {
                if compare(choice, have).is_lt() {
                    *have = choice;
                }
            })
            .or_insert(choice);
    }
    best
}

/// Layers in their order, each by ascending tokens, then by device.
fn order(choice: &Choice) -> (Problem, u32, String) {
    let (layer, m) = identity::layer(&choice.problem);
    (layer, m, choice.device.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::sample::{Figures, choice};

    #[test]
    fn each_problem_is_in_exactly_one_list() {
        let base = Figures::default();
        let old = [1, 2, 3, 4].map(|m| choice(Figures { m, ..base }));
        let new = [
            choice(Figures { m: 2, ..base }),
            choice(Figures { m: 3, time_us: 5.0, ..base }),
            choice(Figures { m: 4, index: 9, time_us: 8.0, ..base }),
            choice(Figures { m: 5, ..base }),
            choice(Figures { m: 2, arch: "gfx950", ..base }),
        ];
        let diff = diff(&old, &new);
        let ms = |choices: &[&Choice]| choices.iter().map(|choice| choice.problem.m()).collect::<Vec<_>>();
        assert_eq!((ms(&diff.removed), ms(&diff.added), diff.same), (vec![1], vec![2, 5], 1));
        assert_eq!(diff.retimed, [Change { old: &old[2], new: &new[1] }]);
        assert_eq!(diff.changed, [Change { old: &old[3], new: &new[2] }]);
        assert_eq!(diff.changed[0].time_ratio(), Some(0.8));
        assert!(!diff.is_empty());
    }

    #[test]
    fn of_several_rows_the_best_speaks_whatever_their_order() {
        let slow = choice(Figures { index: 1, time_us: 9.0, ..Figures::default() });
        let fast = choice(Figures { index: 2, time_us: 4.0, ..Figures::default() });
        let one = [fast.clone()];
        for many in [vec![slow.clone(), fast.clone()], vec![fast.clone(), slow.clone()]] {
            assert_eq!(diff(&one, &many), Diff { same: 1, ..Diff::default() });
        }
    }

    #[test]
    fn an_unknown_time_gives_no_ratio() {
        let known = choice(Figures::default());
        let unknown = choice(Figures { time_us: f64::NAN, ..Figures::default() });
        assert_eq!(Change { old: &known, new: &unknown }.time_ratio(), None);
        assert_eq!(Change { old: &unknown, new: &known }.time_ratio(), None);
    }
}
