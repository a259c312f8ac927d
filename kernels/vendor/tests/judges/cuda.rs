//! CUDA's driver, cuBLASLt, cuBLAS and NVRTC as `cudarc` binds them (CUDA 13.1), NVML as `nvml-wrapper-sys` does.

use std::any::{type_name, type_name_of_val};
use std::mem::offset_of;

use cudarc::cublas::sys as blas;
use cudarc::cublaslt::sys as lt;
use cudarc::driver::sys as driver;
use cudarc::nvrtc::sys as nvrtc;
use nvml_wrapper_sys::bindings::NvmlLib;
use tgemm_db::problem::{Activation, ScaleMode};
use tgemm_db::{Compute, DType};
use tgemm_vendor::gpu::Dialect::Cuda;
use tgemm_vendor::gpu::blaslt::{Algo, algo};
use tgemm_vendor::gpu::numbers::{self, CUBLASLT, DeviceAttribute};
use tgemm_vendor::gpu::{Dialect, cublas};

use crate::kinds::{self, kind};

/// The bindings' own types of these functions, in the compiler's words. The marks stand for one argument each.
macro_rules! signatures {
    ($($module:ident::$function:ident($($argument:tt),*)),* $(,)?) => {
        vec![$((stringify!($function), type_name_of_val(&($module::$function as unsafe fn($($argument),*) -> _)))),*]
    };
}

/// The last names of enumerations, which must be 32-bit numbers to be passed as such.
macro_rules! enumerations {
    ($($module:ident::$name:ident),* $(,)?) => {
        vec![$({
            assert_eq!(size_of::<$module::$name>(), 4, stringify!($name));
            type_name::<$module::$name>().rsplit("::").next().unwrap().to_owned()
        }),*]
    };
}

#[rustfmt::skip]
fn signatures() -> Vec<(&'static str, &'static str)> {
    signatures![
        driver::cuInit(_),
        driver::cuDeviceGetCount(_),
        driver::cuDriverGetVersion(_),
        driver::cuDeviceGetAttribute(_, _, _),
        driver::cuDeviceGetPCIBusId(_, _, _),
        driver::cuDeviceTotalMem_v2(_, _),
        driver::cuDevicePrimaryCtxRetain(_, _),
        driver::cuCtxSetCurrent(_),
        driver::cuCtxGetCurrent(_),
        driver::cuCtxGetDevice(_),
        driver::cuMemGetInfo_v2(_, _),
        driver::cuMemAlloc_v2(_, _),
        driver::cuMemFree_v2(_),
        driver::cuMemsetD8Async(_, _, _, _),
        driver::cuMemcpyHtoDAsync_v2(_, _, _, _),
        driver::cuMemcpyDtoHAsync_v2(_, _, _, _),
        driver::cuMemcpyDtoDAsync_v2(_, _, _, _),
        driver::cuStreamCreate(_, _),
        driver::cuStreamSynchronize(_),
        driver::cuStreamDestroy_v2(_),
        driver::cuStreamIsCapturing(_, _),
        driver::cuThreadExchangeStreamCaptureMode(_),
        driver::cuCtxSynchronize(),
        driver::cuEventCreate(_, _),
        driver::cuEventRecord(_, _),
        driver::cuEventSynchronize(_),
        driver::cuEventElapsedTime_v2(_, _, _),
        driver::cuEventDestroy_v2(_),
        driver::cuStreamBeginCapture_v2(_, _),
        driver::cuStreamEndCapture(_, _),
        driver::cuGraphInstantiateWithFlags(_, _, _),
        driver::cuGraphLaunch(_, _),
        driver::cuGraphExecDestroy(_),
        driver::cuGraphDestroy(_),
        driver::cuModuleLoadData(_, _),
        driver::cuModuleGetFunction(_, _, _),
        driver::cuModuleUnload(_),
        driver::cuLaunchKernel(_, _, _, _, _, _, _, _, _, _, _),
        lt::cublasLtCreate(_),
        lt::cublasLtDestroy(_),
        lt::cublasLtMatrixLayoutCreate(_, _, _, _, _),
        lt::cublasLtMatrixLayoutDestroy(_),
        lt::cublasLtMatrixLayoutSetAttribute(_, _, _, _),
        lt::cublasLtMatrixLayoutGetAttribute(_, _, _, _, _),
        lt::cublasLtMatmulDescCreate(_, _, _),
        lt::cublasLtMatmulDescDestroy(_),
        lt::cublasLtMatmulDescSetAttribute(_, _, _, _),
        lt::cublasLtMatmulDescGetAttribute(_, _, _, _, _),
        lt::cublasLtMatmulPreferenceCreate(_),
        lt::cublasLtMatmulPreferenceDestroy(_),
        lt::cublasLtMatmulPreferenceSetAttribute(_, _, _, _),
        lt::cublasLtMatmulAlgoGetHeuristic(_, _, _, _, _, _, _, _, _, _),
        lt::cublasLtMatmul(_, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _),
        lt::cublasLtGetProperty(_, _),
        lt::cublasLtMatmulAlgoInit(_, _, _, _, _, _, _, _, _),
        lt::cublasLtMatmulAlgoCapGetAttribute(_, _, _, _, _),
        lt::cublasLtMatmulAlgoConfigSetAttribute(_, _, _, _),
        lt::cublasLtMatmulAlgoConfigGetAttribute(_, _, _, _, _),
        lt::cublasLtMatmulAlgoCheck(_, _, _, _, _, _, _, _),
        blas::cublasCreate_v2(_),
        blas::cublasDestroy_v2(_),
        blas::cublasSetStream_v2(_, _),
        blas::cublasSetWorkspace_v2(_, _, _),
        blas::cublasGetProperty(_, _),
        blas::cublasGemmEx(_, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _),
        blas::cublasGemmStridedBatchedEx(_, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _),
        nvrtc::nvrtcVersion(_, _),
        nvrtc::nvrtcCreateProgram(_, _, _, _, _, _),
        nvrtc::nvrtcDestroyProgram(_),
        nvrtc::nvrtcCompileProgram(_, _, _),
        nvrtc::nvrtcGetProgramLogSize(_, _),
        nvrtc::nvrtcGetProgramLog(_, _),
        nvrtc::nvrtcGetCUBINSize(_, _),
        nvrtc::nvrtcGetCUBIN(_, _),
    ]
}

fn nvml_signatures() -> Vec<(&'static str, &'static str)> {
    fn of<T, E>(_: fn(&NvmlLib) -> &Result<T, E>) -> &'static str {
        type_name::<T>()
    }
    vec![
        ("nvmlInit_v2", of(|lib| &lib.nvmlInit_v2)),
        ("nvmlSystemGetDriverVersion", of(|lib| &lib.nvmlSystemGetDriverVersion)),
        ("nvmlDeviceGetHandleByPciBusId_v2", of(|lib| &lib.nvmlDeviceGetHandleByPciBusId_v2)),
        ("nvmlDeviceGetClockInfo", of(|lib| &lib.nvmlDeviceGetClockInfo)),
        ("nvmlDeviceGetCurrentClocksThrottleReasons", of(|lib| &lib.nvmlDeviceGetCurrentClocksThrottleReasons)),
        ("nvmlDeviceGetComputeRunningProcesses_v3", of(|lib| &lib.nvmlDeviceGetComputeRunningProcesses_v3)),
    ]
}

fn enums() -> Vec<String> {
    enumerations![
        driver::CUresult,
        driver::CUdevice_attribute_enum,
        driver::CUstreamCaptureMode_enum,
        driver::CUstreamCaptureStatus_enum,
        lt::cublasStatus_t,
        lt::cublasComputeType_t,
        lt::cudaDataType_t,
        lt::libraryPropertyType_t,
        lt::cublasLtMatmulAlgoCapAttributes_t,
        lt::cublasLtMatmulAlgoConfigAttributes_t,
        lt::cublasLtMatmulDescAttributes_t,
        lt::cublasLtMatmulPreferenceAttributes_t,
        lt::cublasLtMatrixLayoutAttribute_t,
        blas::cublasGemmAlgo_t,
        blas::cublasOperation_t,
        nvrtc::nvrtcResult,
    ]
}

/// Where ours is a pointer, or a 32-bit number, and NVIDIA's another type of the same register.
///
/// `CUdeviceptr` is an integer as wide as a pointer; `cuMemsetD8Async` reads the low byte of its second argument.
const PASSED_ALIKE: [(&str, usize, &str, &str); 8] = [
    ("cuMemAlloc_v2", 0, "**any", "*u64"),
    ("cuMemFree_v2", 0, "*any", "u64"),
    ("cuMemsetD8Async", 0, "*any", "u64"),
    ("cuMemsetD8Async", 1, "i32", "u8"),
    ("cuMemcpyHtoDAsync_v2", 0, "*any", "u64"),
    ("cuMemcpyDtoHAsync_v2", 1, "&any", "u64"),
    ("cuMemcpyDtoDAsync_v2", 0, "*any", "u64"),
    ("cuMemcpyDtoDAsync_v2", 1, "&any", "u64"),
];

/// The kinds of the arguments and of the result in the compiler's name of a function's type.
fn read(signature: &str, enums: &[String]) -> (Vec<String>, String) {
    let (arguments, result) = signature.split_once("fn(").unwrap().1.rsplit_once(") -> ").unwrap();
    let arguments = arguments.split(", ").filter(|text| !text.is_empty()).map(|text| kind(text, enums)).collect();
    (arguments, kind(result, enums))
}

#[test]
fn the_signatures_are_those_of_the_headers() {
    let (enums, mut judges) = (enums(), signatures());
    judges.extend(nvml_signatures());
    // Headers since CUDA 12.8 spell it with its second version, of the same type; drivers still have the first.
    for (name, _) in judges.iter_mut().filter(|(name, _)| *name == "cuEventElapsedTime_v2") {
        *name = "cuEventElapsedTime";
    }
    let ours = kinds::ours(Dialect::Cuda);
    assert_eq!(ours.len(), judges.len(), "a function without a judge, or a judge without a function");
    let mut differences = Vec::new();
    for (symbol, ours) in ours {
        let judge = judges.iter().find(|(name, _)| *name == symbol);
        let (mut theirs, status) = read(judge.unwrap_or_else(|| panic!("{symbol} is not judged")).1, &enums);
        for (_, at, here, there) in PASSED_ALIKE.iter().filter(|alike| alike.0 == symbol) {
            assert_eq!((ours[*at].as_str(), theirs[*at].as_str()), (*here, *there), "{symbol}, argument {at}");
            theirs[*at] = ours[*at].clone();
        }
        if ours != theirs {
            differences.push(format!("{symbol}\n  ours   {ours:?}\n  theirs {theirs:?}"));
        }
        assert!(!theirs.contains(&"any".to_owned()), "{symbol} takes a struct by value");
        assert!(["i32", "u32"].contains(&status.as_str()), "{symbol} returns {status}");
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert_eq!(size_of::<driver::CUdeviceptr>(), size_of::<*const ()>());
}

#[test]
fn structs_lie_as_in_the_headers() {
    type Result = lt::cublasLtMatmulHeuristicResult_t;
    assert_eq!(Algo::bytes_len(Cuda), size_of::<lt::cublasLtMatmulAlgo_t>());
    assert!(align_of::<Algo>() >= align_of::<lt::cublasLtMatmulAlgo_t>());
    let theirs = (
        size_of::<Result>(),
        offset_of!(Result, workspaceSize),
        offset_of!(Result, state),
        offset_of!(Result, wavesCount),
    );
    assert_eq!(algo::result_layout(Cuda), theirs);
    assert_eq!(offset_of!(Result, algo), 0);
}

#[test]
fn the_words_of_a_product_are_those_of_the_headers() {
    use lt::cublasComputeType_t as C;
    use lt::cublasLtEpilogue_t as E;
    use lt::cublasLtMatmulMatrixScale_t as S;
    use lt::cudaDataType_t as T;
    let types = [
        (DType::F32, T::CUDA_R_32F),
        (DType::F64, T::CUDA_R_64F),
        (DType::F16, T::CUDA_R_16F),
        (DType::I8, T::CUDA_R_8I),
        (DType::I32, T::CUDA_R_32I),
        (DType::Bf16, T::CUDA_R_16BF),
        (DType::F8E4m3Fn, T::CUDA_R_8F_E4M3),
        (DType::F8E5m2, T::CUDA_R_8F_E5M2),
    ];
    for dtype in DType::all() {
        let theirs = types.iter().find(|(known, _)| *known == dtype).map(|(_, number)| *number as i32);
        assert_eq!(numbers::data_type(Cuda, dtype), theirs, "{dtype}");
    }
    let single = T::CUDA_R_32F as i32;
    let compute = |compute| numbers::compute_type(Cuda, compute);
    assert_eq!(compute(Compute::F32), Some((C::CUBLAS_COMPUTE_32F as i32, single)));
    assert_eq!(compute(Compute::Tf32), Some((C::CUBLAS_COMPUTE_32F_FAST_TF32 as i32, single)));
    assert_eq!(numbers::operation(Cuda, false), blas::cublasOperation_t::CUBLAS_OP_N as i32);
    assert_eq!(numbers::operation(Cuda, true), blas::cublasOperation_t::CUBLAS_OP_T as i32);
    for (activation, bias, theirs) in [
        (Activation::None, false, E::CUBLASLT_EPILOGUE_DEFAULT),
        (Activation::None, true, E::CUBLASLT_EPILOGUE_BIAS),
        (Activation::Relu, false, E::CUBLASLT_EPILOGUE_RELU),
        (Activation::Relu, true, E::CUBLASLT_EPILOGUE_RELU_BIAS),
        (Activation::Gelu, false, E::CUBLASLT_EPILOGUE_GELU),
        (Activation::Gelu, true, E::CUBLASLT_EPILOGUE_GELU_BIAS),
    ] {
        assert_eq!(numbers::epilogue(Cuda, activation, bias), Some(theirs as u32), "{theirs:?}");
    }
    let scalar = S::CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F as i32;
    let outer = S::CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F as i32;
    let of_weights = S::CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F as i32;
    let of_activations = S::CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F as i32;
    assert_eq!(numbers::scale_modes(ScaleMode::Tensor), Some((scalar, scalar)));
    assert_eq!(numbers::scale_modes(ScaleMode::TokenChannel), Some((outer, outer)));
    assert_eq!(numbers::scale_modes(ScaleMode::Block128), Some((of_weights, of_activations)));
}

#[test]
fn the_attributes_are_those_of_the_headers() {
    use lt::cublasLtMatmulDescAttributes_t as D;
    use lt::cublasLtMatmulPreferenceAttributes_t as P;
    use lt::cublasLtMatrixLayoutAttribute_t as L;
    // By field, so that one that is added without a judge does not compile.
    let theirs = numbers::LtNumbers {
        layout_type: L::CUBLASLT_MATRIX_LAYOUT_TYPE as i32,
        layout_order: L::CUBLASLT_MATRIX_LAYOUT_ORDER as i32,
        layout_rows: L::CUBLASLT_MATRIX_LAYOUT_ROWS as i32,
        layout_cols: L::CUBLASLT_MATRIX_LAYOUT_COLS as i32,
        layout_ld: L::CUBLASLT_MATRIX_LAYOUT_LD as i32,
        layout_batch_count: L::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT as i32,
        layout_strided_batch_offset: L::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET as i32,
        desc_transa: D::CUBLASLT_MATMUL_DESC_TRANSA as i32,
        desc_transb: D::CUBLASLT_MATMUL_DESC_TRANSB as i32,
        desc_epilogue: D::CUBLASLT_MATMUL_DESC_EPILOGUE as i32,
        desc_bias_pointer: D::CUBLASLT_MATMUL_DESC_BIAS_POINTER as i32,
        desc_bias_data_type: D::CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE as i32,
        desc_pointer_mode: D::CUBLASLT_MATMUL_DESC_POINTER_MODE as i32,
        desc_a_scale_pointer: D::CUBLASLT_MATMUL_DESC_A_SCALE_POINTER as i32,
        desc_b_scale_pointer: D::CUBLASLT_MATMUL_DESC_B_SCALE_POINTER as i32,
        desc_a_scale_mode: D::CUBLASLT_MATMUL_DESC_A_SCALE_MODE as i32,
        desc_b_scale_mode: D::CUBLASLT_MATMUL_DESC_B_SCALE_MODE as i32,
        desc_fast_accum: D::CUBLASLT_MATMUL_DESC_FAST_ACCUM as i32,
        desc_compute_type: D::CUBLASLT_MATMUL_DESC_COMPUTE_TYPE as i32,
        desc_scale_type: D::CUBLASLT_MATMUL_DESC_SCALE_TYPE as i32,
        pref_search_mode: P::CUBLASLT_MATMUL_PREF_SEARCH_MODE as i32,
        pref_max_workspace_bytes: P::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES as i32,
        pref_reduction_scheme_mask: P::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK as i32,
        pref_min_alignment_a_bytes: P::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES as i32,
    };
    assert_eq!(format!("{CUBLASLT:#?}"), format!("{theirs:#?}"));
    let of_a = P::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES as i32;
    let others = [
        P::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        P::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
        P::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
    ];
    assert_eq!(others.map(|other| other as i32 - of_a), [1, 2, 3], "B, C and D follow A");
}

#[test]
fn devices_and_statuses_are_named_as_in_the_headers() {
    use driver::CUdevice_attribute_enum as A;
    use driver::cudaError_enum as S;
    for (ours, theirs) in [
        (DeviceAttribute::MultiprocessorCount, A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
        (DeviceAttribute::L2CacheBytes, A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
        (DeviceAttribute::WarpSize, A::CU_DEVICE_ATTRIBUTE_WARP_SIZE),
        (DeviceAttribute::ComputeCapabilityMajor, A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
        (DeviceAttribute::ComputeCapabilityMinor, A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
    ] {
        assert_eq!(ours.number(Cuda), theirs as i32, "{theirs:?}");
    }
    let poisonous = [
        S::CUDA_ERROR_ILLEGAL_ADDRESS,
        S::CUDA_ERROR_LAUNCH_TIMEOUT,
        S::CUDA_ERROR_HARDWARE_STACK_ERROR,
        S::CUDA_ERROR_ILLEGAL_INSTRUCTION,
        S::CUDA_ERROR_MISALIGNED_ADDRESS,
        S::CUDA_ERROR_INVALID_ADDRESS_SPACE,
        S::CUDA_ERROR_INVALID_PC,
        S::CUDA_ERROR_LAUNCH_FAILED,
    ];
    for status in 0..1000 {
        let theirs = poisonous.iter().any(|known| *known as i32 == status);
        assert_eq!(numbers::poisons(Cuda, status), theirs, "{status}");
    }
    assert_eq!(numbers::OUT_OF_MEMORY, S::CUDA_ERROR_OUT_OF_MEMORY as i32);
    assert_eq!(numbers::NO_DEVICE, S::CUDA_ERROR_NO_DEVICE as i32);
    assert_eq!(numbers::not_supported(Cuda), lt::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED as i32);
    assert_eq!(numbers::STREAM_NON_BLOCKING, driver::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32);
    let thread_local = driver::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    assert_eq!(numbers::CAPTURE_THREAD_LOCAL, thread_local as i32);
    let relaxed = driver::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_RELAXED;
    assert_eq!(numbers::CAPTURE_RELAXED, relaxed as i32);
    assert_eq!(cublas::GEMM_DEFAULT, blas::cublasGemmAlgo_t::CUBLAS_GEMM_DFALT as i32);
    assert_eq!(cublas::GEMM_AUTOTUNE, blas::cublasGemmAlgo_t::CUBLAS_GEMM_AUTOTUNE as i32);
    let parts = [
        blas::libraryPropertyType_t::MAJOR_VERSION,
        blas::libraryPropertyType_t::MINOR_VERSION,
        blas::libraryPropertyType_t::PATCH_LEVEL,
    ];
    assert_eq!(parts.map(|part| part as i32), [0, 1, 2], "a version's parts in the order in which they are asked for");
}
