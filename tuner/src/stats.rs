//! Statistics of paired timings: pure functions, no clock, no device.
//!
//! Timings on shared machines have heavy tails, so nothing here rests on the mean: the estimate of a ratio is the
//! Hodges–Lehmann median of Walsh averages of paired log ratios, its interval inverts Wilcoxon's signed-rank test
//! (Hollander, Wolfe & Chicken, *Nonparametric Statistical Methods*, 3rd ed., §3.2–3.3), exact in the number of pairs.

use tgemm_db::choice::Ratio;
use tgemm_db::outcome::median;

/// Most pairs that an interval is computed from; the exact distribution costs O(pairs³).
pub const PAIRS_MAX: usize = 256;

/// The interval of the median of `log_ratios` at `confidence` (such as 0.95), as ratios; `None` for fewer pairs than
/// can carry that confidence (6 at 0.95).
pub fn paired_ratio(log_ratios: &[f64], confidence: f64) -> Option<Ratio> {
    let pairs = &log_ratios[..log_ratios.len().min(PAIRS_MAX)];
    if pairs.iter().any(|r| !r.is_finite()) {
        return None;
    }
    let cut = signed_rank_cut(pairs.len(), 1.0 - confidence)?;
    let mut walsh = walsh_averages(pairs);
    let estimate = median(&mut walsh)?;
    let (low, high) = (walsh[cut], walsh[walsh.len() - 1 - cut]);
    Some(Ratio { estimate: estimate.exp(), low: low.exp(), high: high.exp() })
}

/// The Hodges–Lehmann estimate of the ratio alone, from any number of pairs.
pub fn ratio_estimate(log_ratios: &[f64]) -> Option<f64> {
    median(&mut walsh_averages(&log_ratios[..log_ratios.len().min(PAIRS_MAX)])).map(f64::exp)
}

/// Student's t at 97.5 %, by degrees of freedom from 1 on; beyond the last it is no larger.
const STUDENT_975: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// What figures of several processes come to: their Hodges–Lehmann median, and the interval in which a further process's lies
/// with 95 %, taking their logarithms for normally distributed; of two the range. `None` of none.
///
/// Not the interval of the median: that shrinks with every process looked at, and what one process will see does not.
pub fn over_processes(ratios: &[f64]) -> Option<Ratio> {
    let logs: Vec<f64> = ratios.iter().copied().map(f64::ln).collect();
    let estimate = ratio_estimate(&logs)?;
    let end = |of: fn(f64, f64) -> f64| ratios.iter().copied().reduce(of);
    let (least, most) = (end(f64::min)?, end(f64::max)?);
    let count = logs.len() as f64;
    if logs.len() < 3 {
        return Some(Ratio { estimate, low: least, high: most });
    }
    let mean = logs.iter().sum::<f64>() / count;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let student = STUDENT_975[(logs.len() - 2).min(STUDENT_975.len() - 1)];
    let half = student * (variance * (1.0 + 1.0 / count)).sqrt();
    // One that lies far off moves the mean and not the median: the interval holds that all the same.
    Some(Ratio { estimate, low: (mean - half).exp().min(estimate), high: (mean + half).exp().max(estimate) })
}

/// Means of all pairs of values, each value with itself included.
fn walsh_averages(values: &[f64]) -> Vec<f64> {
    let mut walsh = Vec::with_capacity(values.len() * (values.len() + 1) / 2);
    for (i, a) in values.iter().enumerate() {
        walsh.extend(values[i..].iter().map(|b| (a + b) / 2.0));
    }
    walsh
}

/// How many of the smallest (and of the largest) Walsh averages lie outside the interval of two-sided level `alpha`:
/// the largest c with P(W <= c) <= alpha/2 for Wilcoxon's statistic W; `None` if even the full range has not that level.
fn signed_rank_cut(pairs: usize, alpha: f64) -> Option<usize> {
    if pairs == 0 {
        return None;
    }
    // ways[s] / 2^pairs is the probability that the ranks with a positive sign sum to s.
    let top = pairs * (pairs + 1) / 2;
    let mut ways = vec![0.0f64; top + 1];
    ways[0] = 1.0;
    for rank in 1..=pairs {
        for sum in (rank..=rank * (rank + 1) / 2).rev() {
            ways[sum] += ways[sum - rank];
        }
        // Kept as probabilities, halved a rank: 2^256 ways would still fit an f64, but sums of them lose no digits so.
        ways.iter_mut().for_each(|w| *w *= 0.5);
    }
    let mut below = 0.0;
    let mut cut = None;
    for (sum, probability) in ways.iter().enumerate() {
        below += probability;
        if below > alpha / 2.0 {
            break;
        }
        cut = Some(sum);
    }
    cut
}

/// Geometric mean; `None` for no values or one that is not positive.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() || values.iter().any(|v| v.is_nan() || *v <= 0.0) {
        return None;
    }
    Some((values.iter().map(|v| v.ln()).sum::<f64>() / values.len() as f64).exp())
}

/// A small seeded generator for shuffles (splitmix64): a race must replay exactly from its seed.
#[derive(Clone, Debug)]
pub struct Shuffle(u64);

impl Shuffle {
    /// A generator that gives the same orders for the same seed.
    pub fn new(seed: u64) -> Shuffle {
        Shuffle(seed)
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A random number from 0 to 1.
    pub fn unit(&mut self) -> f64 {
        self.next_u64() as f64 / u64::MAX as f64
    }

    /// Shuffles in place (Fisher–Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            // The bias of a modulo over 64 bits is beyond measuring for lists this short.
            let j = (self.next_u64() % (i as u64 + 1)) as usize;
            items.swap(i, j);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A standard normal value out of 12 uniform ones.
    fn normal(rng: &mut Shuffle) -> f64 {
        (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0
    }

    #[test]
    fn cuts_equal_the_printed_tables() {
        // Two-sided 5 % critical values of Wilcoxon's signed-rank test, as in any table.
        let table = [(6, 0), (7, 2), (8, 3), (9, 5), (10, 8), (15, 25), (20, 52), (25, 89)];
        for (pairs, cut) in table {
            assert_eq!(signed_rank_cut(pairs, 0.05), Some(cut), "{pairs} pairs");
        }
        assert_eq!(signed_rank_cut(5, 0.05), None);
    }

    #[test]
    fn a_further_process_lies_where_it_is_said_to() {
        let mut rng = Shuffle::new(11);
        for processes in [3, 6, 40] {
            let trials = 2000;
            let covered = (0..trials)
                .filter(|_| {
                    let mut draw = || (0.01 * normal(&mut rng) - 0.05).exp();
                    let seen: Vec<f64> = (0..processes).map(|_| draw()).collect();
                    let ratio = over_processes(&seen).unwrap();
                    (ratio.low..ratio.high).contains(&draw())
                })
                .count();
            let share = covered as f64 / f64::from(trials);
            assert!((0.935..0.965).contains(&share), "{share} of {processes}");
        }
        assert_eq!(over_processes(&[0.9, 0.8]), Some(Ratio { estimate: 0.72f64.sqrt(), low: 0.8, high: 0.9 }));
        let one = over_processes(&[0.9]).unwrap();
        assert!((one.estimate - 0.9).abs() < 1e-12 && (one.low, one.high) == (0.9, 0.9));
        assert_eq!(over_processes(&[]), None);
        let off = over_processes(&[0.99, 0.99, 0.99, 0.99, 0.5]).unwrap();
        assert!(off.low < 0.5 && off.high >= off.estimate && off.estimate > 0.98, "{off:?}");
    }

    #[test]
    fn the_interval_covers_the_truth_as_often_as_it_says() {
        let mut rng = Shuffle::new(7);
        let truth: f64 = 0.97;
        let trials = 2000;
        let covered = (0..trials)
            .filter(|_| {
                let logs: Vec<f64> = (0..12).map(|_| truth.ln() + 0.02 * normal(&mut rng)).collect();
                let ratio = paired_ratio(&logs, 0.95).unwrap();
                ratio.low <= truth && truth <= ratio.high
            })
            .count();
        let share = covered as f64 / f64::from(trials);
        assert!((0.94..0.99).contains(&share), "covered {share}");
    }

    #[test]
    fn one_wild_sample_moves_little() {
        let mut logs = vec![0.90f64.ln(); 12];
        logs[3] = 5.0f64.ln();
        let ratio = paired_ratio(&logs, 0.95).unwrap();
        assert!((ratio.estimate - 0.90).abs() < 1e-9 && ratio.high < 3.0, "{ratio:?}");
        assert!((ratio_estimate(&logs).unwrap() - 0.90).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn intervals_are_ordered_and_turn_with_the_sign(logs in prop::collection::vec(-1.0f64..1.0, 6..40)) {
            let ratio = paired_ratio(&logs, 0.95).unwrap();
            prop_assert!(ratio.low <= ratio.estimate && ratio.estimate <= ratio.high);
            let turned: Vec<f64> = logs.iter().map(|l| -l).collect();
            let back = paired_ratio(&turned, 0.95).unwrap();
            prop_assert!((back.low * ratio.high - 1.0).abs() < 1e-9 && (back.high * ratio.low - 1.0).abs() < 1e-9);
        }

        #[test]
        fn a_shuffle_is_a_permutation_and_repeats_from_its_seed(seed: u64, n in 0usize..50) {
            let run = |seed| { let mut v: Vec<usize> = (0..n).collect(); Shuffle::new(seed).shuffle(&mut v); v };
            let mut sorted = run(seed);
            prop_assert_eq!(&sorted, &run(seed));
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn too_few_or_broken_pairs_give_no_interval() {
        assert_eq!(paired_ratio(&[0.1; 5], 0.95), None);
        assert_eq!(paired_ratio(&[f64::NAN; 10], 0.95), None);
        assert_eq!(geometric_mean(&[]), None);
        assert_eq!(geometric_mean(&[2.0, 8.0]), Some(4.0));
    }
}
