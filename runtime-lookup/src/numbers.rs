//! A number for each solution of a table, so that two rows are compared without reading either: they lie anywhere among 40 MB.

use std::hash::Hasher as _;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHasher};
use tgemm_db::{Solution, WeightForm};

/// Where the parts of a solution lie that rows share, and the rest of it.
type Shared = (usize, usize, usize, i64, WeightForm);

/// Numbers of the solutions that were met; equal if and only if [`Solution::is_same_as`] says so.
///
/// What was met must be kept as long as this is: a solution is known again by where its parts lie.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    by_place: FxHashMap<Shared, u32>,
    by_content: FxHashMap<u64, Vec<u32>>,
    /// By number.
    first: Vec<Solution>,
}

impl Numbers {
    /// The number of `solution`.
    pub(crate) fn of(&mut self, solution: &Solution) -> u32 {
        let Solution { build, index, name, params, weight_form, .. } = solution;
        let shared = (Arc::as_ptr(build) as usize, name.as_ptr() as usize, params.address(), *index, *weight_form);
        if let Some(number) = self.by_place.get(&shared) {
            return *number;
        }
        // Parameters may differ in what is no part of a solution, so they are left to the comparison.
        let mut hasher = FxHasher::default();
        hasher.write_i64(*index);
        hasher.write(name.as_bytes());
        hasher.write(build.library.as_bytes());
        let alike = self.by_content.entry(hasher.finish()).or_default();
        let known = alike.iter().find(|&&number| self.first[number as usize].is_same_as(solution));
        let number = known.copied().unwrap_or_else(|| {
            let number = self.first.len() as u32;
            self.first.push(solution.clone());
            alike.push(number);
            number
        });
        self.by_place.insert(shared, number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tgemm_db::solution::ALGO_PARAM;
    use tgemm_db::{DType, Params, Site};

    fn solution(index: i64, name: &str, params: Params) -> Solution {
        let problem = Site::linear(16, 32, DType::F32).at(1).into();
        Solution { index, name: name.into(), params, ..crate::tests::choice(problem).solution }
    }

    #[test]
    fn numbers_are_equal_exactly_where_solutions_are_the_same() {
        let none = Params::new();
        let split = |count: u32| Params::new().with("split_k", count);
        let mut all: Vec<Solution> = Vec::new();
        for index in [0, 1] {
            for name in ["a", "b"] {
                all.extend(
                    [none.clone(), split(2), split(2), split(3), split(2).with(ALGO_PARAM, 7)]
                        .map(|p| solution(index, name, p)),
                );
            }
        }
        all.extend(all.clone());
        let packed = Solution { weight_form: WeightForm::Prepacked, ..all[0].clone() };
        all.push(packed);
        let mut numbers = Numbers::default();
        let given: Vec<u32> = all.iter().map(|solution| numbers.of(solution)).collect();
        for (a, number) in all.iter().zip(&given) {
            for (b, other) in all.iter().zip(&given) {
                assert_eq!(number == other, a.is_same_as(b), "{a:?} {b:?}");
            }
        }
    }
}
