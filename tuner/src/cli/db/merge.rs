//! `tune db merge`: several databases and tables made one.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use tgemm_db::merge::{Merge, Merged};
use tgemm_db::store::Store;

use super::keep::{self, Keeper};
use super::tables::{self, Assumptions};
use crate::cli::{Exit, Failure};
use crate::report::{self, table};

/// What `tune db merge` takes.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Of rows for the same problem, device and builds the one with the lower upper end of time over baseline \
stays, then the newer; rows that were never compared stand behind, among them the faster first. The order of the inputs \
does not matter, and merging again changes nothing. Rows of other devices and builds are all kept."
)]
pub struct Args {
    /// Databases and tables of choices, of any format
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Where to write the result: a database if it ends in .db, .sqlite or .sqlite3, else our tuned CSV
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// What files do not say themselves
    #[command(flatten)]
    pub assume: Assumptions,
    /// One JSON object an input
    #[arg(long)]
    pub json: bool,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<Exit, Failure> {
    refuse_input_as_output(args)?;
    let mut merge = Merge::new();
    for path in &args.files {
        tables::add(&mut merge, path, &args.assume.options())?;
    }
    let merged = merge.finish();
    for (path, report) in args.files.iter().zip(merged.reports()) {
        tables::tell_rejected(path, report);
    }
    let rows = match is_database_name(&args.output) {
        true => write_database(&merged, &args.output)?,
        false => merged.write_csv(&args.output)?,
    };
    tell(args, &merged)?;
    eprintln!("{}: {rows} rows", args.output.display());
    Ok(Exit::Done)
}

/// Inputs are never edited, not even by a result that takes the place of one.
fn refuse_input_as_output(args: &Args) -> anyhow::Result<()> {
    let Ok(output) = std::fs::canonicalize(&args.output) else { return Ok(()) };
    match args.files.iter().any(|path| std::fs::canonicalize(path).is_ok_and(|path| path == output)) {
        true => bail!("{}: is an input too, and inputs are not edited: name another output", args.output.display()),
        false => Ok(()),
    }
}

fn is_database_name(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or("");
    ["db", "sqlite", "sqlite3"].iter().any(|known| extension.eq_ignore_ascii_case(known))
}

/// Writes a new database beside `path`, whole, and puts it there.
fn write_database(merged: &Merged, path: &Path) -> Result<usize, Failure> {
    if path.exists() {
        return Err(anyhow::anyhow!("{}: is there already: remove it, or name another output", path.display()).into());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let scratch = tempfile::Builder::new()
        .prefix(".tune-merge-")
        .tempdir_in(folder)
        .with_context(|| format!("{}: no file can be made in its folder", path.display()))?;
    let beside = scratch.path().join("merged.sqlite");
    let mut store = Store::open(&beside)?;
    let mut keeper = Keeper::new(&mut store, serde_json::json!({}))?;
    for batch in merged.batches() {
        keeper.save(batch?)?;
    }
    let (saved, superseded) = (keeper.saved, keeper.superseded);
    keeper.end()?;
    store.close()?;
    std::fs::rename(&beside, path).with_context(|| format!("{}: cannot be put in its place", path.display()))?;
    keep::tell_superseded(superseded);
    Ok(saved)
}

fn tell(args: &Args, merged: &Merged) -> Result<(), Failure> {
    let reports = merged.reports();
    let lost_to = |lost: &[(usize, u64)]| {
        let each = lost.iter().map(|(winner, rows)| format!("{rows} to {}", reports[*winner].name));
        each.collect::<Vec<_>>().join(", ")
    };
    let mut table = table::table(&["input", "lost to", "rows", "won", "lost", "identical", "rejected"], 2);
    let mut lines = String::new();
    for report in reports {
        if args.json {
            let lost: Vec<_> = report
                .lost
                .iter()
                .map(|(winner, rows)| serde_json::json!({ "to": reports[*winner].name, "rows": rows }))
                .collect();
            let object = serde_json::json!({
                "input": report.name, "rows": report.rows, "won": report.won, "lost": lost,
                "identical": report.identical, "rejected": report.rejected,
                "reasons": tables::rejected_json(&report.rejections),
            });
            lines += &format!("{object}\n");
        } else {
            let figures = [report.rows, report.won, report.lost_total(), report.identical, report.rejected];
            let cells = [report.name.clone(), lost_to(&report.lost)].into_iter();
            table.add_row(cells.chain(figures.map(|figure| figure.to_string())));
        }
    }
    report::write_stdout(&if args.json { lines } else { format!("{table}\n") })?;
    Ok(())
}
