//! What the gate must let pass and what it must not, on real sums: honest kernels are run in their own arithmetic, faults
//! are made in an honest result.

use super::*;
use crate::measure::data::Data;
use half::{bf16, f16};
use tgemm_db::Site;
use tgemm_db::problem::{Leading, Scalar, ScaleMode, Trans};

/// A problem with its operands, in f32, and its reference.
struct Case {
    problem: Problem,
    data: Data,
    reference: Reference,
    x: Vec<Vec<f32>>,
    w: Vec<Vec<f32>>,
}

impl Case {
    fn new(site: Site, m: u32) -> Case {
        let problem = Problem::from(site.at(m));
        let data = Data::new(&problem, 11).unwrap();
        let reference = Reference::new(&problem, &data, 11).unwrap();
        let rows = |matrix: &crate::measure::data::Matrix| -> Vec<Vec<f32>> {
            let row = |r| {
                let mut row = Vec::new();
                matrix.of_batch(0).row(r, &mut row);
                row
            };
            (0..matrix.layout().rows()).map(row).collect()
        };
        let (x, w) = (rows(&data.x), rows(&data.w));
        Case { problem, data, reference, x, w }
    }

    fn linear(m: u32, n: u32, k: u32, dtype: DType) -> Case {
        Case::new(Site::linear(n, k, dtype).with_bias(dtype), m)
    }

    /// All outputs, by a kernel that sums with `sum` and adds the bias in f32 before it rounds once.
    fn run(&self, sum: impl Fn(&[f32], &[f32]) -> f32) -> Vec<f32> {
        let out = Float::of(self.problem.gemm().unwrap().site.out).unwrap();
        let mut outputs = Vec::new();
        for x in &self.x {
            for (j, w) in self.w.iter().enumerate() {
                let bias = self.data.bias.as_ref().map_or(0.0, |bias| bias.of_batch(0).value(0, j));
                outputs.push(out.round(f64::from(sum(x, w) + bias)));
            }
        }
        outputs
    }

    fn judge_as(&self, outputs: &[f32], numerics: Numerics) -> ErrorFigures {
        let gate = Gate::new(&self.problem, numerics).unwrap();
        assert_eq!(outputs.len(), self.reference.cells.len(), "a test of the gate compares every output");
        let (figures, worst) = gate.judge(&self.reference, outputs);
        assert_eq!(worst.is_some(), figures.max_over_bound > 1.0);
        figures
    }

    fn judge(&self, outputs: &[f32]) -> ErrorFigures {
        self.judge_as(outputs, Numerics::Exact)
    }

    #[track_caller]
    fn accepts(&self, outputs: &[f32]) -> ErrorFigures {
        let figures = self.judge(outputs);
        assert!(figures.max_over_bound <= 1.0, "{figures:?}");
        figures
    }

    #[track_caller]
    fn rejects(&self, outputs: &[f32]) {
        let figures = self.judge(outputs);
        assert!(figures.max_over_bound > 1.0, "{figures:?}");
    }
}

/// Sums the products of two vectors in f32, in some order.
type Kernel = fn(&[f32], &[f32]) -> f32;

/// One addition after the other, products fused: the longest chain there is.
fn sequential(x: &[f32], w: &[f32]) -> f32 {
    x.iter().zip(w).fold(0.0, |sum, (&x, &w)| x.mul_add(w, sum))
}

/// Sums of 256 by sums of 16 lanes: what vector kernels do.
fn blocked(x: &[f32], w: &[f32]) -> f32 {
    let mut total = 0.0f32;
    for (x, w) in x.chunks(256).zip(w.chunks(256)) {
        let mut lanes = [0.0f32; 16];
        for (i, (&x, &w)) in x.iter().zip(w).enumerate() {
            lanes[i % 16] += x * w;
        }
        total += lanes.iter().sum::<f32>();
    }
    total
}

/// Chains of 16 exact products cut off (not rounded) to f32: a caricature of matrix cores.
fn cut_off(x: &[f32], w: &[f32]) -> f32 {
    let cut = |v: f64| {
        let near = v as f32;
        if f64::from(near).abs() > v.abs() { f32::from_bits(near.to_bits() - 1) } else { near }
    };
    x.chunks(16).zip(w.chunks(16)).fold(0.0f32, |sum, (x, w)| {
        cut(f64::from(sum) + x.iter().zip(w).map(|(&x, &w)| f64::from(x) * f64::from(w)).sum::<f64>())
    })
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::Bf16] {
        for k in [1, 7, 64, 1000, 8192] {
            cases.push(Case::linear(4, 64, k, dtype));
            cases.push(Case::new(Site::linear(64, k, dtype).with_out(DType::F32), 4));
        }
    }
    cases
}

#[test]
fn honest_kernels_pass() {
    for case in cases() {
        let key = case.problem.to_string();
        let kernels: [(&str, Kernel); 3] = [("sequential", sequential), ("blocked", blocked), ("cut off", cut_off)];
        // Units that cut off do not take f32.
        let count = if case.problem.gemm().unwrap().site.x == DType::F32 { 2 } else { 3 };
        for (name, sum) in &kernels[..count] {
            let figures = case.judge(&case.run(sum));
            assert!(figures.max_over_bound <= 1.0, "{name} on {key}: {figures:?}");
            assert_eq!(figures.share_beyond, 0.0, "AITER's rule passes what ours passes: {name} on {key}");
        }
    }
}

#[test]
fn the_bound_has_room_but_not_too_much() {
    // The longest chain stays well inside (19 deviations allow it) and is not lost in the bound either.
    let case = Case::linear(16, 128, 8192, DType::F32);
    let figures = case.accepts(&case.run(sequential));
    println!("f32, K = 8192, one after the other: {:.3} of the bound", figures.max_over_bound);
    assert!((0.02..0.5).contains(&figures.max_over_bound), "{figures:?}");
}

#[test]
fn a_second_pass_that_rounds_twice_and_a_conversion_that_cuts_off_pass() {
    let case = Case::linear(4, 64, 512, DType::Bf16);
    let round = |v: f32| bf16::from_f32(v).to_f32();
    let cut = |v: f32| f32::from_bits(v.to_bits() & 0xFFFF_0000);
    let with = |bias: bool, convert: &dyn Fn(f32) -> f32| -> Vec<f32> {
        let bias_of = |j| if bias { case.data.bias.as_ref().unwrap().of_batch(0).value(0, j) } else { 0.0 };
        let row = |x: &Vec<f32>| {
            let out = |(j, w): (usize, &Vec<f32>)| convert(convert(blocked(x, w)) + bias_of(j));
            case.w.iter().enumerate().map(out).collect::<Vec<f32>>()
        };
        case.x.iter().flat_map(row).collect()
    };
    case.accepts(&with(true, &round));
    case.accepts(&with(true, &cut));
    case.rejects(&with(false, &round));
}

#[test]
fn one_wrong_element_is_rejected() {
    for case in cases() {
        let good = case.run(blocked);
        for at in [0, good.len() / 2, good.len() - 1] {
            let mut bad = good.clone();
            bad[at] += 0.05 * case.reference.cells[at].norm as f32;
            case.rejects(&bad);
        }
    }
}

#[test]
fn a_dropped_tail_of_k_is_rejected() {
    for case in cases().iter().filter(|case| case.problem.gemm().unwrap().site.k >= 64) {
        let k = case.problem.gemm().unwrap().site.k as usize;
        let kept = k - k / 64;
        case.rejects(&case.run(|x, w| blocked(&x[..kept], &w[..kept])));
    }
}

#[test]
fn swapped_rows_shifted_columns_and_a_missing_bias_are_rejected() {
    for dtype in [DType::F32, DType::F16, DType::Bf16] {
        let case = Case::linear(4, 32, 256, dtype);
        let good = case.run(blocked);
        let mut swapped = good.clone();
        swapped[..64].rotate_left(32);
        case.rejects(&swapped);
        let mut shifted = good.clone();
        shifted.chunks_mut(32).for_each(|row| row.rotate_left(1));
        case.rejects(&shifted);
        let pairs =
            |i: usize| f64::from(good[i]) - f64::from(case.data.bias.as_ref().unwrap().of_batch(0).value(0, i % 32));
        let out = Float::of(dtype).unwrap();
        let no_bias: Vec<f32> = (0..good.len()).map(|i| out.round(pairs(i))).collect();
        case.rejects(&no_bias);
    }
}

#[test]
fn nan_and_infinite_are_rejected_with_finite_figures() {
    let case = Case::linear(4, 32, 64, DType::F32);
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut outputs = case.run(blocked);
        outputs[17] = bad;
        let figures = case.judge(&outputs);
        assert_eq!((figures.max_over_bound, figures.max_relative, figures.share_beyond), (f64::MAX, f64::MAX, 1.0));
    }
}

#[test]
fn sums_in_16_bits_are_rejected_where_f32_was_asked() {
    let in_f16 = |x: &[f32], w: &[f32]| {
        x.iter().zip(w).fold(f16::ZERO, |sum, (&x, &w)| f16::from_f32(sum.to_f32() + x * w)).to_f32()
    };
    let in_bf16 = |x: &[f32], w: &[f32]| {
        x.iter().zip(w).fold(bf16::ZERO, |sum, (&x, &w)| bf16::from_f32(sum.to_f32() + x * w)).to_f32()
    };
    for dtype in [DType::F16, DType::Bf16] {
        for k in [1024, 8192] {
            let case = Case::linear(4, 64, k, dtype);
            case.rejects(&case.run(in_f16));
            case.rejects(&case.run(in_bf16));
        }
    }
    // And accepted where the solution says so, or the problem asks for it.
    let case = Case::linear(4, 64, 1024, DType::F16);
    assert!(case.judge_as(&case.run(in_f16), Numerics::ReducedAccumulation).max_over_bound <= 1.0);
    let asked = Case::new(Site { compute: Compute::F16, ..Site::linear(64, 1024, DType::F16) }, 4);
    asked.accepts(&asked.run(in_f16));
}

#[test]
fn partial_sums_in_16_bits_pass_only_in_their_class() {
    let handed_on = |round: fn(f32) -> f32| {
        move |x: &[f32], w: &[f32]| {
            x.chunks(512).zip(w.chunks(512)).fold(0.0f32, |sum, (x, w)| round(sum + blocked(x, w)))
        }
    };
    for (dtype, round) in
        [(DType::F16, (|v| f16::from_f32(v).to_f32()) as fn(f32) -> f32), (DType::Bf16, |v| bf16::from_f32(v).to_f32())]
    {
        let case = Case::linear(8, 64, 8192, dtype);
        let outputs = case.run(handed_on(round));
        case.rejects(&outputs);
        assert!(case.judge_as(&outputs, Numerics::Partial16).max_over_bound <= 1.0);
        // The class is no licence for a dropped tail.
        let kept = 8192 - 8192 / 64;
        let short = case.run(|x, w| handed_on(round)(&x[..kept], &w[..kept]));
        assert!(case.judge_as(&short, Numerics::Partial16).max_over_bound > 1.0);
    }
}

#[test]
fn factors_old_output_and_activation_are_checked() {
    for activation in super::super::data::CHECKED {
        let site = Site {
            alpha: Scalar::Other,
            beta: Scalar::Other,
            activation: *activation,
            trans: Trans::Linear,
            ld: Leading::default(),
            ..Site::linear(64, 96, DType::F32)
        };
        let case = Case::new(site, 6);
        let with = |alpha: f32, beta: f32| -> Vec<f32> {
            let cell = |i: usize| {
                let (row, col) = (i / 64, i % 64);
                let old = case.data.c.as_ref().unwrap().of_batch(0).value(row, col);
                let before = alpha * blocked(&case.x[row], &case.w[col]) + beta * old;
                super::super::reference::activate(*activation, f64::from(before)) as f32
            };
            (0..6 * 64).map(cell).collect()
        };
        case.accepts(&with(0.75, -0.5));
        case.rejects(&with(1.0, -0.5));
        case.rejects(&with(0.75, 0.0));
    }
}

#[test]
fn tf32_passes_where_asked_and_not_where_f32_was() {
    let tf32 = |v: f32| f32::from_bits((v.to_bits() + 0x1000) & !0x1FFF);
    let sum = |x: &[f32], w: &[f32]| {
        let (x, w): (Vec<f32>, Vec<f32>) = (x.iter().map(|&v| tf32(v)).collect(), w.iter().map(|&v| tf32(v)).collect());
        blocked(&x, &w)
    };
    let strict = Case::linear(4, 64, 1024, DType::F32);
    strict.rejects(&strict.run(sum));
    let asked = Case::new(Site { compute: Compute::Tf32, ..Site::linear(64, 1024, DType::F32) }, 4);
    asked.accepts(&asked.run(sum));
}

/// A problem with 8-bit operands and factors; 9 blocks of K (padded to 12) and 2 of N where `k` is 1152.
fn eight_bit(dtype: DType, scale: ScaleMode, k: u32) -> Case {
    Case::new(Site { scale, ..Site::linear(256, k, dtype).with_out(DType::Bf16) }, 4)
}

impl Case {
    /// All outputs, by a kernel that takes the first `kept` of K in blocks of 128, multiplies each block's sum with what
    /// `factor` says for (row, column, block), and rounds once.
    fn run_scaled(&self, kept: usize, factor: impl Fn(usize, usize, usize) -> f32) -> Vec<f32> {
        let out = Float::of(self.problem.gemm().unwrap().site.out).unwrap();
        let mut outputs = Vec::new();
        for (i, x) in self.x.iter().enumerate() {
            for (j, w) in self.w.iter().enumerate() {
                let blocks = x[..kept].chunks(128).zip(w[..kept].chunks(128)).enumerate();
                let sum = blocks.fold(0.0f32, |sum, (block, (x, w))| blocked(x, w).mul_add(factor(i, j, block), sum));
                outputs.push(out.round(sum.into()));
            }
        }
        outputs
    }

    fn k(&self) -> usize {
        self.problem.gemm().unwrap().site.k as usize
    }
}

const EIGHT_BIT: [DType; 4] = [DType::F8E4m3Fn, DType::F8E4m3Fnuz, DType::F8E5m2, DType::F8E5m2Fnuz];

#[test]
fn eight_bit_kernels_pass_with_all_of_k_and_not_without_a_64th() {
    for dtype in EIGHT_BIT {
        for scale in [ScaleMode::None, ScaleMode::Tensor, ScaleMode::TokenChannel, ScaleMode::Block128] {
            for k in [1152, 4096] {
                let case = eight_bit(dtype, scale, k);
                let factor = |i: usize, j: usize, block: usize| {
                    case.data.scales.as_ref().map_or(1.0, |scales| scales.factor(i, j, block) as f32)
                };
                case.accepts(&case.run_scaled(case.k(), factor));
                case.rejects(&case.run_scaled(case.k() - case.k() / 64, factor));
            }
        }
    }
}

#[test]
fn wrong_factors_of_tensors_tokens_and_channels_are_rejected() {
    let case = eight_bit(DType::F8E4m3Fn, ScaleMode::Tensor, 1152);
    let scales = case.data.scales.as_ref().unwrap();
    let (x, w) = (scales.x()[0], scales.w()[0]);
    case.accepts(&case.run_scaled(1152, |_, _, _| x * w));
    for wrong in [x, w, x * x, w * w, 1.0, x / w] {
        case.rejects(&case.run_scaled(1152, |_, _, _| wrong));
    }
    let case = eight_bit(DType::F8E4m3Fnuz, ScaleMode::TokenChannel, 1152);
    let scales = case.data.scales.as_ref().unwrap();
    let (x, w) = (scales.x(), scales.w());
    case.accepts(&case.run_scaled(1152, |i, j, _| x[i] * w[j]));
    case.rejects(&case.run_scaled(1152, |_, j, _| x[0] * w[j]));
    case.rejects(&case.run_scaled(1152, |i, j, _| x[(i + 1) % 4] * w[j]));
    case.rejects(&case.run_scaled(1152, |i, j, _| x[i] * w[(j + 1) % 256]));
    case.rejects(&case.run_scaled(1152, |i, j, _| x[i] * w[j / 128 * 128]));
    // One token, or one channel, is enough.
    case.rejects(&case.run_scaled(1152, |i, j, _| if i == 3 { x[2] * w[j] } else { x[i] * w[j] }));
    case.rejects(&case.run_scaled(1152, |i, j, _| if j == 255 { x[i] * w[0] } else { x[i] * w[j] }));
}

#[test]
fn wrong_factors_of_blocks_are_rejected() {
    let case = eight_bit(DType::F8E4m3Fn, ScaleMode::Block128, 1152);
    let scales = case.data.scales.as_ref().unwrap();
    let (x, w) = (scales.x(), scales.w());
    assert_eq!((x.len(), w.len()), (9 * 4, 2 * 12));
    // The layout as it is documented: tokens together in x, blocks of K together and padded in w.
    let right = |i: usize, j: usize, block: usize| x[block * 4 + i] * w[j / 128 * 12 + block];
    case.accepts(&case.run_scaled(1152, right));
    let wrongs: [&dyn Fn(usize, usize, usize) -> f32; 6] = [
        &|i, j, block| x[i * 9 + block] * w[j / 128 * 12 + block],
        &|i, j, block| x[block * 4 + i] * w[j / 128 * 9 + block],
        &|i, j, block| x[block * 4 + i] * w[block * 2 + j / 128],
        &|i, _, block| x[block * 4 + i] * w[block],
        &|i, j, block| right(i, j, (block + 1) % 9),
        &|i, j, _| right(i, j, 0),
    ];
    for (number, wrong) in wrongs.iter().enumerate() {
        let figures = case.judge(&case.run_scaled(1152, wrong));
        assert!(figures.max_over_bound > 1.0, "number {number}: {figures:?}");
    }
    // The last block's alone, of one token.
    case.rejects(&case.run_scaled(1152, |i, j, block| right(i, j, if (i, block) == (3, 8) { 7 } else { block })));
}

/// Instructions of 32 products that keep 14 bits of the accumulator: a caricature of 8-bit matrix cores.
fn fourteen_bits(x: &[f32], w: &[f32]) -> f32 {
    x.chunks(32).zip(w.chunks(32)).fold(0.0f32, |sum, (x, w)| {
        let exact = f64::from(sum) + x.iter().zip(w).map(|(&x, &w)| f64::from(x) * f64::from(w)).sum::<f64>();
        f32::from_bits((exact as f32).to_bits() & !0x3FF)
    })
}

#[test]
fn sums_in_14_bits_pass_where_fast_accumulation_was_asked_only() {
    let site = Site::linear(256, 8192, DType::F8E4m3Fn).with_out(DType::F32);
    let strict = Case::new(site, 4);
    strict.rejects(&strict.run(fourteen_bits));
    let promoted =
        |x: &[f32], w: &[f32]| x.chunks(128).zip(w.chunks(128)).map(|(x, w)| fourteen_bits(x, w)).sum::<f32>();
    strict.accepts(&strict.run(promoted));
    let fast = Case::new(Site { fast_accumulation: true, ..site }, 4);
    fast.accepts(&fast.run(fourteen_bits));
    fast.rejects(&fast.run(|x, w| fourteen_bits(&x[..8192 - 128], &w[..8192 - 128])));
}

#[test]
fn aiters_ratio_follows_aiters_rule() {
    let case = Case::new(Site::linear(32, 64, DType::F32), 4);
    let good: Vec<f32> = case.reference.cells.iter().map(|cell| cell.value as f32).collect();
    assert_eq!(aiter_error_ratio(Float::F32, &case.reference, &good), 0.0);
    let mut off = good.clone();
    for value in &mut off[..32] {
        *value += 0.011 + 0.011 * value.abs();
    }
    assert_eq!(aiter_error_ratio(Float::F32, &case.reference, &off), 0.25);
    assert_eq!(aiter_error_ratio(Float::Bf16, &case.reference, &off), 0.0);
    let largest = good.iter().fold(0.0f32, |max, value| max.max(value.abs()));
    off[0] = good[0] + 0.51 * largest;
    assert_eq!(aiter_error_ratio(Float::F32, &case.reference, &off), 1.0);
}

#[test]
fn no_worse_than_twice_the_baseline_with_a_floor() {
    let problem = Problem::from(Site::linear(8, 1024, DType::F16).at(1));
    let with = |max_relative| ErrorFigures { max_relative, ..ErrorFigures::default() };
    let no_worse = |candidate, baseline| no_worse_than_baseline(&problem, &with(candidate), &with(baseline));
    assert!(no_worse(0.02, 0.01));
    assert!(!no_worse(0.021, 0.01));
    // One rounding to f16 is 2^-11 = 4.9e-4.
    assert!(no_worse(4.8e-4, 0.0));
    assert!(!no_worse(5.0e-4, 0.0));
}

#[test]
fn other_types_are_unsupported() {
    let refused = |site: Site| matches!(Gate::new(&site.at(1).into(), Numerics::Exact), Err(Error::Unsupported(_)));
    assert!(refused(Site::linear(8, 8, DType::I8)));
    assert!(refused(Site { compute: Compute::I32, ..Site::linear(8, 8, DType::F32) }));
    assert!(!refused(Site { compute: Compute::F64, ..Site::linear(8, 8, DType::F32) }));
}
