//! The words as numbers. A number once given stays: these are written out, not taken from the order of the words in Rust.

use tgemm_db::device::Vendor;
use tgemm_db::problem::{Activation, Alignment, Scalar, ScaleMode, Trans};
use tgemm_db::{Compute, DType, Numerics, Verdict, Via, WeightForm};

use crate::status::Failure;

/// The type of one matrix element as it lies in memory. "Fn" and "Fnuz" floats are different types.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TgemmDtype {
    /// None, or the default of its field.
    None = 0,
    /// IEEE binary64.
    F64 = 1,
    /// IEEE binary32.
    F32 = 2,
    /// IEEE binary16.
    F16 = 3,
    /// bfloat16: the upper half of binary32.
    Bf16 = 4,
    /// OCP 8-bit float, 4 exponent bits, finite.
    F8E4m3Fn = 5,
    /// 8-bit float, 4 exponent bits, one NaN, no negative zero (gfx942).
    F8E4m3Fnuz = 6,
    /// OCP 8-bit float, 5 exponent bits.
    F8E5m2 = 7,
    /// 8-bit float, 5 exponent bits, one NaN, no negative zero (gfx942).
    F8E5m2Fnuz = 8,
    /// OCP 6-bit float, 2 exponent bits.
    F6E2m3 = 9,
    /// OCP 6-bit float, 3 exponent bits.
    F6E3m2 = 10,
    /// Two OCP 4-bit floats in a byte.
    F4E2m1x2 = 11,
    /// 8-bit power-of-two scale.
    Ue8m0 = 12,
    /// Signed 8-bit integer.
    I8 = 13,
    /// Unsigned 8-bit integer.
    U8 = 14,
    /// Signed 32-bit integer.
    I32 = 15,
    /// Two signed 4-bit integers in a byte.
    I4 = 16,
}

/// The type in which products are summed.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TgemmCompute {
    /// As a linear layer of the type of x does: F64 for it, I32 for integers, else F32.
    Default = 0,
    /// 32-bit float.
    F32 = 1,
    /// 32-bit float over products rounded to 10 mantissa bits.
    Tf32 = 2,
    /// 16-bit float.
    F16 = 3,
    /// 64-bit float.
    F64 = 4,
    /// 32-bit integer.
    I32 = 5,
}

/// How the product is scaled back.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TgemmScale {
    /// Not at all.
    None = 0,
    /// One factor for x and one for w.
    Tensor = 1,
    /// One factor a token and one an out feature.
    TokenChannel = 2,
    /// x in blocks of 1x128, w in blocks of 128x128.
    Block128 = 3,
    /// OCP microscaling: one power of two for 32 elements along K.
    Mx = 4,
}

/// The function applied to the sum last.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TgemmActivation {
    /// Identity.
    None = 0,
    /// max(0, v).
    Relu = 1,
    /// Gaussian error linear unit.
    Gelu = 2,
    /// v * sigmoid(v).
    Silu = 3,
    /// Clamped SiLU of the gate times up + 1.
    Swiglu = 4,
    /// What AITER's fused MoE tables call Situv2.
    Situv2 = 5,
}

/// The class of a scalar factor; its value is no part of a problem.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TgemmScalar {
    /// 1 for alpha, 0 for beta.
    Default = 0,
    /// Exactly 0.
    Zero = 1,
    /// Exactly 1.
    One = 2,
    /// Anything else.
    Other = 3,
}

/// How x and w are stored, as seen from out = x * transpose(w). Everything is row-major.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TgemmTrans {
    /// `x[M,K]` and `w[N,K]`, both with K fastest: a linear layer.
    Linear = 0,
    /// `x[K,M]`, `w[N,K]`.
    X = 1,
    /// `x[M,K]`, `w[K,N]`: a plain matrix product.
    W = 2,
    /// `x[K,M]`, `w[K,N]`.
    Xw = 3,
}

/// What every pointer and every row start is a multiple of, in bytes.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TgemmAlign {
    /// 16 bytes or more.
    B16 = 0,
    /// 8 bytes.
    B8 = 1,
    /// 4 bytes.
    B4 = 2,
    /// Less than 4 bytes.
    B1 = 3,
}

/// Who makes a device.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TgemmVendor {
    /// Not said, which is refused.
    None = 0,
    /// AMD GPU, through HIP.
    Amd = 1,
    /// NVIDIA GPU, through CUDA.
    Nvidia = 2,
    /// The host's processors, whoever made them.
    Cpu = 3,
}

/// By which interface an engine asked for a problem: it decides what tuning compares with.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TgemmVia {
    /// Not said.
    Unknown = 0,
    /// tgemm's dispatch.
    Dispatch = 1,
    /// hipBLASLt or cuBLASLt matmul.
    LtMatmul = 2,
    /// hipblasGemmEx, cublasGemmEx.
    GemmEx = 3,
    /// rocblas_gemm_ex.
    RocblasGemmEx = 4,
    /// CBLAS or Fortran BLAS.
    Blas = 5,
    /// An engine's own linear layer.
    Linear = 6,
}

/// How faithful arithmetic is, best first.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TgemmNumerics {
    /// Sums in the problem's compute type throughout.
    Exact = 0,
    /// Sums in fewer bits than asked for, partial sums in at least 32 bits.
    ReducedAccumulation = 1,
    /// Partial sums leave the accumulator in 16 bits.
    Partial16 = 2,
}

/// In which form a solution takes the weights. Bits, so that several can be allowed.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TgemmWeightForm {
    /// As the problem says: row-major.
    Plain = 1,
    /// Shuffled for the matrix cores by the engine.
    Preshuffled = 2,
    /// Packed once by the solution's own library, before the first call.
    Prepacked = 4,
}

/// How a choice compared with what would have run without it.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TgemmVerdict {
    /// The source does not say.
    Unknown = 0,
    /// Faster beyond doubt.
    Faster = 1,
    /// Nothing was: the baseline is chosen.
    Same = 2,
    /// Times were too noisy to say: the baseline is chosen.
    Ambiguous = 3,
    /// There was no baseline: the fastest is chosen.
    NoBaseline = 4,
}

/// An answer that may be missing.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TgemmKnown {
    /// Nobody knows.
    Unknown = 0,
    /// No.
    No = 1,
    /// Yes.
    Yes = 2,
}

/// Words in the order of their numbers, from `first` on.
pub(crate) struct Words<T: 'static> {
    what: &'static str,
    first: u32,
    words: &'static [T],
}

impl<T: Copy + PartialEq> Words<T> {
    /// The word of a number; `None` for a 0 that is no word.
    #[inline]
    pub(crate) fn word(&self, code: u32) -> Result<Option<T>, Failure> {
        if code < self.first {
            return Ok(None);
        }
        match self.words.get((code - self.first) as usize) {
            Some(word) => Ok(Some(*word)),
            None => {
                let last = self.first as usize + self.words.len() - 1;
                Err(Failure::value(format!("{} {code} is not known: the last is {last}", self.what)))
            }
        }
    }

    /// The number of a word; 0 for one that the header does not have.
    #[inline]
    pub(crate) fn code(&self, word: T) -> u32 {
        self.words.iter().position(|have| *have == word).map_or(0, |at| at as u32 + self.first)
    }
}

pub(crate) const DTYPES: Words<DType> = Words {
    what: "element type",
    first: 1,
    words: &[
        DType::F64,
        DType::F32,
        DType::F16,
        DType::Bf16,
        DType::F8E4m3Fn,
        DType::F8E4m3Fnuz,
        DType::F8E5m2,
        DType::F8E5m2Fnuz,
        DType::F6E2m3,
        DType::F6E3m2,
        DType::F4E2m1x2,
        DType::Ue8m0,
        DType::I8,
        DType::U8,
        DType::I32,
        DType::I4,
    ],
};

pub(crate) const COMPUTES: Words<Compute> = Words {
    what: "compute type",
    first: 1,
    words: &[Compute::F32, Compute::Tf32, Compute::F16, Compute::F64, Compute::I32],
};

pub(crate) const SCALES: Words<ScaleMode> = Words {
    what: "scale mode",
    first: 0,
    words: &[ScaleMode::None, ScaleMode::Tensor, ScaleMode::TokenChannel, ScaleMode::Block128, ScaleMode::Mx],
};

pub(crate) const ACTIVATIONS: Words<Activation> = Words {
    what: "activation",
    first: 0,
    words: &[
        Activation::None,
        Activation::Relu,
        Activation::Gelu,
        Activation::Silu,
        Activation::Swiglu,
        Activation::Situv2,
    ],
};

pub(crate) const SCALARS: Words<Scalar> =
    Words { what: "scalar class", first: 1, words: &[Scalar::Zero, Scalar::One, Scalar::Other] };

pub(crate) const TRANSES: Words<Trans> =
    Words { what: "storage", first: 0, words: &[Trans::Linear, Trans::X, Trans::W, Trans::Xw] };

pub(crate) const ALIGNS: Words<Alignment> =
    Words { what: "alignment", first: 0, words: &[Alignment::B16, Alignment::B8, Alignment::B4, Alignment::B1] };

pub(crate) const VENDORS: Words<Vendor> =
    Words { what: "vendor", first: 1, words: &[Vendor::Amd, Vendor::Nvidia, Vendor::Cpu] };

pub(crate) const VIAS: Words<Via> = Words {
    what: "via",
    first: 0,
    words: &[Via::Unknown, Via::Dispatch, Via::LtMatmul, Via::GemmEx, Via::RocblasGemmEx, Via::Blas, Via::Linear],
};

pub(crate) const NUMERICS: Words<Numerics> = Words {
    what: "numerics class",
    first: 0,
    words: &[Numerics::Exact, Numerics::ReducedAccumulation, Numerics::Partial16],
};

pub(crate) const VERDICTS: Words<Verdict> = Words {
    what: "verdict",
    first: 0,
    words: &[Verdict::Unknown, Verdict::Faster, Verdict::Same, Verdict::Ambiguous, Verdict::NoBaseline],
};

/// Bit by bit.
pub(crate) const WEIGHT_FORMS: [(TgemmWeightForm, WeightForm); 3] = [
    (TgemmWeightForm::Plain, WeightForm::Plain),
    (TgemmWeightForm::Preshuffled, WeightForm::Preshuffled),
    (TgemmWeightForm::Prepacked, WeightForm::Prepacked),
];

/// The bit of a weight form.
pub(crate) fn weight_form(form: WeightForm) -> u32 {
    WEIGHT_FORMS.iter().find(|(_, have)| *have == form).map_or(0, |(bit, _)| *bit as u32)
}

/// The number of an answer that may be missing.
pub(crate) fn known(answer: Option<bool>) -> u32 {
    let known = match answer {
        None => TgemmKnown::Unknown,
        Some(false) => TgemmKnown::No,
        Some(true) => TgemmKnown::Yes,
    };
    known as u32
}

/// A flag in a structure.
pub(crate) fn flag(name: &str, value: u32) -> Result<bool, Failure> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Failure::value(format!("{name} is {value}; it is 0 or 1"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    /// Every word of Rust's has a number, and the constant of that number in C bears its name.
    fn agree<T: Copy + PartialEq + Debug>(words: &Words<T>, all: &[T], constants: &[(u32, String)]) {
        assert_eq!(words.words.len(), all.len(), "{}: a word has no number", words.what);
        for word in all {
            let code = words.code(*word);
            assert_eq!(words.word(code).unwrap(), Some(*word), "{}: {word:?}", words.what);
            let name = &constants.iter().find(|(number, _)| *number == code).unwrap().1;
            assert_eq!(*name, format!("{word:?}"), "{}", words.what);
        }
        assert_eq!(constants.len(), all.len() + words.first as usize, "{}: a constant is no word", words.what);
        assert_eq!(words.word(0).unwrap().is_none(), words.first == 1);
        assert!(words.word(constants.len() as u32).is_err() && words.word(u32::MAX).is_err());
    }

    macro_rules! constants {
        ($type:ident, $($variant:ident)+) => { &[$(($type::$variant as u32, stringify!($variant).to_owned())),+] };
    }

    #[test]
    fn numbers_and_words_are_the_same_on_both_sides() {
        let dtypes: Vec<DType> = DType::all().collect();
        agree(
            &DTYPES,
            &dtypes,
            constants!(TgemmDtype, None F64 F32 F16 Bf16 F8E4m3Fn F8E4m3Fnuz F8E5m2 F8E5m2Fnuz F6E2m3 F6E3m2 F4E2m1x2
                Ue8m0 I8 U8 I32 I4),
        );
        agree(&COMPUTES, Compute::ALL, constants!(TgemmCompute, Default F32 Tf32 F16 F64 I32));
        agree(&SCALES, ScaleMode::ALL, constants!(TgemmScale, None Tensor TokenChannel Block128 Mx));
        agree(&ACTIVATIONS, Activation::ALL, constants!(TgemmActivation, None Relu Gelu Silu Swiglu Situv2));
        agree(&SCALARS, Scalar::ALL, constants!(TgemmScalar, Default Zero One Other));
        agree(&TRANSES, Trans::ALL, constants!(TgemmTrans, Linear X W Xw));
        agree(&ALIGNS, Alignment::ALL, constants!(TgemmAlign, B16 B8 B4 B1));
        agree(&VENDORS, Vendor::ALL, constants!(TgemmVendor, None Amd Nvidia Cpu));
        agree(&VIAS, Via::ALL, constants!(TgemmVia, Unknown Dispatch LtMatmul GemmEx RocblasGemmEx Blas Linear));
        agree(&NUMERICS, Numerics::ALL, constants!(TgemmNumerics, Exact ReducedAccumulation Partial16));
        agree(&VERDICTS, Verdict::ALL, constants!(TgemmVerdict, Unknown Faster Same Ambiguous NoBaseline));
    }

    #[test]
    fn every_weight_form_has_its_bit() {
        let bits: Vec<u32> = WeightForm::ALL.iter().map(|form| weight_form(*form)).collect();
        assert_eq!(bits, [1, 2, 4]);
        assert_eq!([None, Some(false), Some(true)].map(known), [0, 1, 2]);
        assert!(flag("f", 1).unwrap() && !flag("f", 0).unwrap() && flag("f", 2).is_err());
    }
}
