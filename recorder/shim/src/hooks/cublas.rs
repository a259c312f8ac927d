//! libcublas: `cublasGemmEx` and the typed calls, batched by strides as well.

use std::ffi::c_void;

use tgemm_db::Via;
use tgemm_vendor::gpu::{Dialect, Handle};

use super::gpu::{Arguments, CUDA, Facts, WORKSPACES};
use super::hook;
use crate::real::{self, Beside, Real};
use crate::seen::{self, How, InPlace, Seen};
use crate::state::Shim;

static FACTS: Facts = Facts {
    pointer_mode: Beside::new(c"cublasGetPointerMode_v2"),
    stream: Beside::new(c"cublasGetStream_v2"),
    math_mode: Some(Beside::new(c"cublasGetMathMode")),
};

/// `cudaDataType_t` and `cublasComputeType_t` of the typed calls.
const R_32F: i32 = 0;
const R_64F: i32 = 1;
const COMPUTE_32F: i32 = 68;
const COMPUTE_64F: i32 = 70;

/// The version that `cublasGetProperty` tells in parts: `13.1.0`.
pub(super) fn version(address: usize, property: &std::ffi::CStr) -> Option<String> {
    type Property = unsafe extern "C" fn(i32, *mut i32) -> i32;
    // SAFETY: `cublasGetProperty` and `cublasLtGetProperty` have this type (`cublas_api.h`, `cublasLt.h`).
    let ask = unsafe { std::mem::transmute::<usize, Property>(real::beside(address, property)?) };
    let mut parts = [0; 3];
    for (part, value) in parts.iter_mut().enumerate() {
        // SAFETY: one integer is written.
        if unsafe { ask(part as i32, value) } != 0 {
            return None;
        }
    }
    Some(parts.map(|part| part.to_string()).join("."))
}

fn look(shim: &'static Shim, real: &Real, in_place: &mut InPlace, handle: Handle, on: &Arguments) -> Option<Seen> {
    if on.is_empty() {
        return None;
    }
    let at = real.address()?;
    // SAFETY: the caller's own handle and factors, as the library takes them.
    unsafe {
        let on_host = FACTS.are_factors_on_host(at, handle, on.factors);
        let capture = FACTS.capture(Dialect::Cuda, at, handle);
        if shim.applier.is_some() {
            let launch = on.launch(&CUDA, on_host, handle, FACTS.stream(at, handle));
            *in_place = launch.map(|launch| (Dialect::Cuda, launch));
        }
        seen::look_cached(shim, on.key(at, on_host), capture, || {
            let call = on.call(&CUDA, on_host, || FACTS.allows_tf32(at, handle));
            let library = real.library(|at| version(at, c"cublasGetProperty"));
            (call, How { via: Via::GemmEx, workspace_bytes_max: None, library, capture })
        })
    }
}

super::watch! {
    fn cublasSetWorkspace_v2(handle: Handle, workspace: *mut c_void, bytes: usize) -> i32, || {
        WORKSPACES.set(handle as usize, [workspace as u64, bytes as u64]);
    };
    // Another stream means the library's own workspace again, by its documentation.
    fn cublasSetStream_v2(handle: Handle, stream: Handle) -> i32, || WORKSPACES.forget(handle as usize);
    fn cublasDestroy_v2(handle: Handle) -> i32, || WORKSPACES.forget(handle as usize);
}

hook! {
    fn cublasGemmEx(
        handle: Handle, op_a: i32, op_b: i32, m: i32, n: i32, k: i32, alpha: *const c_void,
        a: *const c_void, a_type: i32, lda: i32, b: *const c_void, b_type: i32, ldb: i32,
        beta: *const c_void, c: *mut c_void, c_type: i32, ldc: i32, compute: i32, algo: i32,
    ) -> i32, |shim, real, in_place| look(shim, real, in_place, handle, &Arguments {
        ops: [op_a, op_b],
        sizes: [m, n, k],
        matrices: [(a, a_type, lda, 0), (b, b_type, ldb, 0), (c, c_type, ldc, 0)],
        batch: 1,
        compute,
        factors: [alpha, beta],
    });

    fn cublasGemmStridedBatchedEx(
        handle: Handle, op_a: i32, op_b: i32, m: i32, n: i32, k: i32, alpha: *const c_void,
        a: *const c_void, a_type: i32, lda: i32, stride_a: i64, b: *const c_void, b_type: i32, ldb: i32, stride_b: i64,
        beta: *const c_void, c: *mut c_void, c_type: i32, ldc: i32, stride_c: i64, batch: i32, compute: i32, algo: i32,
    ) -> i32, |shim, real, in_place| look(shim, real, in_place, handle, &Arguments {
        ops: [op_a, op_b],
        sizes: [m, n, k],
        matrices: [(a, a_type, lda, stride_a), (b, b_type, ldb, stride_b), (c, c_type, ldc, stride_c)],
        batch,
        compute,
        factors: [alpha, beta],
    });
}

macro_rules! typed {
    ($($name:ident, $batched:ident: $dtype:ident, $compute:ident;)*) => {
        hook! {$(
            fn $name(
                handle: Handle, op_a: i32, op_b: i32, m: i32, n: i32, k: i32, alpha: *const c_void, a: *const c_void, lda: i32,
                b: *const c_void, ldb: i32, beta: *const c_void, c: *mut c_void, ldc: i32,
            ) -> i32, |shim, real, in_place| look(shim, real, in_place, handle, &Arguments {
                ops: [op_a, op_b],
                sizes: [m, n, k],
                matrices: [(a, $dtype, lda, 0), (b, $dtype, ldb, 0), (c, $dtype, ldc, 0)],
                batch: 1,
                compute: $compute,
                factors: [alpha, beta],
            });

            fn $batched(
                handle: Handle, op_a: i32, op_b: i32, m: i32, n: i32, k: i32, alpha: *const c_void,
                a: *const c_void, lda: i32, stride_a: i64, b: *const c_void, ldb: i32, stride_b: i64,
                beta: *const c_void, c: *mut c_void, ldc: i32, stride_c: i64, batch: i32,
            ) -> i32, |shim, real, in_place| look(shim, real, in_place, handle, &Arguments {
                ops: [op_a, op_b],
                sizes: [m, n, k],
                matrices: [(a, $dtype, lda, stride_a), (b, $dtype, ldb, stride_b), (c, $dtype, ldc, stride_c)],
                batch,
                compute: $compute,
                factors: [alpha, beta],
            });
        )*}
    };
}

typed! {
    cublasSgemm_v2, cublasSgemmStridedBatched: R_32F, COMPUTE_32F;
    cublasDgemm_v2, cublasDgemmStridedBatched: R_64F, COMPUTE_64F;
}
