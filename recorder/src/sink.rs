//! The file that recorded lines go to: its name, its header, and that it holds whole lines or none.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tgemm_db::format::untuned;

use crate::options::Target;

/// How many names are tried for a new file of this process before giving up.
const NAMES_MAX: u32 = 16;
/// The longest part of a host name in a file name.
const HOST_BYTES_MAX: usize = 64;
/// How long an append waits for other processes at a shared file: they hold the lock for one write each.
const LOCK_TRIES_MAX: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(1);

/// Where lines go, and the file once there is one.
pub(crate) struct Sink {
    target: Target,
    open: Option<Open>,
}

struct Open {
    file: File,
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
    pub fn append(&mut self, lines: &str) -> io::Result<()> {
        if self.open.is_none() {
            self.open = match &self.target {
                Target::Memory => return Ok(()),
                Target::Folder(folder) => Some(create_in(folder)?),
                Target::File(path) => Some(open_shared(path)?),
            };
        }
        match &mut self.open {
            Some(open) => open.append(lines),
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
            Ok(file) => return Ok(Open { file, path, shared: false }),
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
    Ok(Open { file, path: path.to_owned(), shared: true })
}

impl Open {
    fn append(&mut self, lines: &str) -> io::Result<()> {
        if !self.shared {
            return self.append_locked(lines);
        }
        self.lock()?;
        let result = self.append_locked(lines);
        // A lock that cannot be released goes with the descriptor, at the latest at exit.
        let _ = self.file.unlock();
        result
    }

    fn lock(&self) -> io::Result<()> {
        for _ in 0..LOCK_TRIES_MAX {
            match self.file.try_lock() {
                Ok(()) => return Ok(()),
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Err(io::Error::new(io::ErrorKind::WouldBlock, "another process holds the file's lock"))
    }

    /// The append itself: nobody else writes to the file meanwhile, by its name or by the lock.
    fn append_locked(&mut self, lines: &str) -> io::Result<()> {
        let length = self.file.metadata()?.len();
        let mut block = String::new();
        if length == 0 {
            block.push_str(untuned::header());
        } else if self.last_byte(length)? != b'\n' {
            // Somebody was stopped within a line. The half becomes a line of its own, which readers reject by number.
            block.push('\n');
        }
        block.push_str(lines);
        // `write_all` goes on after a short write; what then still fails (a full disk) is taken back whole.
        if let Err(error) = self.file.write_all(block.as_bytes()) {
            // If even this fails, the next append closes the half line.
            let _ = self.file.set_len(length);
            return Err(error);
        }
        Ok(())
    }

    fn last_byte(&self, length: u64) -> io::Result<u8> {
        let mut byte = [0];
        self.file.read_exact_at(&mut byte, length - 1)?;
        Ok(byte[0])
    }
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
