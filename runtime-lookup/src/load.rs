//! Which files a database is made of, and what became of each of their rows.

use std::fmt;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use tgemm_db::Environment;
use tgemm_db::format::{self, Format, Read, ReadOptions, SQLITE_MAGIC};

use crate::builder::{Builder, Fate};
use crate::database::Database;
use crate::layers::{Layers, Table};

pub use crate::layers::ENV_DATABASES;

/// The most files of one database; more are reported as not read.
pub const FILES_MAX: usize = 64;

/// The most rejected rows of a file that a report tells one by one; all are counted.
pub const REJECTED_TOLD_MAX: usize = 64;

/// Where a choice came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Number of the file in the list; 0 counts most.
    pub(crate) layer: u32,
    /// Line of a text file, 0 where there is none.
    pub(crate) line: u32,
}

impl Origin {
    /// Given by the caller, from no file.
    pub(crate) const NONE: Origin = Origin { layer: 0, line: 0 };
}

/// What became of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileReport {
    /// The file.
    pub path: PathBuf,
    /// Rows that can be served here.
    pub kept: usize,
    /// Rows that were tuned on another kind of device.
    pub other_device: usize,
    /// Rows whose winner is another build here, or absent.
    pub other_build: usize,
    /// Number of rows that could not be read.
    pub rejected: usize,
    /// The first [`REJECTED_TOLD_MAX`] of them, each as `file:line: reason`.
    pub rejections: Vec<String>,
    /// Does its last line lack its end, as every line of a table that was written whole has one? It may have been cut, or
    /// is still being written.
    pub is_unended: bool,
    /// Why the file could not be read at all: one line with its remedy.
    pub error: Option<String>,
}

impl FileReport {
    fn new(path: &Path) -> FileReport {
        FileReport { path: path.to_owned(), ..FileReport::default() }
    }

    fn count(&mut self, fate: Fate) {
        match fate {
            Fate::Kept => self.kept += 1,
            Fate::OtherDevice => self.other_device += 1,
            Fate::OtherBuild => self.other_build += 1,
        }
    }

    /// Was all of the file read, as far as one can see?
    pub fn is_clean(&self) -> bool {
        self.error.is_none() && self.rejected == 0 && !self.is_unended
    }
}

/// One line a file: `tuned.csv: 120 rows serve here, 8 of other devices, 1 of other builds, 2 rejected`, and below it
/// the rejected rows.
impl fmt::Display for FileReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(error) = &self.error {
            return f.write_str(error);
        }
        write!(f, "{}: {} rows serve here", self.path.display(), self.kept)?;
        let others = [
            (self.other_device, "of other devices"),
            (self.other_build, "of other builds"),
            (self.rejected, "rejected"),
        ];
        for (rows, what) in others.iter().filter(|(rows, _)| *rows > 0) {
            write!(f, ", {rows} {what}")?;
        }
        if self.is_unended {
            f.write_str(", its last line has no end: it may have been cut")?;
        }
        for rejection in &self.rejections {
            write!(f, "\n  {rejection}")?;
        }
        match self.rejected.saturating_sub(self.rejections.len()) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

/// What became of every file that was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadReport {
    /// One entry a file, in order of priority.
    pub files: Vec<FileReport>,
}

impl LoadReport {
    /// Were all files read, and all their rows?
    pub fn is_clean(&self) -> bool {
        self.files.iter().all(FileReport::is_clean)
    }
}

impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, file) in self.files.iter().enumerate() {
            write!(f, "{}{file}", if at == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl Database {
    /// Reads tuned CSV files (ours or AITER's) and, with feature `sqlite`, databases of sweeps; the first counts most.
    ///
    /// Never fails: what cannot be read is in the report, and serving goes on with the rest.
    pub fn open(paths: &[PathBuf], here: &Environment) -> (Database, LoadReport) {
        Database::open_layers(&Layers { user: paths.to_vec(), ..Layers::default() }, here)
    }

    /// [`Database::open`] over the files named by `TGEMM_DB`; unset means none.
    pub fn from_env(here: &Environment) -> (Database, LoadReport) {
        Database::open_layers(&Layers::from_env(), here)
    }

    /// [`Database::open`] over the user's tables, the site's and those that ship, in this order.
    pub fn open_layers(layers: &Layers, here: &Environment) -> (Database, LoadReport) {
        let mut builder = Builder::new(here);
        let mut report = LoadReport::default();
        for (layer, table) in (0..).zip(layers.tables()) {
            let path = table.name();
            let mut file = FileReport::new(path);
            if report.files.len() >= FILES_MAX {
                file.error = Some(format!("{}: not read: at most {FILES_MAX} files are, merge some", path.display()));
            } else if let Err(error) = load(table, layer, &mut builder, &mut file) {
                file.error = Some(error);
            }
            report.files.push(file);
        }
        let names = layers.tables().map(|table| table.name().to_owned()).collect();
        (builder.finish(names), report)
    }
}

/// Brings the rows of one table into `builder`, or none of them where it turns out to be unreadable.
fn load(table: Table<'_>, layer: u32, builder: &mut Builder<'_>, report: &mut FileReport) -> Result<(), String> {
    let mark = builder.mark();
    if let Table::File(path) = table {
        builder.make_room_for(std::fs::metadata(path).map_or(0, |metadata| metadata.len()));
    }
    let loaded = match table {
        Table::File(path) if is_sqlite(path) => load_store(path, layer, builder, report),
        table => load_text(table, layer, builder, report),
    };
    if loaded.is_err() {
        builder.back_to(mark);
        *report = FileReport::new(table.name());
    }
    loaded
}

fn load_text(table: Table<'_>, layer: u32, builder: &mut Builder<'_>, report: &mut FileReport) -> Result<(), String> {
    let mut take = |line: u64, choice| {
        let line = u32::try_from(line).unwrap_or_default();
        report.count(builder.push(choice, Origin { layer, line }));
    };
    let options = ReadOptions::default();
    let read: Read<()> = match table {
        Table::File(path) => format::each_choice(path, &options, take).map_err(|error| error.to_string())?,
        Table::Shipped(shipped) => {
            let read = format::parse_choices(Path::new(shipped.name), shipped.text.as_bytes(), &options);
            let read = read.map_err(|error| error.to_string())?;
            let mut none = Read::new(read.file, read.format);
            read.rows.into_iter().for_each(|row| take(row.line, row.value));
            none.rejected = read.rejected;
            none
        }
    };
    report.rejected = read.rejected.len();
    report.rejections = read.rejected.iter().take(REJECTED_TOLD_MAX).map(ToString::to_string).collect();
    report.is_unended = match table {
        // JSON is whole or not readable.
        Table::File(path) => read.format != Format::VllmMoe && is_unended(path),
        Table::Shipped(_) => false,
    };
    Ok(())
}

/// Is the last byte of a file no line feed? A pipe has no last byte.
fn is_unended(path: &Path) -> bool {
    let last = || {
        let mut file = File::open(path).ok().filter(|_| path.is_file())?;
        let mut last = [0];
        file.seek(SeekFrom::End(-1)).ok()?;
        file.read_exact(&mut last).ok()?;
        Some(last[0])
    };
    last().is_some_and(|byte| byte != b'\n')
}

/// Does the file start as SQLite's do? Errors are left to the reader that comes next, which words them.
fn is_sqlite(path: &Path) -> bool {
    let mut start = [0; SQLITE_MAGIC.len()];
    path.is_file()
        && File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok()
        && start == *SQLITE_MAGIC
}

#[cfg(feature = "sqlite")]
fn load_store(path: &Path, layer: u32, builder: &mut Builder<'_>, report: &mut FileReport) -> Result<(), String> {
    let store = tgemm_db::store::Store::open_read_only(path).map_err(|error| error.to_string())?;
    let take = |choice| report.count(builder.push(choice, Origin { layer, line: 0 }));
    store.each_to_serve(take).map_err(|error| error.to_string())
}

#[cfg(not(feature = "sqlite"))]
fn load_store(path: &Path, _: u32, _: &mut Builder<'_>, _: &mut FileReport) -> Result<(), String> {
    Err(format!(
        "{}: is a SQLite database, and this build reads CSV only: export it with `tune db export`",
        path.display()
    ))
}
