//! librocblas: `rocblas_gemm_ex` and its strided batches, which have the old output apart from the new one.

use std::ffi::{c_char, c_void};

use tgemm_db::Via;
use tgemm_db::problem::Scalar;
use tgemm_kernels::Operands;
use tgemm_vendor::gpu::{Dialect, Handle};

use super::gpu::{Arguments, Facts, ROCBLAS, WORKSPACES};
use super::hook;
use crate::apply::Launch;
use crate::real::{self, Beside, Real};
use crate::seen::{self, How, InPlace, Seen};
use crate::state::Shim;

static FACTS: Facts = Facts {
    pointer_mode: Beside::new(c"rocblas_get_pointer_mode"),
    stream: Beside::new(c"rocblas_get_stream"),
    math_mode: None,
};

/// The version as `rocblas_get_version_string` tells it: `5.1.0.41c7a06`.
fn version(address: usize) -> Option<String> {
    type Version = unsafe extern "C" fn(*mut c_char, usize) -> i32;
    let mut text = [0u8; 256];
    // SAFETY: `rocblas_get_version_string` has this type (`rocblas-auxiliary.h`), and is told the buffer's size.
    let status = unsafe {
        let ask = std::mem::transmute::<usize, Version>(real::beside(address, c"rocblas_get_version_string")?);
        ask(text.as_mut_ptr().cast(), text.len())
    };
    let end = text.iter().position(|&byte| byte == 0)?;
    (status == 0).then(|| String::from_utf8_lossy(&text[..end]).trim().to_owned())
}

fn look(
    shim: &'static Shim,
    real: &Real,
    in_place: &mut InPlace,
    handle: Handle,
    on: &Arguments,
    old: (*const c_void, i32, i32, i64),
) -> Option<Seen> {
    if on.is_empty() {
        return None;
    }
    let at = real.address()?;
    // SAFETY: the caller's own handle and factors, as the library takes them.
    let (on_host, call, capture) = unsafe {
        let on_host = FACTS.are_factors_on_host(at, handle, on.factors);
        (on_host, on.call(&ROCBLAS, on_host, || false), FACTS.capture(Dialect::Hip, at, handle))
    };
    let call = call.and_then(|mut call| {
        let (at, dtype, ld, stride) = on.matrices[2];
        // An old output of another type or place has no word.
        let is_alike = (old.1, old.2) == (dtype, ld) && (call.batch_count == 1 || old.3 == stride);
        call.in_place = call.beta == Scalar::Zero || old.0 == at;
        (call.beta == Scalar::Zero || is_alike).then_some(call)
    });
    let library = real.library(version);
    let seen = seen::look(shim, call, How { via: Via::RocblasGemmEx, workspace_bytes_max: None, library, capture })?;
    if shim.applier.is_some() {
        // SAFETY: as above.
        let launch = unsafe { on.launch(&ROCBLAS, on_host, handle, FACTS.stream(at, handle)) };
        let with_old = |launch: Launch| Launch { io: Operands { c: old.0, ..launch.io }, ..launch };
        *in_place = launch.map(|launch| (Dialect::Hip, with_old(launch)));
    }
    Some(seen)
}

super::watch! {
    fn rocblas_set_workspace(handle: Handle, workspace: *mut c_void, bytes: usize) -> i32, || {
        WORKSPACES.set(handle as usize, [workspace as u64, bytes as u64]);
    };
    fn rocblas_destroy_handle(handle: Handle) -> i32, || WORKSPACES.forget(handle as usize);
}

hook! {
    fn rocblas_gemm_ex(
        handle: Handle, op_a: i32, op_b: i32, m: i32, n: i32, k: i32, alpha: *const c_void,
        a: *const c_void, a_type: i32, lda: i32, b: *const c_void, b_type: i32, ldb: i32,
        beta: *const c_void, c: *const c_void, c_type: i32, ldc: i32, d: *mut c_void, d_type: i32, ldd: i32,
        compute: i32, algo: i32, solution_index: i32, flags: u32,
    ) -> i32, |shim, real, in_place| {
        let on = Arguments {
            ops: [op_a, op_b],
            sizes: [m, n, k],
            matrices: [(a, a_type, lda, 0), (b, b_type, ldb, 0), (d, d_type, ldd, 0)],
            batch: 1,
            compute,
            factors: [alpha, beta],
        };
        look(shim, real, in_place, handle, &on, (c, c_type, ldc, 0))
    };

    fn rocblas_gemm_strided_batched_ex(
        handle: Handle, op_a: i32, op_b: i32, m: i32, n: i32, k: i32, alpha: *const c_void,
        a: *const c_void, a_type: i32, lda: i32, stride_a: i64, b: *const c_void, b_type: i32, ldb: i32, stride_b: i64,
        beta: *const c_void, c: *const c_void, c_type: i32, ldc: i32, stride_c: i64,
        d: *mut c_void, d_type: i32, ldd: i32, stride_d: i64,
        batch: i32, compute: i32, algo: i32, solution_index: i32, flags: u32,
    ) -> i32, |shim, real, in_place| {
        let on = Arguments {
            ops: [op_a, op_b],
            sizes: [m, n, k],
            matrices: [(a, a_type, lda, stride_a), (b, b_type, ldb, stride_b), (d, d_type, ldd, stride_d)],
            batch,
            compute,
            factors: [alpha, beta],
        };
        look(shim, real, in_place, handle, &on, (c, c_type, ldc, stride_c))
    };
}
