//! A call that was looked at, and how it is counted once it has been made.

use tgemm_db::Via;
use tgemm_db::blas::Call;
use tgemm_recorder::counters::Counter;
use tgemm_recorder::{Asked, Entry, LibraryFile};

use crate::captures::{self, Capture};
use crate::product;
use crate::state::Shim;

/// A call of a problem.
#[derive(Clone, Copy)]
pub struct Seen {
    shim: &'static Shim,
    entry: &'static Entry,
    /// The capture that it goes into, if it does not run.
    capture: Option<Capture>,
}

/// Looks `call` up. `None`, and counted as such, where it is no problem of ours.
#[inline]
pub fn look(
    shim: &'static Shim,
    call: Option<Call>,
    via: Via,
    workspace_bytes_max: Option<u64>,
    library: Option<&'static LibraryFile>,
    capture: Option<Capture>,
) -> Option<Seen> {
    let Some(problem) = call.as_ref().and_then(product::problem) else {
        shim.counters.add(Counter::Unrepresentable, 1);
        return None;
    };
    let entry = shim.recorder.entry(&Asked { problem, via, workspace_bytes_max, library })?;
    Some(Seen { shim, entry, capture })
}

impl Seen {
    /// Counts the call: it was made, and was taken.
    #[inline]
    pub fn count(&self) {
        match self.capture {
            None => {
                self.shim.counters.add(Counter::Seen, 1);
                self.shim.recorder.add(self.entry, 1, false);
            }
            Some(capture) => {
                self.shim.counters.add(Counter::Captured, 1);
                self.shim.recorder.add(self.entry, 0, true);
                captures::note(capture, self.entry);
            }
        }
    }
}
