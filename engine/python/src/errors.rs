//! The package's exceptions. They are classes of Python's, so that each is a built-in error as well: `tgemm/errors.py`.

use pyo3::import_exception;

import_exception!(tgemm.errors, ProblemError);
import_exception!(tgemm.errors, DatabaseError);
import_exception!(tgemm.errors, DeviceError);
import_exception!(tgemm.errors, RecordError);
import_exception!(tgemm.errors, LaunchError);
