//! oneDNN, versions 2.x and 3.x behind one interface: matrix products on a CPU by named implementations.
//!
//! | module | holds |
//! |---|---|
//! | [`sys`] | numbers, structs and function tables as the headers have them |
//! | `handle` | status to error, owning handles |
//! | `cache` | the primitive cache, off where it would lie |
//! | [`memory`] | memory descriptors and their layouts |
//! | [`implementations`] | the implementations of one product |
//! | [`matmul`] | a product ready to run |
//!
//! Tested with 2.6.3 (Debian's `libdnnl2`) and 3.2.0 (PyPI's `onednn-cpu-gomp`), both built for OpenMP. Builds for TBB,
//! SYCL or a thread pool of the caller's are refused: their thread count cannot be set per call.

mod cache;
mod handle;
pub mod implementations;
pub mod matmul;
pub mod memory;
pub mod sys;

use std::ffi::{CStr, c_uint};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use handle::CallError;
pub use implementations::{Implementations, MatmulDescs, PrimitiveDesc};
pub use matmul::{Matmul, Pointers, RunError};
pub use memory::{DataType, Layout, MemoryDesc};

use crate::load::{self, Absent, Candidate, Loaded};
use crate::openmp::OpenMp;
use handle::{Owned, check};
use sys::{v2, v3};

/// Names the very file to open as oneDNN; nothing else is tried then.
pub const FILE_VAR: &str = "TGEMM_ONEDNN";

/// What the loader is asked for, newest first.
pub const SONAMES: [&str; 2] = ["libdnnl.so.3", "libdnnl.so.2"];

/// oneDNN's version, as the library says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
    /// Third number.
    pub patch: u32,
    /// Revision of its source; `N/A` where the builder did not say.
    pub hash: String,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// An open oneDNN with its CPU engine. Clones share it.
#[derive(Clone)]
pub struct OneDnn(Arc<Api>);

pub(crate) struct Api {
    file: PathBuf,
    version: Version,
    openmp: Option<OpenMp>,
    common: sys::Common,
    generation: Generation,
    engine: Owned<sys::Engine>,
}

enum Generation {
    V2(v2::Table),
    V3(v3::Table),
}

impl OneDnn {
    /// Opens the file named by [`FILE_VAR`] if that is set, else the first of [`SONAMES`] that can be used: resident
    /// in this process, then as the loader finds it.
    pub fn open() -> Result<OneDnn, Absent> {
        let candidates = match std::env::var_os(FILE_VAR).filter(|file| !file.is_empty()) {
            Some(file) => vec![Candidate::File(file.into())],
            None => Candidate::sonames(&SONAMES),
        };
        // SAFETY: these are oneDNN's own names, or a file that the user says is oneDNN; its initialisers read
        // environment variables.
        unsafe { OneDnn::open_from(&candidates) }
    }

    /// Opens the first candidate that can be used.
    ///
    /// # Safety
    /// Every candidate that exists is oneDNN.
    pub unsafe fn open_from(candidates: &[Candidate]) -> Result<OneDnn, Absent> {
        // SAFETY: the caller vouches for the candidates.
        unsafe { load::open("onednn", candidates, |library| OneDnn::of(library)) }
    }

    /// # Safety
    /// `library` is oneDNN.
    unsafe fn of(library: &'static Loaded) -> Result<OneDnn, String> {
        let at = |reason: String| format!("{}: {reason}", library.file().display());
        // SAFETY: oneDNN's functions have these types; those of `Common` in every version.
        let common = unsafe { sys::Common::fill(library) }.map_err(|missing| at(missing.to_string()))?;
        // SAFETY: takes nothing, returns a static record.
        let said = unsafe { &*(common.dnnl_version)() };
        let version = version(said);
        let generation = match version.major {
            // SAFETY: as above, for this major version.
            2 => unsafe { v2::Table::fill(library) }.map(Generation::V2),
            // SAFETY: as above.
            3 => unsafe { v3::Table::fill(library) }.map(Generation::V3),
            _ => return Err(at(format!("oneDNN {version} is not supported, 2.x and 3.x are"))),
        };
        let generation = generation.map_err(|missing| at(missing.to_string()))?;
        let openmp = match said.cpu_runtime {
            sys::RUNTIME_OPENMP => Some(OpenMp::of(library).map_err(|missing| at(missing.to_string()))?),
            sys::RUNTIME_SEQUENTIAL => None,
            other => return Err(at(format!("built for {}, only OpenMP builds are supported", runtime(other)))),
        };
        let create = |engine| {
            // SAFETY: the CPU's engine has index 0.
            unsafe { (common.dnnl_engine_create)(engine, sys::ENGINE_CPU, 0) }
        };
        // SAFETY: the call writes an engine that is ours to destroy.
        let engine = unsafe { Owned::create("dnnl_engine_create", common.dnnl_engine_destroy, create) };
        let engine = engine.map_err(|error| at(error.to_string()))?;
        let file = library.file().to_owned();
        Ok(OneDnn(Arc::new(Api { file, version, openmp, common, generation, engine })))
    }

    /// Its version.
    pub fn version(&self) -> &Version {
        &self.0.version
    }

    /// The file it was loaded from.
    pub fn file(&self) -> &Path {
        &self.0.file
    }

    /// Can it use more than one thread?
    pub fn is_parallel(&self) -> bool {
        self.0.openmp.is_some()
    }

    /// Runs `work`, and every oneDNN call in it on this thread, with `threads` threads. Implementations depend on the
    /// count when they are chosen and made as well as when they run.
    pub fn with_threads<T>(&self, threads: u32, work: impl FnOnce() -> T) -> T {
        match &self.0.openmp {
            Some(openmp) => openmp.with_threads(threads, work),
            None => work(),
        }
    }

    fn api(&self) -> &Api {
        &self.0
    }

    /// Copies a matrix from layout `from` to layout `to`, padding zeroed.
    ///
    /// # Safety
    /// `source` holds [`MemoryDesc::bytes`] of `from`, readable, `target` those of `to`, writable by nobody else
    /// meanwhile.
    pub unsafe fn reorder(
        &self,
        from: &MemoryDesc,
        source: *const std::ffi::c_void,
        to: &MemoryDesc,
        target: *mut std::ffi::c_void,
    ) -> Result<(), CallError> {
        let Api { common, engine, .. } = self.api();
        // SAFETY: all objects are whole, and the primitive descriptor written is ours to destroy.
        let desc = unsafe {
            Owned::create("dnnl_reorder_primitive_desc_create", common.dnnl_primitive_desc_destroy, |desc| {
                (common.dnnl_reorder_primitive_desc_create)(
                    desc,
                    from.as_ptr(),
                    engine.as_ptr(),
                    to.as_ptr(),
                    engine.as_ptr(),
                    std::ptr::null(),
                )
            })
        }?;
        let primitive = matmul::primitive(common, &desc)?;
        let stream = matmul::stream(self.api())?;
        let source = matmul::memory(self.api(), from, source.cast_mut())?;
        let target = matmul::memory(self.api(), to, target)?;
        let args = [
            sys::ExecArg { arg: sys::ARG_SRC, memory: source.as_ptr() },
            sys::ExecArg { arg: sys::ARG_DST, memory: target.as_ptr() },
        ];
        // SAFETY: the caller vouches for the memory, everything else is alive; the source is only read.
        let status = unsafe { (common.dnnl_primitive_execute)(primitive.as_ptr(), stream.as_ptr(), 2, args.as_ptr()) };
        check("dnnl_primitive_execute", status)?;
        // SAFETY: the stream is alive.
        check("dnnl_stream_wait", unsafe { (common.dnnl_stream_wait)(stream.as_ptr()) })
    }
}

impl fmt::Debug for OneDnn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OneDnn({} at {})", self.version(), self.file().display())
    }
}

fn version(said: &sys::Version) -> Version {
    let number = |value| u32::try_from(value).unwrap_or(0);
    let hash = if said.hash.is_null() {
        String::new()
    } else {
        // SAFETY: a static NUL-terminated text.
        unsafe { CStr::from_ptr(said.hash) }.to_string_lossy().into_owned()
    };
    Version { major: number(said.major), minor: number(said.minor), patch: number(said.patch), hash }
}

/// A CPU runtime by its `DNNL_RUNTIME_*` number.
fn runtime(number: c_uint) -> String {
    match number {
        0 => "no CPU".into(),
        4 => "TBB".into(),
        8 => "a thread pool of the caller's".into(),
        512 => "SYCL".into(),
        other => format!("runtime {other}"),
    }
}

#[cfg(test)]
mod tests;
