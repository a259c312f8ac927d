//! The command line: one file a subcommand, one table of exit codes.

pub mod apply;
pub mod coverage;
pub mod db;
pub mod demo;
pub mod devices;
pub mod doctor;
pub mod here;
pub mod input;
pub mod lookup;
pub mod noise;
pub mod record;
pub mod report;
pub mod selfcheck;
pub mod shapes;
pub mod sweep;
pub mod top;
pub mod verify;
pub mod worker;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// How the program ends; the numbers are part of its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// Done, but some problems failed, were not reached, or are not in the database.
    Partly = 1,
    /// The command line or an input cannot be used.
    Usage = 2,
    /// The device cannot be opened.
    NoDevice = 3,
    /// Stopped by the user; results so far are kept.
    Interrupted = 130,
}

/// What went wrong, with the exit code that it means.
#[derive(Debug)]
pub struct Failure {
    /// One line for a person.
    pub error: anyhow::Error,
    /// How to end.
    pub exit: Exit,
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    /// Most things that fail are inputs and files.
    fn from(error: E) -> Failure {
        Failure { error: error.into(), exit: Exit::Usage }
    }
}

impl Failure {
    /// A failure of the device.
    pub fn device(error: impl Into<anyhow::Error>) -> Failure {
        Failure { error: error.into(), exit: Exit::NoDevice }
    }
}

/// Tune the GEMMs that your engine really runs, and look the results up.
#[derive(Debug, Parser)]
#[command(name = "tune", version, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 done; 1 some problems failed or were not reached; 2 usage or input; 3 no device; \
130 interrupted, results kept. record and apply end as their program does.\nResults go to standard output, everything else to standard error."
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Record, sweep, look up and run tuned: the whole loop on this machine's CPU, in about a minute
    Demo(demo::Args),
    /// Run a program and write which GEMMs it ran as an untuned CSV; or read them from logs of its libraries
    Record(record::Args),
    /// Run a program with the choices of a database in place of its libraries' own
    Apply(apply::Args),
    /// Show what became of the GEMM calls of a process that is recorded or applied to, while it runs
    Top(top::Args),
    /// Write the GEMMs of a model, from its Hugging Face config.json, as an untuned CSV
    Shapes(shapes::Args),
    /// Try every solution for every problem of untuned CSVs on a device, and store what is right and fastest
    Sweep(sweep::Args),
    /// Say what a database would run for a problem, and why
    Lookup(lookup::Args),
    /// Say how much of a recording a database answers, and what it just misses
    Coverage(coverage::Args),
    /// List the devices of this machine and the libraries found for them
    Devices(devices::Args),
    /// Look for every library there is, and say where and what was tried
    Doctor(doctor::Args),
    /// Measure the choices of a database again, beside their baselines
    Verify(verify::Args),
    /// Show what a database comes to: baselines, best solutions, choices and means, as Markdown or JSON
    Report(report::Args),
    /// Race baselines against copies of themselves: how often would a tie be taken for a win?
    Noise(noise::Args),
    /// Put this machine's libraries through their paces and write what came of it, without personal data, as one tar file
    Selfcheck(selfcheck::Args),
    /// Import, export, merge, compare and check databases and tables
    Db(db::Args),
    /// The child process of a sweep; not for people
    #[command(hide = true)]
    Worker,
}

/// The whole program.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => {
            // Help and version are no errors; everything else is usage.
            let _ = e.print();
            return ExitCode::from(if e.use_stderr() { Exit::Usage as u8 } else { Exit::Done as u8 });
        }
    };
    let code = |result: Result<Exit, Failure>| result.map(|exit| exit as u8);
    let result = match cli.command {
        // These two end as the program that they ran.
        Command::Record(args) => record::run(&args),
        Command::Apply(args) => apply::run(&args),
        Command::Demo(args) => code(demo::run(&args)),
        Command::Shapes(args) => code(shapes::run(&args)),
        Command::Sweep(args) => code(sweep::run(&args)),
        Command::Lookup(args) => code(lookup::run(&args)),
        Command::Coverage(args) => code(coverage::run(&args)),
        Command::Top(args) => code(top::run(&args)),
        Command::Devices(args) => code(devices::run(&args)),
        Command::Doctor(args) => code(doctor::run(&args)),
        Command::Verify(args) => code(verify::run(&args)),
        Command::Report(args) => code(report::run(&args)),
        Command::Noise(args) => code(noise::run(&args)),
        Command::Selfcheck(args) => code(selfcheck::run(&args)),
        Command::Db(args) => code(db::run(&args)),
        Command::Worker => code(worker::run()),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            eprintln!("tune: {:#}", failure.error);
            ExitCode::from(failure.exit as u8)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
