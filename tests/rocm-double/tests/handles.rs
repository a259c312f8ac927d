//! What handles and graphs tell, as those ask who watch a program's calls.

mod common;

use common::{Product, Rocm, bf16_output, bf16_product, call, decode, encode, in_child, numbers};

/// A graph of `count` launches of `product`.
fn captured(rocm: &Rocm, lt: usize, product: &Product, stream: usize, count: usize) -> usize {
    assert_eq!(call!(rocm, hipStreamBeginCapture(stream, 1)), 0);
    (0..count).for_each(|_| assert_eq!(rocm.matmul(lt, product, None, stream), 0));
    rocm.word(|place| call!(rocm, hipStreamEndCapture(stream, place))).unwrap()
}

fn replayed() -> usize {
    let trace = std::fs::read_to_string(std::env::var("DOUBLE_TRACE").unwrap()).unwrap();
    trace.lines().filter(|line| line.contains("\"how\":\"replayed\"")).count()
}

#[test]
fn captures_have_numbers() {
    in_child("captures_have_numbers", "{}", |rocm| {
        let (one, two) = (rocm.stream(), rocm.stream());
        let info = |stream: usize| {
            let (mut status, mut id) = (-1i32, 0u64);
            assert_eq!(call!(rocm, hipStreamGetCaptureInfo(stream, &raw mut status, &raw mut id)), 0);
            (status, id)
        };
        assert_eq!(info(one), (0, 0));
        assert_eq!(call!(rocm, hipStreamBeginCapture(one, 2)), 0);
        assert_eq!(call!(rocm, hipStreamBeginCapture(two, 2)), 0);
        let ids = [info(one), info(two)];
        assert_eq!(ids.map(|(status, _)| status), [1, 1]);
        assert!(ids[0].1 != ids[1].1 && ids[0].1 != 0, "{ids:?}");
        assert_eq!(info(one), ids[0], "and keep them");
        rocm.word(|place| call!(rocm, hipStreamEndCapture(one, place))).unwrap();
        assert_eq!(info(one).0, 0);
        assert_eq!(call!(rocm, hipStreamBeginCapture(one, 2)), 0);
        assert!(!ids.map(|(_, id)| id).contains(&info(one).1), "none is given out again");
        assert_ne!(call!(rocm, hipStreamGetCaptureInfo(4711, &raw const ids, &raw const ids)), 0);
    });
}

#[test]
fn graphs_tell_how_many_nodes_they_have() {
    in_child("graphs_tell_how_many_nodes_they_have", "{}", |rocm| {
        let (lt, stream, idle) = (rocm.lt(), rocm.stream(), rocm.stream());
        let (product, _) = bf16_product(rocm, 16, 8, 32);
        let info = |stream: usize| {
            let (mut status, mut id, mut graph) = (-1i32, 0u64, 0usize);
            let (to_status, to_id, to_graph) = (&raw mut status, &raw mut id, &raw mut graph);
            let asked = call!(rocm, hipStreamGetCaptureInfo_v2(stream, to_status, to_id, to_graph, 0, 0));
            (asked, status, id, graph)
        };
        let nodes = |graph: usize| rocm.word(|count| call!(rocm, hipGraphGetNodes(graph, 0, count)));
        assert_eq!(info(stream), (0, 0, 0, 0), "no capture, and no graph");
        assert_eq!(call!(rocm, hipStreamBeginCapture(stream, 2)), 0);
        let (asked, status, id, under_way) = info(stream);
        assert_eq!((asked, status), (0, 1));
        let mut known = 0u64;
        assert_eq!(call!(rocm, hipStreamGetCaptureInfo(stream, &raw const status, &raw mut known)), 0);
        assert_eq!(id, known, "the number that the older call tells");
        assert_eq!(nodes(under_way), Ok(0));
        for launches in 1..=3 {
            assert_eq!(rocm.matmul(lt, &product, None, stream), 0);
            assert_eq!(nodes(under_way), Ok(launches));
        }
        assert_eq!(call!(rocm, hipMemsetAsync(product.workspace.0, 0, 64, stream)), 0);
        assert_eq!(nodes(under_way), Ok(4), "not only products");
        assert_eq!(rocm.matmul(lt, &product, None, idle), 0);
        assert_eq!(nodes(under_way), Ok(4), "only those of its stream");
        let graph = rocm.word(|place| call!(rocm, hipStreamEndCapture(stream, place))).unwrap();
        assert_eq!(nodes(graph), Ok(4));
        // A list of them is not played.
        let (mut list, mut count) = ([0usize; 4], 4usize);
        assert_eq!(call!(rocm, hipGraphGetNodes(graph, list.as_mut_ptr(), &raw mut count)), 1, "hipErrorInvalidValue");
        assert_eq!((list, count), ([0; 4], 4));
        for unknown in [4711, stream, under_way, idle] {
            assert_eq!(nodes(unknown), Err(1), "no capture is under way in {unknown}");
        }
        assert_ne!(info(4711).0, 0);
        assert_eq!(call!(rocm, hipGraphDestroy(graph)), 0);
        assert_eq!(nodes(graph), Err(1), "it is no more");
    });
}

#[test]
fn graphs_are_copied_nested_and_brought_up_to_others() {
    in_child("graphs_are_copied_nested_and_brought_up_to_others", r#"{"trace": "TRACE"}"#, |rocm| {
        let (lt, stream) = (rocm.lt(), rocm.stream());
        let (product, expected) = bf16_product(rocm, 16, 8, 32);
        let two = captured(rocm, lt, &product, stream, 2);
        let three = captured(rocm, lt, &product, stream, 3);
        let copy = rocm.word(|place| call!(rocm, hipGraphClone(place, two))).unwrap();
        assert_ne!(copy, two);
        rocm.word(|place| call!(rocm, hipGraphAddChildGraphNode(place, copy, 0, 0, three))).unwrap();
        let exec =
            |graph: usize| rocm.word(|place| call!(rocm, hipGraphInstantiateWithFlags(place, graph, 0))).unwrap();
        let (of_two, of_copy) = (exec(two), exec(copy));
        let launched = |exec: usize| {
            let before = replayed();
            assert_eq!(call!(rocm, hipGraphLaunch(exec, stream)), 0);
            replayed() - before
        };
        assert_eq!([launched(of_two), launched(of_copy)], [2, 5]);
        // An output of bf16 has 8 bits of mantissa.
        let is_near = |(found, expected): (&f64, &f64)| (found - expected).abs() <= expected.abs() / 256.0;
        assert!(bf16_output(rocm, &product, 16 * 8).iter().zip(&expected).all(is_near));
        let (mut node, mut result) = (1usize, -1i32);
        let mut update = |exec: usize, graph: usize| {
            let status = call!(rocm, hipGraphExecUpdate(exec, graph, &raw mut node, &raw mut result));
            (status, result)
        };
        assert_eq!(update(of_two, three), (910, 1), "another number of nodes");
        let other = captured(rocm, lt, &product, stream, 2);
        assert_eq!(update(of_two, other), (0, 0));
        assert_eq!(launched(of_two), 2);
        assert_ne!(rocm.word(|place| call!(rocm, hipGraphClone(place, 4711))), Ok(0));
        assert!(rocm.word(|place| call!(rocm, hipGraphAddChildGraphNode(place, copy, 0, 0, 4711))).is_err());
    });
}

#[test]
fn handles_tell_their_stream_and_where_factors_are() {
    in_child("handles_tell_their_stream_and_where_factors_are", "{}", |rocm| {
        let stream = rocm.stream();
        let told = |get: &dyn Fn(usize) -> i32| rocm.word(get).unwrap();
        let blas = rocm.word(|place| call!(rocm, hipblasCreate(place))).unwrap();
        let roc = rocm.word(|place| call!(rocm, rocblas_create_handle(place))).unwrap();
        assert_eq!(told(&|place| call!(rocm, hipblasGetPointerMode(blas, place))), 0);
        assert_eq!(told(&|place| call!(rocm, rocblas_get_pointer_mode(roc, place))), 0);
        assert_eq!(call!(rocm, hipblasSetPointerMode(blas, 1)), 0);
        assert_eq!(call!(rocm, rocblas_set_pointer_mode(roc, 1)), 0);
        assert_eq!(told(&|place| call!(rocm, hipblasGetPointerMode(blas, place))), 1);
        assert_eq!(told(&|place| call!(rocm, rocblas_get_pointer_mode(roc, place))), 1);
        assert_eq!(call!(rocm, hipblasSetStream(blas, stream)), 0);
        assert_eq!(told(&|place| call!(rocm, hipblasGetStream(blas, place))), stream);
        assert_eq!(call!(rocm, hipblasGetStream(blas, 0)), 3, "HIPBLAS_STATUS_INVALID_VALUE");
        assert_eq!(call!(rocm, hipblasGetPointerMode(4711, &raw const stream)), 1, "HIPBLAS_STATUS_NOT_INITIALIZED");
        assert_eq!(call!(rocm, rocblas_get_pointer_mode(4711, &raw const stream)), 1, "rocblas_status_invalid_handle");
    });
}

#[test]
fn hipblas_computes_single_and_batched_products() {
    in_child("hipblas_computes_single_and_batched_products", "{}", |rocm| {
        let (m, n, k, batch) = (5, 3, 8, 2);
        let blas = rocm.word(|place| call!(rocm, hipblasCreate(place))).unwrap();
        let (a, b) = (numbers(batch * m * k, 3), numbers(batch * n * k, 4));
        let upload = |values: &[f64]| rocm.upload(&values.iter().flat_map(|v| encode(0, *v)).collect::<Vec<u8>>());
        let (at, bt, ct) = (upload(&a), upload(&b), rocm.malloc(4 * batch * m * n));
        let (one, zero) = (1f32, 0f32);
        let (alpha, beta) = (&raw const one as usize, &raw const zero as usize);
        let output = |count: usize| -> Vec<f64> {
            rocm.download(ct, 4 * count).chunks_exact(4).map(|bytes| decode(0, bytes)).collect()
        };
        let wanted = |batch: usize| -> Vec<f64> {
            let dot = |at: usize| {
                let (row, col) = (at % m, at / m);
                (0..k).map(|i| a[batch * m * k + row * k + i] * b[batch * n * k + col * k + i]).sum()
            };
            (0..m * n).map(dot).collect()
        };
        assert_eq!(call!(rocm, hipblasSgemm(blas, 112, 111, m, n, k, alpha, at, k, bt, k, beta, ct, m)), 0);
        assert_eq!(output(m * n), wanted(0));
        let strides = [m * k, n * k, m * n];
        let status = call!(
            rocm,
            hipblasGemmStridedBatchedEx(
                blas, 112, 111, m, n, k, alpha, at, 0, k, strides[0], bt, 0, k, strides[1], beta, ct, 0, m, strides[2],
                batch, 2, 160
            )
        );
        assert_eq!(status, 0);
        assert_eq!(output(batch * m * n), [wanted(0), wanted(1)].concat());
    });
}
