//! In which order a mix launches its problems, and what stands between them.
//!
//! A recording says of calls in graphs which problem came before, and how far off. One round of a mix goes through these pairs
//! as often as the recording has them, in proportion: a closed walk over all of them. Which pair comes after which is drawn, as
//! are places for problems of which nothing is said.

use std::collections::BTreeMap;

use tgemm_db::{Problem, Recorded};
use tgemm_kernels::Between;
use tgemm_kernels::measure::MixTurn;

use crate::stats::Shuffle;

/// Most launches of one problem in a round, but for one more where counts are rounded: they keep their proportions below it.
pub(super) const LAUNCHES_MAX: u32 = 16;
/// Most kernels that stand for the nodes between two products: more changed nothing on an H200.
const BETWEEN_MAX: u32 = 4;

/// Two products, one after the other in a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
    from: Problem,
    to: Problem,
    nodes_between: Option<u32>,
}

/// Which problems come after which in an engine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Order {
    /// How often each was seen.
    pairs: BTreeMap<Pair, u64>,
}

/// An arrival of the walk: where, and over how many nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Arrival {
    at: usize,
    nodes_between: Option<u32>,
}

impl Arrival {
    /// `at`, and nobody knows over what.
    fn unknown(at: usize) -> Arrival {
        Arrival { at, nodes_between: None }
    }
}

impl Order {
    /// What `rows` say.
    pub fn of(rows: &[Recorded]) -> Order {
        let mut pairs = BTreeMap::new();
        for row in rows {
            if let Some(follows) = row.follows {
                let pair = Pair { from: follows.problem, to: row.problem, nodes_between: follows.nodes_between };
                let count: &mut u64 = pairs.entry(pair).or_default();
                *count = count.saturating_add(row.count);
            }
        }
        pairs.retain(|_, count| *count > 0);
        Order { pairs }
    }

    /// Says it nothing at all?
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// One round of `problems`, each with how often it was called: every one at least once. `usual` stands where it is not
    /// known what does.
    pub fn round(&self, problems: &[(Problem, u64)], usual: Between, seed: u64) -> Vec<MixTurn> {
        let mut draw = Shuffle::new(seed);
        let walk = self.walk(problems, &mut draw);
        let most = problems.iter().map(|(_, calls)| *calls).max().unwrap_or(0);
        let launches_of = |&(_, calls): &(Problem, u64)| {
            let scaled = calls as f64 / most.max(1) as f64 * f64::from(LAUNCHES_MAX).min(most as f64);
            scaled.round().max(1.0) as u32
        };
        // By its place in the round, from 0 to 1.
        let mut turns: Vec<(f64, MixTurn)> = Vec::new();
        let turn = |arrival: Arrival| {
            let kernels = arrival.nodes_between.map_or(usual.kernels, |nodes| Some(nodes.min(BETWEEN_MAX)));
            MixTurn { part: arrival.at, before: Between { kernels, ..usual } }
        };
        let steps = walk.len() as f64;
        turns.extend(walk.iter().enumerate().map(|(at, arrival)| (at as f64 / steps, turn(*arrival))));
        for (part, problem) in problems.iter().enumerate().filter(|(part, _)| walk.iter().all(|step| step.at != *part))
        {
            let launches = f64::from(launches_of(problem));
            let phase = draw.unit();
            turns.extend(
                (0..launches as u32).map(|at| ((f64::from(at) + phase) / launches, turn(Arrival::unknown(part)))),
            );
        }
        turns.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.part.cmp(&b.1.part)));
        turns.into_iter().map(|(_, turn)| turn).collect()
    }

    /// A closed walk over all pairs that a problem of `problems` is in, in proportion; arrivals elsewhere are nodes like others.
    fn walk(&self, problems: &[(Problem, u64)], draw: &mut Shuffle) -> Vec<Arrival> {
        let has = |problem: &Problem| problems.iter().any(|(one, _)| one == problem);
        let pairs: Vec<(&Pair, u64)> = self
            .pairs
            .iter()
            .filter(|(pair, _)| has(&pair.from) || has(&pair.to))
            .map(|(pair, n)| (pair, *n))
            .collect();
        let mut places: Vec<Problem> = problems.iter().map(|(problem, _)| *problem).collect();
        let mut place_of = |problem: &Problem| {
            places.iter().position(|one| one == problem).unwrap_or_else(|| {
                places.push(*problem);
                places.len() - 1
            })
        };
        let ends: Vec<(usize, usize)> =
            pairs.iter().map(|(pair, _)| (place_of(&pair.from), place_of(&pair.to))).collect();
        let counts = scaled(&ends, &pairs.iter().map(|(_, count)| *count).collect::<Vec<_>>(), problems.len());
        let mut ways: Vec<Vec<Arrival>> = vec![Vec::new(); places.len()];
        for ((&(from, at), (pair, _)), count) in ends.iter().zip(&pairs).zip(counts) {
            let arrival = Arrival { at, nodes_between: pair.nodes_between };
            ways[from].extend(std::iter::repeat_n(arrival, count as usize));
        }
        close(&mut ways);
        ways.iter_mut().for_each(|ways| draw.shuffle(ways));
        // Each pair has a problem of these in it, so each circuit begins, and so ends, at one.
        let all: Vec<Arrival> = (0..problems.len()).flat_map(|start| circuit(start, &mut ways)).collect();
        without_others(&all, problems.len())
    }
}

/// `counts` of pairs with these `ends` so that no problem below `problems` is arrived at much more than [`LAUNCHES_MAX`] times,
/// and each that is at all is once.
fn scaled(ends: &[(usize, usize)], counts: &[u64], problems: usize) -> Vec<u64> {
    // Departures count as well: of a recording that is not whole there may be more of them.
    let ends_at = |problem: usize, which: fn(&(usize, usize)) -> usize| -> u128 {
        ends.iter().zip(counts).filter(|(ends, _)| which(ends) == problem).map(|(_, count)| u128::from(*count)).sum()
    };
    let most = (0..problems).map(|at| ends_at(at, |ends| ends.0).max(ends_at(at, |ends| ends.1))).max().unwrap_or(0);
    let scale = (f64::from(LAUNCHES_MAX) / most.max(1) as f64).min(1.0);
    let mut scaled: Vec<u64> = counts.iter().map(|count| (*count as f64 * scale).round() as u64).collect();
    for problem in 0..problems {
        let leading = |is_its: fn(&(usize, usize), usize) -> bool| -> Vec<usize> {
            (0..ends.len()).filter(|at| is_its(&ends[*at], problem)).collect()
        };
        for its in [leading(|ends, problem| ends.0 == problem), leading(|ends, problem| ends.1 == problem)] {
            if let Some(&most) = its.iter().max_by_key(|at| counts[**at])
                && its.iter().all(|at| scaled[*at] == 0)
            {
                scaled[most] = 1;
            }
        }
    }
    scaled
}

/// Adds ways, over nobody knows what, until as many lead away from each place as to it.
fn close(ways: &mut [Vec<Arrival>]) {
    let mut balance: Vec<i64> = ways.iter().map(|ways| -(ways.len() as i64)).collect();
    ways.iter().flatten().for_each(|arrival| balance[arrival.at] += 1);
    let missing = |sign: i64| {
        let times = |(at, balance): (usize, &i64)| std::iter::repeat_n(at, (sign * balance).max(0) as usize);
        balance.iter().enumerate().flat_map(times).collect::<Vec<usize>>()
    };
    for (from, at) in missing(1).into_iter().zip(missing(-1)) {
        ways[from].push(Arrival::unknown(at));
    }
}

/// A closed walk from `start` over all ways that can be reached from there, each once (Hierholzer's). There must be as many ways
/// from each place as to it.
fn circuit(start: usize, ways: &mut [Vec<Arrival>]) -> Vec<Arrival> {
    let mut under_way = vec![Arrival::unknown(start)];
    let mut walk = Vec::new();
    while let Some(last) = under_way.last().copied() {
        match ways[last.at].pop() {
            Some(next) => under_way.push(next),
            None => walk.extend(under_way.pop()),
        }
    }
    // Nothing led to the start.
    walk.pop();
    walk.reverse();
    walk
}

/// `walk` without its arrivals at places from `problems` on: nodes between the others.
fn without_others(walk: &[Arrival], problems: usize) -> Vec<Arrival> {
    let mut kept = Vec::new();
    let mut passed = Some(0u32);
    for arrival in walk {
        passed = passed.zip(arrival.nodes_between).map(|(passed, nodes)| passed.saturating_add(nodes));
        if arrival.at < problems {
            kept.push(Arrival { nodes_between: passed, ..*arrival });
            passed = Some(0);
        } else {
            passed = passed.map(|passed| passed.saturating_add(1));
        }
    }
    kept
}

#[cfg(test)]
#[path = "order_tests.rs"]
mod tests;
