//! Several problems timed together: each launch comes after another problem's, as in an engine's step.
//!
//! A solution that follows itself finds its own code in the instruction caches, and hides its end behind its own beginning; in
//! a step it does not. On an H200 that was worth up to 1 us a launch, more to a baseline of two kernels than to a choice of
//! one (`docs/results/h200.md`). What a solution saves there is the difference of two whole rounds: nothing in a round is
//! timed by itself. An arm starts where the arm before it stopped, as on a bench.

use tgemm_db::Problem;

use super::bench::{Bench, BenchOptions, Loaded, time_in_turn};
use super::rng::Rng;
use super::rotation;
use super::set::OperandSet;
use crate::{Between, Context, Error, Prepared, Turn};

/// Most launches that an arm goes round.
const TURNS_MAX: usize = rotation::COPIES_MAX;

/// Of the seed, for the order of turns; operands are drawn from others.
const ORDER_STREAM: u64 = 0x6d_6978;

/// One problem of a mix.
struct Part {
    bench: Bench,
    launches: usize,
    loaded: Vec<usize>,
}

/// One entry of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "scripted", derive(serde::Serialize, serde::Deserialize))]
pub struct MixEntry {
    /// Who runs: a candidate for each problem, in the order of the problems.
    pub ids: Vec<usize>,
    /// How often the whole mix is gone through; at least 1.
    pub rounds: u32,
}

/// The operands of several problems on one context, and their candidates. All calls must pass the context it was made on.
pub struct Mix {
    parts: Vec<Part>,
    /// By launch, which part's turn it is; round after round, until all weights have rotated past the last-level cache.
    order: Vec<usize>,
    position: usize,
    between: Between,
}

fn failed(reason: String) -> Error {
    Error::Failed { call: "mix".into(), reason }
}

impl Mix {
    /// Makes the operands of `parts`: each problem with its launches a round, at least 1.
    ///
    /// As [`Bench::new`]. The memory limit of `options` is for each problem by itself.
    pub fn new(context: &dyn Context, parts: &[(Problem, u32)], options: &BenchOptions) -> Result<Mix, Error> {
        let launches: Vec<usize> = parts.iter().map(|(_, launches)| *launches as usize).collect();
        let mut rng = Rng::new(options.seed, ORDER_STREAM);
        let one_round = spread(&launches, || rng.unit());
        if one_round.is_empty() || one_round.len() > TURNS_MAX || launches.contains(&0) {
            return Err(failed(format!("{} launches a round, of 1 to {TURNS_MAX}, none without", one_round.len())));
        }
        let bytes: Vec<u64> =
            parts.iter().map(|(problem, _)| OperandSet::bytes_per_copy(problem)).collect::<Result<_, _>>()?;
        let cache = context.environment().device.last_level_cache_bytes;
        let plan = Plan::new(rotation::bytes_wanted(options.rotation_bytes, cache), &launches, &bytes);
        let make = |at: usize| {
            let rotation_bytes = (plan.copies[at] as u64).saturating_mul(bytes[at]);
            let seed = options.seed.wrapping_add(at as u64);
            let bench = Bench::new(context, &parts[at].0, &BenchOptions { seed, rotation_bytes, ..*options })?;
            Ok(Part { bench, launches: launches[at], loaded: Vec::new() })
        };
        Ok(Mix {
            parts: (0..parts.len()).map(make).collect::<Result<_, Error>>()?,
            order: one_round.repeat(plan.rounds),
            position: 0,
            between: options.between,
        })
    }

    /// Launches of one round.
    pub fn launches(&self) -> usize {
        self.parts.iter().map(|part| part.launches).sum()
    }

    /// Takes a candidate for problem `part` in, as [`Bench::load`].
    pub fn load(&mut self, context: &dyn Context, part: usize, prepared: Box<dyn Prepared>) -> Result<Loaded, Error> {
        let parts = self.parts.len();
        let part = self.parts.get_mut(part).ok_or_else(|| failed(format!("no problem {part} of {parts}")))?;
        let loaded = part.bench.load(context, prepared)?;
        part.loaded.push(loaded.id);
        Ok(loaded)
    }

    /// Times the entries of `block` one after the other: mean microseconds a round, one figure an entry.
    ///
    /// As [`Bench::measure`] in rotation.
    pub fn measure(&mut self, context: &mut dyn Context, block: &[MixEntry]) -> Result<Vec<f64>, Error> {
        if let Some(entry) = block.iter().find(|entry| entry.rounds == 0 || entry.ids.len() != self.parts.len()) {
            return Err(failed(format!("{entry:?} for {} problems", self.parts.len())));
        }
        for part in &mut self.parts {
            part.bench.grow_rotation(context, &part.loaded)?;
        }
        let turns: Vec<Vec<Turn<'_>>> = block.iter().map(|entry| self.turns(&entry.ids)).collect::<Result<_, _>>()?;
        let launches = self.launches();
        let calls_of = |entry: &MixEntry| u32::try_from(launches).unwrap_or(u32::MAX).saturating_mul(entry.rounds);
        let arms = turns.iter().map(Vec::as_slice).zip(block.iter().map(calls_of));
        // SAFETY: every pointer of every turn comes from the bench of its part, which keeps what its candidates asked for, and
        // none is touched before this returns.
        let (figures, position) = unsafe { time_in_turn(context, self.position, self.between, arms) }?;
        self.position = position;
        Ok(figures.into_iter().map(|us| us * launches as f64).collect())
    }

    fn turns(&self, ids: &[usize]) -> Result<Vec<Turn<'_>>, Error> {
        let mut taken = vec![0; self.parts.len()];
        let turn = |&part: &usize| {
            let at = taken[part];
            taken[part] += 1;
            self.parts[part].bench.turn(ids[part], at)
        };
        self.order.iter().map(turn).collect()
    }
}

/// How often everything is gone round, and in how many copies it lies.
struct Plan {
    rounds: usize,
    copies: Vec<usize>,
}

impl Plan {
    /// Rounds that pass `wanted` bytes, and for each problem as many copies as keep its weights out of the cache until they are
    /// used again: those that are launched while `wanted` bytes go by.
    fn new(wanted: u64, launches: &[usize], bytes: &[u64]) -> Plan {
        let round_bytes: u64 =
            launches.iter().zip(bytes).map(|(count, bytes)| *count as u64 * bytes).sum::<u64>().max(1);
        let most = (TURNS_MAX / launches.iter().sum::<usize>().max(1)).max(1);
        let rounds = usize::try_from(wanted.div_ceil(round_bytes)).unwrap_or(most).clamp(1, most);
        let copies = |count: &usize| {
            let needed = (u128::from(wanted) * *count as u128).div_ceil(u128::from(round_bytes));
            usize::try_from(needed).unwrap_or(usize::MAX).clamp(1, count * rounds)
        };
        Plan { rounds, copies: launches.iter().map(copies).collect() }
    }
}

/// Whose turn it is: each part as often as it says and at even distances, from a phase of 0 to 1 distances on. Which problem
/// comes after which in an engine is not recorded, and has its effect: so phases are drawn, and differ between seeds.
fn spread(launches: &[usize], mut phase: impl FnMut() -> f64) -> Vec<usize> {
    let mut all: Vec<(f64, usize)> = Vec::new();
    for (part, &count) in launches.iter().enumerate() {
        let phase = phase();
        all.extend((0..count).map(|at| ((at as f64 + phase) / count as f64, part)));
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    all.into_iter().map(|(_, part)| part).collect()
}

#[cfg(all(test, feature = "scripted"))]
#[path = "mix_tests.rs"]
mod tests;
