//! What the process shares: the script, the solutions, and the host or the device behind them.

use std::ffi::{CStr, c_void};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::cuda::Cuda;
use crate::host::Host;
use crate::script::{IndexBase, Mode, Script};
use crate::solutions::Solutions;
use crate::trace::Trace;
use crate::version::Versions;

/// The double of this process.
pub struct Double {
    pub script: Script,
    pub versions: Versions,
    pub revision: String,
    pub solutions: Solutions,
    pub backend: Backend,
}

/// What computes.
pub enum Backend {
    Host(Box<Mutex<Host>>),
    Cuda(Box<Cuda>),
}

impl Double {
    /// The host's state, or the device.
    pub fn host(&self) -> Result<MutexGuard<'_, Host>, &Cuda> {
        match &self.backend {
            // A panic was answered as an error of ours; the test that caused it fails.
            Backend::Host(host) => Ok(host.lock().unwrap_or_else(PoisonError::into_inner)),
            Backend::Cuda(cuda) => Err(cuda),
        }
    }

    fn open() -> Result<Double, String> {
        let script = Script::from_env()?;
        let versions = match &script.generation {
            Some(word) => Versions::of(word).ok_or_else(|| format!("generation {word:?} is not 7, 6 or 5"))?,
            None => own_file().and_then(|file| Versions::of_file(&file)).or(Versions::of("7")).ok_or("no versions")?,
        };
        let revision = script.revision.clone().unwrap_or_else(|| versions.revision.into());
        let base = match &script.index_base {
            IndexBase::Number(number) => *number,
            IndexBase::Word(word) if word == "revision" => base_of(&revision),
            IndexBase::Word(word) => return Err(format!("index_base {word:?} is not a number or \"revision\"")),
        };
        let solutions = Solutions::new(&script, &versions, base);
        let backend = match script.mode {
            Mode::Host => {
                let trace = Trace::open(script.trace.as_deref())?;
                Backend::Host(Box::new(Mutex::new(Host::new(&script, trace))))
            }
            Mode::Cuda => Backend::Cuda(Box::new(Cuda::open()?)),
        };
        Ok(Double { script, versions, revision, solutions, backend })
    }
}

/// Some thousands, as far apart for two builds as in real releases.
fn base_of(revision: &str) -> i32 {
    (crate::solutions::hash(revision.as_bytes()) % 4000) as i32
}

/// The file that this code was loaded from, links not followed.
fn own_file() -> Option<String> {
    // SAFETY: all zeros is a valid record; the call fills it for an address of this library.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let here = own_file as fn() -> Option<String> as *const c_void;
        if libc::dladdr(here, &raw mut info) == 0 || info.dli_fname.is_null() {
            return None;
        }
        Some(CStr::from_ptr(info.dli_fname).to_string_lossy().into_owned())
    }
}

/// The double, opened by the first call. What is wrong with the script is said once on standard error.
pub fn double() -> Result<&'static Double, &'static str> {
    static DOUBLE: OnceLock<Result<Double, String>> = OnceLock::new();
    let opened = DOUBLE.get_or_init(|| Double::open().inspect_err(|reason| eprintln!("rocm-double: {reason}")));
    opened.as_ref().map_err(String::as_str)
}
