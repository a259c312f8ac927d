//! libcublas: `cublasGemmEx` and the typed calls, batched by strides as well.

use std::ffi::c_void;

use tgemm_db::Via;
use tgemm_vendor::gpu::Handle;

use super::arguments::{Arguments, CUDA, Library, OnHandle, WORKSPACES, gemm_ex, typed};
use super::gpu::Facts;
use crate::real::{self, Beside};

static LIBRARY: Library = Library {
    words: CUDA,
    facts: Facts {
        pointer_mode: Beside::new(c"cublasGetPointerMode_v2"),
        stream: Beside::new(c"cublasGetStream_v2"),
        math_mode: Some(Beside::new(c"cublasGetMathMode")),
    },
    via: Via::GemmEx,
    version: |at| version(at, c"cublasGetProperty"),
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

super::watch! {
    fn cublasSetWorkspace_v2(handle: Handle, workspace: *mut c_void, bytes: usize) -> i32, || {
        WORKSPACES.set(handle as usize, [workspace as u64, bytes as u64]);
    };
    // Another stream means the library's own workspace again, by its documentation.
    fn cublasSetStream_v2(handle: Handle, stream: Handle) -> i32, || WORKSPACES.forget(handle as usize);
    fn cublasDestroy_v2(handle: Handle) -> i32, || WORKSPACES.forget(handle as usize);
}

gemm_ex! { LIBRARY;
    cublasGemmEx, cublasGemmStridedBatchedEx;
}

typed! { LIBRARY;
    cublasSgemm_v2, cublasSgemmStridedBatched: R_32F, COMPUTE_32F;
    cublasDgemm_v2, cublasDgemmStridedBatched: R_64F, COMPUTE_64F;
}
