//! What the processes of a program recorded: one file each, read as one.

use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tgemm_db::format::{self, ReadError, Rejected, Unreadable};
use tgemm_db::{Recorded, recording};

/// The file that everything comes together in, where none is named, and in a folder that is.
pub const MERGED_DEFAULT: &str = "untuned.csv";
/// The most files of one folder that are read.
const FILES_MAX: usize = 1 << 16;

/// Where processes record, and where all of it goes.
#[derive(Debug)]
pub struct Place {
    parts: Parts,
    merged: PathBuf,
}

#[derive(Debug)]
enum Parts {
    /// Removed when all of it is in the merged file.
    Scratch(TempDir),
    /// The user's folder.
    Kept(PathBuf),
}

/// Somewhere that cannot be written to.
#[derive(Debug, thiserror::Error)]
#[error("{}: cannot be recorded to: {source}", .path.display())]
pub struct Unwritable {
    path: PathBuf,
    source: io::Error,
}

impl Place {
    /// `output` is a file if it ends in `.csv`, else a folder, which keeps the files of the processes too.
    ///
    /// The files of the processes lie beside what they become: should this program be killed, they are found there.
    ///
    /// # Errors
    /// The folder cannot be made or written to.
    pub fn new(output: Option<&Path>) -> Result<Place, Unwritable> {
        let output = output.unwrap_or(Path::new(MERGED_DEFAULT));
        let unwritable = |source| Unwritable { path: output.to_owned(), source };
        // Programs change their folders.
        let absolute = std::path::absolute(output).map_err(unwritable)?;
        let is_file = !absolute.is_dir() && absolute.extension().is_some_and(|end| end.eq_ignore_ascii_case("csv"));
        if !is_file {
            std::fs::create_dir_all(&absolute).map_err(unwritable)?;
            tempfile::tempfile_in(&absolute).map_err(unwritable)?;
            return Ok(Place { merged: absolute.join(MERGED_DEFAULT), parts: Parts::Kept(absolute) });
        }
        let beside = absolute.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(beside).map_err(unwritable)?;
        let scratch = tempfile::Builder::new().prefix(".tgemm-record-").tempdir_in(beside).map_err(unwritable)?;
        Ok(Place { parts: Parts::Scratch(scratch), merged: absolute })
    }

    /// The folder that processes are told.
    pub fn folder(&self) -> &Path {
        match &self.parts {
            Parts::Scratch(scratch) => scratch.path(),
            Parts::Kept(folder) => folder,
        }
    }

    /// The file that everything comes together in.
    pub fn merged(&self) -> &Path {
        &self.merged
    }

    /// Are the files of processes kept, so that those that still run lose nothing?
    pub fn is_kept(&self) -> bool {
        matches!(self.parts, Parts::Kept(_))
    }

    /// Keeps the files of the processes whatever they were to be; their folder.
    pub fn keep(self) -> PathBuf {
        match self.parts {
            Parts::Scratch(scratch) => scratch.keep(),
            Parts::Kept(folder) => folder,
        }
    }

    /// Everything that is there by now.
    pub fn collect(&self) -> Collected {
        Collected::read(self.folder(), &self.merged)
    }
}

/// The recordings of a folder as one.
#[derive(Debug, Default)]
pub struct Collected {
    /// Problems, equal ones summed where they followed the same ones.
    pub rows: Vec<Recorded>,
    /// Files that held some: processes.
    pub files: usize,
    /// Lines that could not be read.
    pub rejected: Vec<Rejected>,
    /// Files that could not be read at all.
    pub unreadable: Vec<ReadError>,
}

impl Collected {
    /// Reads every `.csv` file in `folder` but `merged`.
    fn read(folder: &Path, merged: &Path) -> Collected {
        let mut collected = Collected::default();
        let entries = std::fs::read_dir(folder).into_iter().flatten().take(FILES_MAX).flatten();
        let is_part = |path: &PathBuf| path != merged && path.extension().is_some_and(|end| end == "csv");
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_part).collect();
        files.sort();
        let mut rows = Vec::new();
        for file in files {
            match format::read_untuned(&file) {
                Ok(mut sheet) => {
                    collected.rejected.append(&mut sheet.rejected);
                    let before = rows.len();
                    rows.extend(sheet.into_values());
                    collected.files += usize::from(rows.len() > before);
                }
                // Made, and ended before its first line.
                Err(error) if matches!(error.unreadable, Unreadable::Empty) => {}
                Err(error) => collected.unreadable.push(error),
            }
        }
        collected.rows = recording::merge_followers(rows);
        collected
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tgemm_db::format::untuned;
    use tgemm_db::{DType, Site};

    fn row(m: u32, count: u64) -> Recorded {
        Recorded { count, ..Recorded::bare(Site::linear(64, 128, DType::Bf16).at(m).into()) }
    }

    #[test]
    fn a_folder_keeps_its_parts_and_a_file_does_not() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("runs");
        let place = Place::new(Some(&folder)).unwrap();
        assert_eq!((place.folder(), place.merged()), (&*folder, &*folder.join("untuned.csv")));
        let file = scratch.path().join("new/mine.CSV");
        let place = Place::new(Some(&file)).unwrap();
        let parts = place.folder().to_owned();
        assert_eq!((place.merged(), parts.parent()), (&*file, file.parent()));
        drop(place);
        assert!(!parts.exists());
        assert!(Place::new(Some(Path::new("/proc/x.csv"))).unwrap_err().to_string().starts_with("/proc/x.csv: "));
    }

    #[test]
    fn processes_are_summed_and_what_cannot_be_read_is_told() {
        let scratch = tempfile::tempdir().unwrap();
        let place = Place::new(Some(scratch.path())).unwrap();
        let write = |name: &str, text: &str| std::fs::write(scratch.path().join(name), text).unwrap();
        write("a-1-1.csv", &untuned::to_text(&[row(1, 3), row(2, 1)]));
        write("a-2-1.csv", &(untuned::to_text(&[row(1, 4)]) + "half a li"));
        write("a-3-1.csv", "");
        write("a-4-1.csv", untuned::header());
        write("notes.txt", "not ours");
        write("other.csv", "x,y\n1,2\n");
        write("untuned.csv", &untuned::to_text(&[row(1, 1000)]));
        let collected = place.collect();
        let counts: Vec<_> = collected.rows.iter().map(|row| (row.problem.m(), row.count)).collect();
        assert_eq!((counts, collected.files), (vec![(1, 7), (2, 1)], 2));
        let rejected: Vec<String> = collected.rejected.iter().map(ToString::to_string).collect();
        assert!(matches!(&rejected[..], [one] if one.contains("a-2-1.csv:3: ")), "{rejected:?}");
        assert!(matches!(&collected.unreadable[..], [one] if one.to_string().contains("other.csv")), "{collected:?}");
    }
}
