//! The operands of one problem in device memory: a warm `x` in several places, rotated weights and outputs.

use std::ffi::c_void;
use std::ops::Range;

use tgemm_db::Problem;
use tgemm_db::problem::{Alignment, Site};

use super::data::{Data, Matrix};
use super::float::Float;
use super::layout::{Grid, Layout, Layouts};
use super::scan::{GUARD_BYTE, UNWRITTEN_BYTE, fold};
use super::slab::Slab;
use super::zone::Zone;
use crate::{Cell, Context, Error, Operands, Survey, Surveyed};

/// Guards around outputs: four of its rows, within these limits.
const GUARD_BYTES_MIN: usize = 4 << 10;
const GUARD_BYTES_MAX: usize = 1 << 20;

/// One output with the old output that goes into it, if that is other memory.
struct Output {
    out: Zone,
    c: Option<Zone>,
}

/// Device copies of [`Data`]. Weights and outputs grow to the rotation's length when it is first needed.
pub(super) struct OperandSet {
    site: Site,
    /// Of each output, and of its old output.
    layout: Layout,
    shift: usize,
    /// One `x`, again and again.
    activations: Vec<Zone>,
    bias: Option<Zone>,
    /// Factors of `x` and of `w`, where the problem is scaled.
    scales: Option<(Zone, Zone)>,
    weights: Vec<Zone>,
    outputs: Vec<Output>,
    /// What copies beyond the first are pieces of.
    weights_slab: Slab,
    outputs_slab: Slab,
}

/// `values` in memory of their own, aligned as the allocator does.
fn floats(context: &dyn Context, values: &[f32]) -> Result<Zone, Error> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    let mut zone = Zone::new(context, bytes.len(), 0, 0)?;
    zone.write_at(context, 0, &bytes)?;
    Ok(zone)
}

/// Writes what `make` puts into each piece of stored rows.
fn write(
    context: &dyn Context,
    zone: &mut Zone,
    (layout, element_bytes): (&Layout, usize),
    mut make: impl FnMut(Range<usize>, &mut [u8]),
) -> Result<(), Error> {
    let mut staging = Vec::new();
    layout.pieces(element_bytes, |rows, bytes| {
        staging.resize(bytes.len(), 0);
        make(rows, &mut staging);
        zone.write_at(context, bytes.start, &staging)
    })
}

/// `matrix` in memory of its own, `shift` bytes past the allocator's alignment.
fn stored(context: &dyn Context, matrix: &Matrix, shift: usize) -> Result<Zone, Error> {
    let mut zone = Zone::new(context, matrix.stored_bytes(), 0, shift)?;
    let lies = (matrix.layout(), matrix.element_bytes());
    write(context, &mut zone, lies, |rows, bytes| matrix.fill(rows, bytes))?;
    Ok(zone)
}

/// How far pointers are from the allocator's alignment, so that they have the problem's and no better. No less than an
/// element: what is stored as elements is aligned to them.
fn shift(align: Alignment, element_bytes: usize) -> usize {
    match align {
        Alignment::B8 => 8,
        Alignment::B4 => 4.max(element_bytes),
        Alignment::B1 => element_bytes,
        _ => 0,
    }
}

impl OperandSet {
    /// One copy of everything.
    pub(super) fn new(context: &dyn Context, problem: &Problem, data: &Data) -> Result<OperandSet, Error> {
        let gemm = crate::gemm_of(problem)?;
        let widest = [Some(gemm.site.x), Some(gemm.site.w), Some(gemm.site.out), gemm.site.bias];
        let mut element_bytes = 1;
        for dtype in widest.into_iter().flatten() {
            element_bytes = element_bytes.max(Float::of(dtype)?.bytes());
        }
        let shift = shift(gemm.site.align, element_bytes);
        let matrix = |matrix: &Matrix| stored(context, matrix, shift);
        let mut set = OperandSet {
            site: gemm.site,
            layout: Layouts::of(gemm)?.out,
            shift,
            activations: vec![matrix(&data.x)?],
            bias: data.bias.as_ref().map(matrix).transpose()?,
            scales: data
                .scales
                .as_ref()
                .map(|s| Ok::<_, Error>((floats(context, s.x())?, floats(context, s.w())?)))
                .transpose()?,
            weights: Vec::new(),
            outputs: Vec::new(),
            weights_slab: Slab::default(),
            outputs_slab: Slab::default(),
        };
        set.grow_weights(context, data, 1)?;
        set.grow_outputs(context, data, 1)?;
        Ok(set)
    }

    /// Memory of one more pair of weights and output.
    pub(super) fn bytes_per_copy(problem: &Problem) -> Result<u64, Error> {
        let gemm = crate::gemm_of(problem)?;
        let site = &gemm.site;
        let layouts = Layouts::of(gemm)?;
        let bytes = |layout: Layout, dtype| Ok::<_, Error>((layout.elements() * Float::of(dtype)?.bytes()) as u64);
        let (w, out) = (bytes(layouts.w, site.w)?, bytes(layouts.out, site.out)?);
        let c = if has_own_c(site) { out } else { 0 };
        Ok(w.saturating_add(out).saturating_add(c))
    }

    /// Memory of what a bench starts with, but for weights and output: activations and bias.
    pub(super) fn fixed_bytes(data: &Data) -> u64 {
        (data.x.stored_bytes() + data.bias.as_ref().map_or(0, Matrix::stored_bytes)) as u64
    }

    /// Device memory held.
    pub(super) fn bytes(&self) -> u64 {
        let outputs = self.outputs.iter().flat_map(|output| std::iter::once(&output.out).chain(&output.c));
        let scales = self.scales.iter().flat_map(|(x, w)| [x, w]);
        let zones = self.activations.iter().chain(&self.bias).chain(scales).chain(&self.weights).chain(outputs);
        zones.map(|zone| zone.bytes() as u64).sum()
    }

    /// Copies of the weights, and of the outputs.
    pub(super) fn lens(&self) -> (usize, usize) {
        (self.weights.len(), self.outputs.len())
    }

    /// Places that activations lie in.
    pub(super) fn places(&self) -> usize {
        self.activations.len()
    }

    /// Gives copies beyond `copies` back.
    pub(super) fn shrink(&mut self, copies: usize) {
        self.weights.truncate(copies.max(1));
        self.outputs.truncate(copies.max(1));
        self.weights_slab.clear();
        self.outputs_slab.clear();
    }

    /// Puts activations into `places` places.
    pub(super) fn grow_activations(&mut self, context: &dyn Context, data: &Data, places: usize) -> Result<(), Error> {
        let mut slab = Slab::default();
        while self.activations.len() < places {
            let wanted = places - self.activations.len();
            let mut zone = Zone::one_of(context, &mut slab, wanted, data.x.stored_bytes(), 0, self.shift)?;
            zone.copy_from(context, &self.activations[0])?;
            self.activations.push(zone);
        }
        Ok(())
    }

    /// Makes `copies` of the weights.
    pub(super) fn grow_weights(&mut self, context: &dyn Context, data: &Data, copies: usize) -> Result<(), Error> {
        while self.weights.len() < copies {
            let zone = match self.weights.first() {
                Some(first) => {
                    let (slab, wanted) = (&mut self.weights_slab, copies - self.weights.len());
                    let mut zone = Zone::one_of(context, slab, wanted, data.w.stored_bytes(), 0, self.shift)?;
                    zone.copy_from(context, first)?;
                    zone
                }
                None => stored(context, &data.w, self.shift)?,
            };
            self.weights.push(zone);
        }
        Ok(())
    }

    /// Makes `copies` of the outputs.
    pub(super) fn grow_outputs(&mut self, context: &dyn Context, data: &Data, copies: usize) -> Result<(), Error> {
        while self.outputs.len() < copies {
            let size = self.element_bytes()?;
            let row_bytes = self.site.ldo() as usize * size;
            let guard = (4 * row_bytes).clamp(GUARD_BYTES_MIN, GUARD_BYTES_MAX).next_multiple_of(64);
            let (slab, wanted) = (&mut self.outputs_slab, copies - self.outputs.len());
            let out = Zone::one_of(context, slab, wanted, self.layout.elements() * size, guard, self.shift)?;
            let c = match &data.c {
                Some(c) if has_own_c(&self.site) => Some(stored(context, c, self.shift)?),
                _ => None,
            };
            self.outputs.push(Output { out, c });
            self.reset_output(context, data, self.outputs.len() - 1)?;
        }
        Ok(())
    }

    /// Is output memory prefilled with [`UNWRITTEN_BYTE`] before a launch (and not with the old output)?
    pub(super) fn prefills(data: &Data, site: &Site) -> bool {
        data.c.is_none() || has_own_c(site)
    }

    /// Puts output `index` into the state before a launch: cells unwritten or old, gaps and guards armed.
    pub(super) fn reset_output(&mut self, context: &dyn Context, data: &Data, index: usize) -> Result<(), Error> {
        let size = self.element_bytes()?;
        let old = if OperandSet::prefills(data, &self.site) { None } else { data.c.as_ref() };
        let (layout, out) = (self.layout, &mut self.outputs[index].out);
        out.arm_guards(context)?;
        if old.is_none() && layout.is_packed() {
            return out.fill_from(context, 0, UNWRITTEN_BYTE);
        }
        write(context, out, (&layout, size), |rows, piece| {
            match old {
                Some(c) => c.fill(rows.clone(), piece),
                None => piece.fill(UNWRITTEN_BYTE),
            }
            layout.spans(rows, size).for_each(|span| piece[span.gap].fill(GUARD_BYTE));
        })
    }

    fn element_bytes(&self) -> Result<usize, Error> {
        Ok(Float::of(self.site.out)?.bytes())
    }

    /// Shows output `index`, some stored rows with their gaps at a time, and counts the changed bytes of its guards (before,
    /// after).
    pub(super) fn read_output(
        &self,
        context: &dyn Context,
        index: usize,
        mut look: impl FnMut(Range<usize>, &[u8]),
    ) -> Result<(usize, usize), Error> {
        let out = &self.outputs[index].out;
        let mut staging = Vec::new();
        self.layout.pieces(self.element_bytes()?, |rows, bytes| {
            staging.resize(bytes.len(), 0);
            out.read_at(context, bytes.start, &mut staging)?;
            look(rows, &staging);
            Ok(())
        })?;
        out.broken_guards(context)
    }

    /// What the device itself finds in output `index`, cells and gaps numbered by stored rows; `None` where it cannot look.
    pub(super) fn survey(
        &self,
        context: &dyn Context,
        index: usize,
        prefilled: bool,
    ) -> Result<Option<Surveyed>, Error> {
        let (Some(cell), Some(grids)) = (cell_of(Float::of_output(self.site.out)?), self.layout.grids()) else {
            return Ok(None);
        };
        let mut all = Surveyed { unwritten: None, not_finite: None, gap: None, digest: 0 };
        for grid in &grids {
            let Some(found) = self.survey_grid(context, index, grid, (cell, prefilled))? else { return Ok(None) };
            // Grids come in the order of their numbers, so what was found first is first.
            all.unwritten = all.unwritten.or(found.unwritten);
            all.not_finite = all.not_finite.or(found.not_finite);
            all.gap = all.gap.or(found.gap);
            all.digest = fold(all.digest, &found.digest.to_le_bytes());
        }
        Ok(Some(all))
    }

    fn survey_grid(
        &self,
        context: &dyn Context,
        index: usize,
        grid: &Grid,
        (cell, prefilled): (Cell, bool),
    ) -> Result<Option<Surveyed>, Error> {
        let (size, cols, out) = (self.element_bytes()?, self.layout.cols(), &self.outputs[index].out);
        let survey = Survey {
            offset: self.layout.start(grid.first) * size,
            rows: grid.rows,
            cols: grid.stored_in_row * cols,
            row_bytes: grid.pitch * size,
            cell,
            prefill: prefilled.then_some(UNWRITTEN_BYTE),
            gap: GUARD_BYTE,
        };
        let Some(found) = out.survey(context, survey)? else { return Ok(None) };
        let first_cell = (grid.first * cols) as u64;
        let last_of = |row: u64| (grid.first + (row as usize + 1) * grid.stored_in_row - 1) as u64;
        let tail = grid.tail.start * size..grid.tail.end * size;
        let is_tail_whole = found.gap.is_some() || out.differing(context, tail, GUARD_BYTE)? == 0;
        Ok(Some(Surveyed {
            unwritten: found.unwritten.map(|cell| first_cell + cell),
            not_finite: found.not_finite.map(|cell| first_cell + cell),
            gap: if is_tail_whole { found.gap.map(last_of) } else { Some(last_of(grid.rows as u64 - 1)) },
            digest: found.digest,
        }))
    }

    /// Shows each of `stored` rows' cells of output `index`, one at a time.
    pub(super) fn read_rows(
        &self,
        context: &dyn Context,
        index: usize,
        stored: impl IntoIterator<Item = usize>,
        mut look: impl FnMut(usize, &[u8]),
    ) -> Result<(), Error> {
        let size = self.element_bytes()?;
        let mut cells = vec![0; self.layout.cols() * size];
        for number in stored {
            self.outputs[index].out.read_at(context, self.layout.start(number) * size, &mut cells)?;
            look(number, &cells);
        }
        Ok(())
    }

    /// The changed bytes of output `index`'s guards (before, after).
    pub(super) fn broken_guards(&self, context: &dyn Context, index: usize) -> Result<(usize, usize), Error> {
        self.outputs[index].out.broken_guards(context)
    }

    /// Activations of launch `launch`.
    pub(super) fn activations_ptr(&self, launch: usize) -> *const c_void {
        self.activations[launch % self.activations.len()].ptr()
    }

    /// Weights `index`, plain.
    pub(super) fn weights_ptr(&self, index: usize) -> *const c_void {
        self.weights[index].ptr()
    }

    /// The operands of a launch on output `index`, with weights at `w`, activations in the first place and no workspace yet.
    pub(super) fn operands(&self, data: &Data, index: usize, w: *const c_void) -> Operands {
        let output = &self.outputs[index];
        Operands {
            x: self.activations_ptr(0),
            w,
            bias: self.bias.as_ref().map_or(std::ptr::null(), |zone| zone.ptr().cast_const()),
            x_scale: self.scales.as_ref().map_or(std::ptr::null(), |(x, _)| x.ptr().cast_const()),
            w_scale: self.scales.as_ref().map_or(std::ptr::null(), |(_, w)| w.ptr().cast_const()),
            c: output.c.as_ref().map_or(std::ptr::null(), |zone| zone.ptr().cast_const()),
            out: output.out.ptr(),
            alpha: data.alpha,
            beta: data.beta,
            ..Operands::default()
        }
    }
}

/// How a device calls the elements of an output.
fn cell_of(float: Float) -> Option<Cell> {
    match float {
        Float::F32 => Some(Cell::F32),
        Float::F16 => Some(Cell::F16),
        Float::Bf16 => Some(Cell::Bf16),
        Float::F8(_) => None,
    }
}

/// Does the problem read the old output from memory of its own?
fn has_own_c(site: &Site) -> bool {
    site.beta != tgemm_db::problem::Scalar::Zero && !site.in_place
}
