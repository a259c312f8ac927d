//! Descriptors that somebody else made, read back as a [`Call`]: what [`Product`](super::Product) writes, the other way.

use std::ffi::c_void;

use tgemm_db::blas::{Call, Op};
use tgemm_db::problem::{Alignment, Scalar, ScaleMode};
use tgemm_db::{Compute, DType};

use super::Table;
use crate::gpu::numbers::{self, LtNumbers};
use crate::gpu::{CallError, Dialect, Handle};

/// Why a product has no word here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// The library would not say.
    #[error("{0}")]
    Call(#[from] CallError),
    /// It is something that no problem says.
    #[error("no word for {0}")]
    NoWord(&'static str),
}

/// A product as it was asked for, with the pointers that are not in its argument list.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// What is computed; its alignment is that of the pointers given.
    pub call: Call,
    /// The bias, or null.
    pub bias: *const c_void,
    /// Factors of A (the weights) and B (the activations), or null.
    pub scales: [*const c_void; 2],
    /// Are alpha and beta numbers on the host?
    pub factors_on_host: bool,
}

/// The arguments of a matmul call that say what is computed.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names are those of the argument list")]
pub struct Arguments {
    pub desc: Handle,
    /// Layouts of A, B, C and D.
    pub layouts: [Handle; 4],
    /// A, B, C and D.
    pub matrices: [*const c_void; 4],
    pub alpha: *const c_void,
    pub beta: *const c_void,
    /// What the descriptor was created with, where the library does not tell (hipBLASLt).
    pub compute: Option<i32>,
}

struct Layout {
    dtype: DType,
    is_row_major: bool,
    rows: u32,
    cols: u32,
    ld: u32,
    batch: u32,
    stride: u64,
}

struct Reader<'a> {
    table: &'a Table,
    dialect: Dialect,
    n: &'static LtNumbers,
    desc: Handle,
}

impl Reader<'_> {
    /// # Safety
    /// The descriptor is alive, and the attribute has the type `T`.
    unsafe fn desc<T: Copy>(&self, attribute: i32, mut value: T) -> Result<T, CallError> {
        let mut written = 0;
        // SAFETY: the contract of this function.
        unsafe {
            self.table.desc_get(self.desc, attribute, (&raw mut value).cast(), size_of::<T>(), &raw mut written)
        }?;
        Ok(value)
    }

    /// # Safety
    /// As [`Reader::desc`], of a layout.
    unsafe fn layout_value<T: Copy + Default>(&self, layout: Handle, attribute: i32) -> Result<T, CallError> {
        let (mut value, mut written) = (T::default(), 0);
        // SAFETY: the contract of this function.
        unsafe { self.table.layout_get(layout, attribute, (&raw mut value).cast(), size_of::<T>(), &raw mut written) }?;
        Ok(value)
    }

    /// # Safety
    /// The layout is alive.
    unsafe fn layout(&self, layout: Handle) -> Result<Layout, Unreadable> {
        let extent = |value: u64| u32::try_from(value).map_err(|_| Unreadable::NoWord("an extent beyond 32 bits"));
        // SAFETY: the types are those of the headers, at each attribute.
        unsafe {
            let batch: i32 = self.layout_value(layout, self.n.layout_batch_count)?;
            let stride: i64 = match batch > 1 {
                true => self.layout_value(layout, self.n.layout_strided_batch_offset)?,
                false => 0,
            };
            Ok(Layout {
                dtype: numbers::dtype_of(self.layout_value(layout, self.n.layout_type)?)
                    .ok_or(Unreadable::NoWord("an element type"))?,
                is_row_major: match self.layout_value::<i32>(layout, self.n.layout_order)? {
                    0 => false,
                    1 => true,
                    _ => return Err(Unreadable::NoWord("the order of a matrix")),
                },
                rows: extent(self.layout_value(layout, self.n.layout_rows)?)?,
                cols: extent(self.layout_value(layout, self.n.layout_cols)?)?,
                ld: extent(self.layout_value::<i64>(layout, self.n.layout_ld)?.unsigned_abs())?,
                batch: batch.unsigned_abs(),
                stride: stride.unsigned_abs(),
            })
        }
    }

    /// # Safety
    /// As [`Reader::desc`].
    unsafe fn op(&self, attribute: i32) -> Result<Op, Unreadable> {
        // SAFETY: 32 bits, in both libraries.
        let number = unsafe { self.desc(attribute, 0i32) }?;
        match numbers::is_transposed(self.dialect, number) {
            Some(true) => Ok(Op::T),
            Some(false) => Ok(Op::N),
            None => Err(Unreadable::NoWord("an operation")),
        }
    }

    /// # Safety
    /// As [`Reader::desc`].
    unsafe fn compute(&self, created_with: Option<i32>) -> Result<Compute, Unreadable> {
        let number = match created_with {
            Some(number) => number,
            None if self.n.desc_compute_type < 0 => return Err(Unreadable::NoWord("sums of a type that is not known")),
            // SAFETY: 32 bits.
            None => unsafe { self.desc(self.n.desc_compute_type, 0i32) }?,
        };
        numbers::compute_of(self.dialect, number).ok_or(Unreadable::NoWord("the type of the sums"))
    }

    /// # Safety
    /// As [`Reader::desc`].
    unsafe fn bias(&self, out: DType) -> Result<(DType, *const c_void), Unreadable> {
        // SAFETY: the types are those of the headers, at each attribute.
        let (number, pointer) = unsafe {
            (
                self.desc(self.n.desc_bias_data_type, -1i32).unwrap_or(-1),
                self.desc(self.n.desc_bias_pointer, std::ptr::null::<c_void>())?,
            )
        };
        // Where none is set both libraries take the output's type, but for small ones.
        let dtype = match number {
            -1 if out.bits() >= 16 => Some(out),
            number => numbers::dtype_of(number),
        };
        Ok((dtype.ok_or(Unreadable::NoWord("the type of the bias"))?, pointer))
    }

    /// # Safety
    /// As [`Reader::desc`].
    unsafe fn scales(&self) -> Result<(ScaleMode, [*const c_void; 2]), Unreadable> {
        let null = std::ptr::null::<c_void>();
        // SAFETY: the types are those of the headers, at each attribute.
        let (a, b, modes) = unsafe {
            (
                self.desc(self.n.desc_a_scale_pointer, null)?,
                self.desc(self.n.desc_b_scale_pointer, null)?,
                // Versions without the attribute know one factor a matrix only.
                [self.n.desc_a_scale_mode, self.n.desc_b_scale_mode].map(|mode| self.desc(mode, 0i32).unwrap_or(0)),
            )
        };
        match (a.is_null(), b.is_null()) {
            (true, true) => Ok((ScaleMode::None, [null; 2])),
            (false, false) => {
                let mode = numbers::scale_mode_of(modes[0], modes[1]).ok_or(Unreadable::NoWord("the scale modes"))?;
                Ok((mode, [a, b]))
            }
            _ => Err(Unreadable::NoWord("one scaled and one unscaled matrix")),
        }
    }
}

fn seen_through(layout: &Layout, op: Op) -> (u32, u32, Op) {
    let (rows, cols) = if op == Op::N { (layout.rows, layout.cols) } else { (layout.cols, layout.rows) };
    let flipped = if op == Op::N { Op::T } else { Op::N };
    (rows, cols, if layout.is_row_major { flipped } else { op })
}

impl Table {
    /// Reads what a matmul call computes from its descriptors.
    ///
    /// # Safety
    /// The descriptors are alive and of this table's library; alpha and beta are readable where they are on the host.
    pub unsafe fn read(&self, dialect: Dialect, on: &Arguments) -> Result<Asked, Unreadable> {
        let n = numbers::blaslt(dialect);
        let reader = Reader { table: self, dialect, n, desc: on.desc };
        // SAFETY: the contract of this function; the types are those of the headers, at each attribute.
        unsafe {
            let [a, b, d] =
                [reader.layout(on.layouts[0])?, reader.layout(on.layouts[1])?, reader.layout(on.layouts[3])?];
            let (m, k, op_a) = seen_through(&a, reader.op(n.desc_transa)?);
            let (k_of_b, cols, op_b) = seen_through(&b, reader.op(n.desc_transb)?);
            if d.is_row_major || (d.rows, d.cols, k_of_b) != (m, cols, k) {
                return Err(Unreadable::NoWord("an output stored row by row"));
            }
            let (activation, has_bias) = numbers::epilogue_of(dialect, reader.desc(n.desc_epilogue, 1u32)?)
                .ok_or(Unreadable::NoWord("the epilogue"))?;
            let (bias, bias_pointer) = match has_bias {
                true => reader.bias(d.dtype).map(|(dtype, pointer)| (Some(dtype), pointer))?,
                false => (None, std::ptr::null()),
            };
            let is_8_bit = a.dtype.is_float8() || b.dtype.is_float8();
            let (scale, scales) = if is_8_bit { reader.scales()? } else { (ScaleMode::None, [std::ptr::null(); 2]) };
            let fast = is_8_bit && n.desc_fast_accum >= 0 && reader.desc(n.desc_fast_accum, 0i8)? != 0;
            let compute = reader.compute(on.compute)?;
            let factors_on_host = match reader.desc(n.desc_pointer_mode, 0i32)? {
                0 => true,
                1 => false,
                _ => return Err(Unreadable::NoWord("a factor for each row")),
            };
            let factor = |at: *const c_void| match (factors_on_host && !at.is_null(), compute) {
                (true, Compute::F32 | Compute::Tf32) => Scalar::of(f64::from(at.cast::<f32>().read_unaligned())),
                (true, Compute::F64) => Scalar::of(at.cast::<f64>().read_unaligned()),
                _ => Scalar::Other,
            };
            let call = Call {
                op_a,
                op_b,
                m,
                n: cols,
                k,
                lda: a.ld,
                ldb: b.ld,
                ldc: d.ld,
                a: a.dtype,
                b: b.dtype,
                c: d.dtype,
                compute,
                alpha: factor(on.alpha),
                beta: factor(on.beta),
                in_place: on.matrices[2] == on.matrices[3],
                batch_count: d.batch,
                stride_a: a.stride,
                stride_b: b.stride,
                stride_c: d.stride,
                bias,
                activation,
                scale,
                scale_dtype: DType::F32,
                fast_accumulation: fast,
                align: Alignment::B16,
            };
            if call.beta != Scalar::Zero {
                let c = reader.layout(on.layouts[2])?;
                if (c.dtype, c.ld, c.stride) != (d.dtype, d.ld, d.stride) {
                    return Err(Unreadable::NoWord("an old output that lies otherwise than the new one"));
                }
            }
            let call = call.at_rest();
            let pointers = on.matrices.map(|matrix| matrix as u64);
            Ok(Asked {
                call: Call { align: call.alignment(pointers), ..call },
                bias: bias_pointer,
                scales,
                factors_on_host,
            })
        }
    }
}
