//! What the hooks of GPU libraries ask of them about a handle: its stream and modes.

use std::ffi::c_void;
use std::ptr;

use tgemm_vendor::gpu::{Dialect, Handle};

use crate::captures;
use crate::program;
use crate::real::Beside;
use crate::stream::{Capture, capture_of};

/// Questions that a library answers about a handle of its own.
pub struct Facts {
    /// Are factors on the host (0)?
    pub pointer_mode: Beside,
    /// Where do launches go?
    pub stream: Beside,
    /// Which arithmetic is allowed? cuBLAS only.
    pub math_mode: Option<Beside>,
}

/// What lies so little above a local of ours is the stack of the callers: no device memory has addresses of the host's.
const STACK_BYTES_NEAR: usize = 64 << 10;

type Ask<T> = unsafe extern "C" fn(Handle, *mut T) -> i32;

/// Asks `question` of the library that holds the code at `neighbour`.
///
/// # Safety
/// The function has the type [`Ask`] of `T`, and the handle is the library's.
unsafe fn ask<T: Default>(question: &Beside, neighbour: usize, handle: Handle) -> Option<T> {
    // SAFETY: the contract of this function.
    let function = unsafe { std::mem::transmute::<usize, Ask<T>>(question.address(neighbour)?) };
    let mut answer = T::default();
    // SAFETY: as above; one value is written.
    (unsafe { function(handle, &raw mut answer) } == 0).then_some(answer)
}

impl Facts {
    /// Are there factors of a call on `handle`, on the host? Where they are on this thread's stack, as nearly always, or constants
    /// of the program, the library need not be asked, which would cost more than all the rest.
    ///
    /// # Safety
    /// The handle is of the library that holds the code at `neighbour`, whose questions these are.
    #[inline(always)]
    pub unsafe fn are_factors_on_host(&self, neighbour: usize, handle: Handle, factors: [*const c_void; 2]) -> bool {
        let here = 0u8;
        let is_near = |at: *const c_void| (at as usize).wrapping_sub(&raw const here as usize) < STACK_BYTES_NEAR;
        let is_ours = |at: *const c_void| is_near(at) || program::is_constant(at as usize);
        let [alpha, beta] = factors;
        // SAFETY: the contract of this function.
        (is_ours(alpha) && is_ours(beta)) || unsafe { self.are_on_host(neighbour, handle, factors) }
    }

    /// As the library has it. Out of the way of other calls.
    ///
    /// # Safety
    /// As [`Facts::are_factors_on_host`].
    #[cold]
    #[inline(never)]
    unsafe fn are_on_host(&self, neighbour: usize, handle: Handle, factors: [*const c_void; 2]) -> bool {
        // SAFETY: the contract of this function.
        !factors.contains(&ptr::null()) && unsafe { ask::<i32>(&self.pointer_mode, neighbour, handle) == Some(0) }
    }

    /// Where launches on `handle` go.
    ///
    /// # Safety
    /// As [`Facts::are_factors_on_host`].
    pub unsafe fn stream(&self, neighbour: usize, handle: Handle) -> Option<Handle> {
        // SAFETY: the contract of this function.
        unsafe { ask::<usize>(&self.stream, neighbour, handle) }.map(|stream| stream as Handle)
    }

    /// The capture that a call on `handle` goes into.
    ///
    /// # Safety
    /// As [`Facts::are_factors_on_host`].
    #[inline]
    pub unsafe fn capture(&self, dialect: Dialect, neighbour: usize, handle: Handle) -> Option<Capture> {
        if !captures::any() {
            return None;
        }
        // SAFETY: the contract of this function.
        capture_of(dialect, unsafe { ask::<usize>(&self.stream, neighbour, handle) }?)
    }

    /// May 32-bit operands be rounded to TF32?
    ///
    /// # Safety
    /// As [`Facts::are_factors_on_host`].
    pub unsafe fn allows_tf32(&self, neighbour: usize, handle: Handle) -> bool {
        /// `CUBLAS_TF32_TENSOR_OP_MATH`, below the flags.
        const TF32: i32 = 3;
        let Some(question) = &self.math_mode else { return false };
        // SAFETY: the contract of this function.
        unsafe { ask::<i32>(question, neighbour, handle) }.is_some_and(|mode| mode & 0xf == TF32)
    }
}
