//! The native half of the Python package `tgemm`: its module `_native`.
//!
//! What Python code sees is documented in `tgemm/_native.pyi`, which a test holds against this module. Whatever a caller
//! passes is an exception of `tgemm.errors` at worst. Files are read and products computed without the interpreter's lock.
//!
//! | module | holds |
//! |---|---|
//! | `errors` | the package's exceptions |
//! | `words` | element types and other words, from Python's objects |
//! | `problem`, `constraints`, `device` | what callers say |
//! | `database`, `hit` | what they ask |
//! | `recorder` | what they tell |
//! | `plan` | products, from addresses: what `tgemm.mm` stands on |

mod constraints;
mod database;
mod device;
mod errors;
mod hit;
mod plan;
mod problem;
mod recorder;
mod words;

use pyo3::prelude::*;

/// The module.
#[pymodule(name = "_native")]
mod native {
    #[pymodule_export]
    use crate::constraints::Constraints;
    #[pymodule_export]
    use crate::database::{Database, FileReport};
    #[pymodule_export]
    use crate::device::Device;
    #[pymodule_export]
    use crate::hit::Hit;
    #[pymodule_export]
    use crate::plan::Plan;
    #[pymodule_export]
    use crate::problem::Problem;
    #[pymodule_export]
    use crate::recorder::{Recorder, is_recording, record};

    /// The package's version.
    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
