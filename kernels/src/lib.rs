//! Who computes: contexts (a device opened in this process), libraries, prepared solutions and their operands; and, with
//! feature `measure`, how a solution is checked and timed.
//!
//! | module | holds |
//! |---|---|
//! | [`Backend`] | a device as much as launching takes: what a [`Context`] is, and what an engine's own device is |
//! | [`Survey`] | what a device is asked about an output that is too large to be read |
//! | [`operands`] | the raw pointers of one launch, shared by tuner, dispatch and every foreign door |
//! | [`cpu`] | the host's processors: device identity, libraries, context |
//! | [`gpu`] | GPUs, through HIP or CUDA |
//! | `measure` | operands of a problem, reference, gate, timing (feature `measure`) |
//! | `scripted` | a library with scripted costs, noise, hangs and lies (feature `scripted`) |
//!
//! A new library is one [`Library`]; nothing else in the house changes.

mod backend;
pub mod cpu;
pub mod gpu;
#[cfg(feature = "measure")]
pub mod measure;
pub mod operands;
#[cfg(feature = "scripted")]
pub mod scripted;
mod survey;

use tgemm_db::recording::Via;
use tgemm_db::{Build, Gemm, Problem, Recorded, Solution};

pub use backend::{Backend, Queue};
pub use operands::{Buffer, Operands, Packed, PackedForm, Stream};
pub use survey::{Cell, Survey, Surveyed};

/// Why a library could not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The library or device does not offer this.
    #[error("{0}")]
    Unsupported(String),
    /// Memory for it is not to be had.
    #[error("{bytes} bytes for {what} are not to be had")]
    OutOfMemory {
        /// How much was asked for.
        bytes: u64,
        /// What for.
        what: &'static str,
    },
    /// Something else was at work on the device: what was measured means nothing, and may be measured again.
    #[error("disturbed: {0}")]
    Disturbed(String),
    /// The device gave up on this process: nothing works here any more, whoever asks. A fresh process may go on.
    #[error("the device is lost to this process: {call} returned {status}")]
    DeviceLost {
        /// The call that said so.
        call: String,
        /// What it returned.
        status: i32,
    },
    /// A library call failed.
    #[error("{call} failed: {reason}")]
    Failed {
        /// The call's name in its library.
        call: String,
        /// Status or message.
        reason: String,
    },
}

impl Error {
    /// An [`Error::Unsupported`] with its reason.
    pub fn unsupported(why: impl Into<String>) -> Error {
        Error::Unsupported(why.into())
    }
}

/// A launch that did not succeed. The difference decides whether a fallback may run: with beta, a second run would
/// accumulate twice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Launch {
    /// Nothing was started: another solution may be run instead.
    #[error("not started: {0}")]
    NotEnqueued(Error),
    /// Something may have been started: the output is not to be trusted, nothing may be run instead.
    #[error("may have run: {0}")]
    MayHaveRun(Error),
}

/// How many candidates a library should offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "scripted", derive(serde::Serialize, serde::Deserialize))]
pub enum Effort {
    /// The library's own first few.
    Minimal,
    /// What has a fair chance to win.
    Balanced,
    /// Everything that is not known to be slow.
    Extensive,
    /// Everything the library has, reference routines included.
    Full,
}

/// How an engine asks for a problem: it decides what the baseline is, and how much workspace a solution may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "scripted", derive(serde::Serialize, serde::Deserialize))]
pub struct Ask {
    /// The API that it calls; unknown means every API that it might call.
    pub via: Via,
    /// The most workspace that it gives a call; `None` is the library's usual.
    pub workspace_bytes_max: Option<u64>,
}

impl Default for Ask {
    /// By any API, with the usual workspace.
    fn default() -> Ask {
        Ask { via: Via::Unknown, workspace_bytes_max: None }
    }
}

impl From<&Recorded> for Ask {
    fn from(recorded: &Recorded) -> Ask {
        Ask { via: recorded.via, workspace_bytes_max: recorded.workspace_bytes_max }
    }
}

/// A solution that a caller would get without us, with the call it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaselineSolution {
    /// The call, as engines know it: `gemm`, `onednn prepacked`, `cublasLtMatmul`.
    pub via: String,
    /// What it runs.
    pub solution: Solution,
}

/// One library on one device.
pub trait Library: Send + Sync {
    /// Its exact build.
    fn build(&self) -> &Build;

    /// What a caller of this library gets by default for `problem` when it asks so; empty where it cannot do it, or where
    /// such a call does not go to this library.
    fn baselines(&self, problem: &Problem, ask: &Ask) -> Vec<BaselineSolution>;

    /// The solutions it offers for `problem`, within the workspace of `ask`; an empty list where it cannot do it at all.
    fn candidates(&self, problem: &Problem, effort: Effort, ask: &Ask) -> Result<Vec<Solution>, Error>;

    /// Solutions that differ from `solution` in one respect and were not on the list: where a list is a library's own guess
    /// and its space cannot be listed whole, the search goes on around what proved good.
    fn neighbours(&self, problem: &Problem, solution: &Solution, ask: &Ask) -> Result<Vec<Solution>, Error> {
        let _ = (problem, solution, ask);
        Ok(Vec::new())
    }

    /// Makes `solution` ready to launch on `problem`.
    ///
    /// Fails with [`Error::Unsupported`] if the solution is not of this very build or does not take this problem.
    fn prepare(&self, problem: &Problem, solution: &Solution) -> Result<Box<dyn Prepared>, Error>;
}

/// A solution made ready for one problem. Launches may come from several threads, each with its own workspace.
pub trait Prepared: Send + Sync {
    /// The solution that really runs, read back from the library where it can be.
    fn ran(&self) -> &Solution;

    /// Scratch memory each launch needs; 64-byte aligned.
    fn workspace_bytes(&self) -> usize;

    /// Names the packed form: solutions with equal keys take each other's packed weights. `None`: takes them plain.
    fn pack_key(&self) -> Option<&str>;

    /// Packs the weights; `None` if this solution takes them plain. Synchronous.
    ///
    /// # Safety
    /// `w` points to the weights exactly as the problem describes them, readable for the whole call.
    unsafe fn pack(&self, w: *const std::ffi::c_void) -> Result<Option<Packed>, Error>;

    /// Enqueues one product on `stream` (on a CPU: computes it before returning).
    ///
    /// # Safety
    /// Every pointer of `io` is valid for what the problem says it holds until the launch has finished; `io.w` is a
    /// pointer from a [`Packed`] of the same [`Prepared::pack_key`] if there is one, else the plain weights;
    /// `io.workspace` holds [`Prepared::workspace_bytes`] that no other launch uses meanwhile.
    unsafe fn launch(&self, io: &Operands, stream: Stream) -> Result<(), Launch>;
}

/// What is kept between launches of a timed arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Weights and outputs rotate past the last-level cache, activations stay warm: as deployed.
    Rotated,
    /// One set of operands over and over.
    Warm,
}

/// One launch of an arm.
#[derive(Clone, Copy)]
pub struct Turn<'a> {
    /// Names what is launched: never the same for two prepared solutions of one process.
    pub id: usize,
    /// What is launched.
    pub prepared: &'a dyn Prepared,
    /// On what.
    pub io: Operands,
    /// What comes before it. At one place of the turns it is the same in all arms of a block.
    pub before: Between,
}

impl Turn<'_> {
    /// # Safety
    /// As [`Prepared::launch`], for this turn's own operands.
    unsafe fn launch(&self, stream: Stream) -> Result<(), Launch> {
        // SAFETY: the contract of this method.
        unsafe { self.prepared.launch(&self.io, stream) }
    }
}

/// One timed entry of a block: `calls` launches in a row, going round `turns`.
pub struct Arm<'a> {
    /// One after the other: one solution on sets of operands that rotate, or several problems' solutions in turn.
    pub turns: &'a [Turn<'a>],
    /// Index of the first turn, taken modulo their number.
    pub start: usize,
    /// Launches to time; at least 1.
    pub calls: u32,
}

/// What stands between two launches, on devices that can; its time is no part of a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "scripted", derive(serde::Serialize, serde::Deserialize))]
pub struct Between {
    /// So many small kernels of another kind; `None`: as many as the device's kind usually has.
    pub kernels: Option<u32>,
    /// Is the first of them one with much code, so that a product does not find its own in the first instruction cache?
    pub cold_code: bool,
}

/// One device opened in this process: what measuring takes, beyond launching.
pub trait Context: Backend {
    /// Copies host bytes into device memory at `offset`.
    fn write(&self, buffer: &mut Buffer, offset: usize, bytes: &[u8]) -> Result<(), Error>;

    /// Copies device memory at `offset` to the host, after everything enqueued has finished.
    fn read(&self, buffer: &Buffer, offset: usize, bytes: &mut [u8]) -> Result<(), Error>;

    /// Memory that could still be allocated without harm to others, bytes.
    fn available_bytes(&self) -> u64;

    /// Sets `len` bytes of device memory at `offset` to `byte`.
    fn fill(&self, buffer: &mut Buffer, offset: usize, len: usize, byte: u8) -> Result<(), Error> {
        const PIECE_BYTES: usize = 8 << 20;
        let piece = vec![byte; len.min(PIECE_BYTES)];
        (0..len)
            .step_by(PIECE_BYTES)
            .try_for_each(|at| self.write(buffer, offset + at, &piece[..PIECE_BYTES.min(len - at)]))
    }

    /// Copies all of `from` into `to`, which is as large.
    fn copy(&self, from: &Buffer, to: &mut Buffer) -> Result<(), Error> {
        const PIECE_BYTES: usize = 8 << 20;
        let mut piece = vec![0; from.bytes().min(PIECE_BYTES)];
        (0..from.bytes()).step_by(PIECE_BYTES).try_for_each(|at| {
            let piece = &mut piece[..PIECE_BYTES.min(from.bytes() - at)];
            self.read(from, at, piece)?;
            self.write(to, at, piece)
        })
    }

    /// Looks over memory on the device itself, where that is quicker than reading it; `None` where it cannot.
    fn survey(&self, buffer: &Buffer, survey: &Survey) -> Result<Option<Surveyed>, Error> {
        let _ = (buffer, survey);
        Ok(None)
    }

    /// Puts work into `count` more streams once, as engines do; `None`: into as many as the device's kind usually needs. Where a
    /// process has done so, kernels start later on some devices, in all of its streams and for good.
    fn use_streams(&mut self, count: Option<u32>) -> Result<(), Error> {
        let _ = count;
        Ok(())
    }

    /// May this arm be captured into a graph and replayed? `None` where the device has no graphs.
    ///
    /// # Safety
    /// As [`Prepared::launch`], for every operand set of the rotation.
    unsafe fn is_graph_safe(&mut self, arm: &Arm<'_>) -> Result<Option<bool>, Error> {
        let _ = arm;
        Ok(None)
    }

    /// Times the arms of `block` one after the other: mean microseconds a call, one figure an arm.
    ///
    /// [`Error::Disturbed`] if something else was at work meanwhile; the block may be timed again.
    ///
    /// # Safety
    /// As [`Prepared::launch`], for every arm and every operand set of its rotation.
    unsafe fn time(&mut self, block: &[Arm<'_>]) -> Result<Vec<f64>, Error>;
}

/// The GEMM in `problem`; [`Error::Unsupported`] for every other operation, which no library here computes.
pub(crate) fn gemm_of(problem: &Problem) -> Result<&Gemm, Error> {
    problem.gemm().ok_or_else(|| Error::unsupported("only GEMMs are computed here"))
}

/// The library of `backend` with that name.
pub fn library<'a>(backend: &'a dyn Backend, name: &str) -> Option<&'a dyn Library> {
    backend.libraries().iter().find(|library| library.build().library == name).map(|library| &**library)
}
