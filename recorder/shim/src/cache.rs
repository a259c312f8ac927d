//! Calls that this thread has made before: an argument list leads to its entry without being understood again.
//!
//! A key holds everything that the entry follows from; what a key cannot hold is looked up the long way.

use std::cell::Cell;

use tgemm_recorder::Entry;

use crate::thread::of_this_thread;

/// Words of a key: with the entry, a cache line.
const WORDS: usize = 7;

/// Places of the table, a power of two. A model has some dozens of different calls a step; 4 KB a thread.
const PLACES: usize = 64;

/// An argument list, packed.
#[derive(Clone, Copy)]
pub struct Key([u64; WORDS]);

/// An integer of an argument list.
pub trait Extent: Copy {
    /// Is none of them negative, or too large?
    fn fit(extents: [Self; 6]) -> bool;

    /// Its low bits: all that it has, if it fits.
    fn low(self) -> u32;
}

impl Extent for i32 {
    #[inline(always)]
    fn fit([a, b, c, d, e, f]: [i32; 6]) -> bool {
        a | b | c | d | e | f >= 0
    }

    #[inline(always)]
    fn low(self) -> u32 {
        self as u32
    }
}

impl Extent for i64 {
    #[inline(always)]
    fn fit([a, b, c, d, e, f]: [i64; 6]) -> bool {
        (a | b | c | d | e | f) >> 31 == 0
    }

    #[inline(always)]
    fn low(self) -> u32 {
        self as u32
    }
}

impl PartialEq for Key {
    /// Without a branch a word, and without a call, which a comparison of bytes would be.
    #[inline(always)]
    fn eq(&self, other: &Key) -> bool {
        self.0.iter().zip(&other.0).fold(0, |differing, (own, other)| differing | (own ^ other)) == 0
    }
}

impl Key {
    /// The list of the function at `function`.
    ///
    /// `extents`: m, n, k, lda, ldb, ldc. `numbers`: types, operations, layout, factor classes and the like. `strides` are of A,
    /// B and C. `None` where something does not fit: extents and strides in 31 bits, numbers in 8.
    #[inline(always)]
    pub fn new<Int: Extent>(
        function: usize,
        extents: [Int; 6],
        numbers: [i32; 8],
        batch: i32,
        strides: [i64; 3],
    ) -> Option<Key> {
        let [a, b, c] = strides;
        // All of them at once: a branch each would cost more than the rest.
        let large = numbers.iter().fold(0, |bits, &number| bits | number) >> 8;
        if !Int::fit(extents) || !i64::fit([a, b, c, 0, 0, 0]) || large != 0 {
            return None;
        }
        let [m, n, k, lda, ldb, ldc] = extents.map(Int::low);
        let [a, b, c] = strides.map(i64::low);
        let packed = numbers.iter().fold(0, |packed, &number| packed << 8 | number as u64);
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let words =
            [function as u64, pair(m, n), pair(k, lda), pair(ldb, ldc), packed, pair(batch as u32, a), pair(b, c)];
        Some(Key(words))
    }

    #[inline(always)]
    fn place(&self) -> usize {
        /// From Fibonacci hashing: 2^64 over the golden ratio.
        const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
        let [function, sizes, depth, lengths, ..] = self.0;
        let mixed = (sizes ^ depth.rotate_left(21) ^ lengths.rotate_left(42) ^ function).wrapping_mul(SPREAD);
        (mixed >> 58) as usize % PLACES
    }
}

/// A cache line.
#[repr(align(64))]
struct Place {
    key: Cell<Key>,
    entry: Cell<Option<&'static Entry>>,
}

const _: () = assert!(size_of::<Place>() == 64);

/// The calls that a thread made.
pub struct Table([Place; PLACES]);

impl Table {
    /// None yet: all zeros.
    #[cfg_attr(all(target_arch = "x86_64", target_os = "linux"), allow(dead_code, reason = "zeros are had without it"))]
    pub const fn new() -> Table {
        Table([const { Place { key: Cell::new(Key([0; WORDS])), entry: Cell::new(None) } }; PLACES])
    }
}

/// The entry of a call that this thread made before.
#[inline(always)]
pub fn find(key: &Key) -> Option<&'static Entry> {
    let place = &of_this_thread().calls.0[key.place()];
    let entry = place.entry.get()?;
    (place.key.get() == *key).then_some(entry)
}

/// Notes the entry of a call, in the place of one that is older.
pub fn keep(key: Key, entry: &'static Entry) {
    let place = &of_this_thread().calls.0[key.place()];
    place.key.set(key);
    place.entry.set(Some(entry));
}

/// The low bits of addresses that decide an alignment.
#[inline(always)]
pub fn alignment_bits<T>(addresses: [*const T; 3]) -> i32 {
    let [a, b, c] = addresses.map(|address| address as usize);
    ((a | b | c) & 15) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_argument_tells_calls_apart() {
        let key =
            |extents: [i64; 6], numbers, batch, strides| Key::new(4096, extents, numbers, batch, strides).unwrap();
        let base = key([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7, 8], 1, [0; 3]);
        for at in 0..6 {
            let mut extents = [1, 2, 3, 4, 5, 6];
            extents[at] += 1 << 20;
            assert!(key(extents, [1, 2, 3, 4, 5, 6, 7, 8], 1, [0; 3]) != base, "extent {at}");
        }
        for at in 0..8 {
            let mut numbers = [1, 2, 3, 4, 5, 6, 7, 8];
            numbers[at] += 1 << 6;
            assert!(key([1, 2, 3, 4, 5, 6], numbers, 1, [0; 3]) != base, "number {at}");
        }
        for at in 0..3 {
            let mut strides = [0; 3];
            strides[at] = 1 << 30;
            assert!(key([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7, 8], 1, strides) != base, "stride {at}");
            strides[at] = 1 << 31;
            assert!(Key::new(4096, [1, 2, 3, 4, 5, 6i64], [0; 8], 1, strides).is_none(), "stride {at}");
        }
        assert!(key([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7, 8], 2, [0; 3]) != base);
        assert!(Key::new(8192, [1i64, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7, 8], 1, [0; 3]) != Some(base));
        assert!(Key::new(4096, [-1i64, 2, 3, 4, 5, 6], [0; 8], 1, [0; 3]).is_none());
        assert!(Key::new(4096, [1, 2, 3, 4, -5i32, 6], [0; 8], 1, [0; 3]).is_none());
        assert!(
            Key::new(4096, [1i32, 2, 3, 4, 5, 6], [0; 8], 1, [0; 3])
                == Key::new(4096, [1i64, 2, 3, 4, 5, 6], [0; 8], 1, [0; 3])
        );
        assert!(Key::new(4096, [1i64 << 31, 2, 3, 4, 5, 6], [0; 8], 1, [0; 3]).is_none());
        assert!(Key::new(4096, [1, 2, 3, 4, 5, 6i64], [0, 0, 0, 0, 0, 0, 0, 1 << 8], 1, [0; 3]).is_none());
        assert!(Key::new(4096, [1, 2, 3, 4, 5, 6i64], [-1, 0, 0, 0, 0, 0, 0, 0], 1, [0; 3]).is_none());
        assert!(key([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7, 8], -1, [0; 3]) != base, "no batch");
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
