//! One lookup of each kind: the same for the clock and for counting instructions.

use std::error::Error;
use std::hint::black_box;
use std::ops::Range;

use tgemm_db::{Choice, Constraints, Gemm, Problem, Site};
use tgemm_lookup::{Database, HitKind, Levels};

use crate::table::{self, CHOICES};

/// Problems that are asked for in turn: more sites than a model has, so that a site's rows are not at hand any more.
const IN_TURN: usize = 4096;
/// Token counts of one site that are asked for in turn.
const MS_IN_TURN: usize = 64;

/// What is asked.
pub struct Bench {
    /// On the levels that are the default, and by scores where neighbours chose differently.
    pub database: Database,
    /// The rows of `site`, all with the same solution.
    agreeing: Database,
    /// The same choices, on all levels.
    pub predicting: Database,
    /// All over the table.
    pub problems: Vec<Problem>,
    constraints: Constraints,
    site: Site,
    unknown: Site,
    near: Site,
}

/// A call that can be made again and again, and what it is.
pub struct Case<'b> {
    pub name: String,
    /// Makes one call for each number: the loop is inside, so that it is compiled around the call.
    pub calls: Box<dyn Fn(Range<u32>) + 'b>,
}

impl<'b> Case<'b> {
    fn new<T>(name: impl Into<String>, call: impl Fn(u32) -> T + 'b) -> Case<'b> {
        let calls = move |numbers: Range<u32>| {
            numbers.for_each(|number| {
                black_box(call(number));
            });
        };
        Case { name: name.into(), calls: Box::new(calls) }
    }
}

impl Bench {
    pub fn new() -> Result<Bench, Box<dyn Error>> {
        let choices = table::choices(CHOICES)?;
        // A walk over all rows that jumps between sites, as the layers of a model do.
        let problems: Vec<Problem> = (0..IN_TURN).map(|i| choices[i * 7919 % choices.len()].problem).collect();
        let site = problems[17].gemm().ok_or("the table has no GEMM")?.site;
        let predicting = Database::from_choices(choices.clone(), &table::here()).with_levels(Levels::ALL);
        let solution = choices[17 * 7919 % choices.len()].solution.clone();
        let same = choices.iter().filter(|choice| choice.problem.gemm().is_some_and(|gemm| gemm.site == site));
        let same = same.map(|choice| Choice { solution: solution.clone(), ..choice.clone() });
        let agreeing = Database::from_choices(same.collect::<Vec<_>>(), &table::here());
        let mut levels = Levels::default();
        levels.scored = true;
        let database = Database::from_choices(choices, &table::here()).with_levels(levels);
        let constraints = Constraints::default();
        let tuned = |site: &Site| !database.site(site).is_empty();
        let kind = |site: Site| predicting.lookup(&site.at(8).into(), &constraints).kind;
        let mut beside = (1..64).map(|step| Site { n: site.n + 64 * step, ..site }).filter(|site| !tuned(site));
        let near = beside.find(|site| kind(*site) == HitKind::Predicted).ok_or("no site is predicted")?;
        Ok(Bench { predicting, agreeing, problems, site, unknown: Site { n: 77, ..site }, near, constraints, database })
    }

    /// The least M at which the site is answered in this way.
    fn m(&self, kind: HitKind) -> Result<u32, Box<dyn Error>> {
        let is = |m: &u32| self.database.lookup(&self.site.at(*m).into(), &self.constraints).kind == kind;
        Ok((2..100_000).find(is).ok_or_else(|| format!("no {kind} answer at {}", self.site))?)
    }

    /// All that is measured.
    pub fn cases(&self) -> Result<Vec<Case<'_>>, Box<dyn Error>> {
        let constraints = &self.constraints;
        let table = self.database.site(&self.site);
        let mut cases = Vec::new();
        let kinds = [HitKind::Exact, HitKind::Padded, HitKind::Interval, HitKind::Default];
        for kind in kinds {
            let m = self.m(kind)?;
            let call = move |_| table.at(black_box(m), black_box(constraints)).kind;
            cases.push(Case::new(format!("site table, {kind}"), call));
        }
        let (between, agreeing) = (self.m(HitKind::Interval)?, self.agreeing.site(&self.site));
        let call = move |_| agreeing.at(black_box(between), black_box(constraints)).kind;
        cases.push(Case::new("site table, interval, both chose the same", call));
        let tuned: Vec<u32> = table.tuned_ms().iter().copied().take(MS_IN_TURN).collect();
        let call = move |at: u32| table.at(tuned[at as usize % MS_IN_TURN], black_box(constraints)).kind;
        cases.push(Case::new(format!("site table, exact, {MS_IN_TURN} M in turn"), call));
        for kind in kinds {
            cases.push(self.ask(format!("lookup, {kind}"), &self.database, self.site.at(self.m(kind)?)));
        }
        let (known, all) = (&self.database, &self.predicting);
        cases.push(self.ask("lookup, unknown site", known, self.unknown.at(8)));
        cases.push(self.ask("lookup, predicted", all, self.near.at(8)));
        cases.push(self.ask("lookup, unknown site, predicted asked for", all, self.unknown.at(8)));
        let problems = &self.problems;
        let call = move |at: u32| known.lookup(&problems[at as usize % IN_TURN], black_box(constraints)).kind;
        cases.push(Case::new(format!("lookup, exact, {IN_TURN} problems in turn"), call));
        Ok(cases)
    }

    fn ask<'b>(&'b self, name: impl Into<String>, database: &'b Database, gemm: Gemm) -> Case<'b> {
        let problem = Problem::from(gemm);
        Case::new(name, move |_| database.lookup(black_box(&problem), black_box(&self.constraints)).kind)
    }
}
