//! Whole-file writes that are never seen half done.
//!
//! The content goes to a temporary file in the target's folder, is synced, renamed over the target, and the folder is
//! synced: after a crash at any moment the target holds the old content or the new, nothing else.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The steps of a write, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Create the temporary file beside the target.
    Create,
    /// Write the content to it.
    Write,
    /// Bring it to the disk.
    SyncFile,
    /// Put it in the target's place.
    Rename,
    /// Bring that to the disk. If this fails the new content is in place, but may not outlive a crash.
    SyncFolder,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Step::Create => "create a file beside it",
            Step::Write => "write its content",
            Step::SyncFile => "bring its content to the disk",
            Step::Rename => "put the new file in its place",
            Step::SyncFolder => "bring its folder to the disk",
        })
    }
}

/// A file that could not be replaced.
#[derive(Debug, thiserror::Error)]
#[error("{}: cannot {step}: {source}", .path.display())]
pub struct WriteError {
    /// The target.
    pub path: PathBuf,
    /// The step that failed.
    pub step: Step,
    /// Why.
    pub source: io::Error,
}

/// Replaces `path` by `content`, or leaves it as it was. A symbolic link stays, its target is replaced; a target that
/// is there and is no regular file is refused; permissions of an old file are kept.
pub fn write(path: &Path, content: &[u8]) -> Result<(), WriteError> {
    write_on(&mut Os, path, content)
}

/// The system calls of a write, so that tests can make each of them fail.
trait Disk {
    fn create(&mut self, path: &Path) -> io::Result<File>;
    fn write(&mut self, file: &mut File, content: &[u8]) -> io::Result<()>;
    fn sync_file(&mut self, file: &File) -> io::Result<()>;
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    fn sync_folder(&mut self, folder: &Path) -> io::Result<()>;
}

/// The real thing.
struct Os;

impl Disk for Os {
    fn create(&mut self, path: &Path) -> io::Result<File> {
        OpenOptions::new().write(true).create_new(true).open(path)
    }
    fn write(&mut self, file: &mut File, content: &[u8]) -> io::Result<()> {
        file.write_all(content)
    }
    fn sync_file(&mut self, file: &File) -> io::Result<()> {
        file.sync_all()
    }
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }
    fn sync_folder(&mut self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }
}

/// A temporary file that is removed unless it was renamed.
struct Scratch {
    path: PathBuf,
    is_renamed: bool,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.is_renamed {
            // Nothing more can be done: the error that led here is the one to report.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn write_on(disk: &mut impl Disk, path: &Path, content: &[u8]) -> Result<(), WriteError> {
    let failed = |step: Step| move |source: io::Error| WriteError { path: path.to_owned(), step, source };
    let (target, permissions) = resolve(path).map_err(failed(Step::Create))?;
    let folder = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let temporary = temporary_beside(&target).map_err(failed(Step::Create))?;
    let mut file = disk.create(&temporary).map_err(failed(Step::Create))?;
    let mut scratch = Scratch { path: temporary, is_renamed: false };
    if let Some(permissions) = permissions {
        file.set_permissions(permissions).map_err(failed(Step::Create))?;
    }
    disk.write(&mut file, content).map_err(failed(Step::Write))?;
    disk.sync_file(&file).map_err(failed(Step::SyncFile))?;
    disk.rename(&scratch.path, &target).map_err(failed(Step::Rename))?;
    scratch.is_renamed = true;
    disk.sync_folder(folder).map_err(failed(Step::SyncFolder))
}

/// The file to replace, behind symbolic links, and its permissions if it is there.
fn resolve(path: &Path) -> io::Result<(PathBuf, Option<fs::Permissions>)> {
    match fs::metadata(path) {
        Ok(old) if old.is_file() => Ok((fs::canonicalize(path)?, Some(old.permissions()))),
        // Renaming over a device such as /dev/stdout would destroy it.
        Ok(_) => Err(io::Error::other("it is there and is not a regular file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((path.to_owned(), None)),
        Err(error) => Err(error),
    }
}

/// A name that no other write of this or another process uses.
fn temporary_beside(target: &Path) -> io::Result<PathBuf> {
    static WRITES: AtomicU64 = AtomicU64::new(0);
    let name = target.file_name().ok_or_else(|| io::Error::other("the path names no file"))?;
    let mut temporary = OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}.{}.tmp", std::process::id(), WRITES.fetch_add(1, Ordering::Relaxed)));
    Ok(target.with_file_name(temporary))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails the `fail_at`-th call; a failing write has written half.
    struct Faulty {
        calls: usize,
        fail_at: usize,
    }

    impl Faulty {
        fn next(&mut self) -> io::Result<()> {
            self.calls += 1;
            if self.calls == self.fail_at { Err(io::Error::other("injected")) } else { Ok(()) }
        }
    }

    impl Disk for Faulty {
        fn create(&mut self, path: &Path) -> io::Result<File> {
            self.next()?;
            Os.create(path)
        }
        fn write(&mut self, file: &mut File, content: &[u8]) -> io::Result<()> {
            Os.write(file, &content[..content.len() / 2])?;
            self.next()?;
            Os.write(file, &content[content.len() / 2..])
        }
        fn sync_file(&mut self, file: &File) -> io::Result<()> {
            self.next()?;
            Os.sync_file(file)
        }
        fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
            self.next()?;
            Os.rename(from, to)
        }
        fn sync_folder(&mut self, folder: &Path) -> io::Result<()> {
            self.next()?;
            Os.sync_folder(folder)
        }
    }

    fn names(folder: &Path) -> Vec<OsString> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn whatever_step_fails_the_target_is_old_or_new_and_nothing_lies_beside_it() {
        let steps = [Step::Create, Step::Write, Step::SyncFile, Step::Rename, Step::SyncFolder];
        for old in [None, Some("old")] {
            for (at, step) in steps.iter().enumerate() {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("table.csv");
                if let Some(old) = old {
                    fs::write(&path, old).unwrap();
                }
                let error = write_on(&mut Faulty { calls: 0, fail_at: at + 1 }, &path, b"new content").unwrap_err();
                assert_eq!((error.step, &error.path), (*step, &path));
                let now = fs::read_to_string(&path).ok();
                let want = if *step == Step::SyncFolder { Some("new content") } else { old };
                assert_eq!(now.as_deref(), want, "{step:?}");
                assert_eq!(names(folder.path()).len(), usize::from(want.is_some()), "{step:?}");
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.csv");
        let mut disk = Faulty { calls: 0, fail_at: usize::MAX };
        write_on(&mut disk, &path, b"new").unwrap();
        assert_eq!(disk.calls, steps.len(), "a step is not under test");
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn places_that_cannot_be_written_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let missing = write(&folder.path().join("no/such/folder.csv"), b"").unwrap_err();
        assert_eq!(missing.step, Step::Create);
        let directory = write(folder.path(), b"").unwrap_err();
        assert!(directory.to_string().ends_with("it is there and is not a regular file"), "{directory}");
        assert!(write(Path::new(".."), b"").is_err());
        assert!(names(folder.path()).is_empty());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_keeps_the_old_content() {
        /// Everything real, but the content goes to the device that is always full.
        struct Full;
        impl Disk for Full {
            fn create(&mut self, path: &Path) -> io::Result<File> {
                Os.create(path)
            }
            fn write(&mut self, _: &mut File, content: &[u8]) -> io::Result<()> {
                OpenOptions::new().write(true).open("/dev/full")?.write_all(content)
            }
            fn sync_file(&mut self, file: &File) -> io::Result<()> {
                Os.sync_file(file)
            }
            fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
                Os.rename(from, to)
            }
            fn sync_folder(&mut self, folder: &Path) -> io::Result<()> {
                Os.sync_folder(folder)
            }
        }
        if !Path::new("/dev/full").exists() {
            println!("skipped: no /dev/full");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.csv");
        fs::write(&path, "old").unwrap();
        let error = write_on(&mut Full, &path, b"new").unwrap_err();
        assert_eq!((error.step, error.source.kind()), (Step::Write, io::ErrorKind::StorageFull));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()).len(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn links_and_permissions_stay() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real.csv"), folder.path().join("link.csv"));
        fs::write(&real, "old").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        write(&link, b"new").unwrap();
        assert_eq!(fs::read(&real).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
    }
}
