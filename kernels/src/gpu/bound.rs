//! A BLAS handle and where its launches go, so that it is told only of changes.

use std::ffi::c_void;

use tgemm_vendor::gpu::cublas::CuBlas;
use tgemm_vendor::gpu::rocblas::RocBlas;
use tgemm_vendor::gpu::{CallError, Handle};

/// A library whose one handle keeps a stream and a workspace.
pub(super) trait Bind {
    /// # Safety
    /// `stream` is the current device's; `workspace` holds `bytes` bytes for every launch until the next call.
    unsafe fn set(&self, stream: Handle, workspace: *mut c_void, bytes: usize) -> Result<(), CallError>;
}

macro_rules! bind {
    ($library:ty) => {
        impl Bind for $library {
            unsafe fn set(&self, stream: Handle, workspace: *mut c_void, bytes: usize) -> Result<(), CallError> {
                // The stream first: setting it makes cuBLAS forget the workspace.
                // SAFETY: the contract of this method.
                unsafe { self.table().set_stream(self.handle(), stream) }?;
                if bytes > 0 {
                    // SAFETY: as above.
                    unsafe { self.table().set_workspace(self.handle(), workspace, bytes) }?;
                }
                Ok(())
            }
        }
    };
}

bind!(CuBlas);
bind!(RocBlas);

/// A library, and what its handle was told last.
pub(super) struct Bound<L> {
    pub(super) library: L,
    to: Option<(Handle, *mut c_void, usize)>,
}

// SAFETY: the pointers are values to compare with, and the handle goes with the lock.
unsafe impl<L: Send> Send for Bound<L> {}

impl<L: Bind> Bound<L> {
    pub(super) fn new(library: L) -> Bound<L> {
        Bound { library, to: None }
    }

    /// # Safety
    /// As [`Bind::set`].
    pub(super) unsafe fn bind(
        &mut self,
        stream: Handle,
        workspace: *mut c_void,
        bytes: usize,
    ) -> Result<(), CallError> {
        let to = Some((stream, workspace, bytes));
        if self.to != to {
            self.to = None;
            // SAFETY: the contract of this method.
            unsafe { self.library.set(stream, workspace, bytes) }?;
            self.to = to;
        }
        Ok(())
    }
}
