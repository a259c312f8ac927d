//! Where the rows of a matrix, or of a strided batch of matrices, lie in memory. Sizes and places in elements.
//!
//! A *stored row* is one row of one matrix as stored. Stored rows are numbered by their address, which is matrix after matrix
//! or, where the rows of all matrices lie side by side (heads of attention within a token's row), row after row:
//!
//! | arrangement | when | outer | inner |
//! |---|---|---|---|
//! | one | there is one matrix, or all products share it | rows | one |
//! | apart | each matrix ends before the next one starts | matrices | rows |
//! | woven | one row of every matrix fits into one row length | rows | matrices |
//!
//! What lies between the cells of a stored row and the next stored row is its gap.

use std::fmt;
use std::ops::Range;

use tgemm_db::Gemm;

use super::zone::STAGING_BYTES;
use crate::Error;

/// Longest stored row with its gap: it is moved in one piece.
pub const ROW_ELEMENTS_MAX: u64 = 1 << 26;

/// Most grids that a device is asked about one after the other.
const GRIDS_MAX: usize = 4096;

/// One element of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which matrix of a batch; `None` where there is no batch.
    pub matrix: Option<u32>,
    /// Its row.
    pub row: u32,
    /// Its column.
    pub col: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.matrix {
            Some(matrix) => write!(f, "[{matrix},{},{}]", self.row, self.col),
            None => write!(f, "[{},{}]", self.row, self.col),
        }
    }
}

/// How one operand lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    rows: usize,
    cols: usize,
    matrices: usize,
    is_woven: bool,
    outer: usize,
    outer_pitch: usize,
    inner: usize,
    inner_pitch: usize,
}

/// Stored rows at equal distances, with what lies behind the last of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    /// Number of its first stored row.
    pub first: usize,
    /// How many rows of cells.
    pub rows: usize,
    /// Stored rows that lie in each without a gap between them.
    pub stored_in_row: usize,
    /// From one row to the next.
    pub pitch: usize,
    /// A further gap behind it.
    pub tail: Range<usize>,
}

/// The bytes of one stored row, counted from the start of a piece.
pub(super) struct Span {
    /// Number of the stored row.
    pub stored: usize,
    /// Its cells.
    pub cells: Range<usize>,
    /// What lies between it and the next.
    pub gap: Range<usize>,
}

impl Layout {
    /// One matrix of `rows` x `cols`, rows `ld` apart.
    pub(super) fn one([rows, cols, ld]: [u32; 3]) -> Result<Layout, Error> {
        Layout::new("a matrix", [rows, cols, ld], 1, 0)
    }

    /// `count` matrices of `rows` x `cols`, rows `ld` and matrices `stride` apart; 0 means that there is but one.
    ///
    /// [`Error::Unsupported`], naming `what` they are, where matrices overlap or mesh in another way than row by row.
    pub(super) fn new(what: &str, [rows, cols, ld]: [u32; 3], count: u32, stride: u64) -> Result<Layout, Error> {
        let too_large = || Error::OutOfMemory { bytes: u64::MAX, what: "a batch of matrices" };
        let is_batch = count > 1 && stride != 0;
        let [rows, cols, ld, count] = [rows, cols, ld, count].map(u64::from);
        let is_apart = stride >= rows.saturating_sub(1) * ld + cols;
        let reach =
            (count.max(1) - 1).checked_mul(stride).and_then(|last| last.checked_add(cols)).ok_or_else(too_large)?;
        let (is_woven, [outer, outer_pitch, inner, inner_pitch]) = match (is_batch, is_apart) {
            (false, _) => (true, [rows, ld, 1, ld]),
            (true, true) => (false, [count, stride, rows, ld]),
            (true, false) if stride >= cols && reach <= ld => (true, [rows, ld, count, stride]),
            (true, false) => {
                let why = format!("matrices of {what} that lie {stride} elements apart and overlap or mesh");
                return Err(Error::unsupported(format!("{why} cannot be checked")));
            }
        };
        let elements = outer.checked_mul(outer_pitch).filter(|&total| total <= isize::MAX as u64 / 16);
        elements.ok_or_else(too_large)?;
        let last = outer_pitch.saturating_sub((inner - inner.min(1)) * inner_pitch);
        if last.max(if inner > 1 { inner_pitch } else { 0 }) > ROW_ELEMENTS_MAX {
            let why = format!("rows of {what} more than {ROW_ELEMENTS_MAX} elements apart cannot be checked");
            return Err(Error::unsupported(why));
        }
        let [rows, cols, outer, outer_pitch, inner, inner_pitch] =
            [rows, cols, outer, outer_pitch, inner, inner_pitch].map(|extent| extent as usize);
        let matrices = if is_batch { count as usize } else { 1 };
        Ok(Layout { rows, cols, matrices, is_woven, outer, outer_pitch, inner, inner_pitch })
    }

    /// Rows of one matrix.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Elements of a row.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Matrices in memory; one where all products share it.
    pub fn matrices(&self) -> usize {
        self.matrices
    }

    /// Rows of all matrices.
    pub(super) fn stored_rows(&self) -> usize {
        self.outer * self.inner
    }

    /// All that lies between the first element and the end of the last gap.
    pub fn elements(&self) -> usize {
        self.outer * self.outer_pitch
    }

    /// Is there no gap anywhere?
    pub(super) fn is_packed(&self) -> bool {
        self.elements() == self.stored_rows() * self.cols
    }

    /// Where a stored row starts; for the number behind the last, where everything ends.
    pub(super) fn start(&self, stored: usize) -> usize {
        stored / self.inner * self.outer_pitch + stored % self.inner * self.inner_pitch
    }

    /// The matrix and the row within it that a stored row is.
    pub(super) fn matrix_and_row(&self, stored: usize) -> (usize, usize) {
        let (outer, inner) = (stored / self.inner, stored % self.inner);
        if self.is_woven { (inner, outer) } else { (outer, inner) }
    }

    /// The number of the stored row that is `row` of `matrix`; of a shared matrix whichever is asked for.
    pub(super) fn stored(&self, matrix: usize, row: usize) -> usize {
        let matrix = if self.matrices == 1 { 0 } else { matrix };
        let (outer, inner) = if self.is_woven { (row, matrix) } else { (matrix, row) };
        outer * self.inner + inner
    }

    /// Calls `each` with stored rows and the bytes where they lie, in pieces of [`STAGING_BYTES`] or of one stored row.
    pub(super) fn pieces(
        &self,
        element_bytes: usize,
        mut each: impl FnMut(Range<usize>, Range<usize>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let total = self.stored_rows();
        let mut from = 0;
        while from < total {
            let fits = |to: usize| (self.start(to) - self.start(from)) * element_bytes <= STAGING_BYTES;
            // Starts ascend with their numbers, so the last that fits is found by halving.
            let (mut to, mut beyond) = (from + 1, total + 1);
            while beyond - to > 1 {
                let middle = to + (beyond - to) / 2;
                if fits(middle) { to = middle } else { beyond = middle }
            }
            each(from..to, self.start(from) * element_bytes..self.start(to) * element_bytes)?;
            from = to;
        }
        Ok(())
    }

    /// The stored rows of a piece, as bytes of it.
    pub(super) fn spans(&self, stored: Range<usize>, element_bytes: usize) -> impl Iterator<Item = Span> {
        let (layout, base) = (*self, self.start(stored.start));
        stored.map(move |stored| {
            let from = (layout.start(stored) - base) * element_bytes;
            let cells = from..from + layout.cols * element_bytes;
            Span { stored, gap: cells.end..(layout.start(stored + 1) - base) * element_bytes, cells }
        })
    }

    /// Everything as grids that a device can look over; `None` where rows lie too unevenly for it.
    pub(super) fn grids(&self) -> Option<Vec<Grid>> {
        let Layout { outer, outer_pitch, inner, inner_pitch, cols, .. } = *self;
        let whole = |rows, stored_in_row, pitch| {
            Some(vec![Grid { first: 0, rows, stored_in_row, pitch, tail: self.elements()..self.elements() }])
        };
        let inner_end = inner * inner_pitch;
        match inner {
            1 => whole(outer, 1, outer_pitch),
            _ if inner_end == outer_pitch => whole(outer * inner, 1, inner_pitch),
            _ if inner_pitch == cols => whole(outer, inner, outer_pitch),
            _ if inner_end < outer_pitch && outer <= GRIDS_MAX => {
                let grid = |at: usize| {
                    let start = at * outer_pitch;
                    let tail = start + inner_end..start + outer_pitch;
                    Grid { first: at * inner, rows: inner, stored_in_row: 1, pitch: inner_pitch, tail }
                };
                Some((0..outer).map(grid).collect())
            }
            _ => None,
        }
    }
}

/// The layouts of the operands of one problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layouts {
    /// Of `x` as stored.
    pub x: Layout,
    /// Of `w` as stored.
    pub w: Layout,
    /// Of the output, and of the old output.
    pub out: Layout,
}

impl Layouts {
    /// The layouts of `gemm`, which is valid. [`Error::Unsupported`] for batches whose matrices overlap.
    pub fn of(gemm: &Gemm) -> Result<Layouts, Error> {
        let Gemm { m, site } = gemm;
        let batch = &site.batch;
        if batch.count > 1 && batch.stride_out == 0 {
            return Err(Error::unsupported("the products of a batch cannot all be written to one output"));
        }
        let stored = |transposed: bool, outer: u32, inner: u32, ld: u32| match transposed {
            true => [inner, outer, ld],
            false => [outer, inner, ld],
        };
        let x = stored(site.trans.x(), *m, site.k, site.ldx(*m));
        let w = stored(site.trans.w(), site.n, site.k, site.ldw());
        Ok(Layouts {
            x: Layout::new("x", x, batch.count, batch.stride_x)?,
            w: Layout::new("w", w, batch.count, batch.stride_w)?,
            out: Layout::new("the output", [*m, site.n, site.ldo()], batch.count, batch.stride_out)?,
        })
    }
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
