//! `tune db`: work with databases.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Subcommand, ValueEnum};
use tgemm_db::Choice;
use tgemm_db::format::{aiter, tuned};
use tgemm_db::store::Store;

use super::{Exit, Failure};
use crate::report;

/// What `tune db` takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a database's choices in another form
    Export(ExportArgs),
}

/// What `tune db export` takes.
#[derive(Debug, clap::Args)]
struct ExportArgs {
    /// Database to read
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
    /// File to write; default: standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Who is to read it
    #[arg(long = "for", value_enum, default_value_t = Target::Csv)]
    target: Target,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Target {
    /// Our tuned CSV: AITER's columns first, then everything else that we know
    Csv,
    /// AITER's bf16 tuned CSV, its columns alone
    Aiter,
    /// One JSON object a line
    Json,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<Exit, Failure> {
    match &args.command {
        Command::Export(args) => export(args),
    }
}

fn export(args: &ExportArgs) -> Result<Exit, Failure> {
    let store = Store::open_read_only(&args.db)?;
    let choices = store.choices()?;
    store.close()?;
    let (text, left_out) = render(&choices, args.target)?;
    match &args.output {
        Some(path) => tgemm_db::atomic::write(path, text.as_bytes())?,
        None => report::write_stdout(&text).context("cannot write results")?,
    }
    let written = choices.len() - left_out.len();
    if let Some(path) = &args.output {
        eprintln!("{}: {written} of {} choices", path.display(), choices.len());
    }
    for line in &left_out {
        eprintln!("tune: left out: {line}");
    }
    Ok(Exit::Done)
}

/// The choices as text, and what the target cannot express, a line each.
fn render(choices: &[Choice], target: Target) -> anyhow::Result<(String, Vec<String>)> {
    Ok(match target {
        Target::Csv => (tuned::to_text(choices), Vec::new()),
        Target::Aiter => {
            let (text, left_out) = aiter::to_text(choices);
            (text, left_out.iter().map(ToString::to_string).collect())
        }
        Target::Json => {
            let lines: Result<Vec<String>, _> = choices.iter().map(serde_json::to_string).collect();
            (lines?.iter().map(|line| format!("{line}\n")).collect(), Vec::new())
        }
    })
}
