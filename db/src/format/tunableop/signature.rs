//! TunableOp's key of a call: an operation with its types, and parameters.
//!
//! ```text
//! GemmTunableOp_BFloat16_TN,tn_1024_4_3072_ld_3072_3072_1024
//! GemmStridedBatchedTunableOp_float_NN,nn_8_3_5_B_6_ld_8_5_8
//! ScaledGemmTunableOp_Float8_e4m3fn_Float8_e4m3fn_BFloat16_TN,tn_64_12_48_ld_48_48_64_rw_1_bias_None
//! ```
//! Sizes are those of the column-major call. Before about PyTorch 2.9 there was no `_ld_` part: rows are packed. The
//! key says nothing of alpha, beta, activation, strides of a batch and alignment: a problem is made with alpha 1, beta
//! 0, no activation, matrices one after another, and 16 bytes.

use std::str::Split;

use crate::blas::{Call, Op};
use crate::dtype::{Compute, DType};
use crate::format::hipblaslt::draft::{self, Types, plain};
use crate::format::limits::excerpt;
use crate::format::sheet::Reason;
use crate::problem::{Alignment, Batch, Problem, ScaleMode};

/// What an operation computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Gemm,
    AndBias,
    StridedBatched,
    Scaled,
}

const KINDS: [(&str, Kind); 4] = [
    ("GemmTunableOp_", Kind::Gemm),
    ("GemmAndBiasTunableOp_", Kind::AndBias),
    ("GemmStridedBatchedTunableOp_", Kind::StridedBatched),
    ("ScaledGemmTunableOp_", Kind::Scaled),
];

/// Its names of types. A name may be the beginning of another, and holds the separator: the longest that fits counts.
const TYPES: [(&str, DType, Compute); 10] = [
    ("float", DType::F32, Compute::F32),
    ("tf32", DType::F32, Compute::Tf32),
    ("double", DType::F64, Compute::F64),
    ("BFloat16", DType::Bf16, Compute::F32),
    ("Half", DType::F16, Compute::F32),
    ("Float8_e4m3fn", DType::F8E4m3Fn, Compute::F32),
    ("Float8_e5m2", DType::F8E5m2, Compute::F32),
    ("Float8_e4m3fnuz", DType::F8E4m3Fnuz, Compute::F32),
    ("Float8_e5m2fnuz", DType::F8E5m2Fnuz, Compute::F32),
    ("Float8_e8m0fnu", DType::Ue8m0, Compute::F32),
];

/// Does `text` start with an operation?
pub(crate) fn is_operation(text: &str) -> bool {
    KINDS.iter().any(|(name, _)| text.starts_with(name))
}

/// One type from the front of `text`, and what follows its separator.
fn take_type(text: &str) -> Result<(DType, Compute, &str), Reason> {
    let fits = TYPES.iter().filter_map(|&(name, dtype, compute)| {
        let rest = text.strip_prefix(name)?.strip_prefix('_')?;
        Some((dtype, compute, rest))
    });
    let longest = fits.min_by_key(|(_, _, rest)| rest.len());
    longest.ok_or_else(|| match text.starts_with("c10::complex") {
        true => "complex types have no word here".into(),
        false => format!("'{}' starts with no element type", excerpt(text)),
    })
}

fn ops(text: &str) -> Option<[Op; 2]> {
    let op = |c: char| match c {
        'N' => Some(Op::N),
        'T' => Some(Op::T),
        _ => None,
    };
    let mut letters = text.chars();
    let both = [op(letters.next()?)?, op(letters.next()?)?];
    letters.next().is_none().then_some(both)
}

/// An operation, taken apart.
fn operation(op: &str) -> Result<(Kind, Types, [Op; 2]), Reason> {
    let (kind, mut rest) = KINDS
        .iter()
        .find_map(|&(name, kind)| Some((kind, op.strip_prefix(name)?)))
        .ok_or_else(|| format!("'{}' is no TunableOp operation", excerpt(op)))?;
    let (a, compute, after) = take_type(rest)?;
    rest = after;
    let mut types = Types { compute, ..Types::all(a) };
    if kind == Kind::Scaled {
        (types.b, _, rest) = take_type(rest)?;
        (types.d, _, rest) = take_type(rest)?;
        types.c = types.d;
    }
    let ops = ops(rest).ok_or_else(|| format!("'{}' does not end in NN, NT, TN or TT", excerpt(op)))?;
    Ok((kind, types, ops))
}

fn number<T: std::str::FromStr>(words: &mut Split<'_, char>, name: &str) -> Result<T, Reason> {
    match words.next() {
        Some("*") => Err("a wildcard names no single problem".into()),
        Some(text) => text.parse().map_err(|_| format!("{name} is '{}', not a whole number", excerpt(text))),
        None => Err(format!("{name} is not said")),
    }
}

/// The problem that `op` with `params` is.
///
/// # Errors
/// What is not a key, an impossible size, a wildcard, complex types.
pub(crate) fn problem(op: &str, params: &str) -> Result<Problem, Reason> {
    let (kind, types, ops) = operation(op)?;
    let (params, bias) = params.split_once("_bias_").map_or((params, None), |(front, bias)| (front, Some(bias)));
    let mut words = params.split('_');
    let letters = words.next().unwrap_or_default();
    if self::ops(&letters.to_ascii_uppercase()) != Some(ops) {
        return Err(format!("parameters say '{}' where the operation says otherwise", excerpt(letters)));
    }
    let sizes = [number(&mut words, "m")?, number(&mut words, "n")?, number(&mut words, "k")?];
    let mut call = plain(ops, sizes, types);
    let mut row_wise = None;
    let mut batch = None;
    while let Some(word) = words.next() {
        match word {
            "B" if kind == Kind::StridedBatched => batch = Some(number(&mut words, "B")?),
            "ld" => {
                call.lda = number(&mut words, "lda")?;
                call.ldb = number(&mut words, "ldb")?;
                call.ldc = number(&mut words, "ldc")?;
            }
            "rw" if kind == Kind::Scaled => row_wise = Some(number::<u8>(&mut words, "rw")?),
            other => return Err(format!("'{}' is no part of these parameters", excerpt(other))),
        }
    }
    match kind {
        Kind::Gemm => {}
        Kind::AndBias => call.bias = Some(types.a),
        Kind::StridedBatched => {
            call.batch_count = batch.ok_or("the batch is not said")?;
            [call.stride_a, call.stride_b, call.stride_c] = call.packed_strides();
        }
        Kind::Scaled => {
            call.scale = match row_wise.ok_or("rw is not said")? {
                0 => ScaleMode::Tensor,
                1 => ScaleMode::TokenChannel,
                other => return Err(format!("rw is {other}: 0 or 1 is expected")),
            };
            call.bias = match bias.ok_or("bias is not said")? {
                "None" => None,
                name => Some(take_type(&format!("{name}_"))?.0),
            };
        }
    }
    if bias.is_some() && kind != Kind::Scaled {
        return Err("a bias type is no part of these parameters".into());
    }
    draft::problem(call, false)
}

/// TunableOp's key of `problem`: operation and parameters, of the newest generation.
///
/// # Errors
/// What TunableOp has no operation for, or whose key would mean another problem.
pub(super) fn of(problem: &Problem) -> Result<(String, String), Reason> {
    let gemm = problem.gemm().ok_or("TunableOp has no such operation")?;
    let call = Call::from_gemm(gemm);
    let kind = match (call.scale, call.batch_count, call.bias) {
        (ScaleMode::None, 1, None) => Kind::Gemm,
        (ScaleMode::None, 1, Some(_)) => Kind::AndBias,
        (ScaleMode::None, _, None) => Kind::StridedBatched,
        (ScaleMode::Tensor | ScaleMode::TokenChannel, 1, _) => Kind::Scaled,
        _ => return Err("TunableOp has no such operation".into()),
    };
    let name = |dtype: DType| {
        let named = TYPES.iter().find(|(name, have, compute)| {
            *have == dtype && (*name != "float" && *name != "tf32" || *compute == call.compute)
        });
        named.map(|row| row.0).ok_or_else(|| format!("TunableOp has no name for {dtype} summed in {}", call.compute))
    };
    let letters = |op: Op| if op == Op::N { "N" } else { "T" };
    let ab = format!("{}{}", letters(call.op_a), letters(call.op_b));
    let types = match kind {
        Kind::Scaled => format!("{}_{}_{}", name(call.a)?, name(call.b)?, name(call.c)?),
        _ => name(call.a)?.to_owned(),
    };
    let prefix = KINDS.iter().find(|(_, have)| *have == kind).map_or("", |(name, _)| name);
    let op = format!("{prefix}{types}_{ab}");
    let mut params = format!("{}_{}_{}_{}", ab.to_ascii_lowercase(), call.m, call.n, call.k);
    if kind == Kind::StridedBatched {
        params += &format!("_B_{}", call.batch_count);
    }
    params += &format!("_ld_{}_{}_{}", call.lda, call.ldb, call.ldc);
    if kind == Kind::Scaled {
        let bias = call.bias.map_or(Ok("None"), name)?;
        params += &format!("_rw_{}_bias_{bias}", u8::from(call.scale == ScaleMode::TokenChannel));
    }
    // Whatever else a problem says, its key does not: then PyTorch would run the solution on another problem.
    if said_by_key(&self::problem(&op, &params)?) != said_by_key(problem) {
        return Err("TunableOp's key cannot say all of this problem".into());
    }
    Ok((op, params))
}

/// `problem` without what a key leaves open and any solution takes: strides of a batch and alignment.
fn said_by_key(problem: &Problem) -> Problem {
    let mut problem = *problem;
    if let Problem::Gemm(gemm) = &mut problem {
        gemm.site.batch = Batch { count: gemm.site.batch.count, ..Batch::default() };
        gemm.site.align = Alignment::B16;
    }
    problem
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{Scalar, Site, Trans};

    #[test]
    fn torchs_linear_layer_shows_as_tn_with_n_first() {
        let layer = Site::linear(1024, 3072, DType::Bf16);
        let want = Ok(layer.at(4).into());
        assert_eq!(problem("GemmTunableOp_BFloat16_TN", "tn_1024_4_3072_ld_3072_3072_1024"), want);
        assert_eq!(problem("GemmTunableOp_BFloat16_TN", "tn_1024_4_3072"), want, "without _ld_ rows are packed");
        let bias = layer.with_bias(DType::Bf16).at(1).into();
        assert_eq!(problem("GemmAndBiasTunableOp_BFloat16_TN", "tn_1024_1_3072_ld_3072_3072_1024"), Ok(bias));
    }

    #[test]
    fn every_kind_and_type_goes_there_and_back() {
        let keys = [
            ("GemmTunableOp_float_NN", "nn_8_3_5_ld_8_5_8"),
            ("GemmTunableOp_tf32_TT", "tt_8_3_5_ld_5_3_9"),
            ("GemmTunableOp_double_NT", "nt_1_57600_9_ld_1_57600_1"),
            ("GemmStridedBatchedTunableOp_Half_TN", "tn_16_16_4_B_12_ld_48_48_16"),
            ("ScaledGemmTunableOp_Float8_e4m3fn_Float8_e5m2_BFloat16_TN", "tn_64_12_48_ld_48_48_64_rw_1_bias_None"),
            ("ScaledGemmTunableOp_Float8_e4m3fnuz_Float8_e4m3fnuz_Half_TN", "tn_64_12_48_ld_48_48_64_rw_0_bias_Half"),
        ];
        for (op, params) in keys {
            let problem = problem(op, params).unwrap();
            assert_eq!(of(&problem), Ok((op.to_owned(), params.to_owned())));
        }
        let batched = problem(keys[3].0, keys[3].1).unwrap();
        let batch = batched.gemm().unwrap().site.batch;
        assert_eq!((batch.count, batch.stride_w, batch.stride_x, batch.stride_out), (12, 768, 768, 256));
    }

    #[test]
    fn what_a_key_cannot_say_is_not_written() {
        let layer = Site::linear(64, 32, DType::F16);
        for site in [
            Site { beta: Scalar::One, ..layer },
            layer.with_bias(DType::F32),
            layer.with_out(DType::F32),
            Site { preshuffled: true, ..layer },
            Site { compute: Compute::F16, ..layer },
            Site::linear(64, 32, DType::I8),
        ] {
            assert!(of(&site.at(2).into()).is_err(), "{}", Problem::from(site.at(2)));
        }
        assert!(of(&Site { trans: Trans::W, align: Alignment::B4, ..layer }.at(2).into()).is_ok());
    }

    #[test]
    fn what_is_no_key_is_told() {
        let cases = [
            ("GemmTunableOp_Float_TN", "tn_1_1_1", "'Float_TN' starts with no element type"),
            ("GemmTunableOp_c10::complex<float>_NN", "nn_1_1_1", "complex types have no word here"),
            ("ScaledGemmTunableOp_Float8_e4m3fnuz_NN", "nn_5_4_7", "'NN' starts with no element type"),
            ("GemmTunableOp_float_TN", "nn_1_1_1", "parameters say 'nn' where the operation says otherwise"),
            ("GemmTunableOp_float_TN", "tn_1_*_1", "a wildcard names no single problem"),
            ("GemmTunableOp_float_TN", "tn_1_1", "k is not said"),
            ("GemmTunableOp_float_TN", "tn_4_4_4_ld_3_4_4", "leading dimension of w is 3, shorter than its row of 4"),
            ("GemmTunableOp_float_TN", "tn_4_4_4_B_2", "'B' is no part of these parameters"),
            ("GemmStridedBatchedTunableOp_float_TN", "tn_4_4_4", "the batch is not said"),
            ("not-a-row", "", "'not-a-row' is no TunableOp operation"),
        ];
        for (op, params, why) in cases {
            assert_eq!(problem(op, params).unwrap_err(), why);
        }
    }
}
