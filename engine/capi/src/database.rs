//! Databases: opened, reloaded and closed.

use std::collections::HashMap;
use std::ffi::c_char;
use std::path::PathBuf;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tgemm_db::{Choice, Environment, Params};
use tgemm_lookup::{Database, Layers, Levels, Live, Refreshed, Tally};

use crate::backend::TgemmBackend;
use crate::constraints;
use crate::device::{self, TgemmDevice};
use crate::handle;
use crate::status::{Failure, TgemmStatus, guarded};
use crate::text::{Buffer, array, text};
use crate::versioned::{self, versioned};
use crate::words::flag;

/// How far from what was tuned a lookup may answer. Bits; an exact answer is always allowed.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TgemmLevel {
    /// Exact answers; alone, nothing else.
    Exact = 1,
    /// The M that AITER's padding names.
    Padded = 2,
    /// An M between two tuned ones of the same site that chose the same solution.
    Interval = 4,
    /// A site that was not tuned, beside one that was: a guess.
    Predicted = 8,
    /// With Interval: where the two chose differently, the one that is thought to be faster; it may be slower than what would
    /// have run.
    Scored = 16,
}

/// How a database is opened. Every field but size may stay 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TgemmOptions {
    /// sizeof(TgemmOptions).
    pub size: usize,
    /// Bits of TgemmLevel; 0 is Exact, Padded and Interval.
    pub levels: u32,
    /// 1: the tables that the environment variable TGEMM_DB names count before the paths.
    pub use_environment: u32,
    /// 1: a file that cannot be read whole is a failure; 0: the others serve, and the report tells.
    pub strict: u32,
    /// How many different misses are kept for tgemm_tally_write; 0 only counts them. Some 200 bytes each.
    pub misses_max: u32,
}

versioned!(TgemmOptions, least size, [levels, use_environment, strict, misses_max]);

/// The most misses that can be asked for: the set is allocated at once.
const MISSES_MAX: u32 = 1 << 20;

/// Tuned tables made ready for one device. Any number of threads may ask it at once.
pub struct TgemmDatabase {
    pub(crate) shared: Arc<Shared>,
}

/// What a database and its sites share.
pub(crate) struct Shared {
    live: Live,
    /// The last of `kept.tables`.
    current: AtomicPtr<Table>,
    kept: Mutex<Kept>,
    pub(crate) tally: Tally,
}

/// Every table that served since the last trim: callers hold pointers into them.
struct Kept {
    tables: Vec<Arc<Table>>,
    report: String,
}

/// One state of the files.
pub(crate) struct Table {
    pub(crate) database: Arc<Database>,
    /// The parameters of each choice as a number in `texts`: written out once, as a lookup may not.
    params: Vec<u32>,
    texts: Vec<String>,
    /// No two tables have the same, whatever their addresses.
    pub(crate) generation: u64,
}

impl Table {
    fn new(database: Arc<Database>, generation: u64) -> Arc<Table> {
        let mut texts = Vec::new();
        let mut params = Vec::with_capacity(database.len());
        let mut numbers: HashMap<&Params, u32> = HashMap::new();
        for choice in database.choices() {
            let number = numbers.entry(&choice.solution.params).or_insert_with(|| {
                texts.push(choice.solution.params.to_string());
                texts.len() as u32 - 1
            });
            params.push(*number);
        }
        drop(numbers);
        Arc::new(Table { database, params, texts, generation })
    }

    /// The parameters of a choice of this table as one text.
    pub(crate) fn params(&self, choice: &Choice) -> &str {
        let start = self.database.choices().as_ptr().addr();
        let row = std::ptr::from_ref(choice).addr().wrapping_sub(start) / size_of::<Choice>();
        self.params.get(row).and_then(|number| self.texts.get(*number as usize)).map_or("", String::as_str)
    }
}

impl Shared {
    fn open(layers: Layers, here: Environment, levels: Levels, misses_max: u32) -> (Shared, bool) {
        let (live, report) = Live::open(layers, here, levels);
        let table = Table::new(live.snapshot(), 0);
        let current = AtomicPtr::new(Arc::as_ptr(&table).cast_mut());
        let kept = Mutex::new(Kept { tables: vec![table], report: report.to_string() });
        let shared = Shared { live, current, kept, tally: Tally::new(misses_max as usize) };
        (shared, report.is_clean())
    }

    /// The table as it is now. It lives until a trim after the next reload, or as long as this.
    #[inline]
    pub(crate) fn table(&self) -> &Table {
        // SAFETY: it points into a table of `kept`, which is dropped only by a trim, for which the caller vouches that
        // nobody is in here. Acquire pairs with the Release of `reload`.
        unsafe { &*self.current.load(Ordering::Acquire) }
    }

    /// The table as it is now, to be kept.
    pub(crate) fn keep(&self) -> Option<Arc<Table>> {
        self.kept().tables.last().cloned()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reload(&self) -> Result<bool, Failure> {
        let mut kept = self.kept();
        match self.live.refresh() {
            Refreshed::Unchanged => Ok(false),
            Refreshed::Kept(why) => Err(Failure::new(TgemmStatus::Io, why.to_string())),
            Refreshed::Replaced(report) => {
                let generation = kept.tables.last().map_or(0, |table| table.generation + 1);
                let table = Table::new(self.live.snapshot(), generation);
                self.current.store(Arc::as_ptr(&table).cast_mut(), Ordering::Release);
                kept.tables.push(table);
                kept.report = report.to_string();
                Ok(true)
            }
        }
    }

    /// Of the tables that are kept.
    #[cfg(test)]
    pub(crate) fn generations(&self) -> Vec<u64> {
        self.kept().tables.iter().map(|table| table.generation).collect()
    }

    fn trim(&self) {
        let mut kept = self.kept();
        let old = kept.tables.len().saturating_sub(1);
        kept.tables.drain(..old);
    }
}

fn levels(mask: u32) -> Result<Levels, Failure> {
    use TgemmLevel::{Exact, Interval, Padded, Predicted, Scored};
    let all = [Exact, Padded, Interval, Predicted, Scored].into_iter().fold(0, |all, level| all | level as u32);
    if mask == 0 {
        return Ok(Levels::default());
    }
    if mask & !all != 0 {
        return Err(Failure::value(format!("TgemmOptions.levels is {mask:#x}; known bits are {all:#x}")));
    }
    let has = |level: TgemmLevel| mask & level as u32 != 0;
    let mut levels = Levels::EXACT;
    (levels.padded, levels.interval, levels.predicted) = (has(Padded), has(Interval), has(Predicted));
    levels.scored = has(Scored);
    Ok(levels)
}

/// # Safety
///
/// The pointers are as the header asks for.
unsafe fn open(
    paths: *const *const c_char,
    count: usize,
    here: Environment,
    options: *const TgemmOptions,
) -> Result<TgemmDatabase, Failure> {
    // SAFETY: as promised by the caller.
    let (options, given) = unsafe { (versioned::read_or_default(options)?, array(paths, count, "paths")?) };
    // SAFETY: as promised by the caller.
    let files: Result<Vec<PathBuf>, Failure> =
        given.iter().map(|path| unsafe { text(*path, "a path") }.map(PathBuf::from)).collect();
    let base = match flag("TgemmOptions.use_environment", options.use_environment)? {
        true => Layers::from_env(),
        false => Layers::default(),
    };
    let is_strict = flag("TgemmOptions.strict", options.strict)?;
    if options.misses_max > MISSES_MAX {
        let text = format!("TgemmOptions.misses_max is {}; at most {MISSES_MAX} are kept", options.misses_max);
        return Err(Failure::value(text));
    }
    let levels = levels(options.levels)?;
    constraints::prepare();
    let (shared, is_clean) = Shared::open(base.with_site(files?), here, levels, options.misses_max);
    if is_strict && !is_clean {
        return Err(Failure::new(TgemmStatus::Io, shared.kept().report.clone()));
    }
    Ok(TgemmDatabase { shared: Arc::new(shared) })
}

/// Opens tuned CSV files (tgemm's or AITER's) for a device; of two that both answer, the one that stands first counts.
///
/// What cannot be read is in the report (tgemm_database_report) and the rest serves, unless options->strict is 1. Options may
/// be NULL, and so may paths if count is 0. Paths, device and options are not needed afterwards. Close what comes back with
/// tgemm_database_close.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgemm_database_open(
    paths: *const *const c_char,
    count: usize,
    device: *const TgemmDevice,
    options: *const TgemmOptions,
    database: *mut *mut TgemmDatabase,
) -> TgemmStatus {
    guarded(|| {
        // SAFETY: the header's rules of pointers.
        unsafe {
            let out = handle::out(database, "database")?;
            let here = device::environment(&versioned::read(device)?)?;
            out.put(open(paths, count, here, options)?);
        }
        Ok(())
    })
}

/// The same for the device and the libraries of a backend: nothing has to be described.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgemm_database_open_for(
    backend: *const TgemmBackend,
    paths: *const *const c_char,
    count: usize,
    options: *const TgemmOptions,
    database: *mut *mut TgemmDatabase,
) -> TgemmStatus {
    guarded(|| {
        // SAFETY: the header's rules of pointers and handles.
        unsafe {
            let out = handle::out(database, "database")?;
            let here = handle::get(backend, "backend")?.backend.environment().clone();
            out.put(open(paths, count, here, options)?);
        }
        Ok(())
    })
}

/// Closes a database; NULL is none. What its answers point to is gone, but for what a site still holds (tgemm_site_open).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgemm_database_close(database: *mut TgemmDatabase) {
    // SAFETY: the header's rules of handles.
    unsafe { handle::close(database) }
}

/// Writes what became of each file and its rows when they were last read: a line a file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgemm_database_report(
    database: *const TgemmDatabase,
    buffer: *mut c_char,
    bytes: usize,
    needed: *mut usize,
) -> TgemmStatus {
    guarded(|| {
        // SAFETY: the header's rules of pointers.
        let (buffer, database) = unsafe { (Buffer::new(buffer, bytes, needed)?, handle::get(database, "database")?) };
        let report = database.shared.kept().report.clone();
        buffer.put(&report)
    })
}

/// How many choices serve on this device now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgemm_database_rows(database: *const TgemmDatabase, rows: *mut usize) -> TgemmStatus {
    guarded(|| {
        // SAFETY: the header's rules of pointers.
        let database = unsafe { handle::get(database, "database") }?;
        if rows.is_null() {
            return Err(Failure::null("rows"));
        }
        // SAFETY: not NULL, so it can be written to.
        unsafe { rows.write_unaligned(database.shared.table().database.len()) };
        Ok(())
    })
}

/// Reads the files again if one of them changed, and replaces the whole table or nothing; changed (NULL if not wanted) says
/// whether it did. Files that cannot be read whole leave the old table in place: TGEMM_STATUS_IO.
///
/// Other threads may ask meanwhile. Answers from before stay valid, as tables that were replaced are kept until
/// tgemm_database_trim. Nothing is watched: the engine calls this when it has a moment to spare.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgemm_database_reload(database: *mut TgemmDatabase, changed: *mut u32) -> TgemmStatus {
    guarded(|| {
        // SAFETY: the header's rules of pointers.
        let database = unsafe { handle::get(database, "database") }?;
        let has_changed = database.shared.reload();
        if !changed.is_null() {
            // SAFETY: not NULL, so it can be written to.
            unsafe { changed.write_unaligned(u32::from(matches!(has_changed, Ok(true)))) };
        }
        has_changed.map(|_| ())
    })
}

/// Frees the tables that reloads replaced. The caller vouches that no other thread is in a function of this database or of
/// its sites, and that no answer from before the last reload is looked at any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgemm_database_trim(database: *mut TgemmDatabase) -> TgemmStatus {
    guarded(|| {
        // SAFETY: the header's rules of pointers.
        unsafe { handle::get(database, "database") }?.shared.trim();
        Ok(())
    })
}
