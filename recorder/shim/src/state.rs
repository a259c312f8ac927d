//! What this process is asked to do: read once, at the first hooked call.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use tgemm_recorder::counters::{Counter, Counters, folder_from_env};
use tgemm_recorder::{Recorder, RecorderOptions, forks, on_fork, without_forks};

use crate::apply::Applier;

const UNREAD: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;
/// Odd, as [`OFF`] is: there is nothing to do for now.
const PAUSED: u8 = 3;
/// On, in a child that has not met its fork yet.
const FORKED: u8 = 4;

static MODE: AtomicU8 = AtomicU8::new(UNREAD);
static SHIM: OnceLock<Option<Shim>> = OnceLock::new();

/// The shim at work. Small, since every call reads it: between two calls of a library each of its cache lines goes far away.
pub struct Shim {
    /// What was seen; it writes only where recording was asked for.
    pub recorder: &'static Recorder,
    /// What became of calls.
    pub counters: Counters,
    /// What runs in their place, where that was asked for.
    pub applier: Option<Box<Applier>>,
    /// The number of forks before this process that the counters know of.
    forks: AtomicU64,
}

/// Is there nothing to do? One load.
#[inline]
pub fn is_off() -> bool {
    MODE.load(Ordering::Relaxed) & 1 == 1
}

/// The shim, if it is on.
#[inline]
fn shim() -> Option<&'static Shim> {
    match MODE.load(Ordering::Acquire) {
        ON => SHIM.get().and_then(Option::as_ref),
        OFF | PAUSED => None,
        _ => read(),
    }
}

#[cold]
fn read() -> Option<&'static Shim> {
    // A child that was forked meanwhile would wait for a thread that it does not have.
    let shim = without_forks(|| SHIM.get_or_init(Shim::from_env)).as_ref();
    let mode = if shim.is_some() { ON } else { OFF };
    shim.inspect(|shim| shim.meet_fork());
    // A panic meanwhile has the last word.
    for from in [UNREAD, FORKED] {
        let _ = MODE.compare_exchange(from, mode, Ordering::AcqRel, Ordering::Acquire);
    }
    shim
}

/// In a forked child, before anything else of ours.
fn forked() {
    let _ = MODE.compare_exchange(ON, FORKED, Ordering::AcqRel, Ordering::Acquire);
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
    MODE.store(OFF, Ordering::Release);
    if let Some(Some(shim)) = SHIM.get() {
        shim.counters.add(Counter::SwitchedOff, 1);
    }
    tgemm_recorder::warn("a mistake of ours was caught: nothing is recorded or applied in this process any more");
}

/// For measurements within one process: with `paused` other than 0 every call goes its own way, unseen, until it is called
/// with 0. Gives 1 if the shim is on in this process, else 0. Not to be called while anything is captured.
#[unsafe(no_mangle)]
pub extern "C" fn tgemm_shim_pause(paused: i32) -> i32 {
    let is_on = catch_unwind(|| MODE.load(Ordering::Acquire) == PAUSED || shim().is_some()).unwrap_or(false);
    // Work goes on as after a fork: there may have been one meanwhile.
    let (from, to) = if paused == 0 { (PAUSED, FORKED) } else { (ON, PAUSED) };
    if paused == 0 {
        crate::hooks::forget_handles();
    }
    let _ = MODE.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
    i32::from(is_on)
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
    if let Some(Some(shim)) = SHIM.get() {
        shim.counters.remove();
    }
}
