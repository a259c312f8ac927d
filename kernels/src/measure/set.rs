//! The operands of one problem in device memory: one warm `x`, rotated weights and outputs.

use std::ffi::c_void;

use tgemm_db::Problem;
use tgemm_db::problem::{Alignment, Site};

use super::data::Data;
use super::float::Float;
use super::scan::{GUARD_BYTE, UNWRITTEN_BYTE};
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
    out_rows: usize,
    shift: usize,
    x: Zone,
    bias: Option<Zone>,
    /// Factors of `x` and of `w`, where the problem is scaled.
    scales: Option<(Zone, Zone)>,
    weights: Vec<Zone>,
    outputs: Vec<Output>,
}

/// `values` in memory of their own, aligned as the allocator does.
fn floats(context: &dyn Context, values: &[f32]) -> Result<Zone, Error> {
    let mut zone = Zone::new(context, size_of_val(values), 0, 0)?;
    zone.write(context, 4, |at, bytes| {
        for (bytes, value) in bytes.chunks_exact_mut(4).zip(&values[at / 4..]) {
            bytes.copy_from_slice(&value.to_ne_bytes());
        }
    })?;
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

fn row_bytes(site: &Site) -> Result<usize, Error> {
    Ok(site.ldo() as usize * Float::of(site.out)?.bytes())
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
        let matrix = |matrix: &super::data::Matrix| {
            let mut zone = Zone::new(context, matrix.stored_bytes(), 0, shift)?;
            zone.write(context, matrix.row_bytes(), |at, bytes| matrix.fill(at / matrix.row_bytes(), bytes))?;
            Ok::<_, Error>(zone)
        };
        let mut set = OperandSet {
            site: gemm.site,
            out_rows: gemm.m as usize,
            shift,
            x: matrix(&data.x)?,
            bias: data.bias.as_ref().map(matrix).transpose()?,
            scales: data
                .scales
                .as_ref()
                .map(|s| Ok::<_, Error>((floats(context, s.x())?, floats(context, s.w())?)))
                .transpose()?,
            weights: Vec::new(),
            outputs: Vec::new(),
        };
        set.grow_weights(context, data, 1)?;
        set.grow_outputs(context, data, 1)?;
        Ok(set)
    }

    /// Memory of one more pair of weights and output.
    pub(super) fn bytes_per_copy(problem: &Problem) -> Result<u64, Error> {
        let gemm = crate::gemm_of(problem)?;
        let site = &gemm.site;
        let w_rows = if site.trans.w() { site.k } else { site.n };
        let w = u64::from(w_rows) * u64::from(site.ldw()) * Float::of(site.w)?.bytes() as u64;
        let out = u64::from(gemm.m) * row_bytes(site)? as u64;
        let c = if has_own_c(site) { out } else { 0 };
        Ok(w.saturating_add(out).saturating_add(c))
    }

    /// Memory of all that never grows: activations and bias.
    pub(super) fn fixed_bytes(data: &Data) -> u64 {
        (data.x.stored_bytes() + data.bias.as_ref().map_or(0, super::data::Matrix::stored_bytes)) as u64
    }

    /// Device memory held.
    pub(super) fn bytes(&self) -> u64 {
        let outputs = self.outputs.iter().flat_map(|output| std::iter::once(&output.out).chain(&output.c));
        let scales = self.scales.iter().flat_map(|(x, w)| [x, w]);
        let zones = std::iter::once(&self.x).chain(&self.bias).chain(scales).chain(&self.weights).chain(outputs);
        zones.map(|zone| zone.bytes() as u64).sum()
    }

    /// Copies of the weights, and of the outputs.
    pub(super) fn lens(&self) -> (usize, usize) {
        (self.weights.len(), self.outputs.len())
    }

    /// Gives copies beyond `copies` back.
    pub(super) fn shrink(&mut self, copies: usize) {
        self.weights.truncate(copies.max(1));
        self.outputs.truncate(copies.max(1));
    }

    /// Makes `copies` of the weights.
    pub(super) fn grow_weights(&mut self, context: &dyn Context, data: &Data, copies: usize) -> Result<(), Error> {
        while self.weights.len() < copies {
            let mut zone = Zone::new(context, data.w.stored_bytes(), 0, self.shift)?;
            match self.weights.first() {
                Some(first) => zone.copy_from(context, first)?,
                None => {
                    let row_bytes = data.w.row_bytes();
                    zone.write(context, row_bytes, |at, bytes| data.w.fill(at / row_bytes, bytes))?;
                }
            }
            self.weights.push(zone);
        }
        Ok(())
    }

    /// Makes `copies` of the outputs.
    pub(super) fn grow_outputs(&mut self, context: &dyn Context, data: &Data, copies: usize) -> Result<(), Error> {
        while self.outputs.len() < copies {
            let row_bytes = row_bytes(&self.site)?;
            let bytes = self.out_rows.saturating_mul(row_bytes);
            let guard = (4 * row_bytes).clamp(GUARD_BYTES_MIN, GUARD_BYTES_MAX).next_multiple_of(64);
            let out = Zone::new(context, bytes, guard, self.shift)?;
            let c = match &data.c {
                Some(c) if has_own_c(&self.site) => {
                    let mut zone = Zone::new(context, bytes, 0, self.shift)?;
                    zone.write(context, row_bytes, |at, piece| c.fill(at / row_bytes, piece))?;
                    Some(zone)
                }
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
        let row_bytes = row_bytes(&self.site)?;
        let cells_bytes = self.site.n as usize * Float::of(self.site.out)?.bytes();
        let old = if OperandSet::prefills(data, &self.site) { None } else { data.c.as_ref() };
        let out = &mut self.outputs[index].out;
        out.arm_guards(context)?;
        if old.is_none() && cells_bytes == row_bytes {
            return out.fill_from(context, 0, UNWRITTEN_BYTE);
        }
        out.write(context, row_bytes, |at, piece| {
            match old {
                Some(c) => c.fill(at / row_bytes, piece),
                None => piece.fill(UNWRITTEN_BYTE),
            }
            piece.chunks_exact_mut(row_bytes).for_each(|row| row[cells_bytes..].fill(GUARD_BYTE));
        })
    }

    /// Shows output `index`, some whole rows at a time, and counts the changed bytes of its guards (before, after).
    pub(super) fn read_output(
        &self,
        context: &dyn Context,
        index: usize,
        look: impl FnMut(&[u8]),
    ) -> Result<(usize, usize), Error> {
        let out = &self.outputs[index].out;
        out.read(context, row_bytes(&self.site)?, look)?;
        out.broken_guards(context)
    }

    /// What the device itself finds in output `index`; `None` where it cannot look.
    pub(super) fn survey(
        &self,
        context: &dyn Context,
        index: usize,
        prefilled: bool,
    ) -> Result<Option<Surveyed>, Error> {
        let cell = match Float::of_output(self.site.out)? {
            Float::F32 => Cell::F32,
            Float::F16 => Cell::F16,
            Float::Bf16 => Cell::Bf16,
            Float::F8(_) => return Ok(None),
        };
        let survey = Survey {
            offset: 0,
            rows: self.out_rows,
            cols: self.site.n as usize,
            row_bytes: row_bytes(&self.site)?,
            cell,
            prefill: prefilled.then_some(UNWRITTEN_BYTE),
            gap: GUARD_BYTE,
        };
        self.outputs[index].out.survey(context, survey)
    }

    /// Shows each of `rows` of output `index`, one at a time.
    pub(super) fn read_rows(
        &self,
        context: &dyn Context,
        index: usize,
        rows: &[u32],
        mut look: impl FnMut(&[u8]),
    ) -> Result<(), Error> {
        let row_bytes = row_bytes(&self.site)?;
        let mut row = vec![0; row_bytes];
        for &number in rows {
            self.outputs[index].out.read_at(context, number as usize * row_bytes, &mut row)?;
            look(&row);
        }
        Ok(())
    }

    /// The changed bytes of output `index`'s guards (before, after).
    pub(super) fn broken_guards(&self, context: &dyn Context, index: usize) -> Result<(usize, usize), Error> {
        self.outputs[index].out.broken_guards(context)
    }

    /// Weights `index`, plain.
    pub(super) fn weights_ptr(&self, index: usize) -> *const c_void {
        self.weights[index].ptr()
    }

    /// The operands of one launch on output `index`, with weights at `w` and no workspace yet.
    pub(super) fn operands(&self, data: &Data, index: usize, w: *const c_void) -> Operands {
        let output = &self.outputs[index];
        Operands {
            x: self.x.ptr(),
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

/// Does the problem read the old output from memory of its own?
fn has_own_c(site: &Site) -> bool {
    site.beta != tgemm_db::problem::Scalar::Zero && !site.in_place
}
