//! `tune report`: a database as a page for people.

use std::path::PathBuf;

use anyhow::Context as _;
use tgemm_db::store::Store;

use super::{Exit, Failure};
use crate::report::{self, markdown};

/// What `tune report` takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Database of a sweep
    #[arg(long, value_name = "FILE")]
    pub db: PathBuf,
    /// File to write, in Markdown; default: standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<Exit, Failure> {
    let store = Store::open_read_only(&args.db)?;
    let text = markdown::page(&store)?;
    match &args.output {
        Some(path) => tgemm_db::atomic::write(path, text.as_bytes())?,
        None => report::write_stdout(&text).context("cannot write the report")?,
    }
    Ok(Exit::Done)
}
