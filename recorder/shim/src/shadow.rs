//! Two numbers for each of a library's handles, without a lock: hosts make and free descriptors at every call.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Places of the table: hosts hold some dozens of descriptors at a time.
const PLACES: usize = 1 << 12;

/// Places tried for one handle.
const TRIES: usize = 16;

/// A place that was left: searches go on behind it.
const LEFT: usize = 1;

/// Numbers by handle. Where the table is full they are missing, never another's. Libraries want a handle that is set up by
/// one thread not to be in use by another, so a pair is never read half-way.
pub struct Shadow {
    handles: [AtomicUsize; PLACES],
    numbers: [[AtomicU64; 2]; PLACES],
}

impl Shadow {
    /// An empty one.
    pub const fn new() -> Shadow {
        Shadow {
            handles: [const { AtomicUsize::new(0) }; PLACES],
            numbers: [const { [const { AtomicU64::new(0) }; 2] }; PLACES],
        }
    }

    fn places(handle: usize) -> impl Iterator<Item = usize> {
        // Handles are addresses of records of some dozens of bytes.
        let start = handle.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        (0..TRIES).map(move |step| (start + step) % PLACES)
    }

    /// Notes the numbers of a handle.
    pub fn set(&self, handle: usize, numbers: [u64; 2]) {
        // An address is given out again: its old place comes first, and what a missed destroy left is overwritten.
        self.forget(handle);
        for place in Shadow::places(handle) {
            let have = self.handles[place].load(Ordering::Relaxed);
            if have > LEFT {
                continue;
            }
            // Taken under another name first, so that nobody reads the number of before.
            if self.handles[place].compare_exchange(have, usize::MAX, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                self.numbers[place].iter().zip(numbers).for_each(|(at, number)| at.store(number, Ordering::Relaxed));
                self.handles[place].store(handle, Ordering::Release);
                return;
            }
        }
    }

    /// The numbers of a handle.
    #[inline]
    pub fn get(&self, handle: usize) -> Option<[u64; 2]> {
        for place in Shadow::places(handle) {
            match self.handles[place].load(Ordering::Acquire) {
                0 => return None,
                have if have == handle => {
                    return Some(self.numbers[place].each_ref().map(|number| number.load(Ordering::Relaxed)));
                }
                _ => {}
            }
        }
        None
    }

    /// Forgets all handles, of which none is being set meanwhile.
    pub fn clear(&self) {
        self.handles.iter().for_each(|handle| handle.store(0, Ordering::Release));
    }

    /// Forgets a handle that is freed.
    pub fn forget(&self, handle: usize) {
        for place in Shadow::places(handle) {
            match self.handles[place].load(Ordering::Relaxed) {
                0 => return,
                have if have == handle => self.handles[place].store(LEFT, Ordering::Release),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_their_handles() {
        let shadow = Shadow::new();
        for handle in (4096..4096 + 64 * 200).step_by(64) {
            shadow.set(handle, [handle as u64, 7]);
        }
        assert_eq!(shadow.get(4096 + 64 * 7), Some([4096 + 64 * 7, 7]));
        shadow.forget(4096 + 64 * 7);
        assert_eq!(shadow.get(4096 + 64 * 7), None);
        assert_eq!(shadow.get(4096 + 64 * 8), Some([4096 + 64 * 8, 7]));
        shadow.set(4096 + 64 * 8, [5, 6]);
        assert_eq!(shadow.get(4096 + 64 * 8), Some([5, 6]), "given out again");
        assert_eq!(shadow.get(64), None);
        shadow.clear();
        assert!((4096..4096 + 64 * 200).step_by(64).all(|handle| shadow.get(handle).is_none()));
        shadow.set(4096, [1, 2]);
        assert_eq!(shadow.get(4096), Some([1, 2]));
    }

    #[test]
    fn a_full_table_has_no_wrong_numbers() {
        let shadow = Shadow::new();
        for handle in 2..20_000usize {
            shadow.set(handle * 16, [handle as u64; 2]);
        }
        for handle in 2..20_000usize {
            assert!(shadow.get(handle * 16).is_none_or(|number| number == [handle as u64; 2]));
        }
    }

    #[test]
    fn churn_leaves_room() {
        let shadow = Shadow::new();
        for round in 0..100_000usize {
            let handle = 1 << 20 | (round % 700) << 6;
            shadow.set(handle, [round as u64; 2]);
            assert_eq!(shadow.get(handle), Some([round as u64; 2]));
            shadow.forget(handle);
        }
    }
}
