//! cuBLASLt's logs and cuBLAS' API logger: recorded problems.
//!
//! `CUBLASLT_LOG_LEVEL` 2 traces one matmul a line with all its descriptors; 5 also tells of the calls that make
//! descriptors, which say nothing by themselves. `CUBLAS_LOGINFO_DBG` lists one argument a line,
//! `cublasLtMatmulAlgoGetHeuristic` is a problem of unknown count. What neither says: alpha is taken as 1, and a beta
//! that is only a pointer as 0 (cuBLAS) or as neither 0 nor 1 (cuBLASLt's `beta=?`). Lines that a page has shortened
//! are rejected with what they lack.
//!
//! The reader is that of all logs, [`crate::format::log`].

use std::path::Path;

use super::{Content, ReadError, ReadOptions, hipblaslt, log};

/// Marks of the two loggers.
const MARKS: [&[u8]; 2] = [b"[cublasLt]", b"! cuBLAS ("];

/// Is this a log of either?
pub(crate) fn recognise(_name: &str, head: &[u8]) -> bool {
    // A table may quote a log in one of its cells.
    !hipblaslt::starts_with_columns(head)
        && MARKS.iter().any(|mark| head.windows(mark.len()).any(|window| window == *mark))
}

/// Reads all of it.
///
/// # Errors
/// Too many distinct calls.
pub(crate) fn read(file: &Path, bytes: &[u8], options: &ReadOptions) -> Result<Content, ReadError> {
    log::read(file, bytes, options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Format;

    #[test]
    fn both_loggers_are_recognised_and_read() {
        let log = b"[2026-01-01 00:00:00][cublasLt][1][Trace][cublasLtMatmul] A=0X1 Adesc=[type=R_16F rows=32 cols=16 ld=32] \
            B=0X2 Bdesc=[type=R_16F rows=16 cols=64 ld=16] C=0X3 Cdesc=[type=R_16F rows=32 cols=64 ld=32] D=0X3 \
            Ddesc=[type=R_16F rows=32 cols=64 ld=32] computeDesc=[computeType=COMPUTE_32F scaleType=R_32F] beta=0 outOfPlace=0\n";
        assert!(recognise("any", log));
        assert!(recognise("any", b"i! x\nI! cuBLAS (v13.4.1) function"));
        assert!(!recognise("any", b"cublas"));
        let quoting = b"M,N,K,origin_file\n1,2,3,[cublasLt][1][Trace] I! cuBLAS (v13) function\n";
        assert!(!recognise("any", quoting), "a table may quote a log");
        let Content::Problems(read) = read(Path::new("a"), log, &ReadOptions::default()).unwrap() else { panic!() };
        assert_eq!((read.rows.len(), read.format), (1, Format::CublasltLog));
    }
}
