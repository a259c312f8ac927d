//! `decode`: runs the example decoder. `TGEMM_TUNE=1` records its problems; with `TGEMM_DB` it also runs what was tuned,
//! beside the baseline. Results on stdout, messages on stderr.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::Parser;
use tgemm_db::DType;
use tgemm_db::outcome::median;
use tgemm_decode::{CompareOptions, Comparison, Model, ModelConfig, Run, RunOptions, compare, run};
use tgemm_kernels::Backend;
use tgemm_kernels::cpu::CpuContext;
use tgemm_lookup::Database;
use tgemm_lookup::dispatch::ProblemReport;
use tgemm_recorder::Recorder;

/// Exit code where tuned logits are beyond their bound.
const EXIT_LOGITS: u8 = 1;
/// Exit code of usage and input errors.
const EXIT_INPUT: u8 = 2;

/// Runs a small Llama-style decoder with random weights on this machine's processors.
///
/// TGEMM_TUNE=1 records its GEMMs (TGEMM_UNTUNED: file or folder). TGEMM_DB=FILE[:FILE...] runs the tuned choices of
/// those databases beside the baseline, interleaved, and checks the logits.
#[derive(Parser)]
#[command(name = "decode", version)]
struct Args {
    /// A Hugging Face config.json
    #[arg(long, value_name = "FILE", conflicts_with = "model")]
    config: Option<PathBuf>,
    /// A model whose sizes are built in: tiny, qwen3-0.6b
    #[arg(long, default_value = "tiny")]
    model: String,
    /// Element type of weights and activations: f32, f16, bf16
    #[arg(long, default_value = "bf16")]
    dtype: DType,
    /// Sequences at once: M of a decode step
    #[arg(long, default_value_t = 4)]
    batch: u32,
    /// Tokens of each prompt
    #[arg(long, default_value_t = 16)]
    prompt: u32,
    /// Tokens to generate for each sequence
    #[arg(long, default_value_t = 32)]
    tokens: u32,
    /// How often the baseline alone runs all this
    #[arg(long, default_value_t = 1)]
    repeats: u32,
    /// What runs where nothing is tuned: a library's name, such as gemm or onednn
    #[arg(long, default_value = "gemm")]
    baseline: String,
    /// Seed of weights and tokens
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Decode steps whose logits are held against exact arithmetic
    #[arg(long, default_value_t = 4)]
    checked_steps: u32,
}

impl Args {
    fn model(&self) -> anyhow::Result<Model> {
        let (name, text) = match &self.config {
            Some(path) => {
                let name = path.display().to_string();
                let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
                (name, text)
            }
            None => match tgemm_configs::model(&self.model) {
                Some(text) => (self.model.clone(), text.to_owned()),
                None => {
                    let known: Vec<_> = tgemm_configs::models().iter().map(|model| model.name).collect();
                    bail!("unknown model '{}' (known: {}; --config reads a file)", self.model, known.join(", "));
                }
            },
        };
        let config = ModelConfig::from_json(&text).with_context(|| name.clone())?;
        let millions = config.weights() as f64 / 1e6;
        eprintln!("decode: {name}, {millions:.0} M weights in linear layers, {}", self.dtype);
        Ok(Model::random(&config, self.dtype, self.seed)?)
    }
}

fn main() -> ExitCode {
    match decode(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(EXIT_LOGITS),
        Err(error) => {
            eprintln!("decode: {error:#}");
            ExitCode::from(EXIT_INPUT)
        }
    }
}

/// Everything; `false` if the tuned logits are beyond their bound.
fn decode(args: &Args) -> anyhow::Result<bool> {
    let backend: Arc<dyn Backend> = Arc::new(CpuContext::open());
    let model = args.model()?;
    let recorder = Recorder::global();
    let baseline = Some(args.baseline.clone());
    let (database, report) = Database::from_env(backend.environment());
    let options = RunOptions {
        batch: args.batch,
        prompt: args.prompt,
        tokens: args.tokens,
        repeats: args.repeats,
        seed: args.seed,
        baseline: baseline.clone(),
    };
    print_run(args, &run(&model, &backend, recorder, &options)?);
    if let Some(recorder) = recorder {
        recorder.flush();
        let place = recorder.path().map_or("memory only".to_owned(), |path| path.display().to_string());
        eprintln!("decode: {} problems recorded: {place}", recorder.recorded().len());
    }
    if report.files.is_empty() {
        return Ok(true);
    }
    eprintln!("{report}");
    let options = CompareOptions {
        batch: args.batch,
        prompt: args.prompt,
        checked_steps: args.checked_steps,
        timed_steps: args.tokens,
        seed: args.seed,
        baseline,
        ..CompareOptions::default()
    };
    let comparison = compare(&model, &backend, &Arc::new(database), &options)?;
    print_comparison(&model, &comparison);
    Ok(comparison.logits.passed())
}

fn print_run(args: &Args, run: &Run) {
    let middle = |times: &[f64]| median(&mut times.to_vec()).unwrap_or(f64::NAN);
    let (prefill_us, step_us) = (middle(&run.prefill_us), middle(&run.us_per_token));
    println!(
        "baseline {}: {:.1} tokens/s, {:.2} ms a token at batch {}; prompt of {} in {:.1} ms",
        args.baseline,
        f64::from(args.batch) * 1e6 / step_us,
        step_us / 1e3,
        args.batch,
        args.prompt,
        prefill_us / 1e3,
    );
}

fn print_comparison(model: &Model, comparison: &Comparison) {
    let ((base_us, tuned_us), (base_rate, tuned_rate)) = (comparison.median_us_per_token(), comparison.tokens_per_s());
    println!("\n{:<11} {:>10} {:>12} {:>12} {:>12}", "interleaved", "tokens/s", "ms a token", "prompt ms", "packed MB");
    let (packed, prefill) = (comparison.packed_bytes, comparison.prefill_us);
    for (name, rate, step_us, prefill_us, bytes) in
        [("baseline", base_rate, base_us, prefill.0, packed.0), ("tuned", tuned_rate, tuned_us, prefill.1, packed.1)]
    {
        let (step_ms, prefill_ms, megabytes) = (step_us / 1e3, prefill_us / 1e3, bytes as f64 / 1e6);
        println!("{name:<11} {rate:>10.1} {step_ms:>12.2} {prefill_ms:>12.1} {megabytes:>12.1}");
    }
    println!("tuned takes {:.3} of the baseline's time a token\n", comparison.ratio());
    println!("{:<9} {:>5} {:>6} {:>6}  {:<9} {:>6}  runs", "layer", "M", "N", "K", "hit", "times");
    for problem in &comparison.problems {
        print_problem(model, problem);
    }
    let logits = &comparison.logits;
    println!(
        "\nlogits: error {:.1e} (baseline {:.1e}, bound {:.1e}) over {} rows; {} of {} clear choices differ: {}",
        logits.tuned_error,
        logits.baseline_error,
        logits.bound,
        logits.rows,
        logits.clear_rows_that_differ,
        logits.clear_rows,
        if logits.passed() { "passed" } else { "FAILED" },
    );
}

fn print_problem(model: &Model, line: &ProblemReport) {
    let Some(gemm) = line.problem.gemm() else { return };
    let layer = model.linears().iter().find(|linear| linear.site == gemm.site).map_or("", |linear| linear.name);
    let hit = match line.tuned_m {
        Some(m) if m != gemm.m => format!("{} {m}", line.kind),
        _ => line.kind.to_string(),
    };
    let solution = line.solution.as_ref().map_or(String::new(), ToString::to_string);
    let why = line.fallback.as_ref().map_or(String::new(), |fallback| format!(" ({fallback})"));
    let (n, k, times) = (gemm.site.n, gemm.site.k, line.applied + line.baseline);
    println!("{layer:<9} {:>5} {n:>6} {k:>6}  {hit:<9} {times:>6}  {solution}{why}", gemm.m);
}
