//! What makes two rows rivals, and what makes them one row.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::choice::Choice;
use crate::device::{Build, Device, Environment};
use crate::problem::Problem;

/// Small numbers for equal values, in order of first sight.
#[derive(Debug)]
pub(super) struct Ids<T> {
    by_value: HashMap<T, u32>,
    values: Vec<T>,
}

impl<T> Default for Ids<T> {
    fn default() -> Ids<T> {
        Ids { by_value: HashMap::new(), values: Vec::new() }
    }
}

impl<T: Clone + Eq + Hash> Ids<T> {
    /// The number of `value`.
    pub(super) fn of(&mut self, value: &T) -> u32 {
        if let Some(id) = self.by_value.get(value) {
            return *id;
        }
        // There are fewer values than rows, and rows are counted in 32 bits.
        let id = self.values.len() as u32;
        self.by_value.insert(value.clone(), id);
        self.values.push(value.clone());
        id
    }

    /// The value that has number `id`.
    pub(super) fn get(&self, id: u32) -> &T {
        &self.values[id as usize]
    }
}

impl<T: Ord> Ids<T> {
    /// For each number the place of its value among all values in order.
    pub(super) fn ranks(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.values.len() as u32).collect();
        order.sort_by(|&a, &b| self.values[a as usize].cmp(&self.values[b as usize]));
        let mut ranks = vec![0; order.len()];
        for (rank, id) in (0..).zip(order) {
            ranks[id as usize] = rank;
        }
        ranks
    }
}

/// Where and with what a choice was made: with the problem, the key of a merge.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    device: Device,
    /// The known builds of the winner and of the baseline that its ratio is against. Rows of files that know no builds
    /// have none, whatever their library: they are rivals, as in their own tools.
    builds: Vec<Arc<Build>>,
    /// What else tells apart rows of one problem in the tool they come from, by name.
    labels: Vec<(&'static str, String)>,
}

/// AITER's `_tag`, which is part of the key of its fused MoE rows.
const TAG: &str = crate::format::fmoe::TAG;

/// The library of a row that has no time: nothing says whether it is better than another library's, and for vLLM the
/// library (`backend` in the file's name) is part of the key.
const UNTIMED_LIBRARY: &str = "library";

impl Place {
    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn of(choice: &Choice) -> Place {
        let solution = &choice.solution;
        let baseline = choice.baselines.first().map(|baseline| &baseline.solution.build);
        let mut builds: Vec<Arc<Build>> =
            baseline.into_iter().chain([&solution.build]).filter(|build| build.is_known()).cloned().collect();
        builds.sort();
        builds.dedup();
        let tag = solution.params.get(TAG).map(|tag| (TAG, tag.to_owned()));
        let library = choice.time_us.is_nan().then(|| (UNTIMED_LIBRARY, solution.library().to_owned()));
        Place {
            device: Device { last_level_cache_bytes: 0, ..(*choice.device).clone() },
            builds,
            labels: tag.into_iter().chain(library).collect(),
        }
    }

    /// The same as an environment, for a store: rows are rivals exactly where their problems and these are equal.
    pub(crate) fn environment(self, choice: &Choice) -> Environment {
        Environment {
            device: (*choice.device).clone(),
            builds: self.builds.iter().map(|build| (**build).clone()).collect(),
            driver: String::new(),
            vars: self.labels.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        }
    }
}

/// A problem without its tokens, and its tokens: rows of one layer stand together, by ascending tokens.
pub(crate) fn layer(problem: &Problem) -> (Problem, u32) {
    let layer = match problem {
        Problem::Gemm(gemm) => gemm.site.at(1).into(),
        Problem::Moe(moe) => moe.site.at(1).into(),
    };
    (layer, problem.m())
}

/// A digest of all that a choice says, less where it came from: equal choices have equal ones.
pub(crate) fn content(choice: &Choice) -> u128 {
    let mut bytes = Bytes(Vec::with_capacity(CONTENT_BYTES_TYPICAL));
    let Choice { problem, device, solution, ratio, verdict, baselines, pack_us, count, tuned_at, .. } = choice;
    (problem, device, solution, verdict, count, tuned_at).hash(&mut bytes);
    let figures = [choice.time_us, ratio.estimate, ratio.low, ratio.high, choice.error_over_bound, choice.err_ratio];
    figures.map(f64::to_bits).hash(&mut bytes);
    pack_us.map(f64::to_bits).hash(&mut bytes);
    for baseline in baselines {
        (&baseline.via, &baseline.solution, baseline.time_us.to_bits()).hash(&mut bytes);
    }
    let digest = blake3::hash(&bytes.0);
    let (first, _) = digest.as_bytes().split_at(size_of::<u128>());
    first.iter().fold(0, |value, byte| value << 8 | u128::from(*byte))
}

/// Room for the bytes of a row with one baseline.
const CONTENT_BYTES_TYPICAL: usize = 1024;

/// A [`Hasher`] that keeps what it is given: hashing it all at once is several times faster.
struct Bytes(Vec<u8>);

impl Hasher for Bytes {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}
