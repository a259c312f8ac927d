//! What stands between two launches of a product while they are timed: small kernels of another kind, as in an engine.
//!
//! One solution after itself is not what an engine runs. There, a solution of two kernels (a product in parts, and their sum)
//! hides its second one behind the next launch of its first; before another kernel it does not, and has one gap more
//! (`docs/results/h200.md`).

use std::ffi::c_void;

use tgemm_vendor::gpu::rtc::Rtc;
use tgemm_vendor::gpu::{CallError, Dialect, Handle, Runtime};

use super::failed;
use super::kernel::{self, Source};
use crate::Error;

const SOURCE: Source =
    Source { file: "between.hip", text: include_str!("../../hip/between.hip"), kernel: "tgemm_between" };

/// Between launches, where nobody says how many: with fewer than four a split product kept its advantage on an H200, with more
/// nothing changed. None on AMD's devices, where nobody has measured.
pub(super) fn usual(dialect: Dialect) -> u32 {
    dialect.pick(0, 4)
}

/// Threads of its one block, each with a float of its own.
const THREADS: u32 = 64;

/// The kernel, loaded on a device.
pub(super) struct Between {
    kernel: Handle,
    scratch: *mut c_void,
}

// SAFETY: a function handle and a piece of device memory that only its kernel uses.
unsafe impl Send for Between {}

impl Between {
    pub(super) fn new(runtime: &Runtime, rtc: &Rtc, arch: &str) -> Result<Between, Error> {
        let kernel = kernel::load(runtime, rtc, arch, &SOURCE)?;
        let mut scratch = std::ptr::null_mut();
        // SAFETY: one pointer is written. The memory lives as long as the process.
        unsafe { runtime.table().malloc(&raw mut scratch, THREADS as usize * size_of::<f32>()) }.map_err(failed)?;
        Ok(Between { kernel, scratch })
    }

    /// Enqueues it so many times.
    ///
    /// # Safety
    /// `stream` is a stream of the device of `runtime` that this was made on.
    pub(super) unsafe fn launch(&self, runtime: &Runtime, stream: Handle, times: u32) -> Result<(), CallError> {
        let mut scratch = self.scratch;
        let mut params: [*mut c_void; 1] = [(&raw mut scratch).cast()];
        for _ in 0..times {
            let (params, nothing) = (params.as_mut_ptr(), std::ptr::null_mut());
            // SAFETY: the kernel has one parameter, a pointer to as many floats as there are threads; it is copied by the
            // call.
            unsafe { runtime.table().launch_kernel(self.kernel, 1, 1, 1, THREADS, 1, 1, 0, stream, params, nothing) }?;
        }
        Ok(())
    }
}
