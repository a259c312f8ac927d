//! Where imported rows came from: what holds of a whole file is held once, then a line and its cells a row.

use std::cell::RefCell;
use std::sync::Arc;

/// A file that rows were imported from, as all of them share it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Source {
    /// The file, as it was named.
    pub file: String,
    /// BLAKE3 of the whole file, hexadecimal.
    pub file_hash: String,
    /// What kind of file it was.
    pub format: String,
    /// When it was imported, RFC 3339.
    pub imported_at: String,
    /// The names of the cells of its rows.
    pub columns: Vec<String>,
}

/// Where an imported row came from.
///
/// Its cells are kept as they were spelled, by column: unknown columns survive in here, and a value that is still the same
/// is written as it was. They lie in one text, since a row has some twenty and a table a million rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(from = "Spelled", into = "Spelled"))]
pub struct Origin {
    /// The file.
    pub source: Arc<Source>,
    /// Its line, from 1; 0 where the format has none.
    pub line: u64,
    /// All cells, one behind the other.
    text: Box<str>,
    /// Where each ends.
    ends: Box<[u32]>,
}

impl Origin {
    /// The row at `line` of `source`, with a cell for each of its columns: those that are missing are empty, those too
    /// many are left out.
    pub fn new<'c>(source: Arc<Source>, line: u64, cells: impl IntoIterator<Item = &'c str>) -> Origin {
        let (mut text, mut ends) = (String::new(), Vec::with_capacity(source.columns.len()));
        let mut cells = cells.into_iter();
        for _ in &source.columns {
            text.push_str(cells.next().unwrap_or_default());
            // No file that is read is that long; a cell beyond would be empty.
            ends.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
        }
        Origin { source, line, text: text.into(), ends: ends.into() }
    }

    /// The same row, said to be of another file and line.
    pub fn moved(self, source: Arc<Source>, line: u64) -> Origin {
        match source.columns.len() == self.ends.len() {
            true => Origin { source, line, ..self },
            false => Origin::new(source, line, self.cells().map(|(_, cell)| cell)),
        }
    }

    /// The cells with the names of their columns, in order.
    pub fn cells(&self) -> impl Iterator<Item = (&str, &str)> + Clone {
        self.source.columns.iter().enumerate().map(|(at, name)| (name.as_str(), self.at(at)))
    }

    /// The name and cell of the column at `at`, from 0.
    pub fn get(&self, at: usize) -> Option<(&str, &str)> {
        self.source.columns.get(at).map(|name| (name.as_str(), self.at(at)))
    }

    fn at(&self, at: usize) -> &str {
        let start = at.checked_sub(1).map_or(Some(&0), |before| self.ends.get(before));
        let bounds = start.zip(self.ends.get(at));
        bounds.and_then(|(&start, &end)| self.text.get(start as usize..end as usize)).unwrap_or_default()
    }

    /// The cell of the column `name`, if there is such a column.
    pub fn cell(&self, name: &str) -> Option<&str> {
        self.cells().find(|(have, _)| *have == name).map(|(_, cell)| cell)
    }
}

/// An origin by itself, as it is serialised.
#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
struct Spelled {
    file: String,
    line: u64,
    file_hash: String,
    format: String,
    imported_at: String,
    cells: Vec<(String, String)>,
}

#[cfg(feature = "serde")]
impl From<Spelled> for Origin {
    fn from(spelled: Spelled) -> Origin {
        let Spelled { file, line, file_hash, format, imported_at, cells } = spelled;
        let columns = cells.iter().map(|(name, _)| name.clone()).collect();
        let source = Source { file, file_hash, format, imported_at, columns };
        Origin::new(Arc::new(source), line, cells.iter().map(|(_, cell)| cell.as_str()))
    }
}

#[cfg(feature = "serde")]
impl From<Origin> for Spelled {
    fn from(origin: Origin) -> Spelled {
        let cells = origin.cells().map(|(name, cell)| (name.to_owned(), cell.to_owned())).collect();
        let Source { file, file_hash, format, imported_at, .. } = (*origin.source).clone();
        Spelled { file, line: origin.line, file_hash, format, imported_at, cells }
    }
}

/// Gives equal sources out as one, since rows of one file come together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shared {
    last: RefCell<Option<Arc<Source>>>,
}

impl Shared {
    /// The source that `is_it` knows if it was the last, else the one that `make` makes.
    pub(crate) fn source(&self, is_it: impl Fn(&Source) -> bool, make: impl FnOnce() -> Source) -> Arc<Source> {
        let mut last = self.last.borrow_mut();
        match last.as_ref().filter(|source| is_it(source)) {
            Some(source) => Arc::clone(source),
            None => Arc::clone(last.insert(Arc::new(make()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn source(columns: &[&str]) -> Arc<Source> {
        Arc::new(Source { columns: columns.iter().map(|name| (*name).to_owned()).collect(), ..Source::default() })
    }

    #[test]
    fn every_column_has_one_cell() {
        let origin = Origin::new(source(&["a", "b", "c"]), 7, ["1", "", "3", "4"]);
        assert!(origin.cells().eq([("a", "1"), ("b", ""), ("c", "3")]));
        assert_eq!(
            (origin.cell("b"), origin.cell("d"), origin.get(2), origin.get(3)),
            (Some(""), None, Some(("c", "3")), None)
        );
        let short = Origin::new(source(&["a", "b"]), 7, ["1"]);
        assert!(short.cells().eq([("a", "1"), ("b", "")]));
        let moved = origin.clone().moved(source(&["x"]), 8);
        assert!(moved.line == 8 && moved.cells().eq([("x", "1")]));
    }

    #[test]
    fn equal_sources_are_one() {
        let shared = Shared::default();
        let named = |name: &'static str| {
            shared.source(|source| source.file == name, || Source { file: name.into(), ..Source::default() })
        };
        let (first, again, other) = (named("a"), named("a"), named("b"));
        assert!(Arc::ptr_eq(&first, &again) && !Arc::ptr_eq(&first, &other));
    }

    proptest! {
        #[test]
        fn cells_come_back(cells in proptest::collection::vec(("\\PC{0,4}", "\\PC{0,9}"), 0..9)) {
            let names: Vec<&str> = cells.iter().map(|(name, _)| name.as_str()).collect();
            let origin = Origin::new(source(&names), 1, cells.iter().map(|(_, cell)| cell.as_str()));
            prop_assert!(origin.cells().eq(cells.iter().map(|(name, cell)| (name.as_str(), cell.as_str()))));
        }
    }
}
