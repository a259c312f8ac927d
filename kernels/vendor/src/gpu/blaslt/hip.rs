//! hipBLASLt's solutions by index.
//!
//! The first 32 bits of `hipblasLtMatmulAlgo_t` are the solution's index; everything behind them belongs to the library
//! (a fallback flag, the workspace), so an algorithm is kept whole and used whole on the very build that gave it.

use std::ffi::{c_int, c_void};

use super::{Algo, BlasLt, Dialect};
use crate::load::Loaded;

/// `int getIndexFromAlgo(hipblasLtMatmulAlgo_t&)`, 6.0 and later.
const INDEX: &str = "_ZN13hipblaslt_ext16getIndexFromAlgoER22_hipblasLtMatmulAlgo_t";

/// `std::string getSolutionNameFromAlgo(hipblasLtHandle_t, hipblasLtMatmulAlgo_t&)`, 6.1 and later.
const SOLUTION_NAME: &str = "_ZN13hipblaslt_ext23getSolutionNameFromAlgoB5cxx11EPvR22_hipblasLtMatmulAlgo_t";

/// `std::string getKernelNameFromAlgo(hipblasLtHandle_t, hipblasLtMatmulAlgo_t&)`, 6.1 and later.
const KERNEL_NAME: &str = "_ZN13hipblaslt_ext21getKernelNameFromAlgoB5cxx11EPvR22_hipblasLtMatmulAlgo_t";

/// `operator delete(void*)` of the C++ runtime that the library uses.
const DELETE: &str = "_ZdlPv";

/// Longest name that is kept.
const NAME_BYTES_MAX: usize = 4096;

/// libstdc++'s `std::string`: where its bytes are, how many, and room for 15 of them in place. Returned through a pointer.
#[repr(C)]
struct CxxString {
    data: *mut u8,
    len: usize,
    in_place: [u8; 16],
}

type NameOf = unsafe extern "C" fn(*mut CxxString, *mut c_void, *mut c_void) -> *mut CxxString;

/// The C++ functions that return no status, where the library has them.
#[derive(Clone, Copy)]
pub struct Names {
    index: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    solution: Option<NameOf>,
    kernel: Option<NameOf>,
    delete: Option<unsafe extern "C" fn(*mut c_void)>,
}

impl Names {
    /// # Safety
    /// `library` is the one of `dialect`.
    pub(super) unsafe fn fill(library: &'static Loaded, dialect: Dialect) -> Names {
        if dialect == Dialect::Cuda {
            return Names { index: None, solution: None, kernel: None, delete: None };
        }
        let name_of = |symbol| {
            // SAFETY: a C++ function that returns a class with a destructor takes a pointer to room for it first.
            library.address(symbol).map(|address| unsafe { std::mem::transmute::<*const c_void, NameOf>(address) })
        };
        Names {
            // SAFETY: a reference is a pointer, the result an `int`.
            index: library.address(INDEX).map(|address| unsafe {
                std::mem::transmute::<*const c_void, unsafe extern "C" fn(*mut c_void) -> c_int>(address)
            }),
            solution: name_of(SOLUTION_NAME),
            kernel: name_of(KERNEL_NAME),
            // SAFETY: `void operator delete(void*)`.
            delete: library.address_as_bound(DELETE).map(|address| unsafe {
                std::mem::transmute::<*const c_void, unsafe extern "C" fn(*mut c_void)>(address)
            }),
        }
    }

    pub(super) fn missing(&self, dialect: Dialect) -> Vec<&'static str> {
        if dialect == Dialect::Cuda {
            return Vec::new();
        }
        let found = [
            (self.index.is_some(), INDEX),
            (self.solution.is_some(), SOLUTION_NAME),
            (self.kernel.is_some(), KERNEL_NAME),
            (self.delete.is_some(), DELETE),
        ];
        found.into_iter().filter(|(found, _)| !found).map(|(_, symbol)| symbol).collect()
    }
}

impl BlasLt {
    /// The solution index in `algo`, as the library reads it.
    pub fn index_of(&self, algo: &Algo) -> i32 {
        let mut algo = *algo;
        match self.names.index {
            // SAFETY: the algorithm has its 24 bytes; the function reads the first four.
            Some(index) => unsafe { index(algo.as_mut_ptr()) },
            None => algo.first(),
        }
    }

    /// `algo` with another solution's index.
    pub fn with_index(&self, algo: &Algo, index: i32) -> Algo {
        let mut algo = *algo;
        algo.set_first(index);
        algo
    }

    /// The solution's name; the kernel's where the library knows only that; empty where it knows neither.
    pub fn name_of(&self, algo: &Algo) -> String {
        let named = |function: Option<NameOf>| self.call_for_name(function?, algo).filter(|name| !name.is_empty());
        named(self.names.solution).or_else(|| named(self.names.kernel)).unwrap_or_default()
    }

    fn call_for_name(&self, function: NameOf, algo: &Algo) -> Option<String> {
        // Without a way to free it, nothing is asked.
        let delete = self.names.delete?;
        let mut algo = *algo;
        let mut text = CxxString { data: std::ptr::null_mut(), len: 0, in_place: [0; 16] };
        let in_place = (&raw const text.in_place).cast::<u8>();
        // SAFETY: the function constructs a string in the room given; the algorithm has its 24 bytes.
        unsafe { function(&raw mut text, self.handle, algo.as_mut_ptr()) };
        if text.data.is_null() {
            return None;
        }
        // SAFETY: a constructed string has `len` bytes at `data`.
        let bytes = unsafe { std::slice::from_raw_parts(text.data, text.len.min(NAME_BYTES_MAX)) };
        let name = String::from_utf8_lossy(bytes).into_owned();
        if text.data.cast_const() != in_place {
            // SAFETY: a long string's bytes were allocated with the C++ runtime's `operator new`.
            unsafe { delete(text.data.cast()) };
        }
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::mem::offset_of;
    use std::process::{Command, Stdio};

    /// What `hipblaslt-ext.hpp` (ROCm 6.1 to 7.1) declares, with the types of `hipblaslt.h` as far as names carry them.
    const DECLARED: &str = r#"
        #include <cstddef>
        #include <string>
        struct hipblasLtMatmulDescOpaque_t;
        struct hipblasLtMatrixLayoutOpaque_t;
        struct _hipblasLtMatmulAlgo_t;
        enum hipblasStatus_t : int;
        typedef void* Handle;
        typedef hipblasLtMatmulDescOpaque_t* Desc;
        typedef hipblasLtMatrixLayoutOpaque_t* Layout;
        typedef _hipblasLtMatmulAlgo_t& Algo;
        namespace hipblaslt_ext {
            int getIndexFromAlgo(Algo) { return 0; }
            std::string getSolutionNameFromAlgo(Handle, Algo) { return ""; }
            std::string getKernelNameFromAlgo(Handle, Algo) { return ""; }
            hipblasStatus_t matmulIsAlgoSupported(
                Handle, Desc, const void*, Layout, Layout, const void*, Layout, Layout, Algo, size_t&) { return {}; }
        }
        void (*freed)(void*) = ::operator delete;
        static_assert(sizeof(std::string) == STRING_BYTES, "std::string");
    "#;

    /// Assembly of [`DECLARED`], or `None` where there is no C++ compiler for libstdc++.
    fn compiled() -> Option<String> {
        let mut compiler = Command::new("c++")
            .args(["-std=c++17", "-S", "-o", "-", "-x", "c++", "-"])
            .arg(format!("-DSTRING_BYTES={}", size_of::<CxxString>()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        compiler.stdin.take()?.write_all(DECLARED.as_bytes()).unwrap();
        let output = compiler.wait_with_output().unwrap();
        assert!(output.status.success(), "c++ does not compile the declarations");
        Some(String::from_utf8(output.stdout).unwrap())
    }

    #[test]
    fn a_compiler_mangles_the_declarations_to_our_symbols() {
        let Some(assembly) = compiled() else {
            eprintln!("skipped: no c++ here to mangle names");
            return;
        };
        let supported = super::super::Table::SYMBOLS.iter().find(|s| s.0.contains("matmulIsAlgoSupported")).unwrap();
        for symbol in [INDEX, SOLUTION_NAME, KERNEL_NAME, supported.0] {
            assert!(assembly.contains(&format!("\n{symbol}:")), "no {symbol} in\n{assembly}");
        }
        assert!(assembly.contains(DELETE), "no {DELETE} in\n{assembly}");
        assert_eq!(supported.2.len(), 10, "a handle, a descriptor, two factors, four layouts, an algorithm, a size");
    }

    #[test]
    fn the_string_is_where_libstdcxx_keeps_it() {
        // `basic_string` of the new ABI: pointer, length, then 16 bytes in place or the capacity.
        assert_eq!(offset_of!(CxxString, data), 0);
        assert_eq!(offset_of!(CxxString, len), 8);
        assert_eq!((offset_of!(CxxString, in_place), size_of::<CxxString>()), (16, 32));
    }
}
