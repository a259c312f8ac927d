//! The status layer: a status is an error with the call's name, a handle is owned by one value and freed with it.

use std::ptr::NonNull;

use super::sys::{self, Status};

/// A call of oneDNN that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call} failed: {}", self.reason())]
pub struct CallError {
    /// The C function.
    pub call: &'static str,
    /// What it returned, `dnnl_status_t`.
    pub status: Status,
}

impl CallError {
    /// The status in words.
    pub fn reason(&self) -> String {
        let known = usize::try_from(self.status).ok().and_then(|at| sys::STATUS_NAMES.get(at));
        known.map_or_else(|| format!("status {}", self.status), |name| (*name).to_owned())
    }

    /// Does no implementation take what was described?
    pub fn is_unimplemented(&self) -> bool {
        self.status == sys::UNIMPLEMENTED
    }

    /// Does the description itself not hold for this version: sizes that do not fit, types it does not pair?
    pub fn is_refused(&self) -> bool {
        self.status == sys::INVALID_ARGUMENTS
    }

    /// Was there no memory?
    pub fn is_out_of_memory(&self) -> bool {
        self.status == sys::OUT_OF_MEMORY
    }
}

/// A status of `call` as a result.
pub(super) fn check(call: &'static str, status: Status) -> Result<(), CallError> {
    if status == sys::SUCCESS { Ok(()) } else { Err(CallError { call, status }) }
}

/// An object of the library, destroyed with this.
pub(super) struct Owned<T> {
    ptr: NonNull<T>,
    destroy: unsafe extern "C" fn(*mut T) -> Status,
}

impl<T> Owned<T> {
    /// The object that `create`, the function named `call`, writes.
    ///
    /// # Safety
    /// On success `create` writes an object that nobody else owns and that `destroy` frees.
    pub(super) unsafe fn create(
        call: &'static str,
        destroy: unsafe extern "C" fn(*mut T) -> Status,
        create: impl FnOnce(*mut *mut T) -> Status,
    ) -> Result<Owned<T>, CallError> {
        let mut ptr = std::ptr::null_mut();
        check(call, create(&mut ptr))?;
        // SAFETY: handed through from the caller.
        unsafe { Owned::take(call, destroy, ptr) }
    }

    /// Takes over the object at `ptr`; null is a runtime error of `call`.
    ///
    /// # Safety
    /// The object, if any, is nobody else's, and `destroy` frees it.
    pub(super) unsafe fn take(
        call: &'static str,
        destroy: unsafe extern "C" fn(*mut T) -> Status,
        ptr: *mut T,
    ) -> Result<Owned<T>, CallError> {
        let ptr = NonNull::new(ptr).ok_or(CallError { call, status: sys::RUNTIME_ERROR })?;
        Ok(Owned { ptr, destroy })
    }

    pub(super) fn as_ptr(&self) -> *mut T {
        self.ptr.as_ptr()
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: this is the only owner, and the library stays loaded for the life of the process.
        unsafe { (self.destroy)(self.ptr.as_ptr()) };
    }
}

// SAFETY: oneDNN's objects belong to no thread; those that change under use (memory, stream, iterator, the descriptor
// that moves on) are only ever reached through `&mut` or under a lock, the others are constant once made.
unsafe impl<T> Send for Owned<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Owned<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_call_and_the_status() {
        let text = |status| check("dnnl_memory_create", status).unwrap_err().to_string();
        assert_eq!(text(2), "dnnl_memory_create failed: invalid arguments");
        assert_eq!(text(77), "dnnl_memory_create failed: status 77");
        assert!(check("dnnl_memory_create", 0).is_ok());
    }
}
