//! What an engine allows.

use std::collections::BTreeSet;

use pyo3::prelude::*;
use tgemm_db::{Constraints as Words, Numerics, WeightForm};

use crate::words::Word;

/// What an engine allows.
#[pyclass(frozen, eq, hash, module = "tgemm")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Constraints {
    pub(crate) words: Words,
}

impl Default for Constraints {
    /// Plain weights: what whoever holds a tensor and packs nothing can run.
    fn default() -> Constraints {
        Constraints { words: Words { weight_forms: BTreeSet::from([WeightForm::Plain]), ..Words::default() } }
    }
}

#[pymethods]
impl Constraints {
    #[new]
    #[pyo3(signature = (*, libraries = None, weight_forms = None, workspace_bytes_max = None, numerics = None,
        deterministic = false, graph_safe = false))]
    fn new(
        libraries: Option<Vec<String>>,
        weight_forms: Option<Vec<Word<WeightForm>>>,
        workspace_bytes_max: Option<u64>,
        numerics: Option<Word<Numerics>>,
        deterministic: bool,
        graph_safe: bool,
    ) -> Constraints {
        let plain = Constraints::default().words;
        Constraints {
            words: Words {
                libraries: libraries.map(BTreeSet::from_iter),
                weight_forms: weight_forms
                    .map_or(plain.weight_forms, |forms| forms.into_iter().map(|form| form.0).collect()),
                workspace_bytes_max,
                numerics: numerics.map_or(plain.numerics, |word| word.0),
                deterministic,
                graph_safe,
            },
        }
    }

    fn __repr__(&self) -> String {
        let Words { libraries, weight_forms, workspace_bytes_max, numerics, deterministic, graph_safe } = &self.words;
        let list = |names: Vec<String>| format!("[{}]", names.join(", "));
        let libraries = libraries.as_ref().map_or("None".into(), |names| {
            list(names.iter().map(|name| format!("'{}'", name.escape_default())).collect())
        });
        let forms = list(weight_forms.iter().map(|form| format!("'{form}'")).collect());
        let cap = workspace_bytes_max.map_or("None".into(), |bytes| bytes.to_string());
        let truth = |is: &bool| if *is { "True" } else { "False" };
        format!(
            "tgemm.Constraints(libraries={libraries}, weight_forms={forms}, workspace_bytes_max={cap}, \
             numerics='{numerics}', deterministic={}, graph_safe={})",
            truth(deterministic),
            truth(graph_safe)
        )
    }
}
