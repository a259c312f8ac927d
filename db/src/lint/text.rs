//! What readers forgive and people should not: the spelling of lines and cells.

use super::{Code, Sink};

/// What [`scan`] is to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scope {
    /// Is every line a row of cells under one header?
    pub(super) is_table: bool,
    /// Is it a file that rows are appended to?
    pub(super) is_appended: bool,
    /// Are text cells compared as they stand by the tool that reads the file?
    pub(super) is_compared: bool,
}

/// What a Git merge leaves behind, each at the start of a line and followed by a blank or nothing.
const CONFLICT_MARKERS: [&[u8]; 4] = [b"<<<<<<<", b"|||||||", b"=======", b">>>>>>>"];

/// Is this line left from a merge?
pub(super) fn is_conflict_marker(line: &[u8]) -> bool {
    let rest = CONFLICT_MARKERS.iter().find_map(|marker| line.strip_prefix(*marker));
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b' ')))
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| matches!(byte, b' ' | b'\t'))
}

/// Names what is odd about the lines of `bytes`.
pub(super) fn scan(bytes: &[u8], scope: Scope, sink: &mut Sink<'_>) {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if text.len() < bytes.len() {
        sink.find(Code::ByteOrderMark, None, "starts with a byte-order mark".into());
    }
    let mut lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
    let unended = lines.pop().unwrap_or_default();
    if !unended.is_empty() {
        if scope.is_appended {
            sink.find(Code::NoFinalNewline, Some(lines.len() as u64 + 1), "the last line has no end".into());
        }
        lines.push(unended);
    }
    let mut header: Option<&[u8]> = None;
    let (mut returns, mut first_return) = (0u64, 0);
    for (number, line) in (1..).zip(&lines) {
        let line = match line.strip_suffix(b"\r") {
            Some(line) => {
                returns += 1;
                first_return = if returns == 1 { number } else { first_return };
                line
            }
            None => line,
        };
        if is_conflict_marker(line) {
            sink.find(Code::ConflictMarker, Some(number), "a merge was not finished here".into());
        } else if !scope.is_table {
            continue;
        } else if is_blank(line) {
            sink.find(Code::BlankLine, Some(number), "nothing on this line".into());
        } else if header == Some(line) {
            sink.find(Code::RepeatedHeader, Some(number), "the header stands here once more".into());
        } else {
            cells(line, number, header.is_some() && scope.is_compared, sink);
            header.get_or_insert(line);
        }
    }
    if returns > 0 {
        sink.find(Code::CarriageReturns, Some(first_return), format!("{returns} lines end in a carriage return"));
    }
}

/// Looks at the cells of one line; at most one finding of a kind.
fn cells(line: &[u8], number: u64, is_compared: bool, sink: &mut Sink<'_>) {
    // Blanks inside quotes are meant.
    if line.contains(&b'"') {
        return;
    }
    let Ok(line) = std::str::from_utf8(line) else { return };
    let mut blanks: Option<(usize, &str, bool)> = None;
    let mut capitals: Option<(usize, &str)> = None;
    let mut spelled: Option<(usize, &str)> = None;
    for (at, cell) in line.split(',').enumerate() {
        let bare = cell.trim_matches([' ', '\t']);
        let is_text = is_compared && bare.parse::<f64>().is_err() && !bare.is_empty();
        if bare.len() < cell.len() && blanks.is_none_or(|(_, _, was_text)| is_text && !was_text) {
            blanks = Some((at + 1, cell, is_text));
        }
        if matches!(bare, "TRUE" | "FALSE") {
            capitals = capitals.or(Some((at + 1, bare)));
        }
        if bare.starts_with("dtypes.") {
            spelled = spelled.or(Some((at + 1, bare)));
        }
    }
    if let Some((at, cell, is_text)) = blanks {
        let code = if is_text { Code::BlankInText } else { Code::StrayBlank };
        sink.find(code, Some(number), format!("blanks around cell {at}: '{}'", sink.excerpt(cell)));
    }
    for (code, found) in [(Code::SpreadsheetBoolean, capitals), (Code::DtypesSpelling, spelled)] {
        if let Some((at, cell)) = found {
            sink.find(code, Some(number), format!("cell {at} is '{}'", sink.excerpt(cell)));
        }
    }
}
