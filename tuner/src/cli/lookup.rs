//! `tune lookup`: what a database would run, and why.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use tgemm_db::{Choice, DType, Problem, Recorded, Site, key};
use tgemm_lookup::{Database, Hit, HitKind};

use super::here::HereArgs;
use super::input::{self, ConstraintArgs, Selection};
use super::{Exit, Failure};
use crate::report::{self, table};

/// What `tune lookup` takes: one problem by its sizes or its key, or a whole untuned CSV.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Database or tuned CSV (ours or AITER's); several times for several, the first counts most
    #[arg(long, value_name = "FILE", required = true)]
    pub db: Vec<PathBuf>,
    /// A problem's canonical key, such as gemm,m=1,n=2,k=3,x=bf16,w=bf16,out=bf16,compute=f32
    #[arg(value_name = "KEY", conflicts_with_all = ["m", "n", "k", "untuned"])]
    pub key: Option<String>,
    /// Tokens
    #[arg(short, requires_all = ["n", "k"])]
    pub m: Option<u32>,
    /// Out features
    #[arg(short, requires_all = ["m", "k"])]
    pub n: Option<u32>,
    /// In features
    #[arg(short, requires_all = ["m", "n"])]
    pub k: Option<u32>,
    /// Element type
    #[arg(long, default_value = "bf16", value_parser = |s: &str| s.parse::<DType>())]
    pub dtype: DType,
    /// Element type of the output; default: as the inputs
    #[arg(long, value_parser = |s: &str| s.parse::<DType>())]
    pub out: Option<DType>,
    /// With a bias of the output's type
    #[arg(long)]
    pub bias: bool,
    /// All problems of these untuned CSVs
    #[arg(long, value_name = "FILE")]
    pub untuned: Vec<PathBuf>,
    /// Which of them
    #[command(flatten)]
    pub selection: Selection,
    /// What may be run
    #[command(flatten)]
    pub constraints: ConstraintArgs,
    /// For which device
    #[command(flatten)]
    pub here: HereArgs,
    /// Which level answered, and why the better ones did not
    #[arg(long)]
    pub explain: bool,
    /// As JSON lines
    #[arg(long)]
    pub json: bool,
}

/// Runs the subcommand. Problems that the database has no answer for make the exit code 1.
pub fn run(args: &Args) -> Result<Exit, Failure> {
    let problems = problems(args)?;
    for path in &args.db {
        // An engine never fails over its tables; a person who names a file that is not there wants to know.
        std::fs::metadata(path).with_context(|| format!("{}: cannot be read", path.display()))?;
    }
    let here = args.here.environment(&args.db)?;
    let (database, loaded) = Database::open(&args.db, &here);
    if !loaded.is_clean() {
        eprintln!("{loaded}");
    }
    let constraints = args.constraints.constraints();
    let mut table = table::table(&["problem", "hit", "tuned M", "us", "baseline us", "solution"], 2);
    let mut text = String::new();
    let mut missed = 0;
    for row in &problems {
        let hit = database.lookup(&row.problem, &constraints);
        missed += usize::from(hit.kind == HitKind::Default);
        if args.json {
            text += &format!("{}\n", hit_json(&row.problem, &hit));
        } else if args.explain {
            text += &format!("{}\n", database.explain(&row.problem, &constraints));
        } else {
            add_row(&mut table, &row.problem, &hit);
        }
    }
    if !args.json && !args.explain {
        text = format!("{table}\n");
        if missed > 0 {
            text += &format!("{missed} of {} have no answer here (--explain says why)\n", problems.len());
        }
    }
    report::write_stdout(&text).context("cannot write results")?;
    Ok(if missed > 0 { Exit::Partly } else { Exit::Done })
}

fn problems(args: &Args) -> anyhow::Result<Vec<Recorded>> {
    if !args.untuned.is_empty() {
        return Ok(input::merged(&input::read_sources(&args.untuned, &args.selection)?));
    }
    let problem: Problem = match (&args.key, args.m, args.n, args.k) {
        (Some(key), ..) => key.parse().with_context(|| format!("'{key}'"))?,
        (None, Some(m), Some(n), Some(k)) => {
            let mut site = Site::linear(n, k, args.dtype);
            site.out = args.out.unwrap_or(site.out);
            site.bias = args.bias.then_some(site.out);
            let gemm = site.at(m);
            gemm.validate()?;
            gemm.into()
        }
        _ => bail!("what to look up? give a KEY, or -m, -n and -k, or --untuned FILE"),
    };
    Ok(vec![Recorded::bare(problem)])
}

fn add_row(table: &mut comfy_table::Table, problem: &Problem, hit: &Hit<'_>) {
    let choice = hit.choice;
    table.add_row([
        key::short(problem),
        hit.kind.to_string(),
        hit.tuned_m.map_or("-".into(), |m| m.to_string()),
        choice.map_or("-".into(), |c| report::time_us(c.time_us)),
        choice.and_then(Choice::baseline_us).map_or("-".into(), report::time_us),
        choice.map_or("run what you would have run".into(), |c| c.solution.to_string()),
    ]);
}

fn hit_json(problem: &Problem, hit: &Hit<'_>) -> serde_json::Value {
    serde_json::json!({
        "problem": problem, "short": key::short(problem), "hit": hit.kind.to_string(), "tuned_m": hit.tuned_m,
        "choice": hit.choice,
    })
}
