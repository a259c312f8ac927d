//! Errors in words.

use std::ffi::{CStr, c_char};

use crate::abi::take_last_hip_error;

/// (`hipError_t`, its name, what it means).
const ERRORS: [(i32, &CStr, &CStr); 25] = [
    (0, c"hipSuccess", c"no error"),
    (1, c"hipErrorInvalidValue", c"invalid argument"),
    (2, c"hipErrorOutOfMemory", c"out of memory"),
    (3, c"hipErrorNotInitialized", c"initialization error"),
    (100, c"hipErrorNoDevice", c"no ROCm-capable device is detected"),
    (101, c"hipErrorInvalidDevice", c"invalid device ordinal"),
    (200, c"hipErrorInvalidImage", c"device kernel image is invalid"),
    (209, c"hipErrorNoBinaryForGpu", c"no kernel image is available for execution on the device"),
    (303, c"hipErrorSharedObjectInitFailed", c"shared object initialization failed"),
    (400, c"hipErrorInvalidHandle", c"invalid resource handle"),
    (401, c"hipErrorIllegalState", c"the operation cannot be performed in the present state"),
    (500, c"hipErrorNotFound", c"named symbol not found"),
    (600, c"hipErrorNotReady", c"device not ready"),
    (700, c"hipErrorIllegalAddress", c"an illegal memory access was encountered"),
    (701, c"hipErrorLaunchOutOfResources", c"too many resources requested for launch"),
    (702, c"hipErrorLaunchTimeOut", c"the launch timed out and was terminated"),
    (719, c"hipErrorLaunchFailure", c"unspecified launch failure"),
    (801, c"hipErrorNotSupported", c"operation not supported"),
    (900, c"hipErrorStreamCaptureUnsupported", c"operation not permitted when stream is capturing"),
    (901, c"hipErrorStreamCaptureInvalidated", c"operation failed due to a previous error during capture"),
    (906, c"hipErrorStreamCaptureImplicit", c"operation would make the legacy stream depend on a capturing stream"),
    (907, c"hipErrorCapturedEvent", c"operation not permitted on an event last recorded in a capturing stream"),
    (908, c"hipErrorStreamCaptureWrongThread", c"attempt to terminate a thread-local capture from another thread"),
    (910, c"hipErrorGraphExecUpdateFailure", c"the graph was not updated"),
    (999, c"hipErrorUnknown", c"unknown error"),
];

fn found(error: i32) -> (i32, &'static CStr, &'static CStr) {
    let last = ERRORS[ERRORS.len() - 1];
    ERRORS.into_iter().find(|row| row.0 == error).unwrap_or(last)
}

#[allow(non_snake_case, reason = "the name is the library's")]
#[unsafe(no_mangle)]
extern "C" fn hipGetErrorName(error: i32) -> *const c_char {
    found(error).1.as_ptr()
}

#[allow(non_snake_case, reason = "the name is the library's")]
#[unsafe(no_mangle)]
extern "C" fn hipGetErrorString(error: i32) -> *const c_char {
    found(error).2.as_ptr()
}

#[allow(non_snake_case, reason = "the name is the library's")]
#[unsafe(no_mangle)]
extern "C" fn hipGetLastError() -> i32 {
    take_last_hip_error()
}
