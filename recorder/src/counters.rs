//! Counters of one process in a file that other processes may read while it runs.
//!
//! The file `FOLDER/PID` is a mapping shared with whoever reads it, so counting costs one atomic addition, and what was
//! counted outlives the process. It describes itself: who wrote it, how many counters, and their names. What all threads count
//! at every call they count apart, each in a [`Share`] of its own, which costs no atomic addition.
//!
//! | bytes | what |
//! |---|---|
//! | 0 to 8 | `tgemmcnt` |
//! | 8 to 12 | version of this layout, 2 |
//! | 12 to 16 | how many counters follow |
//! | 16 to 24 | process id |
//! | 24 to 32 | when that process started, clock ticks since boot (field 22 of `/proc/PID/stat`); 0 if unknown |
//! | 64 + 64 i | counter i: its name, padded with NUL to 56 bytes, then its value; those of one name add up |
//!
//! All numbers are as the machine has them: the file is for processes of one machine.
//!
//! | variable | meaning |
//! |---|---|
//! | `TGEMM_COUNTERS` | the folder; default: `/dev/shm/tgemm-UID`; set and empty: none |
//! | `TGEMM_COUNTERS_KEEP=1` | the file stays when its process ends |

mod map;
mod snapshot;

use std::ffi::OsString;
use std::fs::{DirBuilder, Permissions};
use std::io;
use std::marker::PhantomData;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use map::Map;
pub use snapshot::{CountersError, Reader, Snapshot, Writer, start_ticks};

/// The environment variable that names the folder of counter files.
pub const ENV_COUNTERS: &str = "TGEMM_COUNTERS";
/// The environment variable that keeps counter files of processes that have ended.
pub const ENV_COUNTERS_KEEP: &str = "TGEMM_COUNTERS_KEEP";

macro_rules! counters {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// What is counted. The names are part of the file's promise.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Counter {
            $($(#[$doc])* $variant,)*
        }

        impl Counter {
            /// All, in the order of the file.
            pub const ALL: &[Counter] = &[$(Counter::$variant,)*];

            /// The stable name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Counter::$variant => $name,)*
                }
            }
        }
    };
}

counters! {
    /// Calls that were seen.
    Seen = "seen",
    /// Calls that went into a graph.
    Captured = "captured",
    /// Replays of graphs that hold such calls.
    Replayed = "replayed",
    /// Calls that no problem of ours says.
    Unrepresentable = "unrepresentable",
    /// Calls that a choice of ours served.
    Applied = "applied",
    /// Calls that a choice would have served, had it been asked to.
    DryHit = "dry_hit",
    /// Calls left alone: what the host runs is the best that is known.
    LeftAsIs = "left_as_is",
    /// Calls left alone: no choice for the problem.
    MissedNotTuned = "missed_not_tuned",
    /// Calls left alone: the caller allows less workspace than the choice needs.
    MissedWorkspace = "missed_workspace",
    /// Calls left alone: the choice breaks a constraint.
    MissedConstraint = "missed_constraint",
    /// Calls left alone because they were captured.
    MissedUnderCapture = "missed_under_capture",
    /// Calls given back: the choice could not be prepared.
    FallenBackNotPrepared = "fallen_back_not_prepared",
    /// Calls given back: the launch was refused before anything was enqueued.
    FallenBackNotStarted = "fallen_back_not_started",
    /// Calls given back: the choice is of another build of the library.
    FallenBackBuildDiffers = "fallen_back_build_differs",
    /// Calls that came after applying had been switched off in this process.
    SwitchedOff = "switched_off",
}

/// What one thread has seen ([`Counter::Seen`]). It may not be sent to another.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Share<'a>(&'a AtomicU64, PhantomData<*const ()>);

impl Share<'_> {
    /// Adds `n`: as nobody else adds to this share, by a load and a store.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }
}

/// The permission bits by which others could put files of theirs into a folder.
const OTHERS_MAY_WRITE: u32 = 0o022;

/// The counters of this process.
#[derive(Debug)]
pub struct Counters {
    map: Map,
    /// The file, while there is one. Only ever tried, never waited for: a fork may leave it locked in the child.
    file: Mutex<Option<PathBuf>>,
}

impl Counters {
    /// Counters in the file `folder/PID`, which replaces whatever stood there: an earlier process of this number is gone.
    /// The folder is made if its parent is there.
    ///
    /// # Errors
    /// The folder or file cannot be made or mapped.
    pub fn create(folder: &Path) -> io::Result<Counters> {
        let (map, path) = Map::create(folder)?;
        Ok(Counters { map, file: Mutex::new(Some(path)) })
    }

    /// Counters that only this process sees.
    pub fn in_memory() -> Counters {
        Counters { map: Map::in_memory(), file: Mutex::new(None) }
    }

    /// Counters where the environment says, in memory if that cannot be.
    pub fn from_env() -> Counters {
        folder_from_env().and_then(|folder| Counters::create(&folder).ok()).unwrap_or_else(Counters::in_memory)
    }

    /// Adds `n` to a counter: one atomic addition, from any thread.
    #[inline]
    pub fn add(&self, counter: Counter, n: u64) {
        self.map.add(counter, n);
    }

    /// A share of [`Counter::Seen`] for the calling thread, which keeps it also in a forked child; `None` if other threads
    /// have them all, of which there are some dozens.
    pub fn share(&self) -> Option<Share<'_>> {
        self.map.share().map(|count| Share(count, PhantomData))
    }

    /// What a counter stands at.
    pub fn get(&self, counter: Counter) -> u64 {
        self.map.get(counter)
    }

    /// The file, if there is one.
    pub fn path(&self) -> Option<PathBuf> {
        self.file.try_lock().ok()?.clone()
    }

    /// In a forked child: leaves the parent's file, and counts from zero into one of its own in `folder`. To be called
    /// before the child counts anything, by the only thread that it has.
    ///
    /// # Errors
    /// No file can be made; counting goes on in memory, and nothing of the parent's is touched.
    pub fn reset_after_fork(&self, folder: &Path) -> io::Result<()> {
        let made = self.map.replace(folder);
        if let Ok(mut file) = self.file.try_lock() {
            *file = made.as_ref().ok().cloned();
        }
        made.map(|_| ())
    }

    /// Removes the file; counting goes on without one to find. Does nothing if the environment asks to keep it, and nothing
    /// to the file of a parent.
    pub fn remove(&self) {
        let Ok(mut file) = self.file.try_lock() else { return };
        let own = |path: &PathBuf| path.ends_with(std::process::id().to_string());
        if let Some(path) = file.take().filter(own).filter(|_| !is_kept(std::env::var_os(ENV_COUNTERS_KEEP))) {
            // A file that cannot be removed is known by its start time to be of a process that has ended.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Drop for Counters {
    fn drop(&mut self) {
        self.remove();
    }
}

fn is_kept(value: Option<OsString>) -> bool {
    value.is_some_and(|value| !matches!(value.to_str(), Some("" | "0" | "false" | "off" | "no")))
}

/// The folder that the environment names, else the default one; `None` if there is to be none, or can be none.
pub fn folder_from_env() -> Option<PathBuf> {
    match std::env::var_os(ENV_COUNTERS) {
        Some(folder) if folder.is_empty() => None,
        Some(folder) => std::path::absolute(PathBuf::from(folder)).ok(),
        None => folder_default(),
    }
}

/// `/dev/shm/tgemm-UID`, made if absent; `None` where it cannot be made, or somebody else may write to it.
pub fn folder_default() -> Option<PathBuf> {
    // SAFETY: asks for a number, and cannot fail.
    let uid = unsafe { libc::geteuid() };
    let folder = PathBuf::from(format!("/dev/shm/tgemm-{uid}"));
    make_folder(&folder).ok()?;
    let meta = std::fs::symlink_metadata(&folder).ok()?;
    let is_ours = meta.is_dir() && meta.uid() == uid && meta.mode() & OTHERS_MAY_WRITE == 0;
    is_ours.then_some(folder)
}

/// Makes a folder for this user alone, but not its parents: one that was made for processes of another machine is not to
/// come back to life on this one.
fn make_folder(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        // The mask of the process may have taken bits away.
        Ok(()) => std::fs::set_permissions(folder, Permissions::from_mode(0o700)),
        Err(_) if folder.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
