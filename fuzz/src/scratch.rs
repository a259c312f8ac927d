//! Files in memory where the machine has a place for that: a fuzzer writes some thousands a second.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// What has to work for anything to be looked at.
pub fn must<T, E: Debug>(done: Result<T, E>, what: &str) -> T {
    done.unwrap_or_else(|error| panic!("{what}: {error:?}"))
}

/// The folder of this process. It stays when the process ends: a fuzzer that found something leaves what led to it.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let memory = Path::new("/dev/shm");
        let root = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let folder = root.join(format!("tgemm-fuzz-{}", std::process::id()));
        must(std::fs::create_dir_all(&folder), "a folder for scratch files");
        folder
    })
}

/// A file of this content.
pub fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder().join(name);
    must(std::fs::write(&path, bytes), "a scratch file");
    path
}

/// Removes a file that may not be there.
pub fn remove(name: &str) {
    let _ = std::fs::remove_file(folder().join(name));
}
