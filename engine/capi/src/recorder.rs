//! Recording what an engine runs.

use std::ffi::c_char;
use std::sync::OnceLock;

use tgemm_db::Via;
use tgemm_recorder::{Asked, Recorder, RecorderOptions};

use crate::handle;
use crate::problem::{self, TgemmProblem};
use crate::status::{Failure, TgemmStatus, guarded};
use crate::text::text;
use crate::versioned::{self, versioned};
use crate::words::{self, flag};

/// How a problem was asked for. Every field but size may stay 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TgemmCall {
    /// sizeof(TgemmCall).
    pub size: usize,
    /// A TgemmVia.
    pub via: u32,
    /// 1: it went into a graph.
    pub captured: u32,
    /// How many calls this stands for, at most 4294967295; 0 is one.
    pub calls: u64,
    /// 1: workspace_bytes_max holds; 0: it is not known.
    pub has_workspace_max: u32,
    /// Must be 0.
    pub reserved: u32,
    /// The most scratch memory that the caller allowed.
    pub workspace_bytes_max: u64,
}

versioned!(TgemmCall, least size, [via, captured, calls, has_workspace_max, reserved, workspace_bytes_max]);

/// Calls that one count may stand for: so few that no number of counts that can be made overflows a sum.
const CALLS_MAX: u64 = u32::MAX as u64;

/// Counts the problems that an engine runs, and writes them to a file for the tuner. Any number of threads may use it.
pub struct TgemmRecorder {
    held: Held,
}

/// Whose recorder it is.
enum Held {
    Own(Recorder),
    OfProcess(&'static Recorder),
}

impl TgemmRecorder {
    #[inline]
    fn recorder(&self) -> &Recorder {
        match &self.held {
            Held::Own(recorder) => recorder,
            Held::OfProcess(recorder) => recorder,
        }
    }
}

/// The handle of the recorder of the process: not one to close.
static GLOBAL: OnceLock<Option<TgemmRecorder>> = OnceLock::new();

/// The recorder of this process, or NULL if the environment asks for none: ask once, and record where it is not NULL.
///
/// TGEMM_TUNE=1 switches it on, TGEMM_UNTUNED says where to. It writes what is left at a normal exit, and is not closed.
#[unsafe(no_mangle)]
pub extern "C" fn tgemm_recorder_global() -> *mut TgemmRecorder {
    let mut found = std::ptr::null_mut();
    guarded(|| {
        let open = || Recorder::global().map(|recorder| TgemmRecorder { held: Held::OfProcess(recorder) });
        // Only shared references are ever made of it.
        found = GLOBAL.get_or_init(open).as_ref().map_or(found, |handle| std::ptr::from_ref(handle).cast_mut());
        Ok(())
    });
    found
}

/// Opens a recorder that writes to path: a name that ends in .csv is one file, which several processes may share, any other a
/// folder with a file for each process. It touches no file before the first problem, and never fails for want of one: what
/// cannot be written is kept in memory and tried again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgemm_recorder_open(path: *const c_char, recorder: *mut *mut TgemmRecorder) -> TgemmStatus {
    guarded(|| {
        // SAFETY: the header's rules of pointers.
        let (out, path) = unsafe { (handle::out(recorder, "recorder")?, text(path, "path")?) };
        if path.is_empty() {
            return Err(Failure::value("path is empty; it is a .csv file or a folder"));
        }
        out.put(TgemmRecorder { held: Held::Own(Recorder::open(RecorderOptions::to(path))) });
        Ok(())
    })
}

/// Writes what is left and closes a recorder; NULL and that of the process are left alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgemm_recorder_close(recorder: *mut TgemmRecorder) {
    let global = GLOBAL.get().and_then(Option::as_ref).map(std::ptr::from_ref);
    if global != Some(recorder.cast_const()) {
        // SAFETY: the header's rules of handles.
        unsafe { handle::close(recorder) }
    }
}

/// Counts a call of a problem; call may be NULL: one call, of which nothing more is known. A problem that was seen before
/// takes no lock, no allocation and no system call. TGEMM_STATUS_FULL: there are too many different ones.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgemm_record(
    recorder: *const TgemmRecorder,
    problem: *const TgemmProblem,
    call: *const TgemmCall,
) -> TgemmStatus {
    guarded(|| {
        // SAFETY: the header's rules of pointers and handles.
        let (recorder, problem, call) = unsafe {
            (handle::get(recorder, "recorder")?.recorder(), problem::given(problem)?, versioned::read_or_default(call)?)
        };
        if call.reserved != 0 {
            return Err(Failure::value("TgemmCall.reserved is not 0"));
        }
        if call.calls > CALLS_MAX {
            return Err(Failure::value(format!("TgemmCall.calls is {}; at most {CALLS_MAX} are counted", call.calls)));
        }
        let via = words::VIAS.word(call.via)?.unwrap_or(Via::Unknown);
        let captured = flag("TgemmCall.captured", call.captured)?;
        let is_capped = flag("TgemmCall.has_workspace_max", call.has_workspace_max)?;
        let workspace_bytes_max = is_capped.then_some(call.workspace_bytes_max);
        let asked = Asked { workspace_bytes_max, ..Asked::new(problem, via) };
        let Some(entry) = recorder.entry(&asked) else {
            return Err(Failure::new(TgemmStatus::Full, "too many different problems were recorded"));
        };
        recorder.add(entry, call.calls.max(1), captured);
        Ok(())
    })
}

/// Writes every count that is not in the file yet. TGEMM_STATUS_IO: some could not be written; they are kept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgemm_recorder_flush(recorder: *const TgemmRecorder) -> TgemmStatus {
    guarded(|| {
        // SAFETY: the header's rules of handles.
        match unsafe { handle::get(recorder, "recorder") }?.recorder().flush() {
            true => Ok(()),
            false => Err(Failure::new(TgemmStatus::Io, "recorded problems could not be written; they are kept")),
        }
    })
}
