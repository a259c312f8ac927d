//! Tuned tables: choices, exactly as they were made.
//!
//! AITER's eighteen columns come first with AITER's meaning, so that its tools can look at the file, then ours, which
//! say the rest of a [`Choice`]. `tflops` and `bw` are derived and not read back.

mod repeats;

use std::path::Path;
use std::sync::Arc;

use super::aiter::{self, split_k};
use super::baselines::{self, known, known_text};
use super::cells::{Cells, LineWriter};
use super::error::{Read, ReadError};
use super::intern::Interner;
use super::limits::{FIELDS_MAX, excerpt};
use super::linear::LinearColumns;
use super::origin::Origins;
use super::sheet::{Column, Header, Reason, Sheet, Spec};
use super::{Format, ReadOptions, cells};
use crate::atomic::{self, WriteError};
use crate::choice::{Choice, Ratio};
use crate::device::Device;
use crate::origin::{Origin, Shared, Source};
use crate::problem::{Problem, Site};
use crate::solution::{Params, Solution};
use repeats::Repeats;

/// Our columns, behind AITER's.
const OURS: &[&str] = &[
    "problem",
    "vendor",
    "memory_gib",
    "chip_id",
    "partition",
    "last_level_cache_bytes",
    "version",
    "revision",
    "params",
    "weight_form",
    "workspace_bytes",
    "numerics",
    "deterministic",
    "graph_safe",
    "ratio",
    "ratio_low",
    "ratio_high",
    "verdict",
    "baselines",
    "error_over_bound",
    "pack_us",
    "count",
    "tuned_at",
];

/// AITER's columns and ours, in the order of writing.
const ALL: [&str; aiter::COLUMNS.len() + OURS.len()] = {
    let mut all = [""; aiter::COLUMNS.len() + OURS.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < aiter::COLUMNS.len() { aiter::COLUMNS[at] } else { OURS[at - aiter::COLUMNS.len()] };
        at += 1;
    }
    all
};

/// Where the choice was imported from, behind ours; all empty where a sweep made it. Tables of before these columns were
/// added are read without.
const ORIGIN: &[&str] = &["origin_file", "origin_line", "origin_hash", "origin_format", "imported_at", "origin_cells"];

pub(super) const SPEC: Spec = Spec { required: &ALL, optional: ORIGIN, renamed: &[] };

/// The most cells of one imported row that are read.
const ORIGIN_CELLS_MAX: usize = 2 * FIELDS_MAX;

/// The whole table as text.
pub fn to_text<'a>(choices: impl IntoIterator<Item = &'a Choice>) -> String {
    let mut text = ALL.join(",");
    for name in ORIGIN {
        text.push(',');
        text.push_str(name);
    }
    text.push('\n');
    for choice in choices {
        write_row(&mut text, choice);
    }
    text
}

/// Replaces `path` by a table of `choices`, atomically.
pub fn write<'a>(path: &Path, choices: impl IntoIterator<Item = &'a Choice>) -> Result<(), WriteError> {
    atomic::write(path, to_text(choices).as_bytes())
}

fn write_row(out: &mut String, choice: &Choice) {
    let Choice { device, solution, ratio, .. } = choice;
    let mut name = String::new();
    cells::escape(&solution.name, &mut name);
    let mut library = String::new();
    cells::escape(solution.library(), &mut library);
    let mut arch = String::new();
    cells::escape(&device.arch, &mut arch);
    let mut line = LineWriter::new(out);
    aiter::write_columns(&mut line, choice, &aiter::Texts { arch: &arch, library: &library, name: &name });
    line.cell(choice.problem).cell(device.vendor).optional(device.memory_gib);
    line.optional(device.chip_id.map(|id| format!("{id:#x}"))).text(device.partition.as_deref().unwrap_or(""));
    line.cell(device.last_level_cache_bytes);
    line.text(&solution.build.version).text(&solution.build.revision).text(&solution.params.to_string());
    line.cell(solution.weight_form).cell(solution.workspace_bytes).cell(solution.numerics);
    line.cell(known_text(solution.deterministic)).cell(known_text(solution.graph_safe));
    line.cell(ratio.estimate).cell(ratio.low).cell(ratio.high).cell(choice.verdict);
    line.cell(baselines::to_text(&choice.baselines)).cell(choice.error_over_bound).optional(choice.pack_us);
    line.cell(choice.count).text(&choice.tuned_at);
    match &choice.origin {
        Some(origin) => write_origin(&mut line, origin),
        None => ORIGIN.iter().for_each(|_| {
            line.cell("");
        }),
    }
    line.end();
}

fn write_origin(line: &mut LineWriter<'_>, origin: &Origin) {
    let Source { file, file_hash, format, imported_at, .. } = &*origin.source;
    line.text(file).cell(origin.line).text(file_hash).text(format).text(imported_at);
    // `name#cell|name#cell|…`: neither separator stands in an escaped text.
    let mut compact = String::new();
    for (name, cell) in origin.cells() {
        cells::escape(name, &mut compact);
        compact.push('#');
        cells::escape(cell, &mut compact);
        compact.push('|');
    }
    line.cell(compact);
}

/// Where the columns of an origin stand.
struct OriginColumns([Column; ORIGIN.len()]);

impl OriginColumns {
    fn of(header: &Header<'_>) -> Option<OriginColumns> {
        let mut columns = [header.find(ORIGIN[0])?; ORIGIN.len()];
        for (column, name) in columns.iter_mut().zip(ORIGIN) {
            *column = header.find(name)?;
        }
        Some(OriginColumns(columns))
    }

    fn read(&self, row: &Cells, shared: &Shared) -> Result<Option<Origin>, Reason> {
        let [file, line, file_hash, format, imported_at, compact] = self.0;
        if file.text(row).is_empty() && file_hash.text(row).is_empty() {
            return Ok(None);
        }
        let cells = read_cells(compact.text(row)).map_err(|why| format!("{}: {why}", compact.name))?;
        let (columns, cells): (Vec<String>, Vec<String>) = cells.into_iter().unzip();
        let source = Source {
            file: file.unescaped(row)?.into_owned(),
            file_hash: file_hash.unescaped(row)?.into_owned(),
            format: format.unescaped(row)?.into_owned(),
            imported_at: imported_at.unescaped(row)?.into_owned(),
            columns,
        };
        let source = shared.source(|have| *have == source, || source.clone());
        Ok(Some(Origin::new(source, line.whole(row)?, cells.iter().map(String::as_str))))
    }
}

fn read_cells(compact: &str) -> Result<Vec<(String, String)>, Reason> {
    let mut found = Vec::new();
    for part in compact.split_terminator('|') {
        if found.len() == ORIGIN_CELLS_MAX {
            return Err(format!("more than {ORIGIN_CELLS_MAX} cells"));
        }
        let (name, cell) = part.split_once('#').ok_or_else(|| format!("'{}' is not name#cell", excerpt(part)))?;
        found.push((cells::unescape(name)?.into_owned(), cells::unescape(cell)?.into_owned()));
    }
    Ok(found)
}

/// Where every column stands, and what rows before said. One field a column would repeat their names a fourth time: ours
/// are found by position in [`ALL`], which is how they are written.
struct Columns {
    linear: LinearColumns,
    m: Column,
    /// AITER's key columns but M: with the key in `problem` they say the site.
    beside: [Column; 7],
    gfx: Column,
    cu_num: Column,
    libtype: Column,
    solidx: Column,
    split_k: Column,
    us: Column,
    kernel_name: Column,
    err_ratio: Column,
    ours: [Column; OURS.len()],
    interner: Interner,
    sites: Repeats<Site>,
    devices: Repeats<Arc<Device>>,
    solutions: Repeats<Solution>,
}

impl Columns {
    fn of(header: &Header<'_>, bytes: usize) -> Columns {
        let mut ours = [header.get("problem"); OURS.len()];
        for (column, name) in ours.iter_mut().zip(OURS) {
            *column = header.get(name);
        }
        Columns {
            linear: LinearColumns::of(header),
            m: header.get("M"),
            beside: ["N", "K", "bias", "dtype", "outdtype", "scaleAB", "bpreshuffle"].map(|name| header.get(name)),
            gfx: header.get("gfx"),
            cu_num: header.get("cu_num"),
            libtype: header.get("libtype"),
            solidx: header.get("solidx"),
            split_k: header.get("splitK"),
            us: header.get("us"),
            kernel_name: header.get("kernelName"),
            err_ratio: header.get("err_ratio"),
            ours,
            interner: Interner::of(bytes),
            sites: Repeats::of(bytes),
            devices: Repeats::of(bytes),
            solutions: Repeats::of(bytes),
        }
    }
}

/// Reads our table. A row that says where it was imported from keeps that; one that does not comes from this file.
pub(super) fn read<T>(
    sheet: &Sheet<'_>,
    header: &Header<'_>,
    options: &ReadOptions,
    keep: &mut impl FnMut(u64, Choice) -> T,
) -> Result<Read<T>, ReadError> {
    let columns = Columns::of(header, sheet.text().len());
    let origins = Origins::of(sheet.file(), sheet.whole(), Format::Tuned, options);
    let carried = OriginColumns::of(header);
    let shared = Shared::default();
    sheet.read(Format::Tuned, |line, row| {
        let mut choice = columns.read(row)?;
        if let Some(origins) = &origins {
            let origin = carried.as_ref().map_or(Ok(None), |columns| columns.read(row, &shared))?;
            choice.origin = Some(origin.map_or_else(|| origins.at(line.number, []), Arc::new));
        }
        Ok(keep(line.number, choice))
    })
}

/// The start of a canonical key, up to its M.
const GEMM: &str = "gemm,m=";

impl Columns {
    #[rustfmt::skip]
    fn read(&self, row: &Cells) -> Result<Choice, Reason> {
        let [problem, vendor, memory_gib, chip_id, partition, last_level_cache_bytes, version, revision, params,
            weight_form, workspace_bytes, numerics, deterministic, graph_safe, ratio, ratio_low, ratio_high, verdict,
            baselines, error_over_bound, pack_us, count, tuned_at] = self.ours;
        let place = [vendor, self.gfx, self.cu_num, memory_gib, chip_id, partition, last_level_cache_bytes];
        let way = [self.libtype, version, revision, self.solidx, self.kernel_name, params, self.split_k, weight_form,
            workspace_bytes, numerics, deterministic, graph_safe];
        Ok(Choice {
            problem: self.problem(problem, row)?,
            device: self.devices.get("", &place, row, || self.device(place, row))?,
            solution: self.solutions.get("", &way, row, || self.solution(way, row))?,
            // Empty: its source has no time. A placeholder such as 0 is not that.
            time_us: if self.us.text(row).is_empty() { f64::NAN } else { self.us.positive(row)? },
            ratio: Ratio {
                estimate: ratio.positive(row)?,
                low: end_of_interval(ratio_low, row)?,
                high: end_of_interval(ratio_high, row)?,
            },
            verdict: verdict.parsed(row)?,
            baselines: baselines::from_text(baselines.text(row))?,
            error_over_bound: error_over_bound.not_negative(row)?,
            err_ratio: self.err_ratio.not_negative(row)?,
            pack_us: match pack_us.text(row) {
                "" => None,
                _ => Some(pack_us.not_negative(row)?),
            },
            count: count.whole(row)?,
            tuned_at: tuned_at.unescaped(row)?.into_owned(),
            origin: None,
        })
    }

    /// The key, with which AITER's columns must agree.
    fn problem(&self, problem: Column, row: &Cells) -> Result<Problem, Reason> {
        let key = problem.text(row).strip_prefix(GEMM).and_then(|rest| rest.split_once(','));
        let Some((m, rest)) = key else { return self.linear.read_beside(problem, row) };
        let read = || match self.linear.read_beside(problem, row)? {
            Problem::Gemm(gemm) => Ok(gemm.site),
            Problem::Moe(_) => Err(format!("{}: is no GEMM", problem.name)),
        };
        let site = self.sites.get(rest, &self.beside, row, read)?;
        let gemm = m.parse().ok().filter(|m| self.m.extent(row).as_ref() == Ok(m)).map(|m| site.at(m));
        match gemm.filter(|gemm| gemm.validate().is_ok()) {
            Some(gemm) => Ok(gemm.into()),
            // Read whole, so that it says what is wrong.
            None => self.linear.read_beside(problem, row),
        }
    }

    fn device(&self, place: [Column; 7], row: &Cells) -> Result<Arc<Device>, Reason> {
        let [vendor, gfx, cu_num, memory_gib, chip_id, partition, last_level_cache_bytes] = place;
        let partition = partition.unescaped(row)?;
        let but_arch = Device {
            vendor: vendor.parsed(row)?,
            arch: String::new(),
            compute_units: cu_num.whole(row)?,
            memory_gib: memory_gib.whole_or_none(row)?,
            chip_id: hex_or_none(chip_id, row)?,
            partition: (!partition.is_empty()).then(|| partition.into_owned()),
            last_level_cache_bytes: last_level_cache_bytes.whole(row)?,
        };
        Ok(self.interner.device(&gfx.unescaped(row)?, but_arch))
    }

    #[rustfmt::skip]
    fn solution(&self, way: [Column; 12], row: &Cells) -> Result<Solution, Reason> {
        let [libtype, version, revision, solidx, kernel_name, params, split_k, weight_form, workspace_bytes, numerics,
            deterministic, graph_safe] = way;
        let property = |column: Column| {
            known(column.text(row)).ok_or_else(|| column.refuse(row, "true, false or nothing"))
        };
        let interner = &self.interner;
        Ok(Solution {
            build: interner.build(&libtype.unescaped(row)?, &version.unescaped(row)?, &revision.unescaped(row)?),
            index: solidx.whole(row)?,
            name: interner.name(&kernel_name.unescaped(row)?),
            params: self.params(params, split_k, row)?,
            weight_form: weight_form.parsed(row)?,
            workspace_bytes: workspace_bytes.whole(row)?,
            numerics: numerics.parsed(row)?,
            deterministic: property(deterministic)?,
            graph_safe: property(graph_safe)?,
        })
    }

    /// The parameters, with which `splitK` must agree: it is their `split_k` for AITER's eyes.
    fn params(&self, params: Column, shown: Column, row: &Cells) -> Result<Params, Reason> {
        let parsed: Params = match params.unescaped(row)?.as_ref() {
            "" => self.interner.no_params(),
            text => text.parse().map_err(|error| format!("{}: {error}", params.name))?,
        };
        let shown: i64 = shown.whole(row)?;
        match split_k(&parsed) {
            want if want == shown => Ok(parsed),
            want => Err(format!("splitK is {shown}, params say {want}")),
        }
    }
}

/// An end of the interval of a ratio: not negative. A race that ended early says 0 and `inf`, which is that nothing is known.
fn end_of_interval(column: Column, row: &Cells) -> Result<f64, Reason> {
    let value = column.text(row).parse().ok().filter(|value: &f64| *value >= 0.0);
    value.ok_or_else(|| column.refuse(row, "a number not below 0, or inf"))
}

/// A number such as `0x74a1`; `None` where the cell is empty.
fn hex_or_none(column: Column, row: &Cells) -> Result<Option<u32>, Reason> {
    let text = column.text(row);
    if text.is_empty() {
        return Ok(None);
    }
    let value = text.strip_prefix("0x").and_then(|digits| u32::from_str_radix(digits, 16).ok());
    value.map(Some).ok_or_else(|| column.refuse(row, "a hexadecimal number such as 0x74a1"))
}
