//! hipBLASLt and cuBLASLt: a product is described by handles, an algorithm is asked for, and both are launched.
//!
//! | module | holds |
//! |---|---|
//! | [`product`] | a [`Call`](tgemm_db::blas::Call) as descriptors, with the pointers that they carry |
//! | [`algo`] | an algorithm's opaque bytes and what the library says about them |
//! | [`cuda`] | cuBLASLt's nine configuration attributes: read, written, checked |
//! | [`read`] | descriptors of another's making, as a [`Call`](tgemm_db::blas::Call) again |
//! | [`hip`] | hipBLASLt's solution index, its validation and its names |

pub mod algo;
pub mod cuda;
pub mod hip;
pub mod product;
pub mod read;

use std::ffi::{c_char, c_int, c_void};
use std::path::{Path, PathBuf};

pub use algo::{Algo, Offer};
pub use cuda::Config;
pub use product::{Pointers, Product};

use super::find::{Installation, Part};
use super::numbers::{self, LtNumbers};
use super::{CallError, Dialect, Handle};
use crate::dialect_table;
use crate::load::{self, Absent, Loaded};

dialect_table! {
    /// The functions of libhipblaslt (`hipblaslt.h`) and of libcublasLt (`cublasLt.h`).
    pub struct Table {
        /// The library, opened on the current device.
        fn create ["hipblasLtCreate", "cublasLtCreate"] (handle: *mut Handle);
        /// Closes it.
        fn destroy ["hipblasLtDestroy", "cublasLtDestroy"] (handle: Handle);
        /// A matrix's type and extents.
        fn layout_create ["hipblasLtMatrixLayoutCreate", "cublasLtMatrixLayoutCreate"] (
            layout: *mut Handle, data_type: i32, rows: u64, cols: u64, ld: i64,
        );
        /// Frees it.
        fn layout_destroy ["hipblasLtMatrixLayoutDestroy", "cublasLtMatrixLayoutDestroy"] (layout: Handle);
        /// Sets one attribute.
        fn layout_set ["hipblasLtMatrixLayoutSetAttribute", "cublasLtMatrixLayoutSetAttribute"] (
            layout: Handle, attribute: i32, value: *const c_void, bytes: usize,
        );
        /// Reads one attribute.
        fn layout_get ["hipblasLtMatrixLayoutGetAttribute", "cublasLtMatrixLayoutGetAttribute"] (
            layout: Handle, attribute: i32, value: *mut c_void, bytes: usize, written: *mut usize,
        );
        /// A product's arithmetic and epilogue.
        fn desc_create ["hipblasLtMatmulDescCreate", "cublasLtMatmulDescCreate"] (desc: *mut Handle, compute: i32, scale: i32);
        /// Frees it.
        fn desc_destroy ["hipblasLtMatmulDescDestroy", "cublasLtMatmulDescDestroy"] (desc: Handle);
        /// Sets one attribute.
        fn desc_set ["hipblasLtMatmulDescSetAttribute", "cublasLtMatmulDescSetAttribute"] (
            desc: Handle, attribute: i32, value: *const c_void, bytes: usize,
        );
        /// Reads one attribute.
        fn desc_get ["hipblasLtMatmulDescGetAttribute", "cublasLtMatmulDescGetAttribute"] (
            desc: Handle, attribute: i32, value: *mut c_void, bytes: usize, written: *mut usize,
        );
        /// What an algorithm may use.
        fn preference_create ["hipblasLtMatmulPreferenceCreate", "cublasLtMatmulPreferenceCreate"] (preference: *mut Handle);
        /// Frees it.
        fn preference_destroy ["hipblasLtMatmulPreferenceDestroy", "cublasLtMatmulPreferenceDestroy"] (preference: Handle);
        /// Sets one attribute.
        fn preference_set ["hipblasLtMatmulPreferenceSetAttribute", "cublasLtMatmulPreferenceSetAttribute"] (
            preference: Handle, attribute: i32, value: *const c_void, bytes: usize,
        );
        /// The library's own list of algorithms, what it holds for best first.
        fn heuristic ["hipblasLtMatmulAlgoGetHeuristic", "cublasLtMatmulAlgoGetHeuristic"] (
            handle: Handle, desc: Handle, a: Handle, b: Handle, c: Handle, d: Handle, preference: Handle,
            requested: i32, results: *mut c_void, returned: *mut i32,
        );
        /// The product.
        fn matmul ["hipblasLtMatmul", "cublasLtMatmul"] (
            handle: Handle, desc: Handle, alpha: *const c_void, a: *const c_void, a_layout: Handle,
            b: *const c_void, b_layout: Handle, beta: *const c_void, c: *const c_void, c_layout: Handle,
            d: *mut c_void, d_layout: Handle, algo: *const c_void, workspace: *mut c_void, workspace_bytes: usize,
            stream: Handle,
        );
        /// hipBLASLt's version.
        fn version ["hipblasLtGetVersion", ""] (handle: Handle, version: *mut c_int);
        /// hipBLASLt's git revision; the buffer is to have 128 bytes.
        fn revision ["hipblasLtGetGitRevision", ""] (handle: Handle, text: *mut c_char);
        /// cuBLASLt's version in parts: 0 major, 1 minor, 2 patch.
        fn property ["", "cublasLtGetProperty"] (part: i32, value: *mut i32);
        /// An algorithm in its first configuration.
        fn algo_init ["", "cublasLtMatmulAlgoInit"] (
            handle: Handle, compute: i32, scale: i32, a: i32, b: i32, c: i32, d: i32, id: i32, algo: *mut c_void,
        );
        /// What an algorithm can be configured to.
        fn algo_cap ["", "cublasLtMatmulAlgoCapGetAttribute"] (
            algo: *const c_void, attribute: i32, value: *mut c_void, bytes: usize, written: *mut usize,
        );
        /// Sets one attribute of a configuration.
        fn algo_set ["", "cublasLtMatmulAlgoConfigSetAttribute"] (algo: *mut c_void, attribute: i32, value: *const c_void, bytes: usize);
        /// Reads one attribute of a configuration.
        fn algo_get ["", "cublasLtMatmulAlgoConfigGetAttribute"] (
            algo: *const c_void, attribute: i32, value: *mut c_void, bytes: usize, written: *mut usize,
        );
        /// Does this configuration fit this product? Fills in the workspace that it needs.
        fn algo_check ["", "cublasLtMatmulAlgoCheck"] (
            handle: Handle, desc: Handle, a: Handle, b: Handle, c: Handle, d: Handle, algo: *const c_void, result: *mut c_void,
        );
        /// Does this algorithm fit this product? By hipBLASLt's C++ name, with pointers and references only (5.7 and later).
        fn is_supported [
            "_ZN13hipblaslt_ext21matmulIsAlgoSupportedEPvP27hipblasLtMatmulDescOpaque_tPKvP29hipblasLtMatrixLayoutOpaque_tS6_S4_S6_S6_R22_hipblasLtMatmulAlgo_tRm",
            ""
        ] (
            handle: Handle, desc: Handle, alpha: *const c_void, a: Handle, b: Handle, beta: *const c_void, c: Handle,
            d: Handle, algo: *mut c_void, workspace_bytes: *mut usize,
        );
    }
}

/// An opened hipBLASLt or cuBLASLt with a handle on the device that was current then.
pub struct BlasLt {
    dialect: Dialect,
    table: Table,
    names: hip::Names,
    handle: Handle,
    file: PathBuf,
    version: [u32; 3],
    revision: String,
}

// SAFETY: the library's handle may be used from any thread, and its calls are thread-safe.
unsafe impl Send for BlasLt {}
// SAFETY: as above.
unsafe impl Sync for BlasLt {}

impl BlasLt {
    /// Opens the library on the current device.
    pub fn open(dialect: Dialect, installation: &mut Installation) -> Result<BlasLt, Absent> {
        let candidates = installation.candidates(dialect, Part::BlasLt);
        // SAFETY: these are the library's own names, or a file that the user says is it.
        let opened =
            unsafe { load::open(Part::BlasLt.name(dialect), &candidates, |library| BlasLt::of(dialect, library)) }?;
        installation.opened(Part::BlasLt, dialect, &opened.file);
        Ok(opened)
    }

    /// # Safety
    /// `library` is the one of `dialect`, and a device is current.
    unsafe fn of(dialect: Dialect, library: &'static Loaded) -> Result<BlasLt, String> {
        let at = |reason: String| format!("{}: {reason}", library.file().display());
        // SAFETY: the types are those of the headers named at the table.
        let table = unsafe { Table::fill(library, dialect) };
        let mut handle = std::ptr::null_mut();
        // SAFETY: one handle is written.
        unsafe { table.create(&raw mut handle) }.map_err(|e| at(e.to_string()))?;
        // SAFETY: hipBLASLt's functions of those names have the types declared there.
        let names = unsafe { hip::Names::fill(library, dialect) };
        let mut opened = BlasLt {
            dialect,
            table,
            names,
            handle,
            file: library.file().to_owned(),
            version: [0; 3],
            revision: String::new(),
        };
        opened.read_version().map_err(|e| at(e.to_string()))?;
        let oldest = dialect.pick([0, 6, 0], [12, 0, 0]);
        if opened.version < oldest {
            let name = Part::BlasLt.name(dialect);
            return Err(at(format!("{name} {} is not supported, {} is the oldest", opened.version(), dotted(oldest))));
        }
        Ok(opened)
    }

    fn read_version(&mut self) -> Result<(), CallError> {
        match self.dialect {
            Dialect::Hip => {
                let mut number = 0;
                // SAFETY: one integer is written.
                unsafe { self.table.version(self.handle, &raw mut number) }?;
                // `hipblaslt-version.h`: major · 100000 + minor · 100 + patch.
                let number = u32::try_from(number).unwrap_or(0);
                self.version = [number / 100_000, number / 100 % 1000, number % 100];
                self.revision = self.read_revision();
            }
            Dialect::Cuda => {
                for (part, value) in self.version.iter_mut().enumerate() {
                    let mut number = 0;
                    // SAFETY: one integer is written.
                    unsafe { self.table.property(part as i32, &raw mut number) }?;
                    *value = u32::try_from(number).unwrap_or(0);
                }
            }
        }
        Ok(())
    }

    fn read_revision(&self) -> String {
        let mut text = [0u8; 256];
        // SAFETY: the library writes its revision, at most 128 bytes with their terminator.
        let read = unsafe { self.table.revision(self.handle, text.as_mut_ptr().cast()) };
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(0);
        if read.is_ok() { String::from_utf8_lossy(&text[..end]).trim().to_owned() } else { String::new() }
    }

    /// Which dialect it speaks.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Its functions.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Its handle.
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// The numbers of its attributes.
    pub fn numbers(&self) -> &'static LtNumbers {
        numbers::blaslt(self.dialect)
    }

    /// The file it was loaded from.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Its version: `1.2.1`, `13.1.0`.
    pub fn version(&self) -> String {
        dotted(self.version)
    }

    /// Its version as numbers.
    pub fn version_numbers(&self) -> [u32; 3] {
        self.version
    }

    /// The git revision of its source; empty where the library does not say.
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// The symbols that it lacks: older versions have fewer.
    pub fn missing(&self) -> Vec<&'static str> {
        let mut missing = self.table.missing();
        missing.extend(self.names.missing(self.dialect));
        missing
    }
}

fn dotted(version: [u32; 3]) -> String {
    version.map(|part| part.to_string()).join(".")
}

impl Drop for BlasLt {
    fn drop(&mut self) {
        // SAFETY: the handle is ours and nothing uses it any more.
        let _ = unsafe { self.table.destroy(self.handle) };
    }
}
