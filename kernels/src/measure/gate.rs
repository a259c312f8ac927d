//! The gate: how far an output may be from the reference, and why.
//!
//! # Derivation
//!
//! Let one output be `act(alpha · Σ x_k w_k + bias + beta · c)`, K products, summed with unit roundoff `u` in some order
//! (one after the other, in blocks, as a tree, split over K), then rounded to the output's type with unit roundoff `v`.
//!
//! **Summation.** Each addition k makes a relative error δ_k, |δ_k| <= u, in a partial sum S_k, so the error is Σ δ_k S_k to
//! first order. The worst case K · u · Σ|x_k w_k| is never met; for rounding errors that are independent with mean zero and
//! data with mean zero (ours, see [`super::data`]) S_k has the size √(k/K) · p with p = √Σ(x_k w_k)², and for the longest
//! chain of additions, one after the other, the error has a standard deviation of at most u · p · √(K/6) (Higham and Mary,
//! "Sharper probabilistic backward error analysis for basic linear algebra kernels with random data", 2020, derive the √K).
//! Every other order has shorter chains and less error. Bias and old output may be what the sum starts from: they ride on
//! every partial sum, so they are added to p: norm = |alpha| · p + |bias| + |beta · c|. Hence
//!
//! ```text
//! summation = SUMMATION · u · √K · norm,     SUMMATION = 8
//! ```
//!
//! which is 8 · √6 = 19 standard deviations of the worst order: that covers the largest of the millions of outputs that are
//! compared and the long tail of Σ S_k². It still rejects what it should: leaving out a share s of K errs by √s · p, a
//! 64th by p/8, where f32 at K = 8192 is allowed 4e-5 · norm; summing in 16 bits errs 2^13 times as much as in f32.
//!
//! **Cutting off.** Matrix cores, which take 16-bit operands or tf32, add a few products at a time and may cut the sum off
//! instead of rounding it. Those errors all point to zero, so they grow with K and not with √K: one of at most 2u · |S_k|
//! for every `CUT_OFF_K` = 8 products. For such operands only:
//!
//! ```text
//! cutting off = 2 · u · K / CUT_OFF_K · norm
//! ```
//!
//! which is 1.2e-4 · norm at K = 8192: a thousandth of what a dropped 64th of K errs by.
//!
//! **8-bit operands.** Hopper's matrix cores keep about 14 bits while they add the products of one instruction, which takes
//! [`CUT_OFF_K_8_BIT`] of K, to the accumulator (DeepSeek-V3 technical report, section 3.3.2), and cut off the rest: at most
//! 2^-13 of the partial sum each time, all towards zero. With fast accumulation the partial sum is that of all K so far:
//!
//! ```text
//! cutting off = 2 · 2^-14 · K / CUT_OFF_K_8_BIT · norm                       (3 % of norm at K = 8192)
//! ```
//!
//! without it a library adds the accumulator to an f32 sum and clears it every [`PROMOTION_K`] of K, whose partial sums are
//! √(PROMOTION_K / K) as large:
//!
//! ```text
//! cutting off = 2 · 2^-14 · √(PROMOTION_K · K) / CUT_OFF_K_8_BIT · norm      (0.4 % of norm at K = 8192)
//! ```
//!
//! Fast accumulation over a long K is so inexact that a dropped 64th of K (12 % of norm) passes from K = 32768 on; there only
//! the comparison with the baseline's own error is sharp.
//!
//! **Products.** In f32 they are exact for 16-bit operands and else as good as one more addition. tf32 rounds both factors
//! to 11 significant bits, once and independently of K: `SUMMATION · 2^-11 · norm` on top.
//!
//! **Rounding.** Rounding to the output's type errs by v · |result|; a kernel that adds the bias, or applies the activation,
//! in a second pass over an output of that type rounds at each stage. `stages` sums those magnitudes
//! ([`super::reference::Cell::stages`]). Conversion by cutting off errs by up to 2v, and some conversions do:
//!
//! ```text
//! rounding = ROUNDING · v · stages,          ROUNDING = 2
//! ```
//!
//! This term follows the output itself, not the norm, so outputs near zero are judged sharply. That is what finds partial
//! sums that were handed on in 16 bits: they err by v · norm in small outputs too.
//!
//! **Activation.** Its slope (at most 1.13 for GELU, 1.1 for SiLU) multiplies what came before, its own evaluation errs by
//! some ulps of f32, and GELU has two definitions, with erf and with tanh, up to 4.8e-4 apart; both are right.
//!
//! **Classes.** A solution that says that it sums in fewer bits, or hands partial sums on in 16 bits, is held to what it
//! says: u becomes 2^-11, or `PARTIAL · v · √(K / 128) · norm` is added. Whether it may be chosen is for the constraints.

use tgemm_db::outcome::ErrorFigures;
use tgemm_db::problem::{Activation, Gemm};
use tgemm_db::{Compute, DType, Numerics, Problem};

use super::float::Float;
use super::layout::Place;
use super::reference::{Cell, Reference};
use crate::Error;

/// Multiples of u · √K · norm that a sum may be wrong by.
pub const SUMMATION: f64 = 8.0;

/// Fewest products that matrix cores add between two cut-offs.
pub const CUT_OFF_K: f64 = 8.0;

/// Products of 8-bit operands that one instruction adds up.
pub const CUT_OFF_K_8_BIT: f64 = 32.0;

/// Products of 8-bit operands after which sums go on in f32, where accumulation is not fast.
pub const PROMOTION_K: f64 = 128.0;

/// Half the share of a partial sum of 8-bit products that an addition may cut off.
const ROUNDOFF_8_BIT: f64 = 1.0 / (1u64 << 14) as f64;

/// Multiples of the output type's roundoff that each rounding may be wrong by: 2 lets conversions cut off.
pub const ROUNDING: f64 = 2.0;

/// Multiples of the output type's roundoff by which each hand-over of a 16-bit partial sum may be wrong.
pub const PARTIAL: f64 = 2.0;

/// Shortest run of K between two hand-overs of a 16-bit partial sum.
const PARTIAL_K: f64 = 128.0;

/// Evaluation error of an activation in f32, relative to its argument: 16 ulps, which fast exponentials keep.
const ACTIVATION: f64 = 1.0 / (1u64 << 20) as f64;

/// The two definitions of GELU differ by at most this.
const GELU_GAP: f64 = 4.8e-4;

/// How many times the baseline's error a solution may have.
pub const BASELINE_ERROR_RATIO_MAX: f64 = 2.0;

/// The bound on the errors of one problem's outputs, for one class of arithmetic.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    out: Float,
    /// Multiplies the norm.
    norm_factor: f64,
    /// Multiplies the stages.
    stage_factor: f64,
    /// Added to all.
    floor: f64,
}

/// The worst output that was compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worst {
    /// Which it is.
    pub place: Place,
    /// What the solution gave.
    pub got: f64,
    /// What it should be.
    pub want: f64,
    /// How far it may be off.
    pub bound: f64,
}

/// The unit roundoff of a sum in `compute`, and of its products.
fn roundoffs(compute: Compute) -> Result<(f64, f64), Error> {
    let (f32_sum, f16_sum) = (DType::F32.unit_roundoff(), DType::F16.unit_roundoff());
    match compute {
        Compute::F32 => Ok((f32_sum, 0.0)),
        Compute::Tf32 => Ok((f32_sum, f16_sum)),
        Compute::F16 => Ok((f16_sum, 0.0)),
        // The reference itself sums in f64, so its own error counts too.
        Compute::F64 => Ok((2.0 * DType::F64.unit_roundoff(), 0.0)),
        other => Err(Error::unsupported(format!("sums in {other} cannot be checked yet"))),
    }
}

impl Gate {
    /// The gate of `problem` for a solution of class `numerics`.
    ///
    /// [`Error::Unsupported`] for types that the host cannot check.
    pub fn new(problem: &Problem, numerics: Numerics) -> Result<Gate, Error> {
        let Gemm { site, .. } = crate::gemm_of(problem)?;
        let out = Float::of_output(site.out)?;
        let (mut sum, product) = roundoffs(site.compute)?;
        let k = f64::from(site.k);
        let (x, w) = (Float::of(site.x)?, Float::of(site.w)?);
        let matrix_cores = site.compute == Compute::Tf32 || (x != Float::F32 && w != Float::F32);
        let cut_off = match (matrix_cores, x.is_8_bit() && w.is_8_bit()) {
            (_, true) => {
                let run = if site.fast_accumulation { k } else { (PROMOTION_K.min(k) * k).sqrt() };
                2.0 * ROUNDOFF_8_BIT * run / CUT_OFF_K_8_BIT
            }
            (true, false) => 2.0 * sum * k / CUT_OFF_K,
            (false, false) => 0.0,
        };
        let mut handed_on = 0.0;
        match numerics {
            Numerics::ReducedAccumulation => sum = sum.max(DType::F16.unit_roundoff()),
            Numerics::Partial16 => {
                let partial = if out == Float::F32 { DType::Bf16 } else { site.out };
                handed_on = PARTIAL * partial.unit_roundoff() * (k / PARTIAL_K).max(1.0).sqrt();
            }
            _ => {}
        }
        let (slope, own, gap) = match site.activation {
            Activation::Gelu => (1.13, ACTIVATION, GELU_GAP),
            Activation::Silu => (1.1, ACTIVATION, 0.0),
            _ => (1.0, 0.0, 0.0),
        };
        let least = match out {
            // Twice half the distance between subnormals.
            Float::F16 => 2f64.powi(-24),
            Float::F32 | Float::Bf16 | Float::F8(_) => f64::from(f32::MIN_POSITIVE),
        };
        Ok(Gate {
            out,
            norm_factor: slope * (SUMMATION * (sum * k.sqrt() + product) + cut_off + handed_on),
            stage_factor: slope * ROUNDING * site.out.unit_roundoff() + own,
            floor: least + gap,
        })
    }

    /// How far the output may be from `cell.value`.
    pub fn bound(&self, cell: &Cell) -> f64 {
        self.norm_factor * cell.norm + self.stage_factor * cell.stages + self.floor
    }

    /// Compares the outputs at the reference's cells, in its order; the worst one if it is beyond its bound.
    ///
    /// A value that is not finite counts as infinitely wrong; figures stay finite, so that they can be stored as numbers.
    pub fn judge(&self, reference: &Reference, outputs: &[f32]) -> (ErrorFigures, Option<Worst>) {
        let mut figures = ErrorFigures { checked: outputs.len() as u64, ..ErrorFigures::default() };
        let mut worst = None;
        for (i, (cell, &got)) in reference.cells.iter().zip(outputs).enumerate() {
            let bound = self.bound(cell);
            let error = (f64::from(got) - cell.value).abs();
            // `max` and `min` drop a NaN operand, so the order matters: NaN becomes f64::MAX here.
            let capped = |ratio: f64| if ratio.is_finite() { ratio } else { f64::MAX };
            let over = capped(error / bound);
            figures.max_relative = figures.max_relative.max(capped(error / cell.norm.max(f64::MIN_POSITIVE)));
            if over > figures.max_over_bound {
                figures.max_over_bound = over;
                if over > 1.0 {
                    worst = Some(Worst { place: reference.place(i), got: got.into(), want: cell.value, bound });
                }
            }
        }
        figures.share_beyond = aiter_error_ratio(self.out, reference, outputs);
        (figures, worst)
    }
}

/// AITER's `err_ratio`: the share of outputs for which `|got − want| > tolerance + tolerance · |want|`, with a tolerance of
/// 5e-2 for bf16 outputs and 1e-2 for others and the reference rounded to the output's type; 1 if any output is not finite
/// or any error is over half of the largest output.
pub fn aiter_error_ratio(out: Float, reference: &Reference, outputs: &[f32]) -> f64 {
    let tolerance = if out == Float::Bf16 { 5e-2 } else { 1e-2 };
    let (mut beyond, mut error_max, mut want_max) = (0u64, 0.0f64, 0.0f64);
    for (cell, &got) in reference.cells.iter().zip(outputs) {
        if !got.is_finite() {
            return 1.0;
        }
        let want = f64::from(out.round(cell.value));
        let error = (f64::from(got) - want).abs();
        beyond += u64::from(error > tolerance + tolerance * want.abs());
        (error_max, want_max) = (error_max.max(error), want_max.max(want.abs()));
    }
    match error_max > want_max / 2.0 {
        true => 1.0,
        false => beyond as f64 / outputs.len().max(1) as f64,
    }
}

/// Is a solution's error at most [`BASELINE_ERROR_RATIO_MAX`] times the baseline's, plus a floor of one rounding of the
/// output and u · √K for the sum?
///
/// The floor keeps a solution with honest sums alive beside a baseline that happens to sum in blocks or in f64.
pub fn no_worse_than_baseline(problem: &Problem, candidate: &ErrorFigures, baseline: &ErrorFigures) -> bool {
    let Some(Gemm { site, .. }) = problem.gemm() else { return false };
    let sum = roundoffs(site.compute).map_or(0.0, |(sum, product)| sum * f64::from(site.k).sqrt() + product);
    let floor = sum + site.out.unit_roundoff();
    candidate.max_relative <= BASELINE_ERROR_RATIO_MAX * baseline.max_relative + floor
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
