use super::super::rng::Rng;
use super::*;
use proptest::prelude::*;
use proptest::sample::select;
use tgemm_db::problem::{Batch, Leading, Scalar, Trans};
use tgemm_db::{DType, Site};

/// Every output, straight from the definition.
fn naive(problem: &Problem, data: &Data) -> Vec<f64> {
    let Gemm { m, site } = *problem.gemm().unwrap();
    let mut outputs = Vec::new();
    for (b, i) in (0..site.batch.count).flat_map(|b| (0..m as usize).map(move |i| (b, i))) {
        for j in 0..site.n as usize {
            let mut sum = 0.0;
            for k in 0..site.k as usize {
                let x = if site.trans.x() { data.x.of_batch(b).value(k, i) } else { data.x.of_batch(b).value(i, k) };
                let w = if site.trans.w() { data.w.of_batch(b).value(k, j) } else { data.w.of_batch(b).value(j, k) };
                sum += f64::from(x) * f64::from(w);
            }
            let mut v = f64::from(data.alpha) * sum;
            v += data.bias.as_ref().map_or(0.0, |bias| f64::from(bias.of_batch(0).value(0, j)));
            v += data.c.as_ref().map_or(0.0, |c| f64::from(data.beta) * f64::from(c.of_batch(b).value(i, j)));
            outputs.push(match site.activation {
                Activation::None => v,
                Activation::Relu => v.max(0.0),
                Activation::Silu => v / (1.0 + (-v).exp()),
                Activation::Gelu => gelu_with_erf(v),
                _ => unreachable!("a new activation needs its definition here"),
            });
        }
    }
    outputs
}

/// x · Φ(x), by integrating the normal density (Simpson, 2000 intervals): independent of the tanh form.
fn gelu_with_erf(x: f64) -> f64 {
    let end = x.clamp(-10.0, 10.0);
    let step = end / 2000.0;
    let density = |t: f64| (-t * t / 2.0).exp() / std::f64::consts::TAU.sqrt();
    let weight = |i: u32| if i == 0 || i == 2000 { 1.0 } else { 2.0 + 2.0 * f64::from(i % 2) };
    let area: f64 = (0..=2000).map(|i| weight(i) * density(step * f64::from(i))).sum::<f64>() * step / 3.0;
    x * (0.5 + area)
}

fn any_problem() -> impl Strategy<Value = Problem> {
    let sizes = (1u32..9, 1u32..20, 1u32..40);
    let dtypes = select(vec![DType::F32, DType::F16, DType::Bf16]);
    let words = (select(Trans::ALL), select(Scalar::ALL), select(Scalar::ALL), select(super::super::data::CHECKED));
    let batches = (1u32..4, any::<bool>(), any::<bool>());
    (sizes, dtypes, words, any::<bool>(), 0u32..3, batches).prop_map(|(sizes, dtype, words, bias, pad, batch)| {
        let ((m, n, k), (trans, alpha, beta, activation)) = (sizes, words);
        let ld =
            Leading { x: if trans.x() { m } else { k } + pad, w: if trans.w() { n } else { k } + pad, out: n + pad };
        let bias = bias.then_some(dtype);
        let plain = Site { trans, alpha, beta, activation, bias, ld, ..Site::linear(n, k, dtype) };
        let (count, shares_x, shares_w) = batch;
        // Long enough for matrices in any storage.
        let stride = |shares: bool| if shares { 0 } else { u64::from((m + n + k + 3) * (m + n + k + 3)) };
        let batch = Batch { count, stride_x: stride(shares_x), stride_w: stride(shares_w), stride_out: stride(false) };
        Site { batch, ..plain }.at(m).into()
    })
}

proptest! {
    #[test]
    fn small_problems_are_computed_whole_and_as_defined(problem in any_problem(), seed in any::<u64>()) {
        let data = Data::new(&problem, seed).unwrap();
        let reference = Reference::new(&problem, &data, seed).unwrap();
        let want = naive(&problem, &data);
        prop_assert_eq!(reference.cells.len(), want.len());
        let gap = if problem.gemm().unwrap().site.activation == Activation::Gelu { 4.8e-4 } else { 0.0 };
        for (cell, want) in reference.cells.iter().zip(want) {
            prop_assert!((cell.value - want).abs() <= 1e-9 * cell.norm.max(1.0) + gap, "{} {}", cell.value, want);
            prop_assert!(cell.stages >= cell.value.abs() && cell.norm >= 0.0);
        }
    }

    #[test]
    fn samples_ascend_and_hold_both_ends(extent in 1u32..3000, count in 1u32..400, seed in any::<u64>()) {
        let picks = strata(extent, count, &mut Rng::new(seed, 0));
        prop_assert_eq!(picks.len(), count.min(extent) as usize);
        prop_assert!(picks.windows(2).all(|pair| pair[0] < pair[1]));
        prop_assert_eq!(picks[0], 0);
        if count > 1 {
            prop_assert_eq!(picks[picks.len() - 1], extent - 1);
        }
        // No hole is wider than two strips.
        if count > 2 && count < extent {
            let strip = (extent - 2).div_ceil(count - 2);
            prop_assert!(picks.windows(2).all(|pair| pair[1] - pair[0] <= 2 * strip));
        }
    }

    #[test]
    fn counts_keep_the_limits(m in 1u32..100_000, n in 1u32..300_000, k in 1u32..200_000, batch in 1u32..2000) {
        let (batches, rows, cols) = sample_counts(batch, m, n, k);
        prop_assert!((batches == batch || batches == BATCHES_MAX) && batches >= 2.min(batch));
        prop_assert!((1..=m).contains(&rows) && (1..=n).contains(&cols));
        prop_assert!(rows >= 2.min(m) && cols >= 2.min(n));
        let outputs = u64::from(rows) * u64::from(cols) * u64::from(batches);
        let least = 4 * u64::from(batches);
        prop_assert!(outputs <= OUTPUTS_MAX && (outputs <= least || outputs * u64::from(k) <= MACS_MAX));
    }
}

#[test]
fn a_large_decode_problem_is_sampled_in_time() {
    let problem = Problem::from(Site::linear(57_344, 8192, DType::Bf16).at(1));
    let start = std::time::Instant::now();
    let data = Data::new(&problem, 1).unwrap();
    let reference = Reference::new(&problem, &data, 1).unwrap();
    let elapsed = start.elapsed();
    println!("57344x8192 bf16: {} outputs in {elapsed:?}", reference.cells.len());
    assert_eq!((reference.rows.len(), reference.cols.len()), (1, 8192));
    assert!(elapsed.as_secs_f64() < 5.0, "{elapsed:?}");
    // A few by definition.
    for at in [0, 4000, 8191] {
        let col = reference.cols[at] as usize;
        let want: f64 = (0..8192)
            .map(|k| f64::from(data.x.of_batch(0).value(0, k)) * f64::from(data.w.of_batch(0).value(col, k)))
            .sum();
        assert!((reference.cells[at].value - want).abs() < 1e-6);
    }
}

#[test]
fn a_large_batch_is_sampled_at_both_ends_and_between() {
    let batch = Batch { count: 256, stride_x: 64 * 128, stride_w: 128 * 512, stride_out: 64 * 512 };
    let problem = Problem::from(Site { batch, ..Site::linear(512, 128, DType::Bf16) }.at(64));
    let data = Data::new(&problem, 1).unwrap();
    let reference = Reference::new(&problem, &data, 1).unwrap();
    assert_eq!((reference.batches.len(), reference.rows.len(), reference.cols.len()), (16, 64, 512));
    assert_eq!((reference.batches[0], reference.batches[15]), (0, 255));
    let per_batch = 64 * 512;
    for (at, &batch) in reference.batches.iter().enumerate() {
        let index = at * per_batch + 3 * 512 + 500;
        assert_eq!(reference.place(index), Place { matrix: Some(batch), row: 3, col: 500 });
        let (x, w) = (data.x.of_batch(batch), data.w.of_batch(batch));
        let want: f64 = (0..128).map(|k| f64::from(x.value(3, k)) * f64::from(w.value(500, k))).sum();
        assert!((reference.cells[index].value - want).abs() < 1e-9);
    }
}
