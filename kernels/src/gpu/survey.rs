//! A look over an output where it lies: [`Survey`] answered by a kernel of ours.

use std::ffi::c_void;

use tgemm_vendor::gpu::rtc::Rtc;
use tgemm_vendor::gpu::{Current, Handle, Runtime};

use super::failed;
use super::kernel::{self, Source};
use crate::survey::Cell;
use crate::{Error, Survey, Surveyed};

const SOURCE: Source =
    Source { file: "survey.hip", text: include_str!("../../hip/survey.hip"), kernel: "tgemm_survey" };

/// What the kernel writes: three numbers that start as "none", and a sum.
const NONE: u64 = u64::MAX;
const REPORT_BYTES: usize = 32;

/// Threads of a block.
const THREADS: u32 = 256;

/// Most blocks along the rows, and cells of a row that one block takes before another helps.
const BLOCKS_MAX: u64 = 4096;
const CELLS_PER_BLOCK: u64 = 8192;

/// Outputs smaller than this are read: a copy of so little is quicker than a launch and a wait.
const BYTES_MIN: usize = 1 << 20;

/// The kernel, loaded on a device.
pub(super) struct Surveyor {
    kernel: Handle,
    report: *mut c_void,
}

// SAFETY: a function handle and a piece of device memory that only this holds.
unsafe impl Send for Surveyor {}

impl Surveyor {
    /// Compiles and loads the kernel.
    pub(super) fn new(runtime: &Runtime, rtc: &Rtc, arch: &str) -> Result<Surveyor, Error> {
        let kernel = kernel::load(runtime, rtc, arch, &SOURCE)?;
        let mut report = std::ptr::null_mut();
        // SAFETY: one pointer is written. The memory lives as long as the process.
        unsafe { runtime.table().malloc(&raw mut report, REPORT_BYTES) }.map_err(failed)?;
        Ok(Surveyor { kernel, report })
    }

    /// Is it worth asking?
    pub(super) fn is_worth_it(survey: &Survey) -> bool {
        survey.rows.saturating_mul(survey.row_bytes) >= BYTES_MIN
    }

    /// Answers `survey` about memory at `base`, after everything enqueued has finished.
    ///
    /// # Safety
    /// `base` is device memory that holds all of `survey`'s rows; `current` is the device of `runtime` that this was made on.
    pub(super) unsafe fn look(
        &self,
        runtime: &Runtime,
        current: &Current,
        base: *const c_void,
        survey: &Survey,
        stream: Handle,
    ) -> Result<Surveyed, Error> {
        runtime.resume(current).map_err(failed)?;
        let start: [u64; 4] = [NONE, NONE, NONE, 0];
        let mut found = start;
        let (mut rows, mut cols, mut row_bytes) = (survey.rows as u64, survey.cols as u64, survey.row_bytes as u64);
        let mut kind: i32 = match survey.cell {
            Cell::F32 => 0,
            Cell::F16 => 1,
            Cell::Bf16 => 2,
        };
        let mut prefill = survey.prefill.map_or(-1, i32::from);
        let mut gap = i32::from(survey.gap);
        let (mut base, mut report) = (base, self.report);
        let mut params: [*mut c_void; 8] = [
            (&raw mut base).cast(),
            (&raw mut rows).cast(),
            (&raw mut cols).cast(),
            (&raw mut row_bytes).cast(),
            (&raw mut kind).cast(),
            (&raw mut prefill).cast(),
            (&raw mut gap).cast(),
            (&raw mut report).cast(),
        ];
        // Gaps are looked at byte by byte, and are short but where a whole piece of memory is one.
        let along = cols.max(row_bytes.saturating_sub(cols * 4)).div_ceil(CELLS_PER_BLOCK);
        let grid = (rows.clamp(1, BLOCKS_MAX) as u32, along.clamp(1, BLOCKS_MAX) as u32);
        let table = runtime.table();
        let nothing = std::ptr::null_mut();
        // SAFETY: the report has room for four words; the parameters are those of the kernel, in its order and types; the
        // host's arrays outlive the wait at the end.
        unsafe {
            table.synchronize().map_err(failed)?;
            runtime.copy_in(self.report, start.as_ptr().cast(), REPORT_BYTES, stream).map_err(failed)?;
            table
                .launch_kernel(self.kernel, grid.0, grid.1, 1, THREADS, 1, 1, 0, stream, params.as_mut_ptr(), nothing)
                .map_err(failed)?;
            runtime.copy_out(found.as_mut_ptr().cast(), self.report, REPORT_BYTES, stream).map_err(failed)?;
            table.stream_synchronize(stream).map_err(failed)?;
        }
        let some = |number: u64| (number != NONE).then_some(number);
        Ok(Surveyed { unwritten: some(found[0]), not_finite: some(found[1]), gap: some(found[2]), digest: found[3] })
    }
}
