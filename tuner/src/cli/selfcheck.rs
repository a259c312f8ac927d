//! `tune selfcheck`: one tar file that says whether all this works on a machine that its makers have not seen.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;

use super::input::{self, Selection};
use super::{Exit, Failure};
use crate::report;
use crate::selfcheck::redact::Redactor;
use crate::selfcheck::{self, Options};

/// What `tune selfcheck` takes.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The bundle holds no host name, user name, home folder or network address; look into it before you send \
it: it is a tar file of texts and one SQLite database.\nExit codes: 0 all went as it should; 1 something did not, the \
bundle says what; 2 usage or input; 3 no device, the bundle says what was tried; 130 interrupted. The bundle is written \
in every case but 2."
)]
pub struct Args {
    /// The tar file to write
    #[arg(long, value_name = "FILE")]
    pub bundle: PathBuf,
    /// Device to check
    #[arg(long, default_value = "cpu")]
    pub device: String,
    /// Time for lists, sweep and verification together, such as 90s, 10m
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = input::duration)]
    pub budget: Duration,
    /// An untuned CSV to tune instead of the usual dozen problems
    #[arg(long, value_name = "UNTUNED")]
    pub untuned: Option<PathBuf>,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<Exit, Failure> {
    let everything = Selection { max_m: None, filter: None };
    let problems = match &args.untuned {
        Some(path) => Some(input::merged(&input::read_sources(std::slice::from_ref(path), &everything)?)),
        None => None,
    };
    let interrupt = input::catch_interrupt()?;
    let options = Options { device: args.device.clone(), budget: args.budget, problems };
    eprintln!("checking {}; this takes about {}", args.device, report::seconds(args.budget));
    let (tar, findings) = selfcheck::gather(&options, &Redactor::here(), &interrupt)?;
    tgemm_db::atomic::write(&args.bundle, &tar)?;
    let text = format!("{}{}: {} KiB\n", findings.summary(), args.bundle.display(), tar.len() >> 10);
    report::write_stdout(&text).context("cannot write results")?;
    Ok(if interrupt.is_set() {
        Exit::Interrupted
    } else if findings.no_device.is_some() {
        Exit::NoDevice
    } else if findings.is_whole() {
        Exit::Done
    } else {
        Exit::Partly
    })
}
