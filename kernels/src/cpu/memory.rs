//! Host memory: what is left, and buffers of it.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::fs;
use std::sync::{Mutex, PoisonError};

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
    host.min(control_group_bytes().unwrap_or(u64::MAX)).saturating_add(spare().bytes)
}

/// Freed buffers that wait for a request of their size.
///
/// A sweep allocates and frees the same gigabytes for one candidate after the other, and half of its time went into page
/// faults. Off unless asked for: an engine that frees memory wants it free.
struct Spare {
    blocks: VecDeque<(usize, Layout)>,
    bytes: u64,
    bytes_max: u64,
}

static SPARE: Mutex<Spare> = Mutex::new(Spare { blocks: VecDeque::new(), bytes: 0, bytes_max: 0 });

fn spare() -> std::sync::MutexGuard<'static, Spare> {
    // Nothing in here can panic half-way; a poisoned lock holds a whole list.
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Spare {
    fn take(&mut self, layout: Layout) -> Option<*mut u8> {
        let at = self.blocks.iter().rposition(|(_, have)| *have == layout)?;
        let (address, _) = self.blocks.remove(at)?;
        self.bytes -= layout.size() as u64;
        Some(address as *mut u8)
    }

    /// Keeps the block, and gives the oldest back to the system where there are too many.
    fn put(&mut self, ptr: *mut u8, layout: Layout) {
        self.blocks.push_back((ptr as usize, layout));
        self.bytes += layout.size() as u64;
        self.shrink(self.bytes_max);
    }

    fn shrink(&mut self, bytes_max: u64) {
        while self.bytes > bytes_max {
            let Some((address, layout)) = self.blocks.pop_front() else { return };
            self.bytes -= layout.size() as u64;
            // SAFETY: the block came from `alloc_zeroed` with this layout, and only this list holds it.
            unsafe { dealloc(address as *mut u8, layout) };
        }
    }
}

/// From now on keeps up to `bytes_max` bytes of freed buffers for requests of the same size; 0 frees at once.
pub fn recycle(bytes_max: u64) {
    let mut spare = spare();
    spare.bytes_max = bytes_max;
    spare.shrink(bytes_max);
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
/// New memory is zeroed, which makes the kernel commit every page: untouched pages would all be read from one shared page,
/// and a first launch would time page faults. Recycled memory holds what it held.
pub(crate) fn alloc(bytes: usize) -> Result<Buffer, Error> {
    let failed = Error::OutOfMemory { bytes: bytes as u64, what: "a buffer" };
    let align = if bytes >= PAGE_ALIGNED_FROM_BYTES { PAGE_BYTES } else { ALIGN_BYTES };
    let Ok(layout) = Layout::from_size_align(bytes.max(ALIGN_BYTES), align) else { return Err(failed) };
    let recycled = spare().take(layout);
    let ptr = match recycled {
        Some(ptr) => ptr,
        None => {
            check_available(bytes as u64, "a buffer")?;
            // What is spare counts as available, so it must make way before the system is asked.
            if bytes as u64 > available_bytes().saturating_sub(spare().bytes) {
                spare().shrink(0);
            }
            // SAFETY: the layout's size is at least ALIGN_BYTES, so not zero.
            unsafe { alloc_zeroed(layout) }
        }
    };
    if ptr.is_null() {
        return Err(failed);
    }
    let release = Box::new(move |ptr: *mut c_void, _| spare().put(ptr.cast(), layout));
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
    fn freed_buffers_come_back_only_if_asked_for_and_only_so_many() {
        // A size that no other test of this process allocates.
        let bytes = (1 << 20) + 4096 * 7;
        let layout = Layout::from_size_align(bytes, PAGE_BYTES).unwrap();
        let mut own = Spare { blocks: VecDeque::new(), bytes: 0, bytes_max: 2 * bytes as u64 };
        let buffers: Vec<*mut u8> = (0..3)
            // SAFETY: the size is not zero.
            .map(|_| unsafe { alloc_zeroed(layout) })
            .collect();
        for &ptr in &buffers {
            own.put(ptr, layout);
        }
        assert_eq!((own.blocks.len(), own.bytes), (2, 2 * bytes as u64), "the oldest went back to the system");
        assert_eq!(own.take(Layout::from_size_align(bytes * 2, PAGE_BYTES).unwrap()), None);
        assert_eq!(own.take(layout), Some(buffers[2]), "the one freed last is the warmest");
        own.put(buffers[2], layout);
        own.shrink(0);
        assert_eq!((own.blocks.len(), own.bytes), (0, 0));
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
