//! Device memory that is host memory, and what is known of its contents.
//!
//! A product that has been computed already into the same place from the same operands is not computed again: each range
//! written is noted with its writer and a version. Only writes by HIP calls are seen, as on a card.

use std::collections::BTreeMap;

/// What the runtimes promise of every allocation.
const ALIGN_BYTES: usize = 256;

/// Behind each allocation, so that a scripted write out of bounds hits nothing of the process.
pub const SLACK_BYTES: usize = 4096;

/// Who wrote a range, where it is no product.
pub const ANYONE: u64 = 0;

#[derive(Clone, Copy, Debug)]
struct Written {
    end: usize,
    version: u64,
    writer: u64,
}

#[derive(Clone, Copy, Debug)]
struct Allocation {
    bytes: usize,
    on_device: bool,
}

/// All allocations.
#[derive(Debug)]
pub struct Memory {
    total_bytes: u64,
    used_bytes: u64,
    allocations: BTreeMap<usize, Allocation>,
    written: BTreeMap<usize, Written>,
    version: u64,
}

/// The bytes at an address that lies in an allocation.
pub fn bytes_at(address: usize, count: usize) -> &'static [u8] {
    if count == 0 {
        return &[];
    }
    // SAFETY: launches look their ranges up in [`Memory`] first, and hold its lock; the slice does not leave the launch.
    unsafe { std::slice::from_raw_parts(address as *const u8, count) }
}

/// As above, to be written.
pub fn bytes_at_mut(address: usize, count: usize) -> &'static mut [u8] {
    if count == 0 {
        return &mut [];
    }
    // SAFETY: as above; no other slice of the range is alive.
    unsafe { std::slice::from_raw_parts_mut(address as *mut u8, count) }
}

impl Memory {
    pub fn new(total_bytes: u64) -> Memory {
        Memory { total_bytes, used_bytes: 0, allocations: BTreeMap::new(), written: BTreeMap::new(), version: 0 }
    }

    /// (free, total).
    pub fn info(&self) -> (u64, u64) {
        (self.total_bytes - self.used_bytes, self.total_bytes)
    }

    /// `None` if there is not as much.
    pub fn allocate(&mut self, bytes: usize, on_device: bool) -> Option<usize> {
        if on_device && bytes as u64 > self.total_bytes - self.used_bytes {
            return None;
        }
        let mut place = std::ptr::null_mut();
        // SAFETY: the alignment is a power of two; the place is written only on success.
        let status = unsafe { libc::posix_memalign(&raw mut place, ALIGN_BYTES, bytes.checked_add(SLACK_BYTES)?) };
        if status != 0 {
            return None;
        }
        if on_device {
            self.used_bytes += bytes as u64;
        }
        let address = place as usize;
        self.note_write(address, bytes, ANYONE);
        self.allocations.insert(address, Allocation { bytes, on_device });
        Some(address)
    }

    /// False if nothing was allocated there, or not of this kind.
    pub fn free(&mut self, address: usize, on_device: bool) -> bool {
        match self.allocations.get(&address) {
            Some(found) if found.on_device == on_device => {
                let bytes = found.bytes;
                self.allocations.remove(&address);
                self.cut(address, address + bytes);
                if on_device {
                    self.used_bytes -= bytes as u64;
                }
                // SAFETY: the address came from `posix_memalign` and was forgotten a moment ago.
                unsafe { libc::free(address as *mut libc::c_void) };
                true
            }
            _ => false,
        }
    }

    /// Does the range lie in one allocation?
    pub fn holds(&self, address: usize, bytes: usize) -> bool {
        let within =
            |start: usize, found: &Allocation| address.checked_add(bytes).is_some_and(|end| end <= start + found.bytes);
        bytes == 0 || self.allocations.range(..=address).next_back().is_some_and(|(start, found)| within(*start, found))
    }

    /// Notes that `writer` wrote the range.
    pub fn note_write(&mut self, address: usize, bytes: usize, writer: u64) {
        if bytes == 0 {
            return;
        }
        self.cut(address, address + bytes);
        self.version += 1;
        self.written.insert(address, Written { end: address + bytes, version: self.version, writer });
    }

    /// The newest version of anything in the range.
    pub fn version(&self, address: usize, bytes: usize) -> u64 {
        let end = address.saturating_add(bytes);
        // Ranges do not overlap, so those that reach into this one are the last before its end.
        let reaching = self.written.range(..end).rev().take_while(|(_, range)| range.end > address);
        reaching.map(|(_, range)| range.version).max().unwrap_or(0)
    }

    /// Is the range just what `writer` wrote, and untouched since?
    pub fn is_by(&self, address: usize, bytes: usize, writer: u64) -> bool {
        self.written.get(&address).is_some_and(|range| range.end == address + bytes && range.writer == writer)
    }

    /// Forgets what is known of a range; what reaches out of it is kept.
    fn cut(&mut self, start: usize, end: usize) {
        let reaching = self.written.range(..end).rev().take_while(|(_, range)| range.end > start);
        let reaching: Vec<(usize, Written)> = reaching.map(|(at, range)| (*at, *range)).collect();
        for (at, range) in reaching {
            self.written.remove(&at);
            if at < start {
                self.written.insert(at, Written { end: start, writer: ANYONE, ..range });
            }
            if range.end > end {
                self.written.insert(end, Written { writer: ANYONE, ..range });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_remember_their_last_writer() {
        let mut memory = Memory::new(1 << 20);
        memory.note_write(1000, 100, 7);
        assert!(memory.is_by(1000, 100, 7) && !memory.is_by(1000, 50, 7) && !memory.is_by(1000, 100, 8));
        let before = memory.version(1000, 100);
        memory.note_write(1090, 20, ANYONE);
        assert!(!memory.is_by(1000, 100, 7));
        assert!(memory.version(1000, 100) > before && memory.version(1000, 90) == before);
        memory.note_write(1020, 10, 9);
        assert_eq!((memory.version(1030, 60), memory.version(1000, 20)), (before, before));
        assert!(memory.is_by(1020, 10, 9));
        assert_eq!(memory.version(2000, 10), 0);
    }

    #[test]
    fn memory_is_counted_and_found() {
        let mut memory = Memory::new(10_000);
        let address = memory.allocate(6000, true).unwrap();
        assert_eq!((memory.info(), address % 256), ((4000, 10_000), 0));
        assert!(memory.allocate(5000, true).is_none(), "more than there is");
        assert!(memory.holds(address, 6000) && memory.holds(address + 5999, 1));
        assert!(!memory.holds(address, 6001) && !memory.holds(address.wrapping_sub(1), 1));
        assert!(!memory.free(address + 1, true) && !memory.free(address, false) && memory.free(address, true));
        assert!(!memory.free(address, true) && !memory.holds(address, 1));
        assert_eq!(memory.info().0, 10_000);
    }
}
