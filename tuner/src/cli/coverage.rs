//! `tune coverage`: how much of what an engine ran a database answers.

use std::fmt;
use std::path::PathBuf;

use tgemm_db::Choice;
use tgemm_db::choice::Ratio;
use tgemm_db::coverage::{Answer, Coverage, Covered, Level, coverage};
use tgemm_db::key;
use tgemm_lookup::{Database, HitKind};

use super::db::keep;
use super::here::HereArgs;
use super::input::{self, Selection};
use super::{Exit, Failure};
use crate::report::{self, table};

/// What `tune coverage` takes.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The time of a problem is its baseline's where the database has it; marked with ~ it is estimated. \
Every solution of the database may answer, whatever form of weights or arithmetic it takes.\n\
The predicted saving sums count x (time of the best baseline - time of the choice), by the ratio that was measured in pairs; \
what has no choice saves nothing. Its interval is that of all ratios at their worst and at their best.\n\
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
    /// For which device
    #[command(flatten)]
    pub here: HereArgs,
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
    let here = args.here.environment(&args.db)?;
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

/// What the whole recording would take less with the choices.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Prediction {
    estimate_us: f64,
    /// With every ratio at the upper end of its interval, and at the lower.
    low_us: f64,
    high_us: f64,
    /// Of the recording with its baselines.
    total_us: f64,
}

impl Prediction {
    fn of(coverage: &Coverage<'_>) -> Prediction {
        let mut sum = Prediction { estimate_us: 0.0, low_us: 0.0, high_us: 0.0, total_us: coverage.total_us };
        for row in &coverage.rows {
            // What runs anyway saves nothing, whatever was measured of it; nor is anything known of what was never compared.
            let gains = |choice: &&Choice| !choice.is_baseline() && choice.baseline_us().is_some();
            let Some(choice) = row.answer.choice.filter(gains) else { continue };
            let baseline_us = row.recorded.count.max(1) as f64 * row.time_us;
            // Too few pairs for an interval: at worst nothing was gained.
            let Ratio { estimate, low, high } = choice.ratio;
            let (low, high) = if high.is_finite() { (low, high) } else { (estimate, estimate.max(1.0)) };
            sum.estimate_us += baseline_us * (1.0 - estimate);
            sum.low_us += baseline_us * (1.0 - high);
            sum.high_us += baseline_us * (1.0 - low);
        }
        sum
    }

    /// As a share of the recording's time with its baselines, 0 to 1.
    fn share(&self, us: f64) -> f64 {
        if self.total_us > 0.0 { us / self.total_us } else { 0.0 }
    }
}

impl fmt::Display for Prediction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |us: f64| format!("{:.3}", us / 1e3);
        let percent = |us: f64| format!("{:.1}", 100.0 * self.share(us));
        let Prediction { estimate_us, low_us, high_us, total_us } = *self;
        write!(f, "predicted saving: {} ms ({} to {})", ms(estimate_us), ms(low_us), ms(high_us))?;
        write!(f, " of {} ms recorded, ", ms(total_us))?;
        write!(f, "{} % ({} to {})", percent(estimate_us), percent(low_us), percent(high_us))
    }
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
    text + &format!("{}\n", Prediction::of(coverage))
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
    let saving = Prediction::of(coverage);
    let levels: serde_json::Map<_, _> = Level::ALL
        .iter()
        .map(|level| {
            let share = coverage.level(*level);
            let object = serde_json::json!({ "problems": share.problems, "calls": share.calls, "time": share.time });
            (level.name().to_owned(), object)
        })
        .collect();
    let total = serde_json::json!({
        "levels": levels, "total_us": coverage.total_us, "saving_us": saving.estimate_us,
        "saving_low_us": saving.low_us, "saving_high_us": saving.high_us, "saving_share": saving.share(saving.estimate_us),
    });
    rows.chain([total]).map(|object| format!("{object}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tgemm_db::choice::Baseline;
    use tgemm_db::device::{Build, Device, Vendor};
    use tgemm_db::{DType, Recorded, Site, Solution, Verdict};

    #[test]
    fn a_ratio_without_interval_promises_nothing() {
        let solution = Solution::bare(Build::unknown("hipblaslt"), 1, "Cijk");
        let problem = Site::linear(64, 128, DType::Bf16).at(1).into();
        let device = Device::named(Vendor::Amd, "gfx942", 304);
        let choice = Choice {
            verdict: Verdict::Faster,
            ratio: Ratio { estimate: 0.5, low: 0.0, high: f64::INFINITY },
            baselines: vec![Baseline { via: "hipblasLtMatmul".into(), solution: solution.clone(), time_us: 20.0 }],
            ..Choice::uncompared(problem, device, solution, 10.0)
        };
        let (asked, table) = ([Recorded { count: 50, ..Recorded::bare(problem) }], [choice]);
        let weighed =
            coverage(&asked, &table, |_| Answer { level: Level::Exact, choice: table.first(), refused: Vec::new() });
        let prediction = Prediction::of(&weighed);
        assert_eq!(prediction, Prediction { estimate_us: 500.0, low_us: 0.0, high_us: 500.0, total_us: 1000.0 });
        assert_eq!(
            prediction.to_string(),
            "predicted saving: 0.500 ms (0.000 to 0.500) of 1.000 ms recorded, 50.0 % (0.0 to 50.0)"
        );
    }
}
