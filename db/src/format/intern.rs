//! Parts that most rows of a table share, made once: a device, a build, a kernel's name.
//!
//! Each kind has a few slots, found by a hash of its text, and a newcomer takes the slot of who was there. So a table of
//! hostile names costs what it would cost without.

use std::cell::RefCell;
use std::sync::Arc;

use crate::device::{Build, Device};
use crate::name::Name;
use crate::solution::Params;

/// The most slots of one kind: real tables have some hundred kernels.
const SLOTS_MAX: usize = 1024;

/// Bytes of a short row: a file of so many more gets a slot more.
const ROW_BYTES_TYPICAL: usize = 128;

#[derive(Debug)]
struct Slots<T>(Vec<Option<T>>);

impl<T: Clone> Slots<T> {
    /// `count` is a power of two.
    fn new(count: usize) -> Slots<T> {
        Slots(vec![None; count])
    }

    fn get(&mut self, hash: u64, is_it: impl Fn(&T) -> bool, make: impl FnOnce() -> T) -> T {
        // The upper bits of a product are the well-mixed ones.
        let at = hash.checked_shr(u64::BITS - self.0.len().ilog2()).unwrap_or(0) as usize;
        let slot = &mut self.0[at];
        match slot {
            Some(have) if is_it(have) => have.clone(),
            _ => slot.insert(make()).clone(),
        }
    }
}

/// Any odd number with mixed bits does: the golden ratio's.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A hash that is quick on texts of a hundred bytes, and need not be more than fair.
pub(super) fn mix(seed: u64, text: &str) -> u64 {
    let step = |hash: u64, word: u64| (hash.rotate_left(23) ^ word).wrapping_mul(ODD);
    let (chunks, rest) = text.as_bytes().as_chunks::<8>();
    let hash = chunks.iter().fold(step(seed, text.len() as u64), |hash, chunk| step(hash, u64::from_le_bytes(*chunk)));
    step(hash, rest.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)))
}

/// `a == b`, quick where both are empty: an empty `String` points nowhere, and the masked load of the C library's `memcmp`
/// from there costs as much as reading three cells.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && (a.is_empty() || a == b)
}

/// Gives equal parts of a file's rows out as one.
#[derive(Debug)]
pub(crate) struct Interner {
    names: RefCell<Slots<Name>>,
    builds: RefCell<Slots<Arc<Build>>>,
    devices: RefCell<Slots<Arc<Device>>>,
    params: RefCell<Slots<(i64, Params)>>,
    no_params: Params,
}

impl Interner {
    /// For a file of so many bytes: one that holds a row or two is not worth tables.
    pub(crate) fn of(bytes: usize) -> Interner {
        let slots = (bytes / ROW_BYTES_TYPICAL).next_power_of_two().min(SLOTS_MAX);
        Interner {
            names: Slots::new(slots).into(),
            builds: Slots::new(slots).into(),
            devices: Slots::new(slots).into(),
            params: Slots::new(slots).into(),
            no_params: Params::new(),
        }
    }

    /// `text` as a name.
    pub(crate) fn name(&self, text: &str) -> Name {
        self.names.borrow_mut().get(mix(0, text), |name| same(name, text), || Name::from(text))
    }

    /// The build of these words.
    pub(crate) fn build(&self, library: &str, version: &str, revision: &str) -> Arc<Build> {
        let hash = mix(mix(mix(0, library), version), revision);
        let is_it = |build: &Arc<Build>| {
            same(&build.library, library) && same(&build.version, version) && same(&build.revision, revision)
        };
        let make = || Arc::new(Build { library: library.into(), version: version.into(), revision: revision.into() });
        self.builds.borrow_mut().get(hash, is_it, make)
    }

    /// `but_arch`, which has no arch yet, with this one.
    pub(crate) fn device(&self, arch: &str, but_arch: Device) -> Arc<Device> {
        let is_it = |device: &Arc<Device>| {
            let Device { vendor, arch: have, compute_units, memory_gib, chip_id, partition, last_level_cache_bytes } =
                &**device;
            same(have, arch)
                && (*vendor, *compute_units) == (but_arch.vendor, but_arch.compute_units)
                && (*memory_gib, *chip_id) == (but_arch.memory_gib, but_arch.chip_id)
                && *partition == but_arch.partition
                && *last_level_cache_bytes == but_arch.last_level_cache_bytes
        };
        let make = || Arc::new(Device { arch: arch.into(), ..but_arch.clone() });
        self.devices.borrow_mut().get(mix(u64::from(but_arch.compute_units), arch), is_it, make)
    }

    /// The one parameter `name` with this value; always asked for with the same name.
    pub(crate) fn param(&self, name: &str, value: i64) -> Params {
        let make = || (value, Params::new().with(name, value));
        self.params.borrow_mut().get((value as u64).wrapping_mul(ODD), |(have, _)| *have == value, make).1
    }

    /// No parameters.
    pub(crate) fn no_params(&self) -> Params {
        self.no_params.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Vendor;

    #[test]
    fn equal_parts_are_one_and_others_are_not() {
        let interner = Interner::of(1 << 20);
        let names: Vec<String> = (0..4 * SLOTS_MAX).map(|i| format!("Cijk_Alik_Bljk_BBS_BH_MT{i}x64")).collect();
        for name in &names {
            assert_eq!(interner.name(name), **name);
        }
        let (a, b) = (interner.name(&names[7]), interner.name(&names[7]));
        assert!(std::ptr::eq(&*a, &*b));
        assert_eq!(interner.param("split_k", 4).to_string(), "split_k=4");
        assert_eq!(interner.param("split_k", -4).to_string(), "split_k=-4");
        let builds = [interner.build("ck", "", ""), interner.build("ck", "1", ""), interner.build("ck", "", "")];
        assert!(builds[0] == builds[2] && builds[0] != builds[1] && Arc::ptr_eq(&builds[0], &builds[2]));
        let device = |units| interner.device("gfx942", Device::named(Vendor::Amd, "", units));
        assert_eq!((device(80).compute_units, device(304).compute_units, device(304).compute_units), (80, 304, 304));
    }

    #[test]
    fn a_file_of_one_row_has_one_slot() {
        let interner = Interner::of(0);
        assert_eq!(interner.names.borrow().0.len(), 1);
        assert_eq!(["a", "b", "a", ""].map(|name| interner.name(name)), ["a", "b", "a", ""]);
    }

    #[test]
    fn real_names_rarely_meet() {
        let hash = |i: u32| mix(0, &format!("_ZN5aiter41fp8gemm_blockscale_{i}x128E"));
        let slot = |i| hash(i) >> (u64::BITS - SLOTS_MAX.ilog2());
        let taken: std::collections::BTreeSet<u64> = (0..SLOTS_MAX as u32 / 2).map(slot).collect();
        // Of 512 thrown at random into 1024 slots, 403 are expected to be taken.
        assert!(taken.len() > 350, "{}", taken.len());
    }
}
