//! Tuned products: what all plans of a device share.

use std::ffi::c_char;
use std::fmt::Write as _;
use std::sync::Arc;

use tgemm_lookup::HitKind;
use tgemm_lookup::dispatch::{DispatchOptions, ProblemReport, TunedGemm};

use crate::backend::TgemmBackend;
use crate::constraints::{self, TgemmConstraints};
use crate::database::TgemmDatabase;
use crate::handle;
use crate::status::{Failure, TgemmStatus, guarded};
use crate::text::{Buffer, optional_text};
use crate::versioned::{self, versioned};

/// How products are dispatched. Every field but size may stay 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TgemmDispatchOptions {
    /// sizeof(TgemmDispatchOptions).
    pub size: usize,
    /// What runs where nothing is tuned: a library's name, or a call such as "cublasGemmEx"; NULL, or one that does not take a
    /// problem: the first library that does.
    pub baseline: *const c_char,
    /// What a choice may be; NULL is plain weights, exact sums and any library. With TGEMM_WEIGHT_FORM_PREPACKED, plans keep
    /// packed copies of their weights: not for an engine that writes into its weights in place. Not needed afterwards.
    pub constraints: *const TgemmConstraints,
}

versioned!(TgemmDispatchOptions, least size, [baseline, constraints]);

/// Tuned products on one device. Any number of threads may use it.
pub struct TgemmDispatch {
    pub(crate) gemm: TunedGemm,
}

/// How often what was run, over all plans of a dispatch, and what they hold.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TgemmCounters {
    /// sizeof(TgemmCounters), set by the caller.
    pub size: usize,
    /// Runs of a choice that was tuned for this very problem.
    pub exact: u64,
    /// Runs of one borrowed from the M that AITER's padding names.
    pub padded: u64,
    /// Runs of one tuned at an M beside it.
    pub interval: u64,
    /// Runs of one tuned at a site beside it.
    pub predicted: u64,
    /// Runs of the baseline because nothing was tuned.
    pub missed: u64,
    /// Runs of the baseline although something was tuned: see the report.
    pub fallen_back: u64,
    /// Memory in packed weights.
    pub packed_bytes: u64,
    /// Memory in the workspaces of streams.
    pub workspace_bytes: u64,
}

versioned!(TgemmCounters, least exact, [
    exact, padded, interval, predicted, missed, fallen_back, packed_bytes, workspace_bytes,
]);

/// Runs what a database chose on a backend: the table as it is now. After tgemm_database_reload, open another dispatch. An
/// empty database runs baselines throughout. Options may be NULL.
///
/// A dispatch holds what it needs of both: they may be closed. It frees its memory when it and all its plans are closed, which
/// waits for the device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgemm_dispatch_open(
    backend: *const TgemmBackend,
    database: *const TgemmDatabase,
    options: *const TgemmDispatchOptions,
    dispatch: *mut *mut TgemmDispatch,
) -> TgemmStatus {
    guarded(|| {
        // SAFETY: the header's rules of pointers and handles.
        let (out, backend, database, options) = unsafe {
            let out = handle::out(dispatch, "dispatch")?;
            let database = handle::get(database, "database")?;
            (out, handle::get(backend, "backend")?, database, versioned::read_or_default(options)?)
        };
        // SAFETY: as above.
        let (baseline, constraints) = unsafe {
            let baseline = optional_text(options.baseline, "TgemmDispatchOptions.baseline")?;
            (baseline, constraints::given(options.constraints).clone())
        };
        let baseline = baseline.filter(|name| !name.is_empty()).map(str::to_owned);
        let Some(table) = database.shared.keep() else { return Err(Failure::value("the database is empty")) };
        let options = DispatchOptions { constraints, baseline };
        let gemm = TunedGemm::new(Arc::clone(&backend.backend), Arc::clone(&table.database), options);
        out.put(TgemmDispatch { gemm });
        Ok(())
    })
}

/// Closes a dispatch; NULL is none. Its plans go on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgemm_dispatch_close(dispatch: *mut TgemmDispatch) {
    // SAFETY: the header's rules of handles.
    unsafe { handle::close(dispatch) }
}

/// Fills counters, whose size the caller has set. A run into a graph counts when it is captured, not when it is replayed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgemm_dispatch_counters(
    dispatch: *const TgemmDispatch,
    counters: *mut TgemmCounters,
) -> TgemmStatus {
    guarded(|| {
        // SAFETY: the header's rules of handles.
        let gemm = &unsafe { handle::get(dispatch, "dispatch") }?.gemm;
        let counted = gemm.counters();
        let applied = |kind| counted.applied.get(&kind).copied().unwrap_or_default();
        let told = TgemmCounters {
            size: 0,
            exact: applied(HitKind::Exact),
            padded: applied(HitKind::Padded),
            interval: applied(HitKind::Interval),
            predicted: applied(HitKind::Predicted),
            missed: counted.missed,
            fallen_back: counted.fallen_back.values().sum(),
            packed_bytes: gemm.packed_bytes(),
            workspace_bytes: gemm.workspace_bytes(),
        };
        // SAFETY: the header's rules of pointers.
        unsafe { versioned::write(counters, &told) }
    })
}

/// One problem as the report has it.
fn line(report: &ProblemReport) -> String {
    let ProblemReport { problem, kind, tuned_m, solution, fallback, applied, baseline } = report;
    let mut line = format!("{problem}: {kind}");
    // Writing into a String cannot fail.
    if let Some(m) = tuned_m.filter(|m| *m != problem.m()) {
        let _ = write!(line, " of M = {m}");
    }
    let _ = write!(line, ", {applied} by choice, {baseline} by baseline");
    if let Some(solution) = solution {
        let _ = write!(line, ": {solution}");
    }
    if let Some(fallback) = fallback {
        let _ = write!(line, " ({fallback})");
    }
    line
}

/// Writes what became of each problem so far: a line each, with what runs and why the choice does not, if it does not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgemm_dispatch_report(
    dispatch: *const TgemmDispatch,
    buffer: *mut c_char,
    bytes: usize,
    needed: *mut usize,
) -> TgemmStatus {
    guarded(|| {
        // SAFETY: the header's rules of pointers and handles.
        let (buffer, dispatch) = unsafe { (Buffer::new(buffer, bytes, needed)?, handle::get(dispatch, "dispatch")?) };
        let lines: Vec<String> = dispatch.gemm.report().iter().map(line).collect();
        buffer.put(&lines.join("\n"))
    })
}
