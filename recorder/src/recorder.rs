//! The recorder: counts on the fast path, lines on the slow one.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use tgemm_db::format::untuned;
use tgemm_db::{Problem, Recorded, Via};

use crate::asked::Asked;
use crate::options::RecorderOptions;
use crate::process;
use crate::seen::{Entry, PROBLEMS_MAX, Pending, Seen};
use crate::sink::{Patience, Sink};

/// The most bytes that a flush gathers for one write, give or take a line.
const BLOCK_BYTES_MAX: usize = 64 << 10;

/// Counts problems and keeps a file of them up to date; see the crate's promises.
pub struct Recorder {
    seen: Seen,
    /// Locked only under the process-wide writing lock, so never at the moment of a fork.
    sink: Mutex<Sink>,
    /// The value of [`process::forks`] that the counts belong to.
    generation: AtomicU64,
    /// Did the last write fail, so that entries besides the one at hand wait to be written?
    behind: AtomicBool,
    warned_write: AtomicBool,
    dropped: AtomicU64,
}

static GLOBAL: OnceLock<Option<Recorder>> = OnceLock::new();

extern "C" fn flush_global() {
    if let Some(Some(recorder)) = GLOBAL.get() {
        recorder.flush();
    }
}

impl Recorder {
    /// The recorder of this process, or `None` if the environment does not ask for one. The variables are read on the
    /// first call only; it flushes at a normal exit.
    pub fn global() -> Option<&'static Recorder> {
        let open = || {
            let recorder = Recorder::open(RecorderOptions::from_env()?);
            process::at_exit(flush_global);
            Some(recorder)
        };
        GLOBAL.get_or_init(open).as_ref()
    }

    /// A recorder of its own, for tests and for tools that record in-process. It touches no file before the first
    /// problem, and cannot fail: what cannot be written is kept in memory.
    pub fn open(options: RecorderOptions) -> Recorder {
        process::watch_forks();
        Recorder {
            seen: Seen::new(),
            sink: Mutex::new(Sink::new(options.target)),
            generation: AtomicU64::new(process::forks()),
            behind: AtomicBool::new(false),
            warned_write: AtomicBool::new(false),
            dropped: AtomicU64::new(0),
        }
    }

    /// Counts one call of `problem` by the API `via`; `captured`: it went into a graph instead of running.
    #[inline]
    pub fn record(&self, problem: &Problem, via: Via, captured: bool) {
        if let Some(entry) = self.entry(&Asked::new(*problem, via)) {
            self.add(entry, 1, captured);
        }
    }

    /// The entry of what was asked for, made on first sight and the same ever after; `None`, and the call counted as
    /// dropped, if there are [`PROBLEMS_MAX`] others.
    #[inline]
    pub fn entry(&self, asked: &Asked) -> Option<&Entry> {
        self.meet_fork();
        let entry = self.seen.entry(asked);
        if entry.is_none() {
            self.count_dropped();
        }
        entry
    }

    /// Counts `calls` calls of an entry of this recorder. `captured`: it was put into a graph; what is only captured and
    /// does not run is 0 calls, which is a line all the same.
    #[inline]
    pub fn add(&self, entry: &Entry, calls: u64, captured: bool) {
        self.meet_fork();
        self.add_unforked(entry, calls, captured);
    }

    /// As [`Recorder::add`], where [`Recorder::meet_fork`] was called in this process already.
    #[inline]
    pub fn add_unforked(&self, entry: &Entry, calls: u64, captured: bool) {
        let has_doubled = entry.add(calls);
        let newly_captured = captured && entry.note_captured();
        if newly_captured || has_doubled {
            self.write_one(entry);
        }
    }

    /// Counts one call of the calling thread, as [`Recorder::add_unforked`] does; with the `mark` by which that thread has
    /// [claimed](Entry::claim) entries.
    #[inline]
    pub fn add_one(&self, entry: &Entry, mark: usize) {
        if entry.add_one(mark) {
            self.write_one(entry);
        }
    }

    /// Writes every count that is not in the file yet; `false` if some could not be written.
    pub fn flush(&self) -> bool {
        self.meet_fork();
        let _writing = process::writing();
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        self.write(&mut sink, &mut self.seen.iter(), Patience::Long)
    }

    /// What was recorded in this process so far, in the order of the keys.
    pub fn recorded(&self) -> Vec<Recorded> {
        self.meet_fork();
        let was_seen = |entry: &&Entry| entry.count() > 0 || entry.is_captured();
        let mut rows: Vec<Recorded> = self.seen.iter().filter(was_seen).map(|entry| entry.row(entry.count())).collect();
        rows.sort_by_key(|row| (row.problem, row.via));
        rows
    }

    /// Calls that were not counted because more than [`PROBLEMS_MAX`] problems were seen.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The file that this process writes to, once there is one.
    pub fn path(&self) -> Option<PathBuf> {
        let _writing = process::writing();
        let sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        sink.path().map(PathBuf::from)
    }

    /// Forgets the counts if this is a forked child that has not done so: the parent writes them.
    #[inline]
    pub fn meet_fork(&self) {
        // Acquire pairs with the Release below: who sees the new generation sees the counts at zero.
        if process::forks() != self.generation.load(Ordering::Acquire) {
            self.after_fork();
        }
    }

    #[cold]
    fn after_fork(&self) {
        let _writing = process::writing();
        let now = process::forks();
        if now == self.generation.load(Ordering::Acquire) {
            return;
        }
        self.sink.lock().unwrap_or_else(PoisonError::into_inner).forget();
        self.seen.reset();
        self.dropped.store(0, Ordering::Relaxed);
        self.behind.store(false, Ordering::Relaxed);
        self.generation.store(now, Ordering::Release);
    }

    #[cold]
    fn count_dropped(&self) {
        if self.dropped.fetch_add(1, Ordering::Relaxed) == 0 {
            process::warn(&format!(
                "more than {PROBLEMS_MAX} different problems; calls of further ones are only counted"
            ));
        }
    }

    /// Writes one entry; and after a failure before, all that wait.
    #[cold]
    fn write_one(&self, entry: &Entry) {
        let _writing = process::writing();
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        let was_behind = self.behind.load(Ordering::Relaxed);
        if self.write(&mut sink, &mut std::iter::once(entry), Patience::Short) && was_behind {
            self.write(&mut sink, &mut self.seen.iter(), Patience::Short);
        }
    }

    /// Appends what is pending of `entries`, in blocks of whole lines. Under the writing lock.
    fn write<'a>(&self, sink: &mut Sink, entries: &mut dyn Iterator<Item = &'a Entry>, patience: Patience) -> bool {
        if sink.is_memory() {
            return true;
        }
        let mut lines = String::new();
        let mut pending: Vec<Pending<'a>> = Vec::new();
        loop {
            let next = entries.next();
            if let Some(news) = next.and_then(Entry::pending) {
                untuned::write_row(&mut lines, &news.row());
                pending.push(news);
            }
            if lines.len() >= BLOCK_BYTES_MAX || (next.is_none() && !lines.is_empty()) {
                if let Err(error) = sink.append(&lines, patience) {
                    self.behind.store(true, Ordering::Relaxed);
                    self.warn_unwritable(sink, &error);
                    return false;
                }
                lines.clear();
                pending.drain(..).for_each(Pending::commit);
                self.behind.store(false, Ordering::Relaxed);
            }
            if next.is_none() {
                return true;
            }
        }
    }

    fn warn_unwritable(&self, sink: &Sink, error: &std::io::Error) {
        if !self.warned_write.swap(true, Ordering::Relaxed) {
            process::warn(&format!(
                "recorded problems cannot be written to {}: {error}; counting goes on in memory and writing is tried \
                 again (TGEMM_UNTUNED names another place)",
                sink.place().display()
            ));
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.flush();
    }
}
