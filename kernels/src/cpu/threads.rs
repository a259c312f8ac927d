//! Threads to compute on: one pool a thread count, shared by every library and kept for the life of the process.
//!
//! Starting threads costs far more than a product, and pools that come and go would be timed with it. Idle pools sleep.

use std::ops::Range;

use crate::Error;

/// Thread counts that may be in use in one process. A sweep offers the powers of two up to the cores, and the cores.
#[cfg(feature = "cpu-crates")]
const POOLS_MAX: usize = 32;

/// Threads that one pool may have.
pub const THREADS_MAX: usize = 4096;

/// A number of threads to compute on.
#[derive(Clone, Copy, Debug)]
pub struct Team {
    threads: usize,
    #[cfg(feature = "cpu-crates")]
    pool: Option<&'static rayon::ThreadPool>,
}

impl Team {
    /// The calling thread alone: nothing is handed over, nothing waits to wake.
    pub fn caller() -> Team {
        Team {
            threads: 1,
            #[cfg(feature = "cpu-crates")]
            pool: None,
        }
    }

    /// `threads` threads; 1 is [`Team::caller`]. Without feature `cpu-crates` there are no pools, and all is done by
    /// the caller.
    pub fn of(threads: usize) -> Result<Team, Error> {
        match threads {
            0 => Err(Error::unsupported("0 threads")),
            1 => Ok(Team::caller()),
            _ => Team::pooled(threads),
        }
    }

    /// `threads` threads of a pool, even where that is one: for routines that ask rayon how many threads there are,
    /// and would otherwise be told of the process-wide pool.
    #[cfg(feature = "cpu-crates")]
    pub fn pooled(threads: usize) -> Result<Team, Error> {
        Ok(Team { threads, pool: Some(pools::pool(threads)?) })
    }

    #[cfg(not(feature = "cpu-crates"))]
    fn pooled(threads: usize) -> Result<Team, Error> {
        match threads {
            1..=THREADS_MAX => Ok(Team::caller()),
            _ => Err(Error::unsupported(format!("{threads} threads; at most {THREADS_MAX}"))),
        }
    }

    /// How many threads.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Runs `body` where rayon's parallel iterators use this team; returns when it has finished.
    pub fn run<R: Send>(&self, body: impl FnOnce() -> R + Send) -> R {
        #[cfg(feature = "cpu-crates")]
        if let Some(pool) = self.pool {
            return pool.install(body);
        }
        body()
    }

    /// Calls `body` for consecutive ranges of `block` indices that cover `0..len`, on the whole team where there is
    /// more than one block.
    pub fn for_ranges(&self, len: usize, block: usize, body: impl Fn(Range<usize>) + Sync) {
        let block = block.max(1);
        #[cfg(feature = "cpu-crates")]
        if let (Some(pool), true) = (self.pool, self.threads > 1 && len > block) {
            use rayon::iter::{IntoParallelIterator, ParallelIterator};
            let ranges = (0..len.div_ceil(block)).into_par_iter();
            return pool.install(|| ranges.for_each(|i| body(i * block..((i + 1) * block).min(len))));
        }
        for start in (0..len).step_by(block) {
            body(start..(start + block).min(len));
        }
    }
}

#[cfg(feature = "cpu-crates")]
mod pools {
    use std::sync::{Mutex, PoisonError};

    use super::{Error, POOLS_MAX, THREADS_MAX};

    /// Never freed: a launch may be in any of them until the process ends.
    static POOLS: Mutex<Vec<(usize, &'static rayon::ThreadPool)>> = Mutex::new(Vec::new());

    /// The pool of `threads` threads, started when first asked for.
    pub fn pool(threads: usize) -> Result<&'static rayon::ThreadPool, Error> {
        if !(1..=THREADS_MAX).contains(&threads) {
            return Err(Error::unsupported(format!("{threads} threads; there may be 1 to {THREADS_MAX}")));
        }
        // A panic while the list was held leaves it as it was: entries are pushed whole.
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, pool)) = pools.iter().find(|(have, _)| *have == threads) {
            return Ok(pool);
        }
        if pools.len() >= POOLS_MAX {
            return Err(Error::unsupported(format!("{POOLS_MAX} thread counts are in use in this process already")));
        }
        let built = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(move |index| format!("tgemm-{index}/{threads}"))
            .build();
        let pool =
            built.map_err(|error| Error::Failed { call: "a thread pool's start".into(), reason: error.to_string() })?;
        let pool: &'static rayon::ThreadPool = Box::leak(Box::new(pool));
        pools.push((threads, pool));
        Ok(pool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn ranges_cover_every_index_once() {
        for threads in [1, 2, 3] {
            let team = Team::of(threads).unwrap();
            for (len, block) in [(0, 4), (1, 4), (4, 4), (5, 4), (1000, 7), (3, 0)] {
                let seen: Vec<AtomicUsize> = (0..len).map(|_| AtomicUsize::new(0)).collect();
                team.for_ranges(len, block, |range| {
                    range.for_each(|i| {
                        seen[i].fetch_add(1, Ordering::Relaxed);
                    })
                });
                assert!(seen.iter().all(|n| n.load(Ordering::Relaxed) == 1), "{len} by {block}");
            }
        }
    }

    #[test]
    fn impossible_counts_are_refused() {
        assert!(Team::of(0).is_err());
        assert!(Team::of(THREADS_MAX + 1).is_err());
    }

    #[cfg(feature = "cpu-crates")]
    #[test]
    fn one_thread_stays_on_the_caller_and_pools_are_shared() {
        let here = std::thread::current().id();
        assert_eq!(Team::of(1).unwrap().run(|| std::thread::current().id()), here);
        let (one, two) = (Team::pooled(1).unwrap(), Team::of(2).unwrap());
        assert_eq!(one.run(rayon::current_num_threads), 1);
        assert_eq!(two.run(rayon::current_num_threads), 2);
        assert!(std::ptr::eq(two.pool.unwrap(), Team::of(2).unwrap().pool.unwrap()));
    }
}
