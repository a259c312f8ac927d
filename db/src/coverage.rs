//! How much of what an engine ran a table answers, by count x time, and what it just misses.
//!
//! Who answers is not known here: a lookup is handed in, and the answers are weighed. A recording says how often a
//! problem ran, not how long it took. The time of a problem is its baseline's where the answer was compared with one, else
//! the time of the answer, scaled by work where it was borrowed from another M; for a problem without answer it is
//! estimated from the rate at which the table's own rows of the nearest work run. Estimates are marked.

use std::collections::HashMap;

use crate::choice::Choice;
use crate::cost;
use crate::problem::{Problem, Site};
use crate::recording::Recorded;

/// How a problem was answered, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// It was tuned.
    Exact,
    /// Borrowed from the M that padding names.
    Padded,
    /// Between two tuned M, or by a model of the site.
    Interval,
    /// Not at all: the engine runs what it would have run.
    Default,
}

impl Level {
    /// All levels, best first.
    pub const ALL: [Level; 4] = [Level::Exact, Level::Padded, Level::Interval, Level::Default];

    /// As reports call it.
    pub fn name(self) -> &'static str {
        match self {
            Level::Exact => "exact",
            Level::Padded => "padded",
            Level::Interval => "interval",
            Level::Default => "default",
        }
    }
}

/// What a lookup said.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer<'a> {
    /// Which level answered.
    pub level: Level,
    /// With what; `None` for [`Level::Default`] alone.
    pub choice: Option<&'a Choice>,
    /// Why rows that are there may not serve here: another device, another build.
    pub refused: Vec<String>,
}

/// A tuned site that is nearly the one that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearMiss {
    /// The field that differs: N or K.
    pub field: &'static str,
    /// What was recorded.
    pub recorded: u32,
    /// What was tuned.
    pub tuned: u32,
}

/// N and K at most this far apart (of the larger one) are near: engines pad and fuse within it.
pub const NEAR_MAX: f64 = 0.1;

/// One recorded problem with its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Covered<'a> {
    /// What was recorded.
    pub recorded: &'a Recorded,
    /// What a lookup says.
    pub answer: Answer<'a>,
    /// Microseconds of one call as the engine runs it without us.
    pub time_us: f64,
    /// Is that an estimate?
    pub is_estimate: bool,
    /// Its share of the recorded time, 0 to 1.
    pub share: f64,
    /// Microseconds that the answer saves over the whole recording: count x (baseline − choice). 0 where the answer was
    /// never compared with a baseline.
    pub saving_us: f64,
    /// Tuned sites nearby, nearest first, of a problem that has no answer.
    pub near: Vec<NearMiss>,
}

/// What one level answers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share {
    /// Problems.
    pub problems: usize,
    /// Calls.
    pub calls: u64,
    /// Share of the recorded time, 0 to 1.
    pub time: f64,
}

/// How much of a recording is answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Coverage<'a> {
    /// Every problem, those with the most recorded time first.
    pub rows: Vec<Covered<'a>>,
    /// By level, in the order of [`Level::ALL`].
    pub levels: [Share; 4],
    /// Microseconds of the whole recording without us.
    pub total_us: f64,
    /// Microseconds saved.
    pub saving_us: f64,
}

impl Coverage<'_> {
    /// What `level` answers.
    pub fn level(&self, level: Level) -> Share {
        self.levels[level as usize]
    }
}

/// Weighs the answers that `lookup` gives to `recorded`; `table` is all that it may answer with.
pub fn coverage<'a>(
    recorded: &'a [Recorded],
    table: &'a [Choice],
    mut lookup: impl FnMut(&Problem) -> Answer<'a>,
) -> Coverage<'a> {
    let (rates, sites) = (Rates::of(table), Sites::of(table));
    let mut rows: Vec<Covered<'a>> = recorded
        .iter()
        .map(|row| {
            let answer = lookup(&row.problem);
            let (time_us, is_estimate) = time_us(&row.problem, &answer, &rates);
            let calls = row.count.max(1) as f64;
            let near = if answer.level == Level::Default { sites.near(&row.problem) } else { Vec::new() };
            let saving_us = calls * time_us * answer.choice.map_or(0.0, saved_share);
            Covered { recorded: row, answer, time_us, is_estimate, share: calls * time_us, saving_us, near }
        })
        .collect();
    let total_us: f64 = rows.iter().map(|row| row.share).sum();
    let mut levels = [Share::default(); 4];
    for row in &mut rows {
        row.share = if total_us > 0.0 { row.share / total_us } else { 0.0 };
        let level = &mut levels[row.answer.level as usize];
        level.problems += 1;
        level.calls = level.calls.saturating_add(row.recorded.count.max(1));
        level.time += row.share;
    }
    rows.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.recorded.problem.cmp(&b.recorded.problem)));
    let saving_us = rows.iter().map(|row| row.saving_us).sum();
    Coverage { rows, levels, total_us, saving_us }
}

/// The part of the baseline's time that a choice saves: by its paired ratio, from which drift has cancelled.
fn saved_share(choice: &Choice) -> f64 {
    if choice.baseline_us().is_none() { 0.0 } else { 1.0 - choice.ratio.estimate }
}

/// Microseconds of a call without us, and whether that is an estimate.
fn time_us(problem: &Problem, answer: &Answer<'_>, rates: &Rates) -> (f64, bool) {
    let tuned = answer.choice.and_then(|choice| {
        let time_us = choice.baseline_us().unwrap_or(choice.time_us);
        (time_us.is_finite() && time_us > 0.0).then_some((choice, time_us))
    });
    match tuned {
        Some((choice, time_us)) if choice.problem == *problem => (time_us, choice.baseline_us().is_none()),
        Some((choice, time_us)) => (time_us * work(problem) / work(&choice.problem), true),
        None => (rates.time_us(problem), true),
    }
}

/// Operations of a balanced device that a problem costs: its arithmetic, or its traffic where that takes longer.
fn work(problem: &Problem) -> f64 {
    cost::flops(problem).max(cost::bytes(problem) as f64 * FLOPS_PER_BYTE)
}

/// Arithmetic that a device does while it moves a byte, in the middle of today's: MI300X 250, H100 300, CPUs 30 to 100.
const FLOPS_PER_BYTE: f64 = 200.0;

/// Microseconds for work, by the rows of a table.
struct Rates(Vec<(f64, f64)>);

impl Rates {
    fn of(table: &[Choice]) -> Rates {
        let timed = |choice: &&Choice| choice.time_us.is_finite() && choice.time_us > 0.0;
        let mut rates: Vec<(f64, f64)> =
            table.iter().filter(timed).map(|choice| (work(&choice.problem), choice.time_us)).collect();
        rates.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        Rates(rates)
    }

    /// By the row of the nearest work; of an empty table the work itself, which keeps the shares in proportion.
    fn time_us(&self, problem: &Problem) -> f64 {
        let work = work(problem);
        let at = self.0.partition_point(|(have, _)| *have < work);
        let beside = [at.checked_sub(1), Some(at)].into_iter().flatten().filter_map(|at| self.0.get(at));
        let nearest = beside.min_by(|a, b| (a.0 / work).ln().abs().total_cmp(&(b.0 / work).ln().abs()));
        nearest.map_or(work, |(have, time_us)| time_us * work / have)
    }
}

/// The tuned sites, to find those that differ in N or K alone.
struct Sites {
    /// By the site with N set to 1: its N, ascending.
    by_k: HashMap<Site, Vec<u32>>,
    /// By the site with K set to 1: its K, ascending.
    by_n: HashMap<Site, Vec<u32>>,
}

impl Sites {
    fn of(table: &[Choice]) -> Sites {
        let mut sites = Sites { by_k: HashMap::new(), by_n: HashMap::new() };
        for site in table.iter().filter_map(|choice| Some(choice.problem.gemm()?.site)) {
            sites.by_k.entry(Site { n: 1, ..site }).or_default().push(site.n);
            sites.by_n.entry(Site { k: 1, ..site }).or_default().push(site.k);
        }
        for sizes in sites.by_k.values_mut().chain(sites.by_n.values_mut()) {
            sizes.sort_unstable();
            sizes.dedup();
        }
        sites
    }

    /// The nearest N and the nearest K within [`NEAR_MAX`], at equal other fields; the nearer first.
    fn near(&self, problem: &Problem) -> Vec<NearMiss> {
        let Some(gemm) = problem.gemm() else { return Vec::new() };
        let site = gemm.site;
        let fields = [
            ("N", site.n, self.by_k.get(&Site { n: 1, ..site })),
            ("K", site.k, self.by_n.get(&Site { k: 1, ..site })),
        ];
        let mut near: Vec<(f64, NearMiss)> = Vec::new();
        for (field, recorded, tuned) in fields {
            let distance = |tuned: u32| f64::from(tuned.abs_diff(recorded)) / f64::from(tuned.max(recorded));
            let others = tuned.into_iter().flatten().copied().filter(|&tuned| tuned != recorded);
            let nearest = others.min_by(|a, b| distance(*a).total_cmp(&distance(*b)));
            if let Some(tuned) = nearest.filter(|tuned| distance(*tuned) <= NEAR_MAX) {
                near.push((distance(tuned), NearMiss { field, recorded, tuned }));
            }
        }
        near.sort_by(|a, b| a.0.total_cmp(&b.0));
        near.into_iter().map(|(_, near)| near).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::Verdict;
    use crate::dtype::DType;
    use crate::merge::sample::{Figures, choice};

    fn recorded(m: u32, n: u32, count: u64) -> Recorded {
        Recorded { count, ..Recorded::bare(Site::linear(n, 128, DType::Bf16).at(m).into()) }
    }

    fn exact<'a>(table: &'a [Choice]) -> impl FnMut(&Problem) -> Answer<'a> {
        |problem| {
            let choice = table.iter().find(|choice| choice.problem == *problem);
            let level = if choice.is_some() { Level::Exact } else { Level::Default };
            Answer { level, choice, refused: Vec::new() }
        }
    }

    #[test]
    fn shares_are_count_times_time_and_savings_by_the_ratio() {
        let raced = Figures { verdict: Verdict::Faster, high: 0.5, ..Figures::default() };
        let table = [choice(raced), choice(Figures { m: 2, ..Figures::default() })];
        // Baseline 20 us x 3, and 10 us x 4 of a row without baseline.
        let asked = [recorded(2, 64, 4), recorded(1, 64, 3)];
        let coverage = coverage(&asked, &table, exact(&table));
        assert_eq!((coverage.total_us, coverage.saving_us), (100.0, 30.0));
        let [first, second] = &coverage.rows[..] else { panic!() };
        assert_eq!((first.recorded.problem.m(), first.share, first.is_estimate), (1, 0.6, false));
        assert_eq!((second.share, second.is_estimate, second.saving_us), (0.4, true, 0.0));
        let level = coverage.level(Level::Exact);
        assert_eq!((level.problems, level.calls), (2, 7));
        assert!((level.time - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_size_that_is_nearly_tuned_is_named() {
        let table =
            [choice(Figures { n: 2688, ..Figures::default() }), choice(Figures { n: 4096, ..Figures::default() })];
        let asked = [recorded(1, 2624, 1), recorded(1, 512, 1)];
        let coverage = coverage(&asked, &table, exact(&table));
        let near = |n: u32| {
            let is_asked = |row: &&Covered<'_>| row.recorded.problem.gemm().unwrap().site.n == n;
            coverage.rows.iter().find(is_asked).unwrap().near.clone()
        };
        assert_eq!(near(2624), [NearMiss { field: "N", recorded: 2624, tuned: 2688 }]);
        assert_eq!(near(512), []);
        assert_eq!(coverage.level(Level::Default).problems, 2);
        assert_eq!(coverage.saving_us, 0.0);
    }

    #[test]
    fn an_empty_table_still_shares_by_work() {
        let asked = [recorded(1024, 1024, 1), recorded(1024, 2048, 1)];
        let coverage = coverage(&asked, &[], exact(&[]));
        assert!(coverage.rows.iter().all(|row| row.is_estimate));
        assert!(coverage.rows[0].share > 0.6 && coverage.rows[0].share < 0.7, "{}", coverage.rows[0].share);
    }
}
