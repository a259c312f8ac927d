//! Choices become rows of AITER's tables again.
//!
//! A cell is written as it was spelled where its row was imported, as long as it still means the same: the test is that
//! the choice which that row reads as and the choice at hand have the same cell in our spelling. So `0.0` stays `0.0`,
//! an unknown column stays what it was, and a time that was measured anew is written as we write times.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;

use super::detect::SPEC;
use super::family::{Family, LAYOUTS, Layout, Library, Types};
use super::read::{Reader, Shown, fp8_of, types_beside, weight_form};
use super::{NotExported, split_k};
use crate::choice::Choice;
use crate::cost;
use crate::device::Vendor;
use crate::dtype::DType;
use crate::format::cells::{Cells, LineWriter};
use crate::format::column::flag_text;
use crate::format::linear::Linear;
use crate::format::sheet::{Line, Sheet};
use crate::format::{AssumedDevice, Format, ReadOptions};
use crate::origin::Origin;
use crate::problem::Problem;

/// How a table is to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Like {
    /// As the file that the choices were imported from: its columns, its spelling, its line ends. What several rows say
    /// of one key all stays.
    Origin,
    /// Today's table of this family. Of several choices with one key (device, problem) the first is written: AITER
    /// refuses a table with two.
    Family(Family),
}

/// A table as text, and what it could not hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The whole file; empty where nothing says which family it should be.
    pub text: String,
    /// Choices that are not in it, with reasons.
    pub left_out: Vec<NotExported>,
}

/// The family whose table can hold `choice`: the one that it was imported from, if any can, else the first.
pub fn family_of(choice: &Choice) -> Option<Family> {
    let origin = choice.origin.as_ref().and_then(|origin| origin_family(origin));
    let all = LAYOUTS.iter().map(|layout| layout.family).filter(|family| *family != Family::AsmA8w8);
    origin.into_iter().chain(all).find(|family| refuse(family.layout(), choice).is_none())
}

/// The family of the table that an imported row came from.
fn origin_family(origin: &Origin) -> Option<Family> {
    Family::ALL.iter().copied().find(|family| Format::AiterTuned(*family).word() == origin.source.format)
}

/// The table of `choices` in their order.
pub fn to_text_like<'a>(choices: impl IntoIterator<Item = &'a Choice>, like: Like) -> Written {
    let choices: Vec<&Choice> = choices.into_iter().collect();
    let origins = choices.iter().filter_map(|choice| choice.origin.as_deref());
    let model = origins.into_iter().find_map(|origin| Some((origin_family(origin)?, origin)));
    let (layout, columns, end) = match (like, model) {
        (Like::Family(family), _) => {
            (family.layout(), family.layout().tuned.iter().map(|name| (*name).to_owned()).collect(), "\n")
        }
        (Like::Origin, Some((family, origin))) => (family.layout(), columns_of(origin), line_end(origin)),
        (Like::Origin, None) => {
            let reason = "it was not imported from an AITER table: say which family to write";
            let left_out = choices.iter().map(|choice| not_exported(choice, reason.into())).collect();
            return Written { text: String::new(), left_out };
        }
    };
    let mut writer = Writer { layout, columns, end, keeps: like == Like::Origin, written: Written::default() };
    writer.header();
    let mut keys = HashSet::new();
    for (at, choice) in choices.iter().enumerate() {
        let key = (choice.device.arch.as_str(), choice.device.compute_units, choice.problem);
        let refusal = refuse(layout, choice)
            .or_else(|| (!writer.keeps && !keys.insert(key)).then(|| "an earlier choice has the same key".to_owned()));
        match refusal {
            Some(reason) => writer.written.left_out.push(not_exported(choice, reason)),
            None => writer.row(choice, at + 1 == choices.len()),
        }
    }
    writer.written
}

fn not_exported(choice: &Choice, reason: String) -> NotExported {
    NotExported { problem: choice.problem, reason }
}

/// The columns of the file that a row came from.
fn columns_of(origin: &Origin) -> Vec<String> {
    origin.source.columns.iter().filter(|name| !name.is_empty()).cloned().collect()
}

/// The line end that a row had; that of a last line without one is a line feed.
fn line_end(origin: &Origin) -> &'static str {
    if spelled_end(origin).is_some_and(|end| end.contains('\r')) { "\r\n" } else { "\n" }
}

fn spelled_end(origin: &Origin) -> Option<&str> {
    origin.cell("")
}

struct Writer {
    layout: &'static Layout,
    columns: Vec<String>,
    end: &'static str,
    keeps: bool,
    written: Written,
}

impl Writer {
    fn header(&mut self) {
        let mut line = LineWriter::new(&mut self.written.text);
        for name in &self.columns {
            line.cell(name);
        }
        self.written.text.push_str(self.end);
    }

    fn row(&mut self, choice: &Choice, is_last: bool) {
        let spelled = choice.origin.as_deref().filter(|_| self.keeps).map(|origin| Spelled::of(origin, choice));
        let spelled = spelled.as_ref();
        let (mut ours, mut theirs) = (String::new(), String::new());
        let mut line = LineWriter::new(&mut self.written.text);
        for (at, name) in self.columns.iter().enumerate() {
            let kept = spelled.and_then(|spelled| Some((spelled, spelled.cell(at, name)?)));
            if let Some((_, text)) = kept.filter(|(spelled, _)| spelled.is_unchanged) {
                line.cell(text);
                continue;
            }
            let column = SPEC.present_name(name);
            ours.clear();
            cell(self.layout, column, choice, &mut ours);
            let kept = kept.filter(|(spelled, _)| {
                theirs.clear();
                let before = spelled.choice.as_ref();
                before.is_some_and(|before| {
                    cell(spelled.layout, column, before, &mut theirs);
                    ours == theirs
                })
            });
            line.cell(kept.map_or(ours.as_str(), |(_, text)| text));
        }
        let end = spelled.and_then(|spelled| spelled_end(spelled.origin));
        self.written.text.push_str(match end {
            // A last line without a line end may stand last only.
            Some("") if is_last => "",
            _ => self.end,
        });
    }
}

/// A row as it was imported.
struct Spelled<'o> {
    layout: &'static Layout,
    origin: &'o Origin,
    /// What its cells read as.
    choice: Option<Choice>,
    /// Is that the choice at hand, so that every cell stays?
    is_unchanged: bool,
}

impl<'o> Spelled<'o> {
    /// The row of `origin`; a device that the file did not name is the one that `choice` got.
    fn of(origin: &'o Origin, choice: &Choice) -> Spelled<'o> {
        let family = origin_family(origin);
        let layout = family.map_or(&LAYOUTS[0], Family::layout);
        let device = AssumedDevice { arch: choice.device.arch.clone(), compute_units: choice.device.compute_units };
        let weight_dtype = choice.problem.gemm().map(|gemm| gemm.site.w);
        let options = ReadOptions { device: Some(device), family, weight_dtype, ..ReadOptions::default() };
        let before = family.and_then(|_| reread(origin, layout, &options));
        let is_unchanged = before.as_ref().is_some_and(|before| is_same_row(before, choice));
        Spelled { layout, origin, choice: before, is_unchanged }
    }

    /// The cell of column `name`, which most often stands at the place `at`.
    fn cell(&self, at: usize, name: &str) -> Option<&'o str> {
        let there = self.origin.get(at).filter(|(have, _)| *have == name).map(|(_, text)| text);
        there.or_else(|| self.origin.cell(name))
    }
}

/// Would both have the same cells in every table of AITER's?
fn is_same_row(a: &Choice, b: &Choice) -> bool {
    (a.problem, a.time_us, a.err_ratio) == (b.problem, b.time_us, b.err_ratio)
        && (a.device.arch.as_str(), a.device.compute_units) == (b.device.arch.as_str(), b.device.compute_units)
        && (a.solution.library(), a.solution.index, &a.solution.name)
            == (b.solution.library(), b.solution.index, &b.solution.name)
        && a.solution.params == b.solution.params
}

/// Reads the cells of `origin` again.
fn reread(origin: &Origin, layout: &'static Layout, options: &ReadOptions) -> Option<Choice> {
    let columns = origin.cells().filter(|(name, _)| !name.is_empty());
    let (mut header, mut text) = (String::new(), String::new());
    let (mut names, mut cells) = (LineWriter::new(&mut header), LineWriter::new(&mut text));
    for (name, cell) in columns {
        names.cell(name);
        cells.cell(cell);
    }
    let sheet = Sheet::new(Path::new(&origin.source.file), header.as_bytes()).ok()?;
    let mut row = Cells::default();
    row.split(&text).ok()?;
    let reader = Reader::new(layout, &sheet, options, None);
    reader.choice(Line { number: origin.line, text: text.as_bytes(), end: b"" }, &row).ok()
}

/// The problem that the family's key columns would say if they were filled from `problem`.
pub(super) fn shown_again(layout: &Layout, problem: &Problem, arch: &str) -> Option<Problem> {
    let gemm = problem.gemm()?;
    let types = match layout.types {
        Types::Columns => return Some(Linear::of(problem).problem()),
        Types::Both(dtype) => (dtype, dtype),
        Types::Fp8OfArch => (fp8_of(arch), fp8_of(arch)),
        Types::WeightColumn => types_beside(gemm.site.w, arch),
    };
    let has_batch = layout.tuned.contains(&"B") || layout.tuned.contains(&"b");
    let says = layout.tuned.contains(&"outdtype");
    let shown = Shown {
        m: gemm.m,
        n: gemm.site.n,
        k: gemm.site.k,
        batch: if has_batch { gemm.site.batch.count } else { 1 },
        types,
        bias: says && gemm.site.bias.is_some(),
        out: if says { gemm.site.out } else { DType::Bf16 },
    };
    Some(shown.problem(layout))
}

/// Why AITER could not use the row as it is meant.
fn refuse(layout: &Layout, choice: &Choice) -> Option<String> {
    let Choice { problem, device, solution, .. } = choice;
    let library = solution.library();
    if device.vendor != Vendor::Amd {
        return Some(format!("{device} is not an AMD device"));
    }
    // A table that was imported may name libraries that AITER has dropped since; it is ours to give back, not to judge.
    let is_theirs = choice.origin.as_ref().is_some_and(|origin| origin_family(origin) == Some(layout.family));
    if !layout.libraries.contains(&library) && !is_theirs {
        return Some(format!("AITER cannot run library {library}"));
    }
    if shown_again(layout, problem, &device.arch) != Some(*problem) {
        return Some("AITER's columns cannot say all of this problem".into());
    }
    let form = weight_form(problem);
    if solution.weight_form != form {
        return Some(format!("AITER holds these weights {form}, the solution takes them {}", solution.weight_form));
    }
    if library_unsaid(layout, &solution.name).is_some_and(|default| default != library) {
        return Some(format!("AITER's {} table has no column for library {library}", layout.family));
    }
    let parts = u32::try_from(split_k(&solution.params)).ok();
    if parts.and_then(|parts| layout.split_k.number(library, parts)).is_none() {
        return Some(format!("AITER's splitK cannot say {} parts", split_k(&solution.params)));
    }
    if [device.arch.as_str(), &solution.name, library].iter().any(|text| text.contains(char::is_control)) {
        return Some("a control character in a name".into());
    }
    None
}

/// The library that a row of this family means where the family's table has no column for it.
fn library_unsaid(layout: &Layout, kernel_name: &str) -> Option<&'static str> {
    match layout.library {
        _ if layout.tuned.contains(&"libtype") => None,
        Library::Said => None,
        Library::Default(library) => Some(library),
        Library::ByKernelName => Some(if kernel_name.starts_with("_Z") { "asm" } else { "ck" }),
    }
}

/// Writes the cell of `column`, by today's name, in our spelling; nothing for a column that AITER never had.
fn cell(layout: &Layout, column: &str, choice: &Choice, out: &mut String) {
    let Choice { problem, device, solution, .. } = choice;
    // Writing to a String cannot fail.
    let _ = match column {
        "gfx" => out.write_str(&device.arch),
        "cu_num" => write!(out, "{}", device.compute_units),
        "libtype" => out.write_str(solution.library()),
        "solidx" => write!(out, "{}", solution.index),
        "splitK" => {
            let parts = u32::try_from(split_k(&solution.params)).unwrap_or(0);
            write!(out, "{}", layout.split_k.number(solution.library(), parts).unwrap_or(0))
        }
        "us" => write!(out, "{}", choice.time_us),
        "kernelName" => out.write_str(&solution.name),
        "err_ratio" => write!(out, "{}", choice.err_ratio),
        "tflops" => write!(out, "{:.2}", tflops(choice)),
        "bw" => write!(out, "{:.2}", gb_per_s(layout.family, choice)),
        key => {
            key_cell(key, problem, out);
            Ok(())
        }
    };
}

/// Writes the cell of a column that says what is computed; nothing for any other.
pub(super) fn key_cell(column: &str, problem: &Problem, out: &mut String) {
    let Some(gemm) = problem.gemm() else { return };
    let site = &gemm.site;
    let number = match column {
        "B" => site.batch.count,
        "M" => gemm.m,
        "N" => site.n,
        "K" => site.k,
        "bias" => return out.push_str(flag_text(site.bias.is_some())),
        "dtype" => return out.push_str(&site.x.torch_name()),
        "outdtype" => return out.push_str(&site.out.torch_name()),
        "scaleAB" => return out.push_str(flag_text(Linear::of(problem).is_scaled())),
        "bpreshuffle" => return out.push_str(flag_text(site.preshuffled)),
        "q_dtype_w" => return out.push_str(&site.w.torch_name()),
        _ => return,
    };
    // Writing to a String cannot fail.
    let _ = write!(out, "{number}");
}

/// By AITER's formula: a multiplication and an addition for each product, over the time.
fn tflops(choice: &Choice) -> f64 {
    cost::flops(&choice.problem) / choice.time_us / 1e6
}

/// By AITER's formula: both inputs and the output once, over the time. Its bf16 and batched int8 tables count two bytes
/// for every element.
fn gb_per_s(family: Family, choice: &Choice) -> f64 {
    let [m, n, k] = Linear::of(&choice.problem).extents().map(f64::from);
    let bytes = match choice.problem.gemm() {
        Some(gemm) if !matches!(family, Family::Bf16 | Family::BatchedA8w8) => {
            let of = |dtype: DType| f64::from(dtype.bits()) / 8.0;
            [of(gemm.site.x), of(gemm.site.w), of(gemm.site.out)]
        }
        _ => [2.0; 3],
    };
    let batch = choice.problem.gemm().map_or(1.0, |gemm| f64::from(gemm.site.batch.count));
    batch * (m * k * bytes[0] + n * k * bytes[1] + m * n * bytes[2]) / choice.time_us / 1e3
}

/// Free texts of AITER's columns, as they are to be written.
pub(in crate::format) struct Texts<'a> {
    pub(in crate::format) arch: &'a str,
    pub(in crate::format) library: &'a str,
    pub(in crate::format) name: &'a str,
}

/// Writes the eighteen cells of AITER's bf16 table.
pub(in crate::format) fn write_columns(line: &mut LineWriter<'_>, choice: &Choice, texts: &Texts<'_>) {
    line.cell(texts.arch).cell(choice.device.compute_units);
    Linear::of(&choice.problem).write(line);
    line.cell(texts.library).cell(choice.solution.index).cell(split_k(&choice.solution.params));
    // A source without times (vLLM's tables) leaves the cells empty that hang on one.
    let timed = |value: f64| if choice.time_us.is_nan() { String::new() } else { format!("{value:.2}") };
    match choice.time_us.is_nan() {
        true => line.cell(""),
        false => line.cell(choice.time_us),
    };
    line.cell(texts.name).cell(choice.err_ratio);
    line.cell(timed(tflops(choice))).cell(timed(gb_per_s(Family::Bf16, choice)));
}
