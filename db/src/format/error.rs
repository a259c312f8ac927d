//! What can be wrong with a file, and with one of its rows.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::limits::{FILE_BYTES_MAX, WARNINGS_MAX};

/// A row that was not taken, and why. `Display` is `file:line: reason`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The file.
    pub file: Arc<Path>,
    /// The line, counted from 1.
    pub line: u64,
    /// Why, with the offending cell.
    pub reason: String,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.reason)
    }
}

/// Something to know about a file whose rows were taken. `Display` is `file:line: what`, or `file: what`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The file.
    pub file: Arc<Path>,
    /// The line, counted from 1; `None` where it is about the file as a whole.
    pub line: Option<u64>,
    /// What, with the cell or column.
    pub what: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", Place(&self.file, self.line), self.what)
    }
}

/// A file that cannot be read at all. `Display` is one line: `file:line: what: remedy`.
#[derive(Debug, thiserror::Error)]
#[error("{}: {unreadable}", Place(.file, *.line))]
pub struct ReadError {
    /// The file.
    pub file: Arc<Path>,
    /// The line, counted from 1; `None` where it is about the file as a whole.
    pub line: Option<u64>,
    /// What is wrong.
    #[source]
    pub unreadable: Unreadable,
}

struct Place<'a>(&'a Path, Option<u64>);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Some(line) => write!(f, "{}:{line}", self.0.display()),
            None => self.0.display().fmt(f),
        }
    }
}

/// What makes a file unreadable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// It is not there.
    #[error("no such file: check the path")]
    Missing,
    /// It is a directory.
    #[error("is a directory: name a CSV file in it")]
    Directory,
    /// The system refused.
    #[error("cannot be read: {0}")]
    Io(#[source] io::Error),
    /// Over [`FILE_BYTES_MAX`].
    #[error("is larger than {FILE_BYTES_MAX} bytes: split it")]
    TooLarge,
    /// Over [`ROWS_MAX`](super::limits::ROWS_MAX).
    #[error("has more than {rows_max} rows: split it")]
    TooManyRows {
        /// The limit.
        rows_max: usize,
    },
    /// Nothing but blank lines.
    #[error("is empty: a header line such as M,N,K,bias,dtype,outdtype is expected")]
    Empty,
    /// The first line is not text.
    #[error("is not text: a CSV file is expected")]
    NotText,
    /// It starts as every SQLite 3 file does.
    #[error("is a SQLite database: name it where a database is taken, or export it to CSV")]
    Sqlite,
    /// A table of something that has no matrix product, or no choices, in it.
    #[error("is {0}")]
    Foreign(&'static str),
    /// An AITER table whose header several families share, and whose name and content tell none.
    #[error("header '{header}' is that of {families}: name the file as AITER does, or say its family")]
    AmbiguousFamily {
        /// The header, shortened.
        header: String,
        /// The families it fits.
        families: String,
    },
    /// An AITER table that lacks what the family it is said to be of must have.
    #[error("header '{header}' is not that of AITER's {family} tables: {why}")]
    NotOfFamily {
        /// The header, shortened.
        header: String,
        /// The family it was said to be of.
        family: super::aiter::Family,
        /// What differs.
        why: String,
    },
    /// It is of a format whose module could not make sense of it.
    #[error("is {format}, but {why}")]
    Malformed {
        /// The format.
        format: super::Format,
        /// What is wrong, and the remedy.
        why: String,
    },
    /// No format has this header.
    #[error("header '{header}' is of no known format: {why}")]
    UnknownHeader {
        /// The header, shortened.
        header: String,
        /// The nearest format and what differs.
        why: String,
    },
    /// A known format that holds something else.
    #[error("is {format}, which holds {holds}: {wanted} are expected here")]
    WrongKind {
        /// The format by its header.
        format: super::Format,
        /// What it holds.
        holds: &'static str,
        /// What was asked for.
        wanted: &'static str,
    },
}

/// What was read from one file: its good rows and its rejected ones, each with its line.
#[derive(Clone, Debug, PartialEq)]
pub struct Read<T> {
    /// The file.
    pub file: Arc<Path>,
    /// Its format, by its header.
    pub format: super::Format,
    /// Good rows, in file order.
    pub rows: Vec<Sourced<T>>,
    /// Rows that were not taken, in file order.
    pub rejected: Vec<Rejected>,
    /// What was assumed or passed over, a few lines a file.
    pub warnings: Vec<Warning>,
}

impl<T> Read<T> {
    /// Nothing yet, of `file`.
    pub fn new(file: Arc<Path>, format: super::Format) -> Read<T> {
        Read { file, format, rows: Vec::new(), rejected: Vec::new(), warnings: Vec::new() }
    }

    /// Notes something about the file as a whole; at most [`WARNINGS_MAX`] are kept.
    pub fn warn(&mut self, line: Option<u64>, what: impl Into<String>) {
        if self.warnings.len() < WARNINGS_MAX {
            self.warnings.push(Warning { file: Arc::clone(&self.file), line, what: what.into() });
        }
    }

    /// Each row, with its line, made something else.
    pub(crate) fn map<U>(self, mut change: impl FnMut(u64, T) -> U) -> Read<U> {
        let Read { file, format, rows, rejected, warnings } = self;
        let rows =
            rows.into_iter().map(|Sourced { line, value }| Sourced { line, value: change(line, value) }).collect();
        Read { file, format, rows, rejected, warnings }
    }

    /// The rows without their lines.
    pub fn into_values(self) -> impl Iterator<Item = T> {
        self.rows.into_iter().map(|row| row.value)
    }
}

/// A value and the line it stood on.
#[derive(Clone, Debug, PartialEq)]
pub struct Sourced<T> {
    /// The line, counted from 1.
    pub line: u64,
    /// What it says.
    pub value: T,
}
