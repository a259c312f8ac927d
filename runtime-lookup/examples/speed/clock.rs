//! How long a call takes: many batches, of which the median and the quickest are told.

use std::fmt;
use std::ops::Range;
use std::time::{Duration, Instant};

/// A batch is so long that reading the clock does not count, and so short that few are disturbed.
const BATCH: Duration = Duration::from_micros(20);
const BATCHES: u32 = 2001;

/// Nanoseconds a call.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub median_ns: f64,
    pub least_ns: f64,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>8.1} {:>8.1}", self.median_ns, self.least_ns)
    }
}

fn batch(numbers: Range<u32>, calls: &impl Fn(Range<u32>)) -> Duration {
    let began = Instant::now();
    calls(numbers);
    began.elapsed()
}

/// What a call costs when `calls` makes one for each number of a range.
pub fn cost(calls: impl Fn(Range<u32>)) -> Cost {
    let mut count = 16;
    while batch(0..count, &calls) < BATCH {
        count *= 2;
    }
    let a_call = |took: Duration| took.as_secs_f64() * 1e9 / f64::from(count);
    let begin = |at: u32| at.wrapping_mul(count) % (u32::MAX - count);
    let mut all: Vec<f64> = (0..BATCHES).map(|at| a_call(batch(begin(at)..begin(at) + count, &calls))).collect();
    all.sort_by(f64::total_cmp);
    Cost { median_ns: all[all.len() / 2], least_ns: all[0] }
}

/// What `call` takes when it is made `times` times, milliseconds: the median and the least.
pub fn each_ms<T>(times: usize, mut call: impl FnMut() -> T) -> (f64, f64) {
    let mut all: Vec<f64> = (0..times.max(1))
        .map(|_| {
            let began = Instant::now();
            let made = call();
            let took = began.elapsed().as_secs_f64() * 1e3;
            drop(made);
            took
        })
        .collect();
    all.sort_by(f64::total_cmp);
    (all[all.len() / 2], all[0])
}
