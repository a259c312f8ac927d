//! A piece of device memory between two guards.

use std::ffi::c_void;
use std::ops::Range;

use super::scan::GUARD_BYTE;
use super::slab::Slab;
use crate::{Buffer, Cell, Context, Error, Survey, Surveyed};

/// Bytes moved between host and device at once.
pub(super) const STAGING_BYTES: usize = 8 << 20;

/// Room for a launch to miss in: `bytes` bytes with `guard` bytes before and after.
pub(super) struct Zone {
    buffer: Buffer,
    offset: usize,
    bytes: usize,
    guard: usize,
}

impl Zone {
    /// Memory for `bytes` bytes, `shift` bytes past the allocator's alignment; `guard` is a multiple of 64.
    pub(super) fn new(context: &dyn Context, bytes: usize, guard: usize, shift: usize) -> Result<Zone, Error> {
        Zone::one_of(context, &mut Slab::default(), 1, bytes, guard, shift)
    }

    /// As [`Zone::new`], as a piece of `slab`, of which `wanted` alike are to come.
    pub(super) fn one_of(
        context: &dyn Context,
        slab: &mut Slab,
        wanted: usize,
        bytes: usize,
        guard: usize,
        shift: usize,
    ) -> Result<Zone, Error> {
        let total = bytes.checked_add(2 * guard + shift);
        let too_large = || Error::OutOfMemory { bytes: u64::MAX, what: "operands" };
        let buffer = slab.take(context, total.ok_or_else(too_large)?.max(1), wanted)?;
        Ok(Zone { buffer, offset: guard + shift, bytes, guard })
    }

    /// Where it starts on the device.
    pub(super) fn ptr(&self) -> *mut c_void {
        self.buffer.as_ptr().wrapping_byte_add(self.offset).cast_mut()
    }

    /// Its size without guards.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes `bytes` at `at`.
    pub(super) fn write_at(&mut self, context: &dyn Context, at: usize, bytes: &[u8]) -> Result<(), Error> {
        context.write(&mut self.buffer, self.offset + at, bytes)
    }

    /// Sets every byte from `from` on to `byte`.
    pub(super) fn fill_from(&mut self, context: &dyn Context, from: usize, byte: u8) -> Result<(), Error> {
        let offset = self.offset + from;
        context.fill(&mut self.buffer, offset, self.bytes.saturating_sub(from), byte)
    }

    /// Takes over what `other`, a zone of the same size, holds.
    pub(super) fn copy_from(&mut self, context: &dyn Context, other: &Zone) -> Result<(), Error> {
        context.copy(&other.buffer, &mut self.buffer)
    }

    /// Asks the device about its own cells; `survey.offset` counts from the zone's start. `None` where it cannot say.
    pub(super) fn survey(&self, context: &dyn Context, survey: Survey) -> Result<Option<Surveyed>, Error> {
        context.survey(&self.buffer, &Survey { offset: self.offset + survey.offset, ..survey })
    }

    /// Reads `into.len()` bytes at `at`.
    pub(super) fn read_at(&self, context: &dyn Context, at: usize, into: &mut [u8]) -> Result<(), Error> {
        context.read(&self.buffer, self.offset + at, into)
    }

    /// Sets the guards.
    pub(super) fn arm_guards(&mut self, context: &dyn Context) -> Result<(), Error> {
        let before = self.offset - self.guard;
        context.fill(&mut self.buffer, before, self.guard, GUARD_BYTE)?;
        context.fill(&mut self.buffer, self.offset + self.bytes, self.guard, GUARD_BYTE)
    }

    /// Bytes of the guards that were changed: (before, after).
    pub(super) fn broken_guards(&self, context: &dyn Context) -> Result<(usize, usize), Error> {
        let before = self.changed(context, self.offset - self.guard, self.guard, GUARD_BYTE)?;
        Ok((before, self.changed(context, self.offset + self.bytes, self.guard, GUARD_BYTE)?))
    }

    /// Bytes from `from` on that are not `byte`.
    pub(super) fn differing_from(&self, context: &dyn Context, from: usize, byte: u8) -> Result<usize, Error> {
        self.differing(context, from..self.bytes.max(from), byte)
    }

    /// Bytes within `range` that are not `byte`.
    pub(super) fn differing(&self, context: &dyn Context, range: Range<usize>, byte: u8) -> Result<usize, Error> {
        self.changed(context, self.offset + range.start, range.len(), byte)
    }

    /// Bytes of `len` at `at` of the buffer that are not `byte`.
    fn changed(&self, context: &dyn Context, at: usize, len: usize, byte: u8) -> Result<usize, Error> {
        // One row without cells: all of it is gap. Only where something is wrong is it worth reading.
        let asked = Survey { offset: at, rows: 1, cols: 0, row_bytes: len, cell: Cell::F32, prefill: None, gap: byte };
        if let Some(Surveyed { gap: None, .. }) = context.survey(&self.buffer, &asked)? {
            return Ok(0);
        }
        let (mut staging, mut count) = (Vec::new(), 0);
        for from in (0..len).step_by(STAGING_BYTES) {
            staging.resize(STAGING_BYTES.min(len - from), 0);
            context.read(&self.buffer, at + from, &mut staging)?;
            count += staging.iter().filter(|&&seen| seen != byte).count();
        }
        Ok(count)
    }
}
