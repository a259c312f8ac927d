//! A device whose solutions cost what a script says and fail as it says: for tests of search, statistics and supervision
//! through the very code that drives real devices.
//!
//! Products are really computed (in f64, on the host), so the gate judges real numbers; time is virtual unless the script
//! says `real_time`. The same script gives the same figures in every process.
//!
//! ```
//! use tgemm_kernels::{Backend, scripted::ScriptedContext};
//!
//! let context = ScriptedContext::from_json(
//!     r#"{
//!         "device": { "arch": "scripted", "compute_units": 2, "last_level_cache_bytes": 65536 },
//!         "seed": 7,
//!         "solutions": [
//!             { "name": "default", "time_us": 100, "noise": 0.02, "baseline": "scripted gemm" },
//!             { "name": "packed", "time_us": { "1": 40, "8": 60, "512": 2000 }, "weight_form": "prepacked",
//!               "params": { "threads": 2 }, "workspace_bytes": 4096, "drift": 0.001 },
//!             { "name": "hidden", "time_us": 35, "near": "packed" },
//!             { "name": "liar", "time_us": 1, "behaviours": [{ "kind": "wrong" }] },
//!             { "name": "flaky", "time_us": 30, "behaviours": [{ "kind": "wrong", "every": 2 }] },
//!             { "name": "killer", "time_us": 20, "behaviours": [{ "kind": "abort", "when": "measure" }] },
//!             { "name": "refused", "time_us": 20, "behaviours": [{ "kind": "unsupported", "when": "prepare" }] }
//!         ]
//!     }"#,
//! )?;
//! assert_eq!(context.environment().device.arch, "scripted");
//! # Ok::<(), tgemm_kernels::scripted::ScriptError>(())
//! ```
//!
//! | part | holds |
//! |---|---|
//! | [`script`] | the file: what can be said, limits, errors |
//! | `solve` | one solution made ready: computes, or misbehaves |
//! | `product` | the product itself, by its definition |
//! | `look` | a survey answered on the host |

mod look;
mod product;
pub mod script;
mod solve;

use std::alloc::Layout;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use tgemm_db::{Build, Device, Environment, Problem, Solution, Vendor};

pub use script::{Behaviour, Kind, Script, ScriptError, SolutionScript, When};

use crate::measure::rng::Rng;
use crate::{
    Arm, Ask, Backend, BaselineSolution, Buffer, Context, Effort, Error, Launch, Library, Prepared, Stream, Survey,
    Surveyed, Turn,
};

/// Alignment of device memory.
const ALIGN: usize = 64;

/// Phase in which a launch computes nothing but says its M: the trait has no other way to ask a prepared solution.
const ANNOUNCE: u8 = u8::MAX;

/// What context, libraries and prepared solutions of one script share.
struct Shared {
    script: Script,
    solutions: Vec<Solution>,
    /// [`When`] as a number, or [`ANNOUNCE`]: what launches are for right now.
    phase: AtomicU8,
    /// M of the solution that last announced itself; 0 if none did.
    announced: AtomicU32,
    /// Device memory in use.
    used: Arc<AtomicU64>,
}

impl Shared {
    fn available_bytes(&self) -> u64 {
        self.script.memory_bytes.saturating_sub(self.used.load(Ordering::Relaxed))
    }

    /// Books `bytes`; false if the scripted memory does not hold them.
    fn book(&self, bytes: u64) -> bool {
        let fits = |used: u64| used.checked_add(bytes).filter(|&total| total <= self.script.memory_bytes);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }
}

/// A scripted device, opened.
pub struct ScriptedContext {
    shared: Arc<Shared>,
    environment: Environment,
    libraries: Vec<Box<dyn Library>>,
    /// Blocks timed so far.
    blocks: u64,
    /// Figures given so far, by solution.
    figures: BTreeMap<i64, u64>,
}

/// The solutions of a script that one library offers.
struct ScriptedLibrary {
    shared: Arc<Shared>,
    build: Build,
}

impl ScriptedContext {
    /// Opens the device that the script in the file at `path` describes.
    pub fn open(path: &Path) -> Result<ScriptedContext, ScriptError> {
        Ok(ScriptedContext::new(Script::read(path)?))
    }

    /// Opens the device that `text`, a JSON script, describes.
    pub fn from_json(text: &str) -> Result<ScriptedContext, ScriptError> {
        Ok(ScriptedContext::new(Script::parse(text)?))
    }

    fn new(script: Script) -> ScriptedContext {
        let solutions: Vec<Solution> = (0i64..).zip(&script.solutions).map(|(i, s)| script.solution(i, s)).collect();
        let mut builds: Vec<Build> = solutions.iter().map(|solution| Build::clone(&solution.build)).collect();
        builds.sort();
        builds.dedup();
        let device = Device {
            vendor: Vendor::Cpu,
            arch: script.device.arch.clone(),
            compute_units: script.device.compute_units,
            memory_gib: script.device.memory_gib,
            chip_id: script.device.chip_id,
            partition: None,
            last_level_cache_bytes: script.device.last_level_cache_bytes,
        };
        let environment =
            Environment { device, builds: builds.clone(), driver: "scripted".into(), vars: BTreeMap::new() };
        let used = Arc::new(AtomicU64::new(0));
        let phase = AtomicU8::new(When::Verify as u8);
        let shared = Arc::new(Shared { script, solutions, phase, announced: AtomicU32::new(0), used });
        let library = |build| -> Box<dyn Library> { Box::new(ScriptedLibrary { shared: shared.clone(), build }) };
        let libraries = builds.into_iter().map(library).collect();
        ScriptedContext { shared, environment, libraries, blocks: 0, figures: BTreeMap::new() }
    }

    /// The figure that the script gives `solution` on a problem of `m` tokens, this time.
    fn virtual_us(&mut self, solution: &SolutionScript, index: i64, m: u32) -> f64 {
        let given = self.figures.entry(index).or_default();
        let mut rng = Rng::new(self.shared.script.seed ^ Rng::new(index as u64, 1).bits(), *given);
        *given += 1;
        let noise = (solution.noise * rng.normals().0).exp();
        solution.time_us.at(m) * noise * (1.0 + solution.drift).powf(self.blocks as f64)
    }

    /// # Safety
    /// As [`Prepared::launch`], for every turn of the arm.
    unsafe fn time_arm(&mut self, arm: &Arm<'_>) -> Result<f64, Error> {
        if arm.turns.is_empty() || arm.calls == 0 {
            return Err(Error::Failed { call: "time".into(), reason: "an arm without operands or launches".into() });
        }
        if self.shared.script.real_time {
            let start = Instant::now();
            for launch in 0..arm.calls as usize {
                // SAFETY: the caller's promise, passed on.
                unsafe { launch_for_real(&arm.turns[(arm.start + launch) % arm.turns.len()]) }?;
            }
            return Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(arm.calls));
        }
        // A figure each for the solutions in it, by their share of the turns.
        let mut shares: BTreeMap<usize, (&Turn<'_>, u32)> = BTreeMap::new();
        for turn in arm.turns {
            shares.entry(turn.id).or_insert((turn, 0)).1 += 1;
        }
        let mut total_us = 0.0;
        let is_mix = shares.len() > 1;
        for (turn, times) in shares.into_values() {
            // SAFETY: the caller's promise, passed on.
            total_us += unsafe { self.time_virtually(turn, is_mix) }? * f64::from(times);
        }
        Ok(total_us / arm.turns.len() as f64)
    }

    /// # Safety
    /// As [`Prepared::launch`].
    unsafe fn time_virtually(&mut self, turn: &Turn<'_>, is_mix: bool) -> Result<f64, Error> {
        let shared = self.shared.clone();
        let foreign = || Error::unsupported("a scripted device times scripted solutions only");
        let index = turn.prepared.ran().index;
        let at = usize::try_from(index).map_err(|_| foreign())?;
        let solution = shared.script.solutions.get(at).ok_or_else(foreign)?;
        // A launch matters only if the script has something happen in it.
        if solution.behaviours.iter().any(|behaviour| behaviour.when == When::Measure) {
            // SAFETY: the caller's promise, passed on.
            unsafe { launch_for_real(turn) }?;
        }
        shared.announced.store(0, Ordering::Relaxed);
        shared.phase.store(ANNOUNCE, Ordering::Relaxed);
        // SAFETY: the caller's promise, passed on.
        let announced = unsafe { turn.launch(Stream::DEFAULT) };
        shared.phase.store(When::Measure as u8, Ordering::Relaxed);
        match (announced, shared.announced.load(Ordering::Relaxed)) {
            (Ok(()), m @ 1..) => {
                let more_us = if is_mix { solution.mixed_us } else { 0.0 };
                Ok(self.virtual_us(solution, index, m) + more_us)
            }
            _ => Err(foreign()),
        }
    }
}

/// # Safety
/// As [`Prepared::launch`].
unsafe fn launch_for_real(turn: &Turn<'_>) -> Result<(), Error> {
    // SAFETY: the caller's promise, passed on.
    unsafe { turn.launch(Stream::DEFAULT) }.map_err(|error| match error {
        Launch::NotEnqueued(disturbed @ Error::Disturbed(_)) => disturbed,
        error => Error::Failed { call: "launch".into(), reason: error.to_string() },
    })
}

impl Backend for ScriptedContext {
    fn environment(&self) -> &Environment {
        &self.environment
    }

    fn libraries(&self) -> &[Box<dyn Library>] {
        &self.libraries
    }

    fn alloc(&self, bytes: usize) -> Result<Buffer, Error> {
        let lacking = Error::OutOfMemory { bytes: bytes as u64, what: "a buffer" };
        let Ok(layout) = Layout::from_size_align(bytes.max(1), ALIGN) else { return Err(lacking) };
        if !self.shared.book(bytes as u64) {
            return Err(lacking);
        }
        // SAFETY: the layout's size is at least 1.
        let ptr = unsafe { std::alloc::alloc(layout) };
        let used = self.shared.used.clone();
        if ptr.is_null() {
            used.fetch_sub(bytes as u64, Ordering::Relaxed);
            return Err(lacking);
        }
        let release = move |ptr: *mut c_void, bytes: usize| {
            used.fetch_sub(bytes as u64, Ordering::Relaxed);
            // SAFETY: allocated above with this very layout, released once.
            unsafe { std::alloc::dealloc(ptr.cast(), layout) };
        };
        // SAFETY: the memory was just allocated and is the buffer's alone until `release`.
        Ok(unsafe { Buffer::from_raw(ptr.cast(), bytes, Box::new(release)) })
    }

    fn synchronize(&self) -> Result<(), Error> {
        Ok(())
    }
}

impl Context for ScriptedContext {
    fn write(&self, buffer: &mut Buffer, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        within(buffer, offset, bytes.len())?;
        // SAFETY: the range was just checked; the buffer is host memory of its own.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.as_mut_ptr().cast::<u8>().add(offset), bytes.len())
        };
        Ok(())
    }

    fn read(&self, buffer: &Buffer, offset: usize, bytes: &mut [u8]) -> Result<(), Error> {
        within(buffer, offset, bytes.len())?;
        // SAFETY: the range was just checked; the bench writes memory before it reads it.
        unsafe {
            std::ptr::copy_nonoverlapping(buffer.as_ptr().cast::<u8>().add(offset), bytes.as_mut_ptr(), bytes.len())
        };
        Ok(())
    }

    fn available_bytes(&self) -> u64 {
        self.shared.available_bytes()
    }

    fn survey(&self, buffer: &Buffer, survey: &Survey) -> Result<Option<Surveyed>, Error> {
        if !self.shared.script.surveys {
            return Ok(None);
        }
        let mut memory = vec![0; survey.rows.saturating_mul(survey.row_bytes)];
        self.read(buffer, survey.offset, &mut memory)?;
        Ok(Some(look::look(&memory, survey)))
    }

    unsafe fn time(&mut self, block: &[Arm<'_>]) -> Result<Vec<f64>, Error> {
        self.shared.phase.store(When::Measure as u8, Ordering::Relaxed);
        // SAFETY: the caller's promise, passed on.
        let figures = block.iter().map(|arm| unsafe { self.time_arm(arm) }).collect();
        self.shared.phase.store(When::Verify as u8, Ordering::Relaxed);
        self.blocks += 1;
        figures
    }
}

fn within(buffer: &Buffer, offset: usize, len: usize) -> Result<(), Error> {
    match offset.checked_add(len) {
        Some(end) if end <= buffer.bytes() => Ok(()),
        _ => Err(Error::Failed {
            call: "copy".into(),
            reason: format!("{len} bytes at {offset} are not within {}", buffer.bytes()),
        }),
    }
}

impl ScriptedLibrary {
    fn offered(&self) -> impl Iterator<Item = (&SolutionScript, &Solution)> {
        let all = self.shared.script.solutions.iter().zip(&self.shared.solutions);
        all.filter(|(_, solution)| *solution.build == self.build)
    }
}

impl Library for ScriptedLibrary {
    fn build(&self) -> &Build {
        &self.build
    }

    fn baselines(&self, _problem: &Problem, _: &Ask) -> Vec<BaselineSolution> {
        let baseline = |(script, solution): (&SolutionScript, &Solution)| {
            script.baseline.clone().map(|via| BaselineSolution { via, solution: solution.clone() })
        };
        self.offered().filter_map(baseline).collect()
    }

    fn candidates(&self, _problem: &Problem, effort: Effort, ask: &Ask) -> Result<Vec<Solution>, Error> {
        let workspace_bytes_max = ask.workspace_bytes_max.unwrap_or(u64::MAX);
        let fits = |script: &SolutionScript| script.effort <= effort && script.workspace_bytes <= workspace_bytes_max;
        let listed = |script: &SolutionScript| script.near.is_none() && fits(script);
        Ok(self.offered().filter(|(script, _)| listed(script)).map(|(_, solution)| solution.clone()).collect())
    }

    fn neighbours(&self, _problem: &Problem, solution: &Solution, _: &Ask) -> Result<Vec<Solution>, Error> {
        let near = |script: &SolutionScript| script.near.as_deref() == Some(&*solution.name);
        Ok(self.offered().filter(|(script, _)| near(script)).map(|(_, solution)| solution.clone()).collect())
    }

    fn prepare(&self, problem: &Problem, solution: &Solution) -> Result<Box<dyn Prepared>, Error> {
        let unknown = || Error::unsupported(format!("the script has no solution {}", solution.key()));
        let (_, known) = self.offered().find(|(_, known)| known.key() == solution.key()).ok_or_else(unknown)?;
        solve::prepare(&self.shared, problem, known)
    }
}

#[cfg(test)]
mod tests;
