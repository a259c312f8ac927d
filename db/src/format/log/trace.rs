//! Matmul traces of hipBLASLt and cuBLASLt: one line a call, with all descriptors spelled out.
//!
//! ```text
//! [time][HIPBLASLT][pid][Trace][rocblaslt_matmul] … Adesc=[type=R_32F rows=24 cols=12 ld=24] … alpha=1 beta=0
//! [time][cublasLt][pid][Trace][cublasLtMatmul] … Adesc=[… order=ORDER_ROW] … computeDesc=[… transa=OP_T] …
//! [time][cublasLt][pid][Api][cublasLtMatmulAlgoGetHeuristic] Adesc=[…] … preference=[…] …
//! ```
//! cuBLASLt prints what differs from its defaults only, and never alpha: it is taken as 1. hipBLASLt's traces are
//! silent on scales, so that 8-bit inputs are rejected: its bench lines (mask 32) say them.

use super::{Level, Seen, Source};
use crate::blas::{Call, Op};
use crate::dtype::{Compute, DType};
use crate::format::hipblaslt::draft::{self, Types, plain};
use crate::format::hipblaslt::words::{self, Float8, is_elided};
use crate::format::limits::excerpt;
use crate::format::sheet::Reason;
use crate::problem::{Activation, Scalar, ScaleMode};
use crate::recording::Via;

/// The text between `name=[` and `]`.
fn group<'a>(line: &'a str, name: &str) -> Result<&'a str, Reason> {
    let from = line.match_indices(name).find(|(at, _)| {
        line[at + name.len()..].starts_with("=[") && !line[..*at].ends_with(|c: char| c.is_ascii_alphanumeric())
    });
    let (at, _) = from.ok_or_else(|| format!("{name} is not said"))?;
    let inner = &line[at + name.len() + 2..];
    let (inner, _) = inner.split_once(']').ok_or_else(|| format!("cut: {name} is not closed"))?;
    if is_elided(inner) { Err(format!("{name} is elided")) } else { Ok(inner) }
}

/// The value of `name=` among the words of `text`.
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

/// A matrix as its descriptor says, column-major.
struct Matrix {
    dtype: DType,
    rows: u32,
    columns: u32,
    ld: u32,
    batch: u32,
    stride: u64,
    /// Stored row by row: the same memory is the transposed matrix, column by column.
    is_row_major: bool,
    /// Shuffled for the matrix cores.
    is_swizzled: bool,
}

impl Matrix {
    fn read(line: &str, name: &str, float8: Float8) -> Result<Matrix, Reason> {
        let text = group(line, name)?;
        let number = |field: &str| -> Result<u64, Reason> {
            let text = value(text, field).ok_or_else(|| format!("{name}: {field} is not said"))?;
            text.parse().map_err(|_| format!("{name}: {field} is '{}', not a whole number", excerpt(text)))
        };
        let extent =
            |field: &str| u32::try_from(number(field)?).map_err(|_| format!("{name}: {field} is beyond 32 bits"));
        let either = |names: [&str; 2], or: u64| {
            let have = names.iter().find(|field| value(text, field).is_some());
            have.map_or(Ok(or), |field| number(field))
        };
        let dtype = value(text, "type").ok_or_else(|| format!("{name}: type is not said"))?;
        let order = value(text, "order").unwrap_or("ORDER_COL");
        let is_swizzled = order.starts_with("ORDER_COL16_4R");
        if !matches!(order, "ORDER_COL" | "ORDER_ROW") && !is_swizzled {
            return Err(format!("{name}: order {} has no word here", excerpt(order)));
        }
        let batch = either(["batchCount", "batch_count"], 1)?;
        Ok(Matrix {
            dtype: words::dtype(dtype, float8).map_err(|why| format!("{name}: {why}"))?,
            rows: extent("rows")?,
            columns: extent("cols")?,
            ld: extent("ld")?,
            batch: u32::try_from(batch).map_err(|_| format!("{name}: batch is beyond 32 bits"))?,
            stride: either(["stridedBatchOffset", "strided_batch_offset"], 0)?,
            is_row_major: order == "ORDER_ROW",
            is_swizzled,
        })
    }

    /// Rows and columns after the transposition, and the transposition of the column-major matrix in memory.
    fn seen_through(&self, op: Op) -> (u32, u32, Op) {
        let (rows, columns) = if op == Op::N { (self.rows, self.columns) } else { (self.columns, self.rows) };
        let flipped = if op == Op::N { Op::T } else { Op::N };
        (rows, columns, if self.is_row_major { flipped } else { op })
    }
}

/// The call of `line`, which has `Adesc=[` in it; `None` if it is of another function.
pub(super) fn call(line: &str, float8: Float8) -> Option<Result<Seen, Reason>> {
    let function = line[..line.find("Adesc=[")?].rsplit_once(']')?.0.rsplit_once('[')?.1;
    let source = if function.starts_with("cublasLt") { Source::Cublaslt } else { Source::Hipblaslt };
    let lower = function.to_ascii_lowercase();
    lower.contains("matmul").then(|| {
        let level = if lower.contains("heuristic") { Level::Asked } else { Level::Trace };
        read(line, float8, source, level).map_err(|why| if is_elided(line) { format!("elided: {why}") } else { why })
    })
}

fn read(line: &str, float8: Float8, source: Source, level: Level) -> Result<Seen, Reason> {
    let [a, b, c, d] = [
        Matrix::read(line, "Adesc", float8)?,
        Matrix::read(line, "Bdesc", float8)?,
        Matrix::read(line, "Cdesc", float8)?,
        Matrix::read(line, "Ddesc", float8)?,
    ];
    let desc = group(line, "computeDesc")?;
    let op = |names: [&str; 2]| names.iter().find_map(|name| value(desc, name)).map_or(Ok(Op::N), words::op);
    let (m, k, op_a) = a.seen_through(op(["transA", "transa"])?);
    let (k_of_b, n, op_b) = b.seen_through(op(["transB", "transb"])?);
    if (d.rows, d.columns, k_of_b) != (m, n, k) {
        return Err(format!("sizes do not fit: {m}x{k} times {k_of_b}x{n} into {}x{}", d.rows, d.columns));
    }
    if d.is_row_major || b.is_swizzled || d.is_swizzled {
        return Err("the order of B or D has no word here".into());
    }
    let compute = words::compute(value(desc, "computeType").ok_or("computeType is not said")?)?;
    let types = Types { a: a.dtype, b: b.dtype, c: c.dtype, d: d.dtype, compute };
    let mut call = plain([op_a, op_b], [m, n, k], types);
    (call.lda, call.ldb, call.ldc) = (a.ld, b.ld, d.ld);
    call.batch_count = d.batch;
    (call.stride_a, call.stride_b, call.stride_c) = (a.stride, b.stride, d.stride);
    factors(&mut call, line, types, source)?;
    if call.beta != Scalar::Zero && (c.dtype, c.ld, c.stride) != (d.dtype, d.ld, d.stride) {
        return Err("C is added and is of another type or lies otherwise than D: no word for that".into());
    }
    epilogue(&mut call, desc, float8)?;
    (call.scale, call.scale_dtype) = scale(desc, types, source)?;
    call.fast_accumulation = ["fastAccumulationMode", "fastAccum"].iter().any(|name| value(desc, name) == Some("1"));
    let cap = value(line, "workSpaceSizeInBytes").map(str::to_owned).or_else(|| {
        let preference = group(line, "preference").ok()?;
        value(preference, "maxWorkspaceSizeinBytes").map(str::to_owned)
    });
    let problem = draft::problem(call, a.is_swizzled)?;
    let seen = Seen::once(problem, Via::LtMatmul, source, level);
    Ok(Seen {
        count: u64::from(level != Level::Asked),
        workspace_bytes_max: cap.and_then(|text| text.parse().ok()),
        ..seen
    })
}

/// alpha, beta, and whether C and D are the same memory.
fn factors(call: &mut Call, line: &str, types: Types, source: Source) -> Result<(), Reason> {
    let factor = |name: &str| value(line, name).map(words::scalar).transpose();
    call.alpha = factor("alpha")?.unwrap_or(Scalar::One);
    // hipBLASLt prints a factor of integer sums as an integer, though it is a float: 1 comes out as 0.
    if source == Source::Hipblaslt && types.compute == Compute::I32 && call.alpha == Scalar::Zero {
        call.alpha = Scalar::One;
    }
    call.beta = factor("beta")?.unwrap_or(Scalar::Zero);
    call.in_place = match (value(line, "outOfPlace"), value(line, "C"), value(line, "D")) {
        (Some(out_of_place), _, _) => out_of_place == "0",
        (None, Some(c), Some(d)) => c == d,
        _ => true,
    };
    Ok(())
}

/// `EPILOGUE_DEFAULT`, `…_BIAS`, `…_GELU_BIAS`, `…_SWISH_EXT`: an activation, a bias, or both.
fn epilogue(call: &mut Call, desc: &str, float8: Float8) -> Result<(), Reason> {
    let name = value(desc, "epilogue").unwrap_or("EPILOGUE_DEFAULT");
    let mut has_bias = false;
    for part in name.strip_prefix("EPILOGUE_").unwrap_or(name).split('_') {
        match part {
            "DEFAULT" | "EXT" => {}
            "BIAS" => has_bias = true,
            "RELU" => call.activation = Activation::Relu,
            "GELU" => call.activation = Activation::Gelu,
            "SWISH" => call.activation = Activation::Silu,
            _ => return Err(format!("epilogue '{}' has no word here", excerpt(name))),
        }
    }
    if has_bias {
        call.bias = Some(match ["biasDataType", "biasType"].iter().find_map(|name| value(desc, name)) {
            Some(text) => words::dtype(text, float8)?,
            // Both libraries take D's type where none is set.
            None if call.c.bits() >= 16 && call.c != DType::I32 => call.c,
            None => return Err("the type of the bias is not said".into()),
        });
    }
    Ok(())
}

fn scale(desc: &str, types: Types, source: Source) -> Result<(ScaleMode, DType), Reason> {
    let has = |names: [&str; 2]| names.iter().any(|name| value(desc, name).is_some());
    let (a, b) = (has(["aScalePointer", "scaleAPointer"]), has(["bScalePointer", "scaleBPointer"]));
    if types.d.bits() <= 8 && has(["dScalePointer", "scaleDPointer"]) {
        return Err("the output is scaled: no word for that".into());
    }
    if a != b {
        return Err("only one of A and B is scaled: no word for that".into());
    }
    if !a {
        let is_silent = source == Source::Hipblaslt && types.a.bits() <= 8 && types.d != DType::I32;
        return match is_silent {
            true => Err("the scales of 8-bit inputs are not said: hipBLASLt's bench lines say them (mask 32)".into()),
            false => Ok((ScaleMode::None, DType::F32)),
        };
    }
    match (value(desc, "aScaleMode"), value(desc, "bScaleMode")) {
        (None, None) | (Some("SCALAR_32F"), Some("SCALAR_32F")) => Ok((ScaleMode::Tensor, DType::F32)),
        (Some("OUTER_VEC_32F"), Some("OUTER_VEC_32F")) => Ok((ScaleMode::TokenChannel, DType::F32)),
        (Some("VEC32_UE8M0"), Some("VEC32_UE8M0")) => Ok((ScaleMode::Mx, DType::Ue8m0)),
        // A is the weights, B the activations.
        (Some("BLK128x128_32F"), Some("VEC128_32F")) => Ok((ScaleMode::Block128, DType::F32)),
        (a, b) => {
            let name = |mode: Option<&str>| excerpt(mode.unwrap_or("SCALAR_32F"));
            Err(format!("scale modes {} and {} have no word here", name(a), name(b)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{Site, Trans};

    fn line(function: &str, a: &str, b: &str, d: &str, desc: &str, rest: &str) -> String {
        format!(
            "[x][y][1][Trace][{function}] A=0X1 Adesc=[{a}] B=0X2 Bdesc=[{b}] C=0X3 Cdesc=[{d}] D=0X3 Ddesc=[{d}] computeDesc=[{desc}] {rest}"
        )
    }

    fn site(line: &str) -> Result<(u32, Site), Reason> {
        call(line, Float8::Ocp).unwrap().map(|seen| {
            let gemm = seen.problem.gemm().unwrap();
            (gemm.m, gemm.site)
        })
    }

    const A: &str = "type=R_16F rows=32 cols=64 ld=32";
    const B: &str = "type=R_16F rows=32 cols=3 ld=40";
    const D: &str = "type=R_16F rows=64 cols=3 ld=64";
    const DESC: &str = "computeType=COMPUTE_32F scaleType=R_32F transa=OP_T";

    #[test]
    fn cublaslt_says_what_differs_from_its_defaults() {
        let (m, got) = site(&line("cublasLtHSHMatmul", A, B, D, DESC, "beta=0 outOfPlace=0")).unwrap();
        let mut want = Site::linear(64, 32, DType::F16);
        want.ld.x = 40;
        assert_eq!((m, got), (3, want));
        let plain = site(&line(
            "cublasLtMatmul",
            "type=R_16F rows=64 cols=32 ld=64",
            B,
            D,
            "computeType=COMPUTE_32F",
            "beta=?",
        ))
        .unwrap()
        .1;
        assert_eq!((plain.trans, plain.beta, plain.in_place), (Trans::W, Scalar::Other, true));
    }

    #[test]
    fn row_order_is_a_transposition_in_memory() {
        let row = "type=R_16F rows=64 cols=32 ld=32 order=ORDER_ROW";
        let (_, got) = site(&line("cublasLtMatmul", row, B, D, "computeType=COMPUTE_32F", "beta=0")).unwrap();
        assert_eq!((got.trans, got.ld.w), (Trans::Linear, 0));
    }

    #[test]
    fn epilogues_and_scales() {
        let bias = format!("{DESC} epilogue=EPILOGUE_GELU_BIAS");
        let (_, got) = site(&line("rocblaslt_matmul", A, B, D, &bias, "alpha=1 beta=0")).unwrap();
        assert_eq!((got.bias, got.activation), (Some(DType::F16), Activation::Gelu));
        let aux = format!("{DESC} epilogue=EPILOGUE_GELU_AUX");
        assert!(site(&line("rocblaslt_matmul", A, B, D, &aux, "beta=0")).unwrap_err().contains("no word"));
        let fp8 = |text: &str| text.replace("R_16F", "R_8F_E4M3");
        let scaled = |mode: &str| format!("{DESC} aScalePointer=0x1 bScalePointer=0x2{mode}");
        for (mode, want) in [
            ("", ScaleMode::Tensor),
            (" aScaleMode=VEC32_UE8M0 bScaleMode=VEC32_UE8M0", ScaleMode::Mx),
            (" aScaleMode=BLK128x128_32F bScaleMode=VEC128_32F", ScaleMode::Block128),
        ] {
            assert_eq!(
                site(&line("cublasLtMatmul", &fp8(A), &fp8(B), D, &scaled(mode), "beta=0")).unwrap().1.scale,
                want
            );
        }
        let nvfp4 = scaled(" aScaleMode=VEC16_UE4M3 bScaleMode=VEC16_UE4M3");
        assert!(
            site(&line("cublasLtMatmul", &fp8(A), &fp8(B), D, &nvfp4, "beta=0")).unwrap_err().contains("VEC16_UE4M3")
        );
        assert!(site(&line("rocblaslt_matmul", &fp8(A), &fp8(B), D, DESC, "beta=0")).unwrap_err().contains("mask 32"));
    }

    #[test]
    fn what_does_not_fit_or_is_cut_has_a_reason() {
        let odd = line("cublasLtMatmul", A, "type=R_16F rows=31 cols=3 ld=31", D, DESC, "beta=0");
        assert_eq!(site(&odd).unwrap_err(), "sizes do not fit: 64x32 times 31x3 into 64x3");
        let whole = line("cublasLtMatmul", A, B, D, DESC, "");
        let cut = &whole[..whole.find("Ddesc").unwrap() + 20];
        assert_eq!(site(cut).unwrap_err(), "cut: Ddesc is not closed");
        assert_eq!(call("[x][Api][cublasLtMatrixLayoutCreate] Adesc=[type=R_16F]", Float8::Ocp), None);
    }

    #[test]
    fn a_heuristic_is_a_call_of_unknown_count_with_its_workspace() {
        let text = line(
            "cublasLtMatmulAlgoGetHeuristic",
            A,
            B,
            D,
            DESC,
            "preference=[maxWavesCount=0.0 maxWorkspaceSizeinBytes=4096]",
        );
        let seen = call(&text, Float8::Ocp).unwrap().unwrap();
        assert_eq!((seen.count, seen.workspace_bytes_max, seen.level), (0, Some(4096), Level::Asked));
    }
}
