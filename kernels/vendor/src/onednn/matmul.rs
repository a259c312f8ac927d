//! A matrix product made ready to run.

use std::ffi::{c_int, c_void};
use std::ptr::null;
use std::sync::{Mutex, PoisonError};

use super::handle::{CallError, Owned, check};
use super::implementations::{MatmulDescs, name_of};
use super::memory::MemoryDesc;
use super::sys::{self, ExecArg};
use super::{Api, OneDnn};

/// The memory of one run.
#[derive(Clone, Copy, Debug)]
pub struct Pointers {
    /// `src`, read.
    pub src: *const c_void,
    /// `weights`, read.
    pub weights: *const c_void,
    /// `bias`, read; null where there is none.
    pub bias: *const c_void,
    /// `dst`, written.
    pub dst: *mut c_void,
    /// [`Matmul::scratchpad_bytes`] of scratch memory, 64-byte aligned.
    pub scratchpad: *mut c_void,
}

/// A run that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// Before anything was computed.
    #[error("not started: {0}")]
    NotStarted(CallError),
    /// While computing: `dst` may have been written.
    #[error("may have run: {0}")]
    Started(CallError),
}

/// Stream and memory objects kept for concurrent runs of one product; more runs at once make their own.
const SLOTS_MAX: usize = 64;

/// A product ready to run, from any number of threads at once.
pub struct Matmul {
    library: OneDnn,
    primitive: Owned<sys::Primitive>,
    descs: MatmulDescs,
    scratchpad: Option<MemoryDesc>,
    /// Memory objects point to one run's memory, so each run takes a set of its own. Making one costs 0.2-0.5 us an
    /// object, pointing it elsewhere 0.01 us (2.6.3): hence kept.
    slots: Mutex<Vec<Slot>>,
}

/// What one run changes.
struct Slot {
    stream: Owned<sys::Stream>,
    src: Owned<sys::Memory>,
    weights: Owned<sys::Memory>,
    bias: Option<Owned<sys::Memory>>,
    dst: Owned<sys::Memory>,
    scratchpad: Option<Owned<sys::Memory>>,
}

/// The arguments of a run: source, weights, destination, bias, scratchpad.
const ARGS_MAX: usize = 5;

impl Matmul {
    pub(super) fn new(
        library: OneDnn,
        primitive: Owned<sys::Primitive>,
        descs: MatmulDescs,
        scratchpad: Option<MemoryDesc>,
    ) -> Matmul {
        Matmul { library, primitive, descs, scratchpad, slots: Mutex::new(Vec::new()) }
    }

    /// The name of the implementation, read back from the primitive that runs.
    pub fn name(&self) -> Result<String, CallError> {
        let mut desc = null();
        let api = self.library.api();
        // SAFETY: the primitive is alive, and so is the descriptor that it hands out.
        unsafe {
            let status = (api.common.dnnl_primitive_get_primitive_desc)(self.primitive.as_ptr(), &mut desc);
            check("dnnl_primitive_get_primitive_desc", status)?;
            name_of(api, desc)
        }
    }

    /// The layout in which it takes the weights.
    pub fn weights(&self) -> &MemoryDesc {
        &self.descs.weights
    }

    /// Scratch memory that each run needs, bytes.
    pub fn scratchpad_bytes(&self) -> usize {
        self.scratchpad.as_ref().map_or(0, MemoryDesc::bytes)
    }

    /// Computes one product before it returns.
    ///
    /// # Safety
    /// Every pointer holds what its descriptor says for the whole call, `dst` and `scratchpad` used by nobody else.
    pub unsafe fn run(&self, pointers: &Pointers) -> Result<(), RunError> {
        let kept = self.slots.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut slot = match kept {
            Some(slot) => slot,
            None => self.slot().map_err(RunError::NotStarted)?,
        };
        // SAFETY: handed through from the caller.
        let outcome = unsafe { self.run_in(&mut slot, pointers) };
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() < SLOTS_MAX {
            slots.push(slot);
        }
        outcome
    }

    /// # Safety
    /// As [`Matmul::run`].
    unsafe fn run_in(&self, slot: &mut Slot, pointers: &Pointers) -> Result<(), RunError> {
        let common = &self.library.api().common;
        let mut args = [ExecArg { arg: 0, memory: std::ptr::null_mut() }; ARGS_MAX];
        let mut count = 0;
        let mut bind = |arg: c_int, memory: &Owned<sys::Memory>, at: *mut c_void| {
            // SAFETY: the memory object is alive and this run's own.
            let status = unsafe { (common.dnnl_memory_set_data_handle)(memory.as_ptr(), at) };
            check("dnnl_memory_set_data_handle", status).map_err(RunError::NotStarted)?;
            args[count] = ExecArg { arg, memory: memory.as_ptr() };
            count += 1;
            Ok(())
        };
        bind(sys::ARG_SRC, &slot.src, pointers.src.cast_mut())?;
        bind(sys::ARG_WEIGHTS, &slot.weights, pointers.weights.cast_mut())?;
        bind(sys::ARG_DST, &slot.dst, pointers.dst)?;
        if let Some(bias) = &slot.bias {
            bind(sys::ARG_BIAS, bias, pointers.bias.cast_mut())?;
        }
        if let Some(scratchpad) = &slot.scratchpad {
            bind(sys::ARG_SCRATCHPAD, scratchpad, pointers.scratchpad)?;
        }
        let (primitive, stream) = (self.primitive.as_ptr(), slot.stream.as_ptr());
        // SAFETY: every object is alive and bound to memory that the caller vouches for; source, weights and bias are
        // only read. At most ARGS_MAX arguments, which an int holds.
        let status = unsafe { (common.dnnl_primitive_execute)(primitive, stream, count as c_int, args.as_ptr()) };
        check("dnnl_primitive_execute", status).map_err(RunError::Started)?;
        // SAFETY: the stream is alive.
        let status = unsafe { (common.dnnl_stream_wait)(stream) };
        check("dnnl_stream_wait", status).map_err(RunError::Started)
    }

    fn slot(&self) -> Result<Slot, CallError> {
        let api = self.library.api();
        let unbound = |desc: &MemoryDesc| memory(api, desc, std::ptr::null_mut());
        Ok(Slot {
            stream: stream(api)?,
            src: unbound(&self.descs.src)?,
            weights: unbound(&self.descs.weights)?,
            bias: self.descs.bias.as_ref().map(unbound).transpose()?,
            dst: unbound(&self.descs.dst)?,
            scratchpad: self.scratchpad.as_ref().map(unbound).transpose()?,
        })
    }
}

pub(super) fn primitive(
    common: &sys::Common,
    desc: &Owned<sys::PrimitiveDesc>,
) -> Result<Owned<sys::Primitive>, CallError> {
    // SAFETY: the descriptor is alive, the primitive written is ours to destroy.
    unsafe {
        Owned::create("dnnl_primitive_create", common.dnnl_primitive_destroy, |primitive| {
            (common.dnnl_primitive_create)(primitive, desc.as_ptr())
        })
    }
}

pub(super) fn stream(api: &Api) -> Result<Owned<sys::Stream>, CallError> {
    // SAFETY: the engine is alive, the stream written is ours to destroy.
    unsafe {
        Owned::create("dnnl_stream_create", api.common.dnnl_stream_destroy, |stream| {
            (api.common.dnnl_stream_create)(stream, api.engine.as_ptr(), sys::STREAM_DEFAULT)
        })
    }
}

/// A memory object of layout `desc` at `at`; null binds it to nothing yet.
pub(super) fn memory(api: &Api, desc: &MemoryDesc, at: *mut c_void) -> Result<Owned<sys::Memory>, CallError> {
    // SAFETY: descriptor and engine are alive, the object written is ours to destroy; the memory is not touched yet.
    unsafe {
        Owned::create("dnnl_memory_create", api.common.dnnl_memory_destroy, |memory| {
            (api.common.dnnl_memory_create)(memory, desc.as_ptr(), api.engine.as_ptr(), at)
        })
    }
}
