//! What rows say again and again: a device, a solution, a site. Cells that were read and checked once are not read a second
//! time; they are only compared.

use std::cell::RefCell;

use super::super::cells::Cells;
use super::super::intern::mix;
use super::super::sheet::{Column, Reason};

/// The most texts of one kind that are remembered; a newcomer takes the place of who was there.
const SLOTS_MAX: usize = 2048;

/// Bytes of a row of ours: a file of so many more remembers one text more.
const ROW_BYTES_TYPICAL: usize = 256;

/// Between two cells of a text. No cell holds it: it would have ended the row.
const BETWEEN: char = '\n';

/// A text and what it says; empty at first.
type Slot<T> = Option<(Box<str>, T)>;

/// Values by the exact text of the cells that say them.
#[derive(Debug)]
pub(super) struct Repeats<T> {
    slots: RefCell<Vec<Slot<T>>>,
    /// The cells of the row at hand.
    text: RefCell<String>,
}

impl<T: Clone> Repeats<T> {
    /// For a file of so many bytes.
    pub(super) fn of(bytes: usize) -> Repeats<T> {
        let count = (bytes / ROW_BYTES_TYPICAL).next_power_of_two().min(SLOTS_MAX);
        Repeats { slots: RefCell::new(vec![None; count]), text: RefCell::default() }
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
        let mut slots = self.slots.borrow_mut();
        // The upper bits of a product are the well-mixed ones.
        let at = mix(0, &text).checked_shr(u64::BITS - slots.len().ilog2()).unwrap_or(0) as usize;
        let slot = &mut slots[at];
        if let Some((have, value)) = slot
            && **have == **text
        {
            return Ok(value.clone());
        }
        let value = read()?;
        *slot = Some((text.as_str().into(), value.clone()));
        Ok(value)
    }
}
