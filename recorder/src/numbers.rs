//! Numbers that are given to one holder at a time: a bit for each, without a lock.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The numbers below a limit.
pub(crate) struct Numbers {
    /// Bits that are set are taken.
    taken: Box<[AtomicU64]>,
    /// The word in which the last one was found: those before it were full then.
    near: AtomicUsize,
}

impl Numbers {
    /// All numbers below `limit`, a multiple of 64; none is taken.
    pub fn new(limit: usize) -> Numbers {
        let taken = (0..limit / 64).map(|_| AtomicU64::new(0)).collect();
        Numbers { taken, near: AtomicUsize::new(0) }
    }

    /// A number that nobody has; `None` if all are taken.
    pub fn take(&self) -> Option<usize> {
        let near = self.near.load(Ordering::Relaxed);
        let words = self.taken.len();
        (near..near + words).map(|at| at % words).find_map(|at| {
            let word = &self.taken[at];
            let mut seen = word.load(Ordering::Relaxed);
            while seen != u64::MAX {
                let bit = 1 << seen.trailing_ones();
                let before = word.fetch_or(bit, Ordering::Relaxed);
                if before & bit == 0 {
                    self.near.store(at, Ordering::Relaxed);
                    return Some(at * 64 + bit.trailing_zeros() as usize);
                }
                seen = before;
            }
            None
        })
    }

    /// Gives one back.
    pub fn give_back(&self, number: usize) {
        self.taken[number / 64].fetch_and(!(1 << (number % 64)), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_given_once_until_it_comes_back() {
        let numbers = Numbers::new(192);
        let mut all: Vec<usize> = std::iter::from_fn(|| numbers.take()).collect();
        all.sort_unstable();
        assert_eq!(all, (0..192).collect::<Vec<_>>());
        numbers.give_back(70);
        numbers.give_back(5);
        let mut again = [numbers.take(), numbers.take()];
        again.sort_unstable();
        assert_eq!((again, numbers.take()), ([Some(5), Some(70)], None));
    }

    #[test]
    fn threads_share_none() {
        let numbers = Numbers::new(64 * 2);
        let take = || {
            let mut kept = Vec::new();
            for (call, number) in (0..50).filter_map(|call| Some((call, numbers.take()?))) {
                if call % 5 == 0 {
                    numbers.give_back(number);
                } else {
                    kept.push(number);
                }
            }
            kept
        };
        let mut all: Vec<usize> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(take)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 3 * 40);
    }
}
