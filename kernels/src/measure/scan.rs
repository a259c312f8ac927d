//! One pass over an output as it lies in device memory: what was not written, is not finite, or was written where nothing
//! belongs; a digest of every bit; and the cells that the reference knows.

use tgemm_db::Problem;

use super::float::Float;
use super::reference::Reference;
use crate::{Error, Surveyed};

/// Every byte of an output cell before the launch: a NaN in every floating-point type that no arithmetic makes.
pub const UNWRITTEN_BYTE: u8 = 0xFF;

/// Every byte around and between what a launch may write.
pub const GUARD_BYTE: u8 = 0xC3;

/// What is wrong with an output before any number is compared.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Fault {
    /// A cell still holds what it was prefilled with.
    #[error("output [{row},{col}] was never written")]
    Unwritten {
        /// Its row.
        row: u32,
        /// Its column.
        col: u32,
    },
    /// A cell is not a number or infinite.
    #[error("output [{row},{col}] is {value}")]
    NotFinite {
        /// Its row.
        row: u32,
        /// Its column.
        col: u32,
        /// What it holds.
        value: f32,
    },
    /// The gap after a row was written to.
    #[error("memory between rows was written to, after row {row}")]
    Gap {
        /// The row before the gap.
        row: u32,
    },
}

/// A scan under way. Feed it all rows in order, then take the parts.
pub struct Scan<'a> {
    float: Float,
    cols: usize,
    row_bytes: usize,
    prefilled: bool,
    reference: &'a Reference,
    /// Rows fed so far.
    row: u32,
    /// Sampled rows gathered so far.
    picked: usize,
    /// The outputs at the reference's cells, in its order.
    pub outputs: Vec<f32>,
    /// The first fault.
    pub fault: Option<Fault>,
    /// Equal for equal bits, and all but surely different for others.
    pub digest: u64,
}

/// Is the exponent all ones: infinite or not a number?
fn not_finite(float: Float, cell: &[u8]) -> bool {
    let high = cell[float.bytes() - 1] & 0x7F;
    match float {
        Float::F8(_) => !float.decode(cell).is_finite(),
        Float::F32 | Float::Bf16 => high == 0x7F && cell[float.bytes() - 2] & 0x80 != 0,
        Float::F16 => high & 0x7C == 0x7C,
    }
}

/// Folds `bytes` into `digest`: multiply and rotate, eight bytes a step.
fn fold(digest: u64, bytes: &[u8]) -> u64 {
    let step = |digest: u64, word: u64| (digest ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0u8; 8];
    last[..rest.len()].copy_from_slice(rest);
    let all = words.iter().fold(digest, |digest, &word| step(digest, u64::from_le_bytes(word)));
    step(all, u64::from_le_bytes(last))
}

impl<'a> Scan<'a> {
    /// A scan of `problem`'s output; `prefilled` says that cells held [`UNWRITTEN_BYTE`] before the launch.
    pub fn new(problem: &Problem, reference: &'a Reference, prefilled: bool) -> Result<Scan<'a>, Error> {
        let site = &crate::gemm_of(problem)?.site;
        let float = Float::of_output(site.out)?;
        Ok(Scan {
            float,
            cols: site.n as usize,
            row_bytes: site.ldo() as usize * float.bytes(),
            prefilled,
            reference,
            row: 0,
            picked: 0,
            outputs: Vec::with_capacity(reference.cells.len()),
            fault: None,
            digest: 0,
        })
    }

    /// Takes the next rows as stored; the length of `bytes` is a multiple of the row's.
    pub fn rows(&mut self, bytes: &[u8]) {
        let size = self.float.bytes();
        for stored in bytes.chunks_exact(self.row_bytes) {
            let (cells, gap) = stored.split_at(self.cols * size);
            if self.fault.is_none() {
                self.fault = self.first_fault(cells, gap);
            }
            self.digest = fold(self.digest, cells);
            if self.reference.rows.get(self.picked) == Some(&self.row) {
                self.sampled_row(stored);
                self.picked += 1;
            }
            self.row += 1;
        }
    }

    /// Takes what a device found when it looked itself; the reference's rows are then fed by [`Scan::sampled_row`].
    pub fn surveyed(
        &mut self,
        found: &Surveyed,
        mut value_at: impl FnMut(u32, u32) -> Result<f32, Error>,
    ) -> Result<(), Error> {
        self.digest = found.digest;
        let cols = self.cols as u64;
        let place = |cell: u64| ((cell / cols) as u32, (cell % cols) as u32);
        // The first of all, as a pass over the rows would meet it: cells before the gap behind them.
        let cell = |found: Option<u64>| found.unwrap_or(u64::MAX);
        let (unwritten, not_finite) = (cell(found.unwritten), cell(found.not_finite));
        let first = unwritten.min(not_finite);
        if let Some(row) = found.gap.filter(|row| first / cols > *row) {
            self.fault = Some(Fault::Gap { row: row as u32 });
        } else if first != u64::MAX {
            let (row, col) = place(first);
            self.fault = Some(match first == unwritten {
                true => Fault::Unwritten { row, col },
                false => Fault::NotFinite { row, col, value: value_at(row, col)? },
            });
        }
        Ok(())
    }

    /// Takes the next of the reference's rows, whole, as stored.
    pub fn sampled_row(&mut self, stored: &[u8]) {
        let size = self.float.bytes();
        let decode = |&col: &u32| self.float.decode(&stored[col as usize * size..]);
        self.outputs.extend(self.reference.cols.iter().map(decode));
    }

    fn first_fault(&self, cells: &[u8], gap: &[u8]) -> Option<Fault> {
        let (size, row) = (self.float.bytes(), self.row);
        if let Some(col) = cells.chunks_exact(size).position(|cell| not_finite(self.float, cell)) {
            let cell = &cells[col * size..(col + 1) * size];
            let unwritten = self.prefilled && cell.iter().all(|&byte| byte == UNWRITTEN_BYTE);
            let (value, col) = (self.float.decode(cell), col as u32);
            return Some(if unwritten { Fault::Unwritten { row, col } } else { Fault::NotFinite { row, col, value } });
        }
        gap.iter().any(|&byte| byte != GUARD_BYTE).then_some(Fault::Gap { row })
    }
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
