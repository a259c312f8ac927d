//! CBLAS: `cblas_?gemm` under the names of OpenBLAS' builds, of MKL, BLIS and the reference, and of SciPy's wheels, whose
//! names carry a prefix and, with 64-bit integers, a suffix.

use std::ffi::c_void;

use tgemm_db::blas::Op;
use tgemm_db::problem::Scalar;
use tgemm_db::{Compute, DType, Via};

use super::{ArgumentList, hook};
use crate::cache::{Key, alignment_bits};
use crate::product::{Matrix, Product};
use crate::real::Real;
use crate::seen::{self, How, InPlace, Seen};
use crate::state::Shim;

/// `CblasRowMajor` and `CblasColMajor` of `enum CBLAS_LAYOUT`.
const ROW_MAJOR: i32 = 101;
pub(super) const COLUMN_MAJOR: i32 = 102;

/// `enum CBLAS_TRANSPOSE`: `CblasNoTrans`, `CblasTrans`, `CblasConjTrans`; OpenBLAS adds `CblasConjNoTrans`.
pub(super) const NO_TRANS: i32 = 111;
pub(super) const TRANS: i32 = 112;

fn op(number: i32) -> Option<Op> {
    match number {
        NO_TRANS | 114 => Some(Op::N),
        TRANS | 113 => Some(Op::T),
        _ => None,
    }
}

/// The types of `?gemm`.
fn compute_of(dtype: DType) -> Compute {
    if dtype == DType::F64 { Compute::F64 } else { Compute::F32 }
}

/// One call's arguments.
pub(super) struct Arguments {
    pub layout: i32,
    pub ops: [i32; 2],
    pub sizes: [i64; 3],
    pub matrices: [Matrix; 3],
    pub factors: [f64; 2],
}

fn product(on: &Arguments) -> Option<Product> {
    let [a, b, c] = on.matrices;
    let [m, n, k] = on.sizes;
    let ops = [op(on.ops[0])?, op(on.ops[1])?];
    // Row by row, Cᵀ = Bᵀ · Aᵀ, and a transposed row-major matrix is a column-major one.
    let (ops, sizes, matrices) = match on.layout {
        COLUMN_MAJOR => (ops, [m, n, k], [a, b, c]),
        ROW_MAJOR => ([ops[1], ops[0]], [n, m, k], [b, a, c]),
        _ => return None,
    };
    let [alpha, beta] = on.factors.map(Scalar::of);
    Some(Product { ops, sizes, matrices, batch: 1, compute: compute_of(c.dtype), alpha, beta })
}

impl ArgumentList for Arguments {
    type Int = i64;

    /// The function tells the type.
    #[inline(always)]
    fn key(&self, function: usize) -> Option<Key<i64>> {
        let [m, n, k] = self.sizes;
        let [a, b, c] = self.matrices;
        let [alpha, beta] = self.factors.map(Scalar::of);
        let [op_a, op_b] = self.ops;
        Some(Key {
            function,
            extents: [m, n, k, a.ld, b.ld, c.ld],
            numbers: [self.layout, op_a, op_b, alpha as i32, beta as i32, alignment_bits([a.at, b.at, c.at]), 0],
            batch: 1,
            strides: [0; 3],
        })
    }

    fn look(&self, shim: &'static Shim, real: &Real, _: &mut InPlace) -> Option<Seen> {
        if self.sizes.contains(&0) {
            return None;
        }
        seen::look_cached(shim, self.key(real.address()?), None, || {
            let how = How { via: Via::Blas, workspace_bytes_max: None, library: real.library(|_| None), capture: None };
            (product(self).and_then(|product| product.call()), how)
        })
    }
}

macro_rules! gemm {
    ($($name:ident($int:ty, $real:ty, $dtype:ident);)*) => {
        hook! {$(
            fn $name(
                layout: i32, op_a: i32, op_b: i32, m: $int, n: $int, k: $int, alpha: $real, a: *const c_void, lda: $int,
                b: *const c_void, ldb: $int, beta: $real, c: *mut c_void, ldc: $int,
            ) -> (), Arguments {
                layout,
                ops: [op_a, op_b],
                sizes: [i64::from(m), i64::from(n), i64::from(k)],
                matrices: [
                    Matrix::new(a, DType::$dtype, lda), Matrix::new(b, DType::$dtype, ldb), Matrix::new(c, DType::$dtype, ldc),
                ],
                factors: [f64::from(alpha), f64::from(beta)],
            };
        )*}
    };
}

gemm! {
    cblas_sgemm(i32, f32, F32);
    cblas_dgemm(i32, f64, F64);
    cblas_sgemm64_(i64, f32, F32);
    cblas_dgemm64_(i64, f64, F64);
    cblas_sgemm_64(i64, f32, F32);
    cblas_dgemm_64(i64, f64, F64);
    scipy_cblas_sgemm(i32, f32, F32);
    scipy_cblas_dgemm(i32, f64, F64);
    scipy_cblas_sgemm64_(i64, f32, F32);
    scipy_cblas_dgemm64_(i64, f64, F64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use tgemm_db::Site;
    use tgemm_db::problem::{Problem, Trans};

    fn problem(layout: i32, ops: [i32; 2], sizes: [i64; 3], lds: [i64; 3]) -> Option<Problem> {
        let matrix = |ld| Matrix::new(std::ptr::without_provenance(64), DType::F32, ld);
        let on = Arguments { layout, ops, sizes, matrices: lds.map(matrix), factors: [1.0, 0.0] };
        product(&on).and_then(|product| product.call()).as_ref().and_then(crate::product::problem)
    }

    #[test]
    fn a_row_major_product_is_what_it_looks_like() {
        let plain = Site { trans: Trans::W, ..Site::linear(96, 64, DType::F32) };
        assert_eq!(problem(ROW_MAJOR, [111, 111], [4, 96, 64], [64, 96, 96]), Some(plain.at(4).into()));
        let linear = Site::linear(96, 64, DType::F32);
        assert_eq!(problem(ROW_MAJOR, [111, 112], [4, 96, 64], [64, 64, 96]), Some(linear.at(4).into()));
        // The same product from a program that thinks in columns: out is transposed, so M and N change places.
        assert_eq!(problem(COLUMN_MAJOR, [112, 111], [96, 4, 64], [64, 64, 96]), Some(linear.at(4).into()));
        assert_eq!(problem(7, [111, 111], [4, 96, 64], [64, 96, 96]), None);
        assert_eq!(problem(ROW_MAJOR, [0, 111], [4, 96, 64], [64, 96, 96]), None);
    }
}
