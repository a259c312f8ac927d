//! The set of seen problems: an open-addressing table of pointers that are set once and never moved.
//!
//! A slot goes from null to an entry by one compare-exchange, so a reader sees either nothing or a whole entry. No state
//! in between means nothing to wait for: not for a descheduled thread, and not for one that a fork left behind.

use std::hash::{Hash as _, Hasher as _};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use rustc_hash::FxHasher;
use tgemm_db::{Problem, Recorded, Via};

/// Slots of the table: a power of two, 512 KiB of pointers.
const SLOTS: usize = 1 << 16;

/// The most problems one process records; more are counted as dropped. Three quarters of the slots, so that a search
/// always meets an empty one soon. A serving engine has some hundred sites and tens of thousands of M at the very most.
pub const PROBLEMS_MAX: usize = SLOTS / 4 * 3;

/// A problem with its counts.
pub(crate) struct Entry {
    problem: Problem,
    via: Via,
    /// How often it was recorded.
    pub count: AtomicU64,
    /// Was it ever recorded as captured?
    pub captured: AtomicBool,
    /// How much of `count` is in the file. Changed only under the writing lock.
    written: AtomicU64,
    /// Is the flag in the file? Changed only under the writing lock.
    captured_written: AtomicBool,
}

/// What a line of an entry would say that the file does not.
pub(crate) struct Pending<'a> {
    entry: &'a Entry,
    delta: u64,
    captured: bool,
}

impl Entry {
    fn new(problem: &Problem, via: Via) -> Entry {
        Entry {
            problem: *problem,
            via,
            count: AtomicU64::new(0),
            captured: AtomicBool::new(false),
            written: AtomicU64::new(0),
            captured_written: AtomicBool::new(false),
        }
    }

    #[inline]
    fn is(&self, problem: &Problem, via: Via) -> bool {
        self.problem == *problem && self.via == via
    }

    /// The entry as a row with `count`.
    pub fn row(&self, count: u64) -> Recorded {
        let captured = self.captured.load(Ordering::Relaxed);
        Recorded { count, via: self.via, captured, ..Recorded::bare(self.problem) }
    }

    /// What is not in the file yet, if anything. Under the writing lock only.
    pub fn pending(&self) -> Option<Pending<'_>> {
        let delta = self.count.load(Ordering::Relaxed) - self.written.load(Ordering::Relaxed);
        let captured = self.captured.load(Ordering::Relaxed);
        let news = delta > 0 || captured != self.captured_written.load(Ordering::Relaxed);
        news.then_some(Pending { entry: self, delta, captured })
    }

    /// Forgets all counts: in a forked child, whose parent writes them.
    fn reset(&self) {
        self.count.store(0, Ordering::Relaxed);
        self.written.store(0, Ordering::Relaxed);
        self.captured.store(false, Ordering::Relaxed);
        self.captured_written.store(false, Ordering::Relaxed);
    }
}

impl Pending<'_> {
    /// The line's content.
    pub fn row(&self) -> Recorded {
        Recorded { captured: self.captured, ..self.entry.row(self.delta) }
    }

    /// Notes that the line is in the file. Under the writing lock only.
    pub fn commit(self) {
        self.entry.written.fetch_add(self.delta, Ordering::Relaxed);
        self.entry.captured_written.store(self.captured, Ordering::Relaxed);
    }
}

/// The set.
pub(crate) struct Seen {
    slots: Box<[AtomicPtr<Entry>]>,
    len: AtomicUsize,
}

/// Hashes what tells a model's problems apart; equality does the rest. Three multiplications in place of one a field.
fn hash(problem: &Problem, via: Via) -> usize {
    let Some(gemm) = problem.gemm() else {
        let mut hasher = FxHasher::default();
        (problem, via).hash(&mut hasher);
        return hasher.finish() as usize;
    };
    let site = &gemm.site;
    let types = (site.x as u64) | (site.w as u64) << 8 | (site.out as u64) << 16 | (site.trans as u64) << 24;
    let rest = (via as u64) | (site.align as u64) << 8 | u64::from(site.bias.is_some()) << 16;
    let mut hasher = FxHasher::default();
    hasher.write_u64(u64::from(gemm.m) << 32 | u64::from(site.n));
    hasher.write_u64(u64::from(site.k) << 32 | u64::from(site.batch.count));
    hasher.write_u64(types << 32 | rest);
    hasher.finish() as usize
}

impl Seen {
    pub fn new() -> Seen {
        let slots = (0..SLOTS).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
        Seen { slots, len: AtomicUsize::new(0) }
    }

    fn load(&self, slot: usize) -> Option<&Entry> {
        // SAFETY: a slot holds null or a leaked box that is freed only in `drop`, and Acquire pairs with the Release of
        // the exchange that published it.
        unsafe { self.slots[slot].load(Ordering::Acquire).as_ref() }
    }

    /// The entry of a problem, made on first sight; `None` if [`PROBLEMS_MAX`] others have been seen.
    #[inline]
    pub fn entry(&self, problem: &Problem, via: Via) -> Option<&Entry> {
        let start = hash(problem, via);
        // Nearly always the problem is where its hash says. Apart from the search, this is a load and a comparison.
        match self.load(start % SLOTS) {
            Some(entry) if entry.is(problem, via) => Some(entry),
            _ => self.search(start, problem, via),
        }
    }

    #[inline(never)]
    fn search(&self, start: usize, problem: &Problem, via: Via) -> Option<&Entry> {
        for step in 0..SLOTS {
            let slot = start.wrapping_add(step) % SLOTS;
            let entry = match self.load(slot) {
                Some(entry) => entry,
                None => self.insert(slot, problem, via)?,
            };
            // After a lost race for the slot the entry in it may be another problem's: the search goes on.
            if entry.is(problem, via) {
                return Some(entry);
            }
        }
        None
    }

    /// Puts a new entry into an empty slot; gives what is in the slot afterwards.
    #[cold]
    fn insert(&self, slot: usize, problem: &Problem, via: Via) -> Option<&Entry> {
        if self.len.load(Ordering::Relaxed) >= PROBLEMS_MAX {
            return None;
        }
        let new = Box::into_raw(Box::new(Entry::new(problem, via)));
        let empty = ptr::null_mut();
        match self.slots[slot].compare_exchange(empty, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                self.len.fetch_add(1, Ordering::Relaxed);
            }
            // SAFETY: the exchange failed, so `new` is still only ours.
            Err(_) => drop(unsafe { Box::from_raw(new) }),
        }
        self.load(slot)
    }

    /// All entries, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        (0..SLOTS).filter_map(|slot| self.load(slot))
    }

    /// Forgets all counts, keeps the entries.
    pub fn reset(&self) {
        self.iter().for_each(Entry::reset);
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        for slot in &mut self.slots {
            let entry = *slot.get_mut();
            if !entry.is_null() {
                // SAFETY: from `Box::into_raw` in `insert`, in exactly one slot, and nobody borrows `self` any more.
                drop(unsafe { Box::from_raw(entry) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tgemm_db::{DType, Site};

    #[test]
    fn one_entry_a_problem_and_api() {
        let seen = Seen::new();
        let a = Problem::from(Site::linear(16, 32, DType::F32).at(1));
        let b = Problem::from(Site::linear(16, 32, DType::F32).at(2));
        let first = ptr::from_ref(seen.entry(&a, Via::Linear).unwrap());
        assert_eq!(first, ptr::from_ref(seen.entry(&a, Via::Linear).unwrap()));
        assert_ne!(first, ptr::from_ref(seen.entry(&b, Via::Linear).unwrap()));
        assert_ne!(first, ptr::from_ref(seen.entry(&a, Via::Blas).unwrap()));
        assert_eq!(seen.iter().count(), 3);
    }

    #[test]
    fn problems_that_hash_alike_stay_apart() {
        let seen = Seen::new();
        let plain = Site::linear(16, 32, DType::F32);
        let relu = Site { activation: tgemm_db::problem::Activation::Relu, ..plain };
        let (a, b) = (Problem::from(plain.at(1)), Problem::from(relu.at(1)));
        assert_eq!(hash(&a, Via::Linear), hash(&b, Via::Linear));
        seen.entry(&a, Via::Linear).unwrap().count.store(5, Ordering::Relaxed);
        assert_eq!(seen.entry(&b, Via::Linear).unwrap().count.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_limit_holds_and_seen_problems_are_still_found() {
        let seen = Seen::new();
        let site = Site::linear(16, 32, DType::F32);
        let limit = PROBLEMS_MAX as u32;
        for m in 1..=limit {
            assert!(seen.entry(&site.at(m).into(), Via::Linear).is_some());
        }
        assert!(seen.entry(&site.at(limit + 1).into(), Via::Linear).is_none());
        assert!(seen.entry(&site.at(limit).into(), Via::Linear).is_some());
        assert_eq!(seen.iter().count(), PROBLEMS_MAX);
    }
}
