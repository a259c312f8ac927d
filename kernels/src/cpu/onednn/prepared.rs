//! A matrix product of oneDNN made ready, and weights packed for it.

use std::ffi::c_void;

use tgemm_db::Solution;
use tgemm_vendor::onednn::{Matmul, MemoryDesc, OneDnn, Pointers, RunError};

use super::call_failed;
use crate::cpu::linear::Linear;
use crate::cpu::memory;
use crate::{Buffer, Error, Launch, Operands, Packed, PackedForm, Prepared, Stream};

/// One implementation, its code generated, for one problem.
pub(super) struct Ready {
    library: OneDnn,
    ran: Solution,
    linear: Linear,
    threads: u32,
    matmul: Matmul,
    packing: Option<Packing>,
}

/// How weights get from the problem's layout to the implementation's.
struct Packing {
    key: String,
    plain: MemoryDesc,
}

impl Ready {
    /// `matmul` was made for `threads` threads; `plain` is the layout in which the problem has the weights.
    pub(super) fn new(
        library: OneDnn,
        linear: Linear,
        threads: u32,
        ran: Solution,
        matmul: Matmul,
        plain: MemoryDesc,
    ) -> Result<Ready, Error> {
        // Whatever the solution is called, weights are packed where their layout is not the problem's.
        let packing = match *matmul.weights() == plain {
            true => None,
            false => Some(Packing { key: pack_key(&matmul, &linear, &ran)?, plain }),
        };
        Ok(Ready { library, ran, linear, threads, matmul, packing })
    }
}

/// The layout in numbers names packed bytes: sizes, type and blocks decide them, whatever M, threads or implementation
/// they were packed for. A layout that numbers do not describe is this very solution's at this M.
fn pack_key(matmul: &Matmul, linear: &Linear, ran: &Solution) -> Result<String, Error> {
    let layout = matmul.weights().layout().map_err(call_failed)?;
    let Linear { m, n, k, .. } = linear;
    let mut key = format!("onednn {k}x{n} in {layout}");
    if !layout.is_blocked() {
        key += &format!(" for {} at M {m}", ran.key());
    }
    Ok(key)
}

impl Prepared for Ready {
    fn ran(&self) -> &Solution {
        &self.ran
    }

    fn workspace_bytes(&self) -> usize {
        self.matmul.scratchpad_bytes()
    }

    fn pack_key(&self) -> Option<&str> {
        self.packing.as_ref().map(|packing| packing.key.as_str())
    }

    unsafe fn pack(&self, w: *const c_void) -> Result<Option<Packed>, Error> {
        let Some(packing) = &self.packing else { return Ok(None) };
        let to = self.matmul.weights();
        let mut buffer = memory::alloc(to.bytes())?;
        let reorder = || {
            // SAFETY: `w` is as the plain layout says by the contract of this method, the buffer is new and as large as
            // the packed layout says.
            unsafe { self.library.reorder(&packing.plain, w, to, buffer.as_mut_ptr()) }
        };
        self.library.with_threads(self.threads, reorder).map_err(call_failed)?;
        Ok(Some(Box::new(Weights(buffer))))
    }

    unsafe fn launch(&self, io: &Operands, _: Stream) -> Result<(), Launch> {
        self.linear.check(io, self.packing.is_some(), self.workspace_bytes())?;
        let pointers = Pointers { src: io.x, weights: io.w, bias: io.bias, dst: io.out, scratchpad: io.workspace };
        let run = || {
            // SAFETY: the contract of this method is what the product asks for: its layouts are the problem's, and the
            // weights' is that of `pack`.
            unsafe { self.matmul.run(&pointers) }
        };
        self.library.with_threads(self.threads, run).map_err(|error| match error {
            RunError::NotStarted(error) => Launch::NotEnqueued(call_failed(error)),
            RunError::Started(error) => Launch::MayHaveRun(call_failed(error)),
        })
    }
}

/// Weights in an implementation's layout.
struct Weights(Buffer);

// SAFETY: the buffer is only read once it is packed.
unsafe impl Sync for Weights {}

impl PackedForm for Weights {
    fn as_ptr(&self) -> *const c_void {
        self.0.as_ptr()
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn duplicate(&self) -> Option<Packed> {
        let mut copy = memory::alloc(self.bytes()).ok()?;
        // SAFETY: both buffers hold that many bytes, and the copy was allocated just now.
        unsafe { std::ptr::copy_nonoverlapping(self.as_ptr().cast::<u8>(), copy.as_mut_ptr().cast(), self.bytes()) };
        Some(Box::new(Weights(copy)))
    }
}
