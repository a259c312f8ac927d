//! A call that was looked at: a choice may run in its place, and it is counted once it has been made.

use tgemm_db::Via;
use tgemm_db::blas::Call;
use tgemm_recorder::counters::Counter;
use tgemm_recorder::{Asked, Entry, LibraryFile};
use tgemm_vendor::gpu::Dialect;

use crate::apply::{Launch, Launched};
use crate::cache::{self, Extent, Key};
use crate::captures;
use crate::product;
use crate::state::{self, Shim};
use crate::stream::Capture;
use crate::thread::of_this_thread;

/// A call of a problem.
#[derive(Clone, Copy)]
pub struct Seen {
    known: Known,
    /// The capture that it goes into, if it does not run.
    capture: Option<Capture>,
}

/// A call of a problem that was met before.
#[derive(Clone, Copy)]
pub struct Known {
    shim: &'static Shim,
    entry: &'static Entry,
}

/// What it takes to run a choice in a call's place; made only where choices are applied.
pub type InPlace = Option<(Dialect, Launch)>;

/// How a call was asked for.
#[derive(Clone, Copy)]
pub struct How {
    /// By which API.
    pub via: Via,
    /// The workspace that it brought, where the API has it in its arguments.
    pub workspace_bytes_max: Option<u64>,
    /// The library that is called.
    pub library: Option<&'static LibraryFile>,
    /// The capture that it goes into.
    pub capture: Option<Capture>,
}

/// The shim, where there is nothing to do with a known call but to count it: no choice is applied, and nothing is captured.
#[inline(always)]
pub fn counts_only() -> Option<&'static Shim> {
    state::at_work().filter(|shim| shim.applier.is_none() && !captures::any())
}

/// The call that `key` stands for, where this thread has made it before.
#[inline(always)]
pub fn known<Int: Extent>(shim: &'static Shim, key: &Key<Int>) -> Option<Known> {
    cache::find(key).map(|entry| Known { shim, entry })
}

/// Looks `call` up. `None`, and counted as such, where it is no problem of ours.
pub fn look(shim: &'static Shim, call: Option<Call>, how: How) -> Option<Seen> {
    let Some(problem) = call.as_ref().and_then(product::problem) else {
        shim.counters.add(Counter::Unrepresentable, 1);
        return None;
    };
    let How { via, workspace_bytes_max, library, capture } = how;
    let entry = shim.recorder.entry(&Asked { workspace_bytes_max, library, ..Asked::new(problem, via) })?;
    Some(Seen { known: Known { shim, entry }, capture })
}

/// As [`look`], by way of the cache: `long_way` is gone where `key` is not known there.
pub fn look_cached<Int: Extent>(
    shim: &'static Shim,
    key: Option<Key<Int>>,
    capture: Option<Capture>,
    long_way: impl FnOnce() -> (Option<Call>, How),
) -> Option<Seen> {
    if let Some(entry) = key.as_ref().and_then(cache::find) {
        return Some(Seen { known: Known { shim, entry }, capture });
    }
    let (call, how) = long_way();
    let seen = look(shim, call, how)?;
    if key.is_some_and(|key| cache::keep(&key, seen.known.entry)) {
        seen.known.entry.claim(of_this_thread().mark());
    }
    Some(seen)
}

impl Known {
    /// Counts the call: it was made, and was taken.
    #[inline]
    pub fn count(self) {
        let thread = of_this_thread();
        match thread.seen.get() {
            Some(share) => share.add(1),
            None => self.count_first(),
        }
        self.shim.recorder.add_one(self.entry, thread.mark());
    }

    /// Takes a share for this thread, if there is one left.
    #[cold]
    fn count_first(self) {
        let counters = &self.shim.counters;
        match counters.share() {
            Some(share) => {
                of_this_thread().seen.set(Some(share));
                share.add(1);
            }
            None => counters.add(Counter::Seen, 1),
        }
    }
}

impl Seen {
    /// Runs a choice in the call's place; `None`: nothing was enqueued, and the call is to go its way.
    pub fn apply(&self, (dialect, launch): &(Dialect, Launch)) -> Option<Launched> {
        let Known { shim, entry } = self.known;
        shim.applier.as_ref()?.run(&shim.counters, *dialect, entry, launch)
    }

    /// Counts the call: it was made, and was taken.
    pub fn count(&self) {
        let Some(capture) = self.capture else { return self.known.count() };
        let Known { shim, entry } = self.known;
        shim.counters.add(Counter::Captured, 1);
        shim.recorder.add_unforked(entry, 0, true);
        captures::note(shim.recorder, capture, entry);
    }
}
