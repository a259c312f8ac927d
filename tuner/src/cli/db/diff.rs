//! `tune db diff`: which choices differ.

use std::path::PathBuf;

use tgemm_db::Choice;
use tgemm_db::diff::{Change, Diff, diff};
use tgemm_db::key;

use super::tables::{self, Assumptions};
use crate::cli::{Exit, Failure};
use crate::report::{self, table};
use crate::stats::geometric_mean;

/// What `tune db diff` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 both choose the same solutions; 1 they differ; 2 a file cannot be read.")]
pub struct Args {
    /// Database or table before
    #[arg(value_name = "OLD")]
    pub old: PathBuf,
    /// Database or table now
    #[arg(value_name = "NEW")]
    pub new: PathBuf,
    /// What files do not say themselves
    #[command(flatten)]
    pub assume: Assumptions,
    /// Show also solutions that stay and were measured anew
    #[arg(long)]
    pub times: bool,
    /// One JSON object a difference
    #[arg(long)]
    pub json: bool,
}

/// Runs the subcommand. Differing choices make the exit code 1, as with other tools that compare.
pub fn run(args: &Args) -> Result<Exit, Failure> {
    let options = args.assume.options();
    let (old, new) = (tables::choices(&args.old, &options)?, tables::choices(&args.new, &options)?);
    let diff = diff(&old, &new);
    let text = if args.json { json(&diff, args.times) } else { people(&diff, args.times) };
    report::write_stdout(&text)?;
    Ok(if diff.is_empty() { Exit::Done } else { Exit::Partly })
}

/// Every difference with its kind: what was chosen, and what is.
fn all<'d>(diff: &'d Diff<'_>, times: bool) -> Vec<(&'static str, Option<&'d Choice>, Option<&'d Choice>)> {
    let both = |kind, change: &Change<'d>| (kind, Some(change.old), Some(change.new));
    let changed = diff.changed.iter().map(|change| both("changed", change));
    let retimed = diff.retimed.iter().filter(|_| times).map(|change| both("retimed", change));
    let added = diff.added.iter().map(|choice| ("added", None, Some(*choice)));
    let removed = diff.removed.iter().map(|choice| ("removed", Some(*choice), None));
    changed.chain(retimed).chain(added).chain(removed).collect()
}

fn time_ratio(old: Option<&Choice>, new: Option<&Choice>) -> Option<f64> {
    Change { old: old?, new: new? }.time_ratio()
}

fn people(diff: &Diff<'_>, times: bool) -> String {
    let mut table = table::table(&["problem", "device", "what", "old", "new", "old us", "new us", "new/old"], 5);
    for (kind, old, new) in all(diff, times) {
        let Some(either) = new.or(old) else { continue };
        let solution = |choice: Option<&Choice>| choice.map_or("-".into(), |choice| choice.solution.to_string());
        let us = |choice: Option<&Choice>| choice.map_or("-".into(), |choice| report::time_us(choice.time_us));
        table.add_row([
            key::short(&either.problem),
            either.device.to_string(),
            kind.into(),
            solution(old),
            solution(new),
            us(old),
            us(new),
            time_ratio(old, new).map_or("-".into(), |ratio| format!("{ratio:.3}")),
        ]);
    }
    let shown = if table.is_empty() { String::new() } else { format!("{table}\n") };
    shown + &summary(diff)
}

fn summary(diff: &Diff<'_>) -> String {
    let mut text = format!(
        "{} changed, {} added, {} removed, {} measured anew, {} the same",
        diff.changed.len(),
        diff.added.len(),
        diff.removed.len(),
        diff.retimed.len(),
        diff.same
    );
    let ratios: Vec<f64> = diff.changed.iter().filter_map(Change::time_ratio).collect();
    if let Some(mean) = geometric_mean(&ratios) {
        text += &format!("; geometric mean of new/old time where the winner changed {mean:.3}");
    }
    text + "\n"
}

fn json(diff: &Diff<'_>, times: bool) -> String {
    let line = |(kind, old, new): (&str, Option<&Choice>, Option<&Choice>)| {
        let problem = new.or(old).map(|choice| &choice.problem);
        let object = serde_json::json!({
            "what": kind, "problem": problem, "old": old, "new": new, "time_ratio": time_ratio(old, new),
        });
        format!("{object}\n")
    };
    all(diff, times).into_iter().map(line).collect()
}
