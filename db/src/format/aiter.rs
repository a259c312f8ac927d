//! AITER's GEMM tables, tuned and untuned, every family and every schema they have had.
//!
//! Columns are found by name, so age is only what is missing: over the years `soltimes` became `us`; `kernelName`,
//! `scaleAB`, `cu_num`, `tflops`, `bw`, `splitK`, the error, `bpreshuffle`, `q_dtype_w`, `libtype` and `gfx` were added,
//! `cu_num` moved to the front and `kernelId` before `splitK`. Columns that AITER never had do not make a file
//! unreadable: they are kept in each row's origin, with a warning where they might be part of the key.
//!
//! | module | holds |
//! |---|---|
//! | `family` | the families as one table |
//! | `detect` | which family a file is of |
//! | `read` | rows become choices and problems |
//! | `write`, `untuned` | and back, as they were spelled or as a family spells them |
//!
//! The files know no library build, no baseline and no date.

mod detect;
mod family;
mod read;
mod untuned;
mod write;

use std::path::Path;

use super::sheet::Sheet;
use super::{Found, ReadError, ReadOptions};
use crate::atomic::{self, WriteError};
use crate::choice::Choice;
use crate::problem::Problem;
use crate::solution::Params;

pub use family::Family;
pub use untuned::{untuned_text, untuned_text_like_origin};
pub use write::{Like, Written, family_of, to_text_like};
pub(super) use write::{Texts, write_columns};

/// Today's columns of the bf16 table in AITER's order.
pub const COLUMNS: [&str; 18] = [
    "gfx",
    "cu_num",
    "M",
    "N",
    "K",
    "bias",
    "dtype",
    "outdtype",
    "scaleAB",
    "bpreshuffle",
    "libtype",
    "solidx",
    "splitK",
    "us",
    "kernelName",
    "err_ratio",
    "tflops",
    "bw",
];

/// The parameter that holds the parts of K, which AITER's `splitK` shows.
const SPLIT_K: &str = "split_k";

/// The number of parts of K among `params`; 0 if there is none.
pub(super) fn split_k(params: &Params) -> i64 {
    params.parse(SPLIT_K).unwrap_or(0)
}

/// pandas and people write nothing in several ways.
fn is_null(text: &str) -> bool {
    matches!(text, "" | "Null" | "None" | "nan")
}

/// Reads a table of any family; `name` is the file's, without folders.
pub(super) fn read<T>(
    sheet: Sheet<'_>,
    name: &str,
    options: &ReadOptions,
    keep: &mut impl FnMut(u64, Choice) -> T,
) -> Result<Found<T>, ReadError> {
    read::read(detect::find(sheet, name, options)?, options, keep)
}

/// A choice that a table cannot hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}: {reason}")]
pub struct NotExported {
    /// Its problem.
    pub problem: Problem,
    /// Why.
    pub reason: String,
}

/// AITER's bf16 table of `choices`, strictly its eighteen columns, and the choices that it cannot hold.
///
/// Of several choices with one key (device, problem) the first is written: AITER refuses a table with two.
pub fn to_text<'a>(choices: impl IntoIterator<Item = &'a Choice>) -> (String, Vec<NotExported>) {
    let written = to_text_like(choices, Like::Family(Family::Bf16));
    (written.text, written.left_out)
}

/// Replaces `path` by AITER's bf16 table of `choices`, atomically; returns those that it cannot hold.
///
/// # Errors
/// The file cannot be written; the old one is there then.
pub fn write<'a>(path: &Path, choices: impl IntoIterator<Item = &'a Choice>) -> Result<Vec<NotExported>, WriteError> {
    let (text, left_out) = to_text(choices);
    atomic::write(path, text.as_bytes())?;
    Ok(left_out)
}
