//! Counter files as others read them: any bytes are either a snapshot or an error.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::map::{ENTRY_BYTES, HEAD_BYTES, MAGIC, NAME_BYTES, VERSION};
use super::{Counter, Counters};

/// The most counters of a file: later versions of this crate may have more than this one knows.
const COUNTERS_MAX: usize = 1024;

/// A counter file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CountersError {
    /// There is no such file.
    #[error("{}: no such file: its process does not count here, or has ended", .0.display())]
    Missing(PathBuf),
    /// The system refused.
    #[error("{}: cannot be read: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It does not start as counter files do.
    #[error("{}: is no counter file", .0.display())]
    Foreign(PathBuf),
    /// It is of a version that this program does not know.
    #[error("{}: is of version {found}, this program reads {VERSION}", .path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// It ends before what its head promises, or says what cannot be.
    #[error("{}: is damaged: {why}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// What became of the process that wrote a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// It runs.
    Runs,
    /// It has ended; another process may have its number now.
    Ended,
}

/// All counters of a file at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The process that counts.
    pub pid: u64,
    /// When it started, clock ticks since boot; 0 if unknown.
    pub start_ticks: u64,
    /// Names and values, each name once, in the order of the file.
    pub counts: Vec<(String, u64)>,
}

impl Snapshot {
    /// The value of a counter; 0 if the file has none of that name.
    pub fn get(&self, counter: Counter) -> u64 {
        self.counts.iter().find(|(name, _)| name == counter.name()).map_or(0, |(_, value)| *value)
    }

    /// Does the process that wrote it still run? One of the same number that started at another time is not it.
    pub fn writer(&self) -> Writer {
        let now = u32::try_from(self.pid).ok().and_then(start_ticks);
        match now {
            Some(ticks) if self.start_ticks == 0 || ticks == self.start_ticks => Writer::Runs,
            _ => Writer::Ended,
        }
    }
}

/// A counter file held open: it can be read to the end, even when its process has removed it.
#[derive(Debug)]
pub struct Reader {
    file: File,
    path: PathBuf,
}

impl Counters {
    /// Reads the counter file at `path`.
    ///
    /// # Errors
    /// It is not there, cannot be read, or is not a counter file.
    pub fn read(path: &Path) -> Result<Snapshot, CountersError> {
        Reader::open(path)?.snapshot()
    }
}

impl Reader {
    /// Opens the counter file at `path`.
    ///
    /// # Errors
    /// It is not there or cannot be opened.
    pub fn open(path: &Path) -> Result<Reader, CountersError> {
        let io = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => CountersError::Missing(path.into()),
            _ => CountersError::Io { path: path.into(), source },
        };
        let meta = std::fs::metadata(path).map_err(io)?;
        // A named pipe would be waited for.
        if !meta.is_file() {
            return Err(CountersError::Foreign(path.into()));
        }
        Ok(Reader { file: File::open(path).map_err(io)?, path: path.into() })
    }

    /// What the counters stand at now. Read, not mapped: a file that another program cuts short is an error here, where a
    /// mapping would end this process.
    ///
    /// # Errors
    /// It cannot be read, or is not a counter file.
    pub fn snapshot(&self) -> Result<Snapshot, CountersError> {
        let mut bytes = vec![0; HEAD_BYTES + COUNTERS_MAX * ENTRY_BYTES];
        let mut have = 0;
        while have < bytes.len() {
            match self.file.read_at(&mut bytes[have..], have as u64) {
                Ok(0) => break,
                Ok(more) => have += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(CountersError::Io { path: self.path.clone(), source }),
            }
        }
        parse(&self.path, &bytes[..have])
    }
}

/// The eight bytes at `at`.
fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The four bytes at `at`.
fn half(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Snapshot, CountersError> {
    let damaged = |why: String| CountersError::Damaged { path: path.into(), why };
    let cut = || damaged(format!("it ends after {} bytes", bytes.len()));
    if word(bytes, 0) != Some(MAGIC) {
        return Err(CountersError::Foreign(path.into()));
    }
    let version = half(bytes, 8).ok_or_else(cut)?;
    if version != VERSION {
        return Err(CountersError::Version { path: path.into(), found: version });
    }
    let count = half(bytes, 12).ok_or_else(cut)? as usize;
    if count > COUNTERS_MAX {
        return Err(damaged(format!("{count} counters, at most {COUNTERS_MAX} can be")));
    }
    let pid = word(bytes, 16).ok_or_else(cut)?;
    let start_ticks = word(bytes, 24).ok_or_else(cut)?;
    let mut counts: Vec<(String, u64)> = Vec::with_capacity(count);
    for at in (0..count).map(|i| HEAD_BYTES + i * ENTRY_BYTES) {
        let name = bytes.get(at..at + NAME_BYTES).ok_or_else(cut)?;
        let value = word(bytes, at + NAME_BYTES).ok_or_else(cut)?;
        let name = parse_name(name).ok_or_else(|| damaged(format!("no name at byte {at}")))?;
        match counts.iter_mut().find(|(have, _)| *have == name) {
            Some((_, sum)) => *sum = sum.wrapping_add(value),
            None => counts.push((name, value)),
        }
    }
    Ok(Snapshot { pid, start_ticks, counts })
}

/// A name of lower-case letters, digits and `_`, padded with NUL: nothing that could harm a terminal.
fn parse_name(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let (name, padding) = bytes.split_at(end);
    let is_plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'_';
    let good = !name.is_empty() && name.iter().all(is_plain) && padding.iter().all(|&byte| byte == 0);
    if good { String::from_utf8(name.into()).ok() } else { None }
}

/// When a process started, in clock ticks since boot: field 22 of `/proc/PID/stat` (proc_pid_stat(5)). `None` if there is
/// no such process, or it has ended and only waits for its parent to notice.
pub fn start_ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program, field 2, stands in brackets and may hold anything, brackets too.
    let after_name = stat.iter().rposition(|&byte| byte == b')')? + 1;
    let mut fields = std::str::from_utf8(&stat[after_name..]).ok()?.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X" | "x") {
        return None;
    }
    // Field 3 is taken: 18 more lie before field 22.
    fields.nth(18)?.parse().ok()
}
