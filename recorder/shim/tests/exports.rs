//! The built library: what it needs of a host, and what it puts before the host's libraries. `TGEMM_SHIM` names another build
//! of it to look at.

#[path = "common/shim.rs"]
mod shim;

use std::collections::BTreeSet;
use std::process::Command;

/// The functions that a program gets from us instead of from its library. Every other name must stay the program's.
const HOOKED: &str = "
    cblas_sgemm cblas_dgemm cblas_sgemm64_ cblas_dgemm64_ cblas_sgemm_64 cblas_dgemm_64
    scipy_cblas_sgemm scipy_cblas_dgemm scipy_cblas_sgemm64_ scipy_cblas_dgemm64_
    sgemm_ dgemm_ sgemm_64_ dgemm_64_ scipy_sgemm_ scipy_dgemm_ scipy_sgemm_64_ scipy_dgemm_64_

    cublasSgemm_v2 cublasDgemm_v2 cublasGemmEx
    cublasSgemmStridedBatched cublasDgemmStridedBatched cublasGemmStridedBatchedEx
    cublasLtMatmul cublasSetStream_v2 cublasSetWorkspace_v2 cublasDestroy_v2

    hipblasSgemm hipblasGemmEx hipblasGemmEx_v2
    hipblasSgemmStridedBatched hipblasGemmStridedBatchedEx hipblasGemmStridedBatchedEx_v2
    hipblasLtMatmul hipblasLtMatmulDescCreate hipblasLtMatmulDescDestroy
    hipblasSetWorkspace hipblasDestroy
    rocblas_gemm_ex rocblas_gemm_strided_batched_ex rocblas_set_workspace rocblas_destroy_handle

    cudaStreamBeginCapture cudaStreamBeginCapture_ptsz cudaStreamEndCapture cudaStreamEndCapture_ptsz
    cudaGraphInstantiate cudaGraphInstantiateWithFlags
    cudaGraphInstantiateWithParams cudaGraphInstantiateWithParams_ptsz
    cudaGraphLaunch cudaGraphLaunch_ptsz cudaGraphClone cudaGraphAddChildGraphNode cudaGraphExecUpdate
    cudaGraphDestroy cudaGraphExecDestroy

    cuStreamBeginCapture_v2 cuStreamBeginCapture_v2_ptsz cuStreamEndCapture cuStreamEndCapture_ptsz
    cuGraphInstantiateWithFlags cuGraphInstantiateWithParams cuGraphInstantiateWithParams_ptsz
    cuGraphLaunch cuGraphLaunch_ptsz cuGraphClone cuGraphAddChildGraphNode cuGraphExecUpdate_v2
    cuGraphDestroy cuGraphExecDestroy

    hipStreamBeginCapture hipStreamBeginCapture_spt hipStreamEndCapture hipStreamEndCapture_spt
    hipGraphInstantiate hipGraphInstantiateWithFlags hipGraphInstantiateWithParams
    hipGraphLaunch hipGraphLaunch_spt hipGraphClone hipGraphAddChildGraphNode hipGraphExecUpdate
    hipGraphDestroy hipGraphExecDestroy
";

/// Functions of our own, which no library has.
const OURS: &str = "tgemm_shim_pause";

/// Libraries that every program with a C library has, or can have without harm.
const NEEDED: [&str; 6] = ["libc.so.6", "libm.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "ld-linux-"];

/// What `program` of the binutils says; `None`, with a message, if it is not here.
fn told(program: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(program).args(arguments).arg(shim::shim()).env("LC_ALL", "C").output() {
        Ok(output) if output.status.success() => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Ok(output) => panic!("{program}: {}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            eprintln!("skipped: {program}: {error}");
            None
        }
    }
}

#[test]
fn only_hooked_names_are_exported() {
    let Some(text) = told("nm", &["-D", "--defined-only"]) else { return };
    let exported: BTreeSet<&str> = text.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    let wanted: BTreeSet<&str> = HOOKED.split_whitespace().chain(OURS.split_whitespace()).collect();
    let missing: Vec<_> = wanted.difference(&exported).collect();
    let stray: Vec<_> = exported.difference(&wanted).collect();
    assert!(missing.is_empty() && stray.is_empty(), "missing: {missing:?}, exported without a reason: {stray:?}");
}

#[test]
fn a_host_needs_nothing_for_it() {
    let Some(text) = told("readelf", &["-d", "--wide"]) else { return };
    let needed: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .filter_map(|line| line.split_once('[')?.1.strip_suffix(']'))
        .collect();
    assert!(needed.contains(&"libc.so.6"), "{text}");
    let stray: Vec<_> = needed.iter().filter(|name| !NEEDED.iter().any(|may| name.starts_with(may))).collect();
    assert!(stray.is_empty(), "needed, and perhaps not there: {stray:?}");
    // Nothing may be searched in folders of the machine that built it, nor be written to where code lies.
    assert!(!text.contains("(RPATH)") && !text.contains("(RUNPATH)") && !text.contains("(TEXTREL)"), "{text}");
}
