//! Small buffers as pieces of large allocations: a rotation of a small problem has a thousand of them, and a device's
//! allocator takes as long for each as for a large one.

use std::sync::{Arc, Mutex};

use crate::{Buffer, Context, Error};

/// Most bytes of one allocation that is divided.
const SLAB_BYTES: usize = 64 << 20;

/// What pieces are aligned to: as well as every device allocator does.
const ALIGN_BYTES: usize = 256;

/// Pieces of one size that are not in use yet.
#[derive(Default)]
pub(super) struct Slab {
    bytes: usize,
    pieces: Vec<Buffer>,
}

impl Slab {
    /// A buffer of `bytes`, of which `wanted` will be taken one after the other.
    pub(super) fn take(&mut self, context: &dyn Context, bytes: usize, wanted: usize) -> Result<Buffer, Error> {
        if self.bytes != bytes {
            self.clear();
        }
        if let Some(piece) = self.pieces.pop() {
            return Ok(piece);
        }
        let step = bytes.max(1).next_multiple_of(ALIGN_BYTES);
        let count = (SLAB_BYTES / step).min(wanted);
        if count < 2 {
            return context.alloc(bytes);
        }
        match context.alloc(step * count) {
            Ok(whole) => {
                self.bytes = bytes;
                self.pieces = divide(whole, bytes, step, count);
                // Never empty: at least two were made.
                self.pieces.pop().map_or_else(|| context.alloc(bytes), Ok)
            }
            // Not all of them fit; one may.
            Err(Error::OutOfMemory { .. }) => context.alloc(bytes),
            Err(error) => Err(error),
        }
    }

    /// Gives back what is not in use.
    pub(super) fn clear(&mut self) {
        self.pieces.clear();
    }
}

/// `count` buffers of `bytes`, `step` apart, in `whole`, which is freed with the last of them.
fn divide(whole: Buffer, bytes: usize, step: usize, count: usize) -> Vec<Buffer> {
    debug_assert!(whole.bytes() >= step * count && step >= bytes);
    let start = whole.as_ptr().cast_mut();
    // Never locked: only what may be shared between threads may be kept by several.
    let whole = Arc::new(Mutex::new(whole));
    let piece = |at: usize| {
        let keep = Arc::clone(&whole);
        let release = Box::new(move |_, _| drop(keep));
        // SAFETY: the pieces do not overlap and lie within `whole`, which lives until the last of them is released.
        unsafe { Buffer::from_raw(start.wrapping_byte_add(at * step), bytes, release) }
    };
    // Taken from the end: the first is handed out first.
    (0..count).rev().map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::ScriptedContext;

    fn context() -> ScriptedContext {
        ScriptedContext::from_json(r#"{"solutions": [{"name": "a", "time_us": 1}]}"#).unwrap()
    }

    #[test]
    fn pieces_lie_apart_and_one_allocation_serves_them() {
        let context = context();
        let mut slab = Slab::default();
        let taken: Vec<Buffer> = (0..5).map(|at| slab.take(&context, 1000, 5 - at).unwrap()).collect();
        let places: Vec<usize> = taken.iter().map(|piece| piece.as_ptr() as usize).collect();
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] == 1024), "{places:?}");
        assert!(taken.iter().all(|piece| piece.bytes() == 1000));
        assert!(slab.pieces.is_empty(), "no more than was wanted");
        drop(slab);
        let mut last = taken.into_iter().next_back().unwrap();
        let mut read = [0; 8];
        context.write(&mut last, 992, &[7; 8]).unwrap();
        context.read(&last, 992, &mut read).unwrap();
        assert_eq!(read, [7; 8], "the memory is there as long as one piece is");
    }

    #[test]
    fn large_buffers_and_single_ones_are_their_own() {
        let context = context();
        let mut slab = Slab::default();
        let one = slab.take(&context, 100, 1).unwrap();
        assert_eq!((one.bytes(), slab.pieces.len()), (100, 0));
        slab.take(&context, 100, 8).unwrap();
        assert_eq!(slab.pieces.len(), 7);
        slab.take(&context, 300, 1).unwrap();
        assert!(slab.pieces.is_empty(), "another size");
    }
}
