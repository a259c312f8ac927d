//! One line of CSV: cut into cells, and written from them.
//!
//! A row is a line. CSV proper lets a quoted cell run over line ends, so one stray quote, or one line torn by a crash,
//! swallows all rows after it. Here an open quote costs its own line only; to keep names with line ends whole, the
//! writers of our own columns [`escape`] them. On single lines the grammar is that of the `csv` crate (a test compares
//! the two), save that text after a closing quote is an error.

use std::borrow::Cow;

use super::limits::FIELDS_MAX;
use super::scan::positions;

/// The cells of one line; one is reused for all lines of a file.
#[derive(Debug)]
pub(crate) struct Cells {
    /// The line, and behind it what its cells with doubled quotes say.
    text: String,
    /// Where each cell lies in `text`, without blanks around it; of a fixed size, since it is filled for every row.
    bounds: [(usize, usize); FIELDS_MAX],
    len: usize,
}

impl Default for Cells {
    fn default() -> Cells {
        Cells { text: String::new(), bounds: [(0, 0); FIELDS_MAX], len: 0 }
    }
}

#[inline]
fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// Does the cell before the comma at `to` begin with neither quote nor blank, and end without a blank, as nearly all do?
/// Both stand below every other byte that is printed but `!`. An empty cell begins with its comma.
#[inline]
fn is_bare(bytes: &[u8], from: usize, to: usize) -> bool {
    bytes[from] > b'"' && (from == to || bytes[to - 1] > b' ')
}

/// Where the quote stands that a cell begins with, if it does.
#[inline]
fn opening_quote(cell: &[u8]) -> Option<usize> {
    let first = match cell.first() {
        Some(&byte) if is_blank(byte) => cell.iter().position(|&byte| !is_blank(byte))?,
        _ => 0,
    };
    (cell.get(first) == Some(&b'"')).then_some(first)
}

impl Cells {
    /// Number of cells.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Cell `at` without blanks around it; empty if there is none.
    pub(crate) fn get(&self, at: usize) -> &str {
        self.bounds[..self.len].get(at).map_or("", |&(start, end)| &self.text[start..end])
    }

    /// Cuts `line`, which holds no line end, at its commas. Blanks around cells are dropped.
    pub(crate) fn split(&mut self, line: &str) -> Result<(), String> {
        let bytes = line.as_bytes();
        self.begin(line);
        let mut from = 0;
        for at in positions(bytes, b',') {
            // A comma before that is text between quotes.
            if at < from {
                continue;
            }
            if is_bare(bytes, from, at) {
                self.note(from, at)?;
                from = at + 1;
                continue;
            }
            match opening_quote(&bytes[from..at]) {
                None => {
                    self.push(from, at)?;
                    from = at + 1;
                }
                Some(quote) => match self.take_quoted(line, from + quote + 1)? {
                    end if end == bytes.len() => return Ok(()),
                    comma => from = comma + 1,
                },
            }
        }
        match opening_quote(&bytes[from..]) {
            None => self.push(from, bytes.len()),
            Some(quote) => self.take_quoted(line, from + quote + 1).map(drop),
        }
    }

    /// [`split`](Cells::split) of a line that is known to hold no quote, as nearly every line of AITER's.
    pub(crate) fn split_unquoted(&mut self, line: &str) -> Result<(), String> {
        self.begin(line);
        let mut from = 0;
        let bytes = line.as_bytes();
        for at in positions(bytes, b',') {
            if is_bare(bytes, from, at) { self.note(from, at) } else { self.push(from, at) }?;
            from = at + 1;
        }
        self.push(from, line.len())
    }

    /// Notes the cell that lies at `from..to` of the text and begins and ends without a blank.
    #[inline]
    fn note(&mut self, from: usize, to: usize) -> Result<(), String> {
        let Some(bounds) = self.bounds.get_mut(self.len) else { return Err(format!("more than {FIELDS_MAX} cells")) };
        *bounds = (from, to);
        self.len += 1;
        Ok(())
    }

    /// [`note`](Cells::note), less the blanks at both ends.
    fn push(&mut self, mut from: usize, mut to: usize) -> Result<(), String> {
        let bytes = self.text.as_bytes();
        while from < to && is_blank(bytes[from]) {
            from += 1;
        }
        while from < to && is_blank(bytes[to - 1]) {
            to -= 1;
        }
        self.note(from, to)
    }

    /// Takes the quoted cell whose content begins at `from`; returns where the comma behind it stands, or the end.
    fn take_quoted(&mut self, line: &str, from: usize) -> Result<usize, String> {
        let bytes = line.as_bytes();
        let next_quote = |from: usize| positions(&bytes[from..], b'"').next().map(|at| from + at);
        let open = "a quote is not closed on its line";
        let mut quote = next_quote(from).ok_or(open)?;
        let (mut start, mut end) = (from, quote);
        if bytes.get(quote + 1) == Some(&b'"') {
            // What a cell with doubled quotes says stands nowhere as it is: it is put together behind the line.
            start = self.text.len();
            let mut part = from;
            while bytes.get(quote + 1) == Some(&b'"') {
                self.text.push_str(&line[part..=quote]);
                part = quote + 2;
                quote = next_quote(part).ok_or(open)?;
            }
            self.text.push_str(&line[part..quote]);
            end = self.text.len();
        }
        self.push(start, end)?;
        let after = bytes[quote + 1..].iter().position(|&byte| !is_blank(byte)).map(|at| quote + 1 + at);
        match after {
            None => Ok(bytes.len()),
            Some(at) if bytes[at] == b',' => Ok(at),
            Some(_) => Err("text follows a closing quote".into()),
        }
    }

    fn begin(&mut self, line: &str) {
        self.text.clear();
        self.text.push_str(line);
        self.len = 0;
    }
}

/// Writes one line, cell by cell.
pub(crate) struct LineWriter<'a> {
    out: &'a mut String,
    is_first: bool,
}

impl<'a> LineWriter<'a> {
    pub(crate) fn new(out: &'a mut String) -> LineWriter<'a> {
        LineWriter { out, is_first: true }
    }

    /// A cell of AITER's or a number: quoted where it must be, otherwise as it is.
    pub(crate) fn cell(&mut self, value: impl std::fmt::Display) -> &mut Self {
        use std::fmt::Write as _;
        if !std::mem::take(&mut self.is_first) {
            self.out.push(',');
        }
        let start = self.out.len();
        // Writing to a String cannot fail.
        let _ = write!(self.out, "{value}");
        if self.out[start..].contains(['"', ',']) {
            let quoted = self.out[start..].replace('"', "\"\"");
            self.out.truncate(start);
            let _ = write!(self.out, "\"{quoted}\"");
        }
        self
    }

    /// Free text of ours: [`escape`]d, so that it reads back exactly.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        let mut escaped = String::with_capacity(text.len());
        escape(text, &mut escaped);
        self.cell(escaped)
    }

    /// A value that may be absent: an empty cell then.
    pub(crate) fn optional(&mut self, value: Option<impl std::fmt::Display>) -> &mut Self {
        match value {
            Some(value) => self.cell(value),
            None => self.cell(""),
        }
    }

    pub(crate) fn end(&mut self) {
        self.out.push('\n');
    }
}

/// The escapes of free text: the character, and the letter that stands for it behind a backslash.
///
/// Line ends would end the row; `|` and `#` separate the parts of compound cells.
const ESCAPES: &[(char, char)] = &[('\\', '\\'), ('\n', 'n'), ('\r', 'r'), ('\t', 't'), ('|', 'p'), ('#', 'h')];

/// Writes `text` so that it survives a line of CSV: backslash escapes for line ends, tabs, separators, and for blanks
/// at either end, which readers drop.
pub(crate) fn escape(text: &str, out: &mut String) {
    let last = text.char_indices().next_back().map_or(0, |(at, _)| at);
    for (at, c) in text.char_indices() {
        if let Some((_, letter)) = ESCAPES.iter().find(|(escaped, _)| *escaped == c) {
            out.extend(['\\', *letter]);
        } else if c == ' ' && (at == 0 || at == last) {
            out.push_str("\\s");
        } else {
            out.push(c);
        }
    }
}

/// Undoes [`escape`].
pub(crate) fn unescape(text: &str) -> Result<Cow<'_, str>, String> {
    if positions(text.as_bytes(), b'\\').next().is_none() {
        return Ok(Cow::Borrowed(text));
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('s') => out.push(' '),
            Some(letter) => match ESCAPES.iter().find(|(_, known)| *known == letter) {
                Some((c, _)) => out.push(*c),
                None => return Err(format!("unknown escape '\\{}'", letter.escape_debug())),
            },
            None => return Err("a backslash at the end of a cell".into()),
        }
    }
    Ok(Cow::Owned(out))
}

/// Is there nothing but blanks?
pub(crate) fn is_blank_line(line: &[u8]) -> bool {
    line.iter().all(|&byte| is_blank(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(line: &str) -> Result<Vec<String>, String> {
        let mut cells = Cells::default();
        cells.split(line)?;
        Ok((0..cells.len()).map(|at| cells.get(at).to_owned()).collect())
    }

    #[test]
    fn cells_lose_their_blanks_and_quotes() {
        assert_eq!(split("1, 2 ,torch.int8\t,").unwrap(), ["1", "2", "torch.int8", ""]);
        assert_eq!(split(r#""a,b" , "say ""hi""",c"d"#).unwrap(), ["a,b", r#"say "hi""#, r#"c"d"#]);
        assert_eq!(split("").unwrap(), [""]);
    }

    #[test]
    fn what_is_no_cell_is_named() {
        assert_eq!(split(r#"1,"open"#).unwrap_err(), "a quote is not closed on its line");
        assert_eq!(split(r#""a"b,1"#).unwrap_err(), "text follows a closing quote");
        assert_eq!(split(&",".repeat(FIELDS_MAX)).unwrap_err(), "more than 128 cells");
    }

    #[test]
    fn escapes_are_undone_or_refused() {
        for text in ["", " ", "  a b ", "a\\b|c#d\n\r\t", "\\s"] {
            let mut escaped = String::new();
            escape(text, &mut escaped);
            assert_eq!(escaped.trim_matches([' ', '\t']), escaped, "{text:?}");
            assert_eq!(unescape(&escaped).as_deref(), Ok(text));
        }
        assert!(unescape("\\x").is_err());
        assert!(unescape("a\\").is_err());
    }

    proptest! {
        #[test]
        fn written_cells_read_back(texts in proptest::collection::vec("(?s).{0,12}", 1..8)) {
            let mut line = String::new();
            let mut writer = LineWriter::new(&mut line);
            for text in &texts {
                writer.text(text);
            }
            prop_assert!(!line.contains('\n'));
            let back: Vec<String> =
                split(&line).unwrap().iter().map(|cell| unescape(cell).unwrap().into_owned()).collect();
            prop_assert_eq!(back, texts);
        }

        /// The judge: the `csv` crate with its trimming, on lines that open no quote after a blank (it takes such a
        /// quote literally, spreadsheets and AITER's files do not) and leave none open.
        #[test]
        fn the_csv_crate_cuts_the_same(cells in proptest::collection::vec("[a-z\" ,]{0,6}", 1..6)) {
            let line = cells
                .iter()
                .map(|cell| if cell.contains(['"', ',']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.clone() })
                .collect::<Vec<_>>()
                .join(",");
            let mut reader =
                csv::ReaderBuilder::new().has_headers(false).flexible(true).trim(csv::Trim::All).from_reader(line.as_bytes());
            let judged: Vec<String> = match reader.records().next() {
                Some(record) => record.unwrap().iter().map(str::to_owned).collect(),
                None => vec![String::new()],
            };
            prop_assert_eq!(split(&line).unwrap(), judged);
        }
    }
}
