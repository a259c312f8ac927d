//! Baseline against tuned: the same tokens, interleaved in one process, and a check of the logits.
//!
//! Both decoders are fed one seeded token stream (teacher forcing), so that step t of one computes the same thing as step
//! t of the other. First, for some steps, their logits are held against the truth: the same weights and tokens with f32
//! activations and f64 sums ([`crate::Exact`]). Then the steps are timed in blocks, in the order A B B A, so that drift of
//! the machine meets both alike.
//!
//! **The bound on the logits.** The error of a row (one sequence at one step) is its largest distance from the truth,
//! divided by the root mean square of the truth's row. Nobody can say from the element type alone how far L layers of
//! rounding may lead; but the baseline shows how far they do lead. So tuned may be off by at most
//! `2 x (largest error of the baseline over all rows) + 4 x unit roundoff`: the factor because two sound orders of
//! summation scatter by a small factor, the rest because storing a logit of four times the root mean square (about the
//! largest of ten thousand normal values) rounds it by that much.
//! The chosen token must be the baseline's wherever the baseline prefers it to the second by more than that bound.

use std::sync::Arc;

use tgemm_db::outcome::median;
use tgemm_db::{Constraints, DType};
use tgemm_kernels::Backend;
use tgemm_lookup::Database;
use tgemm_lookup::dispatch::{Counters, DispatchOptions, ProblemReport, TunedGemm};

use crate::Error;
use crate::decoder::{Decoder, check_run};
use crate::model::Model;
use crate::product::{Dispatched, Exact};
use crate::random::Random;
use crate::run::timed;

/// Steps of one decoder in a row: short against drift, long against the first step's cold caches.
pub const BLOCK_STEPS: u32 = 4;
/// Factor on the baseline's own error.
const ERROR_FACTOR: f64 = 2.0;
/// Unit roundoffs that are always allowed.
const ERROR_ROUNDOFFS: f64 = 4.0;

/// What to compare.
#[derive(Clone, Debug)]
pub struct CompareOptions {
    /// Sequences: M of a decode step.
    pub batch: u32,
    /// Tokens of each prompt.
    pub prompt: u32,
    /// Decode steps whose logits are checked; they also warm everything up. At least 1.
    pub checked_steps: u32,
    /// Decode steps that are timed, rounded up to whole blocks.
    pub timed_steps: u32,
    /// Decides the tokens.
    pub seed: u64,
    /// The library or `via` of the baseline; `None`: the first one that takes a problem.
    pub baseline: Option<String>,
    /// What the tuned side may run.
    pub constraints: Constraints,
}

impl Default for CompareOptions {
    fn default() -> CompareOptions {
        CompareOptions {
            batch: 4,
            prompt: 16,
            checked_steps: 4,
            timed_steps: 32,
            seed: 0,
            baseline: None,
            constraints: Constraints::default(),
        }
    }
}

/// How the logits of both compare with the truth; see the module on the bound.
#[derive(Clone, Debug, PartialEq)]
pub struct LogitsCheck {
    /// Rows compared: sequences x (1 + checked steps).
    pub rows: u64,
    /// Largest error of the baseline.
    pub baseline_error: f64,
    /// Largest error of tuned.
    pub tuned_error: f64,
    /// What tuned may be off by.
    pub bound: f64,
    /// Rows where the baseline's first token leads by more than the bound.
    pub clear_rows: u64,
    /// Those of them where tuned prefers another token.
    pub clear_rows_that_differ: u64,
}

impl LogitsCheck {
    /// Error of tuned over its bound: over 1 is wrong.
    pub fn error_over_bound(&self) -> f64 {
        self.tuned_error / self.bound
    }

    /// Is tuned as good as the baseline? Not-a-number never is.
    pub fn passed(&self) -> bool {
        self.error_over_bound() <= 1.0 && self.clear_rows_that_differ == 0
    }
}

/// What came out.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Sequences that advance by one token in each step.
    pub batch: u32,
    /// Time of each timed decode step of the baseline, microseconds: what each sequence waits for its next token.
    pub baseline_us_per_token: Vec<f64>,
    /// The same of tuned.
    pub tuned_us_per_token: Vec<f64>,
    /// Time of the prompt, microseconds: baseline, then tuned.
    pub prefill_us: (f64, f64),
    /// Logits against the truth.
    pub logits: LogitsCheck,
    /// How often what was run on the tuned side.
    pub counters: Counters,
    /// What became of each problem on the tuned side.
    pub problems: Vec<ProblemReport>,
    /// Memory in packed weights, bytes: baseline, then tuned.
    pub packed_bytes: (u64, u64),
}

impl Comparison {
    /// Medians of a decode step, microseconds: baseline, then tuned.
    pub fn median_us_per_token(&self) -> (f64, f64) {
        let middle = |times: &[f64]| median(&mut times.to_vec()).unwrap_or(f64::NAN);
        (middle(&self.baseline_us_per_token), middle(&self.tuned_us_per_token))
    }

    /// Tokens per second over all sequences, from the medians: baseline, then tuned.
    pub fn tokens_per_s(&self) -> (f64, f64) {
        let (baseline, tuned) = self.median_us_per_token();
        let rate = |time_us: f64| f64::from(self.batch) * 1e6 / time_us;
        (rate(baseline), rate(tuned))
    }

    /// Median time of tuned over the baseline's: below 1 is faster.
    pub fn ratio(&self) -> f64 {
        let (baseline, tuned) = self.median_us_per_token();
        tuned / baseline
    }
}

/// The token stream: a prompt a sequence, then a token a sequence for each step.
pub(crate) struct Tokens {
    random: Random,
    vocab: u32,
    batch: u32,
}

impl Tokens {
    pub fn new(seed: u64, model: &Model, batch: u32) -> Tokens {
        Tokens { random: Random::new(seed, u64::MAX), vocab: model.config.vocab, batch }
    }

    pub fn draw(&mut self, steps: u32) -> Vec<u32> {
        (0..u64::from(self.batch) * u64::from(steps)).map(|_| self.random.below(self.vocab)).collect()
    }
}

/// Runs `model` on `backend` with the baseline and with the choices of `database`.
pub fn compare(
    model: &Model,
    backend: &Arc<dyn Backend>,
    database: &Arc<Database>,
    options: &CompareOptions,
) -> Result<Comparison, Error> {
    let blocks = options.timed_steps.div_ceil(BLOCK_STEPS);
    let steps = options.checked_steps.max(1).saturating_add(blocks.saturating_mul(BLOCK_STEPS));
    let positions = check_run(&model.config, options.batch, options.prompt, steps)?;
    let gemms = [&Arc::default(), database].map(|database| {
        let (constraints, baseline) = (options.constraints.clone(), options.baseline.clone());
        TunedGemm::new(Arc::clone(backend), Arc::clone(database), DispatchOptions { constraints, baseline })
    });
    let mut arms = Vec::new();
    for gemm in &gemms {
        let mut product = Dispatched::new(gemm);
        product.warm(model, options.batch, options.prompt)?;
        arms.push(Decoder::new(model, Box::new(product), options.batch, positions)?);
    }
    let mut tokens = Tokens::new(options.seed, model, options.batch);
    let (prefill_us, logits) = check(model, &mut arms, &mut tokens, positions, options)?;
    let [baseline_us_per_token, tuned_us_per_token] = time(&mut arms, &mut tokens, blocks)?;
    Ok(Comparison {
        batch: options.batch,
        baseline_us_per_token,
        tuned_us_per_token,
        prefill_us,
        logits,
        counters: gemms[1].counters(),
        problems: gemms[1].report(),
        packed_bytes: (gemms[0].packed_bytes(), gemms[1].packed_bytes()),
    })
}

/// The prompt and the checked steps: logits of both arms against the truth.
fn check(
    model: &Model,
    arms: &mut [Decoder<'_>],
    tokens: &mut Tokens,
    positions: u32,
    options: &CompareOptions,
) -> Result<((f64, f64), LogitsCheck), Error> {
    let mut truth = Decoder::new(model, Box::new(Exact), options.batch, positions)?;
    let mut rows = Rows::new(model.config.vocab as usize);
    let mut prefill_us = [0.0; 2];
    for step in 0..=options.checked_steps.max(1) {
        let input = tokens.draw(if step == 0 { options.prompt } else { 1 });
        let mut outputs = Vec::new();
        for (arm, time_us) in arms.iter_mut().zip(&mut prefill_us) {
            let mut logits = Vec::new();
            let took_us = timed(|| arm.prefill(&input).map(|output| logits = output.to_vec()))?;
            if step == 0 {
                *time_us = took_us;
            }
            outputs.push(logits);
        }
        rows.push(truth.prefill(&input)?, &outputs[0], &outputs[1]);
    }
    Ok(((prefill_us[0], prefill_us[1]), rows.judge(model.dtype)))
}

/// The timed steps, in blocks, in the order A B B A; times of both arms.
fn time(arms: &mut [Decoder<'_>], tokens: &mut Tokens, blocks: u32) -> Result<[Vec<f64>; 2], Error> {
    let mut times = [Vec::new(), Vec::new()];
    for block in 0..blocks {
        let inputs: Vec<_> = (0..BLOCK_STEPS).map(|_| tokens.draw(1)).collect();
        let order = if block.is_multiple_of(2) { [0, 1] } else { [1, 0] };
        for arm in order {
            for input in &inputs {
                times[arm].push(timed(|| arms[arm].step(input).map(|_| ()))?);
            }
        }
    }
    Ok(times)
}

/// Errors and preferences of all rows so far; judged at the end, when the bound is known.
struct Rows {
    vocab: usize,
    baseline_error: f64,
    tuned_error: f64,
    /// For each row: the baseline's lead of first over second, and whether tuned prefers the same token.
    leads: Vec<(f64, bool)>,
}

impl Rows {
    fn new(vocab: usize) -> Rows {
        Rows { vocab, baseline_error: 0.0, tuned_error: 0.0, leads: Vec::new() }
    }

    fn push(&mut self, truth: &[f32], baseline: &[f32], tuned: &[f32]) {
        let rows = truth.chunks(self.vocab).zip(baseline.chunks(self.vocab)).zip(tuned.chunks(self.vocab));
        for ((truth, baseline), tuned) in rows {
            let square: f64 = truth.iter().map(|value| f64::from(*value).powi(2)).sum();
            let scale = (square / truth.len() as f64).sqrt();
            self.baseline_error = worst(self.baseline_error, error(truth, baseline, scale));
            self.tuned_error = worst(self.tuned_error, error(truth, tuned, scale));
            let ((first, lead), (same, _)) = (preference(baseline), preference(tuned));
            self.leads.push((lead / scale, first == same));
        }
    }

    fn judge(self, dtype: DType) -> LogitsCheck {
        let bound = ERROR_FACTOR * self.baseline_error + ERROR_ROUNDOFFS * dtype.unit_roundoff();
        let clear = self.leads.iter().filter(|(lead, _)| *lead > bound);
        LogitsCheck {
            rows: self.leads.len() as u64,
            baseline_error: self.baseline_error,
            tuned_error: self.tuned_error,
            bound,
            clear_rows: clear.clone().count() as u64,
            clear_rows_that_differ: clear.filter(|(_, same)| !same).count() as u64,
        }
    }
}

/// The larger of two errors, where not-a-number is the largest of all.
fn worst(a: f64, b: f64) -> f64 {
    if a >= b || a.is_nan() { a } else { b }
}

fn error(truth: &[f32], row: &[f32], scale: f64) -> f64 {
    let errors = truth.iter().zip(row).map(|(truth, value)| (f64::from(*truth) - f64::from(*value)).abs());
    errors.fold(0.0, worst) / scale
}

/// The token with the largest logit, and its lead over the second.
fn preference(row: &[f32]) -> (usize, f64) {
    let (mut first, mut second) = ((0, f32::NEG_INFINITY), f32::NEG_INFINITY);
    for (token, &value) in row.iter().enumerate() {
        if value > first.1 {
            (second, first) = (first.1, (token, value));
        } else if value > second {
            second = value;
        }
    }
    (first.0, f64::from(first.1) - f64::from(second))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(baseline: &[f32], tuned: &[f32]) -> LogitsCheck {
        let mut rows = Rows::new(4);
        rows.push(&[1.0, -1.0, 1.0, -1.0], baseline, tuned);
        rows.judge(DType::F32)
    }

    #[test]
    fn tuned_may_be_twice_as_far_off_as_the_baseline_and_no_further() {
        let baseline = [1.01, -1.0, 1.0, -1.0];
        assert!(judged(&baseline, &[1.019, -1.0, 1.0, -1.0]).passed());
        assert!(!judged(&baseline, &[1.021, -1.0, 1.0, -1.0]).passed());
        assert!(!judged(&baseline, &[f32::NAN, -1.0, 1.0, -1.0]).passed());
        assert!(!judged(&[f32::NAN; 4], &baseline).passed(), "nothing can be said beside a broken baseline");
    }

    #[test]
    fn another_token_counts_only_where_the_lead_is_clear() {
        let close = judged(&[1.01, -1.0, 1.0, -1.0], &[1.0, -1.0, 1.01, -1.0]);
        assert_eq!((close.clear_rows, close.clear_rows_that_differ), (0, 0));
        let mut rows = Rows::new(2);
        rows.push(&[1.0, 0.0], &[1.0, 0.01], &[0.0, 1.0]);
        let clear = rows.judge(DType::F32);
        assert_eq!((clear.clear_rows, clear.clear_rows_that_differ), (1, 1));
    }
}
