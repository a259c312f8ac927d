//! Recording what an engine runs.

use std::path::PathBuf;

use pyo3::prelude::*;
use tgemm_db::Via;
use tgemm_recorder::{Asked, Recorder as Words, RecorderOptions};

use crate::errors::RecordError;
use crate::problem::Problem;
use crate::words::Word;

/// Counts the problems that an engine runs, and writes them to a file for the tuner.
#[pyclass(frozen, module = "tgemm")]
pub(crate) struct Recorder {
    words: Words,
}

/// How a problem was asked for.
struct How {
    via: Option<Word<Via>>,
    captured: bool,
    calls: u64,
    workspace_bytes_max: Option<u64>,
}

fn count(recorder: &Words, problem: &Problem, how: How) -> PyResult<()> {
    let via = how.via.map_or(Via::Linear, |word| word.0);
    let asked = Asked { workspace_bytes_max: how.workspace_bytes_max, ..Asked::new(problem.words, via) };
    let full = || RecordError::new_err("too many different problems were recorded; this one is only counted");
    recorder.add(recorder.entry(&asked).ok_or_else(full)?, how.calls, how.captured);
    Ok(())
}

/// Counts calls of `problem` where TGEMM_TUNE=1 asks for it, into what TGEMM_UNTUNED names; is it asked for?
#[pyfunction]
#[pyo3(signature = (problem, *, via = None, captured = false, calls = 1, workspace_bytes_max = None))]
pub(crate) fn record(
    problem: &Problem,
    via: Option<Word<Via>>,
    captured: bool,
    calls: u64,
    workspace_bytes_max: Option<u64>,
) -> PyResult<bool> {
    let Some(recorder) = Words::global() else { return Ok(false) };
    count(recorder, problem, How { via, captured, calls, workspace_bytes_max })?;
    Ok(true)
}

/// Does the environment ask for recording? Read at the first question.
#[pyfunction]
pub(crate) fn is_recording() -> bool {
    Words::global().is_some()
}

#[pymethods]
impl Recorder {
    #[new]
    #[pyo3(signature = (path = None))]
    fn new(path: Option<PathBuf>) -> PyResult<Recorder> {
        if path.as_ref().is_some_and(|path| path.as_os_str().is_empty()) {
            return Err(RecordError::new_err("path is empty; it is a .csv file or a folder, or None for memory only"));
        }
        let options = path.map_or_else(RecorderOptions::in_memory, RecorderOptions::to);
        Ok(Recorder { words: Words::open(options) })
    }

    #[pyo3(signature = (problem, *, via = None, captured = false, calls = 1, workspace_bytes_max = None))]
    fn record(
        &self,
        problem: &Problem,
        via: Option<Word<Via>>,
        captured: bool,
        calls: u64,
        workspace_bytes_max: Option<u64>,
    ) -> PyResult<()> {
        count(&self.words, problem, How { via, captured, calls, workspace_bytes_max })
    }

    fn recorded(&self) -> Vec<(Problem, u64)> {
        self.words.recorded().iter().map(|row| (row.problem.into(), row.count)).collect()
    }

    /// Writes every count that is not in the file yet. Raises `tgemm.RecordError`.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        match py.detach(|| self.words.flush()) {
            true => Ok(()),
            false => Err(RecordError::new_err("recorded problems could not be written; they are kept")),
        }
    }

    #[getter]
    fn path(&self) -> Option<PathBuf> {
        self.words.path()
    }

    #[getter]
    fn dropped(&self) -> u64 {
        self.words.dropped()
    }
}
