//! Looking into a database file without breaking the locks of a store that this process has open already.
//!
//! POSIX drops all locks that a process holds on a file when it closes any handle of it, SQLite's own among them
//! (<https://sqlite.org/howtocorrupt.html>, section 2.2). So the handles that we open ourselves, to read headers, are
//! kept until no store is open in this process; one a file, however often it is looked at.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What tells one file from another: device and inode.
type FileId = (u64, u64);

struct Handles {
    stores: usize,
    /// None until the first look, since a static map cannot be made.
    kept: Option<HashMap<FileId, File>>,
}

static HANDLES: Mutex<Handles> = Mutex::new(Handles { stores: 0, kept: None });

fn handles() -> MutexGuard<'static, Handles> {
    // A panic elsewhere cannot leave a count or a map half changed.
    HANDLES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// While one lives, no handle opened here is closed. Taken before a store looks at its file, dropped after its
/// connection.
#[derive(Debug)]
pub(super) struct Presence(());

impl Presence {
    pub(super) fn enter() -> Presence {
        handles().stores += 1;
        Presence(())
    }

    /// The first bytes of a regular file: `buffer` filled as far as there are any; how many.
    #[cfg(unix)]
    pub(super) fn read_head(&self, path: &Path, buffer: &mut [u8]) -> io::Result<usize> {
        use std::os::unix::fs::{FileExt as _, MetadataExt as _};
        let mut handles = handles();
        let kept = handles.kept.get_or_insert_default();
        let metadata = std::fs::metadata(path)?;
        let file = match kept.entry((metadata.dev(), metadata.ino())) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => entry.insert(File::open(path)?),
        };
        let mut filled = 0;
        while filled < buffer.len() {
            match file.read_at(&mut buffer[filled..], filled as u64)? {
                0 => break,
                more => filled += more,
            }
        }
        Ok(filled)
    }

    /// Elsewhere locks belong to handles, and any may be closed.
    #[cfg(not(unix))]
    pub(super) fn read_head(&self, path: &Path, buffer: &mut [u8]) -> io::Result<usize> {
        use std::io::Read as _;
        let mut head = Vec::new();
        File::open(path)?.take(buffer.len() as u64).read_to_end(&mut head)?;
        buffer[..head.len()].copy_from_slice(&head);
        Ok(head.len())
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let mut handles = handles();
        handles.stores -= 1;
        if handles.stores == 0 {
            // Closed under the lock: a store that opens now waits until they are.
            handles.kept = None;
        }
    }
}
