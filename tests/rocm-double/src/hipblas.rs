//! libhipblas: `hipblasGemmEx` and what it needs. It is rocBLAS under other names.

use crate::abi::{Out, exports};
use crate::element::Element;
use crate::hipblaslt::{INTERNAL_ERROR, INVALID_VALUE, NOT_INITIALIZED, NOT_SUPPORTED, blas_call};
use crate::rocblas::{self, Arguments, create_handle, destroy_handle, with_handle};

/// `hipblasStatus_t` of a `rocblas_status`.
fn translated(status: i32) -> i32 {
    match status {
        rocblas::INVALID_HANDLE => NOT_INITIALIZED,
        rocblas::NOT_IMPLEMENTED => NOT_SUPPORTED,
        3 | 4 | 11 => INVALID_VALUE,
        _ => INTERNAL_ERROR,
    }
}

/// `hipDataType` from ROCm 7 on; before that the numbers are those of rocBLAS.
fn data_type(number: i32) -> i32 {
    if (150..200).contains(&number) { Element::from_rocblas(number).map_or(255, Element::hip) } else { number }
}

/// The type of sums: a `hipblasComputeType_t` (32F 2 and its fast forms, 64F 7), or a data type before ROCm 7.
fn compute(number: i32) -> i32 {
    match number {
        2..=6 => Element::F32.hip(),
        7 | 8 => Element::F64.hip(),
        number => data_type(number),
    }
}

exports! { blas_call;
    fn hipblasCreate(place: Out<usize>) |double| {
        if place.is_null() {
            return Err(INVALID_VALUE);
        }
        place.put(create_handle(double).map_err(translated)?);
        Ok(())
    }

    fn hipblasDestroy(handle: usize) |double| { destroy_handle(double, handle).map_err(translated) }

    fn hipblasSetStream(handle: usize, stream: usize) |double| {
        let behind = with_handle(handle, |handle| {
            handle.stream = stream;
            handle.behind
        });
        let behind = behind.map_err(translated)?;
        double.host().map_or_else(|cuda| cuda.blas_set_stream(behind, stream).map_err(translated), |_| Ok(()))
    }

    fn hipblasGetStream(handle: usize, place: Out<usize>) |_double| {
        let stream = with_handle(handle, |handle| handle.stream).map_err(translated)?;
        if place.put(stream) { Ok(()) } else { Err(INVALID_VALUE) }
    }

    fn hipblasSetPointerMode(handle: usize, mode: i32) |_double| {
        with_handle(handle, |handle| handle.is_device_mode = mode == 1).map_err(translated)
    }

    fn hipblasGetPointerMode(handle: usize, place: Out<i32>) |_double| {
        let is_device_mode = with_handle(handle, |handle| handle.is_device_mode).map_err(translated)?;
        if place.put(is_device_mode.into()) { Ok(()) } else { Err(INVALID_VALUE) }
    }

    fn hipblasGemmStridedBatchedEx(
        handle: usize, op_a: i32, op_b: i32, m: i32, n: i32, k: i32, alpha: usize, a: usize, a_type: i32, lda: i32,
        stride_a: i64, b: usize, b_type: i32, ldb: i32, stride_b: i64, beta: usize, c: usize, c_type: i32, ldc: i32,
        stride_c: i64, batch: i32, compute_type: i32, _algo: i32,
    ) |double| {
        let [a_type, b_type, c_type] = [a_type, b_type, c_type].map(data_type);
        let c = (c, c_type, ldc, stride_c);
        let operands = [(a, a_type, lda, stride_a), (b, b_type, ldb, stride_b), c, c];
        let (ops, sizes, compute) = ([op_a, op_b], [m, n, k], compute(compute_type));
        let arguments = Arguments { ops, sizes, alpha, beta, operands, batch, compute };
        rocblas::run(double, "hipblas", handle, &arguments, 0, 0, 0).map_err(translated)
    }

    fn hipblasSgemm(
        handle: usize, op_a: i32, op_b: i32, m: i32, n: i32, k: i32, alpha: usize, a: usize, lda: i32,
        b: usize, ldb: i32, beta: usize, c: usize, ldc: i32,
    ) |double| {
        let number = Element::F32.hip();
        let c = (c, number, ldc, 0);
        let operands = [(a, number, lda, 0), (b, number, ldb, 0), c, c];
        let arguments = Arguments { ops: [op_a, op_b], sizes: [m, n, k], alpha, beta, operands, batch: 1, compute: number };
        rocblas::run(double, "hipblas", handle, &arguments, 0, 0, 0).map_err(translated)
    }

    fn hipblasGemmEx(
        handle: usize, op_a: i32, op_b: i32, m: i32, n: i32, k: i32, alpha: usize, a: usize, a_type: i32, lda: i32,
        b: usize, b_type: i32, ldb: i32, beta: usize, c: usize, c_type: i32, ldc: i32, compute_type: i32, _algo: i32,
    ) |double| {
        let [a_type, b_type, c_type] = [a_type, b_type, c_type].map(data_type);
        let operands = [(a, a_type, lda, 0), (b, b_type, ldb, 0), (c, c_type, ldc, 0), (c, c_type, ldc, 0)];
        let (ops, sizes, compute) = ([op_a, op_b], [m, n, k], compute(compute_type));
        let arguments = Arguments { ops, sizes, alpha, beta, operands, batch: 1, compute };
        rocblas::run(double, "hipblas", handle, &arguments, 0, 0, 0).map_err(translated)
    }
}
