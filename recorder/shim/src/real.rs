//! The functions that the host would have called without us.
//!
//! A hooked symbol is searched in the rest of the program's own scope first (`RTLD_NEXT`): that is what the dynamic linker
//! would have bound. Libraries that were opened with a scope of their own, as Python opens its extensions, are not in it; then
//! the one library in the process that defines the symbol is meant. Where there are several, the caller's own scope decides, at
//! every call.
//!
//! A limit: a library that ends its own function by jumping to ours (a tail call) is not on the stack, so among several
//! definitions the first loaded is taken for its. Two BLAS libraries with the same names in private scopes of one process are
//! needed for that.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use tgemm_recorder::{LibraryFile, without_forks};

/// Most libraries of a process that are searched.
const LIBRARIES_MAX: usize = 4096;

/// A hooked symbol and the function behind it.
pub struct Real {
    name: &'static CStr,
    address: AtomicUsize,
    library: OnceLock<Option<&'static LibraryFile>>,
}

/// A function of the library that a [`Real`] is of.
pub struct Beside {
    name: &'static CStr,
    address: AtomicUsize,
}

/// What stands in [`Beside::address`] for a function that the library has not.
const ABSENT: usize = 1;

impl Real {
    /// The function behind `name`; nothing is searched yet.
    pub const fn new(name: &'static CStr) -> Real {
        Real { name, address: AtomicUsize::new(0), library: OnceLock::new() }
    }

    /// Its name.
    pub fn name(&self) -> &'static CStr {
        self.name
    }

    /// Its address; `None` where no library of the process has it.
    #[inline]
    pub fn address(&self) -> Option<usize> {
        match self.address.load(Ordering::Relaxed) {
            0 => self.search(),
            address => Some(address),
        }
    }

    #[cold]
    fn search(&self) -> Option<usize> {
        // SAFETY: a NUL-terminated name; the answer is an address.
        let next = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) } as usize;
        if next != 0 {
            self.address.store(next, Ordering::Relaxed);
            return Some(next);
        }
        let mut found: Vec<usize> = loaded().iter().filter_map(|library| defined_in(library, self.name)).collect();
        found.sort_unstable();
        found.dedup();
        match found[..] {
            [] => None,
            [only] => {
                self.address.store(only, Ordering::Relaxed);
                Some(only)
            }
            // Not kept: another caller means another one.
            _ => of_the_caller(self.name).or(Some(found[0])),
        }
    }

    /// The library file that it is in; `version` is asked once.
    pub fn library(&self, version: impl FnOnce(usize) -> Option<String>) -> Option<&'static LibraryFile> {
        if let Some(known) = self.library.get() {
            return *known;
        }
        let find = || {
            let address = self.address()?;
            let file = file_of(address)?.to_string_lossy().into_owned();
            let version = version(address).unwrap_or_default();
            Some(&*Box::leak(Box::new(LibraryFile { file, version })))
        };
        // A child that was forked meanwhile would wait for a thread that it does not have.
        *without_forks(|| self.library.get_or_init(find))
    }
}

impl Beside {
    /// The function `name`; nothing is searched yet.
    pub const fn new(name: &'static CStr) -> Beside {
        Beside { name, address: AtomicUsize::new(0) }
    }

    /// Its address in the library that holds the code at `neighbour`, or in what that library needs.
    #[inline]
    pub fn address(&self, neighbour: usize) -> Option<usize> {
        match self.address.load(Ordering::Relaxed) {
            0 => self.search(neighbour),
            ABSENT => None,
            address => Some(address),
        }
    }

    #[cold]
    fn search(&self, neighbour: usize) -> Option<usize> {
        let found = beside(neighbour, self.name);
        self.address.store(found.unwrap_or(ABSENT), Ordering::Relaxed);
        found
    }
}

/// The address of `name` in the library that holds the code at `neighbour`, or in what that library needs.
pub fn beside(neighbour: usize, name: &CStr) -> Option<usize> {
    let file = CString::new(file_of(neighbour)?.into_os_string().into_encoded_bytes()).ok()?;
    look_up(&file, name)
}

/// The file that the code at `address` was loaded from.
pub fn file_of(address: usize) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt as _;
    let (_, name) = object_at(address)?;
    let path = PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes()));
    Some(path.canonicalize().unwrap_or(path))
}

/// Where the object that holds `address` begins, and the name it was loaded by.
fn object_at(address: usize) -> Option<(usize, &'static CStr)> {
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: any address may be asked about; one record is written.
    let known = unsafe { libc::dladdr(address as *const c_void, &raw mut info) } != 0;
    if !known || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's own name of a library that is loaded; those with code of the host's in use are not unloaded.
    Some((info.dli_fbase as usize, unsafe { CStr::from_ptr(info.dli_fname) }))
}

/// The address of `name` as the loaded library `file` itself would find it among its needs.
pub fn look_up(file: &CStr, name: &CStr) -> Option<usize> {
    // SAFETY: nothing is loaded that is not loaded already; the count that this adds is taken back.
    unsafe {
        let handle = libc::dlopen(file.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if handle.is_null() {
            return None;
        }
        let address = libc::dlsym(handle, name.as_ptr()) as usize;
        libc::dlclose(handle);
        (address != 0).then_some(address)
    }
}

/// The address of `name` if `file` itself defines it, and is not this library.
fn defined_in(file: &CStr, name: &CStr) -> Option<usize> {
    let address = look_up(file, name)?;
    let (base, of) = object_at(address)?;
    let (own, _) = object_at(defined_in as *const () as usize)?;
    (base != own && of == file).then_some(address)
}

/// The names of all libraries in the process, in the order in which they were loaded.
fn loaded() -> Vec<CString> {
    unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _: usize, names: *mut c_void) -> c_int {
        // SAFETY: `names` is the vector below, and the loader's record is whole.
        let (names, name): (&mut Vec<CString>, *const c_char) =
            unsafe { (&mut *names.cast::<Vec<CString>>(), (*info).dlpi_name) };
        if !name.is_null() && names.len() < LIBRARIES_MAX {
            // SAFETY: the loader's name, NUL-terminated.
            let name = unsafe { CStr::from_ptr(name) };
            if !name.is_empty() {
                names.push(name.to_owned());
            }
        }
        0
    }
    let mut names: Vec<CString> = Vec::new();
    // SAFETY: the callback gets the vector, and does not unwind short of running out of memory.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut names).cast()) };
    names
}

/// The address of `name` in the scope of whoever called this library.
fn of_the_caller(name: &CStr) -> Option<usize> {
    let (_, file) = object_at(caller()?)?;
    look_up(file, name)
}

/// The first return address on this thread's stack that is not in this library.
fn caller() -> Option<usize> {
    struct Walk {
        own: usize,
        found: Option<usize>,
    }
    unsafe extern "C" {
        /// `<unwind.h>` of the C++ ABI: calls `step` for each frame until that returns other than 0.
        fn _Unwind_Backtrace(
            step: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
            state: *mut c_void,
        ) -> c_int;
        /// The return address of a frame.
        fn _Unwind_GetIP(frame: *mut c_void) -> usize;
    }
    unsafe extern "C" fn step(frame: *mut c_void, state: *mut c_void) -> c_int {
        /// `_URC_NO_REASON` goes on, `_URC_END_OF_STACK` does not.
        const GO_ON: c_int = 0;
        const STOP: c_int = 5;
        // SAFETY: the state is the walk below; the frame is the unwinder's.
        let (walk, at) = unsafe { (&mut *state.cast::<Walk>(), _Unwind_GetIP(frame)) };
        match object_at(at) {
            Some((base, _)) if base == walk.own => GO_ON,
            _ => {
                walk.found = Some(at);
                STOP
            }
        }
    }
    let (own, _) = object_at(caller as *const () as usize)?;
    let mut walk = Walk { own, found: None };
    // SAFETY: the callback and its state fit, and the state outlives the call.
    unsafe { _Unwind_Backtrace(step, (&raw mut walk).cast()) };
    walk.found.filter(|&at| at != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_of_the_process_is_found_and_its_file_named() {
        let real = Real::new(c"getpid");
        let getpid = real.address().unwrap();
        assert_eq!(real.address(), Some(getpid), "and kept");
        let library = real.library(|_| Some("1.2".into())).unwrap();
        assert!(library.file.contains("libc"), "{library:?}");
        assert_eq!(library.version, "1.2");
        assert!(Beside::new(c"getppid").address(getpid).is_some());
        assert_eq!(Beside::new(c"no_such_function").address(getpid), None);
        assert_eq!(Real::new(c"no_such_function").address(), None);
    }

    #[test]
    fn the_caller_is_found_on_the_stack() {
        // The test's own object is "this library": the caller of its outermost frame is libc.
        let (_, file) = object_at(caller().unwrap()).unwrap();
        assert!(file.to_string_lossy().contains("libc"), "{file:?}");
        assert!(of_the_caller(c"malloc").is_some());
    }

    #[test]
    fn libraries_of_the_process_are_listed() {
        let names = loaded();
        assert!(names.iter().any(|name| name.to_string_lossy().contains("libc.so")), "{names:?}");
    }
}
