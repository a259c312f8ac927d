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
    /// The line, with quoted cells unquoted.
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

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
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
        self.text.clear();
        self.len = 0;
        if !line.as_bytes().contains(&b'"') {
            return self.split_unquoted(line);
        }
        let mut rest = line;
        loop {
            let start = rest.trim_start_matches([' ', '\t']);
            let from = self.text.len();
            let after = match start.strip_prefix('"') {
                Some(quoted) => self.take_quoted(quoted)?,
                None => {
                    let end = start.find(',').unwrap_or(start.len());
                    self.text.push_str(&start[..end]);
                    &start[end..]
                }
            };
            self.push(from, self.text.len())?;
            match after.strip_prefix(',') {
                Some(next) => rest = next,
                None => return Ok(()),
            }
        }
    }

    /// [`split`](Cells::split) of a line that is known to hold no quote, as nearly every line of AITER's.
    pub(crate) fn split_unquoted(&mut self, line: &str) -> Result<(), String> {
        self.text.clear();
        self.len = 0;
        self.text.push_str(line);
        let mut from = 0;
        for at in positions(line.as_bytes(), b',') {
            self.push(from, at)?;
            from = at + 1;
        }
        self.push(from, line.len())
    }

    /// Notes the cell that lies at `from..to` of the text.
    #[inline]
    fn push(&mut self, mut from: usize, mut to: usize) -> Result<(), String> {
        let Some(bounds) = self.bounds.get_mut(self.len) else { return Err(format!("more than {FIELDS_MAX} cells")) };
        let bytes = self.text.as_bytes();
        while from < to && is_blank(bytes[from]) {
            from += 1;
        }
        while from < to && is_blank(bytes[to - 1]) {
            to -= 1;
        }
        *bounds = (from, to);
        self.len += 1;
        Ok(())
    }

    /// Takes a cell whose opening quote is behind us; returns what follows its closing quote and blanks.
    fn take_quoted<'a>(&mut self, mut rest: &'a str) -> Result<&'a str, String> {
        loop {
            let quote = rest.find('"').ok_or("a quote is not closed on its line")?;
            self.text.push_str(&rest[..quote]);
            rest = &rest[quote + 1..];
            match rest.strip_prefix('"') {
                Some(more) => {
                    self.text.push('"');
                    rest = more;
                }
                None => break,
            }
        }
        let after = rest.trim_start_matches([' ', '\t']);
        if after.is_empty() || after.starts_with(',') { Ok(after) } else { Err("text follows a closing quote".into()) }
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
    if !text.contains('\\') {
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
