//! `tune report`: a database as a page for people, or as JSON.

use std::path::PathBuf;

use anyhow::Context as _;
use tgemm_db::store::Store;

use super::{Exit, Failure};
use crate::report::{self, markdown, overview};

/// What `tune report` takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Database of a sweep
    #[arg(long, value_name = "FILE")]
    pub db: PathBuf,
    /// What to write
    #[arg(long, value_enum, default_value_t = Format::Markdown)]
    pub format: Format,
    /// File to write; default: standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// What a report is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Tables for people
    Markdown,
    /// A list of environments with their problems and means
    Json,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<Exit, Failure> {
    let sections = overview::sections(&Store::open_read_only(&args.db)?)?;
    let text = match args.format {
        Format::Markdown => markdown::page(&sections),
        Format::Json => format!("{}\n", overview::as_json(&sections)),
    };
    match &args.output {
        Some(path) => tgemm_db::atomic::write(path, text.as_bytes())?,
        None => report::write_stdout(&text).context("cannot write the report")?,
    }
    Ok(Exit::Done)
}
