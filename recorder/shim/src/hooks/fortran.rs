//! Fortran BLAS: `?gemm_`, every argument by reference, under the names of builds with 64-bit integers as well.
//!
//! Compilers may pass the lengths of the two character arguments behind the last one; they are passed on whatever they are.

use std::ffi::{c_char, c_void};

use tgemm_db::DType;

use super::cblas::{Arguments, COLUMN_MAJOR, NO_TRANS, TRANS};
use super::hook;
use crate::product::Matrix;

/// The operation behind a character, by CBLAS' number; 0 is none.
fn op(letter: u8) -> i32 {
    match letter.to_ascii_uppercase() {
        b'N' => NO_TRANS,
        b'T' | b'C' => TRANS,
        _ => 0,
    }
}

macro_rules! gemm {
    ($($name:ident($int:ty, $real:ty, $dtype:ident);)*) => {
        hook! {$(
            fn $name(
                op_a: *const c_char, op_b: *const c_char, m: *const $int, n: *const $int, k: *const $int, alpha: *const $real,
                a: *const c_void, lda: *const $int, b: *const c_void, ldb: *const $int, beta: *const $real, c: *mut c_void,
                ldc: *const $int, op_a_bytes: usize, op_b_bytes: usize,
            ) -> (), {
                // SAFETY: Fortran passes the address of every argument.
                unsafe {
                    Arguments {
                        layout: COLUMN_MAJOR,
                        ops: [op(*op_a as u8), op(*op_b as u8)],
                        sizes: [i64::from(*m), i64::from(*n), i64::from(*k)],
                        matrices: [
                            Matrix::new(a, DType::$dtype, *lda),
                            Matrix::new(b, DType::$dtype, *ldb),
                            Matrix::new(c, DType::$dtype, *ldc),
                        ],
                        factors: [f64::from(*alpha), f64::from(*beta)],
                    }
                }
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
