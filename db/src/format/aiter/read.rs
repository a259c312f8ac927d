//! AITER's GEMM tables become choices and problems.
//!
//! What a row does not say is what its family means by it: the output is bf16 (every kernel name of the quantised
//! families says so), `x` of an int8 or fp8 row has the weights' type, and fp8 without a type column is the arch's own.
//! `splitK` becomes the number of parts of K, [`SPLIT_K`] among the parameters. Rows without `gfx` get their arch from
//! the compute units as in AITER's own loader: 256 is gfx950, 80 and 304 are gfx942.
//!
//! Numerics class: exact. AITER compares every candidate with a reference before it writes a row, and its split-K
//! kernels reduce through f32 workspaces or atomics; the files say nothing to the contrary.

use super::detect::{self, SPEC};
use super::family::{Layout, Library, Types};
use super::{SPLIT_K, is_null};
use crate::choice::Choice;
use std::sync::Arc;

use crate::device::{Device, Vendor};
use crate::dtype::DType;
use crate::format::cells::Cells;
use crate::format::intern::Interner;
use crate::format::linear::LinearColumns;
use crate::format::origin::Origins;
use crate::format::pieces;
use crate::format::sheet::{Column, Header, Line, Reason, Sheet};
use crate::format::{AssumedDevice, Format, Found, Read, ReadError, ReadOptions};
use crate::problem::{Batch, Problem, Site};
use crate::recording::Recorded;
use crate::solution::{Numerics, Solution, WeightForm};

/// What the key columns of a quantised or batched family show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) m: u32,
    pub(super) n: u32,
    pub(super) k: u32,
    pub(super) batch: u32,
    /// Of `x` and of `w`.
    pub(super) types: (DType, DType),
    pub(super) bias: bool,
    pub(super) out: DType,
}

impl Shown {
    /// The problem that the family means by it; the matrices of a batch lie one behind the other.
    pub(super) fn problem(&self, layout: &Layout) -> Problem {
        let [m, n, k] = [self.m, self.n, self.k].map(u64::from);
        let batch = match self.batch {
            1 => Batch::default(),
            count => Batch { count, stride_x: m * k, stride_w: n * k, stride_out: m * n },
        };
        let (x, w) = self.types;
        let site = Site {
            w,
            out: self.out,
            bias: self.bias.then_some(self.out),
            scale: layout.scale,
            scale_dtype: layout.scale_dtype,
            preshuffled: layout.preshuffled,
            batch,
            ..Site::linear(self.n, self.k, x)
        };
        site.at(self.m).into()
    }
}

/// The fp8 type that `arch` multiplies: e4m3fnuz on gfx94x, OCP's e4m3fn since.
pub(super) fn fp8_of(arch: &str) -> DType {
    if arch.starts_with("gfx94") { DType::F8E4m3Fnuz } else { DType::F8E4m3Fn }
}

/// The types of `x` and `w` where the column `q_dtype_w` says `weight` on `arch`.
pub(super) fn types_beside(weight: DType, arch: &str) -> (DType, DType) {
    (if weight.bits() < 8 { fp8_of(arch) } else { weight }, weight)
}

/// Where the columns stand; what a family or an old file has not is `None`.
struct Columns {
    gfx: Option<Column>,
    cu_num: Option<Column>,
    linear: Option<LinearColumns>,
    extents: [Column; 3],
    batch: Option<Column>,
    weight: Option<Column>,
    bias: Option<Column>,
    outdtype: Option<Column>,
    libtype: Option<Column>,
    solidx: Option<Column>,
    split_k: Option<Column>,
    us: Column,
    kernel_name: Option<Column>,
    err_ratio: Option<Column>,
}

impl Columns {
    fn of(layout: &Layout, header: &Header<'_>) -> Columns {
        Columns {
            gfx: header.find("gfx"),
            cu_num: header.find("cu_num"),
            linear: (layout.types == Types::Columns).then(|| LinearColumns::of(header)),
            extents: [header.get("M"), header.get("N"), header.get("K")],
            batch: header.find("B"),
            weight: header.find("q_dtype_w"),
            bias: header.find("bias"),
            outdtype: header.find("outdtype"),
            libtype: header.find("libtype"),
            solidx: header.find("solidx"),
            split_k: header.find("splitK"),
            us: header.get("us"),
            kernel_name: header.find("kernelName"),
            err_ratio: header.find("err_ratio"),
        }
    }
}

/// Reads the rows of one table.
pub(super) struct Reader<'s> {
    layout: &'static Layout,
    columns: Columns,
    names: &'s [String],
    options: &'s ReadOptions,
    origins: Option<Origins>,
    interner: Interner,
}

/// Reads a table whose family is known.
pub(super) fn read<T>(
    found: detect::Found<'_>,
    options: &ReadOptions,
    keep: &mut impl FnMut(u64, Choice) -> T,
) -> Result<Found<T>, ReadError> {
    let detect::Found { sheet, layout, is_tuned, warnings } = found;
    let family = layout.family;
    let format = if is_tuned { Format::AiterTuned(family) } else { Format::AiterUntuned(family) };
    let origins = Origins::of(sheet.file(), sheet.whole(), format, options);
    let (origins, of_problems) = if is_tuned { (origins, None) } else { (None, origins) };
    let reader = Reader::new(layout, &sheet, options, origins);
    let assumptions = reader.assumptions(is_tuned);
    let warnings = warnings.into_iter().chain(assumptions);
    if is_tuned {
        let mut read = sheet.read(format, |line, row| Ok(keep(line.number, reader.choice(line, row)?)))?;
        warnings.for_each(|warning| read.warn(None, warning));
        return Ok(Found::Choices(read));
    }
    let arch = options.device.as_ref().map_or("", |device| device.arch.as_str());
    let mut read: Read<Recorded> = sheet.read(format, |_, row| Ok(Recorded::bare(reader.problem(row, arch)?)))?;
    warnings.for_each(|warning| read.warn(None, warning));
    if let Some(origins) = &of_problems {
        pieces::keep(&sheet, &mut read, origins);
    }
    Ok(Found::Problems(read))
}

impl<'s> Reader<'s> {
    pub(super) fn new(
        layout: &'static Layout,
        sheet: &'s Sheet<'_>,
        options: &'s ReadOptions,
        origins: Option<Origins>,
    ) -> Reader<'s> {
        let columns = Columns::of(layout, &sheet.header(&SPEC));
        Reader { layout, columns, names: &sheet.names, options, origins, interner: Interner::of(sheet.text().len()) }
    }

    /// What is assumed of all rows for want of a column.
    fn assumptions(&self, is_tuned: bool) -> Vec<String> {
        let mut all = Vec::new();
        let device = self.options.device.as_ref();
        let is_fp8_said = self.columns.weight.is_some() || device.is_some();
        if !is_tuned && self.layout.types == Types::Fp8OfArch && !is_fp8_said {
            all.push("the file does not say which fp8 it means: e4m3fn is taken; name the device for e4m3fnuz".into());
        }
        if is_tuned && self.columns.gfx.is_some() && self.columns.cu_num.is_none() && device.is_none() {
            all.push("no cu_num column: rows are kept with 0 compute units; name the device to say theirs".into());
        }
        all
    }

    /// One row of a tuned table.
    pub(super) fn choice(&self, line: Line<'_>, row: &Cells) -> Result<Choice, Reason> {
        let columns = &self.columns;
        let device = self.device(row)?;
        let problem = self.problem(row, &device.arch)?;
        let time_us = columns.us.positive(row)?;
        let err_ratio = match columns.err_ratio {
            Some(column) if !is_null(column.text(row)) => column.not_negative(row)?,
            _ => 0.0,
        };
        let choice = Choice::uncompared(problem, device, self.solution(row, &problem)?, time_us);
        Ok(Choice {
            err_ratio,
            origin: self.origins.as_ref().map(|origins| {
                // A line end that cannot be told as text is told as the reader's own rules see it.
                let end = String::from_utf8_lossy(line.end);
                origins.at(line.number, self.spelling(&end, row))
            }),
            ..choice
        })
    }

    /// The cells by their column, and under no name the line end where it is not a line feed.
    fn spelling<'r>(&'r self, end: &'r str, row: &'r Cells) -> impl Iterator<Item = (&'r str, &'r str)> + Clone {
        let cells = self.names.iter().enumerate().map(|(at, name)| (name.as_str(), row.get(at)));
        cells.chain((end != "\n").then_some(("", end)))
    }

    /// What the key columns say, on `arch`; empty if that is not known.
    fn problem(&self, row: &Cells, arch: &str) -> Result<Problem, Reason> {
        let columns = &self.columns;
        if let Some(linear) = &columns.linear {
            return Ok(linear.read(row)?.problem());
        }
        let [m, n, k] = columns.extents;
        let shown = Shown {
            m: m.extent(row)?,
            n: n.extent(row)?,
            k: k.extent(row)?,
            batch: columns.batch.map_or(Ok(1), |column| column.extent(row))?,
            types: self.types(row, arch)?,
            bias: columns.bias.map_or(Ok(false), |column| column.flag(row))?,
            out: columns.outdtype.map_or(Ok(DType::Bf16), |column| column.torch_dtype(row))?,
        };
        Ok(shown.problem(self.layout))
    }

    fn types(&self, row: &Cells, arch: &str) -> Result<(DType, DType), Reason> {
        match (self.layout.types, self.columns.weight) {
            (Types::Both(dtype), _) => Ok((dtype, dtype)),
            // A column that says more than the family's tables do is believed.
            (_, Some(column)) => Ok(types_beside(column.torch_dtype(row)?, arch)),
            (Types::Fp8OfArch, None) => Ok((fp8_of(arch), fp8_of(arch))),
            (Types::WeightColumn | Types::Columns, None) => match self.options.weight_dtype {
                Some(weight) => Ok(types_beside(weight, arch)),
                None => Err("no q_dtype_w column: say which type the weights have".into()),
            },
        }
    }

    fn solution(&self, row: &Cells, problem: &Problem) -> Result<Solution, Reason> {
        let columns = &self.columns;
        let name = columns.kernel_name.map_or("", |column| column.text(row));
        let name = if is_null(name) { "" } else { name };
        let library = self.library(row, name)?;
        let number = columns.split_k.map_or(Ok(0), |column| column.whole_or_default::<u32>(row))?;
        let parts = self.layout.split_k.parts(library, number);
        let parts = parts.ok_or_else(|| format!("splitK is '{number}': a power of two up to 31 is expected"))?;
        // One part is what no parameter means; a literal 1 is kept, an exponent 0 is not worth one.
        let is_split = parts > 1 || (parts == 1 && number == 1);
        Ok(Solution {
            build: self.interner.build(library, "", ""),
            index: columns.solidx.map_or(Ok(0), |column| column.whole(row))?,
            name: self.interner.name(name),
            params: if is_split { self.interner.param(SPLIT_K, parts.into()) } else { self.interner.no_params() },
            weight_form: weight_form(problem),
            workspace_bytes: 0,
            numerics: Numerics::Exact,
            deterministic: None,
            graph_safe: None,
        })
    }

    fn library<'r>(&self, row: &'r Cells, kernel_name: &str) -> Result<&'r str, Reason> {
        let said = self.columns.libtype.map(|column| (column, column.text(row)));
        match (said, self.layout.library) {
            (Some((_, text)), _) if !is_null(text) => Ok(text),
            (_, Library::Default(library)) => Ok(library),
            // Itanium mangling, which only AITER's assembly kernels carry.
            (_, Library::ByKernelName) => Ok(if kernel_name.starts_with("_Z") { "asm" } else { "ck" }),
            (Some((column, _)), Library::Said) => {
                let known = self.layout.libraries.join(", ");
                Err(column.refuse(row, format_args!("a library such as {known}")))
            }
            (None, Library::Said) => Err("no libtype column: which library it is cannot be known".into()),
        }
    }

    fn device(&self, row: &Cells) -> Result<Arc<Device>, Reason> {
        let compute_units: Option<u32> = match self.columns.cu_num {
            Some(column) => Some(column.whole(row)?),
            None => None,
        };
        let arch = self.columns.gfx.map_or("", |column| column.text(row));
        let (arch, units) = device(arch, compute_units, self.options.device.as_ref())?;
        Ok(self.interner.device(arch, Device::named(Vendor::Amd, String::new(), units)))
    }
}

/// How AITER holds the weights of `problem`.
pub(super) fn weight_form(problem: &Problem) -> WeightForm {
    match problem.gemm().is_some_and(|gemm| gemm.site.preshuffled) {
        true => WeightForm::Preshuffled,
        false => WeightForm::Plain,
    }
}

/// The arch and compute units of an AMD device.
fn device<'a>(
    arch: &'a str,
    compute_units: Option<u32>,
    assumed: Option<&'a AssumedDevice>,
) -> Result<(&'a str, u32), Reason> {
    if !is_null(arch) {
        let theirs = assumed.filter(|assumed| assumed.arch == arch).map_or(0, |assumed| assumed.compute_units);
        return Ok((arch, compute_units.unwrap_or(theirs)));
    }
    if let Some(assumed) = assumed.filter(|assumed| compute_units.is_none_or(|cu| cu == assumed.compute_units)) {
        return Ok((&assumed.arch, assumed.compute_units));
    }
    match compute_units {
        Some(256) => Ok(("gfx950", 256)),
        Some(cu @ (80 | 304)) => Ok(("gfx942", cu)),
        Some(cu) => Err(format!("no gfx column, and cu_num {cu} tells no arch: say which device it was")),
        None => Err("neither gfx nor cu_num: say which device it was".into()),
    }
}
