//! Whose file is this? Answered from its first bytes, so that a stranger's file is never opened by SQLite, which
//! might recover a log or leave files beside it, and so that a file killed in the middle of anything still says.

use std::io::ErrorKind;
use std::path::Path;

use super::error::StoreError;
use super::handles::Presence;
use super::schema::{APPLICATION_ID, SCHEMA_VERSION};

/// The SQLite header: 16 bytes of magic, `user_version` at 60, `application_id` at 68, big-endian.
/// <https://sqlite.org/fileformat.html#the_database_header>
const HEADER_BYTES: usize = 100;
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// What stands at a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing.
    Missing,
    /// A file of no bytes: a new database, or a name made by `mktemp`.
    Empty,
    /// A database of ours with a schema that we know.
    Ours { schema: u32 },
}

/// Looks at the file without changing it.
///
/// # Errors
/// It is a folder, unreadable, not SQLite, not ours, or of a newer schema.
pub(super) fn inspect(presence: &Presence, file: &Path, path: &Path) -> Result<Found, StoreError> {
    let owned = || path.to_owned();
    let refused = |source: std::io::Error| StoreError::Io { path: path.to_owned(), source };
    match std::fs::metadata(file) {
        Ok(metadata) if metadata.is_dir() => return Err(StoreError::Folder { path: owned() }),
        // A pipe or device; only to open a pipe would wait for its other end.
        Ok(metadata) if !metadata.is_file() => return Err(StoreError::NotSqlite { path: owned() }),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Missing),
        Err(error) => return Err(refused(error)),
    }
    let mut header = [0; HEADER_BYTES];
    match presence.read_head(file, &mut header).map_err(refused)? {
        0 => return Ok(Found::Empty),
        HEADER_BYTES if header.starts_with(MAGIC) => {}
        _ => return Err(StoreError::NotSqlite { path: owned() }),
    }
    let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let (schema, application_id) = (word(60), word(68));
    if application_id != APPLICATION_ID {
        return Err(StoreError::NotOurs { path: owned(), application_id });
    }
    if schema > SCHEMA_VERSION {
        return Err(StoreError::Newer { path: owned(), found: schema, known: SCHEMA_VERSION });
    }
    Ok(Found::Ours { schema })
}

/// Does the header say that a log belongs to the file? A store that was closed says no.
pub(super) fn has_a_log(presence: &Presence, file: &Path) -> bool {
    /// The versions for writing and for reading at 18 and 19: 2 in write-ahead mode.
    const WRITE_AHEAD: [u8; 2] = [2, 2];
    let mut header = [0; HEADER_BYTES];
    presence.read_head(file, &mut header).is_ok_and(|bytes| bytes == HEADER_BYTES) && header[18..20] == WRITE_AHEAD
}

/// What is missing of a database that was cut short, in words. SQLite itself takes the missing part of a last page for zeros,
/// which may read as fewer rows; so a file that was copied in part has to be told here.
///
/// Only where no log stands beside it: a log may hold what the file has not yet.
pub(super) fn missing(presence: &Presence, file: &Path) -> Option<String> {
    let mut header = [0; HEADER_BYTES];
    if presence.read_head(file, &mut header).ok()? < HEADER_BYTES {
        return None;
    }
    let bytes = std::fs::metadata(file).ok()?.len();
    let word = |at: usize| u64::from(u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]));
    // The page size at 16, where 1 means 65536; the number of pages at 28, which counts if the change counter at 24 is the
    // one that it was written with, at 92.
    let page_bytes = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65_536,
        size => u64::from(size),
    };
    let pages = if word(24) == word(92) { word(28) } else { 0 };
    let whole = (page_bytes * pages).max(bytes.checked_next_multiple_of(page_bytes)?);
    (bytes < whole).then(|| format!("{bytes} of {whole} bytes are there: it was cut short"))
}
