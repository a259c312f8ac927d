//! Host memory: what is left, and buffers of it.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::c_void;
use std::fs;

use crate::{Buffer, Error};

/// What every buffer starts at a multiple of: a cache line, and the widest vector.
pub const ALIGN_BYTES: usize = 64;

/// Buffers of this size and more start at a page, so that a buffer's first and last pages are its own.
const PAGE_ALIGNED_FROM_BYTES: usize = 1 << 16;

/// The smallest page of the architectures served.
const PAGE_BYTES: usize = 4096;

/// Memory of the host, bytes; `None` where the kernel does not say.
pub fn total_bytes() -> Option<u64> {
    meminfo("MemTotal")
}

/// Memory that can be allocated without swapping and within the control group's limit, bytes.
///
/// Where the kernel does not say, nothing is refused: `u64::MAX`.
pub fn available_bytes() -> u64 {
    let host = meminfo("MemAvailable").unwrap_or(u64::MAX);
    host.min(control_group_bytes().unwrap_or(u64::MAX))
}

/// Refuses `bytes` that are more than what is left: the kernel would grant them, and kill somebody later.
pub(crate) fn check_available(bytes: u64, what: &'static str) -> Result<(), Error> {
    // Small requests are not worth the reading of two files.
    if bytes > PAGE_ALIGNED_FROM_BYTES as u64 && bytes > available_bytes() {
        return Err(Error::OutOfMemory { bytes, what });
    }
    Ok(())
}

/// A buffer of `bytes` bytes, at least 64-byte aligned.
///
/// It is zeroed, which makes the kernel commit every page: untouched pages would all be read from one shared page, and
/// a first launch would time page faults.
pub(crate) fn alloc(bytes: usize) -> Result<Buffer, Error> {
    let failed = Error::OutOfMemory { bytes: bytes as u64, what: "a buffer" };
    check_available(bytes as u64, "a buffer")?;
    let align = if bytes >= PAGE_ALIGNED_FROM_BYTES { PAGE_BYTES } else { ALIGN_BYTES };
    let Ok(layout) = Layout::from_size_align(bytes.max(ALIGN_BYTES), align) else { return Err(failed) };
    // SAFETY: the layout's size is at least ALIGN_BYTES, so not zero.
    let ptr = unsafe { alloc_zeroed(layout) };
    if ptr.is_null() {
        return Err(failed);
    }
    let release = Box::new(move |ptr: *mut c_void, _| {
        // SAFETY: `ptr` came from `alloc_zeroed` with this very layout, and a buffer releases once.
        unsafe { dealloc(ptr.cast(), layout) }
    });
    // SAFETY: the memory was just allocated, belongs to nobody else, and may be freed on any thread.
    Ok(unsafe { Buffer::from_raw(ptr.cast(), bytes, release) })
}

/// A line of `/proc/meminfo`, in bytes.
fn meminfo(field: &str) -> Option<u64> {
    meminfo_field(&fs::read_to_string("/proc/meminfo").ok()?, field)
}

fn meminfo_field(text: &str, field: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    value.trim().strip_suffix("kB")?.trim_end().parse::<u64>().ok()?.checked_mul(1024)
}

/// What the control group still allows (version 2 of the interface; `max` means no limit).
fn control_group_bytes() -> Option<u64> {
    let read = |name| fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?.trim().parse::<u64>().ok();
    Some(read("memory.max")?.saturating_sub(read("memory.current")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "MemTotal:       24684084 kB\nMemAvailableX: 7 kB\nMemAvailable:    1000 kB\nBad: kB\nHuge: 99999999999999999 kB\n";
        assert_eq!(meminfo_field(text, "MemAvailable"), Some(1000 * 1024));
        assert_eq!(meminfo_field(text, "MemTotal"), Some(24_684_084 * 1024));
        assert_eq!(meminfo_field(text, "Bad"), None);
        assert_eq!(meminfo_field(text, "Huge"), None);
        assert_eq!(meminfo_field(text, "Mem"), None);
    }

    #[test]
    fn buffers_are_aligned_committed_and_bounded() {
        for bytes in [0, 1, 63, 64, 4097, PAGE_ALIGNED_FROM_BYTES - 1, PAGE_ALIGNED_FROM_BYTES, 1 << 20] {
            let buffer = alloc(bytes).unwrap();
            assert_eq!(buffer.bytes(), bytes);
            let align = if bytes >= PAGE_ALIGNED_FROM_BYTES { PAGE_BYTES } else { ALIGN_BYTES };
            assert_eq!(buffer.as_ptr() as usize % align, 0, "{bytes}");
        }
        for bytes in [usize::MAX, isize::MAX as usize, 1 << 46] {
            assert!(matches!(alloc(bytes), Err(Error::OutOfMemory { .. })), "{bytes}");
        }
    }
}
