//! A call as a source tells it, and the problem that it is.

use crate::blas::{Call, Op};
use crate::dtype::{Compute, DType};
use crate::format::sheet::Reason;
use crate::problem::{Activation, Alignment, Problem, Scalar, ScaleMode};

/// Element types of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Types {
    pub(crate) a: DType,
    pub(crate) b: DType,
    /// Of the old output, which is read only where beta is not zero.
    pub(crate) c: DType,
    /// Of the new output.
    pub(crate) d: DType,
    pub(crate) compute: Compute,
}

impl Types {
    /// One type throughout, summed in 32 bits (64 for doubles): torch's and BLAS' plain calls.
    pub(crate) fn all(dtype: DType) -> Types {
        let compute = match dtype {
            DType::F64 => Compute::F64,
            DType::I8 | DType::I32 => Compute::I32,
            _ => Compute::F32,
        };
        Types { a: dtype, b: dtype, c: dtype, d: dtype, compute }
    }
}

/// A packed, unbatched call with alpha 1 and beta 0; the caller changes what its source says otherwise. 16-byte
/// alignment is assumed: no source here says any.
pub(crate) fn plain([op_a, op_b]: [Op; 2], [m, n, k]: [u32; 3], types: Types) -> Call {
    Call {
        op_a,
        op_b,
        m,
        n,
        k,
        lda: if op_a == Op::N { m } else { k },
        ldb: if op_b == Op::N { k } else { n },
        ldc: m,
        a: types.a,
        b: types.b,
        c: types.d,
        compute: types.compute,
        alpha: Scalar::One,
        beta: Scalar::Zero,
        in_place: true,
        batch_count: 1,
        stride_a: 0,
        stride_b: 0,
        stride_c: 0,
        bias: None,
        activation: Activation::None,
        scale: ScaleMode::None,
        scale_dtype: DType::F32,
        fast_accumulation: false,
        align: Alignment::B16,
    }
}

/// The problem of a call, with everything that means nothing in it at rest.
///
/// # Errors
/// An impossible size.
pub(crate) fn problem(call: Call, preshuffled: bool) -> Result<Problem, Reason> {
    let call = call.at_rest();
    let problem = match call.to_problem() {
        Problem::Gemm(mut gemm) => {
            gemm.site.preshuffled = preshuffled;
            gemm.validate().map_err(|invalid| invalid.to_string())?;
            Problem::Gemm(gemm)
        }
        other => other,
    };
    // A row length of 0 would mean packed here; no library takes it.
    match [("lda", call.lda), ("ldb", call.ldb), ("ldc", call.ldc)].iter().find(|(_, ld)| *ld == 0) {
        Some((name, _)) => Err(format!("{name} is 0")),
        None => Ok(problem),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Site;

    #[test]
    fn a_linear_layer_is_a_tn_call_with_n_first() {
        let call = plain([Op::T, Op::N], [1024, 4, 3072], Types::all(DType::Bf16));
        let want = Site::linear(1024, 3072, DType::Bf16).at(4);
        assert_eq!(problem(call, false), Ok(want.into()));
        assert_eq!(call.packed_strides(), [1024 * 3072, 4 * 3072, 4 * 1024]);
    }

    #[test]
    fn what_means_nothing_rests() {
        let base = plain([Op::T, Op::N], [128, 1, 8], Types::all(DType::F32));
        let odd = Call { ldc: 1, stride_a: 7, stride_c: 9, in_place: false, ..base };
        assert_eq!(problem(odd, false), problem(base, false));
        assert_eq!(odd.packed_strides()[2], 128, "the row length that it means, not the one it says");
        let wide = Call { ldb: 147_200, ..base };
        assert_eq!(problem(wide, false).unwrap().gemm().unwrap().site.ld.x, 147_200, "said and possible: kept");
        let torn = Call { lda: 7, ..base };
        assert_eq!(problem(torn, false).unwrap_err(), "leading dimension of w is 7, shorter than its row of 8");
    }
}
