//! The trace: one JSON line a launch.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use serde::Serialize;

/// How a launch came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    Eager,
    Captured,
    Replayed,
}

/// One launch.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Line<'a> {
    pub library: &'a str,
    pub index: i64,
    pub kernel: &'a str,
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub batch: usize,
    pub stream: usize,
    pub how: How,
    /// Virtual time that it took; 0 when captured.
    pub us: f64,
    pub process: u32,
}

/// Where launches are written, if anywhere.
#[derive(Debug)]
pub struct Trace(Option<File>);

impl Trace {
    pub fn open(path: Option<&Path>) -> Result<Trace, String> {
        let Some(path) = path else { return Ok(Trace(None)) };
        let file = OpenOptions::new().create(true).append(true).open(path);
        file.map(|file| Trace(Some(file))).map_err(|error| format!("trace {}: {error}", path.display()))
    }

    /// Appends a line by one write, so that processes may share a file.
    pub fn write(&mut self, line: &Line<'_>) {
        let Some(file) = &mut self.0 else { return };
        if let Ok(mut text) = serde_json::to_string(line) {
            text.push('\n');
            if let Err(error) = file.write_all(text.as_bytes()) {
                eprintln!("rocm-double: trace: {error}");
                self.0 = None;
            }
        }
    }
}
