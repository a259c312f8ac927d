//! What the hooks of GPU libraries ask of others: a handle's stream and modes, and the capture that a stream is in.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use tgemm_vendor::gpu::{Dialect, Handle};

use crate::captures::{self, Capture};
use crate::program;
use crate::real::Beside;

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
    /// Are the factors of a call on `handle` on the host? Where they are on this thread's stack, as nearly always, or constants
    /// of the program, the library need not be asked, which would cost more than all the rest.
    ///
    /// # Safety
    /// The handle is of the library that holds the code at `neighbour`, whose questions these are.
    #[inline]
    pub unsafe fn are_factors_on_host(&self, neighbour: usize, handle: Handle, factors: [*const c_void; 2]) -> bool {
        let here = 0u8;
        let is_near = |at: *const c_void| (at as usize).wrapping_sub(&raw const here as usize) < STACK_BYTES_NEAR;
        let [alpha, beta] = factors.map(is_near);
        // SAFETY: the contract of this function.
        (alpha && beta) || unsafe { self.are_constants_or_on_host(neighbour, handle, factors, [alpha, beta]) }
    }

    /// Out of the way of calls with factors on the stack.
    ///
    /// # Safety
    /// As [`Facts::are_factors_on_host`].
    #[cold]
    unsafe fn are_constants_or_on_host(
        &self,
        neighbour: usize,
        handle: Handle,
        factors: [*const c_void; 2],
        are_near: [bool; 2],
    ) -> bool {
        let mut rest = factors.into_iter().zip(are_near).filter(|(_, is_near)| !is_near);
        rest.all(|(at, _)| program::is_constant(at as usize))
            // SAFETY: the contract of this function.
            || unsafe { ask::<i32>(&self.pointer_mode, neighbour, handle) == Some(0) }
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

/// A function of a library by its soname, if that is in the process.
pub struct Resident {
    soname: &'static [&'static CStr],
    name: &'static CStr,
    address: AtomicUsize,
}

impl Resident {
    /// The function `name` of the first of `soname` that is loaded; nothing is searched yet.
    pub const fn new(soname: &'static [&'static CStr], name: &'static CStr) -> Resident {
        Resident { soname, name, address: AtomicUsize::new(0) }
    }

    fn address(&self) -> Option<usize> {
        let known = self.address.load(Ordering::Relaxed);
        if known != 0 {
            return Some(known);
        }
        let found = self.soname.iter().find_map(|soname| crate::real::look_up(soname, self.name))?;
        self.address.store(found, Ordering::Relaxed);
        Some(found)
    }
}

/// `CU_STREAM_CAPTURE_STATUS_ACTIVE`, `hipStreamCaptureStatusActive`.
const CAPTURING: i32 = 1;

/// The capture that `stream` is in.
pub fn capture_of(dialect: Dialect, stream: usize) -> Option<Capture> {
    type CudaInfo = unsafe extern "C" fn(usize, *mut i32, *mut u64, *mut usize, *mut usize, *mut usize) -> i32;
    type HipInfo = unsafe extern "C" fn(usize, *mut i32, *mut u64) -> i32;
    static CUDA: Resident = Resident::new(&[c"libcuda.so.1"], c"cuStreamGetCaptureInfo_v2");
    static HIP: Resident = Resident::new(&[c"libamdhip64.so.7", c"libamdhip64.so.6"], c"hipStreamGetCaptureInfo");
    let (mut status, mut id) = (0, 0);
    let null = std::ptr::null_mut();
    let asked = match dialect {
        // SAFETY: the driver's function (`cuda.h`, since 11.3); what is not wanted may be null.
        Dialect::Cuda => unsafe {
            let ask = std::mem::transmute::<usize, CudaInfo>(CUDA.address()?);
            ask(stream, &raw mut status, &raw mut id, null, null, null)
        },
        // SAFETY: the runtime's function (`hip_runtime_api.h`).
        Dialect::Hip => unsafe {
            let ask = std::mem::transmute::<usize, HipInfo>(HIP.address()?);
            ask(stream, &raw mut status, &raw mut id)
        },
    };
    (asked == 0 && status == CAPTURING).then_some(Capture(id))
}
