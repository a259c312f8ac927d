//! librocblas: `rocblas_gemm_ex` and its strided batches, which have the old output apart from the new one.

use std::ffi::{c_char, c_void};

use tgemm_db::Via;
use tgemm_vendor::gpu::Handle;

use super::arguments::{Arguments, Library, OnHandle, ROCBLAS, WORKSPACES};
use super::gpu::Facts;
use super::hook;
use crate::real::{self, Beside};

static LIBRARY: Library = Library {
    words: ROCBLAS,
    facts: Facts {
        pointer_mode: Beside::new(c"rocblas_get_pointer_mode"),
        stream: Beside::new(c"rocblas_get_stream"),
        math_mode: None,
    },
    via: Via::RocblasGemmEx,
    version,
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
    ) -> i32, OnHandle { library: &LIBRARY, handle, on: Arguments {
        ops: [op_a, op_b],
        sizes: [m, n, k],
        matrices: [(a, a_type, lda, 0), (b, b_type, ldb, 0), (d, d_type, ldd, 0)],
        batch: 1,
        compute,
        factors: [alpha, beta],
        old: Some((c, c_type, ldc, 0)),
    } };

    fn rocblas_gemm_strided_batched_ex(
        handle: Handle, op_a: i32, op_b: i32, m: i32, n: i32, k: i32, alpha: *const c_void,
        a: *const c_void, a_type: i32, lda: i32, stride_a: i64, b: *const c_void, b_type: i32, ldb: i32, stride_b: i64,
        beta: *const c_void, c: *const c_void, c_type: i32, ldc: i32, stride_c: i64,
        d: *mut c_void, d_type: i32, ldd: i32, stride_d: i64,
        batch: i32, compute: i32, algo: i32, solution_index: i32, flags: u32,
    ) -> i32, OnHandle { library: &LIBRARY, handle, on: Arguments {
        ops: [op_a, op_b],
        sizes: [m, n, k],
        matrices: [(a, a_type, lda, stride_a), (b, b_type, ldb, stride_b), (d, d_type, ldd, stride_d)],
        batch,
        compute,
        factors: [alpha, beta],
        old: Some((c, c_type, ldc, stride_c)),
    } };
}
