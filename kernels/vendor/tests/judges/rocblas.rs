//! rocBLAS, as its public headers have it: `rocblas-functions.h`, `rocblas-auxiliary.h`, `rocblas-beta.h` and
//! `rocblas-types.h` of version 4.4.0 (ROCm 6.4), where `rocblas_int` has 32 bits and `rocblas_stride` 64. All that stands
//! here reads the same in 3.0.0 to 4.4.0, and the types and `rocblas_gemm_ex` also in 5.x (ROCm 7).
//!
//! No package binds rocBLAS without having it, so its declarations are written down here a second time, in another
//! spelling than the table's and from the headers alone.

use tgemm_db::{Compute, DType};
use tgemm_vendor::gpu::{Dialect, rocblas};

use crate::kinds;

/// Letters for the headers' parameters, with their kinds.
const LETTERS: [(char, &str); 14] = [
    ('H', "*any"),  // rocblas_handle, hipStream_t
    ('h', "**any"), // rocblas_handle*
    ('o', "i32"),   // rocblas_operation
    ('i', "i32"),   // rocblas_int, int32_t
    ('t', "i32"),   // rocblas_datatype
    ('g', "i32"),   // rocblas_gemm_algo
    ('l', "i64"),   // rocblas_stride
    ('f', "u32"),   // uint32_t
    ('r', "&any"),  // const void*
    ('w', "*any"),  // void*
    ('c', "*char"), // char*
    ('I', "*i32"),  // rocblas_int*, rocblas_atomics_mode*
    ('z', "u64"),   // size_t
    ('Z', "*u64"),  // size_t*
];

/// The headers' declarations. Operands of a product stand together, as the headers' lines do.
const DECLARED: [(&str, &str); 11] = [
    ("rocblas_create_handle", "h"),
    ("rocblas_destroy_handle", "H"),
    ("rocblas_set_stream", "HH"),
    ("rocblas_set_workspace", "H w z"),
    ("rocblas_get_atomics_mode", "H I"),
    ("rocblas_get_version_string_size", "Z"),
    ("rocblas_get_version_string", "c z"),
    ("rocblas_gemm_ex", "H oo iii r rti rti r rti wti tgif"),
    ("rocblas_gemm_strided_batched_ex", "H oo iii r rtil rtil r rtil wtil i tgif"),
    ("rocblas_gemm_ex_get_solutions", "H oo iii r rti rti r rti wti tgf II"),
    ("rocblas_gemm_strided_batched_ex_get_solutions", "H oo iii r rtil rtil r rtil wtil i tgf II"),
];

fn spelled(letters: &str) -> Vec<String> {
    let kind = |letter: char| LETTERS.iter().find(|(known, _)| *known == letter).expect("a known letter").1;
    letters.chars().filter(|letter| *letter != ' ').map(|letter| kind(letter).to_owned()).collect()
}

#[test]
fn the_signatures_are_those_of_the_headers() {
    let ours: Vec<_> = kinds::ours(Dialect::Hip).into_iter().filter(|s| s.0.starts_with("rocblas_")).collect();
    assert_eq!(ours.len(), DECLARED.len(), "a function without a judge, or a judge without a function");
    for (symbol, kinds) in ours {
        let declared = DECLARED.iter().find(|(name, _)| *name == symbol);
        let (_, letters) = declared.unwrap_or_else(|| panic!("{symbol} is not judged"));
        assert_eq!(kinds, spelled(letters), "{symbol}");
    }
}

#[test]
fn the_numbers_are_those_of_the_headers() {
    // rocblas_datatype_: f16_r, f32_r, f64_r, i8_r, i32_r, bf16_r.
    let types = [
        (DType::F16, 150),
        (DType::F32, 151),
        (DType::F64, 152),
        (DType::I8, 160),
        (DType::I32, 162),
        (DType::Bf16, 168),
    ];
    for dtype in DType::all() {
        let declared = types.iter().find(|(known, _)| *known == dtype).map(|(_, number)| *number);
        assert_eq!(rocblas::data_type(dtype), declared, "{dtype}");
    }
    assert_eq!(rocblas::compute_type(Compute::F32), Some(151));
    // rocblas_operation_none, rocblas_operation_transpose.
    assert_eq!((rocblas::operation(false), rocblas::operation(true)), (111, 112));
    // rocblas_gemm_algo_standard, rocblas_gemm_algo_solution_index, rocblas_gemm_flags_check_solution_index.
    assert_eq!((rocblas::ALGO_STANDARD, rocblas::ALGO_SOLUTION_INDEX), (0, 1));
    assert_eq!(rocblas::FLAG_CHECK_SOLUTION_INDEX, 0x8);
}
