//! Databases: opened, asked, followed.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tgemm_db::format::untuned;
use tgemm_lookup::{FileReport as FileWords, Layers, Levels, Live, LoadReport, Refreshed, Tally};

use crate::constraints::Constraints;
use crate::device::Device;
use crate::errors::DatabaseError;
use crate::hit::Hit;
use crate::plan::Counters;
use crate::problem::Problem;

/// The most misses that can be asked for: the set is allocated at once, at some 200 bytes each.
const MISSES_MAX: usize = 1 << 20;

/// Tuned tables made ready for one device.
#[pyclass(frozen, module = "tgemm")]
pub(crate) struct Database {
    pub(crate) shared: Arc<Shared>,
}

/// What lookups and plans share.
pub(crate) struct Shared {
    pub(crate) live: Live,
    report: Mutex<LoadReport>,
    /// How often the table was replaced: plans are of one table.
    pub(crate) generation: AtomicU64,
    pub(crate) counters: Counters,
    pub(crate) allowed: Constraints,
    pub(crate) device: Device,
    tally: Tally,
}

impl Shared {
    fn report(&self) -> MutexGuard<'_, LoadReport> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What became of one file.
#[pyclass(frozen, module = "tgemm")]
pub(crate) struct FileReport {
    words: FileWords,
}

#[pymethods]
impl FileReport {
    #[getter]
    fn path(&self) -> String {
        self.words.path.display().to_string()
    }

    #[getter]
    fn kept(&self) -> usize {
        self.words.kept
    }

    #[getter]
    fn other_device(&self) -> usize {
        self.words.other_device
    }

    #[getter]
    fn other_build(&self) -> usize {
        self.words.other_build
    }

    #[getter]
    fn rejected(&self) -> usize {
        self.words.rejected
    }

    #[getter]
    fn rejections(&self) -> Vec<String> {
        self.words.rejections.clone()
    }

    #[getter]
    fn error(&self) -> Option<&str> {
        self.words.error.as_deref()
    }

    #[getter]
    fn is_clean(&self) -> bool {
        self.words.is_clean()
    }

    fn __str__(&self) -> String {
        self.words.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<tgemm.FileReport {}>", self.words)
    }
}

/// Which levels may answer: one word for a set of them, or their names.
#[derive(FromPyObject)]
enum LevelsSaid {
    Set(String),
    Names(Vec<String>),
}

impl LevelsSaid {
    fn levels(self) -> PyResult<Levels> {
        let unknown = |text: &str, known: &str| {
            Err(DatabaseError::new_err(format!("unknown levels '{}' (known: {known})", text.escape_default())))
        };
        match self {
            LevelsSaid::Set(word) => match word.as_str() {
                "default" => Ok(Levels::default()),
                "exact" => Ok(Levels::EXACT),
                "aiter" => Ok(Levels::AITER),
                "all" => Ok(Levels::ALL),
                other => unknown(
                    other,
                    "default, exact, aiter, all, or a list of exact, padded, interval, scored, predicted",
                ),
            },
            LevelsSaid::Names(names) => names.iter().try_fold(Levels::EXACT, |mut levels, name| {
                match name.as_str() {
                    "exact" => {}
                    "padded" => levels.padded = true,
                    "interval" => levels.interval = true,
                    "scored" => levels.scored = true,
                    "predicted" => levels.predicted = true,
                    other => return unknown(other, "exact, padded, interval, scored, predicted"),
                }
                Ok(levels)
            }),
        }
    }
}

/// For which device: described, or by its name here.
#[derive(FromPyObject)]
enum DeviceSaid<'py> {
    Described(Bound<'py, Device>),
    Named(String),
}

#[pymethods]
impl Database {
    /// Reads tuned CSV files (tgemm's or AITER's) and databases of sweeps; of two that both answer, the first counts.
    ///
    /// `device` is a Device, a name ("cpu", "cuda:0", "hip:0"), or None for the GPU that torch has in use here, else the CPU.
    /// What cannot be read is in `report` and the rest serves, unless `strict`.
    /// Raises `tgemm.DatabaseError`, `tgemm.DeviceError`.
    #[staticmethod]
    #[pyo3(signature = (*paths, device = None, levels = None, strict = false, use_environment = false,
        misses_max = tgemm_lookup::tally::MISSES_DEFAULT, constraints = None))]
    #[pyo3(
        text_signature = "(*paths, device=None, levels=None, strict=False, use_environment=False, misses_max=4096, \
        constraints=None)"
    )]
    #[allow(clippy::too_many_arguments, reason = "they are keywords")]
    fn open(
        py: Python<'_>,
        paths: &Bound<'_, PyTuple>,
        device: Option<DeviceSaid<'_>>,
        levels: Option<LevelsSaid>,
        strict: bool,
        use_environment: bool,
        misses_max: usize,
        constraints: Option<&Constraints>,
    ) -> PyResult<Database> {
        let files: Vec<PathBuf> = paths.iter().map(|path| path.extract()).collect::<PyResult<_>>()?;
        let levels = levels.map_or(Ok(Levels::default()), LevelsSaid::levels)?;
        if misses_max > MISSES_MAX {
            return Err(DatabaseError::new_err(format!("misses_max is {misses_max}; at most {MISSES_MAX} are kept")));
        }
        let device = match device {
            None => Device::here(py, None)?,
            Some(DeviceSaid::Named(name)) => Device::here(py, Some(&name))?,
            Some(DeviceSaid::Described(device)) => device.get().clone(),
        };
        let base = if use_environment { Layers::from_env() } else { Layers::default() };
        let here = device.environment.clone();
        let (live, report) = py.detach(|| Live::open(base.with_site(files), here, levels));
        if strict && !report.is_clean() {
            return Err(DatabaseError::new_err(report.to_string()));
        }
        let allowed = constraints.cloned().unwrap_or_default();
        let (report, tally) = (Mutex::new(report), Tally::new(misses_max));
        let (generation, counters) = (AtomicU64::new(0), Counters::default());
        Ok(Database { shared: Arc::new(Shared { live, report, generation, counters, allowed, device, tally }) })
    }

    /// What to run for `problem`. Counted in `tally()`.
    #[pyo3(signature = (problem, constraints = None))]
    fn lookup(&self, problem: &Problem, constraints: Option<&Constraints>) -> Hit {
        let table = self.shared.live.table();
        let allowed = constraints.unwrap_or(&self.shared.allowed);
        Hit::of(self.shared.tally.count(&problem.words, table.lookup(&problem.words, &allowed.words)))
    }

    /// Which level answers, and why the better ones do not.
    #[pyo3(signature = (problem, constraints = None))]
    fn explain(&self, problem: &Problem, constraints: Option<&Constraints>) -> String {
        let allowed = constraints.unwrap_or(&self.shared.allowed);
        self.shared.live.table().explain(&problem.words, &allowed.words).to_string()
    }

    /// Reads the files again if one changed, and replaces the whole table or nothing; was it replaced?
    fn refresh(&self, py: Python<'_>) -> PyResult<bool> {
        match py.detach(|| self.shared.live.refresh()) {
            Refreshed::Unchanged => Ok(false),
            Refreshed::Replaced(report) => {
                *self.shared.report() = report;
                self.shared.generation.fetch_add(1, Ordering::Release);
                Ok(true)
            }
            Refreshed::Kept(kept) => Err(DatabaseError::new_err(kept.to_string())),
        }
    }

    #[getter]
    fn report(&self) -> Vec<FileReport> {
        self.shared.report().files.iter().map(|words| FileReport { words: words.clone() }).collect()
    }

    #[getter]
    fn device(&self) -> Device {
        self.shared.device.clone()
    }

    fn problems(&self) -> Vec<Problem> {
        self.shared.live.table().choices().iter().map(|choice| choice.problem.into()).collect()
    }

    /// How many lookups were answered by which kind of hit.
    fn tally(&self) -> std::collections::HashMap<String, u64> {
        self.shared.tally.kinds().iter().map(|(kind, count)| (kind.to_string(), *count)).collect()
    }

    /// What became of the calls of `tgemm.mm` with this database.
    fn launches(&self) -> std::collections::HashMap<&'static str, u64> {
        self.shared.counters.told()
    }

    /// The problems that nothing answered for, with their counts, the most frequent first.
    fn misses(&self) -> Vec<(Problem, u64)> {
        self.shared.tally.rows().iter().map(|row| (row.problem.into(), row.count)).collect()
    }

    /// Replaces the file at `path` by the misses as an untuned CSV, to be tuned next.
    fn write_misses(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let rows = self.shared.tally.rows();
        let written = py.detach(|| untuned::write(&path, &rows));
        written.map_err(|error| DatabaseError::new_err(error.to_string()))
    }

    fn __len__(&self) -> usize {
        self.shared.live.table().len()
    }

    fn __repr__(&self) -> String {
        let table = self.shared.live.table();
        format!("<tgemm.Database of {} rows for {}>", table.len(), self.shared.device.environment.device)
    }
}
