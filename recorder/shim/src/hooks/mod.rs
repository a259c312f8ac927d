//! The hooked functions, a file a library; what they share is in `arguments` and `gpu`.
//!
//! A hook does the same everywhere: with nothing to do it calls the real function; else it looks at the arguments, runs a
//! choice if there is one for them, or calls the real function, and counts the call if that was taken. Arguments are passed on
//! as they came, and so is the status.
//!
//! Calls that are known and only have to be counted have a short way of their own, and all else is out of it: beside a real
//! library a call costs what its code and data bring back into the caches, and little of it is to be had there again.

pub mod arguments;
pub mod cblas;
pub mod cublas;
pub mod fortran;
pub mod gpu;
pub mod graphs;
pub mod hipblas;
pub mod lt;
pub mod rocblas;

use crate::apply::Launched;
use crate::cache::{Extent, Key};
use crate::real::Real;
use crate::seen::{InPlace, Seen};
use crate::state::{self, Shim};

/// Forgets what is known of handles: they may have been set up anew, or freed, without us.
pub fn forget_handles() {
    arguments::WORKSPACES.clear();
    lt::COMPUTE_TYPES.clear();
}

/// What a hooked function returns.
pub trait Answer: Copy {
    /// The answer of a choice that ran in the call's place.
    fn of(launched: Launched) -> Self;

    /// Was the call taken?
    fn is_taken(self) -> bool;

    /// The answer where the process has no library with the function: it is in no library's needs, so somebody took our
    /// symbol for theirs.
    fn absent(name: &std::ffi::CStr) -> Self;
}

impl Answer for i32 {
    fn of(launched: Launched) -> i32 {
        launched.status()
    }

    #[inline]
    fn is_taken(self) -> bool {
        self == 0
    }

    /// "Not initialized", or rocBLAS' "invalid handle": 1 in all of these libraries.
    fn absent(_: &std::ffi::CStr) -> i32 {
        1
    }
}

impl Answer for () {
    fn of(_: Launched) {}

    #[inline]
    fn is_taken(self) -> bool {
        true
    }

    fn absent(name: &std::ffi::CStr) {
        // There is no status by which to say it, and to go on with what was not computed would be worse than to end.
        tgemm_recorder::warn(&format!("{} was called, and no library of this process has it", name.to_string_lossy()));
        std::process::abort();
    }
}

/// The function behind a hooked one's name, found at the first call.
macro_rules! real {
    ($name:ident) => {{
        static REAL: $crate::real::Real = {
            const NAME: &std::ffi::CStr =
                match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("a NUL in a function's name"),
                };
            $crate::real::Real::new(NAME)
        };
        &REAL
    }};
}
pub(crate) use real;

/// What a hooked function was called with. It may neither write to what arguments point to nor keep it.
pub trait ArgumentList {
    /// The integers of it.
    type Int: Extent;

    /// The call as the cache knows it, if that holds it; `None` where it cannot be told without asking somebody.
    #[inline]
    fn key(&self, _function: usize) -> Option<Key<Self::Int>> {
        None
    }

    /// Looks the call up that was made of the function `real`, and fills in its operands where choices are applied.
    fn look(&self, shim: &'static Shim, real: &Real, in_place: &mut InPlace) -> Option<Seen>;
}

/// The way of a call that is new, that a choice may run for, or that goes into a capture.
fn at_length<A: Answer>(look: impl FnOnce(&'static Shim, &mut InPlace) -> Option<Seen>, call: impl FnOnce() -> A) -> A {
    let mut in_place = None;
    let seen = state::decide(|shim| look(shim, &mut in_place));
    let launched = match (&seen, &in_place) {
        (Some(seen), Some(in_place)) => state::guarded(|| seen.apply(in_place)),
        _ => None,
    };
    let answer = launched.map_or_else(call, A::of);
    if let Some(seen) = seen
        && answer.is_taken()
    {
        state::guarded(|| {
            seen.count();
            Some(())
        });
    }
    answer
}

/// Defines hooked functions; the expression is the [`ArgumentList`].
macro_rules! hook {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty, $list:expr;)*) => {$(
        #[doc = concat!("`", stringify!($name), "`, hooked.")]
        ///
        /// # Safety
        /// As the library's own.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, clippy::too_many_arguments, reason = "the name and the list are the library's")]
        pub unsafe extern "C-unwind" fn $name($($arg: $ty),*) -> $ret {
            type Function = unsafe extern "C-unwind" fn($($ty),*) -> $ret;
            let real = $crate::hooks::real!($name);
            let Some(address) = real.address() else {
                return <$ret as $crate::hooks::Answer>::absent(real.name());
            };
            // SAFETY: the function behind this name has this type, by the library's header.
            let function = unsafe { std::mem::transmute::<usize, Function>(address) };
            if $crate::state::is_off() {
                // SAFETY: the caller's own arguments.
                return unsafe { function($($arg),*) };
            }
            let Some(_inside) = $crate::guard::enter() else {
                // SAFETY: the caller's own arguments.
                return unsafe { function($($arg),*) };
            };
            // The list is made in each way anew, and without a closure: what both had would lie in memory.
            if let Some(shim) = $crate::seen::counts_only()
                && let Some(key) = $crate::hooks::ArgumentList::key(&$list, address)
                && let Some(known) = $crate::seen::known(shim, &key)
            {
                // SAFETY: the caller's own arguments.
                let answer = unsafe { function($($arg),*) };
                if $crate::hooks::Answer::is_taken(answer) {
                    $crate::state::guarded(|| Some(known.count()));
                }
                return answer;
            }
            // All else, out of the way.
            #[cold]
            #[inline(never)]
            unsafe fn at_length(real: &$crate::real::Real, function: Function, $($arg: $ty),*) -> $ret {
                $crate::hooks::at_length(
                    |shim, in_place| $crate::hooks::ArgumentList::look(&$list, shim, real, in_place),
                    // SAFETY: the caller's own arguments.
                    || unsafe { function($($arg),*) },
                )
            }
            // SAFETY: the caller's own arguments.
            unsafe { at_length(real, function, $($arg),*) }
        }
    )*};
}
pub(crate) use hook;

/// Defines a hooked function that is no product: what follows is run after it was taken; with `before`, the first closure
/// is run before it, and the second after it with what that gave and whether the call was taken.
macro_rules! watch {
    (before $(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> i32, $before:expr, $after:expr;)*) => {$(
        #[doc = concat!("`", stringify!($name), "`, hooked.")]
        ///
        /// # Safety
        /// As the library's own.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the name is the library's")]
        pub unsafe extern "C-unwind" fn $name($($arg: $ty),*) -> i32 {
            type Function = unsafe extern "C-unwind" fn($($ty),*) -> i32;
            let real = $crate::hooks::real!($name);
            let Some(address) = real.address() else {
                return <i32 as $crate::hooks::Answer>::absent(real.name());
            };
            // SAFETY: the function behind this name has this type, by the library's header.
            let function = unsafe { std::mem::transmute::<usize, Function>(address) };
            let inside = if $crate::state::is_off() { None } else { $crate::guard::enter() };
            let known = match inside {
                Some(_) => $crate::state::decide(|_| Some($before())),
                None => None,
            };
            // SAFETY: the caller's own arguments.
            let answer = unsafe { function($($arg),*) };
            if let Some(known) = known {
                $crate::state::decide(|_| {
                    $after(known, answer == 0);
                    Some(())
                });
            }
            answer
        }
    )*};
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> i32, $after:expr;)*) => {
        $crate::hooks::watch! { before $(
            fn $name($($arg: $ty),*) -> i32, || (), |(), is_taken| if is_taken {
                let after = $after;
                after();
            };
        )*}
    };
}
pub(crate) use watch;
