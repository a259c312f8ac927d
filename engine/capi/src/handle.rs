//! Opaque handles: boxes that C holds.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::status::Failure;

/// Where a new handle is put; NULL until then, so that a caller who closes what it got after a failure closes nothing.
pub(crate) struct Out<T>(*mut *mut T);

/// # Safety
///
/// `pointer` is NULL or can be written to.
pub(crate) unsafe fn out<T>(pointer: *mut *mut T, what: &str) -> Result<Out<T>, Failure> {
    if pointer.is_null() {
        return Err(Failure::null(what));
    }
    // SAFETY: not NULL, so it can be written to.
    unsafe { pointer.write_unaligned(std::ptr::null_mut()) };
    Ok(Out(pointer))
}

impl<T> Out<T> {
    pub(crate) fn put(self, value: T) {
        // SAFETY: as promised to `out`.
        unsafe { self.0.write_unaligned(Box::into_raw(Box::new(value))) };
    }
}

/// What a handle stands for.
///
/// # Safety
///
/// `handle` is NULL or was put by [`Out::put`] and is not closed before the reference is gone.
#[inline]
pub(crate) unsafe fn get<'a, T>(handle: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: as promised by the caller.
    unsafe { handle.as_ref() }.ok_or_else(|| Failure::null(what))
}

/// Drops what a handle stands for.
///
/// # Safety
///
/// `handle` is NULL or was put by [`Out::put`], and is used by nobody any more.
pub(crate) unsafe fn close<T>(handle: *mut T) {
    if !handle.is_null() {
        // Nothing is left to tell the caller; what a drop that panics leaves is lost.
        // SAFETY: made by `Box::into_raw`, and the caller gives it up.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(unsafe { Box::from_raw(handle) })));
    }
}
