//! The column-major BLAS view of a problem: `C[m,n] = alpha · op(A) · op(B) + beta · C`.
//!
//! A row-major `out[M,N]` is a column-major `outᵀ[N,M]`, so a linear layer `x · wᵀ` is the call
//! `C = op(w) · op(x)` with `m = N`, `n = M`, `k = K`, A = w transposed, B = x not. This module holds the only such
//! exchange in the house: kernels encode with [`Call::from_gemm`], recorders decode with [`Call::to_problem`].

use crate::dtype::{Compute, DType};
use crate::problem::{Activation, Alignment, Batch, Gemm, Leading, Problem, Scalar, ScaleMode, Site, Trans};

/// Is an operand used as stored (N) or transposed (T)?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// As stored.
    N,
    /// Transposed.
    T,
}

/// One column-major GEMM call, as BLAS libraries take it. Sizes and leading dimensions in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of the BLAS argument list")]
pub struct Call {
    pub op_a: Op,
    pub op_b: Op,
    pub m: u32,
    pub n: u32,
    pub k: u32,
    pub lda: u32,
    pub ldb: u32,
    pub ldc: u32,
    pub a: DType,
    pub b: DType,
    pub c: DType,
    pub compute: Compute,
    pub alpha: Scalar,
    pub beta: Scalar,
    pub in_place: bool,
    pub batch_count: u32,
    pub stride_a: u64,
    pub stride_b: u64,
    pub stride_c: u64,
    pub bias: Option<DType>,
    pub activation: Activation,
    pub scale: ScaleMode,
    pub scale_dtype: DType,
    pub fast_accumulation: bool,
    pub align: Alignment,
}

impl Call {
    /// The call that computes `gemm`: A is `w`, B is `x`, C is `out`.
    pub fn from_gemm(gemm: &Gemm) -> Call {
        let Gemm { m, site } = gemm;
        Call {
            // Row-major w[N,K] is column-major wᵀ[K,N]: A must be transposed back unless w is stored as [K,N].
            op_a: if site.trans.w() { Op::N } else { Op::T },
            op_b: if site.trans.x() { Op::T } else { Op::N },
            m: site.n,
            n: *m,
            k: site.k,
            lda: site.ldw(),
            ldb: site.ldx(*m),
            ldc: site.ldo(),
            a: site.w,
            b: site.x,
            c: site.out,
            compute: site.compute,
            alpha: site.alpha,
            beta: site.beta,
            in_place: site.in_place,
            batch_count: site.batch.count,
            stride_a: site.batch.stride_w,
            stride_b: site.batch.stride_x,
            stride_c: site.batch.stride_out,
            bias: site.bias,
            activation: site.activation,
            scale: site.scale,
            scale_dtype: site.scale_dtype,
            fast_accumulation: site.fast_accumulation,
            align: site.align,
        }
    }

    /// Rows and columns of A, B and C as they are stored.
    #[inline]
    fn shapes(&self) -> [(u32, u32); 3] {
        let stored = |op: Op, rows: u32, columns: u32| if op == Op::N { (rows, columns) } else { (columns, rows) };
        [stored(self.op_a, self.m, self.k), stored(self.op_b, self.k, self.n), (self.m, self.n)]
    }

    /// Row lengths of A, B and C, column-major. One column has no next column, so that callers pass anything there: what is
    /// too short for it is taken as packed.
    #[inline]
    fn row_lengths(&self) -> [u32; 3] {
        let [a, b, c] = self.shapes();
        let length = |ld: u32, (rows, columns): (u32, u32)| if columns == 1 && ld < rows { rows } else { ld };
        [length(self.lda, a), length(self.ldb, b), length(self.ldc, c)]
    }

    /// Elements from one matrix of a batch to the next where they lie one after another: A, B, C.
    pub fn packed_strides(&self) -> [u64; 3] {
        let (lengths, shapes) = (self.row_lengths(), self.shapes());
        [0, 1, 2].map(|at| u64::from(lengths[at]) * u64::from(shapes[at].1))
    }

    /// The same call with everything that means nothing in it at rest, so that equal calls are equal: the row length of a
    /// single column, the strides of a single product, where C lies if it is not read.
    #[inline]
    pub fn at_rest(mut self) -> Call {
        [self.lda, self.ldb, self.ldc] = self.row_lengths();
        if self.batch_count == 1 {
            (self.stride_a, self.stride_b, self.stride_c) = (0, 0, 0);
        }
        if self.beta == Scalar::Zero {
            self.in_place = true;
        }
        self
    }

    /// What the call's rows and `pointers` (A, B, C, D, as many as are read or written) are all aligned to.
    #[inline]
    pub fn alignment(&self, pointers: impl IntoIterator<Item = u64>) -> Alignment {
        let [(_, a_columns), (_, b_columns), (_, c_columns)] = self.shapes();
        let steps = |dtype: DType, columns: u32, ld: u32, stride: u64| {
            // One column has no next one.
            let row = if columns > 1 { dtype.bytes(ld.into()) } else { 0 };
            row | dtype.bytes(stride)
        };
        let steps = [
            steps(self.a, a_columns, self.lda, self.stride_a),
            steps(self.b, b_columns, self.ldb, self.stride_b),
            steps(self.c, c_columns, self.ldc, self.stride_c),
        ];
        let pointers = pointers.into_iter().fold(0, |all, address| all | address);
        Alignment::of([pointers, steps[0], steps[1], steps[2]])
    }

    /// The problem that this call computes, as seen by an engine that multiplies row-major matrices.
    #[inline]
    pub fn to_problem(&self) -> Problem {
        let trans = match (self.op_b, self.op_a) {
            (Op::N, Op::T) => Trans::Linear,
            (Op::T, Op::T) => Trans::X,
            (Op::N, Op::N) => Trans::W,
            (Op::T, Op::N) => Trans::Xw,
        };
        let packed = |ld: u32, row: u32| if ld == row { 0 } else { ld };
        let ld = Leading {
            x: packed(self.ldb, if trans.x() { self.n } else { self.k }),
            w: packed(self.lda, if trans.w() { self.m } else { self.k }),
            out: packed(self.ldc, self.m),
        };
        let site = Site {
            n: self.m,
            k: self.k,
            x: self.b,
            w: self.a,
            out: self.c,
            compute: self.compute,
            bias: self.bias,
            scale: self.scale,
            scale_dtype: self.scale_dtype,
            activation: self.activation,
            alpha: self.alpha,
            beta: self.beta,
            in_place: self.in_place,
            fast_accumulation: self.fast_accumulation,
            preshuffled: false,
            trans,
            ld,
            batch: Batch {
                count: self.batch_count,
                stride_x: self.stride_b,
                stride_w: self.stride_a,
                stride_out: self.stride_c,
            },
            align: self.align,
        };
        site.at(self.n).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The textbook column-major product, as the meaning of a [`Call`].
    fn blas(call: &Call, a: &[f64], b: &[f64], c: &mut [f64]) {
        let at = |data: &[f64], ld: u32, op: Op, row: u32, col: u32| match op {
            Op::N => data[(col * ld + row) as usize],
            Op::T => data[(row * ld + col) as usize],
        };
        for i in 0..call.m {
            for j in 0..call.n {
                c[(j * call.ldc + i) as usize] =
                    (0..call.k).map(|l| at(a, call.lda, call.op_a, i, l) * at(b, call.ldb, call.op_b, l, j)).sum();
            }
        }
    }

    #[test]
    fn the_call_computes_the_problem_in_every_storage() {
        for &trans in Trans::ALL {
            let (m, n, k) = (2u32, 3u32, 4u32);
            let ld = Leading { x: 6, w: 7, out: 5 };
            let site = Site { trans, ld, ..Site::linear(n, k, DType::F32) };
            let gemm = site.at(m);
            let x: Vec<f64> = (0..64).map(|i| f64::from(i) * 0.5 - 3.0).collect();
            let w: Vec<f64> = (0..64).map(|i| f64::from(i * i % 17) - 5.0).collect();
            let mut out = vec![0.0; 64];
            blas(&Call::from_gemm(&gemm), &w, &x, &mut out);
            for row in 0..m {
                for col in 0..n {
                    let want: f64 = (0..k)
                        .map(|l| {
                            let xi = if trans.x() { l * ld.x + row } else { row * ld.x + l };
                            let wi = if trans.w() { l * ld.w + col } else { col * ld.w + l };
                            x[xi as usize] * w[wi as usize]
                        })
                        .sum();
                    assert_eq!(out[(row * ld.out + col) as usize], want, "{trans} at {row},{col}");
                }
            }
        }
    }

    #[test]
    fn a_call_decodes_to_the_problem_it_came_from() {
        for &trans in Trans::ALL {
            let batch = Batch { count: 3, stride_x: 10, stride_w: 0, stride_out: 30 };
            let site = Site { trans, batch, ld: Leading { x: 99, w: 0, out: 0 }, ..Site::linear(16, 32, DType::Bf16) };
            let gemm = site.at(8);
            assert_eq!(Call::from_gemm(&gemm).to_problem(), Problem::from(gemm));
        }
    }
}
