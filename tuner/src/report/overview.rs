//! What a database comes to: one section an environment, one line a problem, and means over all, by M and by site.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tgemm_db::outcome::OutcomeKind;
use tgemm_db::store::{EnvironmentId, Store, StoreError, StoredChoice};
use tgemm_db::{Choice, Constraints, Environment, Trial, Verdict, key};

use crate::roofline;
use crate::stats::geometric_mean;

/// All choices of one environment.
pub struct Section {
    /// Where.
    pub environment: Arc<Environment>,
    /// In the order of the problems.
    pub lines: Vec<Line>,
}

/// One problem.
pub struct Line {
    /// What was chosen.
    pub choice: Choice,
    /// What was allowed.
    pub constraints: Arc<Constraints>,
    /// The fastest right solution that is no baseline: its median, microseconds, and its name.
    pub best_other: Option<(f64, String)>,
    /// Candidates with an outcome.
    pub candidates: usize,
    /// Those whose result was right.
    pub right: usize,
}

/// Several problems taken together.
pub struct Mean {
    /// What they share: `all`, `M = 8`, a site.
    pub name: String,
    /// How many.
    pub problems: usize,
    /// How many of them have a choice faster than the baseline.
    pub faster: usize,
    /// Geometric mean of the ratios.
    pub ratio: f64,
    /// The least ratio.
    pub best_ratio: f64,
    /// Geometric mean of the roofline shares, where one is known.
    pub roofline_share: Option<f64>,
}

/// Everything in `store`.
///
/// # Errors
/// The database cannot be read.
pub fn sections(store: &Store) -> Result<Vec<Section>, StoreError> {
    let mut by_environment: BTreeMap<EnvironmentId, Vec<StoredChoice>> = BTreeMap::new();
    for stored in store.choices_with_environment()? {
        by_environment.entry(stored.environment_id).or_default().push(stored);
    }
    let mut sections = Vec::with_capacity(by_environment.len());
    for (id, mut stored) in by_environment {
        stored.sort_by_key(|s| s.choice.problem);
        let Some(environment) = stored.first().map(|first| Arc::clone(&first.environment)) else { continue };
        let mut lines = Vec::with_capacity(stored.len());
        for StoredChoice { choice, constraints, .. } in stored {
            let trials = store.trials(id, &choice.problem)?;
            lines.push(Line::new(choice, constraints, &trials));
        }
        sections.push(Section { environment, lines });
    }
    Ok(sections)
}

impl Line {
    fn new(choice: Choice, constraints: Arc<Constraints>, trials: &[Trial]) -> Line {
        let is_right = |t: &&Trial| matches!(t.outcome.kind, OutcomeKind::Ok | OutcomeKind::Pruned);
        let others = trials.iter().filter(is_right).filter(|trial| trial.baseline_via.is_none());
        let timed = others.filter_map(|trial| Some((trial.median_us()?, trial.solution.to_string())));
        Line {
            best_other: timed.min_by(|a, b| a.0.total_cmp(&b.0)),
            candidates: trials.len(),
            right: trials.iter().filter(is_right).count(),
            choice,
            constraints,
        }
    }

    /// How much of the roofline the choice reaches, where that is known.
    pub fn roofline_share(&self) -> Option<f64> {
        roofline::share(&self.choice.device, &self.choice.problem, self.choice.time_us)
    }

    /// The problem less its M, in short.
    fn site(&self) -> String {
        let text = key::short(&self.choice.problem);
        text.split_once('x').map_or(text.clone(), |(_, site)| site.to_owned())
    }
}

impl Mean {
    fn of(name: String, lines: &[&Line]) -> Mean {
        let ratios: Vec<f64> = lines.iter().map(|line| line.choice.ratio.estimate).collect();
        let shares: Vec<f64> = lines.iter().filter_map(|line| line.roofline_share()).collect();
        Mean {
            name,
            problems: lines.len(),
            faster: lines.iter().filter(|line| line.choice.verdict == Verdict::Faster).count(),
            ratio: geometric_mean(&ratios).unwrap_or(f64::NAN),
            best_ratio: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            roofline_share: geometric_mean(&shares),
        }
    }
}

impl Section {
    /// The calls that stand as baselines anywhere, in order of their names.
    pub fn vias(&self) -> Vec<&str> {
        let mut vias: Vec<&str> =
            self.lines.iter().flat_map(|l| l.choice.baselines.iter().map(|b| b.via.as_str())).collect();
        vias.sort_unstable();
        vias.dedup();
        vias
    }

    /// All problems, those of each M, those of each site.
    pub fn means(&self) -> Vec<Mean> {
        let mut by_m: BTreeMap<u32, Vec<&Line>> = BTreeMap::new();
        let mut by_site: BTreeMap<String, Vec<&Line>> = BTreeMap::new();
        for line in &self.lines {
            by_m.entry(line.choice.problem.m()).or_default().push(line);
            by_site.entry(line.site()).or_default().push(line);
        }
        let mut means = vec![Mean::of("all".into(), &self.lines.iter().collect::<Vec<_>>())];
        means.extend(by_m.into_iter().map(|(m, lines)| Mean::of(format!("M = {m}"), &lines)));
        means.extend(by_site.into_iter().map(|(site, lines)| Mean::of(site, &lines)));
        means
    }
}

/// Everything for tools: a list of environments, each with its problems and means.
pub fn as_json(sections: &[Section]) -> Value {
    let line = |line: &Line| {
        json!({
            "problem": key::short(&line.choice.problem), "choice": line.choice, "constraints": line.constraints,
            "best_other_us": line.best_other.as_ref().map(|best| best.0),
            "best_other": line.best_other.as_ref().map(|best| &best.1),
            "candidates": line.candidates, "right": line.right, "roofline_share": line.roofline_share(),
        })
    };
    let mean = |mean: &Mean| {
        json!({
            "name": mean.name, "problems": mean.problems, "faster": mean.faster, "ratio": mean.ratio,
            "best_ratio": mean.best_ratio, "roofline_share": mean.roofline_share,
        })
    };
    let section = |section: &Section| {
        json!({
            "environment": section.environment, "problems": section.lines.iter().map(line).collect::<Vec<_>>(),
            "means": section.means().iter().map(mean).collect::<Vec<_>>(),
        })
    };
    Value::Array(sections.iter().map(section).collect())
}
