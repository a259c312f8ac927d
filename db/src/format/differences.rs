//! What a round trip changed, byte range by byte range, each with its cause.

use std::fmt;
use std::ops::Range;

use super::cells::{Cells, is_blank_line};
use super::limits::excerpt;
use super::sheet::{BOM, Line, all_lines};

/// The most differences of one file that are told.
pub const DIFFERENCES_MAX: usize = 1 << 16;

/// Bytes that came out otherwise than they went in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Where they stood in the original.
    pub range: Range<usize>,
    /// The line of the original, from 1.
    pub line: u64,
    /// Why.
    pub cause: Cause,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, bytes {}..{}: {}", self.line, self.range.start, self.range.end, self.cause)
    }
}

/// Why bytes came out otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// A mark before the text that says it is UTF-8.
    ByteOrderMark,
    /// A line of nothing but blanks is not written.
    BlankLine,
    /// The header again, as in files put together, is not written.
    RepeatedHeader,
    /// A header line was added where the file had none.
    NoHeader,
    /// Other columns are written: no row said which the file had.
    Header,
    /// Blanks around a cell, or quotes that it does not need, are not written.
    Blanks,
    /// Line ends are written as most rows had them.
    LineEnd,
    /// The row is not among those that were written: why it was refused.
    LeftOut(String),
    /// A cell is written otherwise: its old and its new text.
    Cell(String, String),
    /// Rows, or their order, changed from here on.
    Rows,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::ByteOrderMark => f.write_str("a byte order mark is dropped"),
            Cause::BlankLine => f.write_str("a blank line is dropped"),
            Cause::RepeatedHeader => f.write_str("a repeated header is dropped"),
            Cause::NoHeader => f.write_str("the missing header is added"),
            Cause::Header => f.write_str("the header is written with other columns"),
            Cause::Blanks => f.write_str("blanks or quotes around a cell are dropped"),
            Cause::LineEnd => f.write_str("the line end is written like the others"),
            Cause::LeftOut(why) => write!(f, "the row is left out: {why}"),
            Cause::Cell(from, to) => write!(f, "'{}' is written as '{}'", excerpt(from), excerpt(to)),
            Cause::Rows => f.write_str("rows differ from here on"),
        }
    }
}

/// Compares a table with what was written from its rows. `left_out` names the lines whose rows were not taken or not
/// written, ascending, with the reason.
///
/// An empty answer means that the two are the same, byte for byte. At most [`DIFFERENCES_MAX`] are told.
pub fn differences(original: &[u8], written: &[u8], left_out: &[(u64, String)]) -> Vec<Difference> {
    let mut walk = Walk { found: Vec::new(), at: 0 };
    let mut text = original;
    if original.starts_with(BOM) && !written.starts_with(BOM) {
        walk.at = BOM.len();
        text = &original[BOM.len()..];
        walk.found.push(Difference { range: 0..BOM.len(), line: 1, cause: Cause::ByteOrderMark });
    }
    let new: Vec<Line<'_>> = all_lines(written).collect();
    let mut new = new.as_slice();
    let written_header = new.first().map(|line| line.text);
    let mut header: Option<&[u8]> = None;
    for old in all_lines(text) {
        if walk.found.len() == DIFFERENCES_MAX {
            break;
        }
        let is_first = header.is_none() && !is_blank_line(old.text);
        let is_row = !is_first && ![header, written_header].contains(&Some(old.text));
        let left_out = left_out.binary_search_by_key(&old.number, |(line, _)| *line).ok().map(|at| &left_out[at].1);
        if let [first, second, ..] = new
            && is_first
            && !same_cells(old.text, first.text)
            && same_cells(old.text, second.text)
        {
            walk.tell(0..0, old.number, Cause::NoHeader);
            new = &new[1..];
        }
        if is_first {
            header = Some(old.text);
        }
        let is_kept = new.first().is_some_and(|line| line.text == old.text);
        match (is_blank_line(old.text), is_row, left_out) {
            // What is not a row may have been written all the same.
            (true, ..) | (_, false, None) if is_kept => {
                walk.pair(old, new[0]);
                new = &new[1..];
            }
            (true, ..) => walk.whole(old, Cause::BlankLine),
            (_, _, Some(why)) => walk.whole(old, Cause::LeftOut(why.clone())),
            (_, false, _) if !is_first => walk.whole(old, Cause::RepeatedHeader),
            _ => match new.split_first() {
                Some((line, rest)) => {
                    if is_first && !same_cells(old.text, line.text) {
                        walk.tell(0..old.text.len(), old.number, Cause::Header);
                    } else {
                        walk.pair(old, *line);
                    }
                    new = rest;
                }
                None => walk.whole(old, Cause::Rows),
            },
        }
        walk.at += old.text.len() + old.end.len();
    }
    if !new.is_empty() && walk.found.len() < DIFFERENCES_MAX {
        walk.tell(0..0, all_lines(text).count() as u64, Cause::Rows);
    }
    walk.found
}

/// A walk over the lines of the original.
struct Walk {
    found: Vec<Difference>,
    /// Where the line begins.
    at: usize,
}

impl Walk {
    fn tell(&mut self, range: Range<usize>, line: u64, cause: Cause) {
        self.found.push(Difference { range: self.at + range.start..self.at + range.end, line, cause });
    }

    fn whole(&mut self, old: Line<'_>, cause: Cause) {
        self.tell(0..old.text.len() + old.end.len(), old.number, cause);
    }

    fn pair(&mut self, old: Line<'_>, new: Line<'_>) {
        if old.text != new.text {
            let (range, cause) = cell_difference(old.text, new.text);
            self.tell(range, old.number, cause);
        }
        if old.end != new.end {
            self.tell(old.text.len()..old.text.len() + old.end.len(), old.number, Cause::LineEnd);
        }
    }
}

fn cut(line: &[u8]) -> Option<Vec<String>> {
    let mut cells = Cells::default();
    cells.split(std::str::from_utf8(line).ok()?).ok()?;
    Some((0..cells.len()).map(|at| cells.get(at).to_owned()).collect())
}

fn same_cells(old: &[u8], new: &[u8]) -> bool {
    old == new || cut(old).is_some_and(|old| Some(old) == cut(new))
}

/// The bytes between the common beginning and end of two lines, and why they differ.
fn cell_difference(old: &[u8], new: &[u8]) -> (Range<usize>, Cause) {
    let from = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let most = old.len().min(new.len()) - from;
    let behind = old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
    let range = from..old.len() - behind;
    let (Some(old), Some(new)) = (cut(old), cut(new)) else { return (range, Cause::Rows) };
    if old.len() != new.len() {
        return (range, Cause::Rows);
    }
    match old.into_iter().zip(new).find(|(old, new)| old != new) {
        Some((old, new)) => (range, Cause::Cell(old, new)),
        None => (range, Cause::Blanks),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(original: &str, written: &str, left_out: &[(u64, &str)]) -> Vec<String> {
        let left_out: Vec<(u64, String)> = left_out.iter().map(|(line, why)| (*line, (*why).to_owned())).collect();
        let found = differences(original.as_bytes(), written.as_bytes(), &left_out);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_cause_is_named_with_its_bytes() {
        assert_eq!(told("M,N\n1,2\n", "M,N\n1,2\n", &[]), [] as [&str; 0]);
        let original = "\u{feff}M, N\n\n1,2.0\r\n3,x\nM, N\n5,6\n7,8";
        let written = "M,N\n1,2\n5,6\n7,8\n";
        assert_eq!(
            told(original, written, &[(4, "x is no number")]),
            [
                "line 1, bytes 0..3: a byte order mark is dropped",
                "line 1, bytes 5..6: blanks or quotes around a cell are dropped",
                "line 2, bytes 8..9: a blank line is dropped",
                "line 3, bytes 12..14: '2.0' is written as '2'",
                "line 3, bytes 14..16: the line end is written like the others",
                "line 4, bytes 16..20: the row is left out: x is no number",
                "line 5, bytes 20..25: a repeated header is dropped",
                "line 7, bytes 32..32: the line end is written like the others",
            ]
        );
    }

    #[test]
    fn rows_that_came_or_went_are_told() {
        assert_eq!(told("M\n1\n2\n", "M\n1\n", &[]), ["line 3, bytes 4..6: rows differ from here on"]);
        assert_eq!(told("M\n1\n", "M\n1\n2\n", &[]), ["line 2, bytes 4..4: rows differ from here on"]);
        assert_eq!(told("1,2\n3,4\n", "M,N\n1,2\n3,4\n", &[]), ["line 1, bytes 0..0: the missing header is added"]);
    }
}
