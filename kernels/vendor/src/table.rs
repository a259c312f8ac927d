//! Structs of function pointers, filled symbol by symbol.

/// A symbol that a table needs and a library lacks: it is another library, or too old.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it has no symbol {symbol}")]
pub struct MissingSymbol {
    /// The symbol's name.
    pub symbol: &'static str,
}

/// Declares a struct of C function pointers: a plain field for each `required` symbol, an `Option` for each `optional`
/// one, each named as the symbol is. `unsafe fn fill(&Loaded)` looks them all up and names the first required one that
/// is missing.
///
/// ```
/// tgemm_vendor::symbol_table! {
///     /// Some of libm.
///     pub struct Maths {
///         required {
///             fn cos(x: f64) -> f64;
///         }
///         optional {
///             fn cosq_from_the_future(x: f64) -> f64;
///         }
///     }
/// }
/// # use tgemm_vendor::{Candidate, load};
/// let sonames = Candidate::sonames(&["libm.so.6"]);
/// // SAFETY: libm's functions have these types.
/// let maths = unsafe { load::open("maths", &sonames, |lib| Maths::fill(lib).map_err(|e| e.to_string())) };
/// let maths = maths.expect("every glibc system has libm");
/// // SAFETY: cos takes any number.
/// assert_eq!(unsafe { (maths.cos)(0.0) }, 1.0);
/// assert!(maths.cosq_from_the_future.is_none());
/// ```
#[macro_export]
macro_rules! symbol_table {
    (
        $(#[$meta:meta])*
        $vis:vis struct $table:ident {
            required { $(fn $required:ident($($rarg:ident: $rty:ty),* $(,)?) $(-> $rret:ty)?;)* }
            optional { $(fn $optional:ident($($oarg:ident: $oty:ty),* $(,)?) $(-> $oret:ty)?;)* }
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy)]
        #[allow(clippy::type_complexity, reason = "the types are the library's")]
        $vis struct $table {
            $(
                #[doc = concat!("The library's `", stringify!($required), "`.")]
                $vis $required: unsafe extern "C" fn($($rarg: $rty),*) $(-> $rret)?,
            )*
            $(
                #[doc = concat!("The library's `", stringify!($optional), "`, where it has it.")]
                $vis $optional: Option<unsafe extern "C" fn($($oarg: $oty),*) $(-> $oret)?>,
            )*
        }

        impl $table {
            /// Looks every symbol up in `library`.
            ///
            /// # Safety
            /// The library's functions of these names have the types declared here.
            $vis unsafe fn fill(
                library: &'static $crate::load::Loaded,
            ) -> ::std::result::Result<$table, $crate::table::MissingSymbol> {
                $(
                    let $required = library
                        .address(stringify!($required))
                        .ok_or($crate::table::MissingSymbol { symbol: stringify!($required) })?;
                )*
                ::std::result::Result::Ok($table {
                    $(
                        // SAFETY: the address is a function of this type, as the caller vouches.
                        $required: unsafe {
                            ::std::mem::transmute::<
                                *const ::std::ffi::c_void,
                                unsafe extern "C" fn($($rarg: $rty),*) $(-> $rret)?,
                            >($required)
                        },
                    )*
                    $(
                        $optional: library.address(stringify!($optional)).map(|address| {
                            // SAFETY: as above.
                            unsafe {
                                ::std::mem::transmute::<
                                    *const ::std::ffi::c_void,
                                    unsafe extern "C" fn($($oarg: $oty),*) $(-> $oret)?,
                                >(address)
                            }
                        }),
                    )*
                })
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use crate::load::{self, Candidate};

    symbol_table! {
        struct Wrong {
            required {
                fn cos(x: f64) -> f64;
                fn no_such_function();
            }
            optional {}
        }
    }

    #[test]
    fn a_missing_required_symbol_is_named() {
        let candidates = [Candidate::Soname("libm.so.6".into())];
        // SAFETY: `cos` is declared as libm has it, and nothing is called.
        let table = unsafe { load::open("maths", &candidates, |lib| Wrong::fill(lib).map_err(|e| e.to_string())) };
        let absent = table.map(|table| (table.cos, table.no_such_function)).unwrap_err();
        assert_eq!(absent.to_string(), "maths is absent: libm.so.6 (it has no symbol no_such_function)");
    }
}
