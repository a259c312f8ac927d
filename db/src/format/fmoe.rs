//! AITER's fused MoE tables (`untuned_fmoe.csv`, `tuned_fmoe.csv`), every header they have had since they became
//! two-staged in June 2025: with and without `gfx`, `xbf16`, `flat` and `_tag`, `us` under its old name `total_us`.
//!
//! Twelve columns are the problem, `gfx` and `cu_num` the device, and two kernels, one for each stage, the solution:
//! library `aiter`, named `name1;name2`, with `block_m`, `ksplit`, `run_1stage`, `xbf16`, `flat` and `tag` as parameters.
//! Rows that agree in all else differ in `_tag`, so it is a parameter too. `us` is the time of both stages; `err1` and
//! `err2`, percentages of a cosine distance, give their larger one as `err_ratio`. The weights are shuffled by the
//! engine: AITER warns that its tuned kernels may be wrong on others.
//!
//! AITER has related tables with the same first columns (grouped, heterogeneous, gated delta rule); they are recognised
//! and refused with their name.

mod short_rows;
mod write;

use std::path::Path;

use super::cells::Cells;
use super::column::flag;
use super::error::{Read, ReadError, Unreadable};
use super::origin::Origins;
use super::sheet::{Column, Header, Line, Reason, Sheet, Spec, all_lines};
use super::{AssumedDevice, Content, Format, ReadOptions};
use crate::choice::Choice;
use crate::device::{Build, Device, Vendor};
use crate::moe::{Moe, MoeQuant, MoeSite};
use crate::problem::Activation;
use crate::recording::Recorded;
use crate::solution::{Numerics, Params, Solution, WeightForm};

pub use write::{problems_to_text, to_text, write};

/// The library of every row.
pub const LIBRARY: &str = "aiter";

/// The parameter that holds `_tag`; absent where the cell is empty.
pub const TAG: &str = "tag";

/// The tag of rows that AITER takes only where its FlyDSL kernels are not built.
pub const FALLBACK_TAG: &str = "flydsl_fallback";

/// The problem's columns in AITER's order: all of an untuned table.
pub const PROBLEM_COLUMNS: [&str; 12] = [
    "token",
    "model_dim",
    "inter_dim",
    "expert",
    "topk",
    "act_type",
    "dtype",
    "q_dtype_a",
    "q_dtype_w",
    "q_type",
    "use_g1u1",
    "doweight_stage1",
];

/// Parameters of a solution that are whole-number columns of the same name.
const PARAMETERS: [&str; 5] = ["block_m", "ksplit", "run_1stage", "xbf16", "flat"];

/// Newer tables quantise the second stage apart; each stands beside the column whose value it must repeat.
const STAGE_2: [(&str, &str); 3] = [("q_dtype_a2", "q_dtype_a"), ("q_dtype_w2", "q_dtype_w"), ("q_type2", "q_type")];

#[rustfmt::skip]
const TUNED: Spec = Spec {
    required: &[
        "cu_num", "token", "model_dim", "inter_dim", "expert", "topk", "act_type", "dtype", "q_dtype_a", "q_dtype_w",
        "q_type", "use_g1u1", "doweight_stage1", "block_m", "kernelName1", "kernelName2", "us",
    ],
    optional: &[
        "gfx", "ksplit", "us1", "err1", "us2", "err2", "run_1stage", "xbf16", "flat", "tflops", "bw", "_tag",
        "q_dtype_a2", "q_dtype_w2", "q_type2",
    ],
    renamed: &[("total_us", "us")],
};

const UNTUNED: Spec = Spec {
    required: &PROBLEM_COLUMNS,
    optional: &["gfx", "cu_num", "q_dtype_a2", "q_dtype_w2", "q_type2"],
    renamed: &[],
};

/// AITER's spelling of each way to quantise (`QuantType`, without that word).
const QUANTS: &[(&str, MoeQuant)] = &[
    ("No", MoeQuant::None),
    ("per_Tensor", MoeQuant::PerTensor),
    ("per_Token", MoeQuant::PerToken),
    ("per_1x32", MoeQuant::Per1x32),
    ("per_1x128", MoeQuant::Per1x128),
    ("per_128x128", MoeQuant::Per128x128),
];

/// AITER's spelling of each activation (`ActivationType`, without that word).
const ACTIVATIONS: &[(&str, Activation)] = &[
    ("Silu", Activation::Silu),
    ("Gelu", Activation::Gelu),
    ("Swiglu", Activation::Swiglu),
    ("Situv2", Activation::Situv2),
];

/// Has the header the columns that every table of this kin begins with?
pub(crate) fn recognise(_name: &str, head: &[u8]) -> bool {
    let names = header_names(head);
    names.contains(&"token") && names.contains(&"model_dim") || is_delta_rule(&names)
}

/// The cells of the first line that is not blank. No name of AITER's holds a comma or a quote.
fn header_names(head: &[u8]) -> Vec<&str> {
    let mut texts = all_lines(head).filter_map(|line| std::str::from_utf8(line.text).ok());
    let header = texts.find(|text| !text.trim().is_empty()).unwrap_or_default();
    header.split(',').map(str::trim).collect()
}

fn is_delta_rule(names: &[&str]) -> bool {
    names.contains(&"total_chunks") && names.contains(&"max_seq_chunks")
}

/// The name of a related table that we do not keep.
fn foreign(file: &Path, names: &[&str]) -> Option<&'static str> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    if is_delta_rule(names) {
        Some("AITER's gated delta rule table, not a GEMM or fused MoE table that tgemm keeps yet: leave it out")
    } else if names.contains(&"shared_expert_id") || name.contains("fhmoe") {
        Some("AITER's heterogeneous fused MoE table (fhmoe), not one that tgemm keeps yet: leave it out")
    } else if names.contains(&"gate_mode") || names.contains(&"tile_m") {
        Some("AITER's grouped fused MoE table, not one that tgemm keeps yet: leave it out")
    } else {
        None
    }
}

/// Reads a tuned or untuned table, which its header tells.
pub(crate) fn read(file: &Path, bytes: &[u8], options: &ReadOptions) -> Result<Content, ReadError> {
    let mended = short_rows::mend(bytes);
    let sheet = Sheet::new(file, &mended.bytes)?;
    let names: Vec<&str> = sheet.names.iter().map(String::as_str).collect();
    if let Some(name) = foreign(file, &names) {
        return Err(sheet.header_error(Unreadable::Foreign(name)));
    }
    if !names.contains(&"kernelName1") && !names.contains(&"block_m") {
        return read_problems(&sheet).map(Content::Problems);
    }
    let header = fitting(&sheet, &TUNED, Format::FmoeTuned)?;
    let columns = Columns::of(&header);
    let origins = Origins::of(file, bytes, Format::FmoeTuned, options);
    let mut read = sheet.read(Format::FmoeTuned, |line: Line<'_>, row| {
        let mut choice = columns.read(row, options.device.as_ref())?;
        choice.origin = origins.as_ref().map(|origins| origins.at(line.number, spelled(&sheet.names, row)));
        Ok(choice)
    })?;
    warn_unknown(&mut read, &sheet, &TUNED);
    mended.tell(&mut read);
    Ok(Content::Choices(read))
}

fn read_problems(sheet: &Sheet<'_>) -> Result<Read<Recorded>, ReadError> {
    let header = fitting(sheet, &UNTUNED, Format::FmoeUntuned)?;
    let columns = ProblemColumns::of(&header);
    let parse = |_: Line<'_>, row: &Cells| columns.read(row).map(|moe| Recorded::bare(moe.into()));
    let mut read = sheet.read(Format::FmoeUntuned, parse)?;
    warn_unknown(&mut read, sheet, &UNTUNED);
    Ok(read)
}

/// The header under the names of `spec`, which lacks nothing and has nothing twice. Unknown columns survive in origins.
fn fitting<'s>(sheet: &'s Sheet<'_>, spec: &'static Spec, format: Format) -> Result<Header<'s>, ReadError> {
    let header = sheet.header(spec);
    let lacks: Vec<&str> = spec.required.iter().copied().filter(|name| header.find(name).is_none()).collect();
    let twice = sheet.names.iter().enumerate().find(|(at, name)| sheet.names[..*at].contains(name));
    let why = match (lacks.as_slice(), twice) {
        ([], None) => return Ok(header),
        ([], Some((_, name))) => format!("column '{name}' stands twice: remove one"),
        (lacks, _) => format!("lacks the columns {}: add them as AITER writes them", lacks.join(", ")),
    };
    Err(sheet.header_error(Unreadable::Malformed { format, why }))
}

fn warn_unknown<T>(read: &mut Read<T>, sheet: &Sheet<'_>, spec: &Spec) {
    let known = |name: &str| {
        let name = spec.present_name(name);
        spec.required.contains(&name) || spec.optional.contains(&name)
    };
    let unknown: Vec<&str> = sheet.names.iter().map(String::as_str).filter(|name| !known(name)).collect();
    if !unknown.is_empty() {
        read.warn(None, format!("columns that tgemm does not know, and that might be a key: {}", unknown.join(", ")));
    }
}

/// The cells of `row` under the file's own column names.
fn spelled<'r>(names: &'r [String], row: &'r Cells) -> impl Iterator<Item = (&'r str, &'r str)> + Clone {
    names.iter().enumerate().map(|(at, name)| (name.as_str(), row.get(at)))
}

/// pandas and people write nothing in several ways.
fn is_null(text: &str) -> bool {
    matches!(text, "" | "Null" | "None" | "nan")
}

/// Where a problem's columns stand.
struct ProblemColumns {
    sizes: [Column; 5],
    act_type: Column,
    dtypes: [Column; 3],
    q_type: Column,
    flags: [Column; 2],
    /// Columns of the second stage, each with the one that it must repeat.
    stage_2: Vec<(Column, Column)>,
}

impl ProblemColumns {
    fn of(header: &Header<'_>) -> ProblemColumns {
        let [token, model_dim, inter_dim, expert, topk, act_type, dtype, q_dtype_a, q_dtype_w, q_type, gated, stage1] =
            PROBLEM_COLUMNS.map(|name| header.get(name));
        let stage_2 = STAGE_2.iter().filter_map(|(second, first)| Some((header.find(second)?, header.get(first))));
        ProblemColumns {
            sizes: [token, model_dim, inter_dim, expert, topk],
            act_type,
            dtypes: [dtype, q_dtype_a, q_dtype_w],
            q_type,
            flags: [gated, stage1],
            stage_2: stage_2.collect(),
        }
    }

    fn read(&self, row: &Cells) -> Result<Moe, Reason> {
        for (second, first) in &self.stage_2 {
            if !is_null(second.text(row)) && second.text(row) != first.text(row) {
                return Err(second.refuse(row, format_args!("the same as {}, or nothing", first.name)));
            }
        }
        let [m, model_dim, inter_dim, experts, topk] = self.sizes;
        let [x, q_x, q_w] = self.dtypes;
        let [gated, weight_in_stage1] = self.flags;
        let site = MoeSite {
            experts: experts.extent(row)?,
            topk: topk.extent(row)?,
            model_dim: model_dim.extent(row)?,
            inter_dim: inter_dim.extent(row)?,
            x: Some(x.torch_dtype(row)?),
            q_x: Some(q_x.torch_dtype(row)?),
            q_w: Some(q_w.torch_dtype(row)?),
            quant: one_of(self.q_type, row, "QuantType.", QUANTS)?,
            block: (0, 0),
            activation: one_of(self.act_type, row, "ActivationType.", ACTIVATIONS)?,
            gated: gated.flag(row)?,
            weight_in_stage1: weight_in_stage1.flag(row)?,
        };
        Ok(site.at(m.extent(row)?))
    }
}

/// A Python enum's member as `str` prints it: its class, a dot, and one of `words`.
fn one_of<T: Copy>(column: Column, row: &Cells, class: &str, words: &[(&str, T)]) -> Result<T, Reason> {
    let word = column.text(row).strip_prefix(class);
    let found = word.and_then(|word| words.iter().find(|(known, _)| *known == word));
    found.map(|(_, value)| *value).ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|(known, _)| *known).collect();
        column.refuse(row, format_args!("{class} and one of {}", known.join(", ")))
    })
}

/// Where a tuned table's columns stand.
struct Columns {
    gfx: Option<Column>,
    cu_num: Column,
    problem: ProblemColumns,
    parameters: [Option<Column>; PARAMETERS.len()],
    kernels: [Column; 2],
    errors: [Option<Column>; 2],
    us: Column,
    tag: Option<Column>,
}

impl Columns {
    fn of(header: &Header<'_>) -> Columns {
        Columns {
            gfx: header.find("gfx"),
            cu_num: header.get("cu_num"),
            problem: ProblemColumns::of(header),
            parameters: PARAMETERS.map(|name| header.find(name)),
            kernels: ["kernelName1", "kernelName2"].map(|name| header.get(name)),
            errors: ["err1", "err2"].map(|name| header.find(name)),
            us: header.get("us"),
            tag: header.find("_tag"),
        }
    }

    fn read(&self, row: &Cells, assumed: Option<&AssumedDevice>) -> Result<Choice, Reason> {
        let mut err_ratio: f64 = 0.0;
        for column in self.errors.iter().flatten() {
            err_ratio = err_ratio.max(percentage(*column, row)?);
        }
        let problem = self.problem.read(row)?.into();
        let device = self.device(row, assumed)?;
        let choice = Choice::uncompared(problem, device, self.solution(row)?, self.us.positive(row)?);
        Ok(Choice { err_ratio, ..choice })
    }

    fn solution(&self, row: &Cells) -> Result<Solution, Reason> {
        let mut params = Params::new();
        for column in self.parameters.iter().flatten() {
            let value: u32 = match flag(column.text(row)) {
                Some(flag) => flag.into(),
                None => column.whole_or_default(row)?,
            };
            params = params.with(column.name, value);
        }
        if let Some(tag) = self.tag.map(|column| column.text(row)).filter(|tag| !is_null(tag)) {
            params = params.with(TAG, tag);
        }
        let kernel = |column: Column| Some(column.text(row)).filter(|name| !is_null(name)).unwrap_or_default();
        let [first, second] = self.kernels.map(kernel);
        Ok(Solution {
            build: Build::unknown(LIBRARY).into(),
            index: 0,
            name: if second.is_empty() { first.into() } else { format!("{first};{second}").into() },
            params,
            weight_form: WeightForm::Preshuffled,
            workspace_bytes: 0,
            numerics: Numerics::Exact,
            deterministic: None,
            graph_safe: None,
        })
    }

    /// Rows without `gfx` follow AITER's own loader: 256 compute units are gfx950's, 80 and 304 gfx942's.
    fn device(&self, row: &Cells, assumed: Option<&AssumedDevice>) -> Result<Device, Reason> {
        let compute_units: u32 = self.cu_num.whole(row)?;
        let said = self.gfx.map(|column| column.text(row)).filter(|arch| !is_null(arch));
        let assumed = assumed.filter(|assumed| assumed.compute_units == compute_units).map(|here| here.arch.as_str());
        let arch = match (said.or(assumed), compute_units) {
            (Some(arch), _) => arch,
            (None, 256) => "gfx950",
            (None, 80 | 304) => "gfx942",
            (None, cu) => return Err(format!("no gfx, and cu_num {cu} tells no arch: say which device it was")),
        };
        Ok(Device::named(Vendor::Amd, arch, compute_units))
    }
}

/// `0.9%` as 0.009; a number without the sign is a share already.
fn percentage(column: Column, row: &Cells) -> Result<f64, Reason> {
    let text = column.text(row);
    if is_null(text) {
        return Ok(0.0);
    }
    // The exponent moves the point exactly, where a division by 100 would make 0.9 % 0.009000000000000001.
    let value = match text.strip_suffix('%') {
        Some(number) => format!("{}e-2", number.trim()).parse(),
        None => text.parse(),
    };
    let value = value.ok().filter(|value: &f64| value.is_finite() && *value >= 0.0);
    value.ok_or_else(|| column.refuse(row, "a percentage such as 0.9%"))
}

#[cfg(test)]
mod tests;
