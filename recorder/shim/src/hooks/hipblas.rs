//! libhipblas: `hipblasGemmEx` under its names before and since ROCm 7, and what it is batched by.
//!
//! Before ROCm 7 `hipblasGemmEx` takes types as `hipblasDatatype_t` and `hipblasGemmEx_v2` as `hipDataType`; since then the
//! first is the second. The numbers tell which is meant.

use std::ffi::c_void;

use tgemm_db::Via;
use tgemm_vendor::gpu::Handle;

use super::arguments::{Arguments, HIP, Library, OnHandle, WORKSPACES, gemm_ex, typed};
use super::gpu::Facts;
use crate::real::Beside;

static LIBRARY: Library = Library {
    words: HIP,
    facts: Facts {
        pointer_mode: Beside::new(c"hipblasGetPointerMode"),
        stream: Beside::new(c"hipblasGetStream"),
        math_mode: None,
    },
    via: Via::GemmEx,
    version: |_| None,
};

/// `hipblasDatatype_t` of the typed calls.
const R_32F: i32 = 151;

super::watch! {
    fn hipblasSetWorkspace(handle: Handle, workspace: *mut c_void, bytes: usize) -> i32, || {
        WORKSPACES.set(handle as usize, [workspace as u64, bytes as u64]);
    };
    fn hipblasDestroy(handle: Handle) -> i32, || WORKSPACES.forget(handle as usize);
}

gemm_ex! { LIBRARY;
    hipblasGemmEx, hipblasGemmStridedBatchedEx;
    hipblasGemmEx_v2, hipblasGemmStridedBatchedEx_v2;
}

typed! { LIBRARY;
    hipblasSgemm, hipblasSgemmStridedBatched: R_32F, R_32F;
}
