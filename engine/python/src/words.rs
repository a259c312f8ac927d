//! Words of ours from Python's objects.

use std::fmt::Display;
use std::str::FromStr;

use pyo3::prelude::*;
use pyo3::types::PyString;
use tgemm_db::DType;

use crate::errors::ProblemError;

/// An element type: our name, or anything whose text is torch's or NumPy's name of one.
#[derive(Clone, Copy)]
pub(crate) struct Element(pub(crate) DType);

impl<'py> FromPyObject<'_, 'py> for Element {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Element> {
        let text = object.str()?;
        let text = text.to_cow()?;
        let read = text.parse().or_else(|unknown| DType::from_torch(&format!("torch.{text}")).ok_or(unknown));
        read.map(Element).map_err(|unknown: tgemm_db::dtype::UnknownName| ProblemError::new_err(unknown.to_string()))
    }
}

/// A word of one of our kinds, by its text as keys have it.
#[derive(Clone, Copy)]
pub(crate) struct Word<T>(pub(crate) T);

impl<'py, T: FromStr<Err: Display>> FromPyObject<'_, 'py> for Word<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Word<T>> {
        let text = object.cast::<PyString>()?;
        let text = text.to_cow()?;
        text.parse().map(Word).map_err(|unknown: T::Err| ProblemError::new_err(unknown.to_string()))
    }
}
