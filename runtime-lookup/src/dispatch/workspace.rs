//! Scratch memory: one piece a queue, which its launches use one after the other.

use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use rustc_hash::FxHashMap;
use tgemm_kernels::{Backend, Buffer, Error, Queue, Stream};

/// Most queues that have scratch memory of their own.
pub const QUEUES_MAX: usize = 4096;

/// A piece of scratch memory.
#[derive(Clone, Copy)]
pub(super) struct Scratch {
    pub start: *mut c_void,
    pub bytes: usize,
}

impl Scratch {
    pub const NONE: Scratch = Scratch { start: std::ptr::null_mut(), bytes: 0 };
}

// SAFETY: an address with a size; whoever uses the memory answers for its queue.
unsafe impl Send for Scratch {}
// SAFETY: as above.
unsafe impl Sync for Scratch {}

/// Why a launch has no scratch memory.
pub(super) enum Lacking {
    /// It would have to be allocated, and the stream is being captured.
    Captured,
    /// There is none to be had.
    Failed(Error),
}

/// The scratch memory of every queue.
#[derive(Default)]
pub(super) struct Workspaces {
    /// Of each queue what it ever had, the largest last: graphs that were captured go on using what was outgrown.
    pieces: Mutex<FxHashMap<Queue, Vec<Buffer>>>,
}

impl Workspaces {
    /// At least `bytes` for launches into `stream`, which joins `queue`. Valid as long as this.
    pub fn get(&self, backend: &dyn Backend, stream: Stream, queue: Queue, bytes: usize) -> Result<Scratch, Lacking> {
        // Nothing in here can panic half-way; a poisoned lock holds whole buffers.
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(largest) = pieces.get_mut(&queue).and_then(|pieces| pieces.last_mut())
            && largest.bytes() >= bytes
        {
            return Ok(Scratch { start: largest.as_mut_ptr(), bytes: largest.bytes() });
        }
        if backend.is_capturing(stream) {
            return Err(Lacking::Captured);
        }
        if pieces.len() >= QUEUES_MAX && !pieces.contains_key(&queue) {
            let text = format!("{QUEUES_MAX} streams have workspaces; pass one in the operands, or use fewer streams");
            return Err(Lacking::Failed(Error::unsupported(text)));
        }
        // Powers of two: all that was outgrown is smaller together than what serves.
        let bytes = bytes.checked_next_power_of_two().unwrap_or(bytes);
        let mut buffer = backend.alloc(bytes).map_err(Lacking::Failed)?;
        let scratch = Scratch { start: buffer.as_mut_ptr(), bytes: buffer.bytes() };
        pieces.entry(queue).or_default().push(buffer);
        Ok(scratch)
    }

    /// All that is held, bytes.
    pub fn bytes(&self) -> u64 {
        let pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        pieces.values().flatten().map(|buffer| buffer.bytes() as u64).sum()
    }
}
