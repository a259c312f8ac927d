//! `tune record`: problems that a program runs, seen by the shim or read from what it or its libraries logged.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use tgemm_db::format::{self, untuned};
use tgemm_db::{Recorded, recording};
use tgemm_recorder::counters::{self, Counter};

use super::db::tables::Assumptions;
use super::{Exit, Failure, input};
use crate::launch::host::Host;
use crate::launch::recording::{Collected, Place};
use crate::launch::shim;
use crate::launch::summary::summary;
use crate::launch::tally::{self, Tally};
use crate::report;

/// What `tune record` takes.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "tune record [-o FILE.csv|FOLDER] [--] CMD...\n       tune record --from-log FILE... [-o FILE.csv]",
    after_help = "\
CMD runs in this terminal with a shim before its libraries' GEMM calls (LD_PRELOAD), forked workers and ranks of this \
machine too, and its exit code is ours; 127 if there is no such program, 126 if it cannot be run. The shim is \
libtgemm_shim.so: TGEMM_SHIM names it, else it is looked for beside this program and in ../lib/tgemm and ../lib.\n\
Not seen are calls that are looked up by name at run time (ctypes, cudarc), kernels that are no library's (Triton, CUTLASS, \
CK, AITER) and libraries that are linked in. Their logs can be read instead: hipBLASLt (HIPBLASLT_LOG_MASK=32 or 64), \
rocBLAS (ROCBLAS_LAYER=2 or 4), cuBLASLt (CUBLASLT_LOG_LEVEL), TunableOp's untuned files \
(PYTORCH_TUNABLEOP_RECORD_UNTUNED=1), AITER's and vLLM's messages about untuned shapes; untuned CSVs too, whose counts \
are summed."
)]
pub struct Args {
    /// Logs or untuned files of any known format, in place of a program
    #[arg(long, value_name = "FILE", num_args = 1.., required_unless_present = "command")]
    pub from_log: Vec<PathBuf>,
    /// Untuned CSV to write; a name that does not end in .csv is a folder, which keeps the file of each process too and sums
    /// all that it holds in untuned.csv. Default: ./untuned.csv, of logs standard output
    #[arg(short, long, value_name = "FILE.csv|FOLDER")]
    pub output: Option<PathBuf>,
    /// What logs do not say themselves
    #[command(flatten)]
    pub assume: Assumptions,
    /// The program to record, with its arguments
    #[arg(value_name = "CMD", trailing_var_arg = true, allow_hyphen_values = true)]
    #[arg(conflicts_with_all = ["from_log", "device", "family"])]
    pub command: Vec<OsString>,
}

/// Runs the subcommand. Gives the exit code, a program's own if one ran.
pub fn run(args: &Args) -> Result<u8, Failure> {
    if args.command.is_empty() { from_log(args).map(|exit| exit as u8) } else { from_program(args) }
}

fn from_program(args: &Args) -> Result<u8, Failure> {
    let shim = shim::find()?;
    let place = Place::new(args.output.as_deref())?;
    let mut host = Host::new(&args.command, &shim).env("TGEMM_TUNE", "1").env("TGEMM_UNTUNED", place.folder());
    // Where the user has a folder for counters, `tune top` looks there.
    let counting = match std::env::var_os(counters::ENV_COUNTERS) {
        Some(_) => None,
        None => tally::Place::new(None).ok(),
    };
    if let Some(counting) = &counting {
        host = host.env(counters::ENV_COUNTERS, counting.folder()).env(counters::ENV_COUNTERS_KEEP, "1");
    }
    let code = match host.run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tune: {error}");
            return Ok(error.code());
        }
    };
    tell(place, counting.map(|counting| Tally::read(&counting.folder())));
    Ok(code)
}

/// Brings the recording together and says what it is. From here on nothing changes how this program ends.
fn tell(place: Place, tally: Option<Tally>) {
    let collected = place.collect();
    input::report_rejected(place.folder(), &collected.rejected);
    for error in &collected.unreadable {
        eprintln!("tune: warning: {error}");
    }
    if collected.rows.is_empty() {
        eprintln!("{}", nothing(tally.as_ref()));
        return;
    }
    let still_running = tally.as_ref().map_or(0, |tally| tally.running);
    if still_running > 0 && !place.is_kept() {
        eprintln!(
            "tune: warning: {still_running} processes still run: what they do from now on is not recorded (with -o FOLDER \
            it would be)"
        );
    }
    match untuned::write(place.merged(), &collected.rows) {
        Ok(()) => eprintln!("{}", report(&collected, place.merged(), tally.as_ref())),
        Err(error) => {
            eprintln!("tune: warning: {error}");
            eprintln!("tune: warning: what the processes recorded is in {}", place.keep().display());
        }
    }
}

fn report(collected: &Collected, merged: &Path, tally: Option<&Tally>) -> String {
    let mut text = format!(
        "tune: recorded in {} processes: {}",
        collected.files,
        summary(&recording::merge(collected.rows.clone()))
    );
    let unsaid = tally.map_or(0, |tally| tally.get(Counter::Unrepresentable));
    if unsaid > 0 {
        text += &format!("{unsaid} more calls are of kinds that no problem of ours says\n");
    }
    if !collected.rejected.is_empty() {
        text += &format!("{} lines rejected\n", collected.rejected.len());
    }
    text + &format!("written to {}", merged.display())
}

/// Why nothing may have been seen, and what else can be done.
fn nothing(tally: Option<&Tally>) -> String {
    let found = match tally {
        Some(tally) if tally.processes == 0 => {
            "The shim was called in no process: does the program look functions up at run time, is it statically linked or \
             setuid, or does it clear LD_PRELOAD?"
                .into()
        }
        Some(tally) if tally.get(Counter::Unrepresentable) > 0 => format!(
            "{} calls were seen, all of kinds that no problem of ours says.",
            tally.get(Counter::Unrepresentable)
        ),
        Some(tally) => {
            format!("The shim was in {} processes, and none of them called a GEMM through it.", tally.processes)
        }
        None => "Perhaps no process called a GEMM through the shim.".into(),
    };
    format!(
        "tune: no GEMM call was seen, nothing is written. {found}\n\
        Not seen are: libraries whose functions are looked up at run time (ctypes, cudarc, AMD's Python bindings); kernels of \
        the program's own (Triton, CUTLASS, CK, AITER); libraries linked in statically.\n\
        Instead: read a log with tune record --from-log, made with PYTORCH_TUNABLEOP_RECORD_UNTUNED=1, \
        HIPBLASLT_LOG_MASK=32, ROCBLAS_LAYER=4 or AITER_TUNE_GEMM=1; or link the crate tgemm-recorder into the engine."
    )
}

fn from_log(args: &Args) -> Result<Exit, Failure> {
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
    let problems: Vec<Recorded> = recording::merge(found);
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
