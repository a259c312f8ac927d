//! Calls that this thread has made before: an argument list leads to its entry without being understood again.
//!
//! A key holds everything that the entry follows from; what does not fit into a [`Place`] is looked up the long way. A key is
//! compared as it comes, argument by argument: to pack it first would take longer than the rest.

use std::cell::Cell;

use tgemm_recorder::Entry;

use crate::thread::of_this_thread;

/// Places of the table, a power of two. A model has some dozens of different calls a step; 4 KB a thread.
const PLACES: usize = 64;

/// An argument list.
#[derive(Clone, Copy, Debug)]
pub struct Key<Int> {
    /// The function's address.
    pub function: usize,
    /// m, n, k, lda, ldb, ldc.
    pub extents: [Int; 6],
    /// Types, operations, layout, factor classes and the like.
    pub numbers: [i32; 7],
    /// How many.
    pub batch: i32,
    /// Of A, B and C.
    pub strides: [i64; 3],
}

/// An integer of an argument list.
pub trait Extent: Copy {
    /// The same number.
    fn wide(self) -> i64;
}

impl Extent for i32 {
    #[inline(always)]
    fn wide(self) -> i64 {
        self.into()
    }
}

impl Extent for i64 {
    #[inline(always)]
    fn wide(self) -> i64 {
        self
    }
}

/// A call that was made, in one cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Place {
    function: usize,
    entry: Option<&'static Entry>,
    extents: [u32; 6],
    strides: [u32; 3],
    batch: i32,
    numbers: [u8; 7],
}

const _: () = assert!(size_of::<Place>() == 64);

impl Place {
    /// All zeros: no function is there.
    const EMPTY: Place =
        Place { function: 0, entry: None, extents: [0; 6], strides: [0; 3], batch: 0, numbers: [0; 7] };

    /// `None` where something does not fit.
    fn new<Int: Extent>(key: &Key<Int>, entry: &'static Entry) -> Option<Place> {
        let mut place = Place { function: key.function, entry: Some(entry), batch: key.batch, ..Place::EMPTY };
        for (to, from) in place.extents.iter_mut().zip(key.extents) {
            *to = from.wide().try_into().ok()?;
        }
        for (to, from) in place.strides.iter_mut().zip(key.strides) {
            *to = from.try_into().ok()?;
        }
        for (to, from) in place.numbers.iter_mut().zip(key.numbers) {
            *to = from.try_into().ok()?;
        }
        Some(place)
    }

    /// Is this `key`'s? Without a branch an argument.
    #[inline(always)]
    fn is_of<Int: Extent>(&self, key: &Key<Int>) -> bool {
        let mut differing = (self.function ^ key.function) as i64 | i64::from(self.batch ^ key.batch);
        for (own, other) in self.extents.iter().zip(key.extents) {
            differing |= i64::from(*own) ^ other.wide();
        }
        for (own, other) in self.strides.iter().zip(key.strides) {
            differing |= i64::from(*own) ^ other;
        }
        for (own, other) in self.numbers.iter().zip(key.numbers) {
            differing |= i64::from(i32::from(*own) ^ other);
        }
        differing == 0
    }
}

impl<Int: Extent> Key<Int> {
    #[inline(always)]
    fn place(&self) -> usize {
        /// From Fibonacci hashing: 2^64 over the golden ratio.
        const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
        let [m, n, k, lda, ..] = self.extents.map(|extent| extent.wide() as u64);
        let mixed = m ^ n.rotate_left(16) ^ k.rotate_left(32) ^ lda.rotate_left(48) ^ self.function as u64;
        (mixed.wrapping_mul(SPREAD) >> 58) as usize % PLACES
    }
}

/// The calls that a thread made.
pub struct Table([Cell<Place>; PLACES]);

impl Table {
    /// None yet: all zeros.
    #[cfg_attr(all(target_arch = "x86_64", target_os = "linux"), allow(dead_code, reason = "zeros are had without it"))]
    pub const fn new() -> Table {
        Table([const { Cell::new(Place::EMPTY) }; PLACES])
    }
}

/// The entry of a call that this thread made before.
#[inline(always)]
pub fn find<Int: Extent>(key: &Key<Int>) -> Option<&'static Entry> {
    let place = of_this_thread().calls.0[key.place()].get();
    if place.is_of(key) { place.entry } else { None }
}

/// Notes the entry of a call, in the place of one that is older; `false` if that holds no such call.
pub fn keep<Int: Extent>(key: &Key<Int>, entry: &'static Entry) -> bool {
    let place = Place::new(key, entry);
    place.inspect(|&place| of_this_thread().calls.0[key.place()].set(place)).is_some()
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
    use tgemm_db::{DType, Site, Via};
    use tgemm_recorder::{Asked, Recorder, RecorderOptions};

    fn entries() -> impl FnMut() -> &'static Entry {
        let recorder: &'static Recorder = Box::leak(Box::new(Recorder::open(RecorderOptions::in_memory())));
        let mut m = 0;
        move || {
            m += 1;
            let problem = Site::linear(16, 32, DType::F32).at(m).into();
            recorder.entry(&Asked::new(problem, Via::Blas)).unwrap()
        }
    }

    const KEY: Key<i64> =
        Key { function: 4096, extents: [1, 2, 3, 4, 5, 6], numbers: [1, 2, 3, 4, 5, 6, 7], batch: 1, strides: [0; 3] };

    /// Keys that differ from [`KEY`] in one argument each, by much or little.
    fn others() -> Vec<Key<i64>> {
        let mut others = vec![Key { function: 8192, ..KEY }, Key { batch: 2, ..KEY }, Key { batch: -1, ..KEY }];
        for by in [1, 1 << 20, 1 << 31, 1 << 32, -8] {
            for at in 0..6 {
                others.push(KEY);
                others.last_mut().unwrap().extents[at] += by;
            }
            for at in 0..3 {
                others.push(KEY);
                others.last_mut().unwrap().strides[at] += by;
            }
        }
        for by in [8, 1 << 8, 1 << 16, -8] {
            for at in 0..7 {
                others.push(KEY);
                others.last_mut().unwrap().numbers[at] += by;
            }
        }
        others
    }

    #[test]
    fn every_argument_tells_calls_apart() {
        let mut entry = entries();
        let kept = Place::new(&KEY, entry()).unwrap();
        assert!(kept.is_of(&KEY));
        for other in others() {
            assert!(!kept.is_of(&other), "{other:?}");
            if let Some(place) = Place::new(&other, entry()) {
                assert!(place.is_of(&other) && !place.is_of(&KEY), "{other:?}");
            }
        }
        let Key { function, numbers, batch, strides, .. } = KEY;
        let narrow = |extents: [i32; 6]| Key { function, extents, numbers, batch, strides };
        assert!(kept.is_of(&narrow([1, 2, 3, 4, 5, 6])));
        for at in 0..6 {
            let mut extents = [1, 2, 3, 4, 5, 6];
            extents[at] -= 8;
            assert!(!kept.is_of(&narrow(extents)));
        }
        let high = Key { extents: KEY.extents.map(|extent| extent + 0xffff_fff0), ..KEY };
        let same_low_bits = narrow([1, 2, 3, 4, 5, 6].map(|extent| extent - 16));
        assert!(!Place::new(&high, entry()).unwrap().is_of(&same_low_bits));
    }

    #[test]
    fn what_does_not_fit_is_not_kept() {
        let entry = entries()();
        let fits = |key: &Key<i64>| Place::new(key, entry).is_some();
        let at = |extent, number, stride| Key {
            extents: [1, 2, extent, 4, 5, 6],
            numbers: [1, 2, number, 4, 5, 6, 7],
            strides: [0, stride, 0],
            ..KEY
        };
        assert!(fits(&at(0xffff_ffff, 255, 0xffff_ffff)));
        for odd in [at(-1, 0, 0), at(1 << 32, 0, 0), at(1, -1, 0), at(1, 256, 0), at(1, 0, -1), at(1, 0, 1 << 32)] {
            assert!(!fits(&odd) && !keep(&odd, entry) && find(&odd).is_none(), "{odd:?}");
        }
    }

    #[test]
    fn what_is_kept_is_found_on_this_thread_only() {
        let mut entry = entries();
        let key = |m: i64| Key { function: 4096, extents: [m, 16, 32, 32, 32, 16], numbers: [0; 7], ..KEY };
        for m in 1..500 {
            let entry = entry();
            assert!(keep(&key(m), entry));
            assert!(std::ptr::eq(find(&key(m)).unwrap(), entry));
        }
        for m in 1..500 {
            assert!(find(&key(m)).is_none_or(|entry| i64::from(entry.asked().problem.m()) == m), "{m}");
        }
        std::thread::spawn(move || assert!(find(&key(499)).is_none())).join().unwrap();
    }

    #[test]
    fn nothing_is_found_in_an_empty_table() {
        std::thread::spawn(|| {
            assert!(find(&Key { extents: [0i64; 6], numbers: [0; 7], batch: 0, function: 1, ..KEY }).is_none())
        })
        .join()
        .unwrap();
    }
}
