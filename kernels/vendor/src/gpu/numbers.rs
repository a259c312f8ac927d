//! What each dialect calls a type, a compute mode, an attribute, an epilogue.
//!
//! Sources: CUDA 13.0's `library_types.h`, `cublas_api.h` and `cublasLt.h` (numbers unchanged since CUDA 12.0 unless said);
//! hipBLASLt's `hipblaslt.h` and hipBLAS-common's `hipblas-common.h` of ROCm 6.0 to 7.2 (unchanged over them unless said),
//! HIP's `library_types.h` and `hip_runtime_api.h`. A test holds AMD's numbers against the enum classes that AMD's own
//! Python bindings carry.

use tgemm_db::problem::{Activation, ScaleMode};
use tgemm_db::{Compute, DType};

use super::Dialect;

/// `hipDataType` and `cudaDataType_t`: the same numbers, but for AMD's own 8-bit types, which CUDA has not.
pub fn data_type(dialect: Dialect, dtype: DType) -> Option<i32> {
    Some(match dtype {
        DType::F32 => 0,
        DType::F64 => 1,
        DType::F16 => 2,
        DType::I8 => 3,
        DType::I32 => 10,
        DType::Bf16 => 14,
        DType::F8E4m3Fn => 28,
        DType::F8E5m2 => 29,
        DType::F8E4m3Fnuz if dialect == Dialect::Hip => 1000,
        DType::F8E5m2Fnuz if dialect == Dialect::Hip => 1001,
        _ => return None,
    })
}

/// The element type behind a number of [`data_type`].
pub fn dtype_of(number: i32) -> Option<DType> {
    let known = [DType::F32, DType::F64, DType::F16, DType::I8, DType::I32, DType::Bf16, DType::F8E4m3Fn];
    let known = known.into_iter().chain([DType::F8E5m2, DType::F8E4m3Fnuz, DType::F8E5m2Fnuz]);
    known.into_iter().find(|dtype| data_type(Dialect::Hip, *dtype) == Some(number))
}

/// `hipblasComputeType_t` and `cublasComputeType_t`, each with the type of alpha and beta.
pub fn compute_type(dialect: Dialect, compute: Compute) -> Option<(i32, i32)> {
    const R_32F: i32 = 0;
    Some(match compute {
        Compute::F32 => (dialect.pick(2, 68), R_32F),
        Compute::Tf32 => (dialect.pick(6, 77), R_32F),
        _ => return None,
    })
}

/// The sums behind a number of `hipblasComputeType_t` or `cublasComputeType_t`. The forms that only promise to follow the
/// data types (cuBLAS' `PEDANTIC`) or that allow what is never done to these types are those they stand for; `None` where
/// there is no word for it (sums of 16 bits, products rounded to 16 bits).
pub fn compute_of(dialect: Dialect, number: i32) -> Option<Compute> {
    Some(match (dialect, number) {
        (Dialect::Cuda, 68 | 69) | (Dialect::Hip, 2 | 3) => Compute::F32,
        (Dialect::Cuda, 77) | (Dialect::Hip, 6) => Compute::Tf32,
        (Dialect::Cuda, 70 | 71) | (Dialect::Hip, 7 | 8) => Compute::F64,
        (Dialect::Cuda, 72 | 73) | (Dialect::Hip, 9 | 10) => Compute::I32,
        _ => return None,
    })
}

/// Is an operand of a number of `hipblasOperation_t` or `cublasOperation_t` transposed? Of real numbers the conjugate is
/// the number itself. `None` for no operation.
pub fn is_transposed(dialect: Dialect, number: i32) -> Option<bool> {
    match number - dialect.pick(111, 0) {
        0 => Some(false),
        1 | 2 => Some(true),
        _ => None,
    }
}

/// The activation and whether there is a bias, of a number of [`epilogue`]; `None` for those that write or read more.
pub fn epilogue_of(dialect: Dialect, number: u32) -> Option<(Activation, bool)> {
    let all = [Activation::None, Activation::Relu, Activation::Gelu, Activation::Silu];
    let all = all.into_iter().flat_map(|activation| [(activation, false), (activation, true)]);
    all.into_iter().find(|&(activation, bias)| epilogue(dialect, activation, bias) == Some(number))
}

/// The scale mode behind the numbers of A and B: see [`scale_modes`].
pub fn scale_mode_of(a: i32, b: i32) -> Option<ScaleMode> {
    [ScaleMode::Tensor, ScaleMode::TokenChannel, ScaleMode::Block128]
        .into_iter()
        .find(|mode| scale_modes(*mode) == Some((a, b)))
}

/// `hipblasOperation_t` and `cublasOperation_t`.
pub fn operation(dialect: Dialect, transposed: bool) -> i32 {
    dialect.pick(111, 0) + i32::from(transposed)
}

/// `hipblasLtEpilogue_t` and `cublasLtEpilogue_t`: the same numbers; SiLU (AMD's SWISH_EXT) is AMD's alone.
pub fn epilogue(dialect: Dialect, activation: Activation, bias: bool) -> Option<u32> {
    const BIAS: u32 = 4;
    let base = match activation {
        Activation::None => return Some(if bias { BIAS } else { 1 }),
        Activation::Relu => 2,
        Activation::Gelu => 32,
        Activation::Silu if dialect == Dialect::Hip => 65536,
        _ => return None,
    };
    Some(base + if bias { BIAS } else { 0 })
}

/// `hipblasLtMatmulMatrixScale_t` and `cublasLtMatmulMatrixScale_t` of A (the weights) and B (the activations).
pub fn scale_modes(scale: ScaleMode) -> Option<(i32, i32)> {
    const SCALAR: i32 = 0;
    const OUTER_VECTOR: i32 = 3;
    const VECTOR_128: i32 = 4;
    const BLOCK_128X128: i32 = 5;
    match scale {
        ScaleMode::Tensor => Some((SCALAR, SCALAR)),
        ScaleMode::TokenChannel => Some((OUTER_VECTOR, OUTER_VECTOR)),
        ScaleMode::Block128 => Some((BLOCK_128X128, VECTOR_128)),
        _ => None,
    }
}

/// The attribute numbers of hipBLASLt and cuBLASLt.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names are those of the headers, less their prefixes")]
pub struct LtNumbers {
    pub layout_type: i32,
    pub layout_order: i32,
    pub layout_rows: i32,
    pub layout_cols: i32,
    pub layout_ld: i32,
    pub layout_batch_count: i32,
    pub layout_strided_batch_offset: i32,
    pub desc_transa: i32,
    pub desc_transb: i32,
    pub desc_epilogue: i32,
    pub desc_bias_pointer: i32,
    pub desc_bias_data_type: i32,
    pub desc_pointer_mode: i32,
    pub desc_a_scale_pointer: i32,
    pub desc_b_scale_pointer: i32,
    pub desc_a_scale_mode: i32,
    pub desc_b_scale_mode: i32,
    /// CUDA only; -1 elsewhere.
    pub desc_fast_accum: i32,
    /// CUDA only; -1 elsewhere.
    pub desc_compute_type: i32,
    /// CUDA only; -1 elsewhere.
    pub desc_scale_type: i32,
    pub pref_search_mode: i32,
    pub pref_max_workspace_bytes: i32,
    /// CUDA only; -1 elsewhere.
    pub pref_reduction_scheme_mask: i32,
    /// CUDA only, of A; B, C and D follow; -1 elsewhere.
    pub pref_min_alignment_a_bytes: i32,
}

const NONE: i32 = -1;

/// hipBLASLt: `hipblasLtMatrixLayoutAttribute_t`, `hipblasLtMatmulDescAttributes_t`, `hipblasLtMatmulPreferenceAttributes_t`.
pub const HIPBLASLT: LtNumbers = LtNumbers {
    layout_batch_count: 0,
    layout_strided_batch_offset: 1,
    layout_type: 2,
    layout_order: 3,
    layout_rows: 4,
    layout_cols: 5,
    layout_ld: 6,
    desc_transa: 0,
    desc_transb: 1,
    desc_epilogue: 2,
    desc_bias_pointer: 3,
    desc_bias_data_type: 4,
    desc_a_scale_pointer: 5,
    desc_b_scale_pointer: 6,
    desc_pointer_mode: 13,
    // Since ROCm 7.0; before that 102 and 103 had another meaning, so vectors of scales are offered from 7.0 on.
    desc_a_scale_mode: 31,
    desc_b_scale_mode: 32,
    desc_fast_accum: NONE,
    desc_compute_type: NONE,
    desc_scale_type: NONE,
    pref_search_mode: 0,
    pref_max_workspace_bytes: 1,
    pref_reduction_scheme_mask: NONE,
    pref_min_alignment_a_bytes: NONE,
};

/// cuBLASLt: `cublasLtMatrixLayoutAttribute_t`, `cublasLtMatmulDescAttributes_t`, `cublasLtMatmulPreferenceAttributes_t`.
pub const CUBLASLT: LtNumbers = LtNumbers {
    layout_type: 0,
    layout_order: 1,
    layout_rows: 2,
    layout_cols: 3,
    layout_ld: 4,
    layout_batch_count: 5,
    layout_strided_batch_offset: 6,
    desc_compute_type: 0,
    desc_scale_type: 1,
    desc_pointer_mode: 2,
    desc_transa: 3,
    desc_transb: 4,
    desc_epilogue: 7,
    desc_bias_pointer: 8,
    desc_a_scale_pointer: 17,
    desc_b_scale_pointer: 18,
    desc_fast_accum: 25,
    desc_bias_data_type: 26,
    // Since 12.8 (vectors and blocks for compute capability 9.0 since 12.9).
    desc_a_scale_mode: 31,
    desc_b_scale_mode: 32,
    pref_search_mode: 0,
    pref_max_workspace_bytes: 1,
    pref_reduction_scheme_mask: 3,
    pref_min_alignment_a_bytes: 5,
};

/// The attribute numbers of `dialect`.
pub fn blaslt(dialect: Dialect) -> &'static LtNumbers {
    dialect.pick(&HIPBLASLT, &CUBLASLT)
}

/// `hipDeviceAttribute_t` (the same from HIP 5.7 to 7.2) and `CUdevice_attribute`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceAttribute {
    /// Compute units, multiprocessors.
    MultiprocessorCount,
    /// Bytes of the L2 cache.
    L2CacheBytes,
    /// Threads of a wave or warp.
    WarpSize,
    /// Major part of the compute capability.
    ComputeCapabilityMajor,
    /// Minor part.
    ComputeCapabilityMinor,
}

impl DeviceAttribute {
    /// Its number.
    pub fn number(self, dialect: Dialect) -> i32 {
        match self {
            DeviceAttribute::MultiprocessorCount => dialect.pick(63, 16),
            DeviceAttribute::L2CacheBytes => dialect.pick(19, 38),
            DeviceAttribute::WarpSize => dialect.pick(87, 10),
            DeviceAttribute::ComputeCapabilityMajor => dialect.pick(23, 75),
            DeviceAttribute::ComputeCapabilityMinor => dialect.pick(61, 76),
        }
    }
}

/// Statuses after which a context is not to be used again: an illegal address, a launch that ran too long, a launch that
/// failed; CUDA adds illegal instructions and misaligned addresses.
pub fn poisons(dialect: Dialect, status: i32) -> bool {
    match dialect {
        Dialect::Hip => matches!(status, 700 | 702 | 719),
        Dialect::Cuda => matches!(status, 700 | 702 | 714..=719),
    }
}

/// Status of an allocation for which there is no memory: `hipErrorOutOfMemory`, `CUDA_ERROR_OUT_OF_MEMORY`.
pub const OUT_OF_MEMORY: i32 = 2;

/// Status where there is no device: `hipErrorNoDevice`, `CUDA_ERROR_NO_DEVICE`.
pub const NO_DEVICE: i32 = 100;

/// Status of the BLAS libraries where nothing fits: `HIPBLAS_STATUS_NOT_SUPPORTED`, `CUBLAS_STATUS_NOT_SUPPORTED`.
pub fn not_supported(dialect: Dialect) -> i32 {
    dialect.pick(7, 15)
}

/// `hipMemcpyHostToDevice`.
pub const HIP_COPY_IN: i32 = 1;

/// `hipMemcpyDeviceToHost`.
pub const HIP_COPY_OUT: i32 = 2;

/// `hipMemcpyDeviceToDevice`.
pub const HIP_COPY_WITHIN: i32 = 3;

/// `hipStreamNonBlocking`, `CU_STREAM_NON_BLOCKING`: does not wait for the default stream.
pub const STREAM_NON_BLOCKING: u32 = 1;

/// `hipStreamCaptureModeThreadLocal`, `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`: what other threads do does not spoil a capture.
pub const CAPTURE_THREAD_LOCAL: i32 = 1;

/// `hipStreamCaptureModeRelaxed`, `CU_STREAM_CAPTURE_MODE_RELAXED`: a thread in this mode may allocate whatever is captured by others, and by itself.
pub const CAPTURE_RELAXED: i32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_round_trip_and_amd_keeps_its_own() {
        for dtype in DType::all() {
            if let Some(number) = data_type(Dialect::Hip, dtype) {
                assert_eq!(dtype_of(number), Some(dtype));
            }
        }
        assert_eq!(data_type(Dialect::Cuda, DType::F8E4m3Fnuz), None);
        assert_eq!(dtype_of(999), None);
        assert_eq!(epilogue(Dialect::Cuda, Activation::Silu, false), None);
        assert_eq!(epilogue(Dialect::Hip, Activation::Silu, true), Some(65540));
        assert_eq!(epilogue(Dialect::Cuda, Activation::Gelu, true), Some(36));
        assert_eq!((operation(Dialect::Hip, true), operation(Dialect::Cuda, false)), (112, 0));
    }

    #[test]
    fn what_is_written_is_read_back() {
        for dialect in Dialect::ALL {
            for transposed in [false, true] {
                assert_eq!(is_transposed(dialect, operation(dialect, transposed)), Some(transposed));
            }
            for compute in [Compute::F32, Compute::Tf32] {
                let (number, _) = compute_type(dialect, compute).unwrap();
                assert_eq!(compute_of(dialect, number), Some(compute));
            }
            for (activation, bias) in [(Activation::None, false), (Activation::None, true), (Activation::Gelu, true)] {
                let number = epilogue(dialect, activation, bias).unwrap();
                assert_eq!(epilogue_of(dialect, number), Some((activation, bias)));
            }
            assert_eq!(epilogue_of(dialect, 164), None, "GELU_AUX_BIAS writes the sum as well");
        }
        assert_eq!(is_transposed(Dialect::Hip, 0), None);
        for mode in [ScaleMode::Tensor, ScaleMode::TokenChannel, ScaleMode::Block128] {
            let (a, b) = scale_modes(mode).unwrap();
            assert_eq!(scale_mode_of(a, b), Some(mode));
        }
    }
}
