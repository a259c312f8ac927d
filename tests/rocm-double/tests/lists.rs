//! What the libraries list, how indices move, names across the C++ border, versions, and how the double is found.

mod common;

use std::path::Path;
use std::time::Duration;

use common::{Rocm, bf16_product, call, child, in_child};
use tgemm_rocm_double::{built, install, sonames};

/// 2 is believed to be best by far; 4 needs workspace; 5 takes no such product; −7 is rocRoller's.
const LISTED: &str = r#"{"index_base": BASE, "revision": "REVISION", "ranked": 2, "rocblas_overstates": 3, "solutions": [
    {"index": 9, "tile": [16, 16]}, {"index": 2, "tile": [64, 64], "cost": {"times": 5}}, {"index": 3, "tile": [32, 32]},
    {"index": 4, "tile": [64, 64], "split_k": 4}, {"index": 5, "only": {"m": [1000, 2000]}},
    {"index": -7, "tile": [16, 32], "name": "a name of more than fifteen bytes"},
    {"index": -620, "library": "rocblas", "tile": [128, 128]}]}"#;

fn listed(base: &str, revision: &str) -> String {
    LISTED.replace("BASE", base).replace("REVISION", revision)
}

fn indices(found: &[(i32, u64)]) -> Vec<i32> {
    let mut indices: Vec<i32> = found.iter().map(|one| one.0).collect();
    indices.sort_unstable();
    indices
}

#[test]
fn the_heuristic_ranks_then_lists_by_index() {
    in_child("the_heuristic_ranks_then_lists_by_index", &listed("0", "r"), |rocm| {
        let lt = rocm.lt();
        let (product, _) = bf16_product(rocm, 64, 64, 512);
        let (status, all) = rocm.heuristic(lt, &product, 1 << 20, 100);
        assert_eq!((status, indices(&all)), (0, vec![-7, 2, 3, 4, 9]));
        let behind: Vec<i32> = all[2..].iter().map(|one| one.0).collect();
        assert!(behind.is_sorted(), "{all:?}");
        assert_eq!(all.iter().find(|one| one.0 == 4).unwrap().1, 4 * 4 * 64 * 64);
        let (_, two) = rocm.heuristic(lt, &product, 1 << 20, 2);
        assert_eq!(two, all[..2]);
        let (_, none) = rocm.heuristic(lt, &product, 0, 100);
        assert_eq!(indices(&none), [-7, 2, 3, 9], "no workspace unless it is allowed");
        let mut refused = [0u8; 56];
        let mut returned = 7i32;
        let [a, b, c, d] = product.layouts;
        let (results, returned_at) = (refused.as_mut_ptr(), &raw mut returned);
        let ask = |lt: usize, preference: usize, count: i32| {
            call!(
                rocm,
                hipblasLtMatmulAlgoGetHeuristic(lt, product.desc, a, b, c, d, preference, count, results, returned_at)
            )
        };
        let preference = rocm.word(|place| call!(rocm, hipblasLtMatmulPreferenceCreate(place))).unwrap();
        assert_eq!((ask(0, preference, 1), ask(lt, 0, 1), ask(lt, preference, 0)), (1, 3, 3));
        assert_eq!(ask(lt, preference, 1), 0);
    });
}

#[test]
fn misuse_is_refused_as_by_the_library() {
    in_child("misuse_is_refused_as_by_the_library", &listed("0", "r"), |rocm| {
        let lt = rocm.lt();
        let (product, _) = bf16_product(rocm, 64, 64, 512);
        assert_eq!(rocm.matmul(0, &product, Some(2), 0), 1, "no handle");
        let with = |change: &dyn Fn(&mut common::Product)| {
            let mut changed = product.clone();
            change(&mut changed);
            rocm.matmul(lt, &changed, Some(2), 0)
        };
        assert_eq!(with(&|p| p.layouts[0] = rocm.layout(14, 512, 64, 511)), 3, "a leading dimension below its rows");
        assert_eq!(with(&|p| p.layouts[1] = rocm.layout(14, 256, 64, 256)), 3, "K of A and of B");
        assert_eq!(with(&|p| p.layouts[1] = rocm.layout(2, 512, 64, 512)), 7, "f16 with bf16");
        assert_eq!(with(&|p| p.layouts[3] = 0), 3, "no layout");
        assert_eq!(with(&|p| p.addresses[0] = 0), 3, "no A");
        assert_eq!(rocm.matmul(lt, &product, Some(5), 0), 7, "a solution that takes no such product");
        let starved = common::Product { workspace: (product.workspace.0, 100), ..product.clone() };
        assert_eq!((rocm.matmul(lt, &starved, Some(4), 0), rocm.matmul(lt, &product, Some(4), 0)), (3, 0));
        assert_eq!(rocm.set_desc(product.desc, 0, 1u8), 3, "an attribute of too few bytes");
        assert_eq!(rocm.set_desc(product.desc, 77, 1i32), 3, "no such attribute");
        assert_eq!(rocm.set_desc(product.desc, 31, 0i32), 0);
        let (mut mode, mut written) = (9i32, 0usize);
        let get = call!(rocm, hipblasLtMatmulDescGetAttribute(product.desc, 0, &raw mut mode, 4, &raw mut written));
        assert_eq!((get, mode, written), (0, 112, 4));
    });
}

/// The positive indices of a list, as a child with `revision` prints them.
fn indices_of_build(test: &str, base: &str, revision: &str) -> String {
    let (status, log) = child(test, 7, &listed(base, revision), Duration::from_secs(60), |rocm| {
        let (product, _) = bf16_product(rocm, 64, 64, 512);
        let (_, all) = rocm.heuristic(rocm.lt(), &product, 1 << 20, 100);
        println!("indices: {:?}", indices(&all));
    });
    assert!(status.is_some_and(|status| status.success()), "{log}");
    // The harness has written the test's name before it, without a new line.
    let (_, indices) = log.split_once("indices: ").unwrap();
    indices.lines().next().unwrap().to_owned()
}

#[test]
fn indices_move_with_the_build_and_stay_within_it() {
    let test = "indices_move_with_the_build_and_stay_within_it";
    let [first, again, other] = ["one", "one", "two"].map(|revision| indices_of_build(test, "\"revision\"", revision));
    assert_eq!(first, again);
    assert_ne!(first, other);
    assert!(first.contains("[-7, "), "what is negative stays: {first}");
    assert_eq!(indices_of_build(test, "1000", "one"), "[-7, 1002, 1003, 1004, 1009]");
}

fn name(rocm: &Rocm, function: &str, lt: usize, index: i32) -> String {
    let mut algo = [0u8; 24];
    algo[..4].copy_from_slice(&index.to_ne_bytes());
    // libstdc++'s string: address, length, room for 15 bytes.
    let mut string = [0usize; 4];
    // SAFETY: the library constructs a string in the room given.
    let (data, length) = unsafe {
        let address = rocm.address(function);
        let call: unsafe extern "C" fn(*mut usize, usize, *mut u8) -> usize = std::mem::transmute(address);
        call(string.as_mut_ptr(), lt, algo.as_mut_ptr());
        (string[0], string[1])
    };
    // SAFETY: a constructed string has its bytes there.
    let text = unsafe { std::slice::from_raw_parts(data as *const u8, length) };
    let text = String::from_utf8(text.to_vec()).unwrap();
    let in_place = data == &raw const string[2] as usize;
    assert_eq!(in_place, length < 16);
    if !in_place {
        call!(rocm, _ZdlPv(data));
    }
    text
}

#[test]
fn names_and_indices_cross_the_cxx_border() {
    in_child("names_and_indices_cross_the_cxx_border", &listed("0", "r"), |rocm| {
        let lt = rocm.lt();
        let solution = "_ZN13hipblaslt_ext23getSolutionNameFromAlgoB5cxx11EPvR22_hipblasLtMatmulAlgo_t";
        let kernel = "_ZN13hipblaslt_ext21getKernelNameFromAlgoB5cxx11EPvR22_hipblasLtMatmulAlgo_t";
        assert_eq!(name(rocm, solution, lt, -7), "a name of more than fifteen bytes");
        assert!(name(rocm, kernel, lt, 3).starts_with("Cijk_MT32x32"));
        assert_eq!(name(rocm, solution, lt, 12345), "");
        let algo = (-7i64).to_ne_bytes();
        let index = call!(rocm, _ZN13hipblaslt_ext16getIndexFromAlgoER22_hipblasLtMatmulAlgo_t(algo.as_ptr()));
        assert_eq!(index, -7);
        // An empty vector of indices, then all solutions.
        let (wanted, mut found) = ([4i32, -7, 77], [0usize; 3]);
        let range = wanted.as_ptr_range();
        let indices = [range.start as usize, range.end as usize, range.end as usize];
        let status = call!(
            rocm,
            _ZN13hipblaslt_ext17getAlgosFromIndexEPvRSt6vectorIiSaIiEERS1_I33_hipblasLtMatmulHeuristicResult_tSaIS5_EE(
                lt,
                indices.as_ptr(),
                found.as_mut_ptr()
            )
        );
        assert_eq!((status, (found[1] - found[0]) / 56), (0, 2));
        let status = call!(rocm, _ZN13hipblaslt_ext11getAllAlgosEPvNS_8GemmTypeE18hipblasOperation_tS2_11hipDataTypeS3_S3_S3_20hipblasComputeType_tRSt6vectorI33_hipblasLtMatmulHeuristicResult_tSaIS6_EE(lt, 0, 112, 111, 14, 14, 14, 14, 2, found.as_mut_ptr()));
        assert_eq!((status, (found[1] - found[0]) / 56), (0, 6));
        let (product, _) = bf16_product(rocm, 64, 64, 512);
        let supported = |index: i32| {
            let mut algo = [0u8; 24];
            algo[..4].copy_from_slice(&index.to_ne_bytes());
            let [a, b, c, d] = product.layouts;
            let (alpha, beta, algo) = (&raw const product.alpha, &raw const product.beta, algo.as_mut_ptr());
            rocm.word(|place| call!(rocm, _ZN13hipblaslt_ext21matmulIsAlgoSupportedEPvP27hipblasLtMatmulDescOpaque_tPKvP29hipblasLtMatrixLayoutOpaque_tS6_S4_S6_S6_R22_hipblasLtMatmulAlgo_tRm(lt, product.desc, alpha, a, b, beta, c, d, algo, place)))
        };
        assert_eq!((supported(3), supported(4), supported(5)), (Ok(0), Ok(4 * 4 * 64 * 64), Err(7)));
    });
}

/// (status, list, count) of `rocblas_gemm_ex_get_solutions`.
fn rocblas_list(rocm: &Rocm, handle: usize, room: Option<usize>) -> (i32, Vec<i32>, i32) {
    let mut list = vec![i32::MIN; room.unwrap_or(0)];
    let mut size = room.unwrap_or(0) as i32;
    let at = if room.is_some() { list.as_mut_ptr() as usize } else { 0 };
    let factor = 1.0f32;
    let one = &raw const factor as usize;
    let size_at = &raw mut size as usize;
    let status = call!(
        rocm,
        rocblas_gemm_ex_get_solutions(
            handle, 112, 111, 64, 64, 512, one, 0, 168, 512, 0, 168, 512, one, 0, 168, 64, 0, 168, 64, 151, 1, 0, at,
            size_at
        )
    );
    (status, list, size)
}

#[test]
fn rocblas_forwards_and_overstates() {
    in_child("rocblas_forwards_and_overstates", &listed("0", "r"), |rocm| {
        let handle = rocm.word(|place| call!(rocm, rocblas_create_handle(place))).unwrap();
        let (status, _, count) = rocblas_list(rocm, handle, None);
        assert_eq!((status, count), (0, 6 + 3));
        let (_, list, _) = rocblas_list(rocm, handle, Some(9));
        assert_eq!(
            list,
            [10, 3, 4, 5, -6, -620, i32::MIN, i32::MIN, i32::MIN],
            "hipBLASLt's index + 1; the rest unfilled"
        );
        let (product, expected) = bf16_product(rocm, 64, 64, 512);
        let [a, b, c, d] = product.addresses;
        let (alpha, beta) = (&raw const product.alpha as usize, &raw const product.beta as usize);
        let gemm = |index: i32, flags: u32| {
            call!(
                rocm,
                rocblas_gemm_ex(
                    handle, 112, 111, 64, 64, 512, alpha, a, 168, 512, b, 168, 512, beta, c, 168, 64, d, 168, 64, 151,
                    1, index, flags
                )
            )
        };
        for index in [0, 10, -620] {
            assert_eq!(call!(rocm, hipMemset(d, 0xff, 2 * 64 * 64)), 0);
            assert_eq!(gemm(index, 8), 0, "checked");
            assert!(common::bf16_output(rocm, &product, 1)[0].is_nan(), "and not run");
            assert_eq!(gemm(index, 0), 0);
            let found = common::bf16_output(rocm, &product, 64 * 64);
            assert!(
                found
                    .iter()
                    .zip(&expected)
                    .all(|(found, expected)| (found - expected).abs() <= 0.01 * expected.abs().max(1.0))
            );
        }
        assert_eq!((gemm(77, 8), gemm(77, 0)), (11, 11));
        assert_eq!(call!(rocm, rocblas_destroy_handle(handle)), 0);
        assert_eq!(gemm(0, 0), 1);
        let blas = rocm.word(|place| call!(rocm, hipblasCreate(place))).unwrap();
        let status = call!(
            rocm,
            hipblasGemmEx(blas, 112, 111, 64, 64, 512, alpha, a, 14, 512, b, 14, 512, beta, d, 14, 64, 2, 0)
        );
        assert_eq!(status, 0);
    });
}

#[test]
fn each_generation_reports_its_versions() {
    let test = "each_generation_reports_its_versions";
    for (generation, hip, lt, rocblas) in
        [(7, 70_226_015, 100_201, "5.2.0.abc"), (6, 60_443_484, 1201, "4.4.1.abc"), (5, 50_731_921, 300, "3.1.0.abc")]
    {
        let script = r#"{"revision": "abc"}"#;
        let (status, log) = child(test, generation, script, Duration::from_secs(60), |rocm| {
            let handle = rocm.lt();
            let version = rocm.word(|place| call!(rocm, hipblasLtGetVersion(handle, place))).unwrap();
            let hip = rocm.word(|place| call!(rocm, hipRuntimeGetVersion(place))).unwrap();
            let mut text = [0u8; 64];
            assert_eq!(call!(rocm, rocblas_get_version_string(text.as_mut_ptr(), 64)), 0);
            let end = text.iter().position(|byte| *byte == 0).unwrap();
            println!("versions: {hip} {version} {}", String::from_utf8_lossy(&text[..end]));
        });
        assert!(status.is_some(), "{log}");
        assert!(log.contains(&format!("versions: {hip} {lt} {rocblas}")), "{log}");
    }
}

#[test]
fn a_script_that_cannot_be_read_is_said() {
    let test = "a_script_that_cannot_be_read_is_said";
    let (status, log) = child(test, 7, r#"{"modes": 1}"#, Duration::from_secs(60), |rocm| {
        assert_eq!(call!(rocm, hipInit(0)), 303);
        assert_eq!(call!(rocm, hipblasLtCreate(0)), 1);
    });
    assert!(status.is_some_and(|status| status.success()), "{log}");
    assert!(log.contains("unknown field `modes`") && log.contains("script.json"), "{log}");
}

#[test]
fn the_five_names_are_one_file() {
    let folder = tempfile::tempdir().unwrap();
    for generation in [7, 6, 5, 7] {
        let paths = install(folder.path(), &built().unwrap(), generation).unwrap();
        let names: Vec<&str> = paths.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, sonames(generation).unwrap());
        let real = |path: &Path| path.canonicalize().unwrap();
        assert!(paths.iter().all(|path| real(path) == real(&paths[0])));
    }
    assert!(install(folder.path(), &built().unwrap(), 4).is_err());
}
