//! rocBLAS: logs, profiles, bench output; and the override file that Tensile reads for it.
//!
//! Logs (`ROCBLAS_LAYER=2`) and profiles (`ROCBLAS_LAYER=4`) are read by the one reader of all logs
//! ([`crate::format::log`]). Bench output and override files hold no choices: the first names no solution, the
//! second no time and no build, without which its indices mean nothing. Both are read as problems; [`overrides`] gives
//! the indices too. [`to_text`] and [`write()`] make an override file (`ROCBLAS_TENSILE_GEMM_OVERRIDE_PATH`).

pub(crate) mod function;
mod overrides;
mod table;

use std::path::Path;

pub use overrides::{Override, overrides, to_text, write};

use super::{Content, ReadError, ReadOptions, hipblaslt};

/// Columns that only rocBLAS' tables have.
const COLUMNS: [&str; 2] = ["M", "rocblas-Gflops"];

/// Has `bytes` a header of rocBLAS'?
pub(crate) fn is_table(bytes: &[u8]) -> bool {
    COLUMNS.iter().any(|column| hipblaslt::table::has_header(bytes, column))
}

/// Is this a table of rocBLAS'? Its logs are recognised with all others.
pub(crate) fn recognise(_name: &str, head: &[u8]) -> bool {
    is_table(head)
}

/// Reads a table.
///
/// # Errors
/// Too many rows.
pub(crate) fn read(file: &Path, bytes: &[u8], options: &ReadOptions) -> Result<Content, ReadError> {
    table::read(file, bytes, options)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_lines_under_a_header_are_read(lines in proptest::collection::vec("[NTC0-9a-z_,. -]{0,60}", 0..8)) {
            let header = "transA,transB,M,N,batch_count,K,alpha,beta,lda,ldb,ldc,input_type,output_type,compute_type,solution_index";
            let text = format!("{header}\n{}", lines.join("\n"));
            let _ = read(Path::new("x"), text.as_bytes(), &ReadOptions::default());
            let _ = overrides(Path::new("x"), text.as_bytes());
        }
    }
}
