//! Memory on a device, and what streams have to do with it.

use std::ffi::c_void;
use std::sync::Arc;

use tgemm_vendor::gpu::numbers::CAPTURE_RELAXED;
use tgemm_vendor::gpu::{Current, Runtime};

use super::{failed, failed_alloc};
use crate::{Buffer, Error, Queue, Stream};

/// The handle of a stream that every thread has one of: `cudaStreamPerThread` (`driver_types.h`), `hipStreamPerThread`
/// (`hip_runtime_api.h`).
const STREAM_PER_THREAD: usize = 2;

/// Memory on the device that is current, which `current` names.
pub(super) fn alloc(runtime: &Arc<Runtime>, current: Current, bytes: usize) -> Result<Buffer, Error> {
    let mut ptr: *mut c_void = std::ptr::null_mut();
    // SAFETY: one pointer is written.
    unsafe { runtime.table().malloc(&raw mut ptr, bytes.max(1)) }.map_err(|e| failed_alloc(e, bytes))?;
    let runtime = Arc::clone(runtime);
    let release = Box::new(move |ptr: *mut c_void, _| {
        // SAFETY: the memory came from this runtime's allocator and is used no more.
        let _ = on(&runtime, current, || drop(unsafe { runtime.table().free(ptr) }));
    });
    // SAFETY: the memory was just allocated, belongs to nobody else, and may be freed on any thread.
    Ok(unsafe { Buffer::from_raw(ptr, bytes, release) })
}

/// Does `work` on the device that `current` names, and leaves this thread as it was. Work that captures of other threads
/// forbid is allowed meanwhile: it does not belong to them.
pub(super) fn on<T>(runtime: &Runtime, current: Current, work: impl FnOnce() -> T) -> Result<T, Error> {
    let before = runtime.current();
    runtime.resume(&current).map_err(failed)?;
    // A runtime without this call has nothing to be told.
    let mode = runtime.exchange_capture_mode(CAPTURE_RELAXED);
    let done = work();
    if let Ok(mode) = mode {
        let _ = runtime.exchange_capture_mode(mode);
    }
    if let Ok(before) = before {
        let _ = runtime.resume(&before);
    }
    Ok(done)
}

/// Is `stream` being captured, or kept from saying so (the default stream beside a capture)?
pub(super) fn is_capturing(runtime: &Runtime, stream: Stream) -> bool {
    let mut status = 0;
    // SAFETY: one integer is written; a stream that is none is an error.
    let asked = unsafe { runtime.table().stream_capturing(stream.0, &raw mut status) };
    asked.is_err() || status != 0
}

/// See [`crate::Backend::queue`].
pub(super) fn queue(stream: Stream) -> Queue {
    match stream.0.addr() {
        STREAM_PER_THREAD => Queue::of_this_threads(stream),
        _ => Queue::of(stream),
    }
}
