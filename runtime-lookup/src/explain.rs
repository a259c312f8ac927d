//! Which level of the ladder answered, and why the better ones did not.

use std::fmt;

use tgemm_db::{Choice, Constraints, Gemm, Problem, key};

use crate::admit::{self, Refusal, Stretch};
use crate::database::{Database, HitKind, SiteTable};
use crate::index::Tuned;
use crate::interval::{Ask, Between, Lone, NEIGHBOURS_MAX, Side};
use crate::ladder::{self, Ladder};
use crate::moe::{self, Rung};
use crate::predict::Near;
use crate::site_key::{Family, SiteKey};

/// The most refused rows that an explanation names; the rest are counted.
const REFUSED_SHOWN_MAX: usize = 4;

/// What a lookup found at one level.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Step {
    /// The level.
    pub level: HitKind,
    /// The M that it looked at; `None` where it looked at none.
    pub m: Option<u32>,
    /// What it found there, in words.
    pub found: String,
    /// Did it answer?
    pub answered: bool,
}

impl Step {
    fn no(level: HitKind, found: impl Into<String>) -> Step {
        Step { level, m: None, found: found.into(), answered: false }
    }
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
        let mut steps = self.told(&table, asked_m, constraints);
        if let (Problem::Gemm(gemm), false) = (problem, steps.iter().any(|step| step.answered)) {
            steps.extend(self.between_told(&table, asked_m, constraints));
            if !steps.iter().any(|step| step.answered) {
                steps.extend(self.predicted_told(&table, gemm, constraints));
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

    /// The levels that look at rows of one M, up to the first that answers.
    fn told(&self, table: &SiteTable<'_>, asked_m: u32, constraints: &Constraints) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        for (level, m, rows) in self.places(table, asked_m, constraints) {
            // One more set of rows at an M that was told of, and nothing in it.
            if rows.is_empty() && steps.iter().any(|step| step.m == Some(m)) {
                continue;
            }
            if level == HitKind::Padded && !self.levels().padded {
                steps.push(Step::no(level, "not asked for"));
                break;
            }
            let step = self.step(level, m, &rows, constraints, Stretch::NONE.tokens(m, asked_m));
            let answered = step.answered;
            steps.push(step);
            if answered {
                break;
            }
        }
        steps
    }

    /// What becomes of `rows`, of which the first that may run answers.
    fn step(&self, level: HitKind, m: u32, rows: &[usize], constraints: &Constraints, stretch: Stretch) -> Step {
        let mut found = Vec::new();
        for &row in rows {
            let (choice, place) = (&self.choices[row], self.place(row));
            match admit::refuse(constraints, choice, stretch) {
                Some(why) => found.push(format!("{}{place} may not run: {why}", choice.solution)),
                None => {
                    found.push(format!("{}, {:.3} us{place}", choice.solution, choice.time_us));
                    return Step { level, m: Some(m), found: found.join("; "), answered: true };
                }
            }
        }
        let found = if found.is_empty() { "not tuned".to_owned() } else { found.join("; ") };
        Step { level, m: Some(m), found, answered: false }
    }

    /// Where [`SiteTable::at`] looks for rows of one M, in order, and what it finds there, best first.
    fn places(&self, table: &SiteTable<'_>, m: u32, constraints: &Constraints) -> Vec<(HitKind, u32, Vec<usize>)> {
        let gemm = |tuned: Tuned, n: u32| {
            let [finer, coarser] = ladder::padded(m, n).map(|m| Rung { kind: HitKind::Padded, span: tuned.span, m });
            vec![Rung { kind: HitKind::Exact, span: tuned.span, m }, finer, coarser]
        };
        let rungs = match &table.ladder {
            Ladder::Gemm { tuned, n } => gemm(*tuned, *n),
            Ladder::Predicted(_) => vec![Rung { kind: HitKind::Exact, span: Tuned::default().span, m }],
            Ladder::Moe(spans) => spans.rungs(m).to_vec(),
        };
        let mut places: Vec<(HitKind, u32, Vec<usize>)> = Vec::new();
        for (at, rung) in rungs.iter().enumerate() {
            if !rungs[..at].iter().any(|before| (before.span, before.m) == (rung.span, rung.m)) {
                places.push((rung.kind, rung.m, self.index.at(rung.span, rung.m).collect()));
            }
        }
        if let Ladder::Moe(spans) = &table.ladder
            && let Some(row) = spans.nearest(self, m, constraints)
        {
            let tuned_m = self.choices[row].problem.m();
            places.push((moe::nearest_kind(tuned_m, m), tuned_m, vec![row]));
        }
        places
    }

    /// What stands on either side.
    fn between_told(&self, table: &SiteTable<'_>, m: u32, constraints: &Constraints) -> Vec<Step> {
        let level = HitKind::Interval;
        if !self.levels().interval {
            return vec![Step::no(level, "not asked for")];
        }
        let tuned = match &table.ladder {
            Ladder::Gemm { tuned, .. } => *tuned,
            _ => Tuned::default(),
        };
        let ask = self.ask(m, constraints, Stretch::NONE);
        match ask.between(&tuned, self.index.first(&tuned, m)) {
            Ok(between) if self.levels().scored || ask.agree(&between) => self.sides(level, &between).into(),
            Ok(between) => {
                let differ = Step::no(level, "the neighbours chose differently, and scores were not asked for");
                let sides = self.sides(level, &between).map(|side| Step { answered: false, ..side });
                sides.into_iter().chain([differ]).collect()
            }
            Err(lone) => vec![Step::no(level, words(lone, m))],
        }
    }

    /// The two neighbours with their scores; the better one answers.
    fn sides(&self, level: HitKind, between: &Between) -> [Step; 2] {
        [&between.low, &between.high].map(|side: &Side| {
            let row = self.index.entry(side.place).row as usize;
            let choice = &self.choices[row];
            let score = match side.score_us.is_nan() {
                true => "of unknown time".to_owned(),
                false => format!("thought to take {:.3} us here", side.score_us),
            };
            let found = format!("{}, {score}{}", choice.solution, self.place(row));
            Step { level, m: Some(side.m), found, answered: side.place == between.best().place }
        })
    }

    /// What sites near this one say.
    fn predicted_told(&self, table: &SiteTable<'_>, gemm: &Gemm, constraints: &Constraints) -> Vec<Step> {
        let level = HitKind::Predicted;
        if !self.levels().predicted {
            return vec![Step::no(level, "not asked for")];
        }
        let nears = match &table.ladder {
            Ladder::Predicted(nears) => *nears,
            _ => return vec![Step::no(level, "this site was tuned itself: its own rows decide")],
        };
        if nears.iter().next().is_none() {
            return vec![Step::no(level, self.why_none_near(gemm))];
        }
        let mut steps = Vec::new();
        for near in nears.iter() {
            let ask = self.ask(gemm.m, constraints, Stretch::other_site(near.times));
            let more = self.near_told(&ask, near);
            let answered = more.iter().any(|step| step.answered);
            steps.extend(more);
            if answered {
                break;
            }
        }
        steps
    }

    fn near_told(&self, ask: &Ask<'_>, near: &Near) -> Vec<Step> {
        let (level, Near { n, k, tuned, .. }) = (HitKind::Predicted, near);
        let rows: Vec<usize> = self.index.at(tuned.span, ask.m).collect();
        let stretch = ask.stretch.tokens(ask.m, ask.m);
        let named = |step: Step| Step { found: format!("{n}x{k}: {}", step.found), ..step };
        let exact = self.step(level, ask.m, &rows, ask.constraints, stretch);
        if exact.answered {
            return vec![named(exact)];
        }
        match ask.between(tuned, self.index.first(tuned, ask.m)) {
            Ok(between) => self.sides(level, &between).map(named).into(),
            Err(lone) if rows.is_empty() => vec![named(Step::no(level, words(lone, ask.m)))],
            Err(_) => vec![named(exact)],
        }
    }

    fn why_none_near(&self, gemm: &Gemm) -> String {
        let Some(family) = Family::of(&gemm.site) else {
            return "rows that are not packed, and batches, are not predicted".into();
        };
        match self.index.family(&family) {
            [] => "no site of these types was tuned here".into(),
            members => format!(
                "none of the {} tuned sites of these types is within half an octave in N and K and as divisible",
                members.len()
            ),
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

/// Why an M has no two neighbours.
fn words(lone: Lone, m: u32) -> String {
    match lone {
        Lone::NotTuned => "no M was tuned".into(),
        Lone::Below(lowest) => format!("M={m} is below all that were tuned, from {lowest} on"),
        Lone::Above(highest) => format!("M={m} is above all that were tuned, up to {highest}"),
        Lone::LowRefused => format!("none of the nearest {NEIGHBOURS_MAX} rows below may run"),
        Lone::HighRefused => format!("none of the nearest {NEIGHBOURS_MAX} rows above may run"),
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}: {}", key::short(&self.problem), self.here, self.kind)?;
        if let Some(m) = self.tuned_m.filter(|_| self.kind != HitKind::Exact) {
            write!(f, ", tuned at M={m}")?;
        }
        for step in &self.steps {
            write!(f, "\n  {:<9}", step.level)?;
            match step.m {
                Some(m) => write!(f, " M={m}: {}", step.found)?,
                None => write!(f, " {}", step.found)?,
            }
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
