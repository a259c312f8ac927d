//! The calls of `hipblaslt-ext.hpp` under their C++ names.
//!
//! Containers are libstdc++'s: a vector is three addresses (first, behind the last, behind the room), a string an address, a
//! length and room for 15 bytes in place. Their memory is `malloc`'s, which is what libstdc++'s `operator new` and `delete`
//! use; `operator delete` is exported, as a C++ library would bring it along.

use super::matmul::{algo_at, described};
use super::object::{self, Kind};
use super::{Algo, INVALID_VALUE, NOT_SUPPORTED, blas_call, result_bytes};
use crate::abi::{Answer, Out, answer, read_at, write_bytes};
use crate::state::Double;

/// Copies bytes to memory of `malloc`'s with `room` bytes behind them.
fn malloc_copy(bytes: &[u8], room: usize) -> Option<usize> {
    // SAFETY: any size may be asked for.
    let place = unsafe { libc::malloc((bytes.len() + room).max(1)) } as usize;
    write_bytes(place, bytes);
    (place != 0).then_some(place)
}

/// A text with its zero, for the caller to `free`.
pub fn malloc_text(text: &str) -> Option<usize> {
    malloc_copy(format!("{text}\0").as_bytes(), 0)
}

fn free(address: usize) {
    // SAFETY: null, or of `malloc`: the caller's vectors come from the allocator that libstdc++ shares with it.
    unsafe { libc::free(address as *mut libc::c_void) };
}

/// Replaces the contents of the vector at `vector` by `results`.
fn fill_vector(vector: usize, results: &[[u8; 56]]) -> Answer {
    let first: usize = read_at(vector).ok_or(INVALID_VALUE)?;
    free(first);
    let bytes = results.concat();
    let place = malloc_copy(&bytes, 0).ok_or(super::ALLOC_FAILED)?;
    for (at, word) in [place, place + bytes.len(), place + bytes.len()].into_iter().enumerate() {
        write_bytes(vector + at * size_of::<usize>(), &word.to_ne_bytes());
    }
    Ok(())
}

/// Constructs a string at `place`.
fn put_string(place: usize, text: &str) {
    const IN_PLACE: usize = 15;
    let words = size_of::<usize>();
    let in_place = place + 2 * words;
    let data = if text.len() <= IN_PLACE { Some(in_place) } else { malloc_text(text) };
    let (data, text) = data.map_or((in_place, ""), |data| (data, text));
    write_bytes(data, format!("{text}\0").as_bytes());
    write_bytes(place, &data.to_ne_bytes());
    write_bytes(place + words, &text.len().to_ne_bytes());
    if data != in_place {
        // The room that was allocated, less the zero.
        write_bytes(in_place, &text.len().to_ne_bytes());
    }
}

fn name_of(double: &Double, algo: usize) -> String {
    let index = algo_at(algo).map_or(0, |algo| algo.index);
    match double.host() {
        Ok(_) => double.solutions.of_index(index).map(|one| one.name.clone()).unwrap_or_default(),
        Err(cuda) => cuda.name_of(index),
    }
}

/// Constructs the name at `place`, whatever happens: the caller will read a string there.
fn put_name(place: usize, handle: usize, algo: usize, suffix: &str) -> usize {
    put_string(place, "");
    answer(0, 0, |double| {
        object::find(handle, Kind::Handle)?;
        let name = name_of(double, algo);
        put_string(place, &if name.is_empty() { name } else { format!("{name}{suffix}") });
        Ok(())
    });
    place
}

#[unsafe(export_name = "_ZN13hipblaslt_ext16getIndexFromAlgoER22_hipblasLtMatmulAlgo_t")]
extern "C" fn index_from_algo(algo: usize) -> i32 {
    algo_at(algo).map_or(-1, |algo| algo.index)
}

#[unsafe(export_name = "_ZN13hipblaslt_ext23getSolutionNameFromAlgoB5cxx11EPvR22_hipblasLtMatmulAlgo_t")]
extern "C" fn solution_name_from_algo(place: usize, handle: usize, algo: usize) -> usize {
    put_name(place, handle, algo, "")
}

#[unsafe(export_name = "_ZN13hipblaslt_ext21getKernelNameFromAlgoB5cxx11EPvR22_hipblasLtMatmulAlgo_t")]
extern "C" fn kernel_name_from_algo(place: usize, handle: usize, algo: usize) -> usize {
    put_name(place, handle, algo, "_kernel")
}

#[unsafe(export_name = "_ZdlPv")]
extern "C" fn operator_delete(address: usize) {
    free(address);
}

#[allow(clippy::too_many_arguments, reason = "the list is the library's")]
#[unsafe(export_name = "_ZN13hipblaslt_ext21matmulIsAlgoSupportedEPvP27hipblasLtMatmulDescOpaque_tPKvP29hipblasLtMatrixLayoutOpaque_tS6_S4_S6_S6_R22_hipblasLtMatmulAlgo_tRm")]
extern "C" fn matmul_is_algo_supported(
    handle: usize,
    desc: usize,
    alpha: usize,
    a: usize,
    b: usize,
    beta: usize,
    c: usize,
    d: usize,
    algo: usize,
    workspace: Out<usize>,
) -> i32 {
    blas_call(|double| {
        let description = described(handle, desc, [a, b, c, d], [0; 4], [alpha, beta])?;
        let asked = algo_at(algo).ok_or(INVALID_VALUE)?;
        let needed = match double.host() {
            Ok(_) => {
                let gemm = description.gemm(double)?;
                let solution = double.solutions.of_index(asked.index).filter(|one| one.takes(&gemm));
                solution.ok_or(NOT_SUPPORTED)?.workspace_bytes(&gemm)
            }
            Err(cuda) => cuda.check(&description, asked.index)?,
        };
        // The call settles the algorithm's own limit too.
        write_bytes(algo, &Algo { workspace_bytes: asked.workspace_bytes.max(needed), ..asked }.bytes());
        if workspace.put(needed as usize) { Ok(()) } else { Err(INVALID_VALUE) }
    })
}

#[allow(clippy::too_many_arguments, reason = "the list is the library's")]
#[unsafe(export_name = "_ZN13hipblaslt_ext11getAllAlgosEPvNS_8GemmTypeE18hipblasOperation_tS2_11hipDataTypeS3_S3_S3_20hipblasComputeType_tRSt6vectorI33_hipblasLtMatmulHeuristicResult_tSaIS6_EE")]
extern "C" fn get_all_algos(
    handle: usize,
    _gemm_type: i32,
    _op_a: i32,
    _op_b: i32,
    _a: i32,
    _b: i32,
    _c: i32,
    _d: i32,
    _compute: i32,
    results: usize,
) -> i32 {
    blas_call(|double| {
        object::find(handle, Kind::Handle)?;
        // Without a shape nothing can be ruled out, and cuBLASLt can list nothing at all.
        let all = double.host().map_err(|_| NOT_SUPPORTED).map(|_| double.solutions.all_of_hipblaslt())?;
        let results_of = |index: i32| result_bytes(Algo { index, workspace_bytes: 0 }, 0, 0.0);
        fill_vector(results, &all.map(|one| results_of(one.index)).collect::<Vec<_>>())
    })
}

#[unsafe(export_name = "_ZN13hipblaslt_ext17getAlgosFromIndexEPvRSt6vectorIiSaIiEERS1_I33_hipblasLtMatmulHeuristicResult_tSaIS5_EE")]
extern "C" fn get_algos_from_index(handle: usize, indices: usize, results: usize) -> i32 {
    blas_call(|double| {
        object::find(handle, Kind::Handle)?;
        let first: usize = read_at(indices).ok_or(INVALID_VALUE)?;
        let end: usize = read_at(indices + size_of::<usize>()).ok_or(INVALID_VALUE)?;
        let wanted = (first..end).step_by(4).filter_map(read_at::<i32>);
        let on_host = double.host().is_ok();
        // On another device an index proves itself only with a product.
        let known = wanted.filter(|index| !on_host || double.solutions.of_index(*index).is_some());
        let found: Vec<_> = known.map(|index| result_bytes(Algo { index, workspace_bytes: 0 }, 0, 0.0)).collect();
        fill_vector(results, &found)?;
        if found.is_empty() { Err(INVALID_VALUE) } else { Ok(()) }
    })
}
