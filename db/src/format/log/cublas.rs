//! cuBLAS' API logger: a line for the call, then a line for each argument.
//!
//! ```text
//! I! cuBLAS (v13.4.1) function cublasStatus_t cublasSgemm_v2(cublasHandle_t, …) called:
//! i!  transa: type=cublasOperation_t; val=CUBLAS_OP_T(1)
//! i!  m: type=int; val=2
//! …
//! i!Process=14102; …; MathMode=CUBLAS_DEFAULT_MATH
//! ```
//! Factors are logged as pointers: alpha is taken as 1 and beta as 0.

use super::{Level, Seen, Source};
use crate::dtype::{Compute, DType};
use crate::format::hipblaslt::draft::Types;
use crate::format::hipblaslt::said::Said;
use crate::format::hipblaslt::words::{self, Float8};
use crate::format::limits::FIELDS_MAX;
use crate::format::sheet::Reason;
use crate::recording::Via;

/// A GEMM function of cuBLAS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    /// One type for all, by a letter.
    Typed(DType),
    /// Types for each matrix, summed in the letter's (`cublasSgemmEx`).
    TypedEx(DType),
    /// Types for each matrix.
    Ex,
    /// A batch of pointers.
    Pointers,
    /// Complex numbers.
    Complex,
}

/// The GEMM among cuBLAS' functions that is called `name`.
fn function(name: &str) -> Option<Function> {
    let name = name.strip_prefix("cublas")?;
    let name = name.strip_suffix("_64").unwrap_or(name);
    let name = name.strip_suffix("_v2").unwrap_or(name);
    match name {
        "GemmEx" | "GemmStridedBatchedEx" => return Some(Function::Ex),
        "GemmBatchedEx" => return Some(Function::Pointers),
        _ => {}
    }
    let (letter, rest) = name.split_at_checked(1)?;
    let typed = |dtype, rest| match rest {
        "gemm" | "gemmStridedBatched" => Some(Function::Typed(dtype)),
        "gemmEx" => Some(Function::TypedEx(dtype)),
        "gemmBatched" => Some(Function::Pointers),
        _ => None,
    };
    match letter {
        "H" => typed(DType::F16, rest),
        "S" => typed(DType::F32, rest),
        "D" => typed(DType::F64, rest),
        "C" | "Z" if rest.starts_with("gemm") => Some(Function::Complex),
        _ => None,
    }
}

/// Their names for what bench programs say otherwise.
fn renamed(name: &str) -> Option<&'static str> {
    Some(match name {
        "transa" => "transA",
        "transb" => "transB",
        "m" => "m",
        "n" => "n",
        "k" => "k",
        "lda" => "lda",
        "ldb" => "ldb",
        "ldc" => "ldc",
        "strideA" => "stride_a",
        "strideB" => "stride_b",
        "strideC" => "stride_c",
        "batchCount" => "batch_count",
        "Atype" | "aType" => "a_type",
        "Btype" | "bType" => "b_type",
        "Ctype" | "cType" => "c_type",
        "computeType" => "compute_type",
        _ => return None,
    })
}

/// A call whose arguments are still to come.
#[derive(Debug)]
struct Open {
    line: u64,
    function: Function,
    arguments: Vec<(&'static str, String)>,
    is_tf32: bool,
}

/// Puts calls together, line by line. Lines of others may stand between those of a call.
#[derive(Debug, Default)]
pub(super) struct Calls {
    open: Option<Open>,
    took_line: bool,
}

type Found = Option<(u64, Result<Seen, Reason>)>;

impl Calls {
    /// Takes line number `line`; gives the call that it ends, with the line where that began.
    pub(super) fn line(&mut self, line: u64, text: &str) -> Found {
        let text = text.trim_start();
        self.took_line = false;
        if let Some(argument) = text.strip_prefix("i!") {
            if let Some(open) = &mut self.open {
                self.took_line = true;
                open.take(argument);
            }
            return None;
        }
        let head = text.strip_prefix("I! cuBLAS")?;
        let ended = self.end();
        self.open = head.split_once("cublasStatus_t ").and_then(|(_, name)| {
            let function = function(&name[..name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?])?;
            Some(Open { line, function, arguments: Vec::new(), is_tf32: false })
        });
        self.took_line = self.open.is_some();
        ended
    }

    /// Was the last line part of a GEMM call?
    pub(super) fn took_line(&self) -> bool {
        self.took_line
    }

    /// The log ends.
    pub(super) fn end(&mut self) -> Found {
        self.open.take().map(|open| (open.line, open.call()))
    }
}

impl Open {
    fn take(&mut self, text: &str) {
        self.is_tf32 |= text.contains("MathMode=CUBLAS_TF32_TENSOR_OP_MATH");
        let told =
            text.split_once(':').and_then(|(name, rest)| Some((renamed(name.trim())?, rest.split_once("val=")?.1)));
        if let Some((name, value)) = told.filter(|_| self.arguments.len() < FIELDS_MAX) {
            self.arguments.push((name, value.trim().to_owned()));
        }
    }

    fn call(&self) -> Result<Seen, Reason> {
        let said = Said::of(self.arguments.iter().map(|(name, value)| (*name, value.as_str())))?;
        let problem = said.rocblas_problem(self.types(&said)?)?;
        let via = if matches!(self.function, Function::Typed(_)) { Via::Blas } else { Via::GemmEx };
        Ok(Seen::once(problem, via, Source::Cublaslt, Level::Trace))
    }

    fn types(&self, said: &Said<'_>) -> Result<Types, Reason> {
        let dtype = |name: &str| words::dtype(said.need(name)?, Float8::Ocp).map_err(|why| format!("{name}: {why}"));
        let mut types = match self.function {
            Function::Pointers => return Err("a batch of pointers: it has no strides".into()),
            Function::Complex => return Err("element type is complex".into()),
            Function::Typed(DType::F16) => Types { compute: Compute::F16, ..Types::all(DType::F16) },
            Function::Typed(all) => Types::all(all),
            Function::TypedEx(all) => {
                let (a, b, c) = (dtype("a_type")?, dtype("b_type")?, dtype("c_type")?);
                Types { a, b, c, d: c, ..Types::all(all) }
            }
            Function::Ex => {
                // Sizes first: a page that left those out left more out.
                ["transA", "transB", "m", "n", "k"].iter().try_for_each(|name| said.need(name).map(|_| ()))?;
                let (a, b, c) = (dtype("a_type")?, dtype("b_type")?, dtype("c_type")?);
                Types { a, b, c, d: c, compute: words::compute(said.need("compute_type")?)? }
            }
        };
        if self.is_tf32 && types.compute == Compute::F32 {
            types.compute = Compute::Tf32;
        }
        Ok(types)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Site;

    fn all(text: &str) -> Vec<(u64, Result<Seen, Reason>)> {
        let mut calls = Calls::default();
        let mut found: Vec<_> = text.lines().zip(1..).filter_map(|(text, line)| calls.line(line, text)).collect();
        found.extend(calls.end());
        found
    }

    fn block(function: &str, arguments: &[(&str, &str)]) -> String {
        let head = format!("I! cuBLAS (v12.0) function cublasStatus_t {function}(cublasHandle_t, int) called:\n");
        arguments.iter().fold(head, |text, (name, value)| format!("{text}i!  {name}: type=x; val={value}\n"))
    }

    const SIZES: &[(&str, &str)] = &[
        ("transa", "CUBLAS_OP_T(1)"),
        ("transb", "CUBLAS_OP_N(0)"),
        ("m", "64"),
        ("n", "3"),
        ("k", "32"),
        ("alpha", "POINTER (IN HEX:0x1)"),
        ("lda", "32"),
        ("ldb", "32"),
        ("ldc", "64"),
    ];

    #[test]
    fn blocks_are_calls_and_the_next_block_ends_them() {
        let text = format!(
            "{}{}{}",
            block("cublasSgemm_v2", SIZES),
            block("cublasCreate_v2", &[]),
            block("cublasHgemm", SIZES)
        );
        let found = all(&text);
        let layer = |dtype| Site::linear(64, 32, dtype);
        let half = Site { compute: Compute::F16, ..layer(DType::F16) };
        let seen = |site: Site| Ok(Seen::once(site.at(3).into(), Via::Blas, Source::Cublaslt, Level::Trace));
        assert_eq!(found, [(1, seen(layer(DType::F32))), (12, seen(half))]);
        let noisy = block("cublasSgemm_v2", SIZES).replace("i!  k", "tensor([1, 2])\ni!  k");
        assert_eq!(all(&noisy), [(1, seen(layer(DType::F32)))], "other output stands between");
        let tf32 = format!("{}i!Process=1; MathMode=CUBLAS_TF32_TENSOR_OP_MATH\n", block("cublasSgemm_v2", SIZES));
        assert_eq!(all(&tf32), [(1, seen(Site { compute: Compute::Tf32, ..layer(DType::F32) }))]);
    }

    #[test]
    fn gemm_ex_names_its_types() {
        let types = [
            ("Atype", "CUDA_R_16BF(14)"),
            ("Btype", "CUDA_R_16BF(14)"),
            ("Ctype", "CUDA_R_32F(0)"),
            ("computeType", "CUBLAS_COMPUTE_32F(68)"),
        ];
        let whole = block("cublasGemmEx", &[SIZES, &types].concat());
        let (_, seen) = all(&whole).remove(0);
        let site = seen.unwrap().problem.gemm().unwrap().site;
        assert_eq!(site, Site::linear(64, 32, DType::Bf16).with_out(DType::F32));
        let (_, cut) = all(&block("cublasGemmEx", &types)).remove(0);
        assert_eq!(cut.unwrap_err(), "transA is not said");
        let (_, elided) =
            all("I! cuBLAS (v11.0) function cublasStatus_t cublasSgemm_v2(a) called\n[...]\ni!  m: type=int; val=4\n")
                .remove(0);
        assert_eq!(elided.unwrap_err(), "transA is not said");
    }

    #[test]
    fn what_is_no_gemm_or_has_no_word() {
        for name in ["cublasSgemv_v2", "cublasCreate_v2", "cublasStrsm_v2", "cublasSgemmtr", "cublasSetMathMode"] {
            assert_eq!(function(name), None, "{name}");
        }
        assert_eq!(function("cublasSgemmBatched"), Some(Function::Pointers));
        assert_eq!(function("cublasCgemm3m"), Some(Function::Complex));
        assert_eq!(function("cublasGemmEx_64"), Some(Function::Ex));
        assert!(all(&block("cublasZgemm_v2", SIZES))[0].1.is_err());
    }
}
