//! The file that recorded lines go to: its name, its header, and that it holds whole lines or none.
//!
//! Its descriptor is one among the host's. Hosts close all that they do not know, put files of theirs on any number, and take
//! it for granted that 0, 1 and 2 are theirs: so it lies above those, and is known by its file before each use.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tgemm_db::format::untuned;

use crate::options::Target;
use crate::quiet::without_signal;

/// How many names are tried for a new file of this process before giving up.
const NAMES_MAX: u32 = 16;
/// The longest part of a host name in a file name.
const HOST_BYTES_MAX: usize = 64;
/// How long an append waits for other processes at a shared file: they hold the lock for one write each, and whoever
/// comes next gets it.
const LOCK_PAUSE: Duration = Duration::from_millis(1);

/// How long to wait for others at a shared file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// There is a next time, which brings along what did not get through now.
    Short,
    /// It may be the last one.
    Long,
}

impl Patience {
    fn lock_tries_max(self) -> u32 {
        match self {
            Patience::Short => 50,
            Patience::Long => 2000,
        }
    }
}
/// The least descriptor that is no standard stream's.
const DESCRIPTOR_MIN: libc::c_int = libc::STDERR_FILENO + 1;

/// Where lines go, and the file once there is one.
pub(crate) struct Sink {
    target: Target,
    open: Option<Open>,
}

struct Open {
    file: ManuallyDrop<File>,
    /// Device and number of the file, by which it is told from what the host may have put in its place.
    id: (u64, u64),
    path: PathBuf,
    /// Do other processes append too?
    shared: bool,
}

impl Sink {
    pub fn new(target: Target) -> Sink {
        Sink { target, open: None }
    }

    /// Is there nothing to write to, by choice?
    pub fn is_memory(&self) -> bool {
        self.target == Target::Memory
    }

    /// The file that is written to, once there is one.
    pub fn path(&self) -> Option<&Path> {
        self.open.as_ref().map(|open| open.path.as_path())
    }

    /// Where it goes, for messages.
    pub fn place(&self) -> PathBuf {
        match (&self.open, &self.target) {
            (Some(open), _) => open.path.clone(),
            (None, Target::Folder(path) | Target::File(path)) => path.clone(),
            (None, Target::Memory) => PathBuf::new(),
        }
    }

    /// Lets go of the file without touching it: in a forked child it is the parent's.
    pub fn forget(&mut self) {
        self.open = None;
    }

    /// Appends whole lines, by one write in the normal case. On an error the file is as it was before.
    pub fn append(&mut self, lines: &str, patience: Patience) -> io::Result<()> {
        if self.open.as_ref().is_none_or(|open| !open.is_ours()) {
            self.open = match &self.target {
                Target::Memory => return Ok(()),
                Target::Folder(folder) => Some(create_in(folder)?),
                Target::File(path) => Some(open_shared(path)?),
            };
        }
        match &mut self.open {
            Some(open) => open.append(lines, patience),
            None => Ok(()),
        }
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    // O_NONBLOCK: a named pipe in the file's place must not stop the host; it is refused just after.
    options.read(true).append(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC);
    options
}

fn create_in(folder: &Path) -> io::Result<Open> {
    std::fs::create_dir_all(folder)?;
    let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
    let stem = format!("{}-{}-{start}", host(), std::process::id());
    for attempt in 0..NAMES_MAX {
        let suffix = if attempt == 0 { String::new() } else { format!("-{attempt}") };
        let path = folder.join(format!("{stem}{suffix}.csv"));
        match options().create_new(true).open(&path) {
            Ok(file) => return Open::new(file, path, false),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{NAMES_MAX} names from {stem}.csv on are taken")))
}

fn open_shared(path: &Path) -> io::Result<Open> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let file = options().create(true).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Open::new(file, path.to_owned(), true)
}

/// `file` under a number that is no standard stream's, should the host have closed one.
fn above_streams(file: File) -> io::Result<File> {
    if file.as_raw_fd() >= DESCRIPTOR_MIN {
        return Ok(file);
    }
    // SAFETY: the descriptor is open; the new one is nobody's yet.
    unsafe {
        match libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, DESCRIPTOR_MIN) {
            -1 => Err(io::Error::last_os_error()),
            descriptor => Ok(File::from_raw_fd(descriptor)),
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // What the host has put on our number is not ours to close.
        if self.is_ours() {
            // SAFETY: dropped here only, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.file) };
        }
    }
}

impl Open {
    fn new(file: File, path: PathBuf, shared: bool) -> io::Result<Open> {
        let file = above_streams(file)?;
        let meta = file.metadata()?;
        Ok(Open { id: (meta.dev(), meta.ino()), file: ManuallyDrop::new(file), path, shared })
    }

    /// Is our file still behind our descriptor?
    fn is_ours(&self) -> bool {
        self.file.metadata().is_ok_and(|meta| (meta.dev(), meta.ino()) == self.id)
    }

    fn append(&mut self, lines: &str, patience: Patience) -> io::Result<()> {
        if !self.shared {
            return append_locked(&self.file, lines);
        }
        lock(&self.file, patience)?;
        let result = append_locked(&self.file, lines);
        // A lock that cannot be released goes with the descriptor, at the latest at exit.
        let _ = self.file.unlock();
        result
    }
}

fn lock(file: &File, patience: Patience) -> io::Result<()> {
    for _ in 0..patience.lock_tries_max() {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::WouldBlock, "another process holds the file's lock"))
}

/// The append itself: nobody else writes to the file meanwhile, by its name or by the lock.
fn append_locked(mut file: &File, lines: &str) -> io::Result<()> {
    let length = file.metadata()?.len();
    let mut block = String::new();
    if length == 0 {
        block.push_str(untuned::header());
    } else if last_byte(file, length)? != b'\n' {
        // Somebody was stopped within a line. The half becomes a line of its own, which readers reject by number.
        block.push('\n');
    }
    block.push_str(lines);
    // `write_all` goes on after a short write; what then still fails (a full disk) is taken back whole. Beyond the host's
    // limit of file sizes a write also raises a signal, which a host that wrote nothing has not earned.
    let written = without_signal(libc::SIGXFSZ, || file.write_all(block.as_bytes()));
    if written.is_err() {
        // If even this fails, the next append closes the half line.
        let _ = file.set_len(length);
    }
    written
}

fn last_byte(file: &File, length: u64) -> io::Result<u8> {
    let mut byte = [0];
    file.read_exact_at(&mut byte, length - 1)?;
    Ok(byte[0])
}

/// The host's name, with only what every file system takes.
fn host() -> String {
    let mut buffer = [0u8; 256];
    // SAFETY: the buffer is as long as said; the last byte is left out, so a cut name still ends in zero.
    let status = unsafe { libc::gethostname(buffer.as_mut_ptr().cast(), buffer.len() - 1) };
    let end = buffer.iter().position(|&byte| byte == 0).unwrap_or(0);
    let clean = |&byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' => byte as char,
        _ => '_',
    };
    match status == 0 && end > 0 {
        true => buffer[..end.min(HOST_BYTES_MAX)].iter().map(clean).collect(),
        false => "host".into(),
    }
}
