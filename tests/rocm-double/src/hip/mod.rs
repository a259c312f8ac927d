//! libamdhip64: the exported functions of the runtime.
//!
//! Argument lists as in `hip_runtime_api.h` of ROCm 6 and 7; pointers and handles are taken as addresses.

mod device;
mod error;
mod memory;
mod module;

mod stream;

pub use device::Facts;
