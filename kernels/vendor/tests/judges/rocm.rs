//! HIP, hipRTC and hipBLASLt as AMD's own Python bindings have them, compiled against the headers of the newest ROCm.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tgemm_db::problem::{Activation, ScaleMode};
use tgemm_db::{Compute, DType};
use tgemm_vendor::gpu::Dialect::{self, Hip};
use tgemm_vendor::gpu::blaslt::{Algo, algo};
use tgemm_vendor::gpu::numbers::{self, DeviceAttribute, HIPBLASLT};
use tgemm_vendor::gpu::runtime::HipProperties;

use crate::kinds;
use crate::python::{python, run};

/// Numbers by the headers' names.
fn numbers_told() -> Value {
    let mut told = serde_json::Map::new();
    let mut tell = |name: String, number: Value| assert!(told.insert(name, number).is_none());
    for (dtype, name) in [
        (DType::F32, "HIP_R_32F"),
        (DType::F64, "HIP_R_64F"),
        (DType::F16, "HIP_R_16F"),
        (DType::I8, "HIP_R_8I"),
        (DType::I32, "HIP_R_32I"),
        (DType::Bf16, "HIP_R_16BF"),
        (DType::F8E4m3Fn, "HIP_R_8F_E4M3"),
        (DType::F8E5m2, "HIP_R_8F_E5M2"),
        (DType::F8E4m3Fnuz, "HIP_R_8F_E4M3_FNUZ"),
        (DType::F8E5m2Fnuz, "HIP_R_8F_E5M2_FNUZ"),
    ] {
        tell(format!("hip.hipDataType.{name}"), json!(numbers::data_type(Hip, dtype)));
    }
    for (compute, name) in [(Compute::F32, "HIPBLAS_COMPUTE_32F"), (Compute::Tf32, "HIPBLAS_COMPUTE_32F_FAST_TF32")] {
        let (ours, scale) = numbers::compute_type(Hip, compute).expect(name);
        tell(format!("hipblas.hipblasComputeType_t.{name}"), json!(ours));
        assert_eq!(Some(scale), numbers::data_type(Hip, DType::F32), "{name}");
    }
    for (transposed, name) in [(false, "HIPBLAS_OP_N"), (true, "HIPBLAS_OP_T")] {
        tell(format!("hipblas.hipblasOperation_t.{name}"), json!(numbers::operation(Hip, transposed)));
    }
    for (activation, bias, name) in [
        (Activation::None, false, "DEFAULT"),
        (Activation::None, true, "BIAS"),
        (Activation::Relu, false, "RELU"),
        (Activation::Relu, true, "RELU_BIAS"),
        (Activation::Gelu, false, "GELU"),
        (Activation::Gelu, true, "GELU_BIAS"),
        (Activation::Silu, false, "SWISH_EXT"),
        (Activation::Silu, true, "SWISH_BIAS_EXT"),
    ] {
        let ours = numbers::epilogue(Hip, activation, bias);
        tell(format!("hipblaslt.hipblasLtEpilogue_t.HIPBLASLT_EPILOGUE_{name}"), json!(ours));
    }
    let modes = |scale| numbers::scale_modes(scale).expect("a mode that hipBLASLt has");
    let (weights, activations) = modes(ScaleMode::Block128);
    for (ours, name) in [
        (modes(ScaleMode::Tensor).0, "SCALAR_32F"),
        (modes(ScaleMode::TokenChannel).0, "OUTER_VEC_32F"),
        (weights, "BLK128x128_32F"),
        (activations, "VEC128_32F"),
    ] {
        tell(format!("hipblaslt.hipblasLtMatmulMatrixScale_t.HIPBLASLT_MATMUL_MATRIX_SCALE_{name}"), json!(ours));
    }
    attributes(&mut tell);
    statuses(&mut tell);
    Value::Object(told)
}

fn attributes(tell: &mut impl FnMut(String, Value)) {
    let n = &HIPBLASLT;
    for (ours, name) in [
        (n.layout_type, "MatrixLayoutAttribute_t.HIPBLASLT_MATRIX_LAYOUT_TYPE"),
        (n.layout_order, "MatrixLayoutAttribute_t.HIPBLASLT_MATRIX_LAYOUT_ORDER"),
        (n.layout_rows, "MatrixLayoutAttribute_t.HIPBLASLT_MATRIX_LAYOUT_ROWS"),
        (n.layout_cols, "MatrixLayoutAttribute_t.HIPBLASLT_MATRIX_LAYOUT_COLS"),
        (n.layout_ld, "MatrixLayoutAttribute_t.HIPBLASLT_MATRIX_LAYOUT_LD"),
        (n.layout_batch_count, "MatrixLayoutAttribute_t.HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT"),
        (n.layout_strided_batch_offset, "MatrixLayoutAttribute_t.HIPBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET"),
        (n.desc_transa, "MatmulDescAttributes_t.HIPBLASLT_MATMUL_DESC_TRANSA"),
        (n.desc_transb, "MatmulDescAttributes_t.HIPBLASLT_MATMUL_DESC_TRANSB"),
        (n.desc_epilogue, "MatmulDescAttributes_t.HIPBLASLT_MATMUL_DESC_EPILOGUE"),
        (n.desc_bias_pointer, "MatmulDescAttributes_t.HIPBLASLT_MATMUL_DESC_BIAS_POINTER"),
        (n.desc_bias_data_type, "MatmulDescAttributes_t.HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE"),
        (n.desc_pointer_mode, "MatmulDescAttributes_t.HIPBLASLT_MATMUL_DESC_POINTER_MODE"),
        (n.desc_a_scale_pointer, "MatmulDescAttributes_t.HIPBLASLT_MATMUL_DESC_A_SCALE_POINTER"),
        (n.desc_b_scale_pointer, "MatmulDescAttributes_t.HIPBLASLT_MATMUL_DESC_B_SCALE_POINTER"),
        (n.desc_a_scale_mode, "MatmulDescAttributes_t.HIPBLASLT_MATMUL_DESC_A_SCALE_MODE"),
        (n.desc_b_scale_mode, "MatmulDescAttributes_t.HIPBLASLT_MATMUL_DESC_B_SCALE_MODE"),
        (n.pref_search_mode, "MatmulPreferenceAttributes_t.HIPBLASLT_MATMUL_PREF_SEARCH_MODE"),
        (n.pref_max_workspace_bytes, "MatmulPreferenceAttributes_t.HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES"),
    ] {
        tell(format!("hipblaslt.hipblasLt{name}"), json!(ours));
    }
    // Those that only CUDA has must never be asked of hipBLASLt.
    let absent = [
        n.desc_fast_accum,
        n.desc_compute_type,
        n.desc_scale_type,
        n.pref_reduction_scheme_mask,
        n.pref_min_alignment_a_bytes,
    ];
    assert!(absent.iter().all(|number| *number == -1), "{absent:?}");
    for (attribute, name) in [
        (DeviceAttribute::MultiprocessorCount, "MultiprocessorCount"),
        (DeviceAttribute::L2CacheBytes, "L2CacheSize"),
        (DeviceAttribute::WarpSize, "WarpSize"),
        (DeviceAttribute::ComputeCapabilityMajor, "ComputeCapabilityMajor"),
        (DeviceAttribute::ComputeCapabilityMinor, "ComputeCapabilityMinor"),
    ] {
        tell(format!("hip.hipDeviceAttribute_t.hipDeviceAttribute{name}"), json!(attribute.number(Hip)));
    }
}

fn statuses(tell: &mut impl FnMut(String, Value)) {
    for (ours, name) in [
        (numbers::OUT_OF_MEMORY, "hipError_t.hipErrorOutOfMemory"),
        (numbers::NO_DEVICE, "hipError_t.hipErrorNoDevice"),
        (numbers::HIP_COPY_IN, "hipMemcpyKind.hipMemcpyHostToDevice"),
        (numbers::HIP_COPY_OUT, "hipMemcpyKind.hipMemcpyDeviceToHost"),
        (numbers::HIP_COPY_WITHIN, "hipMemcpyKind.hipMemcpyDeviceToDevice"),
        (numbers::STREAM_NON_BLOCKING as i32, "hipStreamNonBlocking"),
        (numbers::CAPTURE_THREAD_LOCAL, "hipStreamCaptureMode.hipStreamCaptureModeThreadLocal"),
        (numbers::CAPTURE_RELAXED, "hipStreamCaptureMode.hipStreamCaptureModeRelaxed"),
    ] {
        tell(format!("hip.{name}"), json!(ours));
    }
    let unsupported = numbers::not_supported(Hip);
    tell("hipblas.hipblasStatus_t.HIPBLAS_STATUS_NOT_SUPPORTED".into(), json!(unsupported));
    let poisonous: Vec<_> = (0..1100).filter(|status| numbers::poisons(Hip, *status)).collect();
    let names = ["hipErrorIllegalAddress", "hipErrorLaunchTimeOut", "hipErrorLaunchFailure"];
    assert_eq!(poisonous.len(), names.len(), "{poisonous:?}");
    for (status, name) in poisonous.into_iter().zip(names) {
        tell(format!("hip.hipError_t.{name}"), json!(status));
    }
}

/// Where we read fields of structs: their first byte and, of a number, how many there are.
fn structs_told() -> Value {
    let (bytes, workspace_at, state_at, waves_at) = algo::result_layout(Hip);
    json!({
        "hip.hipDeviceProp_t": {
            "bytes": HipProperties::RECORD_BYTES,
            "fields": {
                "totalGlobalMem": [HipProperties::TOTAL_GLOBAL_MEM_AT, 8],
                "multiProcessorCount": [HipProperties::MULTI_PROCESSOR_COUNT_AT, 4],
                "l2CacheSize": [HipProperties::L2_CACHE_SIZE_AT, 4],
                "gcnArchName": [HipProperties::GCN_ARCH_NAME_AT, null],
            },
        },
        "hipblaslt.hipblasLtMatmulAlgo_t": { "bytes": Algo::bytes_len(Hip), "fields": {} },
        "hipblaslt.hipblasLtMatmulHeuristicResult_t": {
            "bytes": bytes,
            "fields": { "workspaceSize": [workspace_at, 8], "state": [state_at, 4], "wavesCount": [waves_at, 4] },
        },
    })
}

/// All that the bindings can judge. rocBLAS is not in them, nor are the C++ functions of `hipblaslt-ext.hpp`.
fn facts() -> Value {
    let bound = |symbol: &str| !symbol.starts_with("rocblas_") && !symbol.starts_with("_Z");
    let symbols = kinds::ours(Dialect::Hip).into_iter().filter(|(symbol, _)| bound(symbol));
    let symbols: serde_json::Map<_, _> = symbols.map(|(symbol, kinds)| (symbol.to_owned(), json!(kinds))).collect();
    json!({ "numbers": numbers_told(), "symbols": symbols, "structs": structs_told() })
}

#[test]
fn amds_own_bindings_agree() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let Some(python) = python(folder) else { return };
    let told = folder.join("rocm_facts.json");
    std::fs::write(&told, facts().to_string()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/judges/rocm_numbers.py");
    let verdict = run(Command::new(python).arg(script).arg(&told));
    println!("{}", verdict.unwrap_or_else(|differences| panic!("{differences}")));
}
