//! How lookups answered, and what they had no answer for: counted by who asks for it, at one relaxed addition a lookup.
//!
//! A miss is also kept, once, in a set of a fixed size that is all there from the start, so that a lookup allocates nothing
//! either way. [`Tally::rows`] gives the misses as recorded problems: written as an untuned CSV they are what to tune next.

use std::hash::{Hash, Hasher};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustc_hash::FxHasher;
use tgemm_db::{Problem, Recorded};

use crate::database::{Hit, HitKind};
use crate::site_key::SiteKey;

/// Misses that are kept unless another number is asked for: a model has some hundred sites at some tens of M.
pub const MISSES_DEFAULT: usize = 4096;

/// The most places that are tried for one miss: a set that is nearly full stays quick.
const PROBES_MAX: usize = 16;

/// Kinds of hits.
const KINDS: [HitKind; 5] = [HitKind::Exact, HitKind::Padded, HitKind::Interval, HitKind::Predicted, HitKind::Default];

/// Counters of lookups, and the set of their misses. Shared between threads without a lock.
#[derive(Debug)]
pub struct Tally {
    kinds: [AtomicU64; KINDS.len()],
    misses: Box<[Miss]>,
    /// Misses that found no place.
    untold: AtomicU64,
}

/// A place of the set.
#[derive(Debug, Default)]
struct Miss {
    problem: OnceLock<Problem>,
    count: AtomicU64,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally::new(MISSES_DEFAULT)
    }
}

impl Tally {
    /// With room for so many misses; none where only the counters are wanted. All of it is allocated here.
    pub fn new(misses_max: usize) -> Tally {
        Tally {
            kinds: Default::default(),
            misses: (0..misses_max).map(|_| Miss::default()).collect(),
            untold: AtomicU64::new(0),
        }
    }

    /// Counts `hit`, the answer to `problem`, and hands it on.
    ///
    /// ```
    /// # use tgemm_db::{Constraints, DType, Problem, Site};
    /// use tgemm_lookup::{Database, HitKind, Tally};
    ///
    /// let (database, tally) = (Database::default(), Tally::default());
    /// let problem: Problem = Site::linear(1024, 3072, DType::Bf16).at(4).into();
    /// tally.count(&problem, database.lookup(&problem, &Constraints::default()));
    /// assert_eq!(tally.of(HitKind::Default), 1);
    /// // What to tune next, as a file for the tuner:
    /// let text = tgemm_db::format::untuned::to_text(&tally.rows());
    /// assert!(text.contains("gemm,m=4,n=1024,k=3072"));
    /// ```
    #[inline]
    pub fn count<'a>(&self, problem: &Problem, hit: Hit<'a>) -> Hit<'a> {
        self.kinds[hit.kind as usize].fetch_add(1, Ordering::Relaxed);
        if hit.choice.is_none() {
            self.miss(problem);
        }
        hit
    }

    /// How many answers were of this kind.
    pub fn of(&self, kind: HitKind) -> u64 {
        self.kinds[kind as usize].load(Ordering::Relaxed)
    }

    /// Every kind with its number, best first.
    pub fn kinds(&self) -> [(HitKind, u64); KINDS.len()] {
        KINDS.map(|kind| (kind, self.of(kind)))
    }

    /// How many misses found no place in the set; they are counted among [`HitKind::Default`] all the same.
    pub fn untold(&self) -> u64 {
        self.untold.load(Ordering::Relaxed)
    }

    /// The misses with their counts, the most frequent first; of what else a recording says nothing is known here.
    pub fn rows(&self) -> Vec<Recorded> {
        let row = |miss: &Miss| {
            let problem = miss.problem.get()?;
            Some(Recorded { count: miss.count.load(Ordering::Relaxed), ..Recorded::bare(*problem) })
        };
        let mut rows: Vec<Recorded> = self.misses.iter().filter_map(row).collect();
        rows.sort_by(|a, b| b.count.cmp(&a.count).then(a.problem.cmp(&b.problem)));
        rows
    }

    fn miss(&self, problem: &Problem) {
        let mut hasher = FxHasher::default();
        (SiteKey::of(problem), problem.m()).hash(&mut hasher);
        let places = self.misses.len();
        let start = if places == 0 { 0 } else { (hasher.finish() % places as u64) as usize };
        for probe in 0..PROBES_MAX.min(places) {
            let place = &self.misses[(start + probe) % places];
            // Whoever comes second to an empty place waits while the first copies its problem in, and then looks at it.
            if place.problem.get_or_init(|| *problem) == problem {
                place.count.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
        self.untold.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Database;
    use crate::tests::{choice, here};
    use std::collections::BTreeMap;
    use tgemm_db::{Constraints, DType, Site};

    fn problem(m: u32) -> Problem {
        Site::linear(64, 64, DType::Bf16).at(m).into()
    }

    #[test]
    fn every_kind_has_its_own_counter() {
        assert_eq!(KINDS.map(|kind| kind as usize), [0, 1, 2, 3, 4]);
        let database = Database::from_choices([4, 16, 40].map(|m| choice(problem(m))), &here());
        let tally = Tally::default();
        let constraints = Constraints::default();
        for m in [4, 9, 30, 41, 4] {
            tally.count(&problem(m), database.lookup(&problem(m), &constraints));
        }
        let counts = tally.kinds().map(|(_, count)| count);
        assert_eq!(counts, [2, 1, 1, 0, 1]);
        let rows = tally.rows();
        assert_eq!(rows, [Recorded { count: 1, ..Recorded::bare(problem(41)) }]);
    }

    #[test]
    fn the_set_is_bounded_and_says_what_it_left_out() {
        let tally = Tally::new(8);
        for round in 0..3u64 {
            for m in 1..=20 {
                tally.count(&problem(m), Hit::DEFAULT);
            }
            assert_eq!(tally.rows().iter().map(|row| row.count).sum::<u64>() + tally.untold(), 20 * (round + 1));
        }
        assert_eq!(tally.rows().len(), 8);
        assert_eq!((tally.of(HitKind::Default), tally.untold()), (60, 36));
        let none = Tally::new(0);
        none.count(&problem(1), Hit::DEFAULT);
        assert_eq!((none.rows().len(), none.untold()), (0, 1));
    }

    #[test]
    fn no_miss_of_many_threads_is_lost() {
        let tally = Tally::new(64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    (0..4000).for_each(|i| assert!(tally.count(&problem(1 + i % 50), Hit::DEFAULT).choice.is_none()));
                });
            }
        });
        let counts: BTreeMap<u32, u64> = tally.rows().iter().map(|row| (row.problem.m(), row.count)).collect();
        assert_eq!(counts.values().sum::<u64>() + tally.untold(), 16_000);
        assert!(counts.len() >= 40 && counts.values().all(|count| count % 320 == 0), "{counts:?}");
    }

    #[test]
    fn misses_are_a_file_for_the_tuner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("untuned.csv");
        let tally = Tally::default();
        for m in [7, 7, 3] {
            tally.count(&problem(m), Hit::DEFAULT);
        }
        tgemm_db::format::untuned::write(&path, &tally.rows()).unwrap();
        let read = tgemm_db::format::read_untuned(&path).unwrap();
        let rows: Vec<(u32, u64)> = read.into_values().map(|row| (row.problem.m(), row.count)).collect();
        assert_eq!(rows, [(7, 2), (3, 1)]);
    }
}
