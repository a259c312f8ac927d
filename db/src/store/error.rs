//! What can go wrong with a store, each in one line with the remedy.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// Why the store could not do what was asked. Every message is one line that names the file.
///
/// Whatever was saved before an error stays saved: each call is one transaction.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Nothing to read there.
    #[error("{}: no such file; `tune sweep --db` makes one", shown(.path))]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The folder that it should be in does not exist.
    #[error("{}: its folder does not exist; make it first", shown(.path))]
    NoFolder {
        /// The file.
        path: PathBuf,
    },
    /// A folder stands there.
    #[error("{}: a folder, not a tgemm database; name a file in it", shown(.path))]
    Folder {
        /// The folder.
        path: PathBuf,
    },
    /// A file without content, opened for reading.
    #[error("{}: empty, holds no choices yet; `tune sweep --db` fills it", shown(.path))]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The file is no SQLite database.
    #[error("{}: not a tgemm database (not SQLite); name another file", shown(.path))]
    NotSqlite {
        /// The file.
        path: PathBuf,
    },
    /// A SQLite database of another program. It was not touched.
    #[error("{}: not a tgemm database (SQLite application id {application_id:#010x}); name another file", shown(.path))]
    NotOurs {
        /// The file.
        path: PathBuf,
        /// Whose it is, as its header says; 0 says nothing.
        application_id: u32,
    },
    /// Written by a later version of this program.
    #[error("{}: schema {found}, this build knows up to {known}: use a newer tune", shown(.path))]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: u32,
        /// The newest that we know.
        known: u32,
    },
    /// Written by an earlier version, and opened for reading: it cannot be brought up to date.
    #[error("{}: schema {found}, reading needs {needed}: open it once with `tune sweep --db`", shown(.path))]
    Older {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: u32,
        /// The schema that is read.
        needed: u32,
    },
    /// Somebody else has it.
    #[error("{}: in use by another sweep{}; wait for it to end or name another file", shown(.path), holder(.process))]
    Locked {
        /// The file.
        path: PathBuf,
        /// The process that holds it, if it left its number.
        process: Option<u32>,
    },
    /// The file or its folder takes no writes.
    #[error("{}: the file or its folder is read-only; name a --db in a folder that you may write", shown(.path))]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// No room.
    #[error("{}: the disk is full; all that was saved before is kept: make room and run the same command again", shown(.path))]
    DiskFull {
        /// The file.
        path: PathBuf,
    },
    /// A killed sweep left its log beside the file, and the folder is read-only, so that it cannot be recovered here.
    #[error(
        "{}: an interrupted sweep left its log and the folder is read-only; copy the file with its -wal to a folder that you may write",
        shown(.path)
    )]
    NeedsRecovery {
        /// The file.
        path: PathBuf,
    },
    /// The header says that the newest rows are in a log, and there is none: the file was copied without it. Or another program
    /// folded the log, and left the header as it was.
    #[error(
        "{}: its log is not beside it, and the newest rows may be in there: copy the file together with its -wal; if another \
         program folded the log, open the file once with `tune sweep --db`",
        shown(.path)
    )]
    LogMissing {
        /// The file.
        path: PathBuf,
    },
    /// On closing, another process was still reading.
    #[error("{}: all is saved, but another process reads it, so its -wal file stays; keep both files together", shown(.path))]
    StillRead {
        /// The file.
        path: PathBuf,
    },
    /// The content contradicts itself.
    #[error("{}: damaged: {detail}; restore a copy, or `sqlite3 FILE .recover`", shown(.path))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        detail: String,
    },
    /// A stored text is no word of this build.
    #[error("{}: {table}.{column} holds '{value}': {reason}; use a newer tune or delete that row", shown(.path))]
    Stored {
        /// The file.
        path: PathBuf,
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// What stands there.
        value: String,
        /// Why it cannot be read.
        reason: String,
    },
    /// Something to be saved is beyond a limit.
    #[error("{}: {what} of {size}, at most {limit} are stored", shown(.path))]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: &'static str,
        /// How large it is.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// A choice names another device than its environment.
    #[error("{}: a choice for device {choice} in an environment of device {environment}", shown(.path))]
    Device {
        /// The file.
        path: PathBuf,
        /// The device of the choice.
        choice: String,
        /// The device of the environment.
        environment: String,
    },
    /// A run or environment that this store does not hold: the number is from another file.
    #[error("{}: holds no such run or environment; its number is from another file", shown(.path))]
    Reference {
        /// The file.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("{}: {source}", shown(.path))]
    Io {
        /// The file.
        path: PathBuf,
        /// Its reason.
        source: std::io::Error,
    },
    /// SQLite refused for a reason that has no words of its own here.
    #[error("{}: SQLite: {detail}", shown(.path))]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// Its reason.
        detail: String,
    },
}

/// A path on one line, whatever is in it, and visible if nothing is.
fn shown(path: &Path) -> String {
    match path.as_os_str().is_empty() {
        true => "''".into(),
        false => one_line(&path.display().to_string()),
    }
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn holder(process: &Option<u32>) -> String {
    process.map_or(String::new(), |process| format!(" (process {process})"))
}

impl StoreError {
    /// An operating-system error about the store at `path`.
    pub(super) fn io(path: &Path, source: std::io::Error) -> StoreError {
        let path = path.to_owned();
        match source.kind() {
            ErrorKind::NotFound => StoreError::Missing { path },
            ErrorKind::IsADirectory => StoreError::Folder { path },
            ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => StoreError::ReadOnly { path },
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StoreError::DiskFull { path },
            _ => StoreError::Io { path, source },
        }
    }
}

/// An error inside the store, before it is known which file it is about.
#[derive(Debug)]
pub(super) enum Fault {
    Sqlite(rusqlite::Error),
    Stored { table: &'static str, column: &'static str, value: String, reason: String },
    TooLarge { what: &'static str, size: usize, limit: usize },
    Device { choice: String, environment: String },
    Reference,
    Damaged(String),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Fault {
        Fault::Sqlite(error)
    }
}

impl Fault {
    /// The error for the store at `path`.
    pub(super) fn at(self, path: &Path) -> StoreError {
        let path = path.to_owned();
        match self {
            Fault::Sqlite(error) => sqlite(path, &error),
            Fault::Stored { table, column, value, reason } => {
                StoreError::Stored { path, table, column, value: one_line(&value), reason: one_line(&reason) }
            }
            Fault::TooLarge { what, size, limit } => StoreError::TooLarge { path, what, size, limit },
            Fault::Device { choice, environment } => StoreError::Device { path, choice, environment },
            Fault::Reference => StoreError::Reference { path },
            Fault::Damaged(detail) => StoreError::Damaged { path, detail: one_line(&detail) },
        }
    }

    /// Did SQLite fail because it may not make or write the files beside the database?
    pub(super) fn is_read_only_folder(&self) -> bool {
        let Fault::Sqlite(error) = self else { return false };
        matches!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly))
    }
}

fn sqlite(path: PathBuf, error: &rusqlite::Error) -> StoreError {
    let detail = one_line(&error.to_string());
    let extended = error.sqlite_error().map_or(0, |e| e.extended_code);
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::DiskFull { path },
        // Growing the shared-memory index is the one place where SQLite names "no space" an I/O error.
        Some(ErrorCode::SystemIoFailure) if extended == rusqlite::ffi::SQLITE_IOERR_SHMSIZE => {
            StoreError::DiskFull { path }
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked { path, process: None },
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => StoreError::ReadOnly { path },
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Damaged { path, detail },
        Some(ErrorCode::NotADatabase) => StoreError::NotSqlite { path },
        Some(ErrorCode::ConstraintViolation) if extended == rusqlite::ffi::SQLITE_CONSTRAINT_FOREIGNKEY => {
            StoreError::Reference { path }
        }
        _ => StoreError::Sqlite { path, detail },
    }
}
