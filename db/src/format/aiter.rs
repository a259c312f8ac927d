//! AITER's tuned bf16 table (`bf16_tuned_gemm.csv`, before November 2025 `tuned_gemm.csv`), every schema it has had.
//!
//! Its history: `soltimes` became `us`; `kernelName`, `scaleAB`, `cu_num`, `tflops`, `bw`, `splitK`, `err_ratio`,
//! `bpreshuffle` and `gfx` were added, `cu_num` moved to the front. Columns are found by name, so age is only what is
//! missing. Of rows without `gfx` the arch follows from the compute units as in AITER's own loader: 256 is gfx950, 80
//! and 304 are gfx942. The files know no library build, no baseline and no date.

use std::path::Path;

use super::cells::{Cells, LineWriter};
use super::error::{Read, ReadError};
use super::linear::{Linear, LinearColumns};
use super::sheet::{Column, Header, Reason, Sheet, Spec};
use super::{AssumedDevice, ChoiceOptions, Format};
use crate::atomic::{self, WriteError};
use crate::choice::{Choice, Ratio, Verdict};
use crate::cost;
use crate::device::{Build, Device, Vendor};
use crate::dtype::DType;
use crate::problem::Problem;
use crate::solution::{Numerics, Params, Solution, WeightForm};

/// Today's columns in AITER's order.
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

/// The libraries that AITER's lookup can run (`libtype`).
pub const LIBTYPES: &[&str] = &["torch", "hipblaslt", "skinny", "asm", "triton", "flydsl", "opus"];

pub(super) const SPEC: Spec = Spec {
    required: &["M", "N", "K", "bias", "dtype", "outdtype", "libtype", "solidx", "us"],
    optional: &["gfx", "cu_num", "scaleAB", "bpreshuffle", "splitK", "kernelName", "err_ratio", "tflops", "bw"],
    renamed: &[("soltimes", "us")],
};

/// The parameter that AITER's `splitK` column shows.
const SPLIT_K: &str = "split_k";

/// The split-K factor among `params` as AITER's column shows it; 0 if there is none.
pub(super) fn split_k(params: &Params) -> i64 {
    params.parse(SPLIT_K).unwrap_or(0)
}

struct Columns {
    gfx: Option<Column>,
    cu_num: Option<Column>,
    linear: LinearColumns,
    libtype: Column,
    solidx: Column,
    split_k: Option<Column>,
    us: Column,
    kernel_name: Option<Column>,
    err_ratio: Option<Column>,
}

pub(super) fn read(sheet: &Sheet<'_>, header: &Header<'_>, options: &ChoiceOptions) -> Result<Read<Choice>, ReadError> {
    let columns = Columns {
        gfx: header.find("gfx"),
        cu_num: header.find("cu_num"),
        linear: LinearColumns::of(header),
        libtype: header.get("libtype"),
        solidx: header.get("solidx"),
        split_k: header.find("splitK"),
        us: header.get("us"),
        kernel_name: header.find("kernelName"),
        err_ratio: header.find("err_ratio"),
    };
    sheet.read(Format::AiterBf16Tuned, |row| columns.read(row, options.device.as_ref()))
}

impl Columns {
    fn read(&self, row: &Cells, assumed: Option<&AssumedDevice>) -> Result<Choice, Reason> {
        let problem = self.linear.read(row)?.problem();
        let time_us = self.us.positive(row)?;
        let err_ratio = match self.err_ratio {
            Some(column) if !is_null(column.text(row)) => column.not_negative(row)?,
            _ => 0.0,
        };
        Ok(Choice {
            problem,
            device: self.device(row, assumed)?,
            solution: self.solution(row, &problem)?,
            time_us,
            ratio: Ratio::ONE,
            verdict: Verdict::Unknown,
            baselines: Vec::new(),
            error_over_bound: 0.0,
            err_ratio,
            pack_us: None,
            count: 0,
            tuned_at: String::new(),
            origin: None,
        })
    }

    fn solution(&self, row: &Cells, problem: &Problem) -> Result<Solution, Reason> {
        let library = self.libtype.text(row);
        if is_null(library) {
            return Err(self.libtype.refuse(row, format_args!("a library such as {}", LIBTYPES.join(", "))));
        }
        let name = self.kernel_name.map_or("", |column| column.text(row));
        let split_k = self.split_k.map_or(Ok(0), |column| column.whole_or_default::<u32>(row))?;
        let site = problem.gemm().map(|gemm| &gemm.site);
        Ok(Solution {
            build: Build::unknown(library),
            index: self.solidx.whole(row)?,
            name: if is_null(name) { String::new() } else { name.to_owned() },
            params: if split_k == 0 { Params::new() } else { Params::new().with(SPLIT_K, split_k) },
            weight_form: if site.is_some_and(|site| site.preshuffled) {
                WeightForm::Preshuffled
            } else {
                WeightForm::Plain
            },
            workspace_bytes: 0,
            numerics: numerics(split_k, site.map_or(DType::Bf16, |site| site.out)),
            deterministic: None,
            graph_safe: None,
        })
    }

    fn device(&self, row: &Cells, assumed: Option<&AssumedDevice>) -> Result<Device, Reason> {
        let compute_units: Option<u32> = match self.cu_num {
            Some(column) => Some(column.whole(row)?),
            None => None,
        };
        let arch = self.gfx.map_or("", |column| column.text(row));
        if let Some(compute_units) = compute_units.filter(|_| !is_null(arch)) {
            return Ok(amd(arch, compute_units));
        }
        if let Some(assumed) = assumed.filter(|assumed| compute_units.is_none_or(|cu| cu == assumed.compute_units)) {
            return Ok(amd(&assumed.arch, assumed.compute_units));
        }
        match compute_units {
            Some(256) => Ok(amd("gfx950", 256)),
            Some(cu @ (80 | 304)) => Ok(amd("gfx942", cu)),
            Some(cu) => Err(format!("no gfx column, and cu_num {cu} tells no arch: say which device it was")),
            None => Err("neither gfx nor cu_num: say which device it was".into()),
        }
    }
}

/// pandas and people write nothing in several ways.
fn is_null(text: &str) -> bool {
    matches!(text, "" | "Null" | "None" | "nan")
}

fn amd(arch: &str, compute_units: u32) -> Device {
    Device {
        vendor: Vendor::Amd,
        arch: arch.into(),
        compute_units,
        memory_gib: None,
        chip_id: None,
        partition: None,
        last_level_cache_bytes: 0,
    }
}

/// The class that a row may be in at worst: the file does not say whether the parts of a split K leave the accumulator
/// in the output's type, so for 16-bit outputs they might.
fn numerics(split_k: u32, out: DType) -> Numerics {
    if split_k > 1 && out.bits() <= 16 { Numerics::Partial16 } else { Numerics::Exact }
}

/// Free texts of AITER's columns, as they are to be written.
pub(super) struct Texts<'a> {
    pub(super) arch: &'a str,
    pub(super) library: &'a str,
    pub(super) name: &'a str,
}

/// Writes AITER's eighteen cells. `tflops` and `bw` by its formulas, which count two bytes for every element.
pub(super) fn write_columns(line: &mut LineWriter<'_>, choice: &Choice, texts: &Texts<'_>) {
    let linear = Linear::of(&choice.problem);
    let [m, n, k] = linear.extents().map(f64::from);
    let tflops = cost::flops(&choice.problem) / choice.time_us / 1e6;
    let gb_per_s = 2.0 * (m * k + n * k + m * n) / choice.time_us / 1e3;
    line.cell(texts.arch).cell(choice.device.compute_units);
    linear.write(line);
    line.cell(texts.library).cell(choice.solution.index).cell(split_k(&choice.solution.params)).cell(choice.time_us);
    line.cell(texts.name).cell(choice.err_ratio);
    line.cell(format_args!("{tflops:.2}")).cell(format_args!("{gb_per_s:.2}"));
}

/// A choice that AITER's table cannot hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}: {reason}")]
pub struct NotExported {
    /// Its problem.
    pub problem: Problem,
    /// Why.
    pub reason: String,
}

/// AITER's table of `choices`, strictly its eighteen columns, and the choices that it cannot hold.
///
/// Of several choices with one key (device, problem) the first is written: AITER refuses a table with two.
pub fn to_text<'a>(choices: impl IntoIterator<Item = &'a Choice>) -> (String, Vec<NotExported>) {
    let mut text = COLUMNS.join(",");
    text.push('\n');
    let mut left_out = Vec::new();
    let mut keys = std::collections::HashSet::new();
    for choice in choices {
        let key = (choice.device.arch.as_str(), choice.device.compute_units, choice.problem);
        let refusal = refuse_export(choice)
            .or_else(|| (!keys.insert(key)).then(|| "an earlier choice has the same key".to_owned()));
        if let Some(reason) = refusal {
            left_out.push(NotExported { problem: choice.problem, reason });
            continue;
        }
        let Choice { device, solution, .. } = choice;
        let mut line = LineWriter::new(&mut text);
        let texts = Texts { arch: &device.arch, library: solution.library(), name: &solution.name };
        write_columns(&mut line, choice, &texts);
        line.end();
    }
    (text, left_out)
}

/// Replaces `path` by AITER's table of `choices`, atomically; returns those that it cannot hold.
pub fn write<'a>(path: &Path, choices: impl IntoIterator<Item = &'a Choice>) -> Result<Vec<NotExported>, WriteError> {
    let (text, left_out) = to_text(choices);
    atomic::write(path, text.as_bytes())?;
    Ok(left_out)
}

/// Why AITER could not use the row as it is meant.
fn refuse_export(choice: &Choice) -> Option<String> {
    let Choice { problem, device, solution, .. } = choice;
    if device.vendor != Vendor::Amd {
        return Some(format!("{device} is not an AMD device"));
    }
    if !LIBTYPES.contains(&solution.library()) {
        return Some(format!("AITER cannot run library {}", solution.library()));
    }
    if Linear::of(problem).problem() != *problem {
        return Some("AITER's columns cannot say all of this problem".into());
    }
    let form = if problem.gemm().is_some_and(|gemm| gemm.site.preshuffled) {
        WeightForm::Preshuffled
    } else {
        WeightForm::Plain
    };
    if solution.weight_form != form {
        return Some(format!("AITER holds these weights {form}, the solution takes them {}", solution.weight_form));
    }
    if [&device.arch, &solution.name].iter().any(|text| text.contains(char::is_control)) {
        return Some("a control character in a name".into());
    }
    None
}
