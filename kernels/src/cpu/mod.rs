//! The host's processors: what they are, the libraries that compute on them, and the context that holds both.
//!
//! | module | holds |
//! |---|---|
//! | [`mod@device`] | which device this is, and what its processors can do |
//! | [`memory`] | what memory is left, and buffers of it |
//! | [`threads`] | one pool a thread count |
//! | [`context`] | the device opened in this process |
//! | [`onednn`] | oneDNN, opened at run time or absent |
//! | [`batched`] | any library of single products made to take strided batches |
//! | [`widen`] | any f32 library made to take 16-bit problems, weights widened once |
//! | `gemm`, `rten`, `matrixmultiply` | the Rust crates that compute (feature `cpu-crates`) |
//! | `skinny` | our own kernels for few tokens (feature `cpu-crates`) |
//!
//! Every solution here computes before its launch returns, takes row-major operands without padding, and takes the
//! weights of a linear layer either as they are or packed once; of a batch, those of one item after the other.

pub mod batched;
pub mod context;
mod convert;
pub mod device;
mod finish;
#[cfg(feature = "cpu-crates")]
pub mod gemm;
#[cfg(feature = "cpu-crates")]
mod guard;
mod linear;
#[cfg(feature = "cpu-crates")]
pub mod matrixmultiply;
pub mod memory;
pub mod onednn;
#[cfg(feature = "cpu-crates")]
mod routine;
#[cfg(feature = "cpu-crates")]
pub mod rten;
#[cfg(feature = "cpu-crates")]
pub mod skinny;
#[cfg(all(test, feature = "cpu-crates"))]
mod tests;
pub mod threads;
pub mod widen;

pub use context::CpuContext;
pub use device::device;
