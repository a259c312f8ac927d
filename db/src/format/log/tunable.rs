//! What PyTorch's TunableOp says with `PYTORCH_TUNABLEOP_VERBOSE`: the operations that it tunes or loads.
//!
//! ```text
//! finding fastest for GemmTunableOp_float_NN(nn_64_3_32) out of 148 candidates
//! GemmTunableOp_float_NN(nn_64_3_32) -> Gemm_Rocblas_17,0.0653
//! GemmTunableOp_float_NN,nn_64_3_32,Gemm_Rocblas_17,0.0653
//! ```
//! Neither says how often an operation runs: counts are 0. Lines about single candidates are passed over.

use super::{Level, Seen, Source};
use crate::format::sheet::Reason;
use crate::format::tunableop::signature;
use crate::recording::Via;

/// The operation of `line`; `None` if it is about a candidate, or about nothing.
pub(super) fn call(line: &str) -> Option<Result<Seen, Reason>> {
    let line = line.trim();
    let (op, params) = match line.strip_prefix("finding fastest for ") {
        Some(rest) => in_brackets(rest)?,
        None if !signature::is_operation(line) => return None,
        None => match line.split_once(" -> ") {
            Some((operation, _)) => in_brackets(operation)?,
            None => {
                let mut cells = line.split(',');
                (cells.next()?, cells.next()?)
            }
        },
    };
    Some(signature::problem(op, params).map(|problem| {
        let seen = Seen::once(problem, Via::Linear, Source::TunableOp, Level::Trace);
        Seen { count: 0, ..seen }
    }))
}

/// `op(params)`.
fn in_brackets(text: &str) -> Option<(&str, &str)> {
    let (op, rest) = text.split_once('(')?;
    Some((op, rest.split_once(')')?.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::problem::Site;

    #[test]
    fn operations_are_told_and_candidates_are_not() {
        let op = "GemmTunableOp_Half_TN(tn_64_3_32_ld_32_32_64)";
        let want = Site::linear(64, 32, DType::F16).at(3).into();
        for line in [
            format!("finding fastest for {op} out of 148 candidates"),
            format!("{op} -> Default,0.04"),
            "GemmTunableOp_Half_TN,tn_64_3_32_ld_32_32_64,Default,0.04".into(),
        ] {
            let seen = call(&line).unwrap().unwrap();
            assert_eq!((seen.problem, seen.count), (want, 0), "{line}");
        }
        assert_eq!(call(&format!("unsupported id=1, {op} Gemm_Rocblas_1")), None);
        assert!(call("finding fastest for GemmTunableOp_Half_TN(tn_64_3) out of 2").unwrap().is_err());
    }
}
