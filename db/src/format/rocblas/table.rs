//! Tables of rocBLAS' programs: bench output (`…,rocblas-Gflops,us`), and override files (`…,solution_index`).

use std::path::Path;
use std::sync::Arc;

use super::function::Function;
use crate::dtype::DType;
use crate::format::hipblaslt::draft::Types;
use crate::format::hipblaslt::said::Said;
use crate::format::hipblaslt::table::{self, Entry};
use crate::format::hipblaslt::words::{self, Float8};
use crate::format::limits::ROWS_MAX;
use crate::format::sheet::Reason;
use crate::format::{Content, Format, Read, ReadError, ReadOptions, Rejected, Sourced, Unreadable};
use crate::problem::Problem;
use crate::recording::{Recorded, Via};

/// The problem of a row.
///
/// # Errors
/// Something is not said: bench output of calls without types for each matrix names no type at all.
pub(super) fn problem(said: &Said<'_>) -> Result<Problem, Reason> {
    let types = match said.get("input_type") {
        Some(input) => {
            let out = words::dtype(said.need("output_type")?, Float8::Ocp)?;
            let compute = words::compute(said.need("compute_type")?)?;
            let input: DType = words::dtype(input, Float8::Ocp)?;
            Types { a: input, b: input, c: out, d: out, compute }
        }
        None => match Function::of("gemm_ex") {
            Some(function) => function.types(said, Float8::Ocp)?,
            None => return Err("a_type is not said".into()),
        },
    };
    said.rocblas_problem(types)
}

/// Takes every entry through `parse`.
pub(super) fn take<T>(
    file: &Path,
    bytes: &[u8],
    format: Format,
    mut parse: impl FnMut(&Entry<'_>) -> Result<T, Reason>,
) -> Result<Read<T>, ReadError> {
    let file: Arc<Path> = file.into();
    let found = table::cut(bytes, ROWS_MAX).ok_or_else(|| {
        let unreadable = Unreadable::TooManyRows { rows_max: ROWS_MAX };
        ReadError { file: file.clone(), line: None, unreadable }
    })?;
    let mut read = Read::new(file, format);
    let file = Arc::clone(&read.file);
    let mut reject = |line, reason| read.rejected.push(Rejected { file: Arc::clone(&file), line, reason });
    found.rejected.into_iter().for_each(|(line, reason)| reject(line, reason));
    for entry in &found.entries {
        match parse(entry) {
            Ok(value) => read.rows.push(Sourced { line: entry.line, value }),
            Err(reason) => reject(entry.line, reason),
        }
    }
    read.rejected.sort_by_key(|rejected| rejected.line);
    if found.other > 0 {
        read.warn(None, format!("{} lines are no part of the table", found.other));
    }
    Ok(read)
}

pub(super) fn read(file: &Path, bytes: &[u8], _options: &ReadOptions) -> Result<Content, ReadError> {
    let is_override = table::has_header(bytes, "solution_index");
    let format = if is_override { Format::RocblasOverride } else { Format::RocblasLog };
    let mut read = take(file, bytes, format, |entry| {
        let problem = problem(&entry.said()?)?;
        Ok(Recorded { via: Via::RocblasGemmEx, ..Recorded::bare(problem) })
    })?;
    let what = match is_override {
        true => "no times and no build of rocBLAS are said: rows are read as problems, their indices are hints only",
        false => "no row names a solution: rows are read as problems",
    };
    read.warn(None, what);
    Ok(Content::Problems(read))
}
