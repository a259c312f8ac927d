//! The table of choices and the summary under it.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use tgemm_db::outcome::OutcomeKind;
use tgemm_db::{Choice, Trial, Verdict, cost, key};

use super::{percent, ratio, time_us};
use crate::roofline;
use crate::stats::geometric_mean;
use crate::sweep::{Disturbances, Summary};

/// Widest table where standard output is no terminal.
const WIDTH_PIPED: u16 = 200;

/// An empty table in the house style, with these headings; columns from `numeric_from` on are numbers.
pub fn table(headings: &[&str], numeric_from: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    if !table.is_tty() {
        table.set_width(WIDTH_PIPED);
    }
    table.set_header(headings.iter().map(|h| h.to_string()));
    for (i, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if i >= numeric_from {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Choices as a table: baseline and best time, ratio with uncertainty, rates, share of the
/// device's roofline, error over its bound, verdict.
pub fn choices(choices: &[Choice]) -> String {
    let headings = [
        "problem",
        "baseline",
        "best solution",
        "verdict",
        "count",
        "base us",
        "best us",
        "ratio",
        "GFLOP/s",
        "GB/s",
        "of roof",
        "err/bound",
    ];
    let mut table = table(&headings, 4);
    for choice in choices {
        let baseline = choice.baselines.first();
        let is_baseline = choice.verdict != Verdict::Faster && baseline.is_some();
        table.add_row([
            key::short(&choice.problem),
            baseline.map_or("none".into(), |b| b.via.clone()),
            if is_baseline { "= baseline".into() } else { choice.solution.to_string() },
            choice.verdict.to_string(),
            choice.count.to_string(),
            baseline.map_or("-".into(), |b| time_us(b.time_us)),
            time_us(choice.time_us),
            ratio(&choice.ratio),
            format!("{:.1}", cost::gflops_per_s(&choice.problem, choice.time_us)),
            format!("{:.1}", cost::gbytes_per_s(&choice.problem, choice.time_us)),
            percent(roofline::share(&choice.device, &choice.problem, choice.time_us)),
            format!("{:.2}", choice.error_over_bound),
        ]);
    }
    format!("{table}\n")
}

/// Every candidate of a problem with its outcome: what `--verbose` shows.
pub fn trials(trials: &[Trial]) -> String {
    let mut table = table(&["solution", "outcome", "us", "pack us", "err/bound", "why"], 2);
    for trial in trials {
        table.add_row([
            match &trial.baseline_via {
                Some(via) => format!("{} [{via}]", trial.solution),
                None => trial.solution.to_string(),
            },
            trial.outcome.kind.to_string(),
            trial.median_us().map_or("-".into(), time_us),
            trial.pack_us.map_or("-".into(), time_us),
            trial.error.map_or("-".into(), |e| format!("{:.2}", e.max_over_bound)),
            trial.outcome.detail.clone(),
        ]);
    }
    format!("{table}\n")
}

/// The sentences under the table.
pub fn summary(summary: &Summary) -> String {
    let mut text = String::new();
    let choices = &summary.choices;
    let faster: Vec<&Choice> = choices.iter().filter(|c| c.verdict == Verdict::Faster).collect();
    let ratios: Vec<f64> = choices.iter().map(|c| c.ratio.estimate).collect();
    if let Some(mean) = geometric_mean(&ratios) {
        text += &format!(
            "{} of {} problems faster than their best baseline; geometric mean of time ratios {mean:.3}",
            faster.len(),
            choices.len()
        );
        if let Some(share) = time_saved(choices) {
            text += &format!("; {:.1} % of the recorded GEMM time saved", share * 100.0);
        }
        text.push('\n');
    }
    let ambiguous = choices.iter().filter(|c| c.verdict == Verdict::Ambiguous).count();
    if ambiguous > 0 {
        text += &format!("{ambiguous} ambiguous: too noisy to tell, the baseline stays\n");
    }
    if summary.already_chosen > 0 {
        text += &format!("{} had a choice already (--again tunes them anew)\n", summary.already_chosen);
    }
    if summary.untried > 0 {
        text += &format!("{} candidates untried: the budget ended first; run again to go on\n", summary.untried);
    }
    if summary.untouched > 0 {
        text += &format!("{} problems not reached; run again to go on\n", summary.untouched);
    }
    for (row, why) in &summary.failed {
        text += &format!("failed: {}: {why}\n", key::short(&row.problem));
    }
    if summary.disturbances.blocks > 0 {
        let Disturbances { blocks, last, .. } = &summary.disturbances;
        text += &format!("{blocks} blocks thrown away because the device was disturbed, the last time: {last}\n");
    }
    for (device, why) in &summary.lost {
        text += &format!("without {device}: {why}\n");
    }
    if summary.interrupted {
        text += "interrupted: everything finished so far is stored\n";
    }
    text
}

/// Share of the recorded time under the best baselines that the choices save: Σ count·(baseline − choice) / Σ count·baseline.
pub fn time_saved(choices: &[Choice]) -> Option<f64> {
    let (mut saved, mut total) = (0.0, 0.0);
    for choice in choices {
        let Some(baseline) = choice.baselines.first() else { continue };
        let count = choice.count.max(1) as f64;
        total += count * baseline.time_us;
        // The paired ratio, not the difference of two medians: it is the figure that drift has cancelled from.
        saved += count * baseline.time_us * (1.0 - choice.ratio.estimate);
    }
    (total > 0.0).then(|| saved / total)
}

/// How many candidates had which outcome: `12 ok, 3 pruned, 1 wrong`.
pub fn outcome_counts(trials: &[Trial]) -> String {
    let counts = OutcomeKind::ALL.iter().filter_map(|kind| {
        let n = trials.iter().filter(|t| t.outcome.kind == *kind).count();
        (n > 0).then(|| format!("{n} {kind}"))
    });
    counts.collect::<Vec<_>>().join(", ")
}
