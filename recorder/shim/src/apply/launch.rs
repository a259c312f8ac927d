//! A call of the host's as one of ours.

use std::ffi::c_void;

use tgemm_kernels::Operands;
use tgemm_vendor::gpu::Handle;

/// Where a call's operands are, and where it goes.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    /// Matrices, factors, workspace.
    pub io: Operands,
    /// The stream.
    pub stream: Handle,
    /// What the host's library says where an execution failed.
    pub failed_status: i32,
}

/// What became of a call that ran a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launched {
    /// It is on its stream.
    Enqueued,
    /// It may have run in part: this is the status for the host.
    Failed(i32),
}

impl Launched {
    /// The status for the host.
    pub fn status(self) -> i32 {
        match self {
            Launched::Enqueued => 0,
            Launched::Failed(status) => status,
        }
    }
}

/// The 32-bit factors at alpha and beta.
///
/// # Safety
/// They are readable.
pub unsafe fn factors(alpha: *const c_void, beta: *const c_void) -> Option<[f32; 2]> {
    if alpha.is_null() || beta.is_null() {
        return None;
    }
    // SAFETY: the contract of this function.
    Some(unsafe { [alpha.cast::<f32>().read_unaligned(), beta.cast::<f32>().read_unaligned()] })
}
