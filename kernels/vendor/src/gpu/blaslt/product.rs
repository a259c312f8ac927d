//! A product as descriptors.

use std::ffi::c_void;

use tgemm_db::DType;
use tgemm_db::blas::{Call, Op};
use tgemm_db::problem::{Scalar, ScaleMode};

use super::{BlasLt, CallError, Handle};
use crate::gpu::numbers;

/// The device pointers that a descriptor carries; null where the product has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointers {
    /// Bias of m elements.
    pub bias: *const c_void,
    /// Scales of A, the weights.
    pub a_scale: *const c_void,
    /// Scales of B, the activations.
    pub b_scale: *const c_void,
}

impl Pointers {
    /// Stand for real pointers when algorithms are asked for: cuBLASLt reads their alignment, and nothing else.
    pub const ALIGNED: Pointers =
        Pointers { bias: 256 as *const c_void, a_scale: 256 as *const c_void, b_scale: 256 as *const c_void };
}

/// Why a call cannot be described in a library's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undescribable {
    /// The library has no word for it.
    #[error("{library} has no {what}")]
    NoWord {
        /// `hipblaslt` or `cublaslt`.
        library: &'static str,
        /// What it has not.
        what: String,
    },
    /// It refused a word.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// The descriptors of one call. They are the library's memory, freed with this.
pub struct Product {
    table: super::Table,
    desc: Handle,
    layouts: [Handle; 4],
    call: Call,
    set: Option<Pointers>,
}

// SAFETY: descriptors are plain records that the library reads; changing them takes `&mut`.
unsafe impl Send for Product {}
// SAFETY: as above.
unsafe impl Sync for Product {}

impl Drop for Product {
    fn drop(&mut self) {
        for layout in self.layouts.into_iter().filter(|layout| !layout.is_null()) {
            // SAFETY: the layout is ours and used no more.
            let _ = unsafe { self.table.layout_destroy(layout) };
        }
        if !self.desc.is_null() {
            // SAFETY: as above.
            let _ = unsafe { self.table.desc_destroy(self.desc) };
        }
    }
}

/// Rows and columns as stored, column-major.
fn stored(op: Op, rows: u32, cols: u32) -> (u64, u64) {
    match op {
        Op::N => (rows.into(), cols.into()),
        Op::T => (cols.into(), rows.into()),
    }
}

impl Product {
    /// Describes `call` to `library`, with [`Pointers::ALIGNED`] for now.
    pub fn new(library: &BlasLt, call: &Call) -> Result<Product, Undescribable> {
        let dialect = library.dialect();
        let name = dialect.pick("hipblaslt", "cublaslt");
        let no = |what: String| Undescribable::NoWord { library: name, what };
        let data_type = |dtype: DType| numbers::data_type(dialect, dtype).ok_or_else(|| no(format!("type {dtype}")));
        let (compute, scale) =
            numbers::compute_type(dialect, call.compute).ok_or_else(|| no(format!("sums in {}", call.compute)))?;
        let epilogue = numbers::epilogue(dialect, call.activation, call.bias.is_some())
            .ok_or_else(|| no(format!("activation {}", call.activation)))?;
        let mut product = Product {
            table: *library.table(),
            desc: std::ptr::null_mut(),
            layouts: [std::ptr::null_mut(); 4],
            call: *call,
            set: None,
        };
        // SAFETY: one handle is written.
        unsafe { product.table.desc_create(&raw mut product.desc, compute, scale) }?;
        let n = library.numbers();
        product.set_desc(n.desc_transa, &numbers::operation(dialect, call.op_a == Op::T))?;
        product.set_desc(n.desc_transb, &numbers::operation(dialect, call.op_b == Op::T))?;
        product.set_desc(n.desc_epilogue, &epilogue)?;
        if let Some(bias) = call.bias {
            product.set_desc(n.desc_bias_data_type, &data_type(bias)?)?;
        }
        product.describe_scales(library).map_err(|error| match error {
            Undescribable::NoWord { what, .. } => no(what),
            other => other,
        })?;
        if call.fast_accumulation && n.desc_fast_accum >= 0 {
            product.set_desc(n.desc_fast_accum, &1i8)?;
        }
        let (a, b, c) = (data_type(call.a)?, data_type(call.b)?, data_type(call.c)?);
        let of_a = (a, stored(call.op_a, call.m, call.k), call.lda, call.stride_a);
        let of_b = (b, stored(call.op_b, call.k, call.n), call.ldb, call.stride_b);
        let of_c = (c, (call.m.into(), call.n.into()), call.ldc, call.stride_c);
        for (at, (data_type, (rows, cols), ld, stride)) in [of_a, of_b, of_c, of_c].into_iter().enumerate() {
            // SAFETY: one handle is written.
            unsafe { product.table.layout_create(&raw mut product.layouts[at], data_type, rows, cols, ld.into()) }?;
            if call.batch_count > 1 {
                product.set_layout(at, n.layout_batch_count, &(call.batch_count as i32))?;
                product.set_layout(at, n.layout_strided_batch_offset, &(stride as i64))?;
            }
        }
        product.set_pointers(library, Pointers::ALIGNED)?;
        Ok(product)
    }

    fn describe_scales(&mut self, library: &BlasLt) -> Result<(), Undescribable> {
        let no = |what: String| Undescribable::NoWord { library: "", what };
        let (scale, n) = (self.call.scale, library.numbers());
        if scale == ScaleMode::None {
            return Ok(());
        }
        let (a, b) = numbers::scale_modes(scale).ok_or_else(|| no(format!("scales by {scale}")))?;
        if self.call.scale_dtype != DType::F32 {
            return Err(no(format!("scales of type {}", self.call.scale_dtype)));
        }
        if scale == ScaleMode::Tensor {
            // One factor each is what every version takes, and the only thing that old ones take.
            return Ok(());
        }
        // cuBLASLt has vectors and blocks since 12.9, hipBLASLt since ROCm 7.0's 1.0.
        let oldest = library.dialect().pick([1, 0, 0], [12, 9, 0]);
        if library.version_numbers() < oldest {
            return Err(no(format!("scales by {scale} before version {}", super::dotted(oldest))));
        }
        self.set_desc(n.desc_a_scale_mode, &a)?;
        self.set_desc(n.desc_b_scale_mode, &b)?;
        Ok(())
    }

    fn set_desc<T>(&self, attribute: i32, value: &T) -> Result<(), CallError> {
        let bytes = size_of::<T>();
        // SAFETY: the descriptor is alive and `value` has the attribute's type.
        unsafe { self.table.desc_set(self.desc, attribute, (&raw const *value).cast(), bytes) }
    }

    fn set_layout<T>(&self, at: usize, attribute: i32, value: &T) -> Result<(), CallError> {
        let bytes = size_of::<T>();
        // SAFETY: the layout is alive and `value` has the attribute's type.
        unsafe { self.table.layout_set(self.layouts[at], attribute, (&raw const *value).cast(), bytes) }
    }

    /// Sets the pointers that the descriptor carries, as far as they are others than before.
    pub fn set_pointers(&mut self, library: &BlasLt, pointers: Pointers) -> Result<(), CallError> {
        if self.set == Some(pointers) {
            return Ok(());
        }
        let n = library.numbers();
        if self.call.bias.is_some() {
            self.set_desc(n.desc_bias_pointer, &pointers.bias)?;
        }
        if self.call.scale != ScaleMode::None {
            self.set_desc(n.desc_a_scale_pointer, &pointers.a_scale)?;
            self.set_desc(n.desc_b_scale_pointer, &pointers.b_scale)?;
        }
        self.set = Some(pointers);
        Ok(())
    }

    /// The product's descriptor, and the layouts of A, B, C and D.
    pub fn handles(&self) -> (Handle, [Handle; 4]) {
        (self.desc, self.layouts)
    }

    /// What it describes.
    pub fn call(&self) -> &Call {
        &self.call
    }

    /// A beta of the call's class: libraries look at whether it is zero.
    pub(super) fn beta_of_class(&self) -> f32 {
        if self.call.beta == Scalar::Zero { 0.0 } else { 1.0 }
    }
}

/// The matrices of one launch, column-major.
#[derive(Clone, Copy, Debug)]
pub struct Matrices {
    /// A: the weights.
    pub a: *const c_void,
    /// B: the activations.
    pub b: *const c_void,
    /// C: the old output; the output itself where beta is zero or the product is in place.
    pub c: *const c_void,
    /// D: the output.
    pub d: *mut c_void,
    /// Factor of the product.
    pub alpha: f32,
    /// Factor of C.
    pub beta: f32,
    /// Scratch memory.
    pub workspace: *mut c_void,
    /// Its size.
    pub workspace_bytes: usize,
}

impl BlasLt {
    /// Enqueues `product` by `algo` on `stream`.
    ///
    /// # Safety
    /// All pointers, those in the descriptor included, are device memory laid out as the product says, valid until the
    /// stream has passed the product; the algorithm is one of this library's for this product.
    pub unsafe fn matmul(
        &self,
        product: &Product,
        algo: &super::Algo,
        on: &Matrices,
        stream: Handle,
    ) -> Result<(), CallError> {
        let (desc, [a, b, c, d]) = product.handles();
        // SAFETY: the contract of this method; the factors are of the scale type, f32, and read before the call returns.
        unsafe {
            self.table.matmul(
                self.handle,
                desc,
                (&raw const on.alpha).cast(),
                on.a,
                a,
                on.b,
                b,
                (&raw const on.beta).cast(),
                on.c,
                c,
                on.d,
                d,
                algo.as_ptr(),
                on.workspace,
                on.workspace_bytes,
                stream,
            )
        }
    }
}
