//! `tune sweep`: try, check, race and store.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use tgemm_db::format::tuned;
use tgemm_db::store::{RunInfo, Store};
use tgemm_db::{Recorded, Via, cost, key};
use tgemm_kernels::{Between, Effort};

use super::input::{self, ConstraintArgs, Selection};
use super::{Exit, Failure};
use crate::plan;
use crate::race::Rules;
use crate::report::progress::Progress;
use crate::report::{self, table};
use crate::sweep::builds::{self, BuildError};
use crate::sweep::{self, BenchSettings, Settings, Summary, SweepError};
use crate::worker::Interrupt;

/// What `tune sweep` takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Untuned CSVs: recorded by tgemm or AITER, or written by `tune shapes`
    #[arg(required = true, value_name = "UNTUNED")]
    pub untuned: Vec<PathBuf>,
    /// Database to store everything in; made if absent, gone on with if present
    #[arg(long, value_name = "FILE")]
    pub db: PathBuf,
    /// Also write the choices as a tuned CSV (AITER's columns first)
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Device to tune on: cpu, cuda:N, hip:N; several with commas, or "all" for every GPU found. Devices of one kind share
    /// the problems
    #[arg(long, default_value = "cpu")]
    pub device: String,
    /// Time for everything, such as 90s, 10m, 1.5h; without it every candidate is tried
    #[arg(long, value_name = "TIME", value_parser = input::duration)]
    pub budget: Option<Duration>,
    /// How many candidates each library offers
    #[arg(long, value_enum, default_value_t = EffortArg::Balanced)]
    pub effort: EffortArg,
    /// Which of them
    #[command(flatten)]
    pub selection: Selection,
    /// What may be chosen
    #[command(flatten)]
    pub constraints: ConstraintArgs,
    /// The call that engines make for these problems, where it decides the baseline: lt_matmul, gemm_ex, linear, ...;
    /// default: what the files say. "any" holds choices against every call that could be meant
    #[arg(long, value_name = "API", value_parser = via)]
    pub via: Option<Via>,
    /// Least gain over the baseline that counts as faster
    #[arg(long, value_name = "PERCENT", default_value_t = 0.5, value_parser = percent)]
    pub min_gain: f64,
    /// Bytes that weights and outputs rotate over; default: three times the last-level cache
    #[arg(long, value_name = "BYTES", value_parser = input::bytes)]
    pub rotate: Option<u64>,
    /// On a GPU: small kernels of another kind between two launches, as an engine has them; their time is taken off. 0:
    /// launches follow one another. Default: 4 on CUDA, 0 on HIP, where nobody has measured what it does
    #[arg(long, value_name = "KERNELS", value_parser = clap::value_parser!(u32).range(..=64))]
    pub between: Option<u32>,
    /// The first of those kernels has much code, so that products do not find their own in the first instruction cache
    #[arg(long)]
    pub cold_code: bool,
    /// On a GPU: streams that the worker has used besides its own, as engines have: kernels start later then. Default: 32 on
    /// CUDA, 0 on HIP, where nobody has measured what it does
    #[arg(long, value_name = "STREAMS", value_parser = clap::value_parser!(u32).range(..=256))]
    pub streams: Option<u32>,
    /// How long the launches of one sample take, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 4.0, value_parser = sample_ms)]
    pub sample: f64,
    /// Seed of operand values and shuffles
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Tune problems again that have a choice for this environment already
    #[arg(long)]
    pub again: bool,
    /// Tune with the libraries that are found here, though the recording names others. Else the recorded files are opened
    /// where they are here, and a recording made with other builds is refused
    #[arg(long)]
    pub any_build: bool,
    /// Show the plan and stop: nothing is run, nothing is written
    #[arg(long)]
    pub dry_run: bool,
    /// Events and results as JSON lines on standard output
    #[arg(long)]
    pub json: bool,
    /// Show every candidate's outcome
    #[arg(long, short)]
    pub verbose: bool,
}

/// [`Effort`] on the command line.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum EffortArg {
    /// The library's own first few
    Minimal,
    /// What has a fair chance to win
    Balanced,
    /// Everything that is not known to be slow
    Extensive,
    /// Everything, reference routines included
    Full,
}

impl From<EffortArg> for Effort {
    fn from(effort: EffortArg) -> Effort {
        match effort {
            EffortArg::Minimal => Effort::Minimal,
            EffortArg::Balanced => Effort::Balanced,
            EffortArg::Extensive => Effort::Extensive,
            EffortArg::Full => Effort::Full,
        }
    }
}

fn via(text: &str) -> Result<Via, String> {
    let known = Via::ALL.iter().find(|via| via.name() == text && !text.is_empty());
    match text {
        "any" => Ok(Via::Unknown),
        _ => known.copied().ok_or_else(|| {
            let names: Vec<_> = Via::ALL.iter().map(|via| via.name()).filter(|name| !name.is_empty()).collect();
            format!("'{text}' is no API; known: any, {}", names.join(", "))
        }),
    }
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..50.0).contains(&value) => Ok(value),
        _ => Err(format!("'{text}' is no gain; write per cent from 0 to 50, such as 0.5")),
    }
}

pub(super) fn sample_ms(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.05..=10_000.0).contains(&value) => Ok(value),
        _ => Err(format!("'{text}' is no sample time; write milliseconds from 0.05 to 10000, such as 4")),
    }
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<Exit, Failure> {
    let sources = input::read_sources(&args.untuned, &args.selection)?;
    let recorded = as_asked(input::merged(&sources), args.via);
    let mut settings = settings(args);
    let interrupt = input::catch_interrupt()?;
    if !args.any_build {
        use_recorded_libraries(&recorded, &mut settings, &interrupt)?;
    }
    if args.dry_run {
        return dry_run(&recorded, &settings);
    }
    let mut store = Store::open(&args.db)?;
    for source in &sources {
        store.record(&source.rows, &source.path.display().to_string())?;
    }
    let mut progress = Progress::new(args.json, args.verbose);
    let summary = sweep_into(&recorded, &mut store, &settings, &interrupt, &mut progress)?;
    if let Some(path) = &args.csv {
        tuned::write(path, &store.choices()?)?;
    }
    store.close()?;
    finish(&summary, args)
}

/// The rows, asked for by `via` if that is given.
fn as_asked(rows: Vec<Recorded>, via: Option<Via>) -> Vec<Recorded> {
    let Some(via) = via else { return rows };
    rows.into_iter().map(|row| Recorded { via, ..row }).collect()
}

/// Has the libraries opened that the recording names, and refuses where others are.
fn use_recorded_libraries(
    recorded: &[Recorded],
    settings: &mut Settings,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let named = builds::named(recorded);
    for doubt in builds::doubts(&named) {
        eprintln!("tune: warning: {doubt}");
    }
    settings.library_files = builds::files(&named, |var| std::env::var_os(var).is_some_and(|file| !file.is_empty()));
    builds::check(&named, settings, interrupt).map_err(|error| match error {
        BuildError::Device(_) => Failure::device(error),
        _ => error.into(),
    })
}

fn settings(args: &Args) -> Settings {
    Settings {
        device: args.device.clone(),
        bench: BenchSettings {
            effort: args.effort.into(),
            seed: args.seed,
            rotation_bytes: args.rotate.unwrap_or(0),
            between: Between { kernels: args.between, cold_code: args.cold_code },
            streams: args.streams,
        },
        constraints: args.constraints.constraints(),
        rules: Rules { min_gain: args.min_gain / 100.0, ..Rules::default() },
        budget: args.budget,
        sample_us: args.sample * 1e3,
        again: args.again,
        library_files: Vec::new(),
    }
}

/// Sweeps with a run noted in the store, showing progress.
pub fn sweep_into(
    recorded: &[Recorded],
    store: &mut Store,
    settings: &Settings,
    interrupt: &Interrupt,
    progress: &mut Progress,
) -> Result<Summary, Failure> {
    let command: Vec<String> = std::env::args().collect();
    let run = store.begin_run(&RunInfo {
        tool_version: env!("CARGO_PKG_VERSION").into(),
        command_line: command.join(" "),
        options: serde_json::json!({
            "device": settings.device, "seed": settings.bench.seed, "rotation_bytes": settings.bench.rotation_bytes,
            "between": settings.bench.between.kernels, "cold_code": settings.bench.between.cold_code,
            "streams": settings.bench.streams,
            "min_gain": settings.rules.min_gain, "sample_us": settings.sample_us,
            "budget_s": settings.budget.map(|b| b.as_secs_f64()), "constraints": settings.constraints,
        }),
    })?;
    let result = sweep::run(recorded, store, run, settings, interrupt, &mut |event| progress.show(&event));
    progress.finish();
    let how = match &result {
        Ok(summary) if summary.interrupted => "interrupted".to_owned(),
        Ok(_) => "done".to_owned(),
        Err(e) => e.to_string(),
    };
    store.end_run(run, &how)?;
    result.map_err(|e| match e {
        SweepError::Device(why) => Failure::device(anyhow::anyhow!(why)),
        other => other.into(),
    })
}

fn finish(summary: &Summary, args: &Args) -> Result<Exit, Failure> {
    if !args.json {
        if !summary.choices.is_empty() {
            report::write_stdout(&table::choices(&summary.choices)).context("cannot write results")?;
        }
        report::write_stdout(&table::summary(summary)).context("cannot write results")?;
    }
    Ok(if summary.interrupted {
        Exit::Interrupted
    } else if !summary.failed.is_empty() || summary.untouched > 0 || !summary.lost.is_empty() {
        Exit::Partly
    } else {
        Exit::Done
    })
}

/// Shows what would be done, in order, with each problem's nominal share and time.
fn dry_run(recorded: &[Recorded], settings: &Settings) -> Result<Exit, Failure> {
    let devices = crate::device::names(&settings.device).map_err(Failure::device)?;
    // Devices of one kind have one plan; of several kinds the first is shown.
    let opened = crate::device::open(&devices[0]).map_err(Failure::device)?;
    let device = &opened.context.environment().device;
    let plan = plan::plan(recorded, device);
    let mut table = table::table(&["problem", "count", "MFLOP", "MB", "share", "time given"], 1);
    let mut remaining = settings.budget;
    for (i, item) in plan.items.iter().enumerate() {
        let slice = remaining.map(|left| plan::slice(&plan.items[i..], left));
        remaining = remaining.zip(slice).map(|(left, slice)| left.saturating_sub(slice));
        let problem = &item.recorded.problem;
        table.add_row([
            key::short(problem),
            item.recorded.count.to_string(),
            format!("{:.1}", cost::flops(problem) / 1e6),
            format!("{:.1}", cost::bytes(problem) as f64 / 1e6),
            format!("{:.1} %", item.share * 100.0),
            slice.map_or("no limit".into(), report::seconds),
        ]);
    }
    let total: f64 = plan.items.iter().map(|i| i.recorded.count.max(1) as f64 * i.nominal_us).sum();
    let text = format!(
        "{table}\n{} problems on {device}; the recording's GEMMs take about {} by the nominal roofline\n",
        plan.items.len(),
        report::seconds(Duration::from_secs_f64(total / 1e6)),
    );
    report::write_stdout(&text).context("cannot write the plan")?;
    Ok(Exit::Done)
}
