//! The set of seen problems: an open-addressing table of pointers that are set once and never moved.
//!
//! A slot goes from null to an entry by one compare-exchange, so a reader sees either nothing or a whole entry. No state
//! in between means nothing to wait for: not for a descheduled thread, and not for one that a fork left behind.

use std::hash::{Hash as _, Hasher as _};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use rustc_hash::FxHasher;
use tgemm_db::{Problem, Recorded};

use crate::asked::Asked;
use crate::numbers::Numbers;

/// Slots of the table: a power of two, 512 KiB of pointers. Fewer under Miri, which takes a second for a thousand of them.
const SLOTS: usize = if cfg!(miri) { 1 << 8 } else { 1 << 16 };

/// The most problems one process records; more are counted as dropped. Three quarters of the slots, so that a search
/// always meets an empty one soon. A serving engine has some hundred sites and tens of thousands of M at the very most.
pub const PROBLEMS_MAX: usize = SLOTS / 4 * 3;

/// A problem as it was asked for, with its counts.
pub struct Entry {
    asked: Asked,
    /// Its place among the entries of its recorder: below [`PROBLEMS_MAX`], never another's.
    number: usize,
    counts: Counts,
    /// How much of the counts is in the file. Changed only under the writing lock.
    written: AtomicU64,
    /// Is the flag in the file? Changed only under the writing lock.
    captured_written: AtomicBool,
}

/// How often an entry was recorded. In one cache line, of which it takes half.
#[derive(Default)]
#[repr(align(32))]
struct Counts {
    /// By all threads but the owner.
    by_others: AtomicU64,
    /// By the owner, which alone writes to it.
    by_owner: AtomicU64,
    /// The mark of the thread that owns the entry; 0 while none does.
    owner: AtomicUsize,
    /// Was it ever recorded as captured?
    captured: AtomicBool,
}

/// Has a count one more bit now, above all that it had? Then it has doubled since that was last so.
#[inline]
fn has_doubled(before: u64, after: u64) -> bool {
    before ^ after > before
}

/// What a line of an entry would say that the file does not.
pub(crate) struct Pending<'a> {
    entry: &'a Entry,
    delta: u64,
    captured: bool,
}

impl Entry {
    fn new(asked: &Asked, number: usize) -> Entry {
        Entry {
            asked: *asked,
            number,
            counts: Counts::default(),
            written: AtomicU64::new(0),
            captured_written: AtomicBool::new(false),
        }
    }

    /// What was asked for, and how.
    pub fn asked(&self) -> &Asked {
        &self.asked
    }

    /// Its place among the entries of its recorder: below [`PROBLEMS_MAX`], never another's.
    pub fn number(&self) -> usize {
        self.number
    }

    /// How often it was recorded in this process.
    pub fn count(&self) -> u64 {
        self.counts.by_others.load(Ordering::Relaxed) + self.counts.by_owner.load(Ordering::Relaxed)
    }

    /// Makes the calling thread the owner, if the entry has none: its calls are then counted without an atomic addition
    /// ([`Recorder::add_one`](crate::Recorder::add_one)). `mark` is a number that no other living thread has, and not 0: the
    /// address of something of its own. An owner that has ended stays it, until a thread has its mark again.
    pub fn claim(&self, mark: usize) {
        let _ = self.counts.owner.compare_exchange(0, mark, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Counts `calls` calls, by whatever thread; `true` if a line is due.
    #[inline]
    pub(crate) fn add(&self, calls: u64) -> bool {
        let before = self.counts.by_others.fetch_add(calls, Ordering::Relaxed);
        has_doubled(before, before + calls)
    }

    /// Counts one call of the thread with this mark; `true` if a line is due.
    #[inline]
    pub(crate) fn add_one(&self, mark: usize) -> bool {
        if self.counts.owner.load(Ordering::Relaxed) != mark {
            return self.add(1);
        }
        let before = self.counts.by_owner.load(Ordering::Relaxed);
        self.counts.by_owner.store(before + 1, Ordering::Relaxed);
        has_doubled(before, before + 1)
    }

    /// Notes that it was captured; `true` the first time.
    #[inline]
    pub(crate) fn note_captured(&self) -> bool {
        !self.is_captured() && !self.counts.captured.swap(true, Ordering::Relaxed)
    }

    /// Was it ever recorded as captured?
    pub(crate) fn is_captured(&self) -> bool {
        self.counts.captured.load(Ordering::Relaxed)
    }

    /// The entry as a row with `count`.
    pub(crate) fn row(&self, count: u64) -> Recorded {
        self.asked.row(count, self.is_captured())
    }

    /// What is not in the file yet, if anything. Under the writing lock only.
    pub(crate) fn pending(&self) -> Option<Pending<'_>> {
        let delta = self.count() - self.written.load(Ordering::Relaxed);
        let captured = self.is_captured();
        let news = delta > 0 || captured != self.captured_written.load(Ordering::Relaxed);
        news.then_some(Pending { entry: self, delta, captured })
    }

    /// Forgets all counts: in a forked child, whose parent writes them.
    fn reset(&self) {
        self.counts.by_others.store(0, Ordering::Relaxed);
        self.counts.by_owner.store(0, Ordering::Relaxed);
        self.counts.captured.store(false, Ordering::Relaxed);
        self.written.store(0, Ordering::Relaxed);
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
    /// As many as there may be entries.
    numbers: Numbers,
}

/// Hashes what tells a model's problems apart; equality does the rest. Three multiplications in place of one a field.
#[inline]
fn hash(asked: &Asked) -> usize {
    let Some(gemm) = asked.problem.gemm() else { return hash_fields(&asked.problem) };
    let via = asked.via;
    let site = &gemm.site;
    let types = (site.x as u64) | (site.w as u64) << 8 | (site.out as u64) << 16 | (site.trans as u64) << 24;
    let rest = (via as u64) | (site.align as u64) << 8 | u64::from(site.bias.is_some()) << 16;
    let mut hasher = FxHasher::default();
    hasher.write_u64(u64::from(gemm.m) << 32 | u64::from(site.n));
    hasher.write_u64(u64::from(site.k) << 32 | u64::from(site.batch.count));
    hasher.write_u64(types << 32 | rest);
    if let Some(follows) = &asked.follows {
        // Of the few products that one follows, how far they lie away tells most apart.
        hasher.write_u64(hash_fields(&follows.problem) as u64 ^ u64::from(follows.nodes_between.unwrap_or(u32::MAX)));
    }
    hasher.finish() as usize
}

fn hash_fields(problem: &Problem) -> usize {
    let mut hasher = FxHasher::default();
    problem.hash(&mut hasher);
    hasher.finish() as usize
}

impl Seen {
    pub fn new() -> Seen {
        let slots = (0..SLOTS).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
        Seen { slots, numbers: Numbers::new(PROBLEMS_MAX) }
    }

    #[inline]
    fn load(&self, slot: usize) -> Option<&Entry> {
        // SAFETY: a slot holds null or a leaked box that is freed only in `drop`, and Acquire pairs with the Release of
        // the exchange that published it.
        unsafe { self.slots[slot].load(Ordering::Acquire).as_ref() }
    }

    /// The entry of a problem, made on first sight; `None` if [`PROBLEMS_MAX`] others have been seen.
    #[inline]
    pub fn entry(&self, asked: &Asked) -> Option<&Entry> {
        let start = hash(asked);
        // Nearly always the problem is where its hash says. Apart from the search, this is a load and a comparison.
        match self.load(start % SLOTS) {
            Some(entry) if entry.asked == *asked => Some(entry),
            _ => self.search(start, asked),
        }
    }

    #[inline(never)]
    fn search(&self, start: usize, asked: &Asked) -> Option<&Entry> {
        for step in 0..SLOTS {
            let slot = start.wrapping_add(step) % SLOTS;
            let entry = match self.load(slot) {
                Some(entry) => entry,
                None => self.insert(slot, asked)?,
            };
            // After a lost race for the slot the entry in it may be another problem's: the search goes on.
            if entry.asked == *asked {
                return Some(entry);
            }
        }
        None
    }

    /// Puts a new entry into an empty slot; gives what is in the slot afterwards.
    #[cold]
    fn insert(&self, slot: usize, asked: &Asked) -> Option<&Entry> {
        let number = self.numbers.take()?;
        let new = Box::into_raw(Box::new(Entry::new(asked, number)));
        let empty = ptr::null_mut();
        match self.slots[slot].compare_exchange(empty, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {}
            Err(_) => {
                // SAFETY: the exchange failed, so `new` is still only ours.
                drop(unsafe { Box::from_raw(new) });
                self.numbers.give_back(number);
            }
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
    use tgemm_db::{DType, Follows, Site, Via};

    #[test]
    fn one_entry_a_problem_and_api() {
        let seen = Seen::new();
        let a = Asked::new(Site::linear(16, 32, DType::F32).at(1).into(), Via::Linear);
        let b = Asked::new(Site::linear(16, 32, DType::F32).at(2).into(), Via::Linear);
        let capped = Asked { workspace_bytes_max: Some(0), ..a };
        let first = ptr::from_ref(seen.entry(&a).unwrap());
        assert_eq!(first, ptr::from_ref(seen.entry(&a).unwrap()));
        assert_ne!(first, ptr::from_ref(seen.entry(&b).unwrap()));
        assert_ne!(first, ptr::from_ref(seen.entry(&Asked { via: Via::Blas, ..a }).unwrap()));
        assert_ne!(first, ptr::from_ref(seen.entry(&capped).unwrap()));
        let mut numbers: Vec<usize> = seen.iter().map(Entry::number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 1, 2, 3]);
    }

    #[test]
    fn one_entry_for_each_call_that_a_problem_follows() {
        let seen = Seen::new();
        let at = |m| Site::linear(16, 32, DType::F32).at(m).into();
        let plain = Asked::new(at(1), Via::Linear);
        let after = |m, nodes_between| Asked { follows: Some(Follows { problem: at(m), nodes_between }), ..plain };
        let all = [plain, after(1, Some(0)), after(2, Some(0)), after(2, Some(1)), after(2, None)];
        let first: Vec<&Entry> = all.iter().map(|asked| seen.entry(asked).unwrap()).collect();
        assert_eq!(seen.iter().count(), all.len(), "each is another one");
        for (asked, entry) in all.iter().zip(first) {
            assert!(ptr::eq(seen.entry(asked).unwrap(), entry), "{asked:?} is found again");
            assert_eq!((entry.asked(), entry.row(3).follows), (asked, asked.follows));
        }
        let hashes: std::collections::BTreeSet<usize> = all.iter().map(hash).collect();
        assert_eq!(hashes.len(), all.len(), "nor are they searched for among each other");
        assert_eq!(seen.iter().count(), all.len());
    }

    #[test]
    fn a_line_is_due_each_time_a_count_doubles() {
        let entry = Entry::new(&Asked::new(Site::linear(16, 32, DType::F32).at(1).into(), Via::Linear), 0);
        entry.claim(7);
        entry.claim(8);
        for mark in [7, 8] {
            let due: Vec<u64> = (1..=1000).filter(|_| entry.add_one(mark)).collect();
            assert_eq!(due, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512], "the first is the owner, and the second is not");
        }
        assert!(!entry.add(0) && entry.add(24) && entry.count() == 2024);
        entry.reset();
        assert_eq!(entry.count(), 0);
        assert!(entry.add_one(7) && entry.add_one(8) && entry.count() == 2, "as at the beginning");
    }

    #[test]
    fn problems_that_hash_alike_stay_apart() {
        let seen = Seen::new();
        let plain = Site::linear(16, 32, DType::F32);
        let relu = Site { activation: tgemm_db::problem::Activation::Relu, ..plain };
        let (a, b) = (Asked::new(plain.at(1).into(), Via::Linear), Asked::new(relu.at(1).into(), Via::Linear));
        assert_eq!(hash(&a), hash(&b));
        let after = |nodes_between| Asked { follows: Some(Follows { problem: a.problem, nodes_between }), ..a };
        let (c, d) = (after(None), after(Some(u32::MAX)));
        assert_eq!(hash(&c), hash(&d));
        for (one, other) in [(a, b), (c, d)] {
            seen.entry(&one).unwrap().add(5);
            assert_eq!(seen.entry(&other).unwrap().count(), 0);
        }
    }

    #[test]
    fn the_limit_holds_and_seen_problems_are_still_found() {
        let seen = Seen::new();
        let site = Site::linear(16, 32, DType::F32);
        let limit = PROBLEMS_MAX as u32;
        let at = |m| Asked::new(site.at(m).into(), Via::Linear);
        for m in 1..=limit {
            assert!(seen.entry(&at(m)).is_some_and(|entry| entry.number() < PROBLEMS_MAX));
        }
        assert!(seen.entry(&at(limit + 1)).is_none());
        assert!(seen.entry(&at(limit)).is_some());
        assert_eq!(seen.iter().count(), PROBLEMS_MAX);
    }

    #[test]
    fn threads_that_meet_at_new_problems_agree() {
        let seen = Seen::new();
        let site = Site::linear(16, 32, DType::F32);
        let problems = PROBLEMS_MAX.min(60) as u32;
        let rounds = if cfg!(miri) { 2 } else { 200 };
        let look = |thread: u32| {
            let mut found = Vec::new();
            for call in 0..rounds * problems {
                // From another end in each thread, so that they race for slots and for entries.
                let m = 1 + (call + thread * problems / 4) % problems;
                let entry = seen.entry(&Asked::new(site.at(m).into(), Via::Linear)).unwrap();
                entry.claim(thread as usize + 1);
                entry.add_one(thread as usize + 1);
                found.push((m, ptr::from_ref(entry).addr(), entry.number()));
            }
            found.sort_unstable();
            found.dedup();
            found
        };
        let look = &look;
        let found: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || look(thread))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(found.iter().all(|one| one.len() == problems as usize && *one == found[0]), "one entry a problem");
        assert_eq!(seen.iter().count(), problems as usize);
        assert!(seen.iter().all(|entry| entry.count() == u64::from(4 * rounds)), "nothing is lost");
        let by_owner = |entry: &Entry| entry.counts.by_owner.load(Ordering::Relaxed);
        assert!(seen.iter().all(|entry| by_owner(entry) == u64::from(rounds)), "one thread owns it");
        let mut numbers: Vec<usize> = seen.iter().map(Entry::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), problems as usize, "none has another's number");
    }
}
