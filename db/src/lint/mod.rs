//! Lint: what is wrong with a file, row by row, with a stable code and the mend.
//!
//! Readers forgive much; other tools do not, and people should know. What a reader refuses is taken from the reader
//! itself ([`format::parse`]), so lint and import never disagree; this module adds what readers forgive (spelling of lines
//! and cells) and what no row shows alone (duplicates, times that fall as M grows).

mod code;
mod rows;
mod text;

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::format::limits::{FILE_BYTES_MAX, excerpt};
use crate::format::{self, Content, Format, Read, ReadOptions, Unreadable};
use crate::merge::identity;
use crate::problem::Problem;
use text::Scope;

pub use code::{Code, Severity};

/// The most findings that are named; all are counted.
pub const FINDINGS_NAMED_MAX: usize = 100_000;

/// The largest share of outputs that may be off before AITER's tuner drops a candidate.
pub const AITER_ERROR_LIMIT: f64 = 0.05;

/// By how much the time must fall between neighbours along M: less is within the noise of one session.
pub const TIME_FALL_MIN: f64 = 0.05;

/// One thing that is wrong. `Display` is `file:line: severity: TG001 placeholder-time: what; mend`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What kind of thing.
    pub code: Code,
    /// The file.
    pub file: Arc<Path>,
    /// Its line, from 1; `None` where it is about the file as a whole.
    pub line: Option<u64>,
    /// What is wrong, here.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some(line) = self.line.filter(|line| *line > 0) {
            write!(f, "{line}:")?;
        }
        write!(f, " {}: {}: {}; {}", self.code.severity(), self.code, self.what, self.code.mend())
    }
}

/// What lint found in some files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The findings in order of files, and within one in order of lines; at most [`FINDINGS_NAMED_MAX`].
    pub findings: Vec<Finding>,
    /// How many there are of each code, those included that are not named.
    pub counts: Vec<(Code, u64)>,
    /// Files that were looked at.
    pub files: usize,
    /// Rows that their readers took.
    pub rows: u64,
}

impl Report {
    /// How many findings are of this severity.
    pub fn count(&self, severity: Severity) -> u64 {
        self.counts.iter().filter(|(code, _)| code.severity() == severity).map(|(_, n)| n).sum()
    }
}

/// Where a key was seen first.
#[derive(Clone, Debug)]
struct Place {
    file: usize,
    line: u64,
    content: u128,
    solution: String,
}

/// What earlier files said.
#[derive(Debug, Default)]
struct Seen {
    files: Vec<Arc<Path>>,
    choices: HashMap<(Problem, identity::Place), Place>,
    /// The first header of each format, and its file.
    headers: HashMap<Format, (String, usize)>,
}

impl Seen {
    fn place(&self, place: &Place) -> String {
        format!("{}:{}", self.files[place.file].display(), place.line)
    }
}

/// Takes the findings of one file.
struct Sink<'r> {
    report: &'r mut Report,
    file: Arc<Path>,
    number: usize,
    counts: HashMap<Code, u64>,
    first: usize,
}

impl Sink<'_> {
    fn find(&mut self, code: Code, line: Option<u64>, what: String) {
        *self.counts.entry(code).or_default() += 1;
        if self.report.findings.len() < FINDINGS_NAMED_MAX {
            self.report.findings.push(Finding { code, file: Arc::clone(&self.file), line, what });
        }
    }

    /// The file's number among all.
    fn number(&self) -> usize {
        self.number
    }

    fn excerpt(&self, text: &str) -> String {
        excerpt(text)
    }

    /// Puts the file's findings in order, and counts them.
    fn end(self) {
        self.report.findings[self.first..].sort_by_key(|finding| (finding.line, finding.code));
        for (code, n) in self.counts {
            match self.report.counts.binary_search_by_key(&code, |(code, _)| *code) {
                Ok(at) => self.report.counts[at].1 += n,
                Err(at) => self.report.counts.insert(at, (code, n)),
            }
        }
    }
}

/// Looks at files; those given together are looked at beside each other too.
pub fn lint(paths: &[PathBuf], options: &ReadOptions) -> Report {
    let mut lint = Linter::new(options);
    for path in paths {
        lint.file(path);
    }
    lint.finish()
}

/// Looks at files one by one.
#[derive(Debug)]
pub struct Linter<'o> {
    options: &'o ReadOptions,
    report: Report,
    seen: Seen,
}

impl<'o> Linter<'o> {
    /// Nothing seen yet.
    pub fn new(options: &'o ReadOptions) -> Linter<'o> {
        Linter { options, report: Report::default(), seen: Seen::default() }
    }

    /// Looks at a file.
    pub fn file(&mut self, path: &Path) {
        let content = read_file(path);
        self.look(path, content.as_deref().map_err(String::as_str));
    }

    /// Looks at bytes, the content of `file`.
    pub fn bytes(&mut self, file: &Path, bytes: &[u8]) {
        self.look(file, Ok(bytes));
    }

    /// What was found.
    pub fn finish(self) -> Report {
        self.report
    }

    fn look(&mut self, path: &Path, content: Result<&[u8], &str>) {
        let file: Arc<Path> = path.into();
        self.report.files += 1;
        self.seen.files.push(Arc::clone(&file));
        let first = self.report.findings.len();
        let number = self.seen.files.len() - 1;
        let mut sink = Sink { report: &mut self.report, file, number, counts: HashMap::new(), first };
        match content {
            Ok(bytes) => look_at(path, bytes, self.options, &mut self.seen, &mut sink),
            Err(why) => sink.find(Code::Unreadable, None, why.to_owned()),
        }
        sink.end();
    }
}

/// The content of a file of at most [`FILE_BYTES_MAX`], or why not.
fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes));
    read.map_err(|error| format!("cannot be read: {error}"))?;
    match bytes.len() as u64 > FILE_BYTES_MAX {
        true => Err(Unreadable::TooLarge.to_string()),
        false => Ok(bytes),
    }
}

fn look_at(path: &Path, bytes: &[u8], options: &ReadOptions, seen: &mut Seen, sink: &mut Sink<'_>) {
    let content = format::parse(path, bytes, options);
    let format = match &content {
        Ok(Content::Choices(read)) => Some(read.format),
        Ok(Content::Problems(read)) => Some(read.format),
        Err(_) => None,
    };
    let is_csv = path.extension().is_some_and(|extension| extension == "csv");
    text::scan(bytes, scope(format, is_csv), sink);
    let conflicts: Vec<u64> = conflict_lines(bytes);
    let is_conflict = |line: u64| conflicts.binary_search(&line).is_ok();
    match content {
        Ok(Content::Choices(read)) => {
            header(bytes, &read, seen, sink);
            told(&read, &is_conflict, sink);
            rows::choices(&read, seen, sink);
        }
        Ok(Content::Problems(read)) => {
            told(&read, &is_conflict, sink);
            rows::problems(&read, sink);
        }
        Err(error) => {
            let code = match error.unreadable {
                Unreadable::Foreign(_) => Code::ForeignTable,
                Unreadable::AmbiguousFamily { .. } => Code::UnsaidFamily,
                _ => Code::Unreadable,
            };
            sink.find(code, error.line, error.unreadable.to_string());
        }
    }
}

/// What the reader refused or assumed.
fn told<T>(read: &Read<T>, is_conflict: &dyn Fn(u64) -> bool, sink: &mut Sink<'_>) {
    sink.report.rows += read.rows.len() as u64;
    rows::rejected(&read.rejected, read.format, is_conflict, sink);
    for warning in &read.warnings {
        sink.find(rows::told(&warning.what), warning.line, warning.what.clone());
    }
}

fn scope(format: Option<Format>, is_csv: bool) -> Scope {
    let is_table = match format {
        Some(
            Format::Tuned
            | Format::Untuned
            | Format::AiterTuned(_)
            | Format::AiterUntuned(_)
            | Format::FmoeTuned
            | Format::FmoeUntuned,
        ) => true,
        Some(_) => false,
        None => is_csv,
    };
    let is_appended = is_table || matches!(format, Some(Format::TunableOp | Format::TunableOpUntuned));
    Scope { is_table, is_appended, is_compared: matches!(format, Some(Format::AiterTuned(_) | Format::FmoeTuned)) }
}

fn conflict_lines(bytes: &[u8]) -> Vec<u64> {
    let lines = (1..).zip(bytes.split(|&byte| byte == b'\n'));
    lines.filter(|(_, line)| text::is_conflict_marker(line.trim_ascii_end())).map(|(number, _)| number).collect()
}

/// Old columns, and columns that are missing, of tuned AITER tables.
fn header(bytes: &[u8], read: &Read<crate::choice::Choice>, seen: &mut Seen, sink: &mut Sink<'_>) {
    if !matches!(read.format, Format::AiterTuned(_) | Format::FmoeTuned) {
        return;
    }
    let text = String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes));
    let Some((line, header)) = (1..).zip(text.lines()).find(|(_, line)| !line.trim().is_empty()) else { return };
    let names: Vec<&str> = header.split(',').map(str::trim).collect();
    let has = |name: &str| names.contains(&name);
    if !has("gfx") {
        sink.find(Code::MissingGfx, Some(line), "the header has no gfx".into());
    }
    // Tables of batched mxscale GEMMs never had it.
    let is_mxscale = has("gfx") && has("b");
    if !has("cu_num") && !is_mxscale {
        sink.find(Code::MissingUnits, Some(line), "the header has no cu_num".into());
    }
    if has("soltimes") {
        sink.find(Code::OldColumn, Some(line), "soltimes is called us now".into());
    }
    let names = names.join(",");
    let number = sink.number();
    let (first, file) = seen.headers.entry(read.format).or_insert_with(|| (names.clone(), number));
    if *first != names {
        let what = format!("another header than {}, for one format", seen.files[*file].display());
        sink.find(Code::HeaderVariant, Some(line), what);
    }
}

#[cfg(test)]
mod tests;
