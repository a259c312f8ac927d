//! `tune db`: work with databases and tables, one file a subcommand.

pub mod diff;
pub mod export;
pub mod import;
pub mod keep;
pub mod lint;
pub mod merge;
pub mod stats;
pub mod tables;

use clap::Subcommand;

use super::{Exit, Failure};

/// What `tune db` takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Bring tuned files of any format into a database, each row with where it came from
    Import(import::Args),
    /// Write choices in the form that another tool loads, and say what it cannot express
    Export(export::Args),
    /// Make one table of several: of rivals the one with the better bound stays, inputs are not edited
    Merge(merge::Args),
    /// Show which choices differ between two databases or tables
    Diff(diff::Args),
    /// Say what is wrong with files, row by row, and the mend
    Lint(lint::Args),
    /// Say what databases and tables hold, by device, library and format
    Stats(stats::Args),
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<Exit, Failure> {
    match &args.command {
        Command::Import(args) => import::run(args),
        Command::Export(args) => export::run(args),
        Command::Merge(args) => merge::run(args),
        Command::Diff(args) => diff::run(args),
        Command::Lint(args) => lint::run(args),
        Command::Stats(args) => stats::run(args),
    }
}
