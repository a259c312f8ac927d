//! Which level of the ladder answered, and why the better ones did not.

use std::fmt;

use tgemm_db::{Choice, Constraints, Problem};

use crate::admit::Refusal;
use crate::database::{Database, HitKind};
use crate::moe;
use crate::site_key::SiteKey;

/// The most refused rows that an explanation names; the rest are counted.
const REFUSED_SHOWN_MAX: usize = 4;

/// What a lookup found at one level.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Step {
    /// The level.
    pub level: HitKind,
    /// The M that it looked at.
    pub m: u32,
    /// What it found there, in words.
    pub found: String,
    /// Did it answer?
    pub answered: bool,
}

/// A lookup told step by step; `Display` prints it for people.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explanation {
    /// What was asked for.
    pub problem: Problem,
    /// The device in words.
    pub here: String,
    /// Which level answered.
    pub kind: HitKind,
    /// The M that the answer was tuned at.
    pub tuned_m: Option<u32>,
    /// Every level that was tried, in order.
    pub steps: Vec<Step>,
    /// The M nearest to the one asked for that this site was tuned at here.
    pub nearest_m: Option<u32>,
    /// Rows for this site that do not count here (other device, other build), in words.
    pub refused: Vec<String>,
}

impl Database {
    /// Tells how [`Database::lookup`] answers and why the better levels did not. Allocates; not for the hit path.
    pub fn explain(&self, problem: &Problem, constraints: &Constraints) -> Explanation {
        let asked_m = problem.m();
        let hit = self.lookup(problem, constraints);
        let table = self.table(problem);
        let mut steps: Vec<Step> = Vec::new();
        for (level, m, rows) in table.places(asked_m, constraints) {
            // One more set of rows at an M that was told of, and nothing in it.
            if rows.is_empty() && steps.iter().any(|step| step.m == m) {
                continue;
            }
            let mut found = Vec::new();
            let mut answered = false;
            for row in rows {
                let choice = &self.choices[row];
                let place = self.place(row);
                match constraints.refuse_choice(choice) {
                    Some(why) => found.push(format!("{}{place} may not run: {why}", choice.solution)),
                    None => {
                        found.push(format!("{}, {:.3} us{place}", choice.solution, choice.time_us));
                        answered = true;
                        break;
                    }
                }
            }
            let found = if found.is_empty() { "not tuned".to_owned() } else { found.join("; ") };
            steps.push(Step { level, m, found, answered });
            if answered {
                break;
            }
        }
        Explanation {
            problem: *problem,
            here: self.here.clone(),
            kind: hit.kind,
            tuned_m: hit.tuned_m,
            steps,
            nearest_m: table.tuned_ms().iter().copied().min_by_key(|m| m.abs_diff(asked_m)),
            refused: self.refused_here(problem),
        }
    }

    /// ` (file:line)` of a row, empty where it came from no file.
    fn place(&self, row: usize) -> String {
        let origin = self.origins[row];
        match (self.files.get(origin.layer as usize), origin.line) {
            (None, _) => String::new(),
            (Some(file), 0) => format!(" ({})", file.display()),
            (Some(file), line) => format!(" ({}:{line})", file.display()),
        }
    }

    /// Rows for the problem's site that would have counted elsewhere, those at its own M first.
    fn refused_here(&self, problem: &Problem) -> Vec<String> {
        let sites = moe::keys(problem);
        let of_site = |choice: &Choice| sites.contains(&SiteKey::of(&choice.problem));
        let mut rows: Vec<_> = self.refused.iter().filter(|(choice, _)| of_site(choice)).collect();
        rows.sort_by_key(|(choice, _)| choice.problem.m().abs_diff(problem.m()));
        let mut texts: Vec<String> = rows
            .iter()
            .take(REFUSED_SHOWN_MAX)
            .map(|(choice, refusal)| {
                let m = choice.problem.m();
                match refusal {
                    Refusal::Device(difference) => {
                        format!("M={m} tuned on {}, this is {}: {difference}", choice.device, self.here)
                    }
                    Refusal::Build(difference) => format!("M={m} {}: {difference}", choice.solution),
                }
            })
            .collect();
        if rows.len() > REFUSED_SHOWN_MAX {
            texts.push(format!("and {} more rows of other devices or builds", rows.len() - REFUSED_SHOWN_MAX));
        }
        texts
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}: {}", tgemm_db::key::short(&self.problem), self.here, self.kind)?;
        if let Some(m) = self.tuned_m.filter(|_| self.kind != HitKind::Exact) {
            write!(f, ", tuned at M={m}")?;
        }
        for step in &self.steps {
            write!(f, "\n  {:<7} M={}: {}", step.level, step.m, step.found)?;
        }
        if self.kind == HitKind::Default {
            match self.nearest_m {
                Some(m) => write!(f, "\n  nearest tuned M here: {m}")?,
                None => write!(f, "\n  this site was never tuned here")?,
            }
        }
        for row in &self.refused {
            write!(f, "\n  not for here: {row}")?;
        }
        Ok(())
    }
}
