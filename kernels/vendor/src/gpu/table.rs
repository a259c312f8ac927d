//! Structs of optional functions, one struct for both dialects.

/// Declares a table: for each function its field, its symbol in HIP's and in CUDA's library (`""` where that library has
/// none), its arguments. All return a status, 0 for success, as an `i32`.
///
/// The struct has one method a function, which says which symbol is missing or what status came back; `missing`, the
/// symbols that the opened library lacks; and `SYMBOLS`, every symbol with its argument types, for whoever judges them.
#[macro_export]
macro_rules! dialect_table {
    (
        $(#[$meta:meta])*
        $vis:vis struct $table:ident {
            $($(#[$fmeta:meta])* fn $name:ident [$hip:literal, $cuda:literal] ($($arg:ident: $ty:ty),* $(,)?);)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy)]
        #[allow(clippy::type_complexity, reason = "the types are the library's")]
        $vis struct $table {
            dialect: $crate::gpu::Dialect,
            $($name: ::std::option::Option<unsafe extern "C" fn($($ty),*) -> i32>,)*
        }

        impl $table {
            /// Every function: its symbols in HIP's and in CUDA's library, and the types of its arguments.
            pub const SYMBOLS: &'static [(&'static str, &'static str, &'static [&'static str])] =
                &[$(($hip, $cuda, &[$(stringify!($ty)),*])),*];

            /// Looks every symbol of `dialect` up in `library`; what is not there stays empty.
            ///
            /// # Safety
            /// The library's functions of these names have the types declared here.
            $vis unsafe fn fill(library: &'static $crate::load::Loaded, dialect: $crate::gpu::Dialect) -> $table {
                $table {
                    dialect,
                    $($name: match dialect.pick($hip, $cuda) {
                        "" => ::std::option::Option::None,
                        symbol => library.address(symbol).map(|address| {
                            // SAFETY: the address is a function of this type, as the caller vouches.
                            unsafe {
                                ::std::mem::transmute::<
                                    *const ::std::ffi::c_void,
                                    unsafe extern "C" fn($($ty),*) -> i32,
                                >(address)
                            }
                        }),
                    },)*
                }
            }

            /// The symbols of this dialect that the library lacks.
            $vis fn missing(&self) -> ::std::vec::Vec<&'static str> {
                let mut missing = ::std::vec::Vec::new();
                $(
                    let symbol = self.dialect.pick($hip, $cuda);
                    if self.$name.is_none() && !symbol.is_empty() {
                        missing.push(symbol);
                    }
                )*
                missing
            }

            $(
                $(#[$fmeta])*
                ///
                /// # Safety
                /// As the library's own documentation of the call says.
                #[allow(clippy::too_many_arguments, reason = "the arguments are the library's")]
                #[inline]
                $vis unsafe fn $name(&self, $($arg: $ty),*) -> ::std::result::Result<(), $crate::gpu::CallError> {
                    let call = self.dialect.pick($hip, $cuda);
                    let Some(function) = self.$name else { return Err($crate::gpu::CallError::Missing(call)) };
                    // SAFETY: the contract of this method.
                    match unsafe { function($($arg),*) } {
                        0 => Ok(()),
                        status => Err($crate::gpu::CallError::Status { call, status }),
                    }
                }
            )*
        }
    };
}
