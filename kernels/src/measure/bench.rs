//! The bench: the operands of one problem on one context, and the candidates that are verified and timed on them.
//!
//! Every candidate sees the same `x`, the same outputs and, in its own form, the same weights. In [`Mode::Rotated`] a launch
//! takes the next set of weights and output of a rotation that is larger than the last-level cache, and an arm starts where
//! the arm before it stopped, across blocks: never on what is still in the cache. `x` is warm, as it is in an engine, where the
//! layer before has just written it; a small one lies in several places in turn, since where it lies has its own effect.
//!
//! **Memory.** Copies are made when a candidate is first timed in rotation. The number of copies is one for all arms. Until
//! the first rotated block it may shrink for all alike, but not below what passes the cache once; after that earlier figures
//! stand, and a candidate whose packed form does not fit as often gets [`Error::OutOfMemory`]. So time a candidate alone
//! first: then the error is its own.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

use tgemm_db::{Problem, Solution};

use super::data::Data;
use super::packs::Packs;
use super::reference::Reference;
use super::rotation;
use super::set::OperandSet;
use super::zone::Zone;
use crate::{Arm, Between, Context, Error, Mode, Operands, Prepared, Turn};

/// Most candidates loaded at once.
pub const CANDIDATES_MAX: usize = 4096;

/// Most entries of one block.
pub const BLOCK_ENTRIES_MAX: usize = 4096;

/// Share of the available memory that operands may fill: the rest is for the library's own needs.
const MEMORY_SHARE: f64 = 0.9;

/// Guards around the workspace.
const WORKSPACE_GUARD_BYTES: usize = 64 << 10;

/// Candidates of all benches of this process are numbered from one counter.
static NEXT_TURN_ID: AtomicUsize = AtomicUsize::new(0);

/// How a bench is laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BenchOptions {
    /// What the operands are drawn from.
    pub seed: u64,
    /// Bytes of weights and outputs that a rotation passes through; 0 for three times the last-level cache.
    pub rotation_bytes: u64,
    /// What stands between two launches.
    pub between: Between,
    /// Most device memory for operands, packed forms and workspace; `None` for 90 % of what is available.
    pub memory_bytes_max: Option<u64>,
}

/// A candidate that is ready to be verified and timed.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// Its number on this bench; never used again for another.
    pub id: usize,
    /// What really runs, read back, with the workspace that each launch is given.
    pub ran: Solution,
    /// Time to pack the weights, by the first candidate that took this form; `None` where nothing is packed.
    pub pack_us: Option<f64>,
}

/// One entry of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockEntry {
    /// Which candidate.
    pub id: usize,
    /// How many launches make one figure; at least 1.
    pub calls: u32,
}

pub(super) struct Candidate {
    /// Its number in this process: see [`Turn::id`].
    turn_id: usize,
    pub(super) prepared: Box<dyn Prepared>,
    pub(super) pack_key: Option<String>,
}

/// The operands of one problem on one context, and its candidates. All calls must pass the context it was made on.
pub struct Bench {
    pub(super) problem: Problem,
    pub(super) data: Data,
    pub(super) reference: Reference,
    pub(super) set: OperandSet,
    packs: Packs,
    pub(super) workspace: Option<Zone>,
    candidates: BTreeMap<usize, Candidate>,
    next_id: usize,
    memory_bytes_max: Option<u64>,
    planned: usize,
    copies: usize,
    between: Between,
    /// That activations lie in once something is timed in rotation.
    places: usize,
    position: usize,
    /// Was anything timed in rotation yet?
    raced: bool,
}

fn not_loaded(id: usize) -> Error {
    Error::Failed { call: "bench".into(), reason: format!("no candidate {id} is loaded") }
}

impl Bench {
    /// Makes operands and reference of `problem`, one copy each.
    ///
    /// [`Error::Unsupported`] for problems that the host cannot make or check, [`Error::OutOfMemory`] if not even one copy
    /// fits.
    pub fn new(context: &dyn Context, problem: &Problem, options: &BenchOptions) -> Result<Bench, Error> {
        let data = Data::new(problem, options.seed)?;
        let per_copy = OperandSet::bytes_per_copy(problem)?;
        let fixed = OperandSet::fixed_bytes(&data);
        let room = room(context, options.memory_bytes_max, 0);
        if room < per_copy.saturating_add(fixed) {
            return Err(Error::OutOfMemory { bytes: per_copy.saturating_add(fixed), what: "one set of operands" });
        }
        let cache = context.environment().device.last_level_cache_bytes;
        let wanted = rotation::bytes_wanted(options.rotation_bytes, cache);
        let planned = rotation::copies(wanted, per_copy, (room as f64 * rotation::PLAIN_SHARE) as u64);
        let reference = Reference::new(problem, &data, options.seed)?;
        let set = OperandSet::new(context, problem, &data)?;
        let places = rotation::places(data.x.stored_bytes() as u64, cache);
        Ok(Bench {
            problem: *problem,
            data,
            reference,
            set,
            packs: Packs::default(),
            workspace: None,
            candidates: BTreeMap::new(),
            next_id: 0,
            memory_bytes_max: options.memory_bytes_max,
            planned,
            copies: planned,
            between: options.between,
            places,
            position: 0,
            raced: false,
        })
    }

    /// The problem on this bench.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// Sets of operands in the rotation.
    pub fn copies(&self) -> usize {
        self.copies
    }

    /// Device memory held, packed forms and workspace included, guards not.
    pub fn bytes(&self) -> u64 {
        let workspace = self.workspace.as_ref().map_or(0, |zone| zone.bytes() as u64);
        self.set.bytes() + self.packs.bytes() + workspace
    }

    /// Takes a candidate in: packs the weights if it wants them packed and nobody has yet, and makes room for its workspace.
    ///
    /// `prepared` was prepared for [`Bench::problem`] on this bench's context.
    pub fn load(&mut self, context: &dyn Context, prepared: Box<dyn Prepared>) -> Result<Loaded, Error> {
        if self.candidates.len() >= CANDIDATES_MAX {
            let reason = format!("{CANDIDATES_MAX} candidates are loaded; drop some");
            return Err(Error::Failed { call: "load".into(), reason });
        }
        self.reserve_workspace(context, prepared.workspace_bytes())?;
        let mut ran = prepared.ran().clone();
        ran.workspace_bytes = ran.workspace_bytes.max(prepared.workspace_bytes() as u64);
        let pack_key = prepared.pack_key().map(str::to_owned);
        let pack_us = match &pack_key {
            Some(key) => Some(self.packs.acquire(key, &*prepared, self.set.weights_ptr(0))?),
            None => None,
        };
        let id = self.next_id;
        self.next_id += 1;
        self.candidates
            .insert(id, Candidate { turn_id: NEXT_TURN_ID.fetch_add(1, Ordering::Relaxed), prepared, pack_key });
        Ok(Loaded { id, ran, pack_us })
    }

    /// Forgets a candidate; its packed weights go with the last candidate that takes them. Unknown numbers are ignored.
    pub fn drop_candidate(&mut self, id: usize) {
        if let Some(Candidate { pack_key: Some(key), .. }) = self.candidates.remove(&id) {
            self.packs.release(&key);
        }
    }

    /// Times the entries of `block` one after the other: mean microseconds a call, one figure an entry.
    ///
    /// Where beta is not zero and the output is in place, outputs accumulate over the launches. An error says nothing about
    /// which entry it came from; see the module's words on memory.
    pub fn measure(&mut self, context: &mut dyn Context, block: &[BlockEntry], mode: Mode) -> Result<Vec<f64>, Error> {
        let failed = |reason: String| Error::Failed { call: "measure".into(), reason };
        if block.len() > BLOCK_ENTRIES_MAX {
            return Err(failed(format!("a block of {} entries; at most {BLOCK_ENTRIES_MAX}", block.len())));
        }
        if let Some(entry) = block.iter().find(|entry| entry.calls == 0) {
            return Err(failed(format!("no launches asked of candidate {}", entry.id)));
        }
        let round = match mode {
            Mode::Rotated => {
                let ids: Vec<usize> = block.iter().map(|entry| entry.id).collect();
                self.grow_rotation(context, &ids)?;
                rotation::round(self.copies, self.set.places())
            }
            Mode::Warm => 1,
        };
        let turns_of = |entry: &BlockEntry| (0..round).map(|at| self.turn(entry.id, at)).collect::<Result<Vec<_>, _>>();
        let turns: Vec<Vec<Turn<'_>>> = block.iter().map(turns_of).collect::<Result<_, _>>()?;
        let arms = turns.iter().map(Vec::as_slice).zip(block.iter().map(|entry| entry.calls));
        // SAFETY: every pointer of every turn comes from `self.set`, `self.packs` or `self.workspace`, which are laid
        // out as the problem says, hold at least what each solution asked for, and are not touched before this returns.
        let (figures, position) = unsafe { time_in_turn(context, self.position, arms) }?;
        if mode == Mode::Rotated {
            (self.position, self.raced) = (position, true);
        }
        Ok(figures)
    }

    /// Fresh data from `seed` in fresh memory; loaded candidates stay, their weights are packed anew.
    ///
    /// The new first copies are allocated before the old ones are freed, so they lie elsewhere.
    pub fn refresh(&mut self, context: &dyn Context, seed: u64) -> Result<(), Error> {
        let data = Data::new(&self.problem, seed)?;
        let reference = Reference::new(&self.problem, &data, seed)?;
        self.packs.clear_copies();
        self.set.shrink(1);
        self.set = OperandSet::new(context, &self.problem, &data)?;
        (self.data, self.reference) = (data, reference);
        for candidate in self.candidates.values() {
            if let Some(key) = &candidate.pack_key {
                self.packs.refill(key, &*candidate.prepared, self.set.weights_ptr(0))?;
            }
        }
        Ok(())
    }

    pub(super) fn candidate(&self, id: usize) -> Result<&Candidate, Error> {
        self.candidates.get(&id).ok_or_else(|| not_loaded(id))
    }

    /// The operands of launch `index` of candidate `id`.
    pub(super) fn operands(&self, id: usize, index: usize) -> Result<Operands, Error> {
        let candidate = self.candidate(id)?;
        if index >= self.set.lens().1 {
            return Err(Error::Failed { call: "bench".into(), reason: format!("there is no operand set {index}") });
        }
        let w: *const c_void = match &candidate.pack_key {
            None => self.set.weights_ptr(index),
            Some(key) => self.packs.ptr(key, index).ok_or_else(|| Error::Failed {
                call: "bench".into(),
                reason: format!("packed weights of candidate {id} were lost when they could not be made again"),
            })?,
        };
        let mut io = self.set.operands(&self.data, index, w);
        io.workspace_bytes = candidate.prepared.workspace_bytes();
        if io.workspace_bytes > 0 {
            io.workspace = self.workspace.as_ref().map_or(std::ptr::null_mut(), Zone::ptr);
        }
        Ok(io)
    }

    /// Launch `at` of candidate `id`, counted through all rounds.
    pub(super) fn turn(&self, id: usize, at: usize) -> Result<Turn<'_>, Error> {
        let Candidate { turn_id, prepared, .. } = self.candidate(id)?;
        let io = Operands { x: self.set.activations_ptr(at), ..self.operands(id, at % self.copies)? };
        Ok(Turn { id: *turn_id, prepared: &**prepared, io, before: self.between })
    }

    /// One workspace serves all: launches come one after the other.
    fn reserve_workspace(&mut self, context: &dyn Context, bytes: usize) -> Result<(), Error> {
        let have = self.workspace.as_ref().map_or(0, Zone::bytes);
        if bytes > have {
            if room(context, self.memory_bytes_max, self.bytes() - have as u64) < bytes as u64 {
                return Err(Error::OutOfMemory { bytes: bytes as u64, what: "workspace" });
            }
            self.workspace = Some(Zone::new(context, bytes, WORKSPACE_GUARD_BYTES, 0)?);
        }
        Ok(())
    }

    /// Sees to it that everything that candidates `ids` use is there as often as the rotation is long.
    pub(super) fn grow_rotation(&mut self, context: &dyn Context, ids: &[usize]) -> Result<(), Error> {
        self.spread_activations(context)?;
        loop {
            let Some((reached, bytes)) = self.grow_once(context, ids)? else { return Ok(()) };
            if self.raced || reached < rotation::copies_min(self.planned) {
                return Err(Error::OutOfMemory { bytes, what: "a rotation past the last-level cache" });
            }
            // Fewer copies for all, so that no arm has an advantage; nothing was timed yet.
            self.copies = reached;
            self.set.shrink(reached);
            self.packs.shrink(reached);
        }
    }

    /// Puts activations into all places that they are to lie in, or as many as there is room for.
    fn spread_activations(&mut self, context: &dyn Context) -> Result<(), Error> {
        let have = self.set.places();
        if have < self.places {
            let more = room(context, self.memory_bytes_max, self.bytes()) / self.data.x.stored_bytes().max(1) as u64;
            let affordable = have.saturating_add(usize::try_from(more).unwrap_or(usize::MAX)).min(self.places);
            tolerate_shortage(self.set.grow_activations(context, &self.data, affordable))?;
            self.places = self.set.places();
        }
        Ok(())
    }

    /// Grows to [`Bench::copies`]; where memory ends before that, (copies reached, bytes that were lacking).
    fn grow_once(&mut self, context: &dyn Context, ids: &[usize]) -> Result<Option<(usize, u64)>, Error> {
        let copies = self.copies;
        let mut keys = Vec::new();
        let mut plain = false;
        for &id in ids {
            match &self.candidate(id)?.pack_key {
                Some(key) => keys.push(key.clone()),
                None => plain = true,
            }
        }
        let short =
            |reached: usize, bytes: u64| (reached < copies).then(|| (reached, (copies - reached) as u64 * bytes));
        let (_, outputs) = self.set.lens();
        let per_copy = OperandSet::bytes_per_copy(&self.problem)?;
        let target = self.affordable(context, outputs, per_copy.saturating_sub(self.data.w.stored_bytes() as u64));
        tolerate_shortage(self.set.grow_outputs(context, &self.data, target))?;
        if let Some(lack) = short(self.set.lens().1, per_copy) {
            return Ok(Some(lack));
        }
        if plain {
            let w_bytes = self.data.w.stored_bytes() as u64;
            let target = self.affordable(context, self.set.lens().0, w_bytes);
            tolerate_shortage(self.set.grow_weights(context, &self.data, target))?;
            if let Some(lack) = short(self.set.lens().0, w_bytes) {
                return Ok(Some(lack));
            }
        }
        for key in keys {
            let (have, bytes) = self.packs.copies(&key);
            let wanted = rotation::packs(copies, per_copy, bytes);
            let reached = self.packs.grow(&key, self.affordable(context, have, bytes).min(wanted));
            if reached < wanted {
                return Ok(Some((copies * reached / wanted, (wanted - reached) as u64 * bytes)));
            }
        }
        Ok(None)
    }

    /// How many copies of something of which there are `have` can be had, up to the rotation's length.
    fn affordable(&self, context: &dyn Context, have: usize, bytes_each: u64) -> usize {
        if have >= self.copies {
            return have;
        }
        let more = room(context, self.memory_bytes_max, self.bytes()) / bytes_each.max(1);
        have.saturating_add(usize::try_from(more).unwrap_or(usize::MAX)).min(self.copies)
    }
}

/// Times `arms`, turns and how many launches each, one after the other: every arm starts where the one before it stopped, the
/// first at `position`. Mean microseconds a launch, and where the last one stopped.
///
/// # Safety
/// As [`Context::time`].
pub(super) unsafe fn time_in_turn<'a>(
    context: &mut dyn Context,
    position: usize,
    arms: impl Iterator<Item = (&'a [Turn<'a>], u32)>,
) -> Result<(Vec<f64>, usize), Error> {
    let mut position = position;
    let arm = |(turns, calls): (&'a [Turn<'a>], u32)| {
        let start = position % turns.len().max(1);
        position = rotation::advance(position, calls, turns.len());
        Arm { turns, start, calls }
    };
    let arms: Vec<Arm<'_>> = arms.map(arm).collect();
    // SAFETY: the contract of this function.
    let figures = unsafe { context.time(&arms) }?;
    if figures.len() != arms.len() || figures.iter().any(|us| !(us.is_finite() && *us > 0.0)) {
        let reason = format!("the context gave no usable figures: {figures:?} for {} entries", arms.len());
        return Err(Error::Failed { call: "measure".into(), reason });
    }
    Ok((figures, position))
}

/// Memory that may still be taken by a bench that holds `held` bytes.
fn room(context: &dyn Context, memory_bytes_max: Option<u64>, held: u64) -> u64 {
    let available = (context.available_bytes() as f64 * MEMORY_SHARE) as u64;
    available.min(memory_bytes_max.map_or(u64::MAX, |max| max.saturating_sub(held)))
}

/// Running out of memory is seen by what was reached.
fn tolerate_shortage(grown: Result<(), Error>) -> Result<(), Error> {
    match grown {
        Err(Error::OutOfMemory { .. }) => Ok(()),
        other => other,
    }
}

#[cfg(all(test, feature = "scripted"))]
#[path = "bench_tests.rs"]
mod tests;
