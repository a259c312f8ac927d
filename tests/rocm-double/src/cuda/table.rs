//! Tables of NVIDIA's functions, filled from a shared library when CUDA mode starts.

use std::ffi::c_void;

use libloading::Library;

/// The first of `names` that the loader finds. It stays open: function pointers are taken from it.
pub fn open(names: &[&str]) -> Result<&'static Library, String> {
    let mut tried = Vec::new();
    for name in names {
        // SAFETY: NVIDIA's own names; their initialisers are what CUDA programs run.
        match unsafe { Library::new(*name) } {
            Ok(library) => return Ok(Box::leak(Box::new(library))),
            Err(error) => tried.push(error.to_string()),
        }
    }
    Err(tried.join("; "))
}

/// The address of a function.
pub fn address(library: &Library, symbol: &str) -> Result<*const c_void, String> {
    // SAFETY: taken as an untyped address and not used here.
    let found = unsafe { library.get::<*const c_void>(symbol) }.map_err(|error| format!("{symbol}: {error}"))?;
    Ok(*found)
}

/// Declares a table: its name, how its statuses are translated, and its functions. Pointers are addresses.
macro_rules! table {
    ($(#[$doc:meta])* $table:ident, $translated:expr;
     $(fn $method:ident = $symbol:literal ($($arg:ident: $type:ty),* $(,)?);)*) => {
        $(#[$doc])*
        pub struct $table {
            $($method: unsafe extern "C" fn($($type),*) -> i32,)*
        }

        #[allow(dead_code, clippy::too_many_arguments, reason = "the lists are the library's")]
        impl $table {
            /// From the first of the libraries `names` that is there.
            pub fn load(names: &[&str]) -> Result<$table, String> {
                let library = crate::cuda::table::open(names)?;
                Ok($table {
                    $($method: {
                        let address = crate::cuda::table::address(library, $symbol)?;
                        // SAFETY: the type is the header's, with addresses for pointers.
                        unsafe {
                            std::mem::transmute::<*const std::ffi::c_void, unsafe extern "C" fn($($type),*) -> i32>(address)
                        }
                    },)*
                })
            }

            $(pub fn $method(&self, $($arg: $type),*) -> crate::abi::Answer {
                // SAFETY: addresses are ours, or those that the C caller vouches for under the same contract.
                match unsafe { (self.$method)($($arg),*) } {
                    0 => Ok(()),
                    status => Err($translated(status)),
                }
            })*
        }
    };
}
pub(crate) use table;
