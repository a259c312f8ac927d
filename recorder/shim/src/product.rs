//! A matrix product as argument lists spell it, and the problem that it is.

use std::ffi::c_void;

use tgemm_db::blas::{Call, Op};
use tgemm_db::problem::{Activation, Alignment, EXTENT_MAX, Problem, Scalar, ScaleMode};
use tgemm_db::{Compute, DType};

/// One matrix of a product, column-major.
#[derive(Clone, Copy, Debug)]
pub struct Matrix {
    /// Where it lies.
    pub at: *const c_void,
    /// Type of its elements.
    pub dtype: DType,
    /// Elements from one column to the next.
    pub ld: i64,
    /// Elements from one of a batch to the next.
    pub stride: i64,
}

impl Matrix {
    /// A single matrix.
    #[inline]
    pub fn new(at: *const c_void, dtype: DType, ld: impl Into<i64>) -> Matrix {
        Matrix { at, dtype, ld: ld.into(), stride: 0 }
    }
}

/// `C[m,n] = alpha · op(A)[m,k] · op(B)[k,n] + beta · C`, column-major, as an argument list says it.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    /// What is done to A and B.
    pub ops: [Op; 2],
    /// m, n and k.
    pub sizes: [i64; 3],
    /// A, B and C.
    pub matrices: [Matrix; 3],
    /// How many.
    pub batch: i64,
    /// Type of the sums.
    pub compute: Compute,
    /// Class of the factor of the product.
    pub alpha: Scalar,
    /// Class of the factor of C.
    pub beta: Scalar,
}

impl Product {
    /// The call; `None` for what is nothing to compute, or no call at all.
    #[inline]
    pub fn call(&self) -> Option<Call> {
        let extent = |value: i64| u32::try_from(value).ok().filter(|&value| value > 0 && value <= EXTENT_MAX);
        let stride = |matrix: &Matrix| u64::try_from(matrix.stride).ok();
        let [m, n, k] = [extent(self.sizes[0])?, extent(self.sizes[1])?, extent(self.sizes[2])?];
        let [a, b, c] = &self.matrices;
        let call = Call {
            op_a: self.ops[0],
            op_b: self.ops[1],
            m,
            n,
            k,
            lda: extent(a.ld)?,
            ldb: extent(b.ld)?,
            ldc: extent(c.ld)?,
            a: a.dtype,
            b: b.dtype,
            c: c.dtype,
            compute: self.compute,
            alpha: self.alpha,
            beta: self.beta,
            in_place: true,
            batch_count: extent(self.batch)?,
            stride_a: stride(a)?,
            stride_b: stride(b)?,
            stride_c: stride(c)?,
            bias: None,
            activation: Activation::None,
            scale: ScaleMode::None,
            scale_dtype: DType::F32,
            fast_accumulation: false,
            align: Alignment::B16,
        };
        let call = call.at_rest();
        let align = call.alignment([a.at as u64, b.at as u64, c.at as u64]);
        Some(Call { align, ..call })
    }
}

/// The problem of `call`; `None` where it cannot be one.
#[inline]
pub fn problem(call: &Call) -> Option<Problem> {
    let problem = call.to_problem();
    problem.gemm()?.validate().ok()?;
    Some(problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tgemm_db::Site;

    fn product() -> Product {
        let matrix = |ld| Matrix::new(std::ptr::without_provenance(4096), DType::F32, ld);
        Product {
            ops: [Op::T, Op::N],
            sizes: [1024, 4, 512],
            matrices: [matrix(512i32), matrix(512i32), matrix(1024i32)],
            batch: 1,
            compute: Compute::F32,
            alpha: Scalar::One,
            beta: Scalar::Zero,
        }
    }

    #[test]
    fn an_argument_list_is_the_problem_that_it_says() {
        let layer = Site::linear(1024, 512, DType::F32);
        assert_eq!(problem(&product().call().unwrap()), Some(layer.at(4).into()));
        let mut one = product();
        (one.sizes[1], one.matrices[1].ld, one.matrices[2].ld) = (1, 1, 7);
        assert_eq!(problem(&one.call().unwrap()), Some(layer.at(1).into()), "one column has no next one");
        let mut odd = product();
        odd.matrices[1].at = std::ptr::without_provenance(4100);
        let odd = problem(&odd.call().unwrap()).unwrap();
        assert_eq!(odd.gemm().unwrap().site.align, Alignment::B4);
    }

    #[test]
    fn nothing_to_compute_is_no_call() {
        for sizes in [[0, 4, 512], [1024, 0, 512], [1024, 4, 0], [-1, 4, 512], [1 << 31, 4, 512]] {
            assert!(Product { sizes, ..product() }.call().is_none(), "{sizes:?}");
        }
        assert!(Product { batch: 0, ..product() }.call().is_none());
        let mut torn = product();
        torn.matrices[0].ld = 8;
        assert_eq!(problem(&torn.call().unwrap()), None, "rows that overlap");
    }
}
