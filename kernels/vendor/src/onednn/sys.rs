//! The part of oneDNN's C interface that a matrix product needs, as declared by oneDNN's own headers
//! (`oneapi/dnnl/dnnl_types.h`, `dnnl_common_types.h`, `dnnl.h`): numbers read from those of 2.6.3 (Debian's) and 3.2.0,
//! which agree wherever only one number stands here. Within a major version, oneDNN keeps its binary interface.
//!
//! 2.x describes memory and operations by plain structs of the caller, 3.x by objects of the library. Both hand them
//! over by pointer, so most calls have one binary form; those are in [`Common`], with [`MemoryDesc`] for either.

use std::ffi::{c_char, c_float, c_int, c_uint, c_void};

use crate::symbol_table;

/// Declares types of the library that are only ever seen through pointers.
macro_rules! opaque {
    ($($(#[$meta:meta])* $name:ident;)*) => {$(
        $(#[$meta])*
        #[repr(C)]
        pub struct $name {
            _opaque: [u8; 0],
        }
    )*};
}

opaque! {
    /// `dnnl_engine`.
    Engine;
    /// `dnnl_stream`.
    Stream;
    /// `dnnl_memory`.
    Memory;
    /// What `const_dnnl_memory_desc_t` points to: a [`v2::MemoryDesc`] in 2.x, an object of the library in 3.x.
    MemoryDesc;
    /// `dnnl_primitive_attr`.
    Attr;
    /// `dnnl_primitive_desc`.
    PrimitiveDesc;
    /// `dnnl_primitive`.
    Primitive;
}

/// `dnnl_status_t`.
pub type Status = c_int;
/// `dnnl_success`.
pub const SUCCESS: Status = 0;
/// `dnnl_out_of_memory`.
pub const OUT_OF_MEMORY: Status = 1;
/// `dnnl_invalid_arguments`.
pub const INVALID_ARGUMENTS: Status = 2;
/// `dnnl_unimplemented`: no implementation takes what was described.
pub const UNIMPLEMENTED: Status = 3;
/// `dnnl_iterator_ends` (2.x), `dnnl_last_impl_reached` (3.x).
pub const LAST_IMPLEMENTATION: Status = 4;
/// `dnnl_runtime_error`.
pub const RUNTIME_ERROR: Status = 5;
/// The names of `dnnl_status_t` from 0 on, for messages.
pub const STATUS_NAMES: [&str; 7] = [
    "success",
    "out of memory",
    "invalid arguments",
    "unimplemented",
    "last implementation reached",
    "runtime error",
    "not required",
];

/// `dnnl_f16`.
pub const F16: c_int = 1;
/// `dnnl_bf16`.
pub const BF16: c_int = 2;
/// `dnnl_f32`.
pub const F32: c_int = 3;

/// `dnnl_cpu` of `dnnl_engine_kind_t`.
pub const ENGINE_CPU: c_int = 1;
/// `dnnl_stream_default_flags`.
pub const STREAM_DEFAULT: c_uint = 1;
/// `dnnl_scratchpad_mode_user`: the caller brings scratch memory, so that one primitive may run in several threads.
pub const SCRATCHPAD_USER: c_int = 1;
/// `dnnl_fpmath_mode_strict`: no f32 product in fewer bits, whatever `ONEDNN_DEFAULT_FPMATH_MODE` says.
pub const FPMATH_STRICT: c_int = 0;
/// `dnnl_format_tag_any`: the implementation chooses the layout.
pub const TAG_ANY: c_int = 1;
/// `dnnl_blocked` of `dnnl_format_kind_t`: strides and inner blocks say all about the layout.
pub const FORMAT_BLOCKED: c_int = 2;

/// `DNNL_RUNTIME_SEQ`: one thread.
pub const RUNTIME_SEQUENTIAL: c_uint = 1;
/// `DNNL_RUNTIME_OMP`.
pub const RUNTIME_OPENMP: c_uint = 2;

/// `dnnl_query_impl_info_str`: `const char **`.
pub const QUERY_NAME: c_int = 8;
/// `dnnl_query_weights_md`.
pub const QUERY_WEIGHTS: c_int = 131;
/// `dnnl_query_scratchpad_md`.
pub const QUERY_SCRATCHPAD: c_int = 136;

/// `DNNL_ARG_SRC`, `DNNL_ARG_FROM`.
pub const ARG_SRC: c_int = 1;
/// `DNNL_ARG_DST`, `DNNL_ARG_TO`.
pub const ARG_DST: c_int = 17;
/// `DNNL_ARG_WEIGHTS`.
pub const ARG_WEIGHTS: c_int = 33;
/// `DNNL_ARG_BIAS`.
pub const ARG_BIAS: c_int = 41;
/// `DNNL_ARG_SCRATCHPAD`.
pub const ARG_SCRATCHPAD: c_int = 80;

/// `DNNL_MAX_NDIMS`.
pub const NDIMS_MAX: usize = 12;
/// `dnnl_dims_t`.
pub type Dims = [i64; NDIMS_MAX];

/// `dnnl_version_t`.
#[repr(C)]
#[allow(missing_docs, reason = "the names are the header's")]
pub struct Version {
    pub major: c_int,
    pub minor: c_int,
    pub patch: c_int,
    pub hash: *const c_char,
    pub cpu_runtime: c_uint,
    pub gpu_runtime: c_uint,
}

/// `dnnl_exec_arg_t`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "the names are the header's")]
pub struct ExecArg {
    pub arg: c_int,
    pub memory: *mut Memory,
}

symbol_table! {
    /// Calls of one binary form in 2.x and 3.x.
    pub struct Common {
        required {
            fn dnnl_version() -> *const Version;
            fn dnnl_get_primitive_cache_capacity(capacity: *mut c_int) -> Status;
            fn dnnl_set_primitive_cache_capacity(capacity: c_int) -> Status;
            fn dnnl_engine_create(engine: *mut *mut Engine, kind: c_int, index: usize) -> Status;
            fn dnnl_engine_destroy(engine: *mut Engine) -> Status;
            fn dnnl_stream_create(stream: *mut *mut Stream, engine: *mut Engine, flags: c_uint) -> Status;
            fn dnnl_stream_wait(stream: *mut Stream) -> Status;
            fn dnnl_stream_destroy(stream: *mut Stream) -> Status;
            fn dnnl_memory_desc_equal(left: *const MemoryDesc, right: *const MemoryDesc) -> c_int;
            fn dnnl_memory_desc_get_size(desc: *const MemoryDesc) -> usize;
            fn dnnl_memory_create(
                memory: *mut *mut Memory,
                desc: *const MemoryDesc,
                engine: *mut Engine,
                handle: *mut c_void,
            ) -> Status;
            fn dnnl_memory_set_data_handle(memory: *mut Memory, handle: *mut c_void) -> Status;
            fn dnnl_memory_destroy(memory: *mut Memory) -> Status;
            fn dnnl_primitive_attr_create(attr: *mut *mut Attr) -> Status;
            fn dnnl_primitive_attr_set_scratchpad_mode(attr: *mut Attr, mode: c_int) -> Status;
            fn dnnl_primitive_attr_destroy(attr: *mut Attr) -> Status;
            fn dnnl_primitive_desc_query(
                desc: *const PrimitiveDesc,
                what: c_int,
                index: c_int,
                result: *mut c_void,
            ) -> Status;
            fn dnnl_primitive_desc_query_md(desc: *const PrimitiveDesc, what: c_int, index: c_int) -> *const MemoryDesc;
            fn dnnl_primitive_desc_destroy(desc: *mut PrimitiveDesc) -> Status;
            fn dnnl_primitive_create(primitive: *mut *mut Primitive, desc: *const PrimitiveDesc) -> Status;
            fn dnnl_primitive_get_primitive_desc(
                primitive: *const Primitive,
                desc: *mut *const PrimitiveDesc,
            ) -> Status;
            fn dnnl_primitive_execute(
                primitive: *const Primitive,
                stream: *mut Stream,
                count: c_int,
                args: *const ExecArg,
            ) -> Status;
            fn dnnl_primitive_destroy(primitive: *mut Primitive) -> Status;
            fn dnnl_reorder_primitive_desc_create(
                reorder: *mut *mut PrimitiveDesc,
                from: *const MemoryDesc,
                from_engine: *mut Engine,
                to: *const MemoryDesc,
                to_engine: *mut Engine,
                attr: *const Attr,
            ) -> Status;
        }
        optional {
            // Not in the first releases of 2.x, which cannot lower f32 products either.
            fn dnnl_primitive_attr_set_fpmath_mode(attr: *mut Attr, mode: c_int) -> Status;
        }
    }
}

/// What only 2.x has: structs of the caller, and an iterator over implementations.
pub mod v2 {
    use super::*;

    opaque! {
        /// `dnnl_primitive_desc_iterator`.
        Iterator;
        /// What `const_dnnl_op_desc_t` points to.
        OpDesc;
    }

    /// `dnnl_blocking_desc_t`, the largest member of the union in `dnnl_memory_desc_t` (as large as
    /// `dnnl_rnn_packed_desc_t`), and the only one that a matrix product meets.
    #[repr(C)]
    #[derive(Clone, Copy)]
    #[allow(missing_docs, reason = "the names are the header's")]
    pub struct Blocking {
        pub strides: Dims,
        pub inner_nblks: c_int,
        pub inner_blks: Dims,
        pub inner_idxs: Dims,
    }

    /// `dnnl_memory_extra_desc_t`.
    #[repr(C)]
    #[derive(Clone, Copy)]
    #[allow(missing_docs, reason = "the names are the header's")]
    pub struct Extra {
        pub flags: u64,
        pub compensation_mask: c_int,
        pub scale_adjust: c_float,
        pub asymm_compensation_mask: c_int,
        pub reserved: [c_char; 60],
    }

    /// `dnnl_memory_desc_t`.
    #[repr(C)]
    #[derive(Clone, Copy)]
    #[allow(missing_docs, reason = "the names are the header's")]
    pub struct MemoryDesc {
        pub ndims: c_int,
        pub dims: Dims,
        pub data_type: c_int,
        pub padded_dims: Dims,
        pub padded_offsets: Dims,
        pub offset0: i64,
        pub format_kind: c_int,
        pub blocking: Blocking,
        pub extra: Extra,
    }

    /// `dnnl_matmul_desc_t`.
    #[repr(C)]
    #[allow(missing_docs, reason = "the names are the header's")]
    pub struct MatmulDesc {
        pub primitive_kind: c_int,
        pub src_desc: MemoryDesc,
        pub weights_desc: MemoryDesc,
        pub bias_desc: MemoryDesc,
        pub dst_desc: MemoryDesc,
        pub accum_data_type: c_int,
    }

    symbol_table! {
        /// Calls of 2.x.
        pub struct Table {
            required {
                fn dnnl_memory_desc_init_by_strides(
                    desc: *mut MemoryDesc,
                    ndims: c_int,
                    dims: *const i64,
                    data_type: c_int,
                    strides: *const i64,
                ) -> Status;
                fn dnnl_memory_desc_init_by_tag(
                    desc: *mut MemoryDesc,
                    ndims: c_int,
                    dims: *const i64,
                    data_type: c_int,
                    tag: c_int,
                ) -> Status;
                fn dnnl_matmul_desc_init(
                    desc: *mut MatmulDesc,
                    src: *const MemoryDesc,
                    weights: *const MemoryDesc,
                    bias: *const MemoryDesc,
                    dst: *const MemoryDesc,
                ) -> Status;
                fn dnnl_primitive_desc_iterator_create(
                    iterator: *mut *mut Iterator,
                    op: *const OpDesc,
                    attr: *const Attr,
                    engine: *mut Engine,
                    hint: *const PrimitiveDesc,
                ) -> Status;
                fn dnnl_primitive_desc_iterator_next(iterator: *mut Iterator) -> Status;
                fn dnnl_primitive_desc_iterator_fetch(iterator: *const Iterator) -> *mut PrimitiveDesc;
                fn dnnl_primitive_desc_iterator_destroy(iterator: *mut Iterator) -> Status;
            }
            optional {}
        }
    }
}

/// What only 3.x has: memory descriptors as objects, and primitive descriptors that move to the next implementation.
pub mod v3 {
    use super::*;

    /// `dnnl_query_strides` of 3.x: `const dnnl_dims_t **`.
    pub const QUERY_STRIDES: c_int = 14;
    /// `dnnl_query_data_type`: `dnnl_data_type_t *`.
    pub const QUERY_DATA_TYPE: c_int = 258;
    /// `dnnl_query_padded_dims`: `const dnnl_dims_t **`.
    pub const QUERY_PADDED_DIMS: c_int = 260;
    /// `dnnl_query_format_kind`: `dnnl_format_kind_t *`.
    pub const QUERY_FORMAT_KIND: c_int = 262;
    /// `dnnl_query_inner_nblks_s32`: `int *`.
    pub const QUERY_INNER_BLOCKS: c_int = 263;
    /// `dnnl_query_inner_blks`: `const dnnl_dims_t **`.
    pub const QUERY_INNER_SIZES: c_int = 264;
    /// `dnnl_query_inner_idxs`: `const dnnl_dims_t **`.
    pub const QUERY_INNER_DIMS: c_int = 265;

    symbol_table! {
        /// Calls of 3.x.
        pub struct Table {
            required {
                fn dnnl_memory_desc_create_with_strides(
                    desc: *mut *mut MemoryDesc,
                    ndims: c_int,
                    dims: *const i64,
                    data_type: c_int,
                    strides: *const i64,
                ) -> Status;
                fn dnnl_memory_desc_create_with_tag(
                    desc: *mut *mut MemoryDesc,
                    ndims: c_int,
                    dims: *const i64,
                    data_type: c_int,
                    tag: c_int,
                ) -> Status;
                fn dnnl_memory_desc_clone(desc: *mut *mut MemoryDesc, existing: *const MemoryDesc) -> Status;
                fn dnnl_memory_desc_query(desc: *const MemoryDesc, what: c_int, result: *mut c_void) -> Status;
                fn dnnl_memory_desc_destroy(desc: *mut MemoryDesc) -> Status;
                fn dnnl_matmul_primitive_desc_create(
                    desc: *mut *mut PrimitiveDesc,
                    engine: *mut Engine,
                    src: *const MemoryDesc,
                    weights: *const MemoryDesc,
                    bias: *const MemoryDesc,
                    dst: *const MemoryDesc,
                    attr: *const Attr,
                ) -> Status;
                fn dnnl_primitive_desc_next_impl(desc: *mut PrimitiveDesc) -> Status;
                fn dnnl_primitive_desc_clone(desc: *mut *mut PrimitiveDesc, existing: *const PrimitiveDesc) -> Status;
            }
            optional {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::mem::{align_of, offset_of, size_of};

    use super::*;

    /// What a C compiler says of the header of 2.6.3 on x86-64 (`sizeof`, `offsetof`).
    #[test]
    fn structs_lie_as_in_the_header_of_2_6_3() {
        assert_eq!((size_of::<v2::MemoryDesc>(), align_of::<v2::MemoryDesc>()), (696, 8));
        let offsets = [
            (offset_of!(v2::MemoryDesc, dims), 8),
            (offset_of!(v2::MemoryDesc, data_type), 104),
            (offset_of!(v2::MemoryDesc, padded_dims), 112),
            (offset_of!(v2::MemoryDesc, padded_offsets), 208),
            (offset_of!(v2::MemoryDesc, offset0), 304),
            (offset_of!(v2::MemoryDesc, format_kind), 312),
            (offset_of!(v2::MemoryDesc, blocking), 320),
            (offset_of!(v2::MemoryDesc, extra), 616),
            (offset_of!(v2::Blocking, inner_nblks), 96),
            (offset_of!(v2::Blocking, inner_blks), 104),
            (offset_of!(v2::Blocking, inner_idxs), 200),
            (offset_of!(v2::Extra, compensation_mask), 8),
            (offset_of!(v2::Extra, scale_adjust), 12),
            (offset_of!(v2::Extra, asymm_compensation_mask), 16),
            (offset_of!(v2::Extra, reserved), 20),
            (offset_of!(v2::MatmulDesc, src_desc), 8),
            (offset_of!(v2::MatmulDesc, weights_desc), 704),
            (offset_of!(v2::MatmulDesc, bias_desc), 1400),
            (offset_of!(v2::MatmulDesc, dst_desc), 2096),
            (offset_of!(v2::MatmulDesc, accum_data_type), 2792),
        ];
        for (at, (ours, theirs)) in offsets.into_iter().enumerate() {
            assert_eq!(ours, theirs, "offset {at}");
        }
        assert_eq!((size_of::<v2::Blocking>(), size_of::<v2::Extra>()), (296, 80));
        assert_eq!(size_of::<v2::MatmulDesc>(), 2800);
    }

    /// The same compiler, headers of 2.6.3 and 3.2.0.
    #[test]
    fn structs_of_both_versions_lie_as_in_their_headers() {
        assert_eq!((size_of::<ExecArg>(), offset_of!(ExecArg, memory)), (16, 8));
        assert_eq!(size_of::<Version>(), 32);
        assert_eq!((offset_of!(Version, hash), offset_of!(Version, cpu_runtime)), (16, 24));
    }
}
