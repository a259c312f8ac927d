//! A call that was looked at: a choice may run in its place, and it is counted once it has been made.

use tgemm_db::Via;
use tgemm_db::blas::Call;
use tgemm_recorder::counters::Counter;
use tgemm_recorder::{Asked, Entry, LibraryFile};
use tgemm_vendor::gpu::Dialect;

use crate::apply::{Launch, Launched};
use crate::cache::{self, Key};
use crate::captures;
use crate::product;
use crate::state::Shim;
use crate::stream::Capture;

/// A call of a problem.
#[derive(Clone, Copy)]
pub struct Seen {
    shim: &'static Shim,
    entry: &'static Entry,
    /// The capture that it goes into, if it does not run.
    capture: Option<Capture>,
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

/// Looks `call` up. `None`, and counted as such, where it is no problem of ours.
pub fn look(shim: &'static Shim, call: Option<Call>, how: How) -> Option<Seen> {
    let Some(problem) = call.as_ref().and_then(product::problem) else {
        shim.counters.add(Counter::Unrepresentable, 1);
        return None;
    };
    let How { via, workspace_bytes_max, library, capture } = how;
    let entry = shim.recorder.entry(&Asked { workspace_bytes_max, library, ..Asked::new(problem, via) })?;
    Some(Seen { shim, entry, capture })
}

/// As [`look`], by way of the cache: `long_way` is gone where `key` is not known there.
#[inline]
pub fn look_cached(
    shim: &'static Shim,
    key: Option<Key>,
    capture: Option<Capture>,
    long_way: impl FnOnce() -> (Option<Call>, How),
) -> Option<Seen> {
    if let Some(entry) = key.as_ref().and_then(cache::find) {
        return Some(Seen { shim, entry, capture });
    }
    look_first(shim, key, long_way)
}

/// Out of the way of calls that are known.
#[cold]
#[inline(never)]
fn look_first(shim: &'static Shim, key: Option<Key>, long_way: impl FnOnce() -> (Option<Call>, How)) -> Option<Seen> {
    let (call, how) = long_way();
    let seen = look(shim, call, how)?;
    if let Some(key) = key {
        cache::keep(key, seen.entry);
    }
    Some(seen)
}

impl Seen {
    /// Runs a choice in the call's place; `None`: nothing was enqueued, and the call is to go its way.
    pub fn apply(&self, (dialect, launch): &(Dialect, Launch)) -> Option<Launched> {
        self.shim.applier.as_ref()?.run(&self.shim.counters, *dialect, self.entry, launch)
    }

    /// Counts the call: it was made, and was taken.
    #[inline]
    pub fn count(&self) {
        match self.capture {
            None => {
                self.shim.counters.add(Counter::Seen, 1);
                self.shim.recorder.add_unforked(self.entry, 1, false);
            }
            Some(capture) => {
                self.shim.counters.add(Counter::Captured, 1);
                self.shim.recorder.add_unforked(self.entry, 0, true);
                captures::note(self.shim.recorder, capture, self.entry);
            }
        }
    }
}
