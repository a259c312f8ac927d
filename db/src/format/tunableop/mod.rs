//! PyTorch TunableOp: results and untuned files of every generation.
//!
//! ```text
//! Validator,PT_VERSION,2.9.1
//! Validator,GCN_ARCH_NAME,gfx950:sramecc+:xnack-
//! GemmTunableOp_Half_TN,tn_64_3_32_ld_32_32_64,Gemm_Rocblas_-77,0.0121875[,BLAS_PARAMS…]
//! ```
//! No header, no quoting. Times are mean milliseconds in six significant digits. Validators hold for the whole file:
//! PyTorch takes all of it or nothing. Of rows with one key it takes the first; here all are kept, and the repeats are
//! told. An untuned file has rows without solution.
//!
//! `Default` rows say that PyTorch's own path won. They are choices with the verdict `same`; how much the others gained
//! is in no such file. The compute units of the device are not known ([`crate::device::Device`]), so that one file
//! serves partitions and cards of one architecture alike: name the device when importing, if it is known.

mod read;
pub(crate) mod signature;
mod solution;
mod validators;
mod write;

use std::path::Path;

pub use validators::{NoValidators, Validators};
pub use write::{ExportError, to_text, write};

use super::{Content, ReadError, ReadOptions};

/// Does `line` belong to one of these files? A verbose log has operations too, with their parameters in brackets.
fn is_line(line: &[u8]) -> bool {
    let Ok(line) = std::str::from_utf8(line) else { return false };
    let cell = line.trim().split(',').next().unwrap_or_default();
    cell.len() < line.trim().len() && (cell == validators::WORD || signature::is_operation(cell) && !cell.contains('('))
}

/// Does a file called `name` that starts with `head` hold TunableOp rows from its first line on, or, being a CSV file,
/// in any of them?
pub(crate) fn recognise(name: &str, head: &[u8]) -> bool {
    let mut lines = head.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    lines.next().is_some_and(is_line) || name.ends_with(".csv") && lines.any(is_line)
}

/// Reads a results file as choices, an untuned file as problems.
///
/// # Errors
/// Too many rows.
pub(crate) fn read(file: &Path, bytes: &[u8], options: &ReadOptions) -> Result<Content, ReadError> {
    read::read(file, bytes, options)
}

#[cfg(test)]
mod tests;
