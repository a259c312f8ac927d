//! The run-time compiler: hipRTC or NVRTC.

use std::ffi::{CString, c_char, c_int};
use std::path::{Path, PathBuf};

use super::find::{Installation, Part};
use super::{CallError, Dialect, Handle};
use crate::dialect_table;
use crate::load::{self, Absent, Loaded};

dialect_table! {
    /// The functions of libhiprtc (`hiprtc.h`) and of libnvrtc (`nvrtc.h`).
    pub struct Table {
        /// Its version.
        fn version ["hiprtcVersion", "nvrtcVersion"] (major: *mut c_int, minor: *mut c_int);
        /// A source to compile.
        fn create ["hiprtcCreateProgram", "nvrtcCreateProgram"] (
            program: *mut Handle, source: *const c_char, name: *const c_char, header_count: c_int,
            headers: *const *const c_char, header_names: *const *const c_char,
        );
        /// Frees it.
        fn destroy ["hiprtcDestroyProgram", "nvrtcDestroyProgram"] (program: *mut Handle);
        /// Compiles it.
        fn compile ["hiprtcCompileProgram", "nvrtcCompileProgram"] (program: Handle, count: c_int, options: *const *const c_char);
        /// Length of what the compiler said.
        fn log_size ["hiprtcGetProgramLogSize", "nvrtcGetProgramLogSize"] (program: Handle, bytes: *mut usize);
        /// What the compiler said.
        fn log ["hiprtcGetProgramLog", "nvrtcGetProgramLog"] (program: Handle, text: *mut c_char);
        /// Length of the code.
        fn code_size ["hiprtcGetCodeSize", "nvrtcGetCUBINSize"] (program: Handle, bytes: *mut usize);
        /// The code.
        fn code ["hiprtcGetCode", "nvrtcGetCUBIN"] (program: Handle, code: *mut c_char);
    }
}

/// Most of a compiler's words that are kept.
const LOG_BYTES_MAX: usize = 64 << 10;

/// More code than any kernel has.
const CODE_BYTES_MAX: usize = 256 << 20;

/// Why a source was not compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// A call failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The compiler rejects the source.
    #[error("the source does not compile: {0}")]
    Source(String),
    /// The source, a name or an option holds a zero byte, or the code has no sensible size.
    #[error("{0}")]
    Input(&'static str),
}

/// An opened run-time compiler.
pub struct Rtc {
    dialect: Dialect,
    table: Table,
    file: PathBuf,
    version: (i32, i32),
}

impl Rtc {
    /// Opens the compiler of `dialect`.
    pub fn open(dialect: Dialect, installation: &mut Installation) -> Result<Rtc, Absent> {
        let candidates = installation.candidates(dialect, Part::Rtc);
        // SAFETY: these are the library's own names, or a file that the user says is it.
        unsafe { load::open(Part::Rtc.name(dialect), &candidates, |library| Rtc::of(dialect, library)) }
    }

    /// # Safety
    /// `library` is the compiler of `dialect`.
    unsafe fn of(dialect: Dialect, library: &'static Loaded) -> Result<Rtc, String> {
        // SAFETY: the types are those of the headers named at the table.
        let table = unsafe { Table::fill(library, dialect) };
        let (mut major, mut minor) = (0, 0);
        // SAFETY: two integers are written.
        unsafe { table.version(&raw mut major, &raw mut minor) }
            .map_err(|error| format!("{}: {error}", library.file().display()))?;
        Ok(Rtc { dialect, table, file: library.file().to_owned(), version: (major, minor) })
    }

    /// The file it was loaded from.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Its version: `13.0`.
    pub fn version(&self) -> String {
        format!("{}.{}", self.version.0, self.version.1)
    }

    /// The symbols that it lacks.
    pub fn missing(&self) -> Vec<&'static str> {
        self.table.missing()
    }

    /// The option that names the device: `--offload-arch=gfx942:sramecc+:xnack-`, `-arch=sm_90`.
    pub fn arch_option(&self, arch: &str) -> String {
        format!("{}{arch}", self.dialect.pick("--offload-arch=", "-arch="))
    }

    /// Compiles `source` to code that the runtime can load.
    pub fn compile(&self, source: &str, name: &str, options: &[String]) -> Result<Vec<u8>, CompileError> {
        let zero = |_| CompileError::Input("a zero byte in a source, name or option");
        let (source, name) = (CString::new(source).map_err(zero)?, CString::new(name).map_err(zero)?);
        let options: Vec<CString> =
            options.iter().map(|option| CString::new(option.as_str()).map_err(zero)).collect::<Result<_, _>>()?;
        let mut program = std::ptr::null_mut();
        let none = std::ptr::null();
        // SAFETY: one handle is written; source and name end with zeros; there are no headers.
        unsafe { self.table.create(&raw mut program, source.as_ptr(), name.as_ptr(), 0, none, none) }?;
        let code = self.compiled(program, &options);
        // SAFETY: the program is ours and used no more.
        let _ = unsafe { self.table.destroy(&raw mut program) };
        code
    }

    fn compiled(&self, program: Handle, options: &[CString]) -> Result<Vec<u8>, CompileError> {
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: the program is alive, the options end with zeros.
        if let Err(error) = unsafe { self.table.compile(program, pointers.len() as c_int, pointers.as_ptr()) } {
            let log = self.log(program);
            return Err(if log.is_empty() { error.into() } else { CompileError::Source(log) });
        }
        let mut bytes = 0usize;
        // SAFETY: one size is written.
        unsafe { self.table.code_size(program, &raw mut bytes) }?;
        if bytes == 0 || bytes > CODE_BYTES_MAX {
            return Err(CompileError::Input("the compiler gave no code"));
        }
        let mut code = vec![0u8; bytes];
        // SAFETY: there is room for the told number of bytes.
        unsafe { self.table.code(program, code.as_mut_ptr().cast()) }?;
        Ok(code)
    }

    fn log(&self, program: Handle) -> String {
        let mut bytes = 0usize;
        // SAFETY: one size is written.
        if unsafe { self.table.log_size(program, &raw mut bytes) }.is_err() || bytes > CODE_BYTES_MAX {
            return String::new();
        }
        let mut text = vec![0u8; bytes + 1];
        // SAFETY: there is room for the told number of bytes.
        if unsafe { self.table.log(program, text.as_mut_ptr().cast()) }.is_err() {
            return String::new();
        }
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        String::from_utf8_lossy(&text[..end.min(LOG_BYTES_MAX)]).trim().to_owned()
    }
}
