//! How lookups answered.

use std::ffi::c_char;
use std::path::Path;

use tgemm_db::format::untuned;
use tgemm_lookup::HitKind;

use crate::database::TgemmDatabase;
use crate::handle;
use crate::status::{Failure, TgemmStatus, guarded};
use crate::text::text;
use crate::versioned::{self, versioned};

/// How many lookups of a database were answered how, since it was opened.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TgemmTally {
    /// sizeof(TgemmTally), set by the caller.
    pub size: usize,
    /// Of TGEMM_KIND_EXACT.
    pub exact: u64,
    /// Of TGEMM_KIND_PADDED.
    pub padded: u64,
    /// Of TGEMM_KIND_INTERVAL.
    pub interval: u64,
    /// Of TGEMM_KIND_PREDICTED.
    pub predicted: u64,
    /// Of TGEMM_KIND_DEFAULT.
    pub missed: u64,
    /// Those of them that were not kept for tgemm_tally_write.
    pub untold: u64,
}

versioned!(TgemmTally, least exact, [exact, padded, interval, predicted, missed, untold]);

/// Reads the counters of a database and its sites.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgemm_tally(database: *const TgemmDatabase, tally: *mut TgemmTally) -> TgemmStatus {
    guarded(|| {
        // SAFETY: the header's rules of handles.
        let counted = &unsafe { handle::get(database, "database") }?.shared.tally;
        let counts = TgemmTally {
            size: 0,
            exact: counted.of(HitKind::Exact),
            padded: counted.of(HitKind::Padded),
            interval: counted.of(HitKind::Interval),
            predicted: counted.of(HitKind::Predicted),
            missed: counted.of(HitKind::Default),
            untold: counted.untold(),
        };
        // SAFETY: the header's rules of pointers.
        unsafe { versioned::write(tally, &counts) }
    })
}

/// Replaces the file at path by the misses that were kept (TgemmOptions.misses_max), with their counts: an untuned CSV, to be
/// tuned next. The file changes whole or not at all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgemm_tally_write(database: *const TgemmDatabase, path: *const c_char) -> TgemmStatus {
    guarded(|| {
        // SAFETY: the header's rules of pointers and handles.
        let (database, path) = unsafe { (handle::get(database, "database")?, text(path, "path")?) };
        let written = untuned::write(Path::new(path), &database.shared.tally.rows());
        written.map_err(|error| Failure::new(TgemmStatus::Io, error.to_string()))
    })
}
