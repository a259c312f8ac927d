//! Files: one module a format. Readers take any bytes and give rows with their lines, rejected rows with
//! `file:line: reason`, or one error for the whole file; they never panic and drop nothing silently. Writers replace a
//! file whole ([`crate::atomic`]).
//!
//! | format | module | read | written |
//! |---|---|---|---|
//! | recorded problems, ours | [`untuned`] | yes | yes |
//! | choices, ours | [`tuned`] | yes | yes |
//! | AITER bf16 untuned, every age | [`untuned`] | yes | (ours is valid input for AITER) |
//! | AITER bf16 tuned, every age | [`aiter`] | yes | today's columns |
//!
//! A new format is one module with its columns (`Spec`), and one line in `FORMATS`.

pub mod aiter;
mod baselines;
mod cells;
mod column;
mod error;
pub mod limits;
mod linear;
mod sheet;
pub mod tuned;
pub mod untuned;

use std::fmt;
use std::path::Path;

use crate::choice::Choice;
use crate::recording::Recorded;

pub use error::{Read, ReadError, Rejected, Sourced, Unreadable};
pub use sheet::SQLITE_MAGIC;
use sheet::{Sheet, Spec, read_file};

/// What a header line says the file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Our recorded problems.
    Untuned,
    /// Our choices.
    Tuned,
    /// AITER's bf16 shapes to tune.
    AiterBf16Untuned,
    /// AITER's bf16 tuned table.
    AiterBf16Tuned,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Format::Untuned => "an untuned table",
            Format::Tuned => "a tuned table",
            Format::AiterBf16Untuned => "an AITER bf16 untuned table",
            Format::AiterBf16Tuned => "an AITER bf16 tuned table",
        })
    }
}

/// Every format and its columns; no header fits two of them.
const FORMATS: &[(Format, &Spec)] = &[
    (Format::Tuned, &tuned::SPEC),
    (Format::Untuned, &untuned::SPEC),
    (Format::AiterBf16Tuned, &aiter::SPEC),
    (Format::AiterBf16Untuned, &untuned::AITER_SPEC),
];

/// The format of the file that starts with the line `header`.
pub fn sniff(header: &str) -> Option<Format> {
    let sheet = Sheet::new(Path::new(""), header.as_bytes()).ok()?;
    recognise(&sheet).ok().map(|(format, _)| format)
}

fn recognise(sheet: &Sheet<'_>) -> Result<(Format, &'static Spec), ReadError> {
    let mut nearest: Option<(usize, String)> = None;
    for &(format, spec) in FORMATS {
        let (differences, words) = spec.mismatch(&sheet.names);
        if differences == 0 {
            return Ok((format, spec));
        }
        if nearest.as_ref().is_none_or(|(fewest, _)| differences < *fewest) {
            nearest = Some((differences, format!("nearest is {format}, but it {words}")));
        }
    }
    let why = nearest.map_or_else(String::new, |(_, why)| why);
    Err(sheet.header_error(Unreadable::UnknownHeader { header: sheet.header_excerpt(), why }))
}

/// A device as AITER's files know it, for files that are too old to say theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssumedDevice {
    /// `gfx942`, `gfx950`, …
    pub arch: String,
    /// Compute units.
    pub compute_units: u32,
}

/// How choices are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChoiceOptions {
    /// The device of rows that name none; without it such rows are rejected.
    pub device: Option<AssumedDevice>,
}

/// Reads the choices of a tuned CSV file, ours or AITER's by its header.
pub fn read_choices(path: &Path, options: &ChoiceOptions) -> Result<Read<Choice>, ReadError> {
    parse_choices(path, &read_file(path)?, options)
}

/// [`read_choices`] from memory; `file` names the bytes in messages.
pub fn parse_choices(file: &Path, bytes: &[u8], options: &ChoiceOptions) -> Result<Read<Choice>, ReadError> {
    let sheet = Sheet::new(file, bytes)?;
    let (format, spec) = recognise(&sheet)?;
    let header = sheet.header(spec);
    match format {
        Format::Tuned => tuned::read(&sheet, &header),
        Format::AiterBf16Tuned => aiter::read(&sheet, &header, options),
        Format::Untuned | Format::AiterBf16Untuned => {
            Err(sheet.header_error(Unreadable::WrongKind { format, holds: "problems", wanted: "choices" }))
        }
    }
}

/// Reads the recorded problems of an untuned CSV file, ours or AITER's by its header. Counts of equal problems are not
/// summed yet: see [`crate::recording::merge`].
pub fn read_untuned(path: &Path) -> Result<Read<Recorded>, ReadError> {
    parse_untuned(path, &read_file(path)?)
}

/// [`read_untuned`] from memory; `file` names the bytes in messages.
pub fn parse_untuned(file: &Path, bytes: &[u8]) -> Result<Read<Recorded>, ReadError> {
    let sheet = Sheet::new(file, bytes)?;
    let (format, spec) = recognise(&sheet)?;
    let header = sheet.header(spec);
    match format {
        Format::Untuned => untuned::read(&sheet, &header),
        Format::AiterBf16Untuned => untuned::read_aiter(&sheet, &header),
        Format::Tuned | Format::AiterBf16Tuned => {
            Err(sheet.header_error(Unreadable::WrongKind { format, holds: "choices", wanted: "problems" }))
        }
    }
}

#[cfg(test)]
mod tests;
