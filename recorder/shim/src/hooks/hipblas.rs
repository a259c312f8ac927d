//! libhipblas: `hipblasGemmEx` under its names before and since ROCm 7, and what it is batched by.
//!
//! Before ROCm 7 `hipblasGemmEx` takes types as `hipblasDatatype_t` and `hipblasGemmEx_v2` as `hipDataType`; since then the
//! first is the second. The numbers tell which is meant.

use std::ffi::c_void;

use tgemm_db::Via;
use tgemm_vendor::gpu::{Dialect, Handle};

use super::gpu::{Arguments, Facts, HIP, WORKSPACES};
use super::hook;
use crate::real::{Beside, Real};
use crate::seen::{self, How, InPlace, Seen};
use crate::state::Shim;

static FACTS: Facts = Facts {
    pointer_mode: Beside::new(c"hipblasGetPointerMode"),
    stream: Beside::new(c"hipblasGetStream"),
    math_mode: None,
};

/// `hipblasDatatype_t` of the typed calls.
const R_32F: i32 = 151;

fn look(shim: &'static Shim, real: &Real, in_place: &mut InPlace, handle: Handle, on: &Arguments) -> Option<Seen> {
    if on.is_empty() {
        return None;
    }
    let at = real.address()?;
    // SAFETY: the caller's own handle and factors, as the library takes them.
    unsafe {
        let on_host = FACTS.are_factors_on_host(at, handle, on.factors);
        let capture = FACTS.capture(Dialect::Hip, at, handle);
        if shim.applier.is_some() {
            let launch = on.launch(&HIP, on_host, handle, FACTS.stream(at, handle));
            *in_place = launch.map(|launch| (Dialect::Hip, launch));
        }
        seen::look_cached(shim, on.key(at, on_host), capture, || {
            let call = on.call(&HIP, on_host, || false);
            (call, How { via: Via::GemmEx, workspace_bytes_max: None, library: real.library(|_| None), capture })
        })
    }
}

super::watch! {
    fn hipblasSetWorkspace(handle: Handle, workspace: *mut c_void, bytes: usize) -> i32, || {
        WORKSPACES.set(handle as usize, [workspace as u64, bytes as u64]);
    };
    fn hipblasDestroy(handle: Handle) -> i32, || WORKSPACES.forget(handle as usize);
}

macro_rules! gemm_ex {
    ($($name:ident, $batched:ident;)*) => {
        hook! {$(
            fn $name(
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

            fn $batched(
                handle: Handle, op_a: i32, op_b: i32, m: i32, n: i32, k: i32, alpha: *const c_void,
                a: *const c_void, a_type: i32, lda: i32, stride_a: i64,
                b: *const c_void, b_type: i32, ldb: i32, stride_b: i64,
                beta: *const c_void, c: *mut c_void, c_type: i32, ldc: i32, stride_c: i64, batch: i32, compute: i32, algo: i32,
            ) -> i32, |shim, real, in_place| look(shim, real, in_place, handle, &Arguments {
                ops: [op_a, op_b],
                sizes: [m, n, k],
                matrices: [(a, a_type, lda, stride_a), (b, b_type, ldb, stride_b), (c, c_type, ldc, stride_c)],
                batch,
                compute,
                factors: [alpha, beta],
            });
        )*}
    };
}

gemm_ex! {
    hipblasGemmEx, hipblasGemmStridedBatchedEx;
    hipblasGemmEx_v2, hipblasGemmStridedBatchedEx_v2;
}

hook! {
    fn hipblasSgemm(
        handle: Handle, op_a: i32, op_b: i32, m: i32, n: i32, k: i32, alpha: *const c_void, a: *const c_void, lda: i32,
        b: *const c_void, ldb: i32, beta: *const c_void, c: *mut c_void, ldc: i32,
    ) -> i32, |shim, real, in_place| look(shim, real, in_place, handle, &Arguments {
        ops: [op_a, op_b],
        sizes: [m, n, k],
        matrices: [(a, R_32F, lda, 0), (b, R_32F, ldb, 0), (c, R_32F, ldc, 0)],
        batch: 1,
        compute: R_32F,
        factors: [alpha, beta],
    });

    fn hipblasSgemmStridedBatched(
        handle: Handle, op_a: i32, op_b: i32, m: i32, n: i32, k: i32, alpha: *const c_void,
        a: *const c_void, lda: i32, stride_a: i64, b: *const c_void, ldb: i32, stride_b: i64,
        beta: *const c_void, c: *mut c_void, ldc: i32, stride_c: i64, batch: i32,
    ) -> i32, |shim, real, in_place| look(shim, real, in_place, handle, &Arguments {
        ops: [op_a, op_b],
        sizes: [m, n, k],
        matrices: [(a, R_32F, lda, stride_a), (b, R_32F, ldb, stride_b), (c, R_32F, ldc, stride_c)],
        batch,
        compute: R_32F,
        factors: [alpha, beta],
    });
}
