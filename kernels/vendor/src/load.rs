//! The search for a vendor library.
//!
//! A search goes through an ordered list of [`Candidate`]s and takes the first that opens and that its caller accepts.
//! A library once opened stays open for the life of the process: vendor libraries start threads and register exit
//! handlers, and unloading them under those is not safe.

use std::ffi::c_void;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// One place to look for a library.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Candidate {
    /// This very file.
    File(PathBuf),
    /// A copy that is in the process already, by its soname: two copies of one runtime must not meet.
    Resident(String),
    /// Whatever the loader finds by this soname (`LD_LIBRARY_PATH`, the cache, the system's folders).
    Soname(String),
}

impl Candidate {
    /// The list that most libraries want: each soname where it is resident, then each where the loader finds it.
    pub fn sonames(names: &[&str]) -> Vec<Candidate> {
        let resident = names.iter().map(|name| Candidate::Resident((*name).into()));
        resident.chain(names.iter().map(|name| Candidate::Soname((*name).into()))).collect()
    }

    /// The name handed to the loader.
    fn name(&self) -> &Path {
        match self {
            Candidate::File(path) => path,
            Candidate::Resident(name) | Candidate::Soname(name) => Path::new(name),
        }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name().display())?;
        match self {
            Candidate::Resident(_) => f.write_str(" in this process"),
            Candidate::File(_) | Candidate::Soname(_) => Ok(()),
        }
    }
}

/// A candidate that was tried in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// What was tried.
    pub candidate: Candidate,
    /// Why it is not used: the loader's words, or those of whoever looked at the opened library.
    pub reason: String,
}

/// A library that is not here. Normal, and said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{library} is absent: {}", list(.tried))]
pub struct Absent {
    /// The library's name in this house: `onednn`.
    pub library: &'static str,
    /// Everything tried, in order.
    pub tried: Vec<Attempt>,
}

impl Absent {
    /// Why, in a few words: those attempts that came further than "no such file", else how many names were tried.
    pub fn brief(&self) -> String {
        let is_plain =
            |attempt: &&Attempt| attempt.reason == NOT_LOADED || attempt.reason.contains("No such file or directory");
        let telling: Vec<Attempt> = self.tried.iter().filter(|attempt| !is_plain(attempt)).cloned().collect();
        let names = self.tried.iter().filter(|attempt| !matches!(attempt.candidate, Candidate::Resident(_)));
        let names: Vec<String> = names.map(|attempt| attempt.candidate.to_string()).collect();
        match telling.is_empty() {
            true => format!("{} not found", names.join(", ")),
            false => list(&telling),
        }
    }
}

/// The reason of a library that is to be in the process already, and is not.
const NOT_LOADED: &str = "not loaded";

fn list(tried: &[Attempt]) -> String {
    if tried.is_empty() {
        return "nowhere to look".into();
    }
    let tried: Vec<String> =
        tried.iter().map(|attempt| format!("{} ({})", attempt.candidate, attempt.reason)).collect();
    tried.join(", ")
}

/// An open library.
pub struct Loaded {
    library: Library,
    /// The loader's handle: equal handles are the same library.
    handle: usize,
    file: PathBuf,
}

/// Every library opened so far. Its length is bounded by the number of different files opened.
static LOADED: Mutex<Vec<&'static Loaded>> = Mutex::new(Vec::new());

impl Loaded {
    /// The file it was really loaded from, links followed: `/usr/lib/x86_64-linux-gnu/libdnnl.so.2.6`.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The address of `symbol` in this library or the libraries it needs.
    pub fn address(&self, symbol: &str) -> Option<*const c_void> {
        address_in(&self.library, symbol)
    }

    /// The address that this library itself calls by `symbol`: the program's own scope comes before the library's
    /// needs, so a preloaded runtime wins here exactly as it does in the library.
    pub fn address_as_bound(&self, symbol: &str) -> Option<*const c_void> {
        address_in(&Library::this(), symbol).or_else(|| self.address(symbol))
    }
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Loaded({})", self.file.display())
    }
}

fn address_in(library: &Library, symbol: &str) -> Option<*const c_void> {
    // SAFETY: the symbol is taken as an untyped address and not used here.
    let found = unsafe { library.get::<*const c_void>(symbol) };
    found.ok().map(|found| found.into_raw().cast_const()).filter(|address| !address.is_null())
}

/// Opens the first candidate that the loader can open and that `accept` takes; `accept` says why it refuses.
///
/// # Safety
/// Opening a library runs its initialisers in this process, whatever they do: every candidate must name a library that
/// the user trusts.
pub unsafe fn open<T>(
    library: &'static str,
    candidates: &[Candidate],
    mut accept: impl FnMut(&'static Loaded) -> Result<T, String>,
) -> Result<T, Absent> {
    let mut tried = Vec::new();
    for candidate in candidates {
        // SAFETY: the caller vouches for the candidate.
        match unsafe { open_one(candidate) }.and_then(&mut accept) {
            Ok(accepted) => return Ok(accepted),
            Err(reason) => tried.push(Attempt { candidate: candidate.clone(), reason }),
        }
    }
    Err(Absent { library, tried })
}

/// # Safety
/// As [`open`].
unsafe fn open_one(candidate: &Candidate) -> Result<&'static Loaded, String> {
    let flags = match candidate {
        Candidate::Resident(_) => RTLD_NOW | RTLD_LOCAL | libc::RTLD_NOLOAD,
        Candidate::File(_) | Candidate::Soname(_) => RTLD_NOW | RTLD_LOCAL,
    };
    // SAFETY: the caller vouches for the library's initialisers.
    let opened = unsafe { Library::open(Some(candidate.name()), flags) };
    let library = opened.map_err(|error| match (candidate, error) {
        (Candidate::Resident(_), _) => NOT_LOADED.to_owned(),
        (_, libloading::Error::DlOpen { source }) => reason(candidate, &source.to_string()),
        (_, other) => other.to_string(),
    })?;
    Ok(keep(library, candidate.name()))
}

/// The loader's words, less the name that they often begin with and that stands before them already.
fn reason(candidate: &Candidate, words: &str) -> String {
    let name = candidate.name().to_string_lossy();
    words.strip_prefix(&*name).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(words).to_owned()
}

/// Keeps `library` open for good; the same library opened again is the same record.
fn keep(library: Library, asked_for: &Path) -> &'static Loaded {
    let handle = library.into_raw();
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = loaded.iter().find(|known| known.handle == handle as usize) {
        return known;
    }
    let file = file_of(handle).unwrap_or_else(|| asked_for.to_owned());
    let file = file.canonicalize().unwrap_or(file);
    // SAFETY: the handle was taken out of a library a moment ago and is put back unchanged.
    let library = unsafe { Library::from_raw(handle) };
    let kept: &'static Loaded = Box::leak(Box::new(Loaded { library, handle: handle as usize, file }));
    loaded.push(kept);
    kept
}

/// The file that the loader mapped for `handle`.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn file_of(handle: *mut c_void) -> Option<PathBuf> {
    use std::ffi::{CStr, OsStr, c_char};
    use std::os::unix::ffi::OsStrExt;

    /// The head of glibc's `struct link_map` (`<link.h>`), the part that is public.
    #[repr(C)]
    struct LinkMap {
        base: usize,
        name: *const c_char,
    }

    let mut map: *const LinkMap = std::ptr::null();
    // SAFETY: `handle` is open, and RTLD_DI_LINKMAP writes one pointer.
    let status = unsafe { libc::dlinfo(handle, libc::RTLD_DI_LINKMAP, (&raw mut map).cast()) };
    if status != 0 || map.is_null() {
        return None;
    }
    // SAFETY: the loader keeps the record and its NUL-terminated name while the library is open, which is for good.
    let name = unsafe { CStr::from_ptr((*map).name) };
    (!name.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

/// Elsewhere the loader is not asked: a library goes by the name it was opened by.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn file_of(_handle: *mut c_void) -> Option<PathBuf> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A library that every glibc system has.
    const MATHS: &str = "libm.so.6";

    fn open_maths(candidates: &[Candidate]) -> Result<&'static Loaded, Absent> {
        // SAFETY: libm has no initialisers that matter.
        unsafe { open("maths", candidates, Ok) }
    }

    #[test]
    fn what_is_nowhere_is_absent_and_names_everything_tried() {
        let candidates = [
            Candidate::File("/nonexistent/libnone.so.1".into()),
            Candidate::Resident("libnone.so.1".into()),
            Candidate::Soname("libnone.so.1".into()),
        ];
        let absent = open_maths(&candidates).unwrap_err();
        assert_eq!(absent.library, "maths");
        assert_eq!(absent.tried.iter().map(|a| a.candidate.clone()).collect::<Vec<_>>(), candidates);
        let text = absent.to_string();
        assert!(text.starts_with("maths is absent: /nonexistent/libnone.so.1 (cannot open"), "{text}");
        assert!(text.contains("libnone.so.1 in this process (not loaded)"), "{text}");
        assert!(text.contains("No such file or directory"), "{text}");
        assert!(!text.contains('\n'), "{text}");
    }

    #[test]
    fn the_file_really_loaded_is_named_and_stays_one_record() {
        let first = open_maths(&[Candidate::Soname("libnone.so.1".into()), Candidate::Soname(MATHS.into())]).unwrap();
        assert!(first.file().is_absolute() && first.file().is_file(), "{}", first.file().display());
        let again = open_maths(&[Candidate::Resident(MATHS.into())]).unwrap();
        let by_path = open_maths(&[Candidate::File(first.file().into())]).unwrap();
        assert!(std::ptr::eq(first, again) && std::ptr::eq(first, by_path));
    }

    #[test]
    fn a_file_that_is_no_library_is_a_reason_not_a_crash() {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let absent = open_maths(&[Candidate::File(manifest.into())]).unwrap_err();
        assert!(absent.tried[0].reason.contains("invalid ELF header"), "{absent}");
    }

    #[test]
    fn what_the_caller_refuses_is_passed_over_with_its_reason() {
        let candidates = [Candidate::Soname("libc.so.6".into()), Candidate::Soname(MATHS.into())];
        let wants_cosine = |loaded: &'static Loaded| match loaded.address("cos") {
            Some(_) => Ok(loaded),
            None => Err("it has no cos".to_owned()),
        };
        // SAFETY: libc and libm are in the process already.
        let maths = unsafe { open("maths", &candidates, wants_cosine) }.unwrap();
        assert!(maths.file().to_string_lossy().contains("libm"));
        // SAFETY: as above.
        let absent = unsafe { open("maths", &candidates[..1], wants_cosine) }.unwrap_err();
        assert_eq!(absent.to_string(), "maths is absent: libc.so.6 (it has no cos)");
    }

    #[test]
    fn nothing_to_try_says_so() {
        assert_eq!(open_maths(&[]).unwrap_err().to_string(), "maths is absent: nowhere to look");
    }
}
