//! The shared core of all readers: a file becomes a header and rows, with line numbers.
//!
//! A format says which columns it knows ([`Spec`]) and how one row becomes a value; everything else is done here once:
//! limits, BOM, CRLF, blank lines, repeated headers, row length, and who is told what.

use std::borrow::Cow;
use std::fs;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use super::Format;
use super::cells::{Cells, is_blank_line};
use super::error::{Read, ReadError, Rejected, Sourced, Unreadable};
use super::limits::{FILE_BYTES_MAX, LINE_BYTES_MAX, ROWS_MAX, excerpt};
use super::scan::positions;

/// Why a row is not taken.
pub(crate) type Reason = String;

/// What every SQLite 3 file starts with.
pub const SQLITE_MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// What spreadsheets put before UTF-8.
pub(crate) const BOM: &[u8] = b"\xef\xbb\xbf";

/// Bytes of a short row: room for so many rows is made at once, since moving rows to grow costs more than reading them.
const ROW_BYTES_TYPICAL: usize = 128;

/// The columns of a format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    /// Columns that must be there.
    pub(crate) required: &'static [&'static str],
    /// Columns that may be there. What becomes of any other is the format's to say: our own tables refuse it.
    pub(crate) optional: &'static [&'static str],
    /// Old names and the ones that they have now.
    pub(crate) renamed: &'static [(&'static str, &'static str)],
}

impl Spec {
    pub(crate) fn present_name<'n>(&self, name: &'n str) -> &'n str {
        self.renamed.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new)
    }

    /// In how many columns `names` differ from this format, and in which.
    pub(crate) fn mismatch(&self, names: &[String]) -> (usize, String) {
        let have: Vec<&str> = names.iter().map(|name| self.present_name(name)).collect();
        let lacks = self.required.iter().filter(|name| !have.contains(name)).map(|name| format!("lacks '{name}'"));
        let knows = |name: &&&str| !self.required.contains(name) && !self.optional.contains(name);
        let unknown = have.iter().filter(knows).map(|name| format!("does not know '{}'", excerpt(name)));
        let twice = have.iter().enumerate().filter(|(at, name)| have[..*at].contains(name));
        let twice = twice.map(|(_, name)| format!("'{}' stands twice", excerpt(name)));
        let all: Vec<String> = lacks.chain(unknown).chain(twice).collect();
        (all.len(), all.join(", "))
    }
}

/// A column that a header has: where it stands, and its name for messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) at: usize,
    pub(crate) name: &'static str,
}

/// The header of a file whose format is known.
#[derive(Debug)]
pub(crate) struct Header<'a> {
    names: &'a [String],
    spec: &'a Spec,
}

impl Header<'_> {
    /// Where column `name` stands, if it is there.
    pub(crate) fn find(&self, name: &'static str) -> Option<Column> {
        let at = self.names.iter().position(|have| self.spec.present_name(have) == name)?;
        // Messages use the name that the file has.
        let old = self.spec.renamed.iter().find(|(old, now)| *now == name && *old == self.names[at]);
        Some(Column { at, name: old.map_or(name, |(old, _)| old) })
    }

    /// A column that the format requires: matching the header has shown that it is there.
    pub(crate) fn get(&self, name: &'static str) -> Column {
        self.find(name).unwrap_or(Column { at: usize::MAX, name })
    }
}

/// A whole file in memory, its header cut.
#[derive(Debug)]
pub(crate) struct Sheet<'b> {
    file: Arc<Path>,
    whole: &'b [u8],
    bytes: &'b [u8],
    header_line: u64,
    header_text: Cow<'b, [u8]>,
    pub(crate) names: Vec<String>,
}

/// Reads a whole file of at most [`FILE_BYTES_MAX`].
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, ReadError> {
    let fail = |unreadable| ReadError { file: path.into(), line: None, unreadable };
    let io_error = |error: io::Error| {
        fail(match error.kind() {
            io::ErrorKind::NotFound => Unreadable::Missing,
            io::ErrorKind::IsADirectory => Unreadable::Directory,
            _ => Unreadable::Io(error),
        })
    };
    let metadata = fs::metadata(path).map_err(io_error)?;
    if metadata.is_dir() {
        return Err(fail(Unreadable::Directory));
    }
    // The size is a hint only: a pipe has none, and a file may grow meanwhile.
    let mut bytes = Vec::with_capacity(metadata.len().min(FILE_BYTES_MAX) as usize + 1);
    let file = fs::File::open(path).map_err(io_error)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(io_error)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(fail(Unreadable::TooLarge));
    }
    Ok(bytes)
}

/// A line of a file: its number from 1, its text without line end, and the line end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'b> {
    pub(crate) number: u64,
    pub(crate) text: &'b [u8],
    pub(crate) end: &'b [u8],
}

/// All lines of a file. A line feed at its end begins no further line.
pub(crate) fn all_lines(bytes: &[u8]) -> impl Iterator<Item = Line<'_>> {
    let last = (!bytes.is_empty() && !bytes.ends_with(b"\n")).then_some(bytes.len());
    let ends = positions(bytes, b'\n').map(|at| at + 1).chain(last);
    let mut from = 0;
    ends.zip(1..).map(move |(to, number)| {
        let line = &bytes[from..to];
        from = to;
        let is_end = |byte: &&u8| matches!(**byte, b'\n' | b'\r');
        let (text, end) = line.split_at(line.len() - line.iter().rev().take_while(is_end).count());
        Line { number, text, end }
    })
}

/// The lines that are not blank.
fn lines(bytes: &[u8]) -> impl Iterator<Item = Line<'_>> {
    all_lines(bytes).filter(|line| !is_blank_line(line.text))
}

impl<'b> Sheet<'b> {
    /// Cuts the header of `bytes`, the content of `file`.
    pub(crate) fn new(file: &Path, bytes: &'b [u8]) -> Result<Sheet<'b>, ReadError> {
        let file: Arc<Path> = file.into();
        let fail = |line, unreadable| ReadError { file: file.clone(), line, unreadable };
        if bytes.starts_with(SQLITE_MAGIC) {
            return Err(fail(None, Unreadable::Sqlite));
        }
        let whole = bytes;
        let bytes = bytes.strip_prefix(BOM).unwrap_or(bytes);
        let header = lines(bytes).next().ok_or_else(|| fail(None, Unreadable::Empty))?;
        let (header_line, header_text) = (header.number, header.text);
        let text = std::str::from_utf8(header_text)
            .ok()
            .filter(|text| text.len() <= LINE_BYTES_MAX && !text.contains(|c: char| c.is_control() && c != '\t'));
        let text = text.ok_or_else(|| fail(Some(header_line), Unreadable::NotText))?;
        let mut cells = Cells::default();
        cells
            .split(text)
            .map_err(|why| fail(Some(header_line), Unreadable::UnknownHeader { header: excerpt(text), why }))?;
        let names = (0..cells.len()).map(|at| cells.get(at).to_owned()).collect();
        Ok(Sheet { file, whole, bytes, header_line, header_text: Cow::Borrowed(header_text), names })
    }

    /// An error about the header.
    pub(crate) fn header_error(&self, unreadable: Unreadable) -> ReadError {
        ReadError { file: self.file.clone(), line: Some(self.header_line), unreadable }
    }

    /// The header in one line, shortened.
    pub(crate) fn header_excerpt(&self) -> String {
        excerpt(&self.names.join(","))
    }

    /// The text of each row.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &'b [u8]> {
        lines(self.bytes).map(|line| line.text).filter(|text| *text != &*self.header_text)
    }

    /// The header under the names of `spec`, if it is exactly of that format.
    pub(crate) fn fits<'s>(&'s self, spec: &'s Spec) -> Option<Header<'s>> {
        (spec.mismatch(&self.names).0 == 0).then(|| self.header(spec))
    }

    /// The same file taken to have no header line: its first line is a row of the columns `names`.
    pub(crate) fn headless(self, names: &[&str]) -> Sheet<'b> {
        let header_text = Cow::Owned(names.join(",").into_bytes());
        Sheet { header_text, names: names.iter().map(|name| (*name).to_owned()).collect(), ..self }
    }

    /// The file's name, as it was given.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Every byte of the file.
    pub(crate) fn whole(&self) -> &'b [u8] {
        self.whole
    }

    /// All of its text: every byte but a mark before the first.
    pub(crate) fn text(&self) -> &'b [u8] {
        self.bytes
    }

    /// The line of the header, from 1.
    pub(crate) fn header_line(&self) -> u64 {
        self.header_line
    }

    /// Is a line with this text the header again?
    pub(crate) fn is_header(&self, text: &[u8]) -> bool {
        *text == *self.header_text
    }

    /// The header under the names of `spec`, which it must match.
    pub(crate) fn header<'s>(&'s self, spec: &'s Spec) -> Header<'s> {
        Header { names: &self.names, spec }
    }

    /// Every row through `parse`: a value, or the reason why not. A header that is repeated, as in files put together,
    /// is passed over.
    pub(crate) fn read<T>(
        &self,
        format: Format,
        parse: impl FnMut(Line<'_>, &Cells) -> Result<T, Reason>,
    ) -> Result<Read<T>, ReadError> {
        self.read_at_most(ROWS_MAX, format, parse)
    }

    fn read_at_most<T>(
        &self,
        rows_max: usize,
        format: Format,
        mut parse: impl FnMut(Line<'_>, &Cells) -> Result<T, Reason>,
    ) -> Result<Read<T>, ReadError> {
        let mut read = Read::new(self.file.clone(), format);
        let mut cells = Cells::default();
        let header_text = &*self.header_text;
        let has_quotes = self.bytes.contains(&b'"');
        read.rows.reserve_exact((self.bytes.len() / ROW_BYTES_TYPICAL).min(rows_max));
        for physical in lines(self.bytes) {
            let line = physical.number;
            if physical.text == header_text {
                continue;
            }
            if read.rows.len() + read.rejected.len() == rows_max {
                let unreadable = Unreadable::TooManyRows { rows_max };
                return Err(ReadError { file: self.file.clone(), line: Some(line), unreadable });
            }
            match self.cut(physical.text, has_quotes, &mut cells).and_then(|()| parse(physical, &cells)) {
                Ok(value) => read.rows.push(Sourced { line, value }),
                Err(reason) => read.rejected.push(Rejected { file: self.file.clone(), line, reason }),
            }
        }
        Ok(read)
    }

    fn cut(&self, text: &[u8], has_quotes: bool, cells: &mut Cells) -> Result<(), Reason> {
        if text.len() > LINE_BYTES_MAX {
            return Err(format!("line of {} bytes; at most {LINE_BYTES_MAX} are read", text.len()));
        }
        let text = std::str::from_utf8(text).map_err(|error| format!("not UTF-8 from byte {}", error.valid_up_to()))?;
        if has_quotes { cells.split(text) } else { cells.split_unquoted(text) }?;
        let (have, want) = (cells.len(), self.names.len());
        if have == want {
            return Ok(());
        }
        Err(format!(
            "{have} cells where the header has {want}: row is too {}",
            if have < want { "short" } else { "long" }
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_rows_are_an_error_not_a_silent_drop() {
        let sheet = Sheet::new(Path::new("u.csv"), b"M\n1\n\nbad\n3\n").unwrap();
        let parse = |_: Line<'_>, row: &Cells| row.get(0).parse::<u32>().map_err(|error| error.to_string());
        let read = sheet.read_at_most(3, Format::Untuned, parse).unwrap();
        assert_eq!((read.rows.len(), read.rejected.len()), (2, 1));
        let error = sheet.read_at_most(2, Format::Untuned, parse).unwrap_err();
        assert_eq!(error.to_string(), "u.csv:5: has more than 2 rows: split it");
    }
}
