//! One pass over an output as it lies in device memory: what was not written, is not finite, or was written where nothing
//! belongs; a digest of every bit; and the cells that the reference knows.

use std::ops::Range;

use tgemm_db::Problem;

use super::float::Float;
use super::layout::{Layout, Layouts, Place};
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
    #[error("output {0} was never written")]
    Unwritten(Place),
    /// A cell is not a number or infinite.
    #[error("output {0} is {1}")]
    NotFinite(Place, f32),
    /// The gap after a row was written to.
    #[error("memory between rows was written to, after output {0}")]
    Gap(Place),
}

/// A scan under way. Feed it all stored rows in order, then take the parts.
pub struct Scan<'a> {
    float: Float,
    layout: Layout,
    is_batch: bool,
    prefilled: bool,
    reference: &'a Reference,
    /// The outputs at the reference's cells, in its order; NaN where none was seen yet.
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
pub(super) fn fold(digest: u64, bytes: &[u8]) -> u64 {
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
        let gemm = crate::gemm_of(problem)?;
        Ok(Scan {
            float: Float::of_output(gemm.site.out)?,
            layout: Layouts::of(gemm)?.out,
            is_batch: gemm.site.batch.count > 1,
            prefilled,
            reference,
            outputs: vec![f32::NAN; reference.cells.len()],
            fault: None,
            digest: 0,
        })
    }

    /// Takes the next stored rows with their gaps.
    pub fn rows(&mut self, stored: Range<usize>, bytes: &[u8]) {
        let layout = self.layout;
        for span in layout.spans(stored, self.float.bytes()) {
            let (cells, gap) = (&bytes[span.cells], &bytes[span.gap]);
            if self.fault.is_none() {
                self.fault = self.first_fault(span.stored, cells, gap);
            }
            self.digest = fold(self.digest, cells);
            self.sampled_row(span.stored, cells);
        }
    }

    fn place(&self, stored: usize, col: usize) -> Place {
        let (matrix, row) = self.layout.matrix_and_row(stored);
        Place { matrix: self.is_batch.then_some(matrix as u32), row: row as u32, col: col as u32 }
    }

    /// The stored rows that hold what the reference knows.
    pub fn sampled_rows(&self) -> Vec<usize> {
        let Reference { batches, rows, .. } = self.reference;
        let of_batch = |&batch: &u32| rows.iter().map(move |&row| self.layout.stored(batch as usize, row as usize));
        batches.iter().flat_map(of_batch).collect()
    }

    /// Takes what a device found when it looked itself, numbered by stored rows; the reference's rows are then fed by
    /// [`Scan::sampled_row`].
    pub fn surveyed(
        &mut self,
        found: &Surveyed,
        mut value_at: impl FnMut(usize, usize) -> Result<f32, Error>,
    ) -> Result<(), Error> {
        self.digest = found.digest;
        let cols = self.layout.cols() as u64;
        // The first of all, as a pass over the rows would meet it: cells before the gap behind them.
        let cell = |found: Option<u64>| found.unwrap_or(u64::MAX);
        let (unwritten, not_finite) = (cell(found.unwritten), cell(found.not_finite));
        let first = unwritten.min(not_finite);
        if let Some(stored) = found.gap.filter(|stored| first / cols > *stored) {
            self.fault = Some(self.gap_after(stored as usize));
        } else if first != u64::MAX {
            let (stored, col) = ((first / cols) as usize, (first % cols) as usize);
            let place = self.place(stored, col);
            self.fault = Some(match first == unwritten {
                true => Fault::Unwritten(place),
                false => Fault::NotFinite(place, value_at(stored, col)?),
            });
        }
        Ok(())
    }

    /// Takes the cells of a stored row; those that the reference knows are kept.
    pub fn sampled_row(&mut self, stored: usize, cells: &[u8]) {
        let (matrix, row) = self.layout.matrix_and_row(stored);
        let Reference { batches, rows, cols, .. } = self.reference;
        let (Ok(batch), Ok(row)) = (batches.binary_search(&(matrix as u32)), rows.binary_search(&(row as u32))) else {
            return;
        };
        let size = self.float.bytes();
        let from = (batch * rows.len() + row) * cols.len();
        for (output, &col) in self.outputs[from..].iter_mut().zip(cols) {
            *output = self.float.decode(&cells[col as usize * size..]);
        }
    }

    fn gap_after(&self, stored: usize) -> Fault {
        Fault::Gap(self.place(stored, self.layout.cols() - 1))
    }

    fn first_fault(&self, stored: usize, cells: &[u8], gap: &[u8]) -> Option<Fault> {
        let size = self.float.bytes();
        if let Some(col) = cells.chunks_exact(size).position(|cell| not_finite(self.float, cell)) {
            let cell = &cells[col * size..(col + 1) * size];
            let unwritten = self.prefilled && cell.iter().all(|&byte| byte == UNWRITTEN_BYTE);
            let place = self.place(stored, col);
            let value = self.float.decode(cell);
            return Some(if unwritten { Fault::Unwritten(place) } else { Fault::NotFinite(place, value) });
        }
        gap.iter().any(|&byte| byte != GUARD_BYTE).then(|| self.gap_after(stored))
    }
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
