//! rocBLAS: one call with many arguments, by the library's choice or by the signed index of one of its solutions.

use std::ffi::{c_char, c_void};
use std::path::{Path, PathBuf};

use tgemm_db::{Compute, DType};

use super::find::{Installation, Part};
use super::{CallError, Dialect, Handle};
use crate::dialect_table;
use crate::load::{self, Absent, Loaded};

dialect_table! {
    /// The functions of librocblas (`rocblas-functions.h`, `rocblas-auxiliary.h`, `rocblas-beta.h`).
    pub struct Table {
        /// A handle on the current device.
        fn create ["rocblas_create_handle", ""] (handle: *mut Handle);
        /// Frees it.
        fn destroy ["rocblas_destroy_handle", ""] (handle: Handle);
        /// Where launches go from now on.
        fn set_stream ["rocblas_set_stream", ""] (handle: Handle, stream: Handle);
        /// Scratch memory for launches from now on.
        fn set_workspace ["rocblas_set_workspace", ""] (handle: Handle, workspace: *mut c_void, bytes: usize);
        /// May sums be added by atomics: 0 no, 1 yes?
        fn get_atomics ["rocblas_get_atomics_mode", ""] (handle: Handle, mode: *mut i32);
        /// The version's length.
        fn version_size ["rocblas_get_version_string_size", ""] (bytes: *mut usize);
        /// The version.
        fn version ["rocblas_get_version_string", ""] (text: *mut c_char, bytes: usize);
        /// A product.
        fn gemm ["rocblas_gemm_ex", ""] (
            handle: Handle, op_a: i32, op_b: i32, m: i32, n: i32, k: i32, alpha: *const c_void,
            a: *const c_void, a_type: i32, lda: i32, b: *const c_void, b_type: i32, ldb: i32,
            beta: *const c_void, c: *const c_void, c_type: i32, ldc: i32, d: *mut c_void, d_type: i32, ldd: i32,
            compute: i32, algo: i32, solution: i32, flags: u32,
        );
        /// Several products, their matrices a fixed distance apart.
        fn gemm_batched ["rocblas_gemm_strided_batched_ex", ""] (
            handle: Handle, op_a: i32, op_b: i32, m: i32, n: i32, k: i32, alpha: *const c_void,
            a: *const c_void, a_type: i32, lda: i32, stride_a: i64, b: *const c_void, b_type: i32, ldb: i32, stride_b: i64,
            beta: *const c_void, c: *const c_void, c_type: i32, ldc: i32, stride_c: i64,
            d: *mut c_void, d_type: i32, ldd: i32, stride_d: i64, batch: i32,
            compute: i32, algo: i32, solution: i32, flags: u32,
        );
        /// The solutions for a product: without room for them, how many there are.
        fn solutions ["rocblas_gemm_ex_get_solutions", ""] (
            handle: Handle, op_a: i32, op_b: i32, m: i32, n: i32, k: i32, alpha: *const c_void,
            a: *const c_void, a_type: i32, lda: i32, b: *const c_void, b_type: i32, ldb: i32,
            beta: *const c_void, c: *const c_void, c_type: i32, ldc: i32, d: *mut c_void, d_type: i32, ldd: i32,
            compute: i32, algo: i32, flags: u32, list: *mut i32, size: *mut i32,
        );
        /// As above, for several.
        fn solutions_batched ["rocblas_gemm_strided_batched_ex_get_solutions", ""] (
            handle: Handle, op_a: i32, op_b: i32, m: i32, n: i32, k: i32, alpha: *const c_void,
            a: *const c_void, a_type: i32, lda: i32, stride_a: i64, b: *const c_void, b_type: i32, ldb: i32, stride_b: i64,
            beta: *const c_void, c: *const c_void, c_type: i32, ldc: i32, stride_c: i64,
            d: *mut c_void, d_type: i32, ldd: i32, stride_d: i64, batch: i32,
            compute: i32, algo: i32, flags: u32, list: *mut i32, size: *mut i32,
        );
    }
}

/// `rocblas_gemm_algo`: the library's own choice, and the solution whose index is given.
pub const ALGO_STANDARD: i32 = 0;
/// See [`ALGO_STANDARD`].
pub const ALGO_SOLUTION_INDEX: i32 = 1;

/// `rocblas_gemm_flags_check_solution_index`: say whether the solution fits, and run nothing.
pub const FLAG_CHECK_SOLUTION_INDEX: u32 = 8;

/// `rocblas_datatype`.
pub fn data_type(dtype: DType) -> Option<i32> {
    Some(match dtype {
        DType::F16 => 150,
        DType::F32 => 151,
        DType::F64 => 152,
        DType::I8 => 160,
        DType::I32 => 162,
        DType::Bf16 => 168,
        _ => return None,
    })
}

/// The type that products are summed in, as a `rocblas_datatype`: alpha and beta are of it.
pub fn compute_type(compute: Compute) -> Option<i32> {
    match compute {
        Compute::F32 => data_type(DType::F32),
        _ => None,
    }
}

/// `rocblas_operation`.
pub fn operation(transposed: bool) -> i32 {
    111 + i32::from(transposed)
}

/// An opened rocBLAS with a handle on the device that was current then. A handle serves one thread at a time.
pub struct RocBlas {
    table: Table,
    handle: Handle,
    file: PathBuf,
    version: String,
    atomics: Option<bool>,
}

// SAFETY: the handle may be used from any thread, one at a time, which `&mut` or the caller's lock sees to.
unsafe impl Send for RocBlas {}

impl RocBlas {
    /// Opens the library on the current device.
    pub fn open(installation: &mut Installation) -> Result<RocBlas, Absent> {
        let candidates = installation.candidates(Dialect::Hip, Part::Blas);
        // SAFETY: these are the library's own names, or a file that the user says is it.
        let opened = unsafe { load::open(Part::Blas.name(Dialect::Hip), &candidates, |library| RocBlas::of(library)) }?;
        installation.opened(Part::Blas, Dialect::Hip, &opened.file);
        Ok(opened)
    }

    /// # Safety
    /// `library` is rocBLAS, and a device is current.
    unsafe fn of(library: &'static Loaded) -> Result<RocBlas, String> {
        let at = |error: CallError| format!("{}: {error}", library.file().display());
        // SAFETY: the types are those of the headers named at the table.
        let table = unsafe { Table::fill(library, Dialect::Hip) };
        let version = read_version(&table).map_err(at)?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: one handle is written.
        unsafe { table.create(&raw mut handle) }.map_err(at)?;
        let mut mode = 0;
        // SAFETY: one integer is written.
        let atomics = unsafe { table.get_atomics(handle, &raw mut mode) }.ok().map(|()| mode != 0);
        Ok(RocBlas { table, handle, file: library.file().to_owned(), version, atomics })
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

    /// Its version with the revision: `5.2.0.5b515cf1bc`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// May it add sums by atomics? Their order changes the last bits. Allowed by default before ROCm 7.0.
    pub fn atomics(&self) -> Option<bool> {
        self.atomics
    }

    /// The symbols that it lacks.
    pub fn missing(&self) -> Vec<&'static str> {
        self.table.missing()
    }
}

fn read_version(table: &Table) -> Result<String, CallError> {
    /// Longer is no version.
    const BYTES_MAX: usize = 1024;
    let mut bytes = 0usize;
    // SAFETY: one size is written.
    unsafe { table.version_size(&raw mut bytes) }?;
    let mut text = vec![0u8; bytes.clamp(1, BYTES_MAX) + 1];
    // SAFETY: at most the told number of bytes is written.
    unsafe { table.version(text.as_mut_ptr().cast(), text.len() - 1) }?;
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    Ok(String::from_utf8_lossy(&text[..end]).trim().to_owned())
}

impl Drop for RocBlas {
    fn drop(&mut self) {
        // SAFETY: the handle is ours and nothing uses it any more.
        let _ = unsafe { self.table.destroy(self.handle) };
    }
}
