//! A database as a page in Markdown: one table an environment, one line a problem, and what it comes to.

use std::collections::BTreeMap;

use tgemm_db::outcome::OutcomeKind;
use tgemm_db::store::{EnvironmentId, Store, StoreError, StoredChoice};
use tgemm_db::{Choice, Environment, Trial, Verdict, key};

use super::time_us;
use crate::roofline;
use crate::stats::geometric_mean;

/// The page of a whole database.
///
/// # Errors
/// The database cannot be read.
pub fn page(store: &Store) -> Result<String, StoreError> {
    let mut by_environment: BTreeMap<EnvironmentId, Vec<StoredChoice>> = BTreeMap::new();
    for stored in store.choices_with_environment()? {
        by_environment.entry(stored.environment_id).or_default().push(stored);
    }
    let mut text = String::new();
    for (id, mut stored) in by_environment {
        stored.sort_by_key(|s| s.choice.problem);
        let Some(first) = stored.first() else { continue };
        text += &heading(&first.environment);
        let mut lines = Vec::with_capacity(stored.len());
        for StoredChoice { choice, .. } in &stored {
            lines.push(Line::of(choice, &store.trials(id, &choice.problem)?));
        }
        text += &table(&lines);
        text += &totals(&lines);
    }
    Ok(text)
}

fn heading(environment: &Environment) -> String {
    let builds: Vec<String> = environment.builds.iter().map(ToString::to_string).collect();
    let mut text = format!("## {}\n\ndriver {}; {}", environment.device, environment.driver, builds.join(", "));
    for (name, value) in &environment.vars {
        text += &format!("; {name}={value}");
    }
    text + "\n\n"
}

/// One problem.
struct Line<'a> {
    choice: &'a Choice,
    /// The fastest right solution of a library that is no baseline: its median and name.
    best_other: Option<(f64, String)>,
    candidates: usize,
    right: usize,
}

impl<'a> Line<'a> {
    fn of(choice: &'a Choice, trials: &[Trial]) -> Line<'a> {
        let others = trials.iter().filter(|trial| trial.baseline_via.is_none());
        let timed = others.filter_map(|trial| {
            let right = matches!(trial.outcome.kind, OutcomeKind::Ok | OutcomeKind::Pruned);
            Some((trial.median_us().filter(|_| right)?, trial.solution.to_string()))
        });
        let is_right = |t: &&Trial| matches!(t.outcome.kind, OutcomeKind::Ok | OutcomeKind::Pruned);
        Line {
            choice,
            best_other: timed.min_by(|a, b| a.0.total_cmp(&b.0)),
            candidates: trials.len(),
            right: trials.iter().filter(is_right).count(),
        }
    }

    fn roofline_share(&self) -> f64 {
        roofline::least_time_us(&self.choice.device, &self.choice.problem) / self.choice.time_us
    }

    fn m(&self) -> u32 {
        self.choice.problem.m()
    }

    fn site(&self) -> String {
        let text = key::short(&self.choice.problem);
        text.split_once('x').map_or(text.clone(), |(_, site)| site.to_owned())
    }
}

/// The calls that stand as baselines anywhere in the table, in order of their names.
fn vias(lines: &[Line<'_>]) -> Vec<String> {
    let mut vias: Vec<String> =
        lines.iter().flat_map(|l| l.choice.baselines.iter().map(|b| b.via.to_string())).collect();
    vias.sort();
    vias.dedup();
    vias
}

fn table(lines: &[Line<'_>]) -> String {
    let vias = vias(lines);
    let mut text = String::from("| problem |");
    vias.iter().for_each(|via| text += &format!(" {via} us |"));
    text +=
        " best other us | choice us | ratio | 95 % interval | verdict | of roofline | right/tried | choice |\n|---|";
    text += &"---:|".repeat(vias.len() + 4);
    text += "---|---:|---:|---|\n";
    for line in lines {
        let choice = line.choice;
        text += &format!("| {} |", key::short(&choice.problem));
        for via in &vias {
            let time = choice.baselines.iter().find(|b| *b.via == **via).map(|b| time_us(b.time_us));
            text += &format!(" {} |", time.unwrap_or_else(|| "-".into()));
        }
        let other = line.best_other.as_ref().map_or("-".into(), |(us, _)| time_us(*us));
        let name = if choice.verdict == Verdict::Faster { choice.solution.to_string() } else { "baseline".into() };
        text += &format!(
            " {other} | {} | {:.3} | {:.3}–{:.3} | {} | {:.0} % | {}/{} | {name} |\n",
            time_us(choice.time_us),
            choice.ratio.estimate,
            choice.ratio.low,
            choice.ratio.high,
            choice.verdict,
            line.roofline_share() * 100.0,
            line.right,
            line.candidates,
        );
    }
    text + "\n"
}

fn mean_line(name: &str, lines: &[&Line<'_>]) -> String {
    let ratios: Vec<f64> = lines.iter().map(|line| line.choice.ratio.estimate).collect();
    let shares: Vec<f64> = lines.iter().map(|line| line.roofline_share()).collect();
    let faster = lines.iter().filter(|line| line.choice.verdict == Verdict::Faster).count();
    let mean = |values: &[f64]| geometric_mean(values).unwrap_or(f64::NAN);
    let best = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    format!(
        "| {name} | {} | {faster} | {:.3} | {best:.3} | {:.0} % |\n",
        lines.len(),
        mean(&ratios),
        mean(&shares) * 100.0
    )
}

fn totals(lines: &[Line<'_>]) -> String {
    let mut text = String::from(
        "| | problems | faster | geometric mean of ratios | best ratio | geometric mean of roofline shares |\n\
         |---|---:|---:|---:|---:|---:|\n",
    );
    text += &mean_line("all", &lines.iter().collect::<Vec<_>>());
    let mut by_m: BTreeMap<u32, Vec<&Line<'_>>> = BTreeMap::new();
    let mut by_site: BTreeMap<String, Vec<&Line<'_>>> = BTreeMap::new();
    for line in lines {
        by_m.entry(line.m()).or_default().push(line);
        by_site.entry(line.site()).or_default().push(line);
    }
    by_m.iter().for_each(|(m, lines)| text += &mean_line(&format!("M = {m}"), lines));
    by_site.iter().for_each(|(site, lines)| text += &mean_line(site, lines));
    text + "\n"
}
