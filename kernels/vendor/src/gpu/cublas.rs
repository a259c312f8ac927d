//! cuBLAS: one call with many arguments, which chooses its kernel itself.

use std::ffi::c_void;
use std::path::{Path, PathBuf};

use super::find::{Installation, Part};
use super::{CallError, Dialect, Handle};
use crate::dialect_table;
use crate::load::{self, Absent, Loaded};

dialect_table! {
    /// The functions of libcublas (`cublas_v2.h`, `cublas_api.h`).
    pub struct Table {
        /// A handle on the current device.
        fn create ["", "cublasCreate_v2"] (handle: *mut Handle);
        /// Frees it.
        fn destroy ["", "cublasDestroy_v2"] (handle: Handle);
        /// Where launches go from now on; forgets the workspace.
        fn set_stream ["", "cublasSetStream_v2"] (handle: Handle, stream: Handle);
        /// Scratch memory for launches from now on.
        fn set_workspace ["", "cublasSetWorkspace_v2"] (handle: Handle, workspace: *mut c_void, bytes: usize);
        /// The version in parts: 0 major, 1 minor, 2 patch.
        fn property ["", "cublasGetProperty"] (part: i32, value: *mut i32);
        /// A product.
        fn gemm ["", "cublasGemmEx"] (
            handle: Handle, op_a: i32, op_b: i32, m: i32, n: i32, k: i32, alpha: *const c_void,
            a: *const c_void, a_type: i32, lda: i32, b: *const c_void, b_type: i32, ldb: i32,
            beta: *const c_void, c: *mut c_void, c_type: i32, ldc: i32, compute: i32, algo: i32,
        );
        /// Several products, their matrices a fixed distance apart.
        fn gemm_batched ["", "cublasGemmStridedBatchedEx"] (
            handle: Handle, op_a: i32, op_b: i32, m: i32, n: i32, k: i32, alpha: *const c_void,
            a: *const c_void, a_type: i32, lda: i32, stride_a: i64, b: *const c_void, b_type: i32, ldb: i32, stride_b: i64,
            beta: *const c_void, c: *mut c_void, c_type: i32, ldc: i32, stride_c: i64, batch: i32, compute: i32, algo: i32,
        );
    }
}

/// `cublasGemmAlgo_t`: the library's own choice.
pub const GEMM_DEFAULT: i32 = -1;

/// `CUBLAS_GEMM_AUTOTUNE`, 13.1 and later: the library tries kernels in the first call and remembers the best.
pub const GEMM_AUTOTUNE: i32 = 999;

/// The oldest version with [`GEMM_AUTOTUNE`].
pub const AUTOTUNE_SINCE: [u32; 3] = [13, 1, 0];

/// An opened cuBLAS with a handle on the device that was current then. A handle serves one thread at a time.
pub struct CuBlas {
    table: Table,
    handle: Handle,
    file: PathBuf,
    version: [u32; 3],
}

// SAFETY: the handle may be used from any thread, one at a time, which `&mut` or the caller's lock sees to.
unsafe impl Send for CuBlas {}

impl CuBlas {
    /// Opens the library on the current device.
    pub fn open(installation: &mut Installation) -> Result<CuBlas, Absent> {
        let candidates = installation.candidates(Dialect::Cuda, Part::Blas);
        // SAFETY: these are the library's own names, or a file that the user says is it.
        let opened = unsafe { load::open(Part::Blas.name(Dialect::Cuda), &candidates, |library| CuBlas::of(library)) }?;
        installation.opened(Part::Blas, Dialect::Cuda, &opened.file);
        Ok(opened)
    }

    /// # Safety
    /// `library` is cuBLAS, and a device is current.
    unsafe fn of(library: &'static Loaded) -> Result<CuBlas, String> {
        let at = |error: CallError| format!("{}: {error}", library.file().display());
        // SAFETY: the types are those of the headers named at the table.
        let table = unsafe { Table::fill(library, Dialect::Cuda) };
        let mut version = [0; 3];
        for (part, value) in version.iter_mut().enumerate() {
            let mut number = 0;
            // SAFETY: one integer is written.
            unsafe { table.property(part as i32, &raw mut number) }.map_err(at)?;
            *value = u32::try_from(number).unwrap_or(0);
        }
        let mut handle = std::ptr::null_mut();
        // SAFETY: one handle is written.
        unsafe { table.create(&raw mut handle) }.map_err(at)?;
        Ok(CuBlas { table, handle, file: library.file().to_owned(), version })
    }

    /// Its functions.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Its handle.
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// The file it was loaded from.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Its version: `13.1.0`.
    pub fn version(&self) -> String {
        self.version.map(|part| part.to_string()).join(".")
    }

    /// Its version as numbers.
    pub fn version_numbers(&self) -> [u32; 3] {
        self.version
    }

    /// The symbols that it lacks.
    pub fn missing(&self) -> Vec<&'static str> {
        self.table.missing()
    }
}

impl Drop for CuBlas {
    fn drop(&mut self) {
        // SAFETY: the handle is ours and nothing uses it any more.
        let _ = unsafe { self.table.destroy(self.handle) };
    }
}
