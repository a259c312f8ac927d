//! The product by its definition, through raw pointers: slow, exact, every storage order.

use std::ffi::c_void;

use tgemm_db::problem::{Gemm, Scalar, ScaleMode, Site};

use crate::measure::float::Float;
use crate::measure::reference::activate;
use crate::{Error, Operands};

/// The types of one problem's operands.
#[derive(Clone, Copy)]
pub(super) struct Types {
    x: Float,
    w: Float,
    bias: Option<Float>,
    pub(super) out: Float,
}

impl Types {
    pub(super) fn of(gemm: &Gemm) -> Result<Types, Error> {
        let site = &gemm.site;
        if site.scale != ScaleMode::None {
            return Err(Error::unsupported("the scripted library takes no scaled problems"));
        }
        let bias = site.bias.map(Float::of).transpose()?;
        Ok(Types { x: Float::of(site.x)?, w: Float::of(site.w)?, bias, out: Float::of_output(site.out)? })
    }
}

/// Element `index` of an array.
///
/// # Safety
/// `base` points to more than `index` elements of type `float`.
unsafe fn element(base: *const c_void, float: Float, index: usize) -> f32 {
    let size = float.bytes();
    // SAFETY: the caller's promise; bytes have no alignment.
    float.decode(unsafe { std::slice::from_raw_parts(base.cast::<u8>().add(index * size), size) })
}

/// A logical row of K elements of a matrix stored with rows of `ld`, transposed or not.
///
/// # Safety
/// `base` points to that matrix.
unsafe fn vector(base: *const c_void, float: Float, row: usize, k: usize, ld: usize, transposed: bool) -> Vec<f32> {
    let at = |i: usize| if transposed { i * ld + row } else { row * ld + i };
    // SAFETY: all within the matrix.
    (0..k).map(|i| unsafe { element(base, float, at(i)) }).collect()
}

/// The operands of product `batch` of a batch: shared ones stay where they are.
fn item(gemm: &Gemm, types: Types, io: &Operands, (batch, packed): (u32, bool)) -> Operands {
    let Site { batch: strides, n, k, .. } = gemm.site;
    let bytes = |stride: u64, float: Float| stride as usize * batch as usize * float.bytes();
    let stride_w = match (strides.stride_w, packed) {
        (0, _) | (_, false) => bytes(strides.stride_w, types.w),
        _ => bytes(u64::from(n) * u64::from(k), Float::F32),
    };
    let out = bytes(strides.stride_out, types.out);
    Operands {
        x: io.x.wrapping_byte_add(bytes(strides.stride_x, types.x)),
        w: io.w.wrapping_byte_add(stride_w),
        c: io.c.wrapping_byte_add(out),
        out: io.out.wrapping_byte_add(out),
        ..*io
    }
}

/// The weights as rows of K f32, packed, matrix after matrix.
///
/// # Safety
/// `w` points to the weights of the problem.
pub(super) unsafe fn pack(gemm: &Gemm, types: Types, w: *const c_void) -> Vec<f32> {
    let site = &gemm.site;
    let (k, ld) = (site.k as usize, site.ldw() as usize);
    let matrices = if site.batch.stride_w == 0 { 1 } else { site.batch.count };
    let matrix = |batch: u32| {
        let w = item(gemm, types, &Operands { w, ..Operands::default() }, (batch, false)).w;
        // SAFETY: every row lies within the weights.
        (0..site.n as usize).flat_map(move |row| unsafe { vector(w, types.w, row, k, ld, site.trans.w()) })
    };
    (0..matrices).flat_map(matrix).collect()
}

/// Where the last output of product `batch` lies, bytes from the start of all.
pub(super) fn last_offset(gemm: &Gemm, types: Types, batch: u32) -> usize {
    let matrix = batch as usize * gemm.site.batch.stride_out as usize * types.out.bytes();
    matrix + offset(gemm, types, gemm.m - 1, gemm.site.n - 1)
}

/// Where output (row, col) lies, bytes from the start of its matrix.
fn offset(gemm: &Gemm, types: Types, row: u32, col: u32) -> usize {
    (row as usize * gemm.site.ldo() as usize + col as usize) * types.out.bytes()
}

/// Writes one output.
///
/// # Safety
/// `out` points to the problem's output.
pub(super) unsafe fn store(out: *mut c_void, offset: usize, float: Float, value: f64) {
    let mut bytes = Vec::with_capacity(float.bytes());
    float.encode(value, &mut bytes);
    // SAFETY: the caller's promise; bytes have no alignment.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), out.cast::<u8>().add(offset), bytes.len()) };
}

/// Computes every output, rounds it once and writes it; but not the last one of the products `skip`. The exact values of
/// the last outputs of all products.
///
/// `packed` says that `io.w` points to what [`pack`] made.
///
/// # Safety
/// As [`crate::Prepared::launch`].
pub(super) unsafe fn compute(gemm: &Gemm, types: Types, io: &Operands, packed: bool, skip: &[u32]) -> Vec<f64> {
    let product = |batch: u32| {
        let io = item(gemm, types, io, (batch, packed));
        // SAFETY: the operands of this product, by the caller's promise.
        unsafe { one(gemm, types, &io, packed, skip.contains(&batch)) }
    };
    (0..gemm.site.batch.count).map(product).collect()
}

/// One product of [`compute`].
///
/// # Safety
/// As [`compute`].
unsafe fn one(gemm: &Gemm, types: Types, io: &Operands, packed: bool, skips_last: bool) -> f64 {
    let site = &gemm.site;
    let (k, mut last) = (site.k as usize, 0.0);
    let (ldx, ldw) = (site.ldx(gemm.m) as usize, site.ldw() as usize);
    // SAFETY: rows of `x` by the caller's promise.
    let x = |row: u32| unsafe { vector(io.x, types.x, row as usize, k, ldx, site.trans.x()) };
    let xs: Vec<Vec<f32>> = (0..gemm.m).map(x).collect();
    let old = if site.in_place { io.out.cast_const() } else { io.c };
    for col in 0..site.n {
        let w = match packed {
            // SAFETY: `io.w` is a packed form of N rows of K f32.
            true => unsafe { vector(io.w, Float::F32, col as usize, k, k, false) },
            // SAFETY: `io.w` is the plain weights.
            false => unsafe { vector(io.w, types.w, col as usize, k, ldw, site.trans.w()) },
        };
        // SAFETY: the bias has N elements.
        let bias = types.bias.map_or(0.0, |float| f64::from(unsafe { element(io.bias, float, col as usize) }));
        for (row, x) in (0..gemm.m).zip(&xs) {
            let sum: f64 = x.iter().zip(&w).map(|(&x, &w)| f64::from(x) * f64::from(w)).sum();
            let offset = offset(gemm, types, row, col);
            let before = match site.beta {
                Scalar::Zero => 0.0,
                // SAFETY: the old output lies as the new one does.
                _ => f64::from(io.beta) * f64::from(unsafe { element(old, types.out, offset / types.out.bytes()) }),
            };
            last = activate(site.activation, f64::from(io.alpha) * sum + bias + before);
            if !(skips_last && (row, col) == (gemm.m - 1, site.n - 1)) {
                // SAFETY: within the output.
                unsafe { store(io.out, offset, types.out, last) };
            }
        }
    }
    last
}
