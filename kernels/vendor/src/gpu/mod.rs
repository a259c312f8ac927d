//! GPU libraries: HIP and CUDA are two dialects of one interface, and so are hipBLASLt and cuBLASLt, hipRTC and NVRTC.
//! What is equal is written once over tables of optional symbols; what differs is a number in [`numbers`] or, where the
//! calls themselves differ, a field that only one dialect has.
//!
//! | module | holds |
//! |---|---|
//! | [`mod@find`] | where each library is looked for, and from which one installation |
//! | [`table`] | [`dialect_table!`](crate::dialect_table): one struct of optional functions for both dialects |
//! | [`numbers`] | what each dialect calls a type, an attribute, an epilogue |
//! | [`runtime`] | devices, memory, streams, events, graphs, modules (libamdhip64 or the CUDA driver) |
//! | [`blaslt`] | matrix products described by handles (hipBLASLt or cuBLASLt) |
//! | [`cublas`], [`rocblas`] | the older libraries, which have one call with many arguments |
//! | [`rtc`] | the run-time compiler (hipRTC or NVRTC) |
//! | [`nvml`] | clocks and throttling of NVIDIA cards |
//! | [`mod@doctor`] | what was found, and everything that was tried, for a person |

pub mod blaslt;
pub mod cublas;
pub mod doctor;
pub mod find;
pub mod numbers;
pub mod nvml;
pub mod rocblas;
pub mod rtc;
pub mod runtime;
pub mod table;

use std::ffi::c_void;
use std::fmt;

pub use doctor::{Doctor, LibraryReport, doctor};
pub use find::Installation;
pub use runtime::{Current, Runtime};

/// A pointer that a library hands out and takes back: stream, event, descriptor.
pub type Handle = *mut c_void;

/// One of the two ways to spell the GPU interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// AMD's.
    Hip,
    /// NVIDIA's.
    Cuda,
}

impl Dialect {
    /// Both.
    pub const ALL: [Dialect; 2] = [Dialect::Hip, Dialect::Cuda];

    /// The word on the command line: `hip`, `cuda`.
    pub fn name(self) -> &'static str {
        self.pick("hip", "cuda")
    }

    /// The one of two that is this dialect's.
    pub fn pick<T>(self, hip: T, cuda: T) -> T {
        match self {
            Dialect::Hip => hip,
            Dialect::Cuda => cuda,
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A library call that gave no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The library is too old, or too new, to have it.
    #[error("this library has no {0}")]
    Missing(&'static str),
    /// It returned an error.
    #[error("{call} returned {status}")]
    Status {
        /// The call's name in its library.
        call: &'static str,
        /// What it returned; the numbers are the library's own.
        status: i32,
    },
}

impl CallError {
    /// The status, if the call was made.
    pub fn status(&self) -> Option<i32> {
        match self {
            CallError::Missing(_) => None,
            CallError::Status { status, .. } => Some(*status),
        }
    }
}
