//! `tune apply`: a program runs with the choices of a database in place of its libraries' own.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use tgemm_db::Environment;
use tgemm_db::device::{Device, Vendor};
use tgemm_db::format::tuned;
use tgemm_lookup::Database;
use tgemm_lookup::load::ENV_DATABASES;
use tgemm_recorder::counters::{self, Counter};

use super::Failure;
use super::db::tables::{choices, is_sqlite};
use crate::launch::host::Host;
use crate::launch::shim;
use crate::launch::tally::{Place, Tally};

/// What `tune apply` takes.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "tune apply --db FILE [--db FILE]... [--dry-run] [--counters FOLDER] -- CMD...",
    after_help = "\
CMD runs in this terminal with a shim before its libraries' GEMM calls (LD_PRELOAD). A call whose problem has a choice for \
this device and these builds of the libraries runs that; every other call goes to the library as it came. CMD's exit code \
is ours; 127 if there is no such program, 126 if it cannot be run, 2 if a database cannot be read.\n\
tune top PID shows the counters of a process while it runs. The shim is libtgemm_shim.so: TGEMM_SHIM names it, else it is \
looked for beside this program and in ../lib/tgemm and ../lib."
)]
pub struct Args {
    /// Database or tuned CSV; several times for several, the first counts most. They come before those in TGEMM_DB
    #[arg(long, value_name = "FILE", required = true)]
    pub db: Vec<PathBuf>,
    /// Look up and count only: the program's libraries run everything
    #[arg(long)]
    pub dry_run: bool,
    /// Folder in which the file of counters of each process stays when it has ended; default: a temporary one
    #[arg(long, value_name = "FOLDER")]
    pub counters: Option<PathBuf>,
    /// The program to run, with its arguments
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
}

/// Runs the subcommand. Gives the program's exit code.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let tables = tempfile::tempdir().context("no folder for tables can be made")?;
    let databases = databases(&args.db, tables.path())?;
    let shim = shim::find()?;
    let named = args.counters.clone();
    let place =
        Place::new(named.or_else(|| env::var_os(counters::ENV_COUNTERS).filter(|v| !v.is_empty()).map(PathBuf::from)))
            .context("no folder for counters can be made; name one with --counters")?;
    let host = Host::new(&args.command, &shim)
        .env("TGEMM_APPLY", if args.dry_run { "dry" } else { "1" })
        .env(ENV_DATABASES, databases)
        .env(counters::ENV_COUNTERS, place.folder())
        .env(counters::ENV_COUNTERS_KEEP, "1");
    match host.run() {
        Ok(code) => {
            eprintln!("{}", told(&Tally::read(&place.folder()), args.dry_run));
            Ok(code)
        }
        Err(error) => {
            eprintln!("tune: {error}");
            Ok(error.code())
        }
    }
}

/// The files as `TGEMM_DB` takes them, ours before those that it names already.
///
/// # Errors
/// One of ours cannot be read: the program would run as if it had no choices, and nobody would know.
fn databases(files: &[PathBuf], tables: &Path) -> anyhow::Result<OsString> {
    let files: Vec<PathBuf> = files
        .iter()
        .map(|file| std::path::absolute(file).with_context(|| file.display().to_string()))
        .collect::<Result<_, _>>()?;
    // Reading says whether files are whole; which rows serve is settled in the program, which knows its device.
    let nowhere = Environment {
        device: Device::named(Vendor::Cpu, "", 0),
        builds: Vec::new(),
        driver: String::new(),
        vars: BTreeMap::new(),
    };
    let (_, report) = Database::open(&files, &nowhere);
    for file in &report.files {
        if let Some(error) = &file.error {
            return Err(anyhow!("{error}"));
        }
        if file.rejected > 0 {
            eprintln!(
                "tune: warning: {}: {} rows cannot be read, see tune db lint",
                file.path.display(),
                file.rejected
            );
        }
    }
    let present = env::var_os(ENV_DATABASES).unwrap_or_default();
    let more = env::split_paths(&present).filter(|file| !file.as_os_str().is_empty());
    let all = files.into_iter().chain(more).enumerate().map(|(at, file)| as_table(file, at, tables));
    env::join_paths(all.collect::<anyhow::Result<Vec<PathBuf>>>()?)
        .context("a database with a colon in its path cannot be named in TGEMM_DB")
}

/// `file` as the shim reads it: SQLite is not put into other people's processes, so a database is written out as a table.
fn as_table(file: PathBuf, at: usize, tables: &Path) -> anyhow::Result<PathBuf> {
    if !is_sqlite(&file) {
        return Ok(file);
    }
    let table = tables.join(format!("{at}.csv"));
    let choices = choices(&file, &Default::default()).with_context(|| file.display().to_string())?;
    tuned::write(&table, &choices)?;
    Ok(table)
}

/// What became of the calls, in one paragraph.
fn told(tally: &Tally, is_dry: bool) -> String {
    const MISSED: [Counter; 5] = [
        Counter::LeftAsIs,
        Counter::MissedNotTuned,
        Counter::MissedWorkspace,
        Counter::MissedConstraint,
        Counter::MissedUnderCapture,
    ];
    const FALLEN_BACK: [Counter; 3] =
        [Counter::FallenBackNotPrepared, Counter::FallenBackNotStarted, Counter::FallenBackBuildDiffers];
    if tally.processes == 0 {
        return "tune: the shim counted in no process: does the program look its libraries up at run time, is it statically linked or setuid, or does it clear LD_PRELOAD?".into();
    }
    // Those that went into graphs had their choices there, once.
    let seen = tally.get(Counter::Seen) + tally.get(Counter::Captured);
    if seen == 0 {
        return format!(
            "tune: no GEMM call was seen in {} processes; tune record --help says which are not",
            tally.processes
        );
    }
    let (served, word) = match is_dry {
        true => (tally.get(Counter::DryHit), "would have run"),
        false => (tally.get(Counter::Applied), "ran"),
    };
    let mut text = format!("tune: of {seen} calls in {} processes {served} {word} a choice", tally.processes);
    let parts = [
        ("missed", tally.words(&MISSED, "missed_")),
        ("fallen back", tally.words(&FALLEN_BACK, "fallen_back_")),
        ("not looked up", tally.words(&[Counter::Unrepresentable, Counter::SwitchedOff], "")),
        ("under graphs", tally.words(&[Counter::Captured, Counter::Replayed], "")),
    ];
    for (name, words) in parts.iter().filter(|(_, words)| !words.is_empty()) {
        text += &format!("; {name}: {words}");
    }
    for error in &tally.unreadable {
        text += &format!("\ntune: warning: {error}");
    }
    text
}
