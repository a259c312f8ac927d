//! `tune db export`: choices in the form that another tool loads.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use tgemm_db::Choice;
use tgemm_db::format::aiter::{self, Family, Like};
use tgemm_db::format::{fmoe, hipblaslt, rocblas, tunableop, tuned, vllm_moe};

use super::tables;
use crate::cli::{Exit, Failure};
use crate::report;

/// Choices left out that are named one by one; the rest is counted.
const LEFT_OUT_NAMED_MAX: usize = 50;

/// What `tune db export` takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Database or table to read
    #[arg(long, value_name = "FILE")]
    pub db: PathBuf,
    /// File to write, for vLLM the folder; default: standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Who is to read it
    #[arg(long = "for", value_enum, default_value_t = Target::Csv)]
    pub target: Target,
    /// AITER's table to write, of those that have rows; default: the only one
    #[arg(long, value_name = "FAMILY", value_parser = |s: &str| s.parse::<Family>())]
    pub family: Option<Family>,
    /// Only rows that were imported from this file
    #[arg(long, value_name = "FILE")]
    pub source: Option<String>,
    /// In the spelling, columns and order of the file that the rows were imported from (AITER)
    #[arg(long, conflicts_with = "family")]
    pub as_imported: bool,
    /// Results file that the PyTorch which is to load the export wrote itself: it rejects files with other validators whole
    #[arg(long, value_name = "FILE")]
    pub validators_from: Option<PathBuf>,
}

/// Whom a table is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Target {
    /// Our tuned CSV: AITER's columns first, then everything else that we know
    Csv,
    /// AITER's tuned CSV of one family of GEMMs, its columns alone
    Aiter,
    /// AITER's tuned CSV of fused MoE layers
    AiterFmoe,
    /// PyTorch's TunableOp results
    Tunableop,
    /// hipBLASLt's override file
    Hipblaslt,
    /// rocBLAS' override file
    Rocblas,
    /// vLLM's fused MoE configurations, one JSON file a layer and device
    Vllm,
    /// One JSON object a line
    Json,
}

/// What a target was given.
#[derive(Default)]
struct Rendered {
    /// Files by name; one without a name is the output itself.
    files: Vec<(String, String)>,
    /// What it cannot express, a line each.
    left_out: Vec<String>,
}

impl Rendered {
    fn one(text: String, left_out: Vec<impl ToString>) -> Rendered {
        let left_out = left_out.iter().map(ToString::to_string).collect();
        Rendered { files: vec![(String::new(), text)], left_out }
    }
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<Exit, Failure> {
    let mut choices = tables::choices(&args.db, &Default::default())?;
    if let Some(source) = &args.source {
        choices.retain(|choice| choice.origin.as_ref().is_some_and(|origin| origin.source.file == *source));
        if choices.is_empty() {
            return Err(anyhow::anyhow!("{}: no row was imported from {source}", args.db.display()).into());
        }
    }
    if args.as_imported {
        choices.sort_by_key(|choice| choice.origin.as_ref().map(|origin| (origin.source.file.clone(), origin.line)));
    }
    let rendered = render(&choices, args)?;
    write(&rendered, args)?;
    let written = choices.len() - rendered.left_out.len();
    if let Some(path) = &args.output {
        eprintln!("{}: {written} of {} choices", path.display(), choices.len());
    }
    for line in rendered.left_out.iter().take(LEFT_OUT_NAMED_MAX) {
        eprintln!("tune: left out: {line}");
    }
    let unnamed = rendered.left_out.len().saturating_sub(LEFT_OUT_NAMED_MAX);
    if unnamed > 0 {
        eprintln!("tune: left out: {unnamed} more");
    }
    Ok(Exit::Done)
}

fn write(rendered: &Rendered, args: &Args) -> anyhow::Result<()> {
    for (name, text) in &rendered.files {
        match &args.output {
            Some(folder) if !name.is_empty() => write_into(folder, name, text)?,
            Some(path) => tgemm_db::atomic::write(path, text.as_bytes())?,
            None if !name.is_empty() => bail!("--for vllm writes files by name: say the folder with -o"),
            None => report::write_stdout(text).context("cannot write results")?,
        }
    }
    Ok(())
}

fn write_into(folder: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("{}: cannot be made", folder.display()))?;
    tgemm_db::atomic::write(&folder.join(name), text.as_bytes())?;
    Ok(())
}

/// The choices as files, and what the target cannot express.
fn render(choices: &[Choice], args: &Args) -> anyhow::Result<Rendered> {
    Ok(match args.target {
        Target::Csv => Rendered::one(tuned::to_text(choices), Vec::<String>::new()),
        Target::Aiter => {
            let like = if args.as_imported { Like::Origin } else { Like::Family(family(choices, args.family)?) };
            let written = aiter::to_text_like(choices, like);
            Rendered::one(written.text, written.left_out)
        }
        Target::AiterFmoe => {
            let (text, left_out) = fmoe::to_text(choices);
            Rendered::one(text, left_out)
        }
        Target::Tunableop => {
            let validators = args.validators_from.as_deref().map(tunableop::Validators::read).transpose()?;
            let written = tunableop::to_text(choices, validators.as_ref());
            let (text, left_out) =
                written.context("--validators-from FILE names a results file that this PyTorch wrote")?;
            Rendered::one(text, left_out)
        }
        Target::Hipblaslt => {
            let (text, left_out) = hipblaslt::to_text(choices, None);
            Rendered::one(text, left_out)
        }
        Target::Rocblas => {
            let (text, left_out) = rocblas::to_text(choices, None);
            Rendered::one(text, left_out)
        }
        Target::Vllm => {
            let (files, left_out) = vllm_moe::to_files(choices);
            let files = files.into_iter().map(|file| (file.name, file.text)).collect();
            Rendered { files, left_out: left_out.iter().map(ToString::to_string).collect() }
        }
        Target::Json => {
            let lines: Result<Vec<String>, _> = choices.iter().map(serde_json::to_string).collect();
            Rendered::one(lines?.iter().map(|line| format!("{line}\n")).collect(), Vec::<String>::new())
        }
    })
}

/// The family that is asked for, else the only one that the choices are of.
fn family(choices: &[Choice], asked: Option<Family>) -> anyhow::Result<Family> {
    let mut found: Vec<Family> = Vec::new();
    for family in choices.iter().filter_map(aiter::family_of) {
        if !found.contains(&family) {
            found.push(family);
        }
    }
    match (asked, &found[..]) {
        (Some(family), _) => Ok(family),
        (None, [family]) => Ok(*family),
        // A table with nothing but its header: every choice is left out with its reason.
        (None, []) => Ok(Family::Bf16),
        (None, several) => {
            let names: Vec<String> = several.iter().map(ToString::to_string).collect();
            bail!("the choices are of several AITER tables ({}): say which with --family", names.join(", "))
        }
    }
}
