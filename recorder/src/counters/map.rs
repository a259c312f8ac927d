//! The mapping: one page that stays at its address while the process lives, whatever lies behind it.

use std::fs::{File, OpenOptions};
use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::{Counter, make_folder, snapshot};

pub(super) const MAGIC: u64 = u64::from_ne_bytes(*b"tgemmcnt");
pub(super) const VERSION: u32 = 2;
/// Bytes of a counter's name.
pub(super) const NAME_BYTES: usize = 56;
const COUNTERS: usize = Counter::ALL.len();
/// As many as a page of 4 KB holds.
const ENTRIES: usize = 63;
/// Shares of [`Counter::Seen`], behind the counters and under its name.
pub(super) const SHARES: usize = ENTRIES - COUNTERS;

/// The file as it lies in memory. Everything is atomic: other processes look on.
#[repr(C)]
pub(super) struct Layout {
    pub(super) magic: AtomicU64,
    pub(super) version: AtomicU32,
    pub(super) counters: AtomicU32,
    pub(super) pid: AtomicU64,
    pub(super) start_ticks: AtomicU64,
    spare: [AtomicU64; 4],
    pub(super) entries: [Entry; ENTRIES],
}

/// One counter, on a cache line of its own: threads that count different things do not wait for each other.
#[repr(C, align(64))]
pub(super) struct Entry {
    name: [AtomicU64; NAME_BYTES / 8],
    value: AtomicU64,
}

/// Bytes before the first counter, and of each counter.
pub(super) const HEAD_BYTES: usize = offset_of!(Layout, entries);
pub(super) const ENTRY_BYTES: usize = size_of::<Entry>();
const _: () = assert!(HEAD_BYTES == 64 && ENTRY_BYTES == 64 && offset_of!(Entry, value) == NAME_BYTES);
const _: () = assert!(size_of::<Layout>() == 4096);

/// Counts where not even a page can be had.
static LAST_RESORT: Layout = Layout {
    magic: AtomicU64::new(0),
    version: AtomicU32::new(0),
    counters: AtomicU32::new(0),
    pid: AtomicU64::new(0),
    start_ticks: AtomicU64::new(0),
    spare: [const { AtomicU64::new(0) }; 4],
    entries: [const { Entry { name: [const { AtomicU64::new(0) }; NAME_BYTES / 8], value: AtomicU64::new(0) } };
        ENTRIES],
};

/// The page that is counted on.
#[derive(Debug)]
pub(super) struct Map {
    page: NonNull<Layout>,
    /// Shares that have an owner. Owners are threads, and a forked child's thread keeps its own.
    shares_taken: AtomicUsize,
}

// SAFETY: the page holds atomics only, and stays mapped until the map is dropped.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    fn on(page: NonNull<Layout>) -> Map {
        Map { page, shares_taken: AtomicUsize::new(0) }
    }

    /// A page of `folder/PID`, and that file.
    pub(super) fn create(folder: &Path) -> io::Result<(Map, PathBuf)> {
        let file = NewFile::in_folder(folder)?;
        let map = Map::on(map(ptr::null_mut(), Some(&file.file))?);
        map.describe();
        Ok((map, file.publish()?))
    }

    /// A page of this process alone.
    pub(super) fn in_memory() -> Map {
        let map = Map::on(map(ptr::null_mut(), None).unwrap_or(NonNull::from(&LAST_RESORT)));
        map.describe();
        map
    }

    /// Puts a page of zeros in this one's place, at the same address: of `folder/PID`, whose name is given back, or of
    /// memory if that fails.
    pub(super) fn replace(&self, folder: &Path) -> io::Result<PathBuf> {
        if self.is_last_resort() {
            self.layout().entries.iter().for_each(|entry| entry.value.store(0, Ordering::Relaxed));
            return Err(io::Error::from(io::ErrorKind::OutOfMemory));
        }
        let at = self.page.as_ptr();
        let made = NewFile::in_folder(folder).and_then(|file| map(at, Some(&file.file)).map(|_| file));
        if made.is_err() {
            map(at, None)?;
        }
        self.describe();
        made?.publish()
    }

    #[inline]
    pub(super) fn add(&self, counter: Counter, n: u64) {
        self.layout().entries[counter as usize].value.fetch_add(n, Ordering::Relaxed);
    }

    pub(super) fn get(&self, counter: Counter) -> u64 {
        let of = |entry: &Entry| entry.value.load(Ordering::Relaxed);
        let shares = &self.layout().entries[COUNTERS..];
        let shared = if counter == Counter::Seen { shares.iter().map(of).sum() } else { 0 };
        of(&self.layout().entries[counter as usize]) + shared
    }

    /// A share of [`Counter::Seen`] that nobody had; `None` where all are taken.
    pub(super) fn share(&self) -> Option<&AtomicU64> {
        let next = |taken: usize| (taken < SHARES).then_some(taken + 1);
        let taken = self.shares_taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        Some(&self.layout().entries[COUNTERS + taken].value)
    }

    #[inline]
    fn layout(&self) -> &Layout {
        // SAFETY: the page is mapped, or is the static one, as long as `self` lives; any bytes are atomics.
        unsafe { self.page.as_ref() }
    }

    fn is_last_resort(&self) -> bool {
        ptr::eq(self.page.as_ptr(), &raw const LAST_RESORT)
    }

    /// Writes the head and the names.
    fn describe(&self) {
        let layout = self.layout();
        let pid = std::process::id();
        layout.version.store(VERSION, Ordering::Relaxed);
        layout.counters.store(ENTRIES as u32, Ordering::Relaxed);
        layout.pid.store(pid.into(), Ordering::Relaxed);
        layout.start_ticks.store(snapshot::start_ticks(pid).unwrap_or(0), Ordering::Relaxed);
        let shares = std::iter::repeat_n(&Counter::Seen, SHARES);
        for (entry, counter) in layout.entries.iter().zip(Counter::ALL.iter().chain(shares)) {
            let mut name = [0u8; NAME_BYTES];
            name[..counter.name().len()].copy_from_slice(counter.name().as_bytes());
            for (word, bytes) in entry.name.iter().zip(name.as_chunks().0) {
                word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
            }
        }
        layout.magic.store(MAGIC, Ordering::Release);
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        if !self.is_last_resort() {
            // SAFETY: `map` made it with this size, and nothing borrows it any more.
            unsafe { libc::munmap(self.page.as_ptr().cast(), size_of::<Layout>()) };
        }
    }
}

/// Maps the counters of `file`, or memory, at `at` if that is not null: over what was mapped there by this function.
fn map(at: *mut Layout, file: Option<&File>) -> io::Result<NonNull<Layout>> {
    let fixed = if at.is_null() { 0 } else { libc::MAP_FIXED };
    let (kind, fd) = match file {
        Some(file) => (libc::MAP_SHARED, file.as_raw_fd()),
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
    };
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: without an address the kernel picks a free one; with one, only a page of an own `Map` is replaced, whose
    // holders see zeros in place of their counts.
    let page = unsafe { libc::mmap(at.cast(), size_of::<Layout>(), access, kind | fixed, fd, 0) };
    if page == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(page.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))
}

/// A file of zeros under a name that no reader looks at.
struct NewFile {
    file: File,
    hidden: PathBuf,
    path: PathBuf,
}

impl NewFile {
    fn in_folder(folder: &Path) -> io::Result<NewFile> {
        make_folder(folder)?;
        let pid = std::process::id();
        let (hidden, path) = (folder.join(format!(".{pid}")), folder.join(pid.to_string()));
        // Left by a process of this number that was stopped in between; what else may fail is said by the next call.
        let _ = std::fs::remove_file(&hidden);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC);
        let file = options.open(&hidden)?;
        let new = NewFile { file, hidden, path };
        match reserve(&new.file) {
            Ok(()) => Ok(new),
            Err(error) => {
                let _ = std::fs::remove_file(&new.hidden);
                Err(error)
            }
        }
    }

    /// Gives it its name, whole.
    fn publish(self) -> io::Result<PathBuf> {
        match std::fs::rename(&self.hidden, &self.path) {
            Ok(()) => Ok(self.path),
            Err(error) => {
                let _ = std::fs::remove_file(&self.hidden);
                Err(error)
            }
        }
    }
}

/// Takes the room on the disk now: a mapping whose room cannot be had later ends its process.
fn reserve(file: &File) -> io::Result<()> {
    // SAFETY: a call on an open descriptor.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, size_of::<Layout>() as libc::off_t) } {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}
