//! `tune coverage`: how much of what an engine ran a database answers.

use std::path::PathBuf;

use tgemm_db::coverage::{Answer, Coverage, Covered, Level, coverage};
use tgemm_db::device::Environment;
use tgemm_db::format::AssumedDevice;
use tgemm_db::key;
use tgemm_lookup::{Database, HitKind};

use super::db::{keep, tables};
use super::input::{self, Selection};
use super::{Exit, Failure};
use crate::device;
use crate::report::{self, table};

/// What `tune coverage` takes.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The time of a problem is its baseline's where the database has it; marked with ~ it is estimated. \
Every solution of the database may answer, whatever form of weights or arithmetic it takes.\n\
Exit codes: 0 done; 1 some problems have no answer; 2 a file cannot be read."
)]
pub struct Args {
    /// Untuned CSVs, ours or AITER's, or logs
    #[arg(value_name = "UNTUNED", required = true)]
    pub untuned: Vec<PathBuf>,
    /// Database or table of any format; several times for several, the first counts most
    #[arg(long, value_name = "FILE", required = true)]
    pub db: Vec<PathBuf>,
    /// Which problems
    #[command(flatten)]
    pub selection: Selection,
    /// For this device instead of the one here: gfx942/304, x86_64-v4/2
    #[arg(long, value_name = "ARCH/UNITS", value_parser = tables::assumed_device)]
    pub assume_device: Option<AssumedDevice>,
    /// Problems to list, those with the most time first; 0 lists all
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// One JSON object a problem, then one with the totals
    #[arg(long)]
    pub json: bool,
}

/// Runs the subcommand. Problems without an answer make the exit code 1.
pub fn run(args: &Args) -> Result<Exit, Failure> {
    let problems = input::merged(&input::read_sources(&args.untuned, &args.selection)?);
    for path in &args.db {
        std::fs::metadata(path).map_err(|error| anyhow::anyhow!("{}: cannot be read: {error}", path.display()))?;
    }
    let here: Environment = match &args.assume_device {
        Some(assumed) => tables::environment(assumed),
        None => device::open("cpu").map_err(Failure::device)?.context.environment().clone(),
    };
    let (database, loaded) = Database::open(&args.db, &here);
    if !loaded.is_clean() {
        eprintln!("{loaded}");
    }
    let constraints = keep::anything();
    let coverage = coverage(&problems, database.choices(), |problem| {
        let hit = database.lookup(problem, &constraints);
        let level = match hit.kind {
            HitKind::Exact => Level::Exact,
            HitKind::Padded => Level::Padded,
            HitKind::Default => Level::Default,
            _ => Level::Interval,
        };
        let refused = match level {
            Level::Default => database.explain(problem, &constraints).refused,
            _ => Vec::new(),
        };
        Answer { level, choice: hit.choice, refused }
    });
    report::write_stdout(&if args.json { json(&coverage) } else { people(&coverage, args.top) })?;
    Ok(if coverage.level(Level::Default).problems > 0 { Exit::Partly } else { Exit::Done })
}

/// What a person should know of a row without an answer: what nearly fits, and what is there for others.
fn hints(row: &Covered<'_>) -> String {
    let near =
        row.near.iter().map(|near| format!("{0}={1} recorded, {0}={2} tuned", near.field, near.recorded, near.tuned));
    let refused = row.answer.refused.iter().map(|why| format!("not for here: {why}"));
    near.chain(refused).collect::<Vec<_>>().join("; ")
}

fn people(coverage: &Coverage<'_>, top: usize) -> String {
    let mut levels = table::table(&["answer", "problems", "calls", "time"], 1);
    for level in Level::ALL {
        let share = coverage.level(level);
        levels.add_row([
            level.name().to_owned(),
            share.problems.to_string(),
            share.calls.to_string(),
            format!("{:.1} %", share.time * 100.0),
        ]);
    }
    let mut rows = table::table(&["problem", "answer", "hint", "count", "us", "time"], 3);
    let shown = if top == 0 { coverage.rows.len() } else { top.min(coverage.rows.len()) };
    for row in &coverage.rows[..shown] {
        rows.add_row([
            key::short(&row.recorded.problem),
            row.answer.level.name().to_owned(),
            hints(row),
            row.recorded.count.to_string(),
            format!("{}{}", if row.is_estimate { "~" } else { "" }, report::time_us(row.time_us)),
            format!("{:.1} %", row.share * 100.0),
        ]);
    }
    let mut text = format!("{levels}\n\n{rows}\n");
    if shown < coverage.rows.len() {
        text += &format!("and {} more problems (--top 0 lists all)\n", coverage.rows.len() - shown);
    }
    text + &format!(
        "predicted saving: {} of {} us recorded ({:.1} %)\n",
        report::time_us(coverage.saving_us),
        report::time_us(coverage.total_us),
        100.0 * coverage.saving_us / coverage.total_us.max(f64::MIN_POSITIVE),
    )
}

fn json(coverage: &Coverage<'_>) -> String {
    let rows = coverage.rows.iter().map(|row| {
        let near: Vec<_> = row
            .near
            .iter()
            .map(|near| serde_json::json!({ "field": near.field, "recorded": near.recorded, "tuned": near.tuned }))
            .collect();
        serde_json::json!({
            "problem": row.recorded.problem, "answer": row.answer.level.name(), "count": row.recorded.count,
            "time_us": row.time_us, "is_estimate": row.is_estimate, "share": row.share, "saving_us": row.saving_us,
            "near": near, "refused": row.answer.refused,
        })
    });
    let levels: serde_json::Map<_, _> = Level::ALL
        .iter()
        .map(|level| {
            let share = coverage.level(*level);
            let object = serde_json::json!({ "problems": share.problems, "calls": share.calls, "time": share.time });
            (level.name().to_owned(), object)
        })
        .collect();
    let total = serde_json::json!({
        "levels": levels, "total_us": coverage.total_us, "saving_us": coverage.saving_us,
    });
    rows.chain([total]).map(|object| format!("{object}\n")).collect()
}
