//! Memory descriptors: plain structs in 2.x, objects in 3.x, one type here.

use std::ffi::{c_int, c_void};
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::null_mut;

use super::handle::{CallError, Owned, check};
use super::sys::{self, Dims, v2, v3};
use super::{Generation, OneDnn};

/// An element type that oneDNN multiplies here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum DataType {
    /// IEEE binary16.
    F16 = sys::F16,
    /// bfloat16.
    Bf16 = sys::BF16,
    /// IEEE binary32.
    F32 = sys::F32,
}

/// A matrix as memory: sizes, element type, layout.
pub struct MemoryDesc {
    library: OneDnn,
    form: Form,
}

enum Form {
    V2(Box<v2::MemoryDesc>),
    V3(Owned<sys::MemoryDesc>),
}

impl MemoryDesc {
    /// A matrix of `dims` elements whose neighbours lie `strides` elements apart.
    pub fn strided(
        library: &OneDnn,
        data_type: DataType,
        dims: [i64; 2],
        strides: [i64; 2],
    ) -> Result<MemoryDesc, CallError> {
        let form = match &library.api().generation {
            Generation::V2(table) => v2_form("dnnl_memory_desc_init_by_strides", |desc| {
                // SAFETY: the arrays hold as many numbers as `ndims` says.
                unsafe {
                    (table.dnnl_memory_desc_init_by_strides)(
                        desc,
                        2,
                        dims.as_ptr(),
                        data_type as c_int,
                        strides.as_ptr(),
                    )
                }
            })?,
            Generation::V3(table) => v3_form(table, "dnnl_memory_desc_create_with_strides", |desc| {
                // SAFETY: as above.
                unsafe {
                    (table.dnnl_memory_desc_create_with_strides)(
                        desc,
                        2,
                        dims.as_ptr(),
                        data_type as c_int,
                        strides.as_ptr(),
                    )
                }
            })?,
        };
        Ok(MemoryDesc { library: library.clone(), form })
    }

    /// A matrix of `dims` elements whose layout the implementation chooses.
    pub fn any(library: &OneDnn, data_type: DataType, dims: [i64; 2]) -> Result<MemoryDesc, CallError> {
        let form = match &library.api().generation {
            Generation::V2(table) => v2_form("dnnl_memory_desc_init_by_tag", |desc| {
                // SAFETY: the array holds as many numbers as `ndims` says.
                unsafe {
                    (table.dnnl_memory_desc_init_by_tag)(desc, 2, dims.as_ptr(), data_type as c_int, sys::TAG_ANY)
                }
            })?,
            Generation::V3(table) => v3_form(table, "dnnl_memory_desc_create_with_tag", |desc| {
                // SAFETY: as above.
                unsafe {
                    (table.dnnl_memory_desc_create_with_tag)(desc, 2, dims.as_ptr(), data_type as c_int, sys::TAG_ANY)
                }
            })?,
        };
        Ok(MemoryDesc { library: library.clone(), form })
    }

    /// A copy of the library's own descriptor.
    ///
    /// # Safety
    /// `desc` is a descriptor of `library`, valid during this call.
    pub(super) unsafe fn copy(library: &OneDnn, desc: *const sys::MemoryDesc) -> Result<MemoryDesc, CallError> {
        let form = match &library.api().generation {
            // SAFETY: 2.x's descriptors are these structs.
            Generation::V2(_) => Form::V2(Box::new(unsafe { *desc.cast::<v2::MemoryDesc>() })),
            Generation::V3(table) => v3_form(table, "dnnl_memory_desc_clone", |copy| {
                // SAFETY: the caller vouches for `desc`.
                unsafe { (table.dnnl_memory_desc_clone)(copy, desc) }
            })?,
        };
        Ok(MemoryDesc { library: library.clone(), form })
    }

    // Inlined into the look at an optional one, its form is read before it is known to be there: harmless, as nothing comes
    // of it, but memory checkers report it.
    #[inline(never)]
    pub(super) fn as_ptr(&self) -> *const sys::MemoryDesc {
        match &self.form {
            Form::V2(desc) => (&raw const **desc).cast(),
            Form::V3(desc) => desc.as_ptr(),
        }
    }

    /// Memory that a matrix of this layout takes, padding included.
    pub fn bytes(&self) -> usize {
        // SAFETY: the descriptor is whole.
        unsafe { (self.library.api().common.dnnl_memory_desc_get_size)(self.as_ptr()) }
    }

    /// What the layout is, in numbers: layouts that are equal hold equal bytes for equal matrices.
    pub fn layout(&self) -> Result<Layout, CallError> {
        match (&self.form, &self.library.api().generation) {
            (Form::V3(desc), Generation::V3(table)) => layout_v3(table, desc),
            (Form::V2(desc), _) => Ok(layout_v2(desc)),
            // A descriptor is made by the library it holds, so its form is that library's.
            (Form::V3(_), Generation::V2(_)) => {
                Err(CallError { call: "dnnl_memory_desc_query", status: sys::INVALID_ARGUMENTS })
            }
        }
    }
}

impl PartialEq for MemoryDesc {
    fn eq(&self, other: &MemoryDesc) -> bool {
        // SAFETY: both descriptors are whole.
        unsafe { (self.library.api().common.dnnl_memory_desc_equal)(self.as_ptr(), other.as_ptr()) != 0 }
    }
}

fn v2_form(call: &'static str, init: impl FnOnce(*mut v2::MemoryDesc) -> sys::Status) -> Result<Form, CallError> {
    // Zeroes are a whole descriptor of no dimensions.
    let mut desc = Box::new(MaybeUninit::<v2::MemoryDesc>::zeroed());
    check(call, init(desc.as_mut_ptr()))?;
    // SAFETY: every field is a number, and all were zeroed before the call wrote over them.
    Ok(Form::V2(unsafe { desc.assume_init() }))
}

fn v3_form(
    table: &v3::Table,
    call: &'static str,
    create: impl FnOnce(*mut *mut sys::MemoryDesc) -> sys::Status,
) -> Result<Form, CallError> {
    // SAFETY: the calls named here write a descriptor that is the caller's to destroy.
    unsafe { Owned::create(call, table.dnnl_memory_desc_destroy, create) }.map(Form::V3)
}

/// A layout in numbers. As text, `bf16 1024x3072 strides 32768,65536 blocks 16:0,32:1,2:0`: rows in blocks of 16 pairs,
/// columns in blocks of 32.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// `dnnl_data_type_t`.
    data_type: c_int,
    /// `dnnl_format_kind_t`.
    format_kind: c_int,
    /// Sizes with padding.
    padded: [i64; 2],
    /// Elements from one outermost block to the next, per dimension.
    strides: [i64; 2],
    /// Inner blocks from the outside in: size, and the dimension it cuts.
    blocks: Vec<(i64, i64)>,
    /// `dnnl_memory_extra_flags_t`: compensation kept behind the matrix; 2.x only, 3.x does not say.
    extra_flags: u64,
}

impl Layout {
    /// Do strides and blocks say all about it? Where they do not, equal layouts may hold different bytes.
    pub fn is_blocked(&self) -> bool {
        self.format_kind == sys::FORMAT_BLOCKED && self.extra_flags == 0
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.data_type {
            sys::F16 => "f16",
            sys::BF16 => "bf16",
            sys::F32 => "f32",
            _ => "other",
        };
        let ([rows, columns], [row_stride, column_stride]) = (self.padded, self.strides);
        write!(f, "{name} {rows}x{columns} strides {row_stride},{column_stride}")?;
        for (at, (size, dimension)) in self.blocks.iter().enumerate() {
            write!(f, "{}{size}:{dimension}", if at == 0 { " blocks " } else { "," })?;
        }
        Ok(())
    }
}

/// At most this many inner blocks are read: `DNNL_MAX_NDIMS`, the length of the array they lie in.
const BLOCKS_MAX: usize = sys::NDIMS_MAX;

fn blocks(count: c_int, sizes: &Dims, dimensions: &Dims) -> Vec<(i64, i64)> {
    let count = usize::try_from(count).unwrap_or(0).min(BLOCKS_MAX);
    sizes.iter().copied().zip(dimensions.iter().copied()).take(count).collect()
}

fn layout_v2(desc: &v2::MemoryDesc) -> Layout {
    let v2::Blocking { strides, inner_nblks, inner_blks, inner_idxs } = &desc.blocking;
    Layout {
        data_type: desc.data_type,
        format_kind: desc.format_kind,
        padded: [desc.padded_dims[0], desc.padded_dims[1]],
        strides: [strides[0], strides[1]],
        blocks: blocks(*inner_nblks, inner_blks, inner_idxs),
        extra_flags: desc.extra.flags,
    }
}

fn layout_v3(table: &v3::Table, desc: &Owned<sys::MemoryDesc>) -> Result<Layout, CallError> {
    let query = |what: c_int, result: *mut c_void| {
        // SAFETY: the descriptor is whole, and `result` is what the query's number asks for.
        check("dnnl_memory_desc_query", unsafe { (table.dnnl_memory_desc_query)(desc.as_ptr(), what, result) })
    };
    let number = |what: c_int| {
        let mut value: c_int = 0;
        query(what, (&raw mut value).cast()).map(|()| value)
    };
    let dims = |what: c_int| {
        let mut at: *const Dims = null_mut();
        query(what, (&raw mut at).cast())?;
        // SAFETY: the library wrote where its array lies, or left null; the array lives as long as the descriptor.
        Ok(unsafe { at.as_ref() }.copied().unwrap_or_default())
    };
    let format_kind = number(v3::QUERY_FORMAT_KIND)?;
    let data_type = number(v3::QUERY_DATA_TYPE)?;
    let padded = dims(v3::QUERY_PADDED_DIMS)?;
    let mut layout = Layout {
        data_type,
        format_kind,
        padded: [padded[0], padded[1]],
        strides: [0; 2],
        blocks: Vec::new(),
        extra_flags: 0,
    };
    // Strides and blocks are only answered for blocked layouts.
    if format_kind == sys::FORMAT_BLOCKED {
        let strides = dims(v3::QUERY_STRIDES)?;
        layout.strides = [strides[0], strides[1]];
        let count = number(v3::QUERY_INNER_BLOCKS)?;
        layout.blocks = blocks(count, &dims(v3::QUERY_INNER_SIZES)?, &dims(v3::QUERY_INNER_DIMS)?);
    }
    Ok(layout)
}
