//! What this process is asked to do: read once, at the first hooked call.

use std::mem::offset_of;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use tgemm_recorder::counters::{Counter, Counters, folder_from_env};
use tgemm_recorder::{Recorder, RecorderOptions, forks, on_fork, without_forks};

use crate::apply::Applier;

/// What every call reads, in one cache line: between two calls of a library each of our lines goes far away.
#[repr(C, align(64))]
struct Hot {
    /// Where the shim is while it works; else one of the numbers below, which are no place of anything.
    at_work: AtomicPtr<Shim>,
    /// Captures under way.
    captures: AtomicUsize,
    /// The shim, once the environment was read.
    shim: OnceLock<Option<Shim>>,
}

static HOT: Hot = Hot { at_work: AtomicPtr::new(UNREAD), captures: AtomicUsize::new(0), shim: OnceLock::new() };

const OFF: *mut Shim = ptr::without_provenance_mut(1);
/// Not 0, which would put it among the zeros, pages away from all else that a call reads.
const UNREAD: *mut Shim = ptr::without_provenance_mut(2);
/// Odd, as [`OFF`] is: there is nothing to do for now.
const PAUSED: *mut Shim = ptr::without_provenance_mut(3);
/// On, in a child that has not met its fork yet.
const FORKED: *mut Shim = ptr::without_provenance_mut(4);

/// The shim at work.
#[repr(C)]
pub struct Shim {
    /// What runs in the place of calls, where that was asked for.
    pub applier: Option<Box<Applier>>,
    /// What became of calls.
    pub counters: Counters,
    /// What was seen; it writes only where recording was asked for.
    pub recorder: &'static Recorder,
    /// The number of forks before this process that the counters know of.
    forks: AtomicU64,
}

/// What a known call reads of it, too.
const _: () = assert!(offset_of!(Hot, shim) + offset_of!(Shim, applier) < align_of::<Hot>());

/// Is there nothing to do? One load.
#[inline]
pub fn is_off() -> bool {
    HOT.at_work.load(Ordering::Relaxed).addr() & 1 == 1
}

/// Captures under way in the process; kept by `captures`.
#[inline]
pub fn captures() -> &'static AtomicUsize {
    &HOT.captures
}

/// The shim, if it is on and nothing has to be done first.
#[inline]
pub fn at_work() -> Option<&'static Shim> {
    let at = HOT.at_work.load(Ordering::Acquire);
    // SAFETY: what is no number is the place of what `HOT.shim` holds, which stays there for good.
    if at.addr() > FORKED.addr() { Some(unsafe { &*at }) } else { None }
}

/// The shim, if it is on.
#[inline]
fn shim() -> Option<&'static Shim> {
    at_work().or_else(|| if is_off() { None } else { read() })
}

#[cold]
fn read() -> Option<&'static Shim> {
    // A child that was forked meanwhile would wait for a thread that it does not have.
    let shim = without_forks(|| HOT.shim.get_or_init(Shim::from_env)).as_ref();
    shim.inspect(|shim| shim.meet_fork());
    // A panic meanwhile has the last word.
    for from in [UNREAD, FORKED] {
        let _ = HOT.at_work.compare_exchange(from, place_of(shim), Ordering::AcqRel, Ordering::Acquire);
    }
    shim
}

/// What `HOT.at_work` is while `shim` works.
fn place_of(shim: Option<&'static Shim>) -> *mut Shim {
    shim.map_or(OFF, |shim| ptr::from_ref(shim).cast_mut())
}

/// In a forked child, before anything else of ours.
fn forked() {
    let Some(shim) = at_work() else { return };
    let _ = HOT.at_work.compare_exchange(place_of(Some(shim)), FORKED, Ordering::AcqRel, Ordering::Acquire);
}

impl Shim {
    fn from_env() -> Option<Shim> {
        let applier = Applier::from_env().map(Box::new);
        let recorder = match (Recorder::global(), &applier) {
            (Some(recorder), _) => recorder,
            // Nothing is to be written, but what was seen must be known again.
            (None, Some(_)) => Box::leak(Box::new(Recorder::open(RecorderOptions::in_memory()))),
            (None, None) => return None,
        };
        // SAFETY: the handler is a function of this library, which stays loaded: it was preloaded.
        unsafe { libc::atexit(at_exit) };
        Some(Shim { recorder, counters: Counters::from_env(), applier, forks: AtomicU64::new(forks()) })
    }

    /// In a forked child: its counters and counts are its own.
    fn meet_fork(&self) {
        self.recorder.meet_fork();
        let now = forks();
        if self.forks.swap(now, Ordering::AcqRel) != now
            && let Some(folder) = folder_from_env()
        {
            // Without a file it counts in memory.
            let _ = self.counters.reset_after_fork(&folder);
        }
    }
}

/// Lets `decide` look at a call. Nothing of ours may get out of here: a panic switches the shim off, and the host goes on.
#[inline]
pub fn decide<T>(decide: impl FnOnce(&'static Shim) -> Option<T>) -> Option<T> {
    catch_unwind(AssertUnwindSafe(|| shim().and_then(decide))).unwrap_or_else(|_| {
        switch_off();
        None
    })
}

/// Runs `act` as [`decide`] does, for a call that was decided on already.
#[inline]
pub fn guarded<T>(act: impl FnOnce() -> Option<T>) -> Option<T> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|_| {
        switch_off();
        None
    })
}

#[cold]
fn switch_off() {
    HOT.at_work.store(OFF, Ordering::Release);
    if let Some(Some(shim)) = HOT.shim.get() {
        shim.counters.add(Counter::SwitchedOff, 1);
    }
    tgemm_recorder::warn("a mistake of ours was caught: nothing is recorded or applied in this process any more");
}

/// For measurements within one process: with `paused` other than 0 every call goes its own way, unseen, until it is called
/// with 0. Gives 1 if the shim is on in this process, else 0. Not to be called while anything is captured.
#[unsafe(no_mangle)]
pub extern "C" fn tgemm_shim_pause(paused: i32) -> i32 {
    let swap = |from, to| {
        // What has become something else meanwhile stays that.
        let _ = HOT.at_work.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
    };
    if paused == 0 {
        crate::hooks::forget_handles();
        // Work goes on as after a fork: there may have been one meanwhile.
        swap(PAUSED, FORKED);
    }
    let shim = catch_unwind(shim).unwrap_or(None);
    if paused != 0 && shim.is_some() {
        swap(place_of(shim), PAUSED);
    }
    i32::from(shim.is_some() || HOT.at_work.load(Ordering::Acquire) == PAUSED)
}

/// Run by the loader, before there is a second thread.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn at_load() {
        on_fork(forked);
    }
    at_load
};

extern "C" fn at_exit() {
    if let Some(Some(shim)) = HOT.shim.get() {
        shim.counters.remove();
    }
}
