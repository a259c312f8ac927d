//! The counters of all processes of a program, summed.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tgemm_recorder::counters::{self, Counter, Counters, Snapshot, Writer};

/// The most counter files of one folder that are read.
const FILES_MAX: usize = 1 << 16;
/// Where scratch folders are made if possible: counters there never wait for a disk.
const MEMORY: &str = "/dev/shm";

/// Where the processes of a program count.
#[derive(Debug)]
pub enum Place {
    /// A folder for this run alone.
    Scratch(TempDir),
    /// One that the user named.
    Named(PathBuf),
}

impl Place {
    /// The folder that the user named, or a scratch folder.
    pub fn new(named: Option<PathBuf>) -> std::io::Result<Place> {
        match named {
            Some(folder) => {
                let folder = std::path::absolute(folder)?;
                std::fs::create_dir_all(&folder)?;
                Ok(Place::Named(folder))
            }
            None => {
                let mut builder = tempfile::Builder::new();
                builder.prefix("tgemm-");
                Ok(Place::Scratch(builder.tempdir_in(MEMORY).or_else(|_| builder.tempdir())?))
            }
        }
    }

    /// The folder that processes are told. Its parent is made, itself it is not: on another machine, which lacks the parent,
    /// nothing is left behind.
    pub fn folder(&self) -> PathBuf {
        match self {
            Place::Scratch(scratch) => scratch.path().join("counters"),
            Place::Named(folder) => folder.clone(),
        }
    }
}

/// What the processes of a program counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Processes that counted.
    pub processes: usize,
    /// Those of them that still run.
    pub running: usize,
    /// Files that could not be read, one line each.
    pub unreadable: Vec<String>,
    counts: Vec<u64>,
}

impl Tally {
    /// Sums the files in `folder` of processes that started no earlier than this one.
    pub fn read(folder: &Path) -> Tally {
        let began = counters::start_ticks(std::process::id()).unwrap_or(0);
        let mut tally = Tally::default();
        // A folder that is not there is one that nobody counted in.
        let entries = std::fs::read_dir(folder).into_iter().flatten().take(FILES_MAX).flatten();
        for path in entries.map(|entry| entry.path()).filter(|path| is_of_a_process(path)) {
            match Counters::read(&path) {
                Ok(snapshot) if snapshot.start_ticks != 0 && snapshot.start_ticks < began => {}
                Ok(snapshot) => tally.add(&snapshot),
                Err(error) => tally.unreadable.push(error.to_string()),
            }
        }
        tally
    }

    fn add(&mut self, snapshot: &Snapshot) {
        self.processes += 1;
        self.running += usize::from(snapshot.writer() == Writer::Runs);
        self.counts.resize(Counter::ALL.len(), 0);
        for (sum, counter) in self.counts.iter_mut().zip(Counter::ALL) {
            *sum = sum.saturating_add(snapshot.get(*counter));
        }
    }

    /// The sum of a counter.
    pub fn get(&self, counter: Counter) -> u64 {
        self.counts.get(counter as usize).copied().unwrap_or(0)
    }

    /// The counters of `list` that are not zero, in words: `not tuned 12, workspace 3`, with `prefix` left out of the names.
    pub fn words(&self, list: &[Counter], prefix: &str) -> String {
        let named = list.iter().map(|counter| (counter.name().trim_start_matches(prefix), self.get(*counter)));
        let words: Vec<String> =
            named.filter(|(_, n)| *n > 0).map(|(name, n)| format!("{} {n}", name.replace('_', " "))).collect();
        words.join(", ")
    }
}

fn is_of_a_process(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_this_run_are_summed_and_others_left_alone() {
        let place = Place::new(None).unwrap();
        let folder = place.folder();
        let counters = Counters::create(&folder).unwrap();
        counters.add(Counter::Seen, 5);
        counters.add(Counter::MissedNotTuned, 4);
        let own = counters.path().unwrap();
        std::fs::copy(&own, folder.join("1")).unwrap();
        std::fs::write(folder.join("2"), "garbage").unwrap();
        std::fs::write(folder.join(".3"), "half").unwrap();
        let mut old = std::fs::read(&own).unwrap();
        old[24..32].copy_from_slice(&1u64.to_ne_bytes());
        std::fs::write(folder.join("4"), old).unwrap();
        let tally = Tally::read(&folder);
        assert_eq!((tally.processes, tally.running, tally.unreadable.len()), (2, 2, 1), "{tally:?}");
        assert_eq!((tally.get(Counter::Seen), tally.get(Counter::Applied)), (10, 0));
        assert_eq!(tally.words(&[Counter::Seen, Counter::MissedNotTuned], "missed_"), "seen 10, not tuned 8");
        assert_eq!(Tally::read(&folder.join("none")).get(Counter::Seen), 0);
    }
}
