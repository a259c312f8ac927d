//! The decoder against itself and against exact arithmetic.

use std::collections::BTreeMap;
use std::sync::Arc;

use tgemm_db::choice::{Ratio, Verdict};
use tgemm_db::{Choice, Constraints, DType, Recorded, Via};
use tgemm_decode::{CompareOptions, Decoder, Dispatched, Exact, Model, ModelConfig, RunOptions, compare, run};
use tgemm_kernels::cpu::CpuContext;
use tgemm_kernels::{Ask, Backend, Effort};
use tgemm_lookup::dispatch::{DispatchOptions, TunedGemm};
use tgemm_lookup::{Database, HitKind};
use tgemm_recorder::{Recorder, RecorderOptions};

fn cpu() -> Arc<dyn Backend> {
    Arc::new(CpuContext::open())
}

fn config() -> ModelConfig {
    ModelConfig {
        hidden: 64,
        intermediate: 96,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        head_dim: 16,
        vocab: 128,
        norm_eps: 1e-6,
        rope_theta: 10_000.0,
        qkv_bias: false,
        qk_norm: false,
        tied: false,
    }
}

/// A prompt of five tokens for each of two sequences, then two steps.
const PROMPT: [u32; 10] = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3];
const STEPS: [[u32; 2]; 2] = [[58, 97], [93, 23]];

/// Logits after the prompt and after each step.
fn decode(mut decoder: Decoder<'_>) -> Vec<f32> {
    let mut logits = decoder.prefill(&PROMPT).unwrap().to_vec();
    for step in STEPS {
        logits.extend(decoder.step(&step).unwrap());
    }
    logits
}

fn exact(model: &Model) -> Vec<f32> {
    decode(Decoder::new(model, Box::new(Exact), 2, 7).unwrap())
}

/// Largest distance over the root mean square of `want`.
fn error(have: &[f32], want: &[f32]) -> f64 {
    assert_eq!(have.len(), want.len());
    let square: f64 = want.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / want.len() as f64;
    let worst = have.iter().zip(want).map(|(a, b)| f64::from((a - b).abs())).fold(0.0, f64::max);
    worst / square.sqrt()
}

#[test]
fn every_variant_and_type_agrees_with_exact_arithmetic() {
    let backend = cpu();
    for (qkv_bias, qk_norm, tied) in [(false, false, false), (true, false, true), (false, true, false)] {
        let config = ModelConfig { qkv_bias, qk_norm, tied, ..config() };
        for (dtype, bound) in [(DType::F32, 1e-5), (DType::F16, 2e-2), (DType::Bf16, 2e-1)] {
            let model = Model::random(&config, dtype, 1).unwrap();
            let gemm = TunedGemm::new(Arc::clone(&backend), Arc::default(), DispatchOptions::default());
            let dispatched = Decoder::new(&model, Box::new(Dispatched::new(&gemm)), 2, 7).unwrap();
            let error = error(&decode(dispatched), &exact(&model));
            assert!(error < bound, "{dtype}, bias {qkv_bias}, qk-norm {qk_norm}: {error}");
            assert!(dtype == DType::F32 || error > 1e-5, "{dtype}: rounding must show, or the test compares nothing");
        }
    }
}

#[test]
fn each_variant_changes_the_logits_and_activations_stay_sane() {
    let logits = |config: &ModelConfig| exact(&Model::random(config, DType::F32, 1).unwrap());
    let deep = logits(&ModelConfig { layers: 12, ..config() });
    let square: f32 = deep.iter().map(|v| v * v).sum::<f32>() / deep.len() as f32;
    assert!((0.2..5.0).contains(&square), "mean square {square}");
    let plain = logits(&config());
    for other in [
        ModelConfig { qk_norm: true, ..config() },
        ModelConfig { qkv_bias: true, ..config() },
        ModelConfig { tied: true, ..config() },
        ModelConfig { kv_heads: 4, ..config() },
        ModelConfig { rope_theta: 100.0, ..config() },
    ] {
        assert!(error(&logits(&other), &plain) > 1e-3, "{other:?}");
    }
}

#[test]
fn steps_over_the_cache_give_what_a_whole_prefill_gives() {
    let model = Model::random(&ModelConfig { qk_norm: true, ..config() }, DType::F32, 2).unwrap();
    let stepped = exact(&model);
    // Both sequences whole: the prompt's five tokens and both steps' tokens.
    let whole: Vec<u32> = (0..2usize)
        .flat_map(|sequence| PROMPT[sequence * 5..][..5].iter().copied().chain(STEPS.map(|step| step[sequence])))
        .collect();
    let mut decoder = Decoder::new(&model, Box::new(Exact), 2, 7).unwrap();
    let at_once = decoder.prefill(&whole).unwrap().to_vec();
    assert!(error(&at_once, &stepped[stepped.len() - at_once.len()..]) < 1e-5);
    decoder.clear();
    let again = decoder.prefill(&whole).unwrap();
    assert_eq!(again, at_once, "cleared sequences leave nothing behind");
    // A sequence does not depend on its neighbour.
    let mut alone = Decoder::new(&model, Box::new(Exact), 1, 7).unwrap();
    let first = alone.prefill(&whole[..7]).unwrap();
    assert!(error(first, &at_once[..128]) < 1e-6);
}

#[test]
fn requests_that_do_not_fit_are_refused() {
    let model = Model::random(&config(), DType::F32, 2).unwrap();
    let decoder = |batch, positions| Decoder::new(&model, Box::new(Exact), batch, positions);
    assert!(decoder(0, 8).is_err() && decoder(1, 0).is_err() && decoder(1024, 1 << 17).is_err());
    let mut two = decoder(2, 3).unwrap();
    for (tokens, why) in [(vec![], "do not make"), (vec![1, 2, 3], "do not make"), (vec![1, 128], "vocabulary")] {
        let error = two.prefill(&tokens).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    assert!(two.prefill(&[1; 6]).is_ok());
    assert!(two.step(&[1, 1]).unwrap_err().to_string().contains("end at 3"));
    assert!(Model::random(&config(), DType::I8, 0).is_err());
    for (options, why) in [
        (RunOptions { batch: 0, ..RunOptions::default() }, "batch"),
        (RunOptions { prompt: 0, ..RunOptions::default() }, "prompt"),
        (RunOptions { tokens: u32::MAX, ..RunOptions::default() }, "tokens of a sequence"),
    ] {
        let error = run(&model, &cpu(), None, &options).unwrap_err().to_string();
        assert!(error.starts_with(why), "{error}");
    }
}

fn recorded(options: &RunOptions, model: &Model) -> Vec<Recorded> {
    let recorder = Recorder::open(RecorderOptions::in_memory());
    let timing = run(model, &cpu(), Some(&recorder), options).unwrap();
    assert_eq!(timing.us_per_token.len(), (options.tokens * options.repeats) as usize);
    recorder.recorded()
}

#[test]
fn a_run_records_every_layer_of_every_step_once() {
    let model = Model::random(&config(), DType::F32, 3).unwrap();
    let options = RunOptions { batch: 2, prompt: 5, tokens: 3, repeats: 2, ..RunOptions::default() };
    let counts: BTreeMap<_, _> = recorded(&options, &model)
        .iter()
        .map(|row| {
            let gemm = row.problem.gemm().unwrap();
            assert!(row.via == Via::Linear && !row.captured);
            ((gemm.m, gemm.site.n, gemm.site.k), row.count)
        })
        .collect();
    let (layers, prefills, steps) = (2, 2, 2 * 3);
    let mut want = BTreeMap::new();
    for (n, k) in [(128, 64), (64, 64), (192, 64), (64, 96)] {
        want.insert((10, n, k), layers * prefills);
        want.insert((2, n, k), layers * steps);
    }
    // The head has the shape of qkv here, and runs for the last tokens only.
    *want.get_mut(&(2, 128, 64)).unwrap() += prefills + steps;
    assert_eq!(counts, want);
}

/// A database that chooses, for every recorded problem, the last solution that `library` offers.
fn database(backend: &dyn Backend, rows: &[Recorded], library: &str) -> Arc<Database> {
    let library = tgemm_kernels::library(backend, library).unwrap();
    let choices = rows.iter().map(|row| {
        let solution = library.candidates(&row.problem, Effort::Minimal, &Ask::default()).unwrap().pop().unwrap();
        Choice {
            problem: row.problem,
            device: backend.environment().device.clone().into(),
            solution,
            time_us: 1.0,
            ratio: Ratio { estimate: 0.5, low: 0.4, high: 0.6 },
            verdict: Verdict::Faster,
            baselines: vec![],
            error_over_bound: 0.1,
            err_ratio: 0.0,
            pack_us: None,
            count: row.count,
            tuned_at: String::new(),
            origin: None,
        }
    });
    Arc::new(Database::from_choices(choices, backend.environment()))
}

#[test]
fn a_comparison_hits_every_recorded_problem_and_its_logits_pass() {
    let backend = cpu();
    for dtype in [DType::F32, DType::F16, DType::Bf16] {
        let model = Model::random(&config(), dtype, 4).unwrap();
        let rows = recorded(&RunOptions { batch: 2, prompt: 4, tokens: 1, ..RunOptions::default() }, &model);
        let database = database(&*backend, &rows, "rten");
        let options =
            CompareOptions { batch: 2, prompt: 4, checked_steps: 2, timed_steps: 5, ..CompareOptions::default() };
        let comparison = compare(&model, &backend, &database, &options).unwrap();
        assert_eq!(comparison.baseline_us_per_token.len(), 8, "whole blocks");
        assert_eq!(comparison.tuned_us_per_token.len(), 8);
        assert_eq!(comparison.counters.missed, 0);
        assert!(comparison.counters.fallen_back.is_empty(), "{:?}", comparison.counters);
        // Prompt, two checked and eight timed steps, each with four layers in each of two and the head.
        assert_eq!(comparison.counters.applied, BTreeMap::from([(HitKind::Exact, 11 * 9)]));
        assert_eq!(comparison.problems.len(), rows.len());
        assert_eq!(comparison.logits.rows, 2 * 3);
        assert!(comparison.logits.passed(), "{dtype}: {:?}", comparison.logits);
        assert!(comparison.logits.clear_rows > 0);
    }
}

#[test]
fn without_choices_both_sides_run_the_baseline_and_agree_to_the_bit() {
    let backend = cpu();
    let model = Model::random(&config(), DType::F32, 5).unwrap();
    let options =
        CompareOptions { batch: 3, timed_steps: 1, constraints: Constraints::default(), ..Default::default() };
    let comparison = compare(&model, &backend, &Arc::default(), &options).unwrap();
    assert!(comparison.counters.applied.is_empty() && comparison.counters.missed > 0);
    assert_eq!(comparison.logits.baseline_error, comparison.logits.tuned_error);
    assert!(comparison.logits.passed());
}
