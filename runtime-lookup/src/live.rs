//! A database that is replaced whole under its readers when its files change.
//!
//! A reader takes what is there ([`Live::table`], wait-free) and keeps it for as long as it holds it. Whoever has a moment to
//! spare calls [`Live::refresh`]: it looks at the files' sizes, times and numbers, and only if one of them changed does it read
//! them all and swap. Nothing is watched, and nothing runs by itself.
//!
//! What cannot be read whole changes nothing: a file that is gone, that no longer reads, whose last line has no end, or that
//! changed while it was read, leaves the old table in place and says so. A writer that replaces its file by a rename
//! ([`tgemm_db::atomic`]) is never seen half done. One that writes in place and stops for a while at the end of a line
//! cannot be told from one that is done: what it wrote counts, and the refresh after its next line takes that too.

use std::fs::Metadata;
use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use arc_swap::{ArcSwap, Guard};
use tgemm_db::Environment;

use crate::database::Database;
use crate::layers::Layers;
use crate::levels::Levels;
use crate::load::LoadReport;

/// Two changes within one step of a file system's clock look alike; the coarsest steps of a kernel's clock are 10 ms.
const CLOCK_STEP: Duration = Duration::from_millis(20);

/// A database that follows its files.
///
/// ```
/// # use tgemm_db::{Constraints, DType, Environment, Site, device::{Device, Vendor}};
/// # let here = Environment { device: Device::named(Vendor::Cpu, "x86_64-v4", 8), builds: vec![],
/// #     driver: String::new(), vars: Default::default() };
/// use tgemm_lookup::{HitKind, Layers, Levels, Live, Refreshed};
///
/// let (live, report) = Live::open(Layers::from_env(), here, Levels::default());
/// println!("{report}");
/// // On every call: no lock, and no allocation but for a thread's first.
/// let table = live.table();
/// let hit = table.lookup(&Site::linear(1024, 3072, DType::Bf16).at(4).into(), &Constraints::default());
/// assert_eq!(hit.kind, HitKind::Default);
/// // Now and then, off that path:
/// match live.refresh() {
///     Refreshed::Unchanged => {}
///     Refreshed::Replaced(report) => println!("{report}"),
///     Refreshed::Kept(kept) => eprintln!("{kept}"),
/// }
/// ```
#[derive(Debug)]
pub struct Live {
    layers: Layers,
    here: Environment,
    levels: Levels,
    current: ArcSwap<Database>,
    last: Mutex<Last>,
}

/// What the current table was made of.
#[derive(Debug)]
struct Last {
    report: LoadReport,
    seen: Seen,
    /// The state of files that was refused last, so that it is not read again until it changes.
    refused: Option<(Seen, Kept)>,
}

/// What became of a refresh.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Refreshed {
    /// No file changed.
    Unchanged,
    /// The files were read, and the new table serves.
    Replaced(LoadReport),
    /// They could not be read whole: the old table serves on.
    Kept(Kept),
}

/// Why a table was kept though its files changed; one line a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kept {
    /// What is wrong.
    pub reasons: Vec<String>,
}

impl std::fmt::Display for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the table that was loaded before serves on: {}", self.reasons.join("; "))
    }
}

/// The table as it is now; readers that come later may see another.
#[derive(Debug)]
pub struct Current(Guard<Arc<Database>>);

impl Deref for Current {
    type Target = Database;
    fn deref(&self) -> &Database {
        &self.0
    }
}

impl Live {
    /// Reads all tables, as [`Database::open_layers`] does. What cannot be read now is tried again when it changes.
    pub fn open(layers: Layers, here: Environment, levels: Levels) -> (Live, LoadReport) {
        let seen = Seen::of(&layers);
        let (database, report) = Database::open_layers(&layers, &here);
        let last = Last { report: report.clone(), seen, refused: None };
        let current = ArcSwap::from_pointee(database.with_levels(levels));
        (Live { layers, here, levels, current, last: Mutex::new(last) }, report)
    }

    /// The table as it is now. Wait-free; hold it for a call or a batch, not for good: it keeps the old table alive.
    #[inline]
    pub fn table(&self) -> Current {
        Current(self.current.load())
    }

    /// The table as it is now, to be kept.
    pub fn snapshot(&self) -> Arc<Database> {
        self.current.load_full()
    }

    /// Reads the tables again if a file changed, and replaces all of the table or nothing. Not for the hit path: it asks the
    /// file system about each file, and may read them all.
    pub fn refresh(&self) -> Refreshed {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = Seen::of(&self.layers);
        if last.seen.is_still(&seen) {
            last.refused = None;
            return Refreshed::Unchanged;
        }
        if let Some((refused, kept)) = &last.refused
            && refused.is_still(&seen)
        {
            return Refreshed::Kept(kept.clone());
        }
        let (database, report) = Database::open_layers(&self.layers, &self.here);
        let mut reasons = worse(&last.report, &report);
        if !seen.is_same(&Seen::of(&self.layers)) {
            reasons.push("a file changed while it was read: refresh again".into());
        }
        if reasons.is_empty() {
            self.current.store(Arc::new(database.with_levels(self.levels)));
            *last = Last { report: report.clone(), seen, refused: None };
            return Refreshed::Replaced(report);
        }
        let kept = Kept { reasons };
        last.refused = Some((seen, kept.clone()));
        Refreshed::Kept(kept)
    }
}

/// What could be read `before` and cannot be read whole `now`. A file that never was there keeps nobody from the others.
fn worse(before: &LoadReport, now: &LoadReport) -> Vec<String> {
    let mut reasons = Vec::new();
    for (before, now) in before.files.iter().zip(&now.files) {
        match &now.error {
            Some(error) if before.error.is_none() => reasons.push(error.clone()),
            None if now.is_unended && !before.is_unended => {
                reasons.push(format!("{}: its last line has no end: is it still being written?", now.path.display()));
            }
            _ => {}
        }
    }
    reasons
}

/// How all files looked at one time.
#[derive(Clone, Debug)]
struct Seen {
    files: Vec<Option<Stamp>>,
    at: SystemTime,
}

/// What tells a file from what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    bytes: u64,
    modified: Option<SystemTime>,
    number: (u64, u64),
}

impl Stamp {
    fn of(path: &Path) -> Option<Stamp> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Stamp { bytes: metadata.len(), modified: metadata.modified().ok(), number: number(&metadata) })
    }
}

/// Device and number of the file on it.
#[cfg(unix)]
fn number(metadata: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt as _;
    (metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn number(_: &Metadata) -> (u64, u64) {
    (0, 0)
}

impl Seen {
    fn of(layers: &Layers) -> Seen {
        let mut files = Vec::new();
        for path in layers.files() {
            // A database that a sweep is writing to changes beside its file. A log of no bytes is as good as none.
            let mut log = path.as_os_str().to_owned();
            log.push("-wal");
            files.push(Stamp::of(path));
            files.push(Stamp::of(Path::new(&log)).filter(|stamp| stamp.bytes > 0));
        }
        Seen { files, at: SystemTime::now() }
    }

    fn is_same(&self, later: &Seen) -> bool {
        self.files == later.files
    }

    /// The same, and so long after every change that one more would have shown.
    fn is_still(&self, later: &Seen) -> bool {
        let is_fresh = |modified: SystemTime| {
            let age = self.at.duration_since(modified).or_else(|_| modified.duration_since(self.at));
            age.is_ok_and(|age| age < CLOCK_STEP)
        };
        let modified = self.files.iter().flatten().filter_map(|stamp| stamp.modified);
        self.is_same(later) && !modified.into_iter().any(is_fresh)
    }
}
