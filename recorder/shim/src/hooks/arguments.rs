//! Products that GPU libraries are told by argument lists: what the numbers in them mean, and the hooks that are alike.

use std::ffi::c_void;

use tgemm_db::blas::{Call, Op};
use tgemm_db::problem::Scalar;
use tgemm_db::{Compute, DType, Via};
use tgemm_kernels::Operands;
use tgemm_vendor::gpu::{Dialect, Handle, numbers};

use super::ArgumentList;
use super::gpu::Facts;
use crate::apply::{Launch, factors};
use crate::cache::{Key, alignment_bits};
use crate::product::{Matrix, Product};
use crate::real::Real;
use crate::seen::{self, How, InPlace, Seen};
use crate::shadow::Shadow;
use crate::state::Shim;

/// `CUBLAS_COMPUTE_32F`, `HIPBLAS_COMPUTE_32F`, and the data type that stands for it in rocBLAS.
const COMPUTE_32F_CUDA: i32 = 68;
const COMPUTE_32F_HIP: i32 = 2;
const R_32F_HIP: i32 = 151;
/// `CUDA_R_32F`, `HIP_R_32F`.
const R_32F: i32 = 0;

/// A library that is told products by argument lists.
pub struct Library {
    /// What its numbers mean.
    pub words: Words,
    /// What it says about a handle.
    pub facts: Facts,
    /// What its calls are recorded as.
    pub via: Via,
    /// Its version, by the address of a function of it.
    pub version: fn(usize) -> Option<String>,
}

/// A call of a library that is told products by argument lists.
pub struct OnHandle {
    /// The library.
    pub library: &'static Library,
    /// The handle that it was called with.
    pub handle: Handle,
    /// The rest of the list.
    pub on: Arguments,
}

impl ArgumentList for OnHandle {
    type Int = i32;

    #[inline(always)]
    fn key(&self, function: usize) -> Option<Key<i32>> {
        // SAFETY: the caller's own handle and factors, as the library takes them; those on the host may be read.
        unsafe {
            let on_host = self.library.facts.are_factors_on_host(function, self.handle, self.on.factors);
            if on_host { self.on.key(function) } else { None }
        }
    }

    fn look(&self, shim: &'static Shim, real: &Real, in_place: &mut InPlace) -> Option<Seen> {
        let OnHandle { library: Library { words, facts, via, version }, handle, on } = self;
        if on.is_empty() {
            return None;
        }
        let (at, dialect) = (real.address()?, words.dialect);
        // SAFETY: the caller's own handle and factors, as the library takes them.
        unsafe {
            let on_host = facts.are_factors_on_host(at, *handle, on.factors);
            let capture = facts.capture(dialect, at, *handle);
            if shim.applier.is_some() {
                let launch = on.launch(words, on_host, *handle, facts.stream(at, *handle));
                *in_place = launch.map(|launch| (dialect, launch));
            }
            let key = if on_host && on.tells_all() { on.key(at) } else { None };
            seen::look_cached(shim, key, capture, || {
                let call = on.call(words, on_host, || facts.allows_tf32(at, *handle));
                (call, How { via: *via, workspace_bytes_max: None, library: real.library(version), capture })
            })
        }
    }
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
    /// The old output where it has arguments of its own: where, type, row length, stride.
    pub old: Option<(*const c_void, i32, i32, i64)>,
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

/// [`Scalar::of`] for a key, by the bits of a 32-bit number: without a constant to be fetched, and without branches.
#[inline(always)]
fn class_of(bits: u32) -> i32 {
    const ONE: u32 = 1f32.to_bits();
    2 * i32::from(bits << 1 != 0) - i32::from(bits == ONE)
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
            c: self.old.map_or(c, |(old, ..)| old),
            alpha,
            beta,
            workspace: workspace as *mut c_void,
            workspace_bytes: workspace_bytes as usize,
            ..Operands::default()
        };
        Some(Launch { io, stream: stream?, failed_status: words.failed_status })
    }

    /// Does the list say all that there is to know of the call? 32-bit operands may be rounded; an old output apart may be of
    /// another kind.
    fn tells_all(&self) -> bool {
        !matches!(self.matrices[0].1, R_32F | R_32F_HIP) && self.old.is_none()
    }

    /// The call as the cache knows it if it [tells all](Arguments::tells_all); `None` for sums of other types than 32-bit
    /// floats, which have factors of other types.
    ///
    /// # Safety
    /// Factors are on the host and readable.
    #[inline(always)]
    pub unsafe fn key(&self, function: usize) -> Option<Key<i32>> {
        if !matches!(self.compute, COMPUTE_32F_CUDA | COMPUTE_32F_HIP | R_32F_HIP) {
            return None;
        }
        let [(a, a_type, lda, stride_a), (b, b_type, ldb, stride_b), (c, c_type, ldc, stride_c)] = self.matrices;
        // SAFETY: the contract of this function.
        let [alpha, beta] = self.factors.map(|at| class_of(unsafe { at.cast::<u32>().read_unaligned() }));
        let ([m, n, k], [op_a, op_b]) = (self.sizes, self.ops);
        // Four bits of addresses, and two classes.
        let rest = alignment_bits([a, b, c]) | alpha << 4 | beta << 6;
        Some(Key {
            function,
            extents: [m, n, k, lda, ldb, ldc],
            numbers: [a_type, b_type, c_type, self.compute, op_a, op_b, rest],
            batch: self.batch,
            strides: [stride_a, stride_b, stride_c],
        })
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
        let [alpha, beta] = self.factors.map(|at| match on_host {
            // SAFETY: the contract of this function.
            true => unsafe { factor(at, compute) },
            false => Scalar::Other,
        });
        if compute == Compute::F32 && matrices[0].dtype == DType::F32 && tf32() {
            compute = Compute::Tf32;
        }
        let (ops, sizes, batch) = ([op(self.ops[0])?, op(self.ops[1])?], self.sizes.map(i64::from), self.batch.into());
        let mut call = Product { ops, sizes, matrices, batch, compute, alpha, beta }.call()?;
        if let Some((at, dtype, ld, stride)) = self.old
            && call.beta != Scalar::Zero
        {
            let (new, new_dtype, new_ld, new_stride) = self.matrices[2];
            // An old output of another type or place has no word.
            if (dtype, ld) != (new_dtype, new_ld) || (call.batch_count != 1 && stride != new_stride) {
                return None;
            }
            call.in_place = at == new;
        }
        Some(call)
    }
}

/// Hooks of `?GemmEx` and its strided batches, whose argument lists are the same in cuBLAS and hipBLAS.
macro_rules! gemm_ex {
    ($library:ident; $($name:ident, $batched:ident;)*) => {
        $crate::hooks::hook! {$(
            fn $name(
                handle: Handle, op_a: i32, op_b: i32, m: i32, n: i32, k: i32, alpha: *const c_void,
                a: *const c_void, a_type: i32, lda: i32, b: *const c_void, b_type: i32, ldb: i32,
                beta: *const c_void, c: *mut c_void, c_type: i32, ldc: i32, compute: i32, algo: i32,
            ) -> i32, OnHandle { library: &$library, handle, on: Arguments {
                ops: [op_a, op_b],
                sizes: [m, n, k],
                matrices: [(a, a_type, lda, 0), (b, b_type, ldb, 0), (c, c_type, ldc, 0)],
                batch: 1,
                compute,
                factors: [alpha, beta],
                old: None,
            } };

            fn $batched(
                handle: Handle, op_a: i32, op_b: i32, m: i32, n: i32, k: i32, alpha: *const c_void,
                a: *const c_void, a_type: i32, lda: i32, stride_a: i64,
                b: *const c_void, b_type: i32, ldb: i32, stride_b: i64,
                beta: *const c_void, c: *mut c_void, c_type: i32, ldc: i32, stride_c: i64, batch: i32, compute: i32, algo: i32,
            ) -> i32, OnHandle { library: &$library, handle, on: Arguments {
                ops: [op_a, op_b],
                sizes: [m, n, k],
                matrices: [(a, a_type, lda, stride_a), (b, b_type, ldb, stride_b), (c, c_type, ldc, stride_c)],
                batch,
                compute,
                factors: [alpha, beta],
                old: None,
            } };
        )*}
    };
}
pub(super) use gemm_ex;

/// Hooks of `?gemm` of one type, and its strided batches.
macro_rules! typed {
    ($library:ident; $($name:ident, $batched:ident: $dtype:expr, $compute:expr;)*) => {
        $crate::hooks::hook! {$(
            fn $name(
                handle: Handle, op_a: i32, op_b: i32, m: i32, n: i32, k: i32, alpha: *const c_void, a: *const c_void, lda: i32,
                b: *const c_void, ldb: i32, beta: *const c_void, c: *mut c_void, ldc: i32,
            ) -> i32, OnHandle { library: &$library, handle, on: Arguments {
                ops: [op_a, op_b],
                sizes: [m, n, k],
                matrices: [(a, $dtype, lda, 0), (b, $dtype, ldb, 0), (c, $dtype, ldc, 0)],
                batch: 1,
                compute: $compute,
                factors: [alpha, beta],
                old: None,
            } };

            fn $batched(
                handle: Handle, op_a: i32, op_b: i32, m: i32, n: i32, k: i32, alpha: *const c_void,
                a: *const c_void, lda: i32, stride_a: i64, b: *const c_void, ldb: i32, stride_b: i64,
                beta: *const c_void, c: *mut c_void, ldc: i32, stride_c: i64, batch: i32,
            ) -> i32, OnHandle { library: &$library, handle, on: Arguments {
                ops: [op_a, op_b],
                sizes: [m, n, k],
                matrices: [(a, $dtype, lda, stride_a), (b, $dtype, ldb, stride_b), (c, $dtype, ldc, stride_c)],
                batch,
                compute: $compute,
                factors: [alpha, beta],
                old: None,
            } };
        )*}
    };
}
pub(super) use typed;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_has_the_same_class_by_its_bits() {
        let factors = [0.0, -0.0, 1.0, -1.0, 0.5, f32::MIN_POSITIVE / 2.0, f32::NAN, f32::INFINITY, 1.0 + f32::EPSILON];
        for factor in factors {
            assert_eq!(class_of(factor.to_bits()), Scalar::of(factor.into()) as i32, "{factor}");
        }
    }

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
