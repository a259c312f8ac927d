//! The text around recorded problems, as their file had it: blank lines, blanks around cells, spellings, a missing last
//! line end. Put together again, the pieces of all rows are the file.

use super::Format;
use super::cells::is_blank_line;
use super::error::Read;
use super::origin::Origins;
use super::sheet::{Sheet, all_lines};
use crate::origin::Origin;
use crate::recording::Recorded;

/// Everything up to the end of the header line.
const HEAD: &str = "head";
/// Blank lines and repeated headers between the row before and this one.
const GAP: &str = "gap";
/// The line with its end.
const ROW: &str = "row";
/// Everything behind the last row.
const TAIL: &str = "tail";

/// The pieces of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pieces<'a> {
    pub(super) head: &'a str,
    pub(super) gap: &'a str,
    pub(super) row: &'a str,
    pub(super) tail: &'a str,
}

impl<'a> Pieces<'a> {
    /// The pieces that `origin` has, if it is of a file of this format.
    pub(super) fn of(origin: &'a Origin, format: Format) -> Option<Pieces<'a>> {
        if origin.source.format != format.word() {
            return None;
        }
        let [head, gap, row, tail] = [HEAD, GAP, ROW, TAIL].map(|name| origin.cell(name));
        Some(Pieces { head: head?, gap: gap?, row: row?, tail: tail? })
    }
}

/// Gives the rows that were read from `sheet` their origins.
pub(super) fn keep(sheet: &Sheet<'_>, read: &mut Read<Recorded>, origins: &Origins) {
    let (mut at, mut head, mut gap_start) = (sheet.whole().len() - sheet.text().len(), None, 0);
    let piece = |from: usize, to: usize| std::str::from_utf8(&sheet.whole()[from..to]).unwrap_or_default();
    let mut rows = read.rows.iter_mut().peekable();
    for line in all_lines(sheet.text()) {
        let start = at;
        at += line.text.len() + line.end.len();
        if line.number == sheet.header_line() {
            head = Some(piece(0, at));
            gap_start = at;
        }
        let (Some(head), Some(next)) = (head, rows.peek()) else { continue };
        if next.line == line.number {
            let is_last = rows.len() == 1;
            let Some(row) = rows.next() else { continue };
            let behind = &sheet.whole()[at..];
            let tail = if is_last && is_blank(behind) { piece(at, sheet.whole().len()) } else { "" };
            let pieces = [(HEAD, head), (GAP, piece(gap_start, start)), (ROW, piece(start, at)), (TAIL, tail)];
            row.value.origin = Some(origins.at(row.line, pieces));
            gap_start = at;
        } else if !is_blank_line(line.text) && !sheet.is_header(line.text) {
            // A row that was rejected takes what stood before it along.
            gap_start = at;
        }
    }
}

fn is_blank(text: &[u8]) -> bool {
    all_lines(text).all(|line| is_blank_line(line.text))
}
