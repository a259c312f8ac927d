//! The answer to a lookup.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use tgemm_db::Choice;
use tgemm_lookup::{Hit as Words, HitKind};

use crate::problem::Problem;

/// The answer to a lookup.
#[pyclass(frozen, module = "tgemm")]
pub(crate) struct Hit {
    kind: HitKind,
    tuned_m: Option<u32>,
    choice: Option<Choice>,
}

impl Hit {
    pub(crate) fn of(hit: Words<'_>) -> Hit {
        Hit { kind: hit.kind, tuned_m: hit.tuned_m, choice: hit.choice.cloned() }
    }

    fn told<'a, T>(&'a self, of: impl FnOnce(&'a Choice) -> T) -> Option<T> {
        self.choice.as_ref().map(of)
    }
}

#[pymethods]
impl Hit {
    #[getter]
    fn kind(&self) -> String {
        self.kind.to_string()
    }

    #[getter]
    fn tuned_m(&self) -> Option<u32> {
        self.tuned_m
    }

    #[getter]
    fn tuned(&self) -> Option<Problem> {
        self.told(|choice| choice.problem.into())
    }

    #[getter]
    fn solution(&self) -> Option<String> {
        self.told(|choice| choice.solution.to_string())
    }

    #[getter]
    fn library(&self) -> Option<&str> {
        self.told(|choice| choice.solution.library())
    }

    #[getter]
    fn version(&self) -> Option<&str> {
        self.told(|choice| choice.solution.build.version.as_str())
    }

    #[getter]
    fn revision(&self) -> Option<&str> {
        self.told(|choice| choice.solution.build.revision.as_str())
    }

    #[getter]
    fn index(&self) -> Option<i64> {
        self.told(|choice| choice.solution.index)
    }

    #[getter]
    fn name(&self) -> Option<&str> {
        self.told(|choice| &*choice.solution.name)
    }

    #[getter]
    fn params(&self) -> BTreeMap<&str, &str> {
        self.told(|choice| choice.solution.params.iter().collect()).unwrap_or_default()
    }

    #[getter]
    fn weight_form(&self) -> Option<&'static str> {
        self.told(|choice| choice.solution.weight_form.name())
    }

    #[getter]
    fn numerics(&self) -> Option<&'static str> {
        self.told(|choice| choice.solution.numerics.name())
    }

    #[getter]
    fn workspace_bytes(&self) -> Option<u64> {
        self.told(|choice| choice.solution.workspace_bytes)
    }

    #[getter]
    fn deterministic(&self) -> Option<bool> {
        self.choice.as_ref()?.solution.deterministic
    }

    #[getter]
    fn graph_safe(&self) -> Option<bool> {
        self.choice.as_ref()?.solution.graph_safe
    }

    #[getter]
    fn time_us(&self) -> Option<f64> {
        self.told(|choice| choice.time_us)
    }

    #[getter]
    fn baseline_us(&self) -> Option<f64> {
        self.choice.as_ref()?.baseline_us()
    }

    #[getter]
    fn ratio(&self) -> Option<f64> {
        self.told(|choice| choice.ratio.estimate)
    }

    #[getter]
    fn ratio_low(&self) -> Option<f64> {
        self.told(|choice| choice.ratio.low)
    }

    #[getter]
    fn ratio_high(&self) -> Option<f64> {
        self.told(|choice| choice.ratio.high)
    }

    #[getter]
    fn verdict(&self) -> Option<&'static str> {
        self.told(|choice| choice.verdict.name())
    }

    #[getter]
    fn is_baseline(&self) -> bool {
        self.choice.as_ref().is_none_or(Choice::is_baseline)
    }

    fn __bool__(&self) -> bool {
        self.choice.is_some()
    }

    fn __repr__(&self) -> String {
        match &self.choice {
            None => "<tgemm.Hit default: run what would have run>".into(),
            Some(choice) => format!(
                "<tgemm.Hit {} at m={}: {}, {:.3} us>",
                self.kind,
                self.tuned_m.unwrap_or_default(),
                choice.solution,
                choice.time_us
            ),
        }
    }
}
