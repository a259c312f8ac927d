//! `tune record`: problems that an engine ran, from what it or its libraries logged.

use std::path::PathBuf;

use tgemm_db::format::{self, untuned};
use tgemm_db::recording;

use super::db::tables::Assumptions;
use super::{Exit, Failure, input};
use crate::report;

/// What `tune record` takes.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Logs that are read: hipBLASLt (HIPBLASLT_LOG_MASK=32 or 64), rocBLAS (ROCBLAS_LAYER=2 or 4), cuBLASLt \
(CUBLASLT_LOG_LEVEL), TunableOp's untuned files, AITER's and vLLM's messages about untuned shapes; untuned CSVs too, \
whose counts are summed."
)]
pub struct Args {
    /// Logs or untuned files of any known format
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    pub from_log: Vec<PathBuf>,
    /// Untuned CSV to write; default: standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// What logs do not say themselves
    #[command(flatten)]
    pub assume: Assumptions,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<Exit, Failure> {
    let mut found = Vec::new();
    for path in &args.from_log {
        let read = match format::read(path, &args.assume.options())? {
            format::Content::Problems(read) => read,
            format::Content::Choices(read) => {
                let file = path.display();
                return Err(anyhow::anyhow!(
                    "{file}: is {}, which holds choices: import it with tune db import",
                    read.format
                )
                .into());
            }
        };
        input::report_rejected(path, &read.rejected);
        for warning in &read.warnings {
            eprintln!("tune: note: {warning}");
        }
        eprintln!(
            "{}: {}, {} problems, {} rejected",
            path.display(),
            read.format,
            read.rows.len(),
            read.rejected.len()
        );
        found.extend(read.into_values());
    }
    let problems = recording::merge(found);
    if problems.is_empty() {
        return Err(anyhow::anyhow!("no problem was found: does the log say which GEMMs ran?").into());
    }
    match &args.output {
        Some(path) => untuned::write(path, &problems)?,
        None => report::write_stdout(&untuned::to_text(&problems))?,
    }
    let calls = problems.iter().fold(0u64, |calls, row| calls.saturating_add(row.count.max(1)));
    eprintln!("{} different problems, {calls} calls", problems.len());
    Ok(Exit::Done)
}
