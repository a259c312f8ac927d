//! What this process is asked to do: read once, at the first hooked call.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use tgemm_recorder::counters::{Counter, Counters, folder_from_env};
use tgemm_recorder::{Recorder, forks};

const UNREAD: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;

static MODE: AtomicU8 = AtomicU8::new(UNREAD);
static SHIM: OnceLock<Option<Shim>> = OnceLock::new();

/// The shim at work.
pub struct Shim {
    /// What was seen; it writes only where recording was asked for.
    pub recorder: &'static Recorder,
    /// What became of calls.
    pub counters: Counters,
    /// The number of forks before this process that the counters know of.
    forks: AtomicU64,
}

/// Is there nothing to do? One load.
#[inline]
pub fn is_off() -> bool {
    MODE.load(Ordering::Relaxed) == OFF
}

/// The shim, if it is on.
#[inline]
fn shim() -> Option<&'static Shim> {
    match MODE.load(Ordering::Acquire) {
        ON => {
            let shim = SHIM.get().and_then(Option::as_ref)?;
            if shim.forks.load(Ordering::Relaxed) != forks() {
                shim.after_fork();
            }
            Some(shim)
        }
        OFF => None,
        _ => read(),
    }
}

#[cold]
fn read() -> Option<&'static Shim> {
    let shim = SHIM.get_or_init(Shim::from_env).as_ref();
    let mode = if shim.is_some() { ON } else { OFF };
    // A panic meanwhile has the last word.
    let _ = MODE.compare_exchange(UNREAD, mode, Ordering::AcqRel, Ordering::Acquire);
    shim
}

impl Shim {
    fn from_env() -> Option<Shim> {
        let recorder = Recorder::global()?;
        // SAFETY: the handler is a function of this library, which stays loaded: it was preloaded.
        unsafe { libc::atexit(at_exit) };
        Some(Shim { recorder, counters: Counters::from_env(), forks: AtomicU64::new(forks()) })
    }

    /// In a forked child: its counters are its own.
    #[cold]
    fn after_fork(&self) {
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

#[cold]
fn switch_off() {
    MODE.store(OFF, Ordering::Release);
    if let Some(Some(shim)) = SHIM.get() {
        shim.counters.add(Counter::SwitchedOff, 1);
    }
    tgemm_recorder::warn("a mistake of ours was caught: nothing is recorded or applied in this process any more");
}

extern "C" fn at_exit() {
    if let Some(Some(shim)) = SHIM.get() {
        shim.counters.remove();
    }
}
