//! hipBLASLt's tuning files and bench output, read.

use std::path::Path;
use std::sync::Arc;

use super::table::{self, Entry};
use super::words::{Float8, device};
use crate::choice::Choice;
use crate::device::Device;
use crate::format::limits::{ROWS_MAX, excerpt};
use crate::format::origin::Origins;
use crate::format::sheet::Reason;
use crate::format::{Content, Format, Read, ReadError, ReadOptions, Rejected, Sourced, Unreadable};
use crate::recording::{Recorded, Via};
use crate::solution::{Numerics, Params, Solution, WeightForm};

/// The device of an entry: its own columns, else what the program printed above, else the assumed one.
///
/// # Errors
/// None of them.
fn device_of(entry: &Entry<'_>, options: &ReadOptions) -> Result<Device, Reason> {
    let said = entry.said()?;
    let arch = said.get("archName").map(table::arch_of).filter(|arch| !arch.is_empty()).or(entry.context.arch);
    let units: Option<u32> = said.whole("cuNum")?;
    let assumed = options.device.as_ref();
    match (arch, assumed) {
        (Some(arch), Some(assumed)) if assumed.arch == arch => Ok(device(arch, units.unwrap_or(assumed.compute_units))),
        (Some(arch), _) => Ok(device(arch, units.unwrap_or(0))),
        (None, Some(assumed)) => Ok(device(&assumed.arch, assumed.compute_units)),
        (None, None) => Err("neither the row nor the lines above it name a device: say which it was".into()),
    }
}

/// The choice that a row with a solution's index says.
///
/// Workspace and arithmetic are not in these tables: 0 bytes and exact sums are taken, as hipblaslt-bench gives a
/// solution what it asks for and its verification is off by default.
fn choice(entry: &Entry<'_>, options: &ReadOptions) -> Result<Choice, Reason> {
    let said = entry.said()?;
    let device = device_of(entry, options)?;
    let problem = said.hipblaslt_problem(Float8::of_arch(&device.arch))?;
    let index = said.need("solution_index")?;
    let preshuffled = problem.gemm().is_some_and(|gemm| gemm.site.preshuffled);
    let solution = Solution {
        build: entry.context.hipblaslt().into(),
        index: index.parse().map_err(|_| format!("solution_index is '{}', not a whole number", excerpt(index)))?,
        name: table::kernel_name(&said).into(),
        params: Params::new(),
        weight_form: if preshuffled { WeightForm::Preshuffled } else { WeightForm::Plain },
        workspace_bytes: 0,
        numerics: Numerics::Exact,
        deterministic: None,
        graph_safe: None,
    };
    Ok(Choice::uncompared(problem, device, solution, table::time_us(&said)?))
}

fn too_many(file: &Arc<Path>) -> ReadError {
    ReadError { file: file.clone(), line: None, unreadable: Unreadable::TooManyRows { rows_max: ROWS_MAX } }
}

/// Takes every entry through `parse`, and says what else the file holds.
fn take<'a, T>(read: &mut Read<T>, found: table::Entries<'a>, mut parse: impl FnMut(&Entry<'a>) -> Result<T, Reason>) {
    let reject = |file: &Arc<Path>, line, reason| Rejected { file: Arc::clone(file), line, reason };
    for (line, reason) in found.rejected {
        read.rejected.push(reject(&read.file, line, reason));
    }
    for entry in &found.entries {
        match parse(entry) {
            Ok(value) => read.rows.push(Sourced { line: entry.line, value }),
            Err(reason) => read.rejected.push(reject(&read.file, entry.line, reason)),
        }
    }
    read.rejected.sort_by_key(|rejected| rejected.line);
    if found.other > 0 {
        read.warn(None, format!("{} lines are no part of the table", found.other));
    }
}

/// Reads a table: choices if any row names a solution, else the problems that were timed.
pub(super) fn read(file: &Path, bytes: &[u8], options: &ReadOptions) -> Result<Content, ReadError> {
    let file: Arc<Path> = file.into();
    let found = table::cut(bytes, ROWS_MAX).ok_or_else(|| too_many(&file))?;
    let names_solution = |entry: &Entry<'_>| entry.said().is_ok_and(|said| said.get("solution_index").is_some());
    if !found.entries.iter().any(names_solution) {
        let mut read = Read::new(file, Format::HipblasltLog);
        read.warn(None, "no row names a solution: rows are read as problems");
        take(&mut read, found, |entry| {
            let float8 = entry.context.arch.map_or_else(|| Float8::of(options), Float8::of_arch);
            let problem = entry.said()?.hipblaslt_problem(float8)?;
            Ok(Recorded { via: Via::LtMatmul, ..Recorded::bare(problem) })
        });
        return Ok(Content::Problems(read));
    }
    let origins = Origins::of(&file, bytes, Format::HipblasltOverride, options);
    let mut read = Read::new(file, Format::HipblasltOverride);
    take(&mut read, found, |entry| {
        let mut choice = choice(entry, options)?;
        choice.origin = origins.as_ref().map(|origins| origins.at(entry.line, entry.cells.iter().copied()));
        Ok(choice)
    });
    if read.rows.iter().any(|row| !row.value.solution.build.is_known()) {
        read.warn(None, "the file does not say which build of hipBLASLt it is of: its indices are hints only");
    }
    Ok(Content::Choices(read))
}
