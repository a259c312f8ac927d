//! Several problems timed together: each launch comes after another problem's, as in an engine's step.
//!
//! A solution that follows itself finds its own code in the instruction caches, and hides its end behind its own beginning; in
//! a step it does not. On an H200 that was worth up to 1 us a launch, more to a baseline of two kernels than to a choice of
//! one (`docs/results/h200.md`). What a solution saves there is the difference of two whole rounds: nothing in a round is
//! timed by itself. An arm starts where the arm before it stopped, as on a bench.

use std::collections::VecDeque;

use tgemm_db::Problem;

use super::bench::{Bench, BenchOptions, Loaded, time_in_turn};
use super::rotation;
use super::set::OperandSet;
use crate::{Between, Context, Error, Prepared, Turn};

/// Most launches that an arm goes round.
const TURNS_MAX: usize = rotation::COPIES_MAX;

/// One problem of a mix.
struct Part {
    bench: Bench,
    loaded: Vec<usize>,
}

/// One launch of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "scripted", derive(serde::Serialize, serde::Deserialize))]
pub struct MixTurn {
    /// Which problem's.
    pub part: usize,
    /// What comes before it.
    pub before: Between,
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
    /// One round after the other, until all weights have rotated past the last-level cache.
    turns: Vec<MixTurn>,
    /// Launches of one round.
    launches: usize,
    position: usize,
}

fn failed(reason: String) -> Error {
    Error::Failed { call: "mix".into(), reason }
}

impl Mix {
    /// Makes the operands of `problems`, of which a round launches each at least once: `round`, in this order.
    ///
    /// As [`Bench::new`], but what stands between launches is as `round` says. The memory limit of `options` is for each
    /// problem by itself.
    pub fn new(
        context: &dyn Context,
        problems: &[Problem],
        round: &[MixTurn],
        options: &BenchOptions,
    ) -> Result<Mix, Error> {
        let parts: Vec<usize> = round.iter().map(|turn| turn.part).collect();
        let (count, launches) = (problems.len(), parts.len());
        if launches > TURNS_MAX || parts.iter().any(|part| *part >= count) || (0..count).any(|at| !parts.contains(&at))
        {
            let reason =
                format!("a round of {launches} launches, of at most {TURNS_MAX}: {parts:?} for {count} problems");
            return Err(failed(reason));
        }
        let bytes: Vec<u64> = problems.iter().map(OperandSet::bytes_per_copy).collect::<Result<_, _>>()?;
        let cache = context.environment().device.last_level_cache_bytes;
        let plan = Plan::new(rotation::bytes_wanted(options.rotation_bytes, cache), &parts, &bytes);
        let make = |at: usize| {
            let rotation_bytes = (plan.copies[at] as u64).saturating_mul(bytes[at]);
            let seed = options.seed.wrapping_add(at as u64);
            let bench = Bench::new(context, &problems[at], &BenchOptions { seed, rotation_bytes, ..*options })?;
            Ok(Part { bench, loaded: Vec::new() })
        };
        Ok(Mix {
            parts: (0..count).map(make).collect::<Result<_, Error>>()?,
            turns: round.repeat(plan.rounds),
            launches,
            position: 0,
        })
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
        let calls_of = |entry: &MixEntry| u32::try_from(self.launches).unwrap_or(u32::MAX).saturating_mul(entry.rounds);
        let arms = turns.iter().map(Vec::as_slice).zip(block.iter().map(calls_of));
        // SAFETY: every pointer of every turn comes from the bench of its part, which keeps what its candidates asked for, and
        // none is touched before this returns.
        let (figures, position) = unsafe { time_in_turn(context, self.position, arms) }?;
        self.position = position;
        Ok(figures.into_iter().map(|us| us * self.launches as f64).collect())
    }

    fn turns(&self, ids: &[usize]) -> Result<Vec<Turn<'_>>, Error> {
        let mut taken = vec![0; self.parts.len()];
        let turn = |&MixTurn { part, before }: &MixTurn| {
            let at = taken[part];
            taken[part] += 1;
            Ok(Turn { before, ..self.parts[part].bench.turn(ids[part], at)? })
        };
        self.turns.iter().map(turn).collect()
    }
}

/// How often everything is gone round, and in how many copies it lies.
struct Plan {
    rounds: usize,
    copies: Vec<usize>,
}

impl Plan {
    /// Rounds that pass `wanted` bytes, and for each problem enough copies to keep its weights out of the cache until they are
    /// used again. `parts` are those of one round.
    fn new(wanted: u64, parts: &[usize], bytes: &[u64]) -> Plan {
        let round_bytes = parts.iter().map(|part| bytes[*part]).sum::<u64>().max(1);
        let most = (TURNS_MAX / parts.len().max(1)).max(1);
        let rounds = usize::try_from(wanted.div_ceil(round_bytes)).unwrap_or(most).clamp(1, most);
        let copies = |part: usize| {
            let launches = parts.iter().filter(|at| **at == part).count() * rounds;
            let needed = most_within(wanted, parts.iter().map(|at| (*at == part, bytes[*at])), rounds);
            // Of a whole number of rotations, so that the first launch of all does not come upon what the last ones used.
            (needed..launches).find(|copies| launches.is_multiple_of(*copies)).unwrap_or(launches)
        };
        Plan { rounds, copies: (0..bytes.len()).map(copies).collect() }
    }
}

/// The most launches of a problem that begin while `wanted` bytes go by, at least 1. Of each launch: is it that problem's, and
/// its bytes.
fn most_within(wanted: u64, round: impl Iterator<Item = (bool, u64)> + Clone, rounds: usize) -> usize {
    let mut most = 1;
    let mut begun = VecDeque::new();
    let mut passed = 0u64;
    // Once more than that, since the last round is followed by the first.
    for (is_its, bytes) in std::iter::repeat_n(round, rounds + 1).flatten() {
        if is_its {
            begun.push_back(passed);
            while begun.front().is_some_and(|since| passed - since >= wanted) {
                begun.pop_front();
            }
            most = most.max(begun.len());
        }
        passed = passed.saturating_add(bytes);
    }
    most
}

#[cfg(all(test, feature = "scripted"))]
#[path = "mix_tests.rs"]
mod tests;
