//! A table that is written piece by piece and appears whole: what [`crate::atomic`] does for content in memory.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use super::source::{Rows, Text};
use super::{BATCH_ROWS, MergeError, Merged, Row};
use crate::atomic::{Step, WriteError};
use crate::format::tuned;

impl Merged {
    /// Replaces `path` by our tuned table of the result, atomically; returns the number of its rows.
    ///
    /// Rows that stand in a table under our header already are copied as they are.
    ///
    /// # Errors
    /// A source that cannot be read again or has changed, and everything that may befall a write. Then `path` is as it
    /// was.
    pub fn write_csv(&self, path: &Path) -> Result<usize, MergeError> {
        let mut staged = Staged::new(path)?;
        let header = tuned::to_text([]);
        staged.write(header.as_bytes())?;
        for winners in self.winners.chunks(BATCH_ROWS) {
            let texts = self.each_source(winners, |source, spots| match source {
                Rows::Lines(lines) if lines.has_header(header.as_bytes()) => lines.text(spots),
                source => Ok(render(&source.fetch(spots)?, header.len())),
            })?;
            let mut next: Vec<(usize, usize)> = vec![(0, 0); texts.len()];
            for winner in winners {
                let source = winner.source as usize;
                let (at, start) = next[source];
                let end = texts[source].ends[at];
                staged.write(&texts[source].bytes[start..end])?;
                next[source] = (at + 1, end);
            }
        }
        self.check_unchanged()?;
        staged.publish()?;
        Ok(self.len())
    }
}

/// Rows as our writer writes them, without the header's `header_bytes`.
fn render(rows: &[Row], header_bytes: usize) -> Text {
    let mut text = Text::default();
    for row in rows {
        text.bytes.extend_from_slice(&tuned::to_text([&row.choice]).as_bytes()[header_bytes..]);
        text.ends.push(text.bytes.len());
    }
    text
}

/// A temporary file that takes its target's place when it is published, and is removed if it never is.
struct Staged {
    target: PathBuf,
    temporary: PathBuf,
    out: BufWriter<File>,
    is_published: bool,
}

impl Staged {
    fn new(path: &Path) -> Result<Staged, WriteError> {
        let failed = |source: io::Error| WriteError { path: path.to_owned(), step: Step::Create, source };
        let (target, permissions) = match fs::metadata(path) {
            Ok(old) if old.is_file() => (fs::canonicalize(path).map_err(failed)?, Some(old.permissions())),
            // Renaming over a device such as /dev/stdout would destroy it.
            Ok(_) => return Err(failed(io::Error::other("it is there and is not a regular file"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => (path.to_owned(), None),
            Err(error) => return Err(failed(error)),
        };
        let name = target.file_name().ok_or_else(|| failed(io::Error::other("the path names no file")))?;
        let temporary = target.with_file_name(format!(".{}.{}.merge", name.to_string_lossy(), std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary).map_err(failed)?;
        let staged = Staged { target, temporary, out: BufWriter::with_capacity(1 << 20, file), is_published: false };
        if let Some(permissions) = permissions {
            staged.out.get_ref().set_permissions(permissions).map_err(failed)?;
        }
        Ok(staged)
    }

    fn failed(&self, step: Step) -> impl Fn(io::Error) -> WriteError + use<> {
        let path = self.target.clone();
        move |source| WriteError { path: path.clone(), step, source }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        let failed = self.failed(Step::Write);
        self.out.write_all(bytes).map_err(failed)
    }

    fn publish(mut self) -> Result<(), WriteError> {
        let failed = self.failed(Step::Write);
        self.out.flush().map_err(failed)?;
        self.out.get_ref().sync_all().map_err(self.failed(Step::SyncFile))?;
        fs::rename(&self.temporary, &self.target).map_err(self.failed(Step::Rename))?;
        self.is_published = true;
        let folder = self.target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(self.failed(Step::SyncFolder))
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.is_published {
            // Nothing more can be done: the error that led here is the one to report.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}
