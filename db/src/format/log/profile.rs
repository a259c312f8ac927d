//! Profile maps: what hipBLASLt writes with bit 64 of its mask and rocBLAS with bit 4 of its layers at exit: one YAML
//! flow map for each distinct call, with its count.
//!
//! ```text
//! - {function: matmul, M: 16, N: 109, K: 64, …, compute_type: c_f32_r, activation_type: none, call_count: 1}
//! - { rocblas_function: "rocblas_gemm_ex", …, transA: 'T', transB: 'N', M: 12, …, flags: none, call_count: 136 }
//! ```
//! Input files of both bench programs have the same form without a count.

use super::{Level, Seen, Source};
use crate::format::hipblaslt::said::Said;
use crate::format::hipblaslt::words::Float8;
use crate::format::rocblas::function::Function;
use crate::format::sheet::Reason;
use crate::recording::Via;

/// The call of `line`; `None` if it is none of a GEMM.
pub(super) fn call(line: &str, float8: Float8) -> Option<Result<Seen, Reason>> {
    let (_, map) = line.split_once('{')?;
    let (map, is_whole) = map.split_once('}').map_or((map, false), |(map, _)| (map, true));
    let pairs = map.split(',').filter_map(|pair| pair.split_once(':')).map(|(name, value)| (name.trim(), plain(value)));
    let said = match Said::of(pairs) {
        Ok(said) => said,
        Err(why) => return Some(Err(why)),
    };
    let function = said.get("function")?;
    let (source, via) = match function {
        "matmul" => (Source::Hipblaslt, Via::LtMatmul),
        _ => (Source::Rocblas, Function::of(function)?.via()),
    };
    if !is_whole {
        return Some(Err("cut: the map is not closed".into()));
    }
    let problem = match Function::of(function) {
        Some(rocblas) => rocblas.types(&said, float8).and_then(|types| said.rocblas_problem(types)),
        None => said.hipblaslt_problem(float8),
    };
    let told = problem.and_then(|problem| {
        let count = said.whole("call_count")?.unwrap_or(0);
        Ok(Seen { count, ..Seen::once(problem, via, source, Level::Profile) })
    });
    Some(told)
}

/// A value without blanks and quotes.
fn plain(value: &str) -> &str {
    value.trim().trim_matches(['"', '\''])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::problem::Site;

    const LT: &str = "- {function: matmul, M: 64, N: 3, K: 32, lda: 32, ldb: 32, ldc: 64, ldd: 64, alpha: 1.0, beta: 0.0, transA: T, \
                      transB: N, batch_count: 1, scaleA: 0, scaleB: 0, gradient: false, use_e: false, bias_vector: true, \
                      a_type: bf16_r, b_type: bf16_r, c_type: bf16_r, d_type: bf16_r, bias_type: f32_r, compute_type: c_f32_r, \
                      activation_type: none, call_count: 12}";

    #[test]
    fn a_map_is_a_call_with_its_count() {
        let site = Site::linear(64, 32, DType::Bf16).with_bias(DType::F32);
        let want =
            Seen { count: 12, ..Seen::once(site.at(3).into(), Via::LtMatmul, Source::Hipblaslt, Level::Profile) };
        assert_eq!(call(LT, Float8::Ocp), Some(Ok(want)));
        assert_eq!(call(&LT.replace(", call_count: 12", ""), Float8::Ocp), Some(Ok(Seen { count: 0, ..want })));
        assert_eq!(call(LT.trim_end_matches('}'), Float8::Ocp), Some(Err("cut: the map is not closed".into())));
    }

    #[test]
    fn rocblas_quotes_and_names_types_by_letter() {
        let line = r#"{ rocblas_function: "rocblas_dgemm", transA: "N", transB: 'T',  M:   8, N: 3, K: 5, lda: 8, ldb: 3, ldc: 8 }"#;
        let seen = call(line, Float8::Ocp).unwrap().unwrap();
        let site = seen.problem.gemm().unwrap().site;
        assert_eq!((site.x, seen.via, seen.count), (DType::F64, Via::Blas, 0));
        let gemv = r#"{ rocblas_function: "rocblas_dgemv", transA: "C", M: 1, N: 1, call_count: 4 }"#;
        assert_eq!(call(gemv, Float8::Ocp), None);
        assert_eq!(call("{\"function\": 3}", Float8::Ocp), None);
    }
}
