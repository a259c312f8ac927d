//! The files of a self-check, and the one file that they travel in.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use super::redact::Redactor;

/// Files gathered for a bundle. Every text goes through the redactor on its way in.
pub struct Bundle<'a> {
    redactor: &'a Redactor,
    files: Vec<(String, Vec<u8>)>,
}

impl<'a> Bundle<'a> {
    /// An empty one.
    pub fn new(redactor: &'a Redactor) -> Bundle<'a> {
        Bundle { redactor, files: Vec::new() }
    }

    /// Adds a text, less personal data. In JSON, by the name, it is each value that is looked at: an escaped line end
    /// would hide where a word begins.
    pub fn add(&mut self, name: &str, text: &str) {
        let clean = match name.rsplit_once('.') {
            Some((_, "json" | "jsonl")) => text.lines().map(|line| self.json_line(line) + "\n").collect(),
            _ => self.redactor.text(text),
        };
        self.files.push((name.to_owned(), clean.into_bytes()));
    }

    fn json_line(&self, line: &str) -> String {
        match serde_json::from_str(line) {
            Ok(value) => self.redactor.json(value).to_string(),
            Err(_) => self.redactor.text(line),
        }
    }

    /// Adds a text that says what the others are, before them.
    pub fn add_first(&mut self, name: &str, text: &str) {
        self.add(name, text);
        self.files.rotate_right(1);
    }

    /// Adds a file whose contents hold no personal data already.
    pub fn add_clean(&mut self, name: &str, bytes: Vec<u8>) {
        self.files.push((name.to_owned(), bytes));
    }

    /// The tar file: names, sizes and the time, no owner.
    ///
    /// # Errors
    /// A name that tar cannot hold.
    pub fn to_tar(&self) -> std::io::Result<Vec<u8>> {
        let mut tar = tar::Builder::new(Vec::new());
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        for (name, bytes) in &self.files {
            let mut header = tar::Header::new_ustar();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            header.set_mtime(now_s);
            header.set_uid(0);
            header.set_gid(0);
            tar.append_data(&mut header, Path::new("tgemm-selfcheck").join(name), bytes.as_slice())?;
        }
        tar.into_inner()
    }
}
