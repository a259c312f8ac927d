//! Calls that this thread has made before: an argument list leads to its entry without being understood again.
//!
//! A key holds everything that the entry follows from; what a key cannot hold is looked up the long way.

use std::cell::Cell;

use tgemm_recorder::Entry;

/// Words of a key.
const WORDS: usize = 10;

/// Places of the table, a power of two. A model has some dozens of different calls a step; 6 KB a thread.
const PLACES: usize = 64;

/// An argument list, packed.
#[derive(Clone, Copy)]
pub struct Key([u64; WORDS]);

impl PartialEq for Key {
    /// Without a branch a word, and without a call, which a comparison of bytes would be.
    #[inline]
    fn eq(&self, other: &Key) -> bool {
        self.0.iter().zip(&other.0).fold(0, |differing, (own, other)| differing | (own ^ other)) == 0
    }
}

impl Key {
    /// The list of the function at `function`.
    ///
    /// `extents`: m, n, k, lda, ldb, ldc. `numbers`: types, operations, layout, factor classes and the like. `strides` are of A,
    /// B and C. `None` where something does not fit.
    #[inline]
    pub fn new(function: usize, extents: [i64; 6], numbers: [i32; 8], batch: i32, strides: [i64; 3]) -> Option<Key> {
        let fits = extents.iter().all(|&extent| extent >> 32 == 0) && numbers.iter().all(|&number| number >> 16 == 0);
        let pair = |at: usize| extents[at] as u64 | (extents[at + 1] as u64) << 32;
        let four = |at: usize| {
            let [a, b, c, d] = [numbers[at], numbers[at + 1], numbers[at + 2], numbers[at + 3]].map(|n| n as u64);
            a | b << 16 | c << 32 | d << 48
        };
        let [a, b, c] = strides.map(|stride| stride as u64);
        let words = [function as u64, pair(0), pair(2), pair(4), four(0), four(4), batch as u64, a, b, c];
        fits.then_some(Key(words))
    }

    #[inline]
    fn place(&self) -> usize {
        /// From Fibonacci hashing: 2^64 over the golden ratio.
        const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
        let [function, sizes, depth, lengths, ..] = self.0;
        let mixed = (sizes ^ depth.rotate_left(21) ^ lengths.rotate_left(42) ^ function).wrapping_mul(SPREAD);
        (mixed >> 58) as usize % PLACES
    }
}

struct Place {
    key: Cell<Key>,
    entry: Cell<Option<&'static Entry>>,
}

thread_local! {
    // Without a destructor, so that it can be had while a thread is ending.
    static PLACES_OF_THREAD: [Place; PLACES] =
        const { [const { Place { key: Cell::new(Key([0; WORDS])), entry: Cell::new(None) } }; PLACES] };
}

/// The entry of a call that this thread made before.
#[inline]
pub fn find(key: &Key) -> Option<&'static Entry> {
    PLACES_OF_THREAD.with(|places| {
        let place = &places[key.place()];
        let entry = place.entry.get()?;
        (place.key.get() == *key).then_some(entry)
    })
}

/// Notes the entry of a call, in the place of one that is older.
pub fn keep(key: Key, entry: &'static Entry) {
    PLACES_OF_THREAD.with(|places| {
        let place = &places[key.place()];
        place.key.set(key);
        place.entry.set(Some(entry));
    });
}

/// The low bits of addresses that decide an alignment.
#[inline]
pub fn alignment_bits<T>(addresses: [*const T; 3]) -> i32 {
    let [a, b, c] = addresses.map(|address| address as usize);
    ((a | b | c) & 15) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_argument_tells_calls_apart() {
        let key = |extents, numbers, batch, strides| Key::new(4096, extents, numbers, batch, strides).unwrap();
        let base = key([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7, 8], 1, [0; 3]);
        for at in 0..6 {
            let mut extents = [1, 2, 3, 4, 5, 6];
            extents[at] += 1 << 20;
            assert!(key(extents, [1, 2, 3, 4, 5, 6, 7, 8], 1, [0; 3]) != base, "extent {at}");
        }
        for at in 0..8 {
            let mut numbers = [1, 2, 3, 4, 5, 6, 7, 8];
            numbers[at] += 1 << 10;
            assert!(key([1, 2, 3, 4, 5, 6], numbers, 1, [0; 3]) != base, "number {at}");
        }
        for at in 0..3 {
            let mut strides = [0; 3];
            strides[at] = 1 << 40;
            assert!(key([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7, 8], 1, strides) != base, "stride {at}");
        }
        assert!(key([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7, 8], 2, [0; 3]) != base);
        assert!(Key::new(8192, [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7, 8], 1, [0; 3]) != Some(base));
        assert!(Key::new(4096, [-1, 2, 3, 4, 5, 6], [0; 8], 1, [0; 3]).is_none());
        assert!(Key::new(4096, [1 << 32, 2, 3, 4, 5, 6], [0; 8], 1, [0; 3]).is_none());
        assert!(Key::new(4096, [1, 2, 3, 4, 5, 6], [1 << 16, 0, 0, 0, 0, 0, 0, 0], 1, [0; 3]).is_none());
    }

    #[test]
    fn what_is_kept_is_found_on_this_thread_only() {
        use tgemm_db::{DType, Site, Via};
        use tgemm_recorder::{Asked, Recorder, RecorderOptions};
        let recorder: &'static Recorder = Box::leak(Box::new(Recorder::open(RecorderOptions::in_memory())));
        let asked = |m| Asked::new(Site::linear(16, 32, DType::F32).at(m).into(), Via::Blas);
        let key = |m: i64| Key::new(4096, [m, 16, 32, 32, 32, 16], [0; 8], 1, [0; 3]).unwrap();
        for m in 1..500 {
            let entry = recorder.entry(&asked(m)).unwrap();
            keep(key(m.into()), entry);
            assert!(std::ptr::eq(find(&key(m.into())).unwrap(), entry));
        }
        for m in 1..500 {
            assert!(find(&key(m.into())).is_none_or(|entry| entry.asked().problem.m() == m), "{m}");
        }
        std::thread::spawn(move || assert!(find(&key(499)).is_none())).join().unwrap();
    }
}
