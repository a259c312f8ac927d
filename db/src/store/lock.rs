//! One writer a file, by an operating-system lock on a side-car file `<database>-lock`.
//!
//! The lock dies with its process, so a crash never leaves a store locked; the file itself means nothing. It is not
//! taken on the database: closing any second handle of a file drops SQLite's own POSIX locks on it.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use super::error::StoreError;

/// How often a lock file may vanish under us (its holder removes it on closing) before we give up.
const ATTEMPTS_MAX: u32 = 64;
/// Longest process number that is read from a lock file.
const PROCESS_DIGITS_MAX: u64 = 10;

/// The right to write one store; given back on drop.
#[derive(Debug)]
pub(super) struct WriterLock {
    _file: File,
    beside: PathBuf,
}

impl WriterLock {
    /// Takes the right to write the database `file`, which messages call `path`.
    ///
    /// # Errors
    /// Another process or store holds it, or the folder takes no files.
    pub(super) fn acquire(file: &Path, path: &Path) -> Result<WriterLock, StoreError> {
        let mut beside = OsString::from(file);
        beside.push("-lock");
        let beside = PathBuf::from(beside);
        for _ in 0..ATTEMPTS_MAX {
            let mut options = OpenOptions::new();
            let mut held = options
                .create(true)
                .read(true)
                .write(true)
                .truncate(false)
                .open(&beside)
                .map_err(|e| StoreError::io(path, e))?;
            match held.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(StoreError::Locked { path: path.to_owned(), process: holder(&mut held) });
                }
                Err(TryLockError::Error(error)) => return Err(StoreError::io(path, error)),
            }
            if is_still(&held, &beside) {
                // A courtesy for the message of the next one; without room for it the lock holds all the same.
                let _ = held.set_len(0).and_then(|()| write!(held, "{}", std::process::id()));
                return Ok(WriterLock { _file: held, beside });
            }
        }
        Err(StoreError::Locked { path: path.to_owned(), process: None })
    }
}

impl Drop for WriterLock {
    fn drop(&mut self) {
        // Removed while still held: whoever opened it before sees at `is_still` that it is gone and tries again.
        let _ = std::fs::remove_file(&self.beside);
    }
}

fn holder(held: &mut File) -> Option<u32> {
    let mut text = String::new();
    held.take(PROCESS_DIGITS_MAX).read_to_string(&mut text).ok()?;
    text.parse().ok()
}

/// Is the locked file still the one that others would find?
#[cfg(unix)]
fn is_still(held: &File, beside: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    match (held.metadata(), std::fs::metadata(beside)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

/// Elsewhere an open file cannot be removed.
#[cfg(not(unix))]
fn is_still(_: &File, beside: &Path) -> bool {
    beside.exists()
}
