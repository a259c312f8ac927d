//! What [`tgemm_vendor`] says of HIP and hipRTC, against the bindings of one HIP version of `cubecl-hip-sys`.

#![cfg(test)]

#[path = "../../../kernels/vendor/tests/judges/kinds.rs"]
mod kinds;

use std::any::type_name_of_val;
use std::mem::offset_of;

use cubecl_hip_sys::*;
use tgemm_vendor::gpu::Dialect::Hip;
use tgemm_vendor::gpu::numbers::{self, DeviceAttribute};
use tgemm_vendor::gpu::runtime::HipProperties;

/// The bindings' own types of these functions, in the compiler's words. The marks stand for one argument each.
macro_rules! signatures {
    ($($function:ident($($argument:tt),*)),* $(,)?) => {
        vec![$((stringify!($function), type_name_of_val(&($function as unsafe extern "C" fn($($argument),*) -> _)))),*]
    };
}

#[rustfmt::skip]
fn signatures() -> Vec<(&'static str, &'static str)> {
    signatures![
        hipInit(_),
        hipGetDeviceCount(_),
        hipDriverGetVersion(_),
        hipRuntimeGetVersion(_),
        hipDeviceGetAttribute(_, _, _),
        hipDeviceGetPCIBusId(_, _, _),
        hipGetDevicePropertiesR0600(_, _),
        hipSetDevice(_),
        hipMemGetInfo(_, _),
        hipMalloc(_, _),
        hipFree(_),
        hipMemsetAsync(_, _, _, _),
        hipMemcpyAsync(_, _, _, _, _),
        hipStreamCreateWithFlags(_, _),
        hipStreamSynchronize(_),
        hipStreamDestroy(_),
        hipStreamIsCapturing(_, _),
        hipThreadExchangeStreamCaptureMode(_),
        hipDeviceSynchronize(),
        hipEventCreateWithFlags(_, _),
        hipEventRecord(_, _),
        hipEventSynchronize(_),
        hipEventElapsedTime(_, _, _),
        hipEventDestroy(_),
        hipStreamBeginCapture(_, _),
        hipStreamEndCapture(_, _),
        hipGraphInstantiate(_, _, _, _, _),
        hipGraphLaunch(_, _),
        hipGraphExecDestroy(_),
        hipGraphDestroy(_),
        hipModuleLoadData(_, _),
        hipModuleGetFunction(_, _, _),
        hipModuleUnload(_),
        hipModuleLaunchKernel(_, _, _, _, _, _, _, _, _, _, _),
        hiprtcVersion(_, _),
        hiprtcCreateProgram(_, _, _, _, _, _),
        hiprtcDestroyProgram(_),
        hiprtcCompileProgram(_, _, _),
        hiprtcGetProgramLogSize(_, _),
        hiprtcGetProgramLog(_, _),
        hiprtcGetCodeSize(_, _),
        hiprtcGetCode(_, _),
    ]
}

/// Kinds without what differs between versions and changes no call: the bindings make unsigned numbers of all enumerations,
/// and what hipRTC does not write is `const` only in the newer ones.
fn plain(kinds: impl IntoIterator<Item = String>) -> Vec<String> {
    kinds.into_iter().map(|kind| kind.replace("i32", "u32").replace('&', "*")).collect()
}

#[test]
fn the_signatures_are_those_of_this_version() {
    let theirs = signatures();
    let ours: Vec<_> =
        kinds::ours(Hip).into_iter().filter(|s| s.0.starts_with("hip") && !s.0.contains("blas")).collect();
    assert_eq!(ours.len(), theirs.len(), "a function without a judge, or a judge without a function");
    for (symbol, kinds) in ours {
        let (_, signature) = theirs.iter().find(|(name, _)| *name == symbol).unwrap_or_else(|| panic!("no {symbol}"));
        let (arguments, result) = signature.split_once("fn(").unwrap().1.rsplit_once(") -> ").unwrap();
        let arguments = arguments.split(", ").filter(|text| !text.is_empty()).map(|text| kinds::kind(text, &[]));
        assert_eq!(plain(kinds), plain(arguments), "{symbol}");
        assert_eq!(kinds::kind(result, &[]), "u32", "{symbol}");
    }
}

#[test]
fn the_record_of_a_device_lies_as_in_this_version() {
    type Record = hipDeviceProp_tR0600;
    assert_eq!(HipProperties::RECORD_BYTES, size_of::<Record>());
    assert_eq!(HipProperties::TOTAL_GLOBAL_MEM_AT, offset_of!(Record, totalGlobalMem));
    assert_eq!(HipProperties::MULTI_PROCESSOR_COUNT_AT, offset_of!(Record, multiProcessorCount));
    assert_eq!(HipProperties::L2_CACHE_SIZE_AT, offset_of!(Record, l2CacheSize));
    assert_eq!(HipProperties::GCN_ARCH_NAME_AT, offset_of!(Record, gcnArchName));
}

#[test]
fn the_numbers_are_those_of_this_version() {
    let attributes = [
        (DeviceAttribute::MultiprocessorCount, hipDeviceAttribute_t_hipDeviceAttributeMultiprocessorCount),
        (DeviceAttribute::L2CacheBytes, hipDeviceAttribute_t_hipDeviceAttributeL2CacheSize),
        (DeviceAttribute::WarpSize, hipDeviceAttribute_t_hipDeviceAttributeWarpSize),
        (DeviceAttribute::ComputeCapabilityMajor, hipDeviceAttribute_t_hipDeviceAttributeComputeCapabilityMajor),
        (DeviceAttribute::ComputeCapabilityMinor, hipDeviceAttribute_t_hipDeviceAttributeComputeCapabilityMinor),
    ];
    for (ours, theirs) in attributes {
        assert_eq!(ours.number(Hip) as u32, theirs, "{ours:?}");
    }
    for (ours, theirs) in [
        (numbers::HIP_COPY_IN as u32, hipMemcpyKind_hipMemcpyHostToDevice),
        (numbers::HIP_COPY_OUT as u32, hipMemcpyKind_hipMemcpyDeviceToHost),
        (numbers::HIP_COPY_WITHIN as u32, hipMemcpyKind_hipMemcpyDeviceToDevice),
        (numbers::STREAM_NON_BLOCKING, hipStreamNonBlocking),
        (numbers::CAPTURE_THREAD_LOCAL as u32, hipStreamCaptureMode_hipStreamCaptureModeThreadLocal),
        (numbers::CAPTURE_RELAXED as u32, hipStreamCaptureMode_hipStreamCaptureModeRelaxed),
        (numbers::OUT_OF_MEMORY as u32, hipError_t_hipErrorOutOfMemory),
        (numbers::NO_DEVICE as u32, hipError_t_hipErrorNoDevice),
    ] {
        assert_eq!(ours, theirs);
    }
    for poisonous in
        [hipError_t_hipErrorIllegalAddress, hipError_t_hipErrorLaunchTimeOut, hipError_t_hipErrorLaunchFailure]
    {
        assert!(numbers::poisons(Hip, poisonous as i32), "{poisonous}");
    }
}
