//! A folder of this run's own, gone at its end.

use std::io;
use std::path::PathBuf;

pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> io::Result<Scratch> {
        let folder = std::env::temp_dir().join(format!("tgemm-speed-{}", std::process::id()));
        std::fs::create_dir(&folder)?;
        Ok(Scratch(folder))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
