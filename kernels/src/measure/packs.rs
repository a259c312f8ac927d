//! Packed weights, shared by the candidates that take the same form.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::time::Instant;

use crate::{Error, Packed, Prepared};

/// Copies of one packed form and who uses them.
struct Shelf {
    copies: Vec<Packed>,
    pack_us: f64,
    users: usize,
}

/// All packed forms of one problem, by [`Prepared::pack_key`].
#[derive(Default)]
pub(super) struct Packs {
    shelves: BTreeMap<String, Shelf>,
}

/// Packs the weights at `w`, timed. `w` holds the plain weights of the problem that `prepared` was made for.
fn pack(prepared: &dyn Prepared, w: *const c_void) -> Result<(Packed, f64), Error> {
    let start = Instant::now();
    // SAFETY: `w` points to the whole weights as the problem describes them, kept by the caller for the whole call.
    let packed = unsafe { prepared.pack(w) }?;
    let pack_us = start.elapsed().as_secs_f64() * 1e6;
    let nothing = || Error::Failed { call: "pack".into(), reason: "a solution with a pack key packed nothing".into() };
    Ok((packed.ok_or_else(nothing)?, pack_us))
}

impl Packs {
    /// Registers one more user of `key`; packs the weights at `w` if nobody did. The time it took the first user.
    pub(super) fn acquire(&mut self, key: &str, prepared: &dyn Prepared, w: *const c_void) -> Result<f64, Error> {
        if let Some(shelf) = self.shelves.get_mut(key) {
            shelf.users += 1;
            return Ok(shelf.pack_us);
        }
        let (packed, pack_us) = pack(prepared, w)?;
        self.shelves.insert(key.to_owned(), Shelf { copies: vec![packed], pack_us, users: 1 });
        Ok(pack_us)
    }

    /// Unregisters a user of `key`; the last one frees all its copies.
    pub(super) fn release(&mut self, key: &str) {
        if let Some(shelf) = self.shelves.get_mut(key) {
            shelf.users = shelf.users.saturating_sub(1);
            if shelf.users == 0 {
                self.shelves.remove(key);
            }
        }
    }

    /// Frees the copies of every form; users stay.
    pub(super) fn clear_copies(&mut self) {
        self.shelves.values_mut().for_each(|shelf| shelf.copies.clear());
    }

    /// Packs `key` again from the weights at `w`, if [`Packs::clear_copies`] took its copies.
    pub(super) fn refill(&mut self, key: &str, prepared: &dyn Prepared, w: *const c_void) -> Result<(), Error> {
        match self.shelves.get_mut(key) {
            Some(shelf) if shelf.copies.is_empty() => {
                shelf.copies.push(pack(prepared, w)?.0);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Copies of `key`, and the bytes of each.
    pub(super) fn copies(&self, key: &str) -> (usize, u64) {
        self.shelves.get(key).map_or((0, 0), |shelf| {
            (shelf.copies.len(), shelf.copies.first().map_or(0, |packed| packed.bytes() as u64))
        })
    }

    /// Duplicates `key` up to `copies`; how many there are then.
    pub(super) fn grow(&mut self, key: &str, copies: usize) -> usize {
        let Some(shelf) = self.shelves.get_mut(key) else { return 0 };
        while shelf.copies.len() < copies {
            match shelf.copies.first().and_then(|first| first.duplicate()) {
                Some(packed) => shelf.copies.push(packed),
                None => break,
            }
        }
        shelf.copies.len()
    }

    /// Gives copies beyond `copies` back.
    pub(super) fn shrink(&mut self, copies: usize) {
        self.shelves.values_mut().for_each(|shelf| shelf.copies.truncate(copies.max(1)));
    }

    /// Where the copy of `key` for operand set `index` lies: a form larger than the plain weights has fewer copies than
    /// there are sets, and goes round more often. `None` if there is no copy.
    pub(super) fn ptr(&self, key: &str, index: usize) -> Option<*const c_void> {
        let copies = &self.shelves.get(key)?.copies;
        Some(copies.get(index.checked_rem(copies.len())?)?.as_ptr())
    }

    /// Memory held by all forms.
    pub(super) fn bytes(&self) -> u64 {
        let copies = self.shelves.values().flat_map(|shelf| &shelf.copies);
        copies.map(|packed| packed.bytes() as u64).sum()
    }
}
