//! The implementations that oneDNN has for one matrix product.

use std::ffi::{CStr, c_char, c_int};
use std::marker::PhantomData;
use std::ptr::null;
use std::sync::Arc;

use super::cache::Uncached;
use super::handle::{CallError, Owned, check};
use super::matmul::{Matmul, primitive};
use super::memory::MemoryDesc;
use super::sys::{self, v2, v3};
use super::{Api, Generation, OneDnn};

/// More implementations of one product than any oneDNN has: an end for the walk over them.
pub const IMPLEMENTATIONS_MAX: usize = 64;

/// The matrices of `dst[M,N] = src[M,K] · weights[K,N] + bias[1,N]`.
pub struct MatmulDescs {
    /// M rows, K columns.
    pub src: MemoryDesc,
    /// K rows, N columns.
    pub weights: MemoryDesc,
    /// 1 row, N columns.
    pub bias: Option<MemoryDesc>,
    /// M rows, N columns.
    pub dst: MemoryDesc,
}

/// One implementation of a product, described but not made. It lives no longer than its walk: see
/// [`OneDnn::implementations`].
pub struct PrimitiveDesc<'walk> {
    library: OneDnn,
    desc: Owned<sys::PrimitiveDesc>,
    _walk: PhantomData<&'walk ()>,
}

/// The implementations of one product, in oneDNN's own order: its first is its default. The order depends on the thread
/// count that it was asked under.
pub struct Implementations<'walk> {
    library: OneDnn,
    _walk: PhantomData<&'walk ()>,
    cursor: Cursor,
    seen: usize,
    /// Not copied by every version's iterator, so it must outlive the cursor: fields drop in this order.
    _attr: Owned<sys::Attr>,
}

enum Cursor {
    /// The iterator of 2.x keeps pointing to the operation it was made for: that lives behind it here.
    V2 {
        table: v2::Table,
        iterator: Owned<v2::Iterator>,
        _op: Arc<v2::MatmulDesc>,
    },
    V3(v3::Table, Owned<sys::PrimitiveDesc>),
    End,
}

impl OneDnn {
    /// Lets `work` go over the implementations that oneDNN has for the product of `descs` on `threads` threads, if any,
    /// and make those that it wants. Scratch memory is the caller's.
    ///
    /// Types that oneDNN does not pair are [`CallError::is_refused`] in some versions, nobody's in others. The
    /// library's primitive cache is off meanwhile, and one thread at a time gets its turn: `work` must not walk itself.
    pub fn implementations<T>(
        &self,
        descs: &MatmulDescs,
        threads: u32,
        work: impl for<'walk> FnOnce(Implementations<'walk>) -> T,
    ) -> Result<T, CallError> {
        let _uncached = Uncached::begin(&self.api().common)?;
        self.with_threads(threads, || Ok(work(self.walk(descs)?)))
    }

    fn walk(&self, descs: &MatmulDescs) -> Result<Implementations<'_>, CallError> {
        let attr = attributes(self.api())?;
        let cursor = match &self.api().generation {
            Generation::V2(table) => v2_cursor(self.api(), table, descs, &attr),
            Generation::V3(table) => v3_cursor(self.api(), table, descs, &attr),
        };
        let cursor = match cursor {
            Ok(cursor) => cursor,
            Err(error) if error.is_unimplemented() => Cursor::End,
            Err(error) => return Err(error),
        };
        Ok(Implementations { library: self.clone(), cursor, seen: 0, _attr: attr, _walk: PhantomData })
    }
}

fn attributes(api: &Api) -> Result<Owned<sys::Attr>, CallError> {
    let common = &api.common;
    // SAFETY: the call writes an object that is ours to destroy.
    let attr = unsafe {
        Owned::create("dnnl_primitive_attr_create", common.dnnl_primitive_attr_destroy, |attr| {
            (common.dnnl_primitive_attr_create)(attr)
        })
    }?;
    // SAFETY: the object is alive, the number is the header's.
    let status = unsafe { (common.dnnl_primitive_attr_set_scratchpad_mode)(attr.as_ptr(), sys::SCRATCHPAD_USER) };
    check("dnnl_primitive_attr_set_scratchpad_mode", status)?;
    if let Some(set_mode) = common.dnnl_primitive_attr_set_fpmath_mode {
        // SAFETY: as above.
        check("dnnl_primitive_attr_set_fpmath_mode", unsafe { set_mode(attr.as_ptr(), sys::FPMATH_STRICT) })?;
    }
    Ok(attr)
}

fn bias_or_null(descs: &MatmulDescs) -> *const sys::MemoryDesc {
    descs.bias.as_ref().map_or(null(), MemoryDesc::as_ptr)
}

fn v2_cursor(api: &Api, table: &v2::Table, descs: &MatmulDescs, attr: &Owned<sys::Attr>) -> Result<Cursor, CallError> {
    let mut op = std::mem::MaybeUninit::<v2::MatmulDesc>::zeroed();
    // SAFETY: all descriptors are structs of 2.x; the call copies them into `op`.
    let status = unsafe {
        (table.dnnl_matmul_desc_init)(
            op.as_mut_ptr(),
            descs.src.as_ptr().cast(),
            descs.weights.as_ptr().cast(),
            bias_or_null(descs).cast(),
            descs.dst.as_ptr().cast(),
        )
    };
    check("dnnl_matmul_desc_init", status)?;
    // SAFETY: every field is a number, and all were zeroed before the call wrote over them.
    let op = Arc::new(unsafe { op.assume_init() });
    // SAFETY: `op` and `attr` live as long as the iterator, everything else is alive during the call, and the iterator written is ours to destroy.
    let iterator = unsafe {
        Owned::create("dnnl_primitive_desc_iterator_create", table.dnnl_primitive_desc_iterator_destroy, |iterator| {
            (table.dnnl_primitive_desc_iterator_create)(
                iterator,
                Arc::as_ptr(&op).cast(),
                attr.as_ptr(),
                api.engine.as_ptr(),
                null(),
            )
        })
    }?;
    Ok(Cursor::V2 { table: *table, iterator, _op: op })
}

fn v3_cursor(api: &Api, table: &v3::Table, descs: &MatmulDescs, attr: &Owned<sys::Attr>) -> Result<Cursor, CallError> {
    // SAFETY: everything is alive during the call, and the descriptor written is ours to destroy.
    let desc = unsafe {
        Owned::create("dnnl_matmul_primitive_desc_create", api.common.dnnl_primitive_desc_destroy, |desc| {
            (table.dnnl_matmul_primitive_desc_create)(
                desc,
                api.engine.as_ptr(),
                descs.src.as_ptr(),
                descs.weights.as_ptr(),
                bias_or_null(descs),
                descs.dst.as_ptr(),
                attr.as_ptr(),
            )
        })
    }?;
    Ok(Cursor::V3(*table, desc))
}

impl<'walk> Implementations<'walk> {
    /// Moves to the next implementation; false at the end.
    fn advance(&mut self) -> Result<bool, CallError> {
        let (call, status) = match &self.cursor {
            Cursor::V2 { table, iterator, .. } => {
                // SAFETY: the iterator is alive and only this thread's.
                let status = unsafe { (table.dnnl_primitive_desc_iterator_next)(iterator.as_ptr()) };
                ("dnnl_primitive_desc_iterator_next", status)
            }
            Cursor::V3(table, desc) => {
                // SAFETY: the descriptor is alive and only this thread's; what was handed out are clones.
                let status = unsafe { (table.dnnl_primitive_desc_next_impl)(desc.as_ptr()) };
                ("dnnl_primitive_desc_next_impl", status)
            }
            Cursor::End => return Ok(false),
        };
        if status == sys::LAST_IMPLEMENTATION {
            return Ok(false);
        }
        check(call, status).map(|()| true)
    }

    /// The implementation it stands at.
    fn current(&self) -> Result<PrimitiveDesc<'walk>, CallError> {
        let destroy = self.library.api().common.dnnl_primitive_desc_destroy;
        let desc = match &self.cursor {
            // SAFETY: the iterator is alive; what it fetches is a new object, ours to destroy.
            Cursor::V2 { table, iterator, .. } => unsafe {
                let fetched = (table.dnnl_primitive_desc_iterator_fetch)(iterator.as_ptr());
                Owned::take("dnnl_primitive_desc_iterator_fetch", destroy, fetched)
            }?,
            // SAFETY: the descriptor is alive, the clone is ours to destroy.
            Cursor::V3(table, desc) => unsafe {
                Owned::create("dnnl_primitive_desc_clone", destroy, |clone| {
                    (table.dnnl_primitive_desc_clone)(clone, desc.as_ptr())
                })
            }?,
            Cursor::End => {
                return Err(CallError { call: "dnnl_primitive_desc_iterator_fetch", status: sys::LAST_IMPLEMENTATION });
            }
        };
        Ok(PrimitiveDesc { library: self.library.clone(), desc, _walk: PhantomData })
    }
}

impl<'walk> Iterator for Implementations<'walk> {
    type Item = Result<PrimitiveDesc<'walk>, CallError>;

    fn next(&mut self) -> Option<Self::Item> {
        if matches!(self.cursor, Cursor::End) {
            return None;
        }
        let here = if self.seen == 0 { Ok(true) } else { self.advance() };
        self.seen += 1;
        let item = match here {
            Ok(true) if self.seen <= IMPLEMENTATIONS_MAX => Some(self.current()),
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        };
        if !matches!(item, Some(Ok(_))) {
            self.cursor = Cursor::End;
        }
        item
    }
}

impl PrimitiveDesc<'_> {
    /// oneDNN's name for it: `brg:avx512_core_bf16`, `gemm:jit`, `ref:any`.
    pub fn name(&self) -> Result<String, CallError> {
        // SAFETY: the descriptor is alive.
        unsafe { name_of(self.library.api(), self.desc.as_ptr()) }
    }

    /// The layout in which it takes the weights.
    pub fn weights(&self) -> Result<MemoryDesc, CallError> {
        // SAFETY: the descriptor is alive, so is the answer, which is copied.
        unsafe { MemoryDesc::copy(&self.library, self.query_memory(sys::QUERY_WEIGHTS)) }
    }

    /// Scratch memory that each run needs, bytes.
    pub fn scratchpad_bytes(&self) -> usize {
        // SAFETY: the answer lives as long as the descriptor.
        unsafe { (self.library.api().common.dnnl_memory_desc_get_size)(self.query_memory(sys::QUERY_SCRATCHPAD)) }
    }

    fn query_memory(&self, what: c_int) -> *const sys::MemoryDesc {
        // SAFETY: the descriptor is alive.
        unsafe { (self.library.api().common.dnnl_primitive_desc_query_md)(self.desc.as_ptr(), what, 0) }
    }

    /// Makes it: generates its code and ties it to `descs`, whose weights are [`PrimitiveDesc::weights`] now.
    pub fn make(self, descs: MatmulDescs) -> Result<Matmul, CallError> {
        let primitive = primitive(&self.library.api().common, &self.desc)?;
        let scratchpad_bytes = self.scratchpad_bytes();
        let copy = || {
            // SAFETY: the descriptor is alive, so is the answer, which is copied.
            unsafe { MemoryDesc::copy(&self.library, self.query_memory(sys::QUERY_SCRATCHPAD)) }
        };
        let scratchpad = (scratchpad_bytes > 0).then(copy).transpose()?;
        let descs = MatmulDescs { weights: self.weights()?, ..descs };
        Ok(Matmul::new(self.library.clone(), primitive, descs, scratchpad))
    }
}

/// # Safety
/// `desc` is alive.
pub(super) unsafe fn name_of(api: &Api, desc: *const sys::PrimitiveDesc) -> Result<String, CallError> {
    let mut text: *const c_char = null();
    // SAFETY: the query writes one pointer to a NUL-terminated text that lives as long as the descriptor.
    unsafe {
        let result = (&raw mut text).cast();
        check("dnnl_primitive_desc_query", (api.common.dnnl_primitive_desc_query)(desc, sys::QUERY_NAME, 0, result))?;
        if text.is_null() {
            return Ok(String::new());
        }
        Ok(CStr::from_ptr(text).to_string_lossy().into_owned())
    }
}
