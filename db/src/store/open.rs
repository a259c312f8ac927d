//! Connections: set up the same way, for writing or for reading.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::error::{Fault, StoreError};
use super::schema;

/// How long to wait for another connection: a reader that is just closing, a checkpoint.
const BUSY_WAIT: Duration = Duration::from_secs(2);
/// Prepared statements kept; more than this module has.
const STATEMENTS_MAX: usize = 64;

/// The file behind links, so that two names of one file are one lock; absolute, so that no name is special to SQLite.
pub(super) fn resolve(path: &Path) -> Result<PathBuf, StoreError> {
    if let Ok(file) = path.canonicalize() {
        return Ok(file);
    }
    let absolute = std::path::absolute(path).map_err(|e| StoreError::io(path, e))?;
    match (absolute.parent().map(Path::canonicalize), absolute.file_name()) {
        (Some(Ok(folder)), Some(name)) => Ok(folder.join(name)),
        _ => Err(StoreError::NoFolder { path: path.to_owned() }),
    }
}

/// Migrated, in write-ahead mode; the caller holds the lock.
pub(super) fn for_writing(file: &Path) -> Result<Connection, Fault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(file, flags)?;
    prepare(&connection)?;
    schema::migrate(&mut connection)?;
    // Where shared memory is not to be had, SQLite stays with the rollback journal: slower, as safe.
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    // We hold the lock: a run that has not ended belongs to a process that has.
    connection.execute("UPDATE run SET ended = 'killed' WHERE ended IS NULL", [])?;
    Ok(connection)
}

/// Is it certain that nobody writes, so that SQLite needs no file beside this one?
#[derive(Clone, Copy)]
pub(super) enum Immutable {
    /// Somebody may.
    No,
    /// The folder is read-only.
    Yes,
}

/// Set up and read from once, so that a log which cannot be opened fails here.
pub(super) fn for_reading(file: &Path, immutable: Immutable) -> Result<Connection, Fault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match immutable {
        Immutable::Yes => Connection::open_with_flags(uri(file.as_os_str()), flags | OpenFlags::SQLITE_OPEN_URI)?,
        Immutable::No => Connection::open_with_flags(file, flags)?,
    };
    prepare(&connection)?;
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(connection)
}

fn prepare(connection: &Connection) -> Result<(), Fault> {
    connection.busy_timeout(BUSY_WAIT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    connection.pragma_update(None, "foreign_keys", true)?;
    // Triggers and views of a file from elsewhere call nothing with side effects.
    connection.pragma_update(None, "trusted_schema", false)?;
    Ok(())
}

/// `file:///a%20b?immutable=1`: every byte that is not plain is written as its number.
fn uri(file: &OsStr) -> String {
    let mut uri = String::from("file://");
    for &byte in file.as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => uri.push(char::from(byte)),
            _ => {
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    uri + "?immutable=1"
}

/// Does a log with content stand beside the file?
pub(super) fn has_log(file: &Path) -> bool {
    ["-wal", "-journal"]
        .iter()
        .any(|suffix| std::fs::metadata(beside(file, suffix)).is_ok_and(|metadata| metadata.len() > 0))
}

/// Is there a log beside the file, be it empty?
pub(super) fn log_exists(file: &Path) -> bool {
    beside(file, "-wal").exists()
}

fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut beside = file.as_os_str().to_owned();
    beside.push(suffix);
    beside.into()
}

/// Takes back a file that we made and could not begin to fill.
pub(super) fn remove_if_empty(file: &Path) {
    if std::fs::metadata(file).is_ok_and(|metadata| metadata.len() == 0) {
        let _ = std::fs::remove_file(file);
    }
}
