//! Files: one module a format. Readers take any bytes and give rows with their lines, rejected rows with
//! `file:line: reason`, or one error for the whole file; they never panic and drop nothing silently. Writers replace a
//! file whole ([`crate::atomic`]).
//!
//! | format | module | read | written |
//! |---|---|---|---|
//! | recorded problems, ours | [`untuned`] | yes | yes |
//! | choices, ours | [`tuned`] | yes | yes |
//! | AITER GEMM families, untuned and tuned, every age | [`aiter`] | yes | yes |
//! | AITER fused MoE | [`fmoe`] | yes | yes |
//! | vLLM fused MoE JSON | [`vllm_moe`] | yes | yes |
//! | TunableOp results and untuned | [`tunableop`] | yes | yes |
//! | hipBLASLt logs, tuning and override files | [`hipblaslt`] | yes | yes |
//! | rocBLAS logs and override files | [`rocblas`] | yes | yes |
//! | cuBLASLt logs | [`cublaslt`] | yes | |
//! | the lines of all logs, of AITER and TunableOp too | [`log`] | yes | |
//!
//! [`read`] finds out what a file is and reads it. The two native tables and AITER's GEMM tables share one CSV core
//! (`sheet`) and are told apart here by their header. Every other module offers two functions, which [`parse`] asks in
//! the order of `MODULES`:
//!
//! ```ignore
//! /// Is this mine? `name` is the file's name without folders, `head` its first `HEAD_BYTES` bytes or fewer.
//! pub(crate) fn recognise(name: &str, head: &[u8]) -> bool;
//! /// Reads all of it; `file` names the bytes in messages.
//! pub(crate) fn read(file: &Path, bytes: &[u8], options: &ReadOptions) -> Result<Content, ReadError>;
//! ```
//!
//! A module makes its result with [`Read::new`], and where [`ReadOptions::keep_origin`] is set gives each choice its
//! `Origin` through `origin::Origins`.

pub mod aiter;
mod baselines;
mod cells;
mod column;
pub mod cublaslt;
mod differences;
mod error;
pub mod fmoe;
pub mod hipblaslt;
mod intern;
pub(crate) mod known;
pub mod limits;
mod linear;
pub mod log;
pub(crate) mod origin;
mod pieces;
pub mod rocblas;
mod scan;
mod sheet;
pub mod tunableop;
pub mod tuned;
pub mod untuned;
pub mod vllm_moe;

use std::fmt;
use std::path::Path;

use crate::choice::Choice;
use crate::dtype::DType;
use crate::recording::Recorded;

use aiter::Family;
pub use differences::{Cause, DIFFERENCES_MAX, Difference, differences};
pub use error::{Read, ReadError, Rejected, Sourced, Unreadable, Warning};
pub use sheet::SQLITE_MAGIC;
use sheet::{Sheet, read_file};

/// What a file is, by its name and first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Our recorded problems.
    Untuned,
    /// Our choices.
    Tuned,
    /// AITER's shapes to tune, of one GEMM family.
    AiterUntuned(Family),
    /// AITER's tuned table of one GEMM family.
    AiterTuned(Family),
    /// AITER's fused MoE shapes to tune.
    FmoeUntuned,
    /// AITER's tuned fused MoE table.
    FmoeTuned,
    /// vLLM's fused MoE configuration, JSON.
    VllmMoe,
    /// TunableOp's shapes to tune.
    TunableOpUntuned,
    /// TunableOp's results.
    TunableOp,
    /// What hipBLASLt logs or profiles.
    HipblasltLog,
    /// hipBLASLt's tuning or override file.
    HipblasltOverride,
    /// What rocBLAS logs or profiles.
    RocblasLog,
    /// rocBLAS' override file.
    RocblasOverride,
    /// What cuBLASLt logs.
    CublasltLog,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Format::Untuned => "an untuned table",
            Format::Tuned => "a tuned table",
            Format::AiterUntuned(family) => return write!(f, "an AITER {family} untuned table"),
            Format::AiterTuned(family) => return write!(f, "an AITER {family} tuned table"),
            Format::FmoeUntuned => "an AITER fused MoE untuned table",
            Format::FmoeTuned => "an AITER fused MoE tuned table",
            Format::VllmMoe => "a vLLM fused MoE configuration",
            Format::TunableOpUntuned => "a TunableOp untuned file",
            Format::TunableOp => "a TunableOp results file",
            Format::HipblasltLog => "a hipBLASLt log",
            Format::HipblasltOverride => "a hipBLASLt override file",
            Format::RocblasLog => "a rocBLAS log",
            Format::RocblasOverride => "a rocBLAS override file",
            Format::CublasltLog => "a cuBLASLt log",
        })
    }
}

impl Format {
    /// One word for it, as origins carry it: `aiter_bf16_tuned`.
    pub fn word(self) -> String {
        match self {
            Format::AiterUntuned(family) => format!("aiter_{family}_untuned"),
            Format::AiterTuned(family) => format!("aiter_{family}_tuned"),
            Format::Untuned => "untuned".into(),
            Format::Tuned => "tuned".into(),
            Format::FmoeUntuned => "aiter_fmoe_untuned".into(),
            Format::FmoeTuned => "aiter_fmoe_tuned".into(),
            Format::VllmMoe => "vllm_moe".into(),
            Format::TunableOpUntuned => "tunableop_untuned".into(),
            Format::TunableOp => "tunableop".into(),
            Format::HipblasltLog => "hipblaslt_log".into(),
            Format::HipblasltOverride => "hipblaslt_override".into(),
            Format::RocblasLog => "rocblas_log".into(),
            Format::RocblasOverride => "rocblas_override".into(),
            Format::CublasltLog => "cublaslt_log".into(),
        }
    }
}

/// A device as AITER's files know it, for files that are too old to say theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssumedDevice {
    /// `gfx942`, `gfx950`, …
    pub arch: String,
    /// Compute units.
    pub compute_units: u32,
}

/// How files are read. The default is what a lookup wants: nothing that it would not look at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// The device of rows that name none; without it such rows are rejected.
    pub device: Option<AssumedDevice>,
    /// The family of an AITER table that neither its name nor its content tells.
    pub family: Option<Family>,
    /// The weight type of AITER rows of before `q_dtype_w` was a column; without it such rows are rejected.
    pub weight_dtype: Option<DType>,
    /// Does each choice get its [`Origin`](crate::Origin)?
    pub keep_origin: bool,
    /// What origins say about when they were imported, RFC 3339.
    pub imported_at: String,
}

/// What a file holds: that is decided by its format.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// What was decided.
    Choices(Read<Choice>),
    /// What is to be tuned, or was seen to run.
    Problems(Read<Recorded>),
}

/// Bytes at the start of a file by which modules recognise it.
pub(crate) const HEAD_BYTES: usize = 4096;

type Recognise = fn(&str, &[u8]) -> bool;
type ReadContent = fn(&Path, &[u8], &ReadOptions) -> Result<Content, ReadError>;

/// Formats that are told apart by their own modules, asked in this order.
const MODULES: &[(Recognise, ReadContent)] = &[
    (vllm_moe::recognise, vllm_moe::read),
    (fmoe::recognise, fmoe::read),
    (tunableop::recognise, tunableop::read),
    (hipblaslt::recognise, hipblaslt::read),
    (rocblas::recognise, rocblas::read),
    (cublaslt::recognise, cublaslt::read),
];

/// Reads a file of any format.
///
/// # Errors
/// It cannot be read, or is of no known format. Rows that cannot be taken are no error: they are in the result.
pub fn read(path: &Path, options: &ReadOptions) -> Result<Content, ReadError> {
    parse(path, &read_file(path)?, options)
}

/// [`read`] from memory; `file` names the bytes in messages, and its last part helps to tell the format.
///
/// # Errors
/// As for [`read`].
pub fn parse(file: &Path, bytes: &[u8], options: &ReadOptions) -> Result<Content, ReadError> {
    Ok(match parse_with(file, bytes, options, |_, choice| choice)? {
        Found::Choices(read) => Content::Choices(read),
        Found::Problems(read) => Content::Problems(read),
    })
}

/// [`Content`], with what a caller made of each choice.
enum Found<T> {
    Choices(Read<T>),
    Problems(Read<Recorded>),
}

/// [`parse`], each choice going through `keep` with its line as soon as it is read.
fn parse_with<T>(
    file: &Path,
    bytes: &[u8],
    options: &ReadOptions,
    mut keep: impl FnMut(u64, Choice) -> T,
) -> Result<Found<T>, ReadError> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let text = bytes.strip_prefix(sheet::BOM).unwrap_or(bytes);
    let head = &text[..text.len().min(HEAD_BYTES)];
    if let Some((_, read)) = MODULES.iter().find(|(recognise, _)| recognise(&name, head)) {
        return Ok(match read(file, text, options)? {
            Content::Choices(read) => Found::Choices(read.map(keep)),
            Content::Problems(read) => Found::Problems(read),
        });
    }
    let sheet = Sheet::new(file, bytes)?;
    if let Some(header) = sheet.fits(&tuned::SPEC) {
        return tuned::read(&sheet, &header, options, &mut keep).map(Found::Choices);
    }
    if let Some(header) = sheet.fits(&untuned::SPEC) {
        return untuned::read(&sheet, &header).map(Found::Problems);
    }
    aiter::read(sheet, &name, options, &mut keep)
}

/// Reads a file of choices.
///
/// # Errors
/// As for [`read`], and a file that holds problems.
pub fn read_choices(path: &Path, options: &ReadOptions) -> Result<Read<Choice>, ReadError> {
    parse_choices(path, &read_file(path)?, options)
}

/// [`read_choices`] from memory; `file` names the bytes in messages.
///
/// # Errors
/// As for [`read_choices`].
pub fn parse_choices(file: &Path, bytes: &[u8], options: &ReadOptions) -> Result<Read<Choice>, ReadError> {
    match parse(file, bytes, options)? {
        Content::Choices(read) => Ok(read),
        Content::Problems(read) => Err(wrong_kind(file, read.format, "problems", "choices")),
    }
}

/// Reads a file of choices, each of which goes to `take` with its line as soon as it is read, so that they never stand in
/// memory together. What comes back has their lines, and everything else that was found.
///
/// # Errors
/// As for [`read_choices`]; some choices may have gone to `take` by then.
pub fn each_choice(path: &Path, options: &ReadOptions, take: impl FnMut(u64, Choice)) -> Result<Read<()>, ReadError> {
    match parse_with(path, &read_file(path)?, options, take)? {
        Found::Choices(read) => Ok(read),
        Found::Problems(read) => Err(wrong_kind(path, read.format, "problems", "choices")),
    }
}

/// Reads a file of problems. Counts of equal problems are not summed yet: see [`crate::recording::merge`].
///
/// # Errors
/// As for [`read`], and a file that holds choices.
pub fn read_untuned(path: &Path) -> Result<Read<Recorded>, ReadError> {
    parse_untuned(path, &read_file(path)?)
}

/// [`read_untuned`] from memory; `file` names the bytes in messages.
///
/// # Errors
/// As for [`read_untuned`].
pub fn parse_untuned(file: &Path, bytes: &[u8]) -> Result<Read<Recorded>, ReadError> {
    match parse(file, bytes, &ReadOptions::default())? {
        Content::Problems(read) => Ok(read),
        Content::Choices(read) => Err(wrong_kind(file, read.format, "choices", "problems")),
    }
}

fn wrong_kind(file: &Path, format: Format, holds: &'static str, wanted: &'static str) -> ReadError {
    ReadError { file: file.into(), line: None, unreadable: Unreadable::WrongKind { format, holds, wanted } }
}

#[cfg(test)]
mod tests;
