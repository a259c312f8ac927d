//! GPUs, through HIP or CUDA: one code path, see [`tgemm_vendor::gpu`].
//!
//! | module | holds |
//! |---|---|
//! | [`context`] | a device opened in this process: memory, environment, libraries |
//! | [`attach`] | a device that somebody else has opened: its libraries, and nothing of ours on it unasked |
//! | `device` | which device it is, and how large its last cache really is |
//! | `memory` | memory on a device, and what streams have to do with it |
//! | `graphs` | launches captured into graphs, and how a block of them is timed |
//! | `between` | what stands between two timed launches: small kernels of ours |
//! | `survey` | a look over an output where it lies, by a kernel of ours |
//! | `kernel` | kernels of ours, compiled for the device at hand |
//! | `watch` | clocks, throttling and other processes, before and after a block |
//! | `lt` | hipBLASLt and cuBLASLt as a [`Library`](crate::Library): what they share |
//! | `lt_cuda`, `lt_hip` | how either names a solution, lists them and finds one again |
//! | `lists` | the lists that hipBLASLt gave last |
//! | `bound` | a BLAS handle and the stream and workspace that it was told |
//! | `cublas`, `rocblas` | the libraries that have one call with many arguments |
//!
//! AMD's side is unproven on hardware: it runs against a double of ROCm's libraries, and its numbers are judged by AMD's own
//! bindings.

pub mod attach;
mod between;
mod bound;
pub mod context;
mod cublas;
mod device;
mod graphs;
mod kernel;
mod lists;
mod lt;
mod lt_cuda;
mod lt_hip;
mod memory;
mod rocblas;
mod survey;
mod watch;

use tgemm_db::Device;
use tgemm_vendor::Absent;
use tgemm_vendor::gpu::{CallError, Installation, Runtime, numbers};

pub use context::{GpuContext, kernel_vars};
pub use tgemm_vendor::gpu::Dialect;

use crate::{Ask, Error, Launch};

/// Why a GPU cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The runtime is not here.
    #[error("no {dialect} runtime: {}", absent.brief())]
    NoRuntime {
        /// Which was asked for.
        dialect: Dialect,
        /// What was tried.
        absent: Absent,
    },
    /// There are fewer devices.
    #[error("there is no device {dialect}:{ordinal}; {count} here")]
    NoDevice {
        /// Which dialect.
        dialect: Dialect,
        /// Which was asked for.
        ordinal: u32,
        /// How many there are.
        count: u32,
    },
    /// The device does not open.
    #[error("{dialect}:{ordinal} does not open: {why}")]
    Failed {
        /// Which dialect.
        dialect: Dialect,
        /// Which device.
        ordinal: u32,
        /// What failed.
        why: String,
    },
}

/// Opens device `ordinal` of `dialect`, with every library that can be opened.
pub fn open(dialect: Dialect, ordinal: u32) -> Result<GpuContext, OpenError> {
    GpuContext::open(dialect, ordinal)
}

/// The runtime of `dialect`.
fn runtime(dialect: Dialect, installation: &mut Installation) -> Result<Runtime, OpenError> {
    Runtime::open(dialect, installation).map_err(|absent| OpenError::NoRuntime { dialect, absent })
}

/// The devices of `dialect`, in the order of their ordinals; none of them is opened.
pub fn devices(dialect: Dialect) -> Result<Vec<Device>, OpenError> {
    let runtime = runtime(dialect, &mut Installation::default())?;
    let failed = |ordinal: u32| move |e: CallError| OpenError::Failed { dialect, ordinal, why: e.to_string() };
    let count = runtime.device_count().map_err(failed(0))?;
    (0..count).map(|ordinal| device::describe(&runtime, ordinal).map_err(failed(ordinal))).collect()
}

/// Workspace that engines give a matrix product where nothing was recorded: PyTorch's on Hopper (`CUBLAS_WORKSPACE_CONFIG`
/// and `CUBLASLT_WORKSPACE_SIZE` unset).
pub const WORKSPACE_BYTES_USUAL: u64 = 32 << 20;

/// The most workspace that a solution may use when it is asked for like this.
fn workspace_bytes(ask: &Ask) -> u64 {
    ask.workspace_bytes_max.unwrap_or(WORKSPACE_BYTES_USUAL)
}

/// Does this status say that the process has lost the device? Only the runtimes' own numbers do: those of the BLAS libraries
/// end far below.
fn is_lost(call: &str, status: i32) -> bool {
    let dialect = if call.starts_with("hip") { Dialect::Hip } else { Dialect::Cuda };
    numbers::poisons(dialect, status)
}

/// A failed call as an error of the house.
fn failed(error: CallError) -> Error {
    match error {
        CallError::Missing(symbol) => Error::unsupported(format!("this version of the library has no {symbol}")),
        CallError::Status { call, status } if is_lost(call, status) => Error::DeviceLost { call: call.into(), status },
        CallError::Status { call, status } => Error::Failed { call: call.into(), reason: format!("status {status}") },
    }
}

/// A failed allocation of `bytes`.
fn failed_alloc(error: CallError, bytes: usize) -> Error {
    match error.status() {
        Some(numbers::OUT_OF_MEMORY) => Error::OutOfMemory { bytes: bytes as u64, what: "a buffer" },
        _ => failed(error),
    }
}

/// A BLAS call's failure: was anything enqueued? Statuses that the libraries return from looking at their arguments say no.
fn launch_failed(dialect: Dialect, error: CallError) -> Launch {
    let is_refusal = match (dialect, error.status()) {
        (_, None) => true,
        // CUBLAS_STATUS_NOT_INITIALIZED, INVALID_VALUE, ARCH_MISMATCH, NOT_SUPPORTED, LICENSE_ERROR.
        (Dialect::Cuda, Some(status)) => matches!(status, 1 | 7 | 8 | 15 | 16),
        // hipBLAS: NOT_INITIALIZED, INVALID_VALUE, NOT_SUPPORTED, ARCH_MISMATCH, HANDLE_IS_NULLPTR, INVALID_ENUM. rocBLAS'
        // own numbers of the same meaning are mapped where it is called.
        (Dialect::Hip, Some(status)) => matches!(status, 1 | 3 | 7..=10),
    };
    if is_refusal { Launch::NotEnqueued(failed(error)) } else { Launch::MayHaveRun(failed(error)) }
}
