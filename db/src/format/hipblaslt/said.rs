//! What a bench command, a profile map or a bench table says of one call, by name; and the call that it is.
//!
//! The three are one dialect in hipBLASLt and rocBLAS, in several spellings: `-m`, `M` and `m`; `--transposeA` and
//! `transA`; `--batch` and `batch_count`.

use std::str::FromStr;

use super::draft::{self, Types, plain};
use super::words::{self, Float8, is_elided};
use crate::blas::Call;
use crate::dtype::DType;
use crate::format::limits::{FIELDS_MAX, excerpt};
use crate::format::sheet::Reason;
use crate::problem::{Activation, Problem, Scalar, ScaleMode};

/// Names and what they are said to be; of a name that stands twice the first counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said<'a>(Vec<(&'a str, &'a str)>);

/// One name for all spellings.
fn canonical(name: &str) -> &str {
    match name {
        "M" => "m",
        "N" => "n",
        "K" => "k",
        "f" | "rocblas_function" => "function",
        "r" => "precision",
        "transposeA" => "transA",
        "transposeB" => "transB",
        "batch" => "batch_count",
        "swizzleA" => "swizzle_a",
        "swizzleB" => "swizzle_b",
        "soulution_index" => "solution_index",
        "comput_type" => "compute_type",
        "gcnArchName" => "archName",
        "CUs" => "cuNum",
        other => other,
    }
}

impl<'a> Said<'a> {
    /// Notes that `name` is `value`.
    ///
    /// # Errors
    /// More than [`FIELDS_MAX`] names.
    pub(crate) fn push(&mut self, name: &'a str, value: &'a str) -> Result<(), Reason> {
        if self.0.len() == FIELDS_MAX {
            return Err(format!("more than {FIELDS_MAX} fields"));
        }
        self.0.push((canonical(name), value));
        Ok(())
    }

    /// Notes all pairs.
    ///
    /// # Errors
    /// As for [`Said::push`].
    pub(crate) fn of(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Said<'a>, Reason> {
        let mut said = Said::default();
        pairs.into_iter().try_for_each(|(name, value)| said.push(name, value))?;
        Ok(said)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(have, _)| *have == name).map(|(_, value)| *value)
    }

    /// The value of `name`, which a whole line has.
    pub(crate) fn need(&self, name: &str) -> Result<&'a str, Reason> {
        match self.get(name) {
            Some(value) if is_elided(value) => Err(format!("{name} is elided")),
            Some(value) => Ok(value),
            None => Err(format!("{name} is not said")),
        }
    }

    /// The value of `name` as a number; `None` where it is not said.
    pub(crate) fn whole<T: FromStr>(&self, name: &str) -> Result<Option<T>, Reason> {
        let parse = |text: &str| text.parse().map_err(|_| format!("{name} is '{}', not a whole number", excerpt(text)));
        self.get(name).map(parse).transpose()
    }

    fn size(&self, name: &str) -> Result<u32, Reason> {
        self.need(name)?;
        self.whole(name)?.ok_or_else(|| format!("{name} is not said"))
    }

    /// Is a switch on: given without value, or `true`, or a number other than 0?
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !matches!(value, "0" | "false" | "False"))
    }

    /// The element types by `a_type` to `d_type` and `compute_type`.
    ///
    /// # Errors
    /// One is not said or not known.
    pub(crate) fn types(&self, float8: Float8) -> Result<Types, Reason> {
        let dtype = |name: &str| words::dtype(self.need(name)?, float8).map_err(|why| format!("{name}: {why}"));
        Ok(Types {
            a: dtype("a_type")?,
            b: dtype("b_type")?,
            c: dtype("c_type")?,
            d: dtype("d_type")?,
            compute: words::compute(self.need("compute_type")?)?,
        })
    }

    /// Sizes, transpositions, row lengths, batch and factors: what both libraries say in the same words.
    fn call(&self, types: Types) -> Result<Call, Reason> {
        let ops = [words::op(self.need("transA")?)?, words::op(self.need("transB")?)?];
        let mut call = plain(ops, [self.size("m")?, self.size("n")?, self.size("k")?], types);
        let factor = |name: &str| self.get(name).map_or(Ok(None), |text| words::scalar(text).map(Some));
        call.alpha = factor("alpha")?.unwrap_or(Scalar::One);
        call.beta = factor("beta")?.unwrap_or(Scalar::Zero);
        call.lda = self.whole("lda")?.unwrap_or(call.lda);
        call.ldb = self.whole("ldb")?.unwrap_or(call.ldb);
        let ldc = self.whole("ldc")?;
        // Without a D of its own, the result goes to C.
        call.ldc = self.whole("ldd")?.or(ldc).unwrap_or(call.ldc);
        call.batch_count = self.whole("batch_count")?.unwrap_or(1);
        if call.batch_count != 1 {
            let packed = call.packed_strides();
            let stride_c = self.whole("stride_c")?;
            call.stride_a = self.whole("stride_a")?.unwrap_or(packed[0]);
            call.stride_b = self.whole("stride_b")?.unwrap_or(packed[1]);
            call.stride_c = self.whole("stride_d")?.or(stride_c).unwrap_or(packed[2]);
            if call.beta != Scalar::Zero && stride_c.is_some_and(|stride: u64| stride != call.stride_c) {
                return Err("C is added and lies otherwise than D: no word for that".into());
            }
        }
        if call.beta != Scalar::Zero {
            if types.c != types.d {
                return Err(format!("C of type {} is added to D of type {}: no word for that", types.c, types.d));
            }
            if ldc.is_some_and(|ldc: u32| ldc != call.ldc) {
                return Err("C is added and has another row length than D: no word for that".into());
            }
        }
        Ok(call)
    }

    /// The problem of a rocBLAS call of these types.
    ///
    /// # Errors
    /// Something is not said, not possible, or has no word.
    pub(crate) fn rocblas_problem(&self, types: Types) -> Result<Problem, Reason> {
        draft::problem(self.call(types)?, false)
    }

    /// The problem of a hipBLASLt call.
    ///
    /// # Errors
    /// Something is not said, not possible, or has no word.
    pub(crate) fn hipblaslt_problem(&self, float8: Float8) -> Result<Problem, Reason> {
        for name in ["grouped_gemm", "gradient", "use_e", "amaxD", "scaleC", "scaleD", "scaleAlpha_vector", "swizzle_b"]
        {
            if self.is_on(name) {
                return Err(format!("{name} is on: no word for that"));
            }
        }
        if self.is_on("batch_mode") {
            return Err("a batch of pointers: it has no strides".into());
        }
        let types = self.types(float8)?;
        let mut call = self.call(types)?;
        (call.scale, call.scale_dtype) = self.scale()?;
        call.activation = activation(self.get("activation_type").unwrap_or("none"))?;
        if self.is_on("bias_vector") {
            call.bias = Some(words::dtype(self.need("bias_type")?, float8).map_err(|why| format!("bias_type: {why}"))?);
        }
        draft::problem(call, self.is_on("swizzle_a"))
    }

    /// `scaleA` and `scaleB`: 0 none, 1 one factor, 2 a vector, 3 blocks of 32 (hipblaslt-bench's own numbers).
    fn scale(&self) -> Result<(ScaleMode, DType), Reason> {
        match (self.get("scaleA").unwrap_or("0"), self.get("scaleB").unwrap_or("0")) {
            ("0", "0") => Ok((ScaleMode::None, DType::F32)),
            ("1", "1") => Ok((ScaleMode::Tensor, DType::F32)),
            ("2", "2") => Ok((ScaleMode::TokenChannel, DType::F32)),
            ("3", "3") => Ok((ScaleMode::Mx, DType::Ue8m0)),
            (a, b) => Err(format!("scaleA {} with scaleB {} has no word here", excerpt(a), excerpt(b))),
        }
    }
}

/// hipBLASLt's names of activations.
///
/// # Errors
/// One that has no word here, such as `sigmoid` or `clamp`.
pub(crate) fn activation(text: &str) -> Result<Activation, Reason> {
    Ok(match text {
        "none" => Activation::None,
        "relu" => Activation::Relu,
        "gelu" => Activation::Gelu,
        "silu" | "swish" => Activation::Silu,
        _ => return Err(format!("activation '{}' has no word here", excerpt(text))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{Site, Trans};

    const WHOLE: &[(&str, &str)] = &[
        ("m", "96"),
        ("n", "5"),
        ("k", "40"),
        ("transA", "T"),
        ("transB", "N"),
        ("a_type", "i8_r"),
        ("b_type", "i8_r"),
        ("c_type", "i32_r"),
        ("d_type", "bf16_r"),
        ("compute_type", "i32_r"),
        ("scaleA", "2"),
        ("scaleB", "2"),
    ];

    fn with(changes: &[(&'static str, &'static str)]) -> Result<Problem, Reason> {
        // The first of a name counts, so changes go first.
        Said::of(changes.iter().chain(WHOLE).copied())?.hipblaslt_problem(Float8::Ocp)
    }

    #[test]
    fn an_int8_layer_scaled_by_token_and_channel() {
        let site = Site { scale: ScaleMode::TokenChannel, ..Site::linear(96, 40, DType::I8) }.with_out(DType::Bf16);
        assert_eq!(with(&[]), Ok(site.at(5).into()));
        assert_eq!(
            with(&[("stride_a", "77"), ("batch_count", "1")]),
            Ok(site.at(5).into()),
            "one matrix has no stride"
        );
        assert_eq!(
            with(&[("bias_vector", "true"), ("bias_type", "f16_r")]),
            Ok(site.with_bias(DType::F16).at(5).into())
        );
        let swizzled = Site { preshuffled: true, ..site };
        assert_eq!(with(&[("swizzle_a", "1")]), Ok(swizzled.at(5).into()));
    }

    #[test]
    fn what_has_no_word_or_is_not_said_is_refused_with_its_name() {
        let cases: &[(&[(&str, &str)], &str)] = &[
            (&[("gradient", "true")], "gradient is on: no word for that"),
            (&[("scaleB", "1")], "scaleA 2 with scaleB 1 has no word here"),
            (&[("activation_type", "clamp")], "activation 'clamp' has no word here"),
            (&[("beta", "1")], "C of type i32 is added to D of type bf16: no word for that"),
            (
                &[("beta", "1"), ("d_type", "i32_r"), ("ldc", "99"), ("ldd", "98")],
                "C is added and has another row length than D: no word for that",
            ),
            (&[("k", "4...")], "k is elided"),
            (&[("lda", "39")], "leading dimension of w is 39, shorter than its row of 40"),
            (&[("bias_vector", "1")], "bias_type is not said"),
            (&[("a_type", "i9_r")], "a_type: element type 'i9_r' is not known"),
            (&[("m", "0")], "N is 0; it must be between 1 and 2147483647"),
        ];
        for (changes, why) in cases {
            assert_eq!(with(changes).unwrap_err(), *why);
        }
        let cut = Said::of(WHOLE[..8].iter().copied()).unwrap().hipblaslt_problem(Float8::Ocp);
        assert_eq!(cut.unwrap_err(), "d_type is not said");
    }

    #[test]
    fn a_plain_product_has_w_stored_by_k() {
        let problem = with(&[("transA", "N"), ("batch_count", "3"), ("stride_a", "0")]).unwrap();
        let site = problem.gemm().unwrap().site;
        assert_eq!(site.trans, Trans::W);
        assert_eq!(
            (site.batch.count, site.batch.stride_w, site.batch.stride_x, site.batch.stride_out),
            (3, 0, 200, 480)
        );
    }
}
