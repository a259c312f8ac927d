//! A piece of device memory between two guards.

use std::ffi::c_void;

use super::scan::GUARD_BYTE;
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

/// Calls `each` with (offset, length) of the pieces of `bytes`, at most [`STAGING_BYTES`] long and a multiple of `unit`.
pub(super) fn pieces(
    bytes: usize,
    unit: usize,
    mut each: impl FnMut(usize, usize) -> Result<(), Error>,
) -> Result<(), Error> {
    let unit = unit.max(1);
    let step = (STAGING_BYTES / unit).max(1) * unit;
    let mut at = 0;
    while at < bytes {
        let take = step.min(bytes - at);
        each(at, take)?;
        at += take;
    }
    Ok(())
}

impl Zone {
    /// Memory for `bytes` bytes, `shift` bytes past the allocator's alignment; `guard` is a multiple of 64.
    pub(super) fn new(context: &dyn Context, bytes: usize, guard: usize, shift: usize) -> Result<Zone, Error> {
        let total = bytes.checked_add(2 * guard + shift);
        let too_large = || Error::OutOfMemory { bytes: u64::MAX, what: "operands" };
        let buffer = context.alloc(total.ok_or_else(too_large)?.max(1))?;
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

    /// Writes what `make` puts into each piece; pieces are multiples of `unit`.
    pub(super) fn write(
        &mut self,
        context: &dyn Context,
        unit: usize,
        mut make: impl FnMut(usize, &mut [u8]),
    ) -> Result<(), Error> {
        let mut staging = Vec::new();
        let (bytes, offset) = (self.bytes, self.offset);
        pieces(bytes, unit, |at, take| {
            staging.resize(take, 0);
            make(at, &mut staging);
            context.write(&mut self.buffer, offset + at, &staging)
        })
    }

    /// Shows each piece to `look`; pieces are multiples of `unit`.
    pub(super) fn read(&self, context: &dyn Context, unit: usize, mut look: impl FnMut(&[u8])) -> Result<(), Error> {
        let mut staging = Vec::new();
        pieces(self.bytes, unit, |at, take| {
            staging.resize(take, 0);
            context.read(&self.buffer, self.offset + at, &mut staging)?;
            look(&staging);
            Ok(())
        })
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
        let mut seen = vec![0; self.guard];
        let mut broken = |at: usize| {
            context.read(&self.buffer, at, &mut seen)?;
            Ok::<_, Error>(seen.iter().filter(|&&byte| byte != GUARD_BYTE).count())
        };
        Ok((broken(self.offset - self.guard)?, broken(self.offset + self.bytes)?))
    }

    /// Bytes from `from` on that are not `byte`.
    pub(super) fn differing_from(&self, context: &dyn Context, from: usize, byte: u8) -> Result<usize, Error> {
        // One row without cells: all of it is gap. Only where something is wrong is it worth reading.
        let row_bytes = self.bytes.saturating_sub(from);
        let asked = Survey { offset: from, rows: 1, cols: 0, row_bytes, cell: Cell::F32, prefill: None, gap: byte };
        if let Some(Surveyed { gap: None, .. }) = self.survey(context, asked)? {
            return Ok(0);
        }
        let (mut at, mut count) = (0, 0);
        self.read(context, 1, |piece| {
            let skip = from.saturating_sub(at).min(piece.len());
            count += piece[skip..].iter().filter(|&&seen| seen != byte).count();
            at += piece.len();
        })?;
        Ok(count)
    }
}
