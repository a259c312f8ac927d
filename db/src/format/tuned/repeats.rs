//! What rows say again and again: a device, a solution, a site. Cells that were read and checked once are not read a second
//! time; they are only compared.

use std::cell::RefCell;

use super::super::cells::Cells;
use super::super::known::Known;
use super::super::sheet::{Column, Reason};

/// The most texts of one kind that are remembered.
const KNOWN_MAX: usize = 4096;

/// Bytes of a row of ours: a file of so many more remembers one text more.
const ROW_BYTES_TYPICAL: usize = 256;

/// Between two cells of a text. No cell holds it: it would have ended the row.
const BETWEEN: char = '\n';

/// Values by the exact text of the cells that say them.
#[derive(Debug)]
pub(super) struct Repeats<T> {
    known: RefCell<Known<T>>,
    /// The cells of the row at hand.
    text: RefCell<String>,
}

impl<T: Clone> Repeats<T> {
    /// For a file of so many bytes.
    pub(super) fn of(bytes: usize) -> Repeats<T> {
        let count = (bytes / ROW_BYTES_TYPICAL).min(KNOWN_MAX);
        Repeats { known: RefCell::new(Known::of(count)), text: RefCell::default() }
    }

    /// What `first` and the cells of `columns` say: as remembered, else as `read` reads it.
    pub(super) fn get(
        &self,
        first: &str,
        columns: &[Column],
        row: &Cells,
        read: impl FnOnce() -> Result<T, Reason>,
    ) -> Result<T, Reason> {
        // Put side by side first: one comparison of a hundred bytes is quicker than a dozen of ten.
        let mut text = self.text.borrow_mut();
        text.clear();
        text.push_str(first);
        for column in columns {
            text.push(BETWEEN);
            text.push_str(column.text(row));
        }
        self.known.borrow_mut().get(&text, read)
    }
}
