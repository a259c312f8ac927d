//! Rows become choices, or problems.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::signature;
use super::solution::{self, DEFAULT};
use super::validators::{self, Validators};
use crate::choice::{Baseline, Choice, Verdict};
use crate::format::limits::{LINE_BYTES_MAX, ROWS_MAX, excerpt};
use crate::format::origin::Origins;
use crate::format::sheet::Reason;
use crate::format::{Content, Format, Read, ReadError, ReadOptions, Rejected, Sourced, Unreadable};
use crate::problem::Problem;
use crate::recording::{Recorded, Via};

/// The names under which an origin keeps the cells of a row.
pub(super) const CELLS: [&str; 5] = ["op", "params", "solution", "ms", "blas_params"];

/// The name under which an origin keeps the line of the row whose key this one repeats.
const REPEATS: &str = "repeats_line";

/// A row of either file, cut at its commas; `rest` may hold more of them.
#[derive(Clone, Copy, Debug)]
struct Row<'a> {
    op: &'a str,
    params: &'a str,
    solution: Option<&'a str>,
    ms: Option<&'a str>,
    rest: Option<&'a str>,
}

/// What the log of BLAS parameters starts with, which may follow the parameters at once.
const BLAS_PARAMS: &str = "BLAS_PARAMS";

impl<'a> Row<'a> {
    fn cut(line: &'a str) -> Row<'a> {
        let mut cells = line.splitn(3, ',');
        let (op, params, tail) = (cells.next().unwrap_or_default(), cells.next().unwrap_or_default(), cells.next());
        let bare = Row { op, params, solution: None, ms: None, rest: None };
        match tail {
            None => bare,
            Some(rest) if rest.starts_with(BLAS_PARAMS) => Row { rest: Some(rest), ..bare },
            Some(tail) => {
                let mut cells = tail.splitn(3, ',');
                Row { solution: cells.next(), ms: cells.next(), rest: cells.next(), ..bare }
            }
        }
    }
}

/// Time in microseconds of a cell in milliseconds. The decimal point is moved in the text, so that no digit is lost.
fn microseconds(ms: &str) -> Result<f64, Reason> {
    let refuse = || format!("time is '{}': finite milliseconds above 0 are expected", excerpt(ms));
    let value = match ms.split_once(['e', 'E']) {
        None => format!("{ms}e3").parse::<f64>(),
        Some((digits, exponent)) => {
            let exponent: i32 = exponent.parse().map_err(|_| refuse())?;
            format!("{digits}e{}", exponent.saturating_add(3)).parse()
        }
    };
    value.ok().filter(|us| us.is_finite() && *us > 0.0).ok_or_else(refuse)
}

/// The choice that cells of a results file say, with these validators.
///
/// # Errors
/// Any cell that says nothing possible.
fn choice(row: Row<'_>, validators: &Validators, options: &ReadOptions) -> Result<Choice, Reason> {
    let problem = signature::problem(row.op, row.params)?;
    let name = row.solution.ok_or("no solution: the row is of an untuned file")?;
    let solution = solution::read(name, validators)?;
    let time_us = microseconds(row.ms.ok_or("no time")?)?;
    let is_default = name == DEFAULT;
    let default = || Baseline { via: "torch".into(), solution: solution.clone(), time_us };
    let device = validators.device(options)?;
    let baselines = if is_default { vec![default()] } else { Vec::new() };
    let verdict = if is_default { Verdict::Same } else { Verdict::Unknown };
    Ok(Choice { baselines, verdict, ..Choice::uncompared(problem, device, solution, time_us) })
}

/// Does the row with these cells say what `choice` says? Then it may be written as it was spelled.
pub(super) fn says(cells: [&str; 4], found: &Choice, validators: &Validators) -> bool {
    let [op, params, name, ms] = cells;
    signature::problem(op, params) == Ok(found.problem)
        && microseconds(ms) == Ok(found.time_us)
        && solution::read(name, validators).as_ref() == Ok(&found.solution)
}

/// Non-blank lines with their numbers, without carriage returns.
fn lines(bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let numbered = bytes.split(|&byte| byte == b'\n').zip(1..);
    numbered.map(|(line, number)| (number, line.trim_ascii())).filter(|(_, line)| !line.is_empty())
}

fn text(line: &[u8]) -> Result<&str, Reason> {
    if line.len() > LINE_BYTES_MAX {
        return Err(format!("line of {} bytes; at most {LINE_BYTES_MAX} are read", line.len()));
    }
    std::str::from_utf8(line).map_err(|error| format!("not UTF-8 from byte {}", error.valid_up_to()))
}

fn is_validator(line: &str) -> bool {
    line.split(',').next() == Some(validators::WORD)
}

/// Has the file validators, or a row with a solution before any without?
fn has_results(bytes: &[u8]) -> bool {
    let mut texts = lines(bytes).filter_map(|(_, line)| text(line).ok());
    let first = texts.find(|line| is_validator(line) || signature::is_operation(line));
    first.is_some_and(|line| is_validator(line) || Row::cut(line).solution.is_some())
}

pub(super) fn read(file: &Path, bytes: &[u8], options: &ReadOptions) -> Result<Content, ReadError> {
    if has_results(bytes) {
        results(file, bytes, options).map(Content::Choices)
    } else {
        untuned(file, bytes).map(Content::Problems)
    }
}

/// Reads every row through `parse`.
fn rows<'b, T>(
    read: &mut Read<T>,
    bytes: &'b [u8],
    mut parse: impl FnMut(u64, &'b str) -> Result<Option<T>, Reason>,
) -> Result<(), ReadError> {
    for (line, bytes) in lines(bytes) {
        match text(bytes).and_then(|text| parse(line, text)) {
            Ok(None) => continue,
            Ok(Some(value)) => read.rows.push(Sourced { line, value }),
            Err(reason) => read.rejected.push(Rejected { file: Arc::clone(&read.file), line, reason }),
        }
        if read.rows.len() + read.rejected.len() > ROWS_MAX {
            let unreadable = Unreadable::TooManyRows { rows_max: ROWS_MAX };
            return Err(ReadError { file: Arc::clone(&read.file), line: Some(line), unreadable });
        }
    }
    Ok(())
}

fn results(file: &Path, bytes: &[u8], options: &ReadOptions) -> Result<Read<Choice>, ReadError> {
    let validators = Validators::among(bytes);
    let origins = Origins::of(file, bytes, Format::TunableOp, options);
    let mut first_at: HashMap<(&str, &str), u64> = HashMap::new();
    let mut repeats: Vec<u64> = Vec::new();
    let mut read = Read::new(file.into(), Format::TunableOp);
    rows(&mut read, bytes, |line, text| {
        if is_validator(text) {
            return match validators::is_whole(text) {
                true => Ok(None),
                false => Err("no validator: Validator,KEY,VALUE is expected".into()),
            };
        }
        let row = Row::cut(text);
        let mut choice = choice(row, &validators, options)?;
        let first = *first_at.entry((row.op, row.params)).or_insert(line);
        if first != line {
            repeats.push(line);
        }
        choice.origin = origins.as_ref().map(|origins| {
            let texts = [Some(row.op), Some(row.params), row.solution, row.ms, row.rest];
            let first_text = first.to_string();
            let repeats = (first != line).then_some((REPEATS, first_text.as_str()));
            let cells = CELLS.iter().zip(texts).filter_map(|(name, text)| Some((*name, text?)));
            origins.at(line, cells.chain(repeats))
        });
        Ok(Some(choice))
    })?;
    if let Some(line) = repeats.first() {
        let what = format!(
            "{} rows repeat the key of an earlier one, this the first: PyTorch takes the earlier",
            repeats.len()
        );
        read.warn(Some(*line), what);
    }
    if validators.get("PT_VERSION").is_none() {
        read.warn(None, "no PT_VERSION validator: PyTorch would reject the file");
    }
    if read.rows.first().is_some_and(|row| row.value.device.compute_units == 0) {
        read.warn(
            None,
            "the file says no compute units: rows match any device of the architecture; name it to be exact",
        );
    }
    Ok(read)
}

fn untuned(file: &Path, bytes: &[u8]) -> Result<Read<Recorded>, ReadError> {
    let mut read = Read::new(file.into(), Format::TunableOpUntuned);
    rows(&mut read, bytes, |_, text| {
        let row = Row::cut(text);
        let problem: Problem = signature::problem(row.op, row.params)?;
        Ok(Some(Recorded { via: Via::Linear, ..Recorded::bare(problem) }))
    })?;
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_lose_no_digit() {
        for (ms, us) in
            [("0.0190437", 19.0437), ("4.87196", 4871.96), ("1e-05", 0.01), ("21.33", 21330.0), ("1.2e+06", 1.2e9)]
        {
            assert_eq!(microseconds(ms), Ok(us), "{ms}");
        }
        for ms in ["inf", "0", "-1", "nan", "", "1e", "x", "1e999999999999"] {
            assert!(microseconds(ms).is_err(), "{ms}");
        }
    }

    #[test]
    fn blas_parameters_hold_commas() {
        let row = Row::cut("op,p,Default,0.5,BLAS_PARAMS: - { function: matmul, M: 4 }");
        assert_eq!((row.ms, row.rest), (Some("0.5"), Some("BLAS_PARAMS: - { function: matmul, M: 4 }")));
        let untuned = Row::cut("op,p,BLAS_PARAMS: - { M: 4, N: 3 }");
        assert_eq!((untuned.solution, untuned.rest), (None, Some("BLAS_PARAMS: - { M: 4, N: 3 }")));
    }
}
