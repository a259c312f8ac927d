//! Choices become a results file that PyTorch takes.
//!
//! PyTorch compares the validators of a file with its own as text and drops all of it at the first difference, so they
//! are never made up here: they come from a file that the target's PyTorch wrote.

use std::collections::HashMap;
use std::path::Path;

use super::read::{CELLS, says};
use super::validators::{NoValidators, Validators};
use super::{signature, solution};
use crate::atomic::{self, WriteError};
use crate::choice::Choice;
use crate::format::Format;
use crate::format::aiter::NotExported;
use crate::format::hipblaslt::words::cpp_number;
use crate::format::sheet::Reason;
use crate::origin::Origin;

/// Why no results file was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// There are no validators to write.
    #[error(transparent)]
    NoValidators(#[from] NoValidators),
    /// The file could not be replaced.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// The results file of `choices` under `validators`, and the choices that it cannot hold.
///
/// A row that was imported from a results file and still says the same is written as it was spelled. Of several choices
/// with one key the first is written, as PyTorch would take it; rows that repeat a key in the very file that they were
/// imported from stay.
///
/// # Errors
/// No validators: PyTorch would reject the whole file.
pub fn to_text<'a>(
    choices: impl IntoIterator<Item = &'a Choice>,
    validators: Option<&Validators>,
) -> Result<(String, Vec<NotExported>), NoValidators> {
    let validators = validators.ok_or(NoValidators)?;
    let (mut text, mut left_out) = (validators.to_text(), Vec::new());
    let mut keys: HashMap<(String, String), Option<String>> = HashMap::new();
    for choice in choices {
        let spelled = choice.origin.as_deref().and_then(|origin| spelled(origin, choice, validators));
        let file_hash = spelled.as_ref().and(choice.origin.as_deref()).map(|origin| origin.source.file_hash.clone());
        let row = refuse_device(choice, validators).map_or(Ok(()), Err).and_then(|()| match spelled {
            Some(row) => Ok(row),
            None => row(choice, validators),
        });
        let row = row.and_then(|(key, line)| match keys.get(&key) {
            Some(first) if first.is_none() || *first != file_hash => {
                Err("an earlier choice has the same key".to_owned())
            }
            Some(_) => Ok(line),
            None => {
                keys.insert(key, file_hash);
                Ok(line)
            }
        });
        match row {
            Ok(line) => {
                text.push_str(&line);
                text.push('\n');
            }
            Err(reason) => left_out.push(NotExported { problem: choice.problem, reason }),
        }
    }
    Ok((text, left_out))
}

/// Replaces `path` by the results file of `choices`, atomically; returns those that it cannot hold.
///
/// # Errors
/// As for [`to_text`]; the file cannot be replaced.
pub fn write<'a>(
    path: &Path,
    choices: impl IntoIterator<Item = &'a Choice>,
    validators: Option<&Validators>,
) -> Result<Vec<NotExported>, ExportError> {
    let (text, left_out) = to_text(choices, validators)?;
    atomic::write(path, text.as_bytes())?;
    Ok(left_out)
}

/// A key and its line.
type Row = ((String, String), String);

/// The row that `choice` was imported from, if that still says the same.
fn spelled(origin: &Origin, choice: &Choice, validators: &Validators) -> Option<Row> {
    if origin.source.format != Format::TunableOp.word() {
        return None;
    }
    let [op, params, solution, ms, blas_params] = CELLS.map(|name| origin.cell(name));
    let cells = [op?, params?, solution?, ms?];
    if !says(cells, choice, validators) {
        return None;
    }
    let mut line = cells.join(",");
    if let Some(blas_params) = blas_params {
        line = format!("{line},{blas_params}");
    }
    Some(((cells[0].to_owned(), cells[1].to_owned()), line))
}

/// A row for a choice of our own.
fn row(choice: &Choice, validators: &Validators) -> Result<Row, Reason> {
    let name = solution::name_of(choice, validators)?;
    let (op, params) = signature::of(&choice.problem)?;
    let line = format!("{op},{params},{name},{}", cpp_number(choice.time_us / 1e3));
    Ok(((op, params), line))
}

/// Why a PyTorch with these validators runs elsewhere than the choice was made.
fn refuse_device(choice: &Choice, validators: &Validators) -> Option<Reason> {
    let there = validators.arch()?;
    let here = &choice.device.arch;
    (here != there).then(|| format!("tuned on {here}, the validators are of {there}"))
}
