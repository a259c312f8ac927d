//! What an index is made of, taken from each row while it is at hand: a hundred thousand rows are 40 MB, and to walk them again
//! costs more than to read their file.

use rustc_hash::FxHashMap;
use tgemm_db::Choice;

use crate::floor::Rates;
use crate::index::Entry;
use crate::moe;
use crate::numbers::Numbers;
use crate::site_key::SiteKey;

/// The most rows that an index holds: positions are 32-bit. Rows beyond are not indexed; the readers stop long before.
const ROWS_MAX: usize = u32::MAX as usize;

/// All rows so far.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// A number for each site.
    pub(crate) ids: FxHashMap<SiteKey, u32>,
    /// By number: rows that meet under a second key are of several problems, among which the order of the file decides.
    pub(crate) in_file_order: Vec<bool>,
    /// The number of the site above M, and the row.
    pub(crate) order: Vec<(u64, u32)>,
    /// By row.
    pub(crate) entries: Vec<Entry>,
    pub(crate) rates: Rates,
    numbers: Numbers,
}

impl Gathered {
    /// Takes the next row.
    pub(crate) fn push(&mut self, choice: &Choice) {
        let row = self.entries.len();
        if row >= ROWS_MAX {
            return;
        }
        let solution = self.numbers.of(&choice.solution);
        self.entries.push(Entry::of(choice, row as u32, solution));
        self.rates.add(choice);
        if moe::is_stand_in(choice) {
            return;
        }
        self.place(SiteKey::of(&choice.problem), false, choice, row);
        if let Some(key) = moe::second_key(choice) {
            self.place(key, true, choice, row);
        }
    }

    fn place(&mut self, key: SiteKey, is_second: bool, choice: &Choice, row: usize) {
        let id = *self.ids.entry(key).or_insert_with(|| {
            self.in_file_order.push(is_second);
            self.in_file_order.len() as u32 - 1
        });
        self.order.push((u64::from(id) << 32 | u64::from(choice.problem.m()), row as u32));
    }

    /// Makes room for so many rows more.
    pub(crate) fn reserve(&mut self, rows: usize) {
        self.order.reserve(rows);
        self.entries.reserve(rows);
    }
}
