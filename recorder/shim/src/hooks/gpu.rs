//! What the hooks of GPU libraries share: element types, factors behind pointers, and the capture that a stream is in.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use tgemm_db::blas::{Call, Op};
use tgemm_db::problem::Scalar;
use tgemm_db::{Compute, DType};
use tgemm_kernels::Operands;
use tgemm_vendor::gpu::{Dialect, Handle, numbers};

use crate::apply::{Launch, factors};
use crate::cache::{Key, alignment_bits};
use crate::captures::{self, Capture};
use crate::product::{Matrix, Product};
use crate::real::Beside;
use crate::shadow::Shadow;

/// Questions that a library answers about a handle of its own.
pub struct Facts {
    /// Are factors on the host (0)?
    pub pointer_mode: Beside,
    /// Where do launches go?
    pub stream: Beside,
    /// Which arithmetic is allowed? cuBLAS only.
    pub math_mode: Option<Beside>,
}

/// `CUBLAS_COMPUTE_32F`, `HIPBLAS_COMPUTE_32F`, and the data type that stands for it in rocBLAS.
const COMPUTE_32F_CUDA: i32 = 68;
const COMPUTE_32F_HIP: i32 = 2;
const R_32F_HIP: i32 = 151;
/// `CUDA_R_32F`, `HIP_R_32F`.
const R_32F: i32 = 0;

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
    /// Are the factors of a call on `handle` on the host? Where they are on this thread's stack, as nearly always, the
    /// library need not be asked, which would cost more than all the rest.
    ///
    /// # Safety
    /// The handle is of the library that holds the code at `neighbour`, whose questions these are.
    #[inline]
    pub unsafe fn are_factors_on_host(&self, neighbour: usize, handle: Handle, factors: [*const c_void; 2]) -> bool {
        let here = 0u8;
        let is_near = |at: *const c_void| (at as usize).wrapping_sub(&raw const here as usize) < STACK_BYTES_NEAR;
        // SAFETY: the contract of this function.
        factors.into_iter().all(is_near) || unsafe { ask::<i32>(&self.pointer_mode, neighbour, handle) == Some(0) }
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

/// An argument list with types told by numbers.
pub struct Arguments {
    /// What is done to A and B.
    pub ops: [i32; 2],
    /// m, n and k.
    pub sizes: [i32; 3],
    /// A, B and C: where, type, row length, stride.
    pub matrices: [(*const c_void, i32, i32, i64); 3],
    /// How many.
    pub batch: i32,
    /// Type of the sums.
    pub compute: i32,
    /// alpha and beta.
    pub factors: [*const c_void; 2],
}

/// What the numbers of a library's argument list mean.
pub struct Words {
    /// Its dialect.
    pub dialect: Dialect,
    /// An element type.
    pub dtype: fn(i32) -> Option<DType>,
    /// The type of sums.
    pub compute: fn(i32) -> Option<Compute>,
    /// The status of an execution that failed.
    pub failed_status: i32,
}

/// What cuBLAS' numbers mean.
pub const CUDA: Words = Words {
    dialect: Dialect::Cuda,
    dtype: numbers::dtype_of,
    compute: |number| numbers::compute_of(Dialect::Cuda, number),
    failed_status: CUDA_EXECUTION_FAILED,
};

/// `rocblas_datatype`, and `hipblasDatatype_t` before ROCm 7; their ranges and that of `hipDataType` do not meet.
fn dtype_of_hip(number: i32) -> Option<DType> {
    match number {
        150 => Some(DType::F16),
        151 => Some(DType::F32),
        152 => Some(DType::F64),
        160 => Some(DType::I8),
        162 => Some(DType::I32),
        168 => Some(DType::Bf16),
        151.. if number < 200 => None,
        number => numbers::dtype_of(number),
    }
}

/// `hipblasComputeType_t`; rocBLAS, and hipBLAS before ROCm 7, say a data type.
fn compute_of_hip(number: i32) -> Option<Compute> {
    match number {
        151 => Some(Compute::F32),
        152 => Some(Compute::F64),
        162 => Some(Compute::I32),
        number => numbers::compute_of(Dialect::Hip, number),
    }
}

/// What the numbers of hipBLAS mean.
pub const HIP: Words =
    Words { dialect: Dialect::Hip, dtype: dtype_of_hip, compute: compute_of_hip, failed_status: HIP_EXECUTION_FAILED };

/// What the numbers of rocBLAS mean: as hipBLAS', but for `rocblas_status_internal_error`.
pub const ROCBLAS: Words = Words { failed_status: 6, ..HIP };

/// `CUBLAS_STATUS_EXECUTION_FAILED`.
pub const CUDA_EXECUTION_FAILED: i32 = 13;
/// `HIPBLAS_STATUS_EXECUTION_FAILED`.
pub const HIP_EXECUTION_FAILED: i32 = 5;

/// The class of the factor at `at`, of the type of the sums.
///
/// # Safety
/// It is readable.
unsafe fn factor(at: *const c_void, compute: Compute) -> Scalar {
    // SAFETY: the contract of this function.
    unsafe {
        match compute {
            Compute::F64 => Scalar::of(at.cast::<f64>().read_unaligned()),
            Compute::I32 => Scalar::of(f64::from(at.cast::<i32>().read_unaligned())),
            _ => Scalar::of(f64::from(at.cast::<f32>().read_unaligned())),
        }
    }
}

/// Scratch memory that hosts gave to handles of cuBLAS, hipBLAS and rocBLAS: address and bytes.
pub static WORKSPACES: Shadow = Shadow::new();

impl Arguments {
    /// Where the operands are, for a launch on `stream` with the workspace of `handle`; `None` where factors are elsewhere or
    /// of another type.
    ///
    /// # Safety
    /// Factors are readable if they are on the host.
    pub unsafe fn launch(
        &self,
        words: &Words,
        on_host: bool,
        handle: Handle,
        stream: Option<Handle>,
    ) -> Option<Launch> {
        if !on_host || (words.compute)(self.compute) != Some(Compute::F32) {
            return None;
        }
        // SAFETY: the contract of this function.
        let [alpha, beta] = unsafe { factors(self.factors[0], self.factors[1]) }?;
        let [workspace, workspace_bytes] = WORKSPACES.get(handle as usize).unwrap_or_default();
        let [(a, ..), (b, ..), (c, ..)] = self.matrices;
        let io = Operands {
            x: b,
            w: a,
            out: c.cast_mut(),
            c,
            alpha,
            beta,
            workspace: workspace as *mut c_void,
            workspace_bytes: workspace_bytes as usize,
            ..Operands::default()
        };
        Some(Launch { io, stream: stream?, failed_status: words.failed_status })
    }

    /// The call as the cache knows it; `None` where more than the arguments decides what it is.
    ///
    /// # Safety
    /// Factors are readable if they are on the host.
    #[inline]
    pub unsafe fn key(&self, function: usize, on_host: bool) -> Option<Key> {
        let [(a, a_type, lda, stride_a), (b, b_type, ldb, stride_b), (c, c_type, ldc, stride_c)] = self.matrices;
        let [alpha, beta] = self.factors;
        // Sums of other types have factors of other types; 32-bit operands may be rounded.
        let is_plain = matches!(self.compute, COMPUTE_32F_CUDA | COMPUTE_32F_HIP | R_32F_HIP);
        if !is_plain || !on_host || matches!(a_type, R_32F | R_32F_HIP) || alpha.is_null() || beta.is_null() {
            return None;
        }
        // SAFETY: the contract of this function.
        let [alpha, beta] = unsafe { [factor(alpha, Compute::F32), factor(beta, Compute::F32)] };
        let [m, n, k] = self.sizes.map(i64::from);
        let [op_a, op_b] = self.ops.map(|op| op & 0xff);
        let is_odd = self.ops.iter().any(|op| op >> 8 != 0);
        let bits = alignment_bits([a, b, c]);
        let numbers = [a_type, b_type, c_type, self.compute, op_a | op_b << 8, alpha as i32, beta as i32, bits];
        let extents = [m, n, k, lda.into(), ldb.into(), ldc.into()];
        if is_odd { None } else { Key::new(function, extents, numbers, self.batch, [stride_a, stride_b, stride_c]) }
    }

    /// Is there nothing to compute?
    pub fn is_empty(&self) -> bool {
        self.sizes.contains(&0) || self.batch == 0
    }

    /// The call. Factors that are not on the host are of class "other".
    ///
    /// # Safety
    /// Factors are readable if they are on the host.
    pub unsafe fn call(&self, words: &Words, on_host: bool, tf32: impl FnOnce() -> bool) -> Option<Call> {
        let op = |number: i32| {
            numbers::is_transposed(words.dialect, number).map(|is_transposed| if is_transposed { Op::T } else { Op::N })
        };
        let matrix = |(at, dtype, ld, stride): (*const c_void, i32, i32, i64)| {
            Some(Matrix { at, dtype: (words.dtype)(dtype)?, ld: ld.into(), stride })
        };
        let matrices = [matrix(self.matrices[0])?, matrix(self.matrices[1])?, matrix(self.matrices[2])?];
        let mut compute = (words.compute)(self.compute)?;
        let [alpha, beta] = self.factors.map(|at| match on_host && !at.is_null() {
            // SAFETY: the contract of this function.
            true => unsafe { factor(at, compute) },
            false => Scalar::Other,
        });
        if compute == Compute::F32 && matrices[0].dtype == DType::F32 && tf32() {
            compute = Compute::Tf32;
        }
        let (ops, sizes, batch) = ([op(self.ops[0])?, op(self.ops[1])?], self.sizes.map(i64::from), self.batch.into());
        Product { ops, sizes, matrices, batch, compute, alpha, beta }.call()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_amd_to_say_a_type_are_understood() {
        for (old, new, dtype) in
            [(150, 2, DType::F16), (151, 0, DType::F32), (168, 14, DType::Bf16), (160, 3, DType::I8)]
        {
            assert_eq!((dtype_of_hip(old), dtype_of_hip(new)), (Some(dtype), Some(dtype)));
        }
        assert_eq!(dtype_of_hip(155), None, "complex");
        assert_eq!((compute_of_hip(151), compute_of_hip(2)), (Some(Compute::F32), Some(Compute::F32)));
        assert_eq!(compute_of_hip(150), None, "sums of 16 bits");
    }
}
