//! `tune demo`: the whole loop on this machine, with a real decoder as the engine.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tgemm_db::store::Store;
use tgemm_db::{Constraints, DType, Recorded};
use tgemm_decode::{CompareOptions, Comparison, Model, ModelConfig, RunOptions};
use tgemm_kernels::{Backend, Context};
use tgemm_lookup::{Database, HitKind};
use tgemm_recorder::{Recorder, RecorderOptions};

use super::sweep::sweep_into;
use super::{Exit, Failure, input, shapes};
use crate::device;
use crate::race::Rules;
use crate::report::progress::Progress;
use crate::report::{self, table};
use crate::sweep::{BenchSettings, Settings};
use tgemm_kernels::{Between, Effort};

/// What `tune demo` takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The smallest run that still shows every step
    #[arg(long)]
    pub quick: bool,
    /// A Hugging Face config.json, or a shipped model: `tiny`, `qwen3-0.6b`
    #[arg(long, default_value = "tiny", value_name = "FILE|NAME")]
    pub model: String,
    /// Element type of weights and activations: f32, f16, bf16
    #[arg(long, default_value = "f16", value_parser = |s: &str| s.parse::<DType>())]
    pub dtype: DType,
    /// Sequences decoded together
    #[arg(long, default_value_t = 4)]
    pub batch: u32,
    /// Tokens of each prompt
    #[arg(long, default_value_t = 16)]
    pub prompt: u32,
    /// Time for the sweep; default: 40s, with --quick 8s
    #[arg(long, value_name = "TIME", value_parser = input::duration)]
    pub budget: Option<Duration>,
    /// Keep recording and database in this folder
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
}

/// The folder that recording and database live in: the user's, or one that goes with the demo.
enum Folder {
    Kept(PathBuf),
    Scratch(tempfile::TempDir),
}

impl Folder {
    fn open(keep: &Option<PathBuf>) -> anyhow::Result<Folder> {
        Ok(match keep {
            Some(path) => {
                std::fs::create_dir_all(path).with_context(|| format!("{}: cannot be made", path.display()))?;
                Folder::Kept(path.clone())
            }
            None => Folder::Scratch(tempfile::tempdir().context("no scratch folder can be made")?),
        })
    }

    fn join(&self, name: &str) -> PathBuf {
        match self {
            Folder::Kept(path) => path.join(name),
            Folder::Scratch(dir) => dir.path().join(name),
        }
    }
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<Exit, Failure> {
    let started = Instant::now();
    let folder = Folder::open(&args.keep)?;
    let config = shapes::config_text(&args.model)?;
    let config = ModelConfig::from_json(&config).with_context(|| args.model.clone())?;
    let opened = device::open("cpu").map_err(Failure::device)?;
    let backend = backend(opened.context);
    eprintln!("1. record: {} in {}, batch {}, prompt {}", args.model, args.dtype, args.batch, args.prompt);
    let model = Model::random(&config, args.dtype, 1)?;
    let recorded = record(args, &model, &backend, &folder)?;
    eprintln!("2. sweep: {} problems, {} calls", recorded.len(), recorded.iter().map(|r| r.count).sum::<u64>());
    let (choices, interrupted) = sweep(args, &model, &recorded, &folder)?;
    if interrupted {
        return Ok(Exit::Interrupted);
    }
    eprintln!("3. look up and run tuned");
    let (database, loaded) = Database::open(&[folder.join("tuned.sqlite")], backend.environment());
    if !loaded.is_clean() {
        eprintln!("{loaded}");
    }
    let constraints = Constraints::default();
    let exact = recorded.iter().filter(|r| database.lookup(&r.problem, &constraints).kind == HitKind::Exact).count();
    let compared = compare(args, &model, &backend, &Arc::new(database))?;
    let mut text = choices;
    summarise(&mut text, &recorded, exact, &compared, started.elapsed());
    report::write_stdout(&text).context("cannot write results")?;
    let sound = exact == recorded.len() && compared.logits.passed();
    Ok(if sound { Exit::Done } else { Exit::Partly })
}

/// The device as an engine has it.
fn backend(context: Box<dyn Context>) -> Arc<dyn Backend> {
    let context: Arc<dyn Context> = Arc::from(context);
    context
}

/// Runs the engine with its recorder on, and reads back what the recorder wrote.
fn record(args: &Args, model: &Model, backend: &Arc<dyn Backend>, folder: &Folder) -> anyhow::Result<Vec<Recorded>> {
    let path = folder.join("untuned.csv");
    let recorder = Recorder::open(RecorderOptions::to(&path));
    let options = RunOptions {
        batch: args.batch,
        prompt: args.prompt,
        tokens: if args.quick { 4 } else { 16 },
        ..RunOptions::default()
    };
    tgemm_decode::run(model, backend, Some(&recorder), &options)?;
    drop(recorder);
    let selection = input::Selection { max_m: None, filter: None };
    Ok(input::merged(&input::read_sources(&[path], &selection)?))
}

/// Sweeps the recording; the table of choices, and whether the user stopped it.
fn sweep(args: &Args, model: &Model, recorded: &[Recorded], folder: &Folder) -> Result<(String, bool), Failure> {
    let weights: u64 = model.linears().iter().map(|linear| linear.weights.bytes().len() as u64).sum();
    let default_budget = Duration::from_secs(if args.quick { 8 } else { 40 });
    let settings = Settings {
        device: "cpu".into(),
        // As deployed: a step walks through all of the model's weights, so that is what a solution finds in the cache.
        bench: BenchSettings {
            effort: Effort::Balanced,
            seed: 1,
            rotation_bytes: weights,
            between: Between::default(),
            streams: None,
        },
        constraints: Constraints::default(),
        rules: Rules::default(),
        budget: Some(args.budget.unwrap_or(default_budget)),
        sample_us: if args.quick { 1e3 } else { 3e3 },
        again: true,
        library_files: Vec::new(),
    };
    let interrupt = input::catch_interrupt()?;
    let mut store = Store::open(&folder.join("tuned.sqlite"))?;
    store.record(recorded, "demo")?;
    let mut progress = Progress::new(false, false);
    let summary = sweep_into(recorded, &mut store, &settings, &interrupt, &mut progress)?;
    store.close()?;
    let mut text = table::choices(&summary.choices);
    text += &table::summary(&summary);
    if summary.interrupted {
        report::write_stdout(&text)?;
    }
    Ok((text, summary.interrupted))
}

fn compare(
    args: &Args,
    model: &Model,
    backend: &Arc<dyn Backend>,
    database: &Arc<Database>,
) -> anyhow::Result<Comparison> {
    let options = CompareOptions {
        batch: args.batch,
        prompt: args.prompt,
        timed_steps: if args.quick { 16 } else { 64 },
        ..CompareOptions::default()
    };
    Ok(tgemm_decode::compare(model, backend, database, &options)?)
}

fn summarise(text: &mut String, recorded: &[Recorded], exact: usize, compared: &Comparison, took: Duration) {
    let (baseline_us, tuned_us) = compared.median_us_per_token();
    let (baseline_rate, tuned_rate) = compared.tokens_per_s();
    let logits = &compared.logits;
    // Writing into a String cannot fail.
    let _ = writeln!(text, "\nlookup: {exact} exact hits of {} recorded problems", recorded.len());
    let _ = writeln!(text, "baseline: {:.2} ms a token, {baseline_rate:.0} tokens/s", baseline_us / 1e3);
    let _ = writeln!(
        text,
        "tuned:    {:.2} ms a token, {tuned_rate:.0} tokens/s, {:.2}x ({} steps of each, interleaved)",
        tuned_us / 1e3,
        baseline_us / tuned_us,
        compared.tuned_us_per_token.len(),
    );
    let _ = writeln!(
        text,
        "logits:   error {:.2e} (baseline {:.2e}, bound {:.2e}); same first token in {} of {} clear rows: {}",
        logits.tuned_error,
        logits.baseline_error,
        logits.bound,
        logits.clear_rows - logits.clear_rows_that_differ,
        logits.clear_rows,
        if logits.passed() { "passed" } else { "FAILED" },
    );
    let _ = writeln!(text, "the whole demo took {}", report::seconds(took));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demo_records_what_its_model_has() {
        let config = ModelConfig::from_json(tgemm_configs::model("tiny").unwrap()).unwrap();
        let backend = backend(device::open("cpu").unwrap().context);
        let model = Model::random(&config, DType::F32, 1).unwrap();
        let args = Args {
            quick: true,
            model: "tiny".into(),
            dtype: DType::F32,
            batch: 2,
            prompt: 3,
            budget: None,
            keep: None,
        };
        let folder = Folder::open(&None).unwrap();
        let recorded = record(&args, &model, &backend, &folder).unwrap();
        // Four sites a layer at M = 2 and M = 6, and the head at M = 2.
        assert_eq!(recorded.len(), 9);
        let steps = 4 + 1;
        let per_pass = u64::from(config.layers) * 4 + 1;
        assert_eq!(recorded.iter().map(|r| r.count).sum::<u64>(), steps * per_pass);
        assert!(crate::plan::plan(&recorded, &backend.environment().device).items.len() == 9);
    }
}
