//! What stands between two launches of a product while they are timed: small kernels of another kind, as in an engine.
//!
//! One solution after itself is not what an engine runs. There, a solution of two kernels (a product in parts, and their sum)
//! hides its second one behind the next launch of its first; before another kernel it does not, and has one gap more. And
//! there other kernels' code has been through the instruction caches since (`docs/results/h200.md`).

use std::ffi::c_void;
use std::sync::OnceLock;

use tgemm_vendor::gpu::rtc::Rtc;
use tgemm_vendor::gpu::{CallError, Dialect, Handle, Runtime};

use super::failed;
use super::kernel::{self, Source};
use crate::{Between, Error};

const SMALL: Source =
    Source { file: "between.hip", text: include_str!("../../hip/between.hip"), kernel: "tgemm_between" };
const WALK: Source = Source { file: "walk.hip", text: include_str!("../../hip/walk.hip"), kernel: "tgemm_walk" };

/// Between launches, where nobody says how many: with fewer than four a split product kept its advantage on an H200, with more
/// nothing changed. None on AMD's devices, where nobody has measured.
fn usual(dialect: Dialect) -> u32 {
    dialect.pick(0, 4)
}

/// Streams that a process is to have used, where nobody says how many. On an H200 each kernel of a graph starts 0.2 to 0.5 us
/// later in a process that has used 7 to 16 of them or more, the second kernel of a split product 0.6 us, and PyTorch with a
/// graph is such a process. None on AMD's devices, where nobody has measured.
fn streams_usual(dialect: Dialect) -> u32 {
    dialect.pick(0, 32)
}

/// Threads of the small kernel's one block.
const SMALL_THREADS: u32 = 64;
/// Threads of each block of the walk: one group of 32 for each of NVIDIA's four schedulers.
const WALK_THREADS: u32 = 128;

/// What is enqueued once: kernels, the first of them the walk if that is here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Spacing {
    pub(super) kernels: u32,
    pub(super) walk: Option<Handle>,
}

/// The kernels on a device.
pub(super) struct Spacer {
    rtc: Rtc,
    arch: String,
    small: Handle,
    /// Compiled when it is first asked for, which it seldom is.
    walk: OnceLock<Handle>,
    /// Blocks that the walk needs so that every compute unit runs one.
    walk_blocks: u32,
    /// A float for each thread; what is in it does not matter.
    scratch: *mut c_void,
}

// SAFETY: a library, function handles and a piece of device memory that only their kernels use.
unsafe impl Send for Spacer {}

impl Spacer {
    pub(super) fn new(runtime: &Runtime, rtc: Rtc, arch: String, compute_units: u32) -> Result<Spacer, Error> {
        let small = kernel::load(runtime, &rtc, &arch, &SMALL)?;
        let mut scratch = std::ptr::null_mut();
        // SAFETY: one pointer is written. The memory lives as long as the process.
        unsafe { runtime.table().malloc(&raw mut scratch, WALK_THREADS as usize * size_of::<f32>()) }
            .map_err(failed)?;
        Ok(Spacer { rtc, arch, small, walk: OnceLock::new(), walk_blocks: compute_units.max(1), scratch })
    }

    /// What `between` comes to on this device, ready to be enqueued. Not to be called while anything is captured.
    pub(super) fn spacing(&self, runtime: &Runtime, between: Between) -> Result<Spacing, Error> {
        let kernels = between.kernels.unwrap_or_else(|| usual(runtime.dialect()));
        let walk = if between.cold_code && kernels > 0 { Some(self.walk(runtime)?) } else { None };
        Ok(Spacing { kernels, walk })
    }

    fn walk(&self, runtime: &Runtime) -> Result<Handle, Error> {
        if let Some(walk) = self.walk.get() {
            return Ok(*walk);
        }
        let walk = kernel::load(runtime, &self.rtc, &self.arch, &WALK)?;
        Ok(*self.walk.get_or_init(|| walk))
    }

    /// Runs one small kernel in each of `count` streams. All are there at once: one that was given back is given out again.
    pub(super) fn use_streams(&self, runtime: &Runtime, count: Option<u32>) -> Result<(), Error> {
        let count = count.unwrap_or_else(|| streams_usual(runtime.dialect()));
        let small = Spacing { kernels: 1, walk: None };
        let mut streams = Vec::new();
        let used = (0..count).try_for_each(|_| {
            let stream = runtime.stream()?;
            streams.push(stream);
            // SAFETY: the stream was just made on the device of the kernels.
            unsafe { self.launch(runtime, stream, small) }
        });
        let ended = streams.into_iter().map(|stream| {
            // SAFETY: the stream is ours, and used no more once it has been waited for.
            unsafe { runtime.table().stream_synchronize(stream).and(runtime.table().stream_destroy(stream)) }
        });
        used.and(ended.fold(Ok(()), Result::and)).map_err(failed)
    }

    /// Enqueues that once.
    ///
    /// # Safety
    /// `stream` is a stream of the device of `runtime` that this was made on.
    pub(super) unsafe fn launch(&self, runtime: &Runtime, stream: Handle, spacing: Spacing) -> Result<(), CallError> {
        let mut scratch = self.scratch;
        let mut params: [*mut c_void; 1] = [(&raw mut scratch).cast()];
        for at in 0..spacing.kernels {
            let (kernel, blocks, threads) = match spacing.walk {
                Some(walk) if at == 0 => (walk, self.walk_blocks, WALK_THREADS),
                _ => (self.small, 1, SMALL_THREADS),
            };
            let (params, nothing) = (params.as_mut_ptr(), std::ptr::null_mut());
            // SAFETY: both kernels have one parameter, a pointer to as many floats as a block has threads; it is copied by
            // the call.
            unsafe { runtime.table().launch_kernel(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, params, nothing) }?;
        }
        Ok(())
    }
}
