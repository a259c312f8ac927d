//! AITER's fused MoE tables out of choices and problems.

use std::path::Path;
use std::sync::LazyLock;

use super::{ACTIVATIONS, LIBRARY, PARAMETERS, PROBLEM_COLUMNS, QUANTS, TAG};
use crate::atomic::{self, WriteError};
use crate::choice::Choice;
use crate::device::Vendor;
use crate::dtype::DType;
use crate::format::aiter::NotExported;
use crate::format::cells::LineWriter;
use crate::format::{AssumedDevice, Content, Format, ReadOptions};
use crate::moe::Moe;
use crate::origin::Origin;
use crate::problem::Problem;
use crate::recording::Recorded;
use crate::{cost, solution::WeightForm};

/// Today's columns in AITER's order.
#[rustfmt::skip]
const COLUMNS: [&str; 29] = [
    "gfx", "cu_num", "token", "model_dim", "inter_dim", "expert", "topk", "act_type", "dtype", "q_dtype_a", "q_dtype_w",
    "q_type", "use_g1u1", "doweight_stage1", "block_m", "ksplit", "us1", "kernelName1", "err1", "us2", "kernelName2",
    "err2", "us", "run_1stage", "xbf16", "flat", "tflops", "bw", "_tag",
];

static FORMAT_WORD: LazyLock<String> = LazyLock::new(|| Format::FmoeTuned.word());

/// The tuned table of `choices`, and the choices that it cannot hold.
///
/// Rows that all came from tables with one header are written under that header, otherwise under today's. A row that
/// still says what it said when it was read is written as it was spelled then. A row that came from elsewhere has no
/// times of single stages: those cells stay empty, and AITER's lookup does not read them.
pub fn to_text<'a>(choices: impl IntoIterator<Item = &'a Choice>) -> (String, Vec<NotExported>) {
    let mut left_out = Vec::new();
    let mut rows = Vec::new();
    for choice in choices {
        match Row::of(choice) {
            Ok(row) => rows.push(row),
            Err(reason) => left_out.push(NotExported { problem: choice.problem, reason }),
        }
    }
    let columns = header(&rows);
    let mut text = columns.join(",");
    text.push('\n');
    for row in &rows {
        let mut line = LineWriter::new(&mut text);
        for column in &columns {
            line.cell(row.cell(column));
        }
        line.end();
    }
    (text, left_out)
}

/// Replaces `path` by the tuned table of `choices`, atomically; returns those that it cannot hold.
///
/// # Errors
/// The file cannot be written; what was there before is still there.
pub fn write<'a>(path: &Path, choices: impl IntoIterator<Item = &'a Choice>) -> Result<Vec<NotExported>, WriteError> {
    let (text, left_out) = to_text(choices);
    atomic::write(path, text.as_bytes())?;
    Ok(left_out)
}

/// The untuned table of `problems`, and those that are no fused MoE layers or not wholly known.
pub fn problems_to_text<'a>(problems: impl IntoIterator<Item = &'a Recorded>) -> (String, Vec<NotExported>) {
    let mut text = PROBLEM_COLUMNS.join(",");
    text.push('\n');
    let mut left_out = Vec::new();
    for recorded in problems {
        match problem_cells(&recorded.problem) {
            Ok(cells) => {
                let mut line = LineWriter::new(&mut text);
                for cell in cells {
                    line.cell(cell);
                }
                line.end();
            }
            Err(reason) => left_out.push(NotExported { problem: recorded.problem, reason }),
        }
    }
    (text, left_out)
}

/// The one header under which all rows were read, else today's.
fn header<'a>(rows: &'a [Row<'_>]) -> Vec<&'a str> {
    let names = |row: &Row<'a>| -> Option<Vec<&'a str>> {
        row.origin.map(|origin| origin.cells().map(|(name, _)| name).collect())
    };
    let first = rows.first().and_then(names);
    first.filter(|first| rows.iter().all(|row| names(row).as_ref() == Some(first))).unwrap_or_else(|| COLUMNS.to_vec())
}

/// One row on its way out.
struct Row<'a> {
    choice: &'a Choice,
    moe: &'a Moe,
    problem: [String; PROBLEM_COLUMNS.len()],
    /// The cells as they were read, by the file's own names.
    origin: Option<&'a Origin>,
    /// Do those cells still say what the choice says?
    is_unchanged: bool,
}

impl<'a> Row<'a> {
    fn of(choice: &'a Choice) -> Result<Row<'a>, String> {
        let problem = problem_cells(&choice.problem)?;
        let moe = choice.problem.moe().ok_or("not a fused MoE layer")?;
        let solution = &choice.solution;
        if choice.device.vendor != Vendor::Amd {
            return Err(format!("{} is not an AMD device", choice.device));
        }
        if solution.library() != LIBRARY {
            return Err(format!("AITER's fused MoE cannot run library {}", solution.library()));
        }
        if solution.weight_form != WeightForm::Preshuffled {
            return Err(format!(
                "AITER holds these weights shuffled, the solution takes them {}",
                solution.weight_form
            ));
        }
        if !(choice.time_us.is_finite() && choice.time_us > 0.0) {
            return Err("its time is not known, and AITER's table must have one".into());
        }
        if [choice.device.arch.as_str(), &solution.name].iter().any(|text| text.contains(char::is_control)) {
            return Err("a control character in a name".into());
        }
        let origin = choice.origin.as_ref().filter(|origin| origin.source.format == *FORMAT_WORD);
        let origin = origin.map(|origin| &**origin);
        let is_unchanged = origin.is_some_and(|origin| says(origin, choice));
        Ok(Row { choice, moe, problem, origin, is_unchanged })
    }

    fn cell(&self, column: &str) -> String {
        let spelled = self.origin.and_then(|origin| origin.cell(column));
        match spelled {
            Some(text) if self.is_unchanged => text.to_owned(),
            Some(text) => self.canonical(column).unwrap_or_else(|| text.to_owned()),
            None => self.canonical(column).unwrap_or_default(),
        }
    }

    /// The cell as AITER writes it today; `None` for a column that we know nothing of.
    fn canonical(&self, column: &str) -> Option<String> {
        if let Some(at) = PROBLEM_COLUMNS.iter().position(|name| *name == column) {
            return Some(self.problem[at].clone());
        }
        let Choice { device, solution, time_us, err_ratio, .. } = self.choice;
        if PARAMETERS.contains(&column) {
            return Some(solution.params.get(column).unwrap_or("0").to_owned());
        }
        let (first, second) = solution.name.split_once(';').unwrap_or((&solution.name, "Null"));
        let problem = Problem::from(*self.moe);
        Some(match column {
            "gfx" => device.arch.clone(),
            "cu_num" => device.compute_units.to_string(),
            "kernelName1" => first.to_owned(),
            "kernelName2" => second.to_owned(),
            "us" | "total_us" => time_us.to_string(),
            "us1" | "us2" => String::new(),
            "err1" | "err2" => format!("{:.1}%", err_ratio * 100.0),
            "tflops" => format!("{:.2}", cost::flops(&problem) / time_us / 1e6),
            "bw" => format!("{:.2}", cost::bytes(&problem) as f64 / time_us / 1e3),
            "_tag" => solution.params.get(TAG).unwrap_or_default().to_owned(),
            _ => return None,
        })
    }
}

/// Do the cells of `origin`, read as the row that they were, still give this choice?
fn says(origin: &Origin, choice: &Choice) -> bool {
    let mut text = String::new();
    for part in [0, 1] {
        let mut line = LineWriter::new(&mut text);
        for (name, cell) in origin.cells() {
            line.cell(if part == 0 { name } else { cell });
        }
        line.end();
    }
    let device = &choice.device;
    let device = AssumedDevice { arch: device.arch.clone(), compute_units: device.compute_units };
    let options = ReadOptions { device: Some(device), ..ReadOptions::default() };
    match super::read(Path::new(""), text.as_bytes(), &options) {
        Ok(Content::Choices(read)) => read.rows.first().is_some_and(|row| {
            let was = &row.value;
            (was.problem, &was.device, &was.solution) == (choice.problem, &choice.device, &choice.solution)
                && (was.time_us, was.err_ratio) == (choice.time_us, choice.err_ratio)
        }),
        _ => false,
    }
}

/// The twelve cells of a problem, or what AITER's columns cannot say of it.
fn problem_cells(problem: &Problem) -> Result<[String; PROBLEM_COLUMNS.len()], String> {
    let moe = problem.moe().ok_or("not a fused MoE layer")?;
    let s = &moe.site;
    let dtype = |name: &str, dtype: Option<DType>| {
        dtype.map(DType::torch_name).ok_or_else(|| format!("AITER's table needs {name}, which is not known"))
    };
    let quant = QUANTS.iter().find(|(_, quant)| *quant == s.quant).map(|(word, _)| *word);
    let quant = quant.ok_or_else(|| format!("AITER has no word for quantisation {}", s.quant))?;
    let activation = ACTIVATIONS.iter().find(|(_, activation)| *activation == s.activation).map(|(word, _)| *word);
    let activation = activation.ok_or_else(|| format!("AITER has no word for activation {}", s.activation))?;
    if s.topk == 0 || s.model_dim == 0 {
        return Err("AITER's table needs topk and model_dim, which are not known".into());
    }
    Ok([
        moe.m.to_string(),
        s.model_dim.to_string(),
        s.inter_dim.to_string(),
        s.experts.to_string(),
        s.topk.to_string(),
        format!("ActivationType.{activation}"),
        dtype("dtype", s.x)?,
        dtype("q_dtype_a", s.q_x.or(s.x))?,
        dtype("q_dtype_w", s.q_w.or(s.x))?,
        format!("QuantType.{quant}"),
        u8::from(s.gated).to_string(),
        u8::from(s.weight_in_stage1).to_string(),
    ])
}
