//! Fortran BLAS: `?gemm_`, every argument by reference, under the names of builds with 64-bit integers as well.
//!
//! Compilers may pass the lengths of the two character arguments behind the last one; they are passed on whatever they are.

use std::ffi::{c_char, c_void};

use tgemm_db::blas::Op;
use tgemm_db::{DType, Via};
use tgemm_vendor::gpu::blaslt::read::class_of;

use super::cblas::compute_of;
use super::hook;
use crate::product::{Matrix, Product};
use crate::seen::{self, How};

/// The operation behind a character.
fn op(letter: u8) -> Option<Op> {
    match letter.to_ascii_uppercase() {
        b'N' => Some(Op::N),
        b'T' | b'C' => Some(Op::T),
        _ => None,
    }
}

macro_rules! gemm {
    ($($name:ident($int:ty, $real:ty, $dtype:ident);)*) => {
        hook! {$(
            fn $name(
                op_a: *const c_char, op_b: *const c_char, m: *const $int, n: *const $int, k: *const $int, alpha: *const $real,
                a: *const c_void, lda: *const $int, b: *const c_void, ldb: *const $int, beta: *const $real, c: *mut c_void,
                ldc: *const $int, op_a_bytes: usize, op_b_bytes: usize,
            ) -> (), |shim, real, _in_place| {
                // SAFETY: Fortran passes the address of every argument.
                let (ops, sizes, lds, factors) = unsafe {
                    (
                        [op(*op_a as u8), op(*op_b as u8)],
                        [*m, *n, *k].map(i64::from),
                        [*lda, *ldb, *ldc],
                        [f64::from(*alpha), f64::from(*beta)],
                    )
                };
                if sizes.contains(&0) {
                    return None;
                }
                let matrices = [
                    Matrix::new(a, DType::$dtype, lds[0]),
                    Matrix::new(b, DType::$dtype, lds[1]),
                    Matrix::new(c, DType::$dtype, lds[2]),
                ];
                let [alpha, beta] = factors.map(class_of);
                let call = match ops {
                    [Some(op_a), Some(op_b)] => {
                        let compute = compute_of(DType::$dtype);
                        Product { ops: [op_a, op_b], sizes, matrices, batch: 1, compute, alpha, beta }.call()
                    }
                    _ => None,
                };
                seen::look(shim, call, How { via: Via::Blas, workspace_bytes_max: None, library: real.library(|_| None), capture: None })
            };
        )*}
    };
}

gemm! {
    sgemm_(i32, f32, F32);
    dgemm_(i32, f64, F64);
    sgemm_64_(i64, f32, F32);
    dgemm_64_(i64, f64, F64);
    scipy_sgemm_(i32, f32, F32);
    scipy_dgemm_(i32, f64, F64);
    scipy_sgemm_64_(i64, f32, F32);
    scipy_dgemm_64_(i64, f64, F64);
}
