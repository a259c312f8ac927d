//! hipBLASLt: logs, profiles, bench output, tuning files; and the override file that the library reads.
//!
//! | file | by | read as |
//! |---|---|---|
//! | bench log | `HIPBLASLT_LOG_MASK=32` | problems, counted |
//! | profile | `HIPBLASLT_LOG_MASK=64` | problems with the library's own counts |
//! | trace | `HIPBLASLT_LOG_LEVEL` or a mask with bit 2 | problems, where descriptors are spelled out |
//! | tuning file, bench output | `HIPBLASLT_TUNING_FILE`, bench | choices, if solutions are named; else problems |
//!
//! [`to_text`] and [`write()`] make an override file. The words that hipBLASLt shares with rocBLAS and cuBLAS (`words`,
//! `said`, `draft`) and their tables (`table`) are here too; all their logs have one reader, [`super::log`].

pub(crate) mod draft;

mod override_file;
pub(crate) mod said;
pub(crate) mod table;
mod tuning;
pub(crate) mod words;

use std::path::Path;

pub use override_file::{to_text, write};

use super::{Content, ReadError, ReadOptions, SQLITE_MAGIC};

/// Columns that only hipBLASLt's tables have.
const COLUMNS: [&str; 2] = ["grouped_gemm", "d_type"];

/// Name endings of files that nobody but a program writes.
const LOG_ENDINGS: [&str; 4] = [".log", ".out", ".err", ".txt"];

fn is_table(bytes: &[u8]) -> bool {
    COLUMNS.iter().any(|column| table::has_header(bytes, column))
}

/// Does the first line name columns? Then the file is somebody's table, though its cells may hold a log's words.
pub(super) fn starts_with_columns(head: &[u8]) -> bool {
    let is_name = |cell: &str| {
        cell.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && cell.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let first = head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).find(|line| !line.is_empty());
    let names = first.and_then(|line| std::str::from_utf8(line).ok()).unwrap_or_default();
    names.contains(',') && names.split(',').map(str::trim).all(is_name)
}

/// Is this a table of hipBLASLt's, or a log of any library? What a program writes may say much before its first call,
/// so that a log is known by its name too.
pub(crate) fn recognise(name: &str, head: &[u8]) -> bool {
    if head.starts_with(SQLITE_MAGIC) {
        return false;
    }
    is_table(head)
        || !starts_with_columns(head)
            && !super::rocblas::is_table(head)
            && (super::log::is_log(head) || LOG_ENDINGS.iter().any(|ending| name.ends_with(ending)))
}

/// Reads a table or a log.
///
/// # Errors
/// Too many rows.
pub(crate) fn read(file: &Path, bytes: &[u8], options: &ReadOptions) -> Result<Content, ReadError> {
    if is_table(bytes) {
        tuning::read(file, bytes, options)
    } else if super::rocblas::is_table(bytes) {
        super::rocblas::read(file, bytes, options)
    } else {
        super::log::read(file, bytes, options)
    }
}

#[cfg(test)]
mod tests;
