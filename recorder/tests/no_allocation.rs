//! A problem seen before costs no allocation.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tgemm_db::{DType, Problem, Site, Via};
use tgemm_recorder::{Recorder, RecorderOptions};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting for each thread.
struct Counting;

// SAFETY: everything is the system allocator's; the counter is a plain thread-local that does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn a_seen_problem_allocates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::open(RecorderOptions::to(folder.path()));
    let problems: Vec<Problem> = (1..=64).map(|m| Site::linear(64, 128, DType::Bf16).at(m).into()).collect();
    let round = || problems.iter().for_each(|problem| recorder.record(problem, Via::Linear, false));
    let count = |work: &dyn Fn()| {
        let before = ALLOCATIONS.get();
        work();
        ALLOCATIONS.get() - before
    };
    assert!(count(&round) > 0, "first sights do allocate, so the counter works");
    // Counts 1 to 4 lie behind; no doubling happens from 5 to 7.
    (0..3).for_each(|_| round());
    assert_eq!(count(&|| (0..3).for_each(|_| round())), 0);
}
