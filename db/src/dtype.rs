//! Element types. `fn` and `fnuz` floats are different types: they differ in bias and in what the top code means.

use std::fmt;
use std::str::FromStr;

/// The type of one matrix element as it lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(try_from = "String", into = "String")
)]
#[non_exhaustive]
pub enum DType {
    /// IEEE binary64.
    F64,
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// bfloat16: the upper half of binary32.
    Bf16,
    /// OCP 8-bit float, 4 exponent bits, finite (gfx950, gfx12, NVIDIA).
    F8E4m3Fn,
    /// 8-bit float, 4 exponent bits, one NaN, no negative zero (gfx942).
    F8E4m3Fnuz,
    /// OCP 8-bit float, 5 exponent bits.
    F8E5m2,
    /// 8-bit float, 5 exponent bits, one NaN, no negative zero (gfx942).
    F8E5m2Fnuz,
    /// OCP 6-bit float, 2 exponent bits.
    F6E2m3,
    /// OCP 6-bit float, 3 exponent bits.
    F6E3m2,
    /// Two OCP 4-bit floats in a byte.
    F4E2m1x2,
    /// 8-bit power-of-two scale.
    Ue8m0,
    /// Signed 8-bit integer.
    I8,
    /// Unsigned 8-bit integer.
    U8,
    /// Signed 32-bit integer.
    I32,
    /// Two signed 4-bit integers in a byte.
    I4,
}

/// One row a type: variant, our name, torch's name (without `torch.`), bits an element.
const NAMES: &[(DType, &str, &str, u32)] = &[
    (DType::F64, "f64", "float64", 64),
    (DType::F32, "f32", "float32", 32),
    (DType::F16, "f16", "float16", 16),
    (DType::Bf16, "bf16", "bfloat16", 16),
    (DType::F8E4m3Fn, "f8e4m3fn", "float8_e4m3fn", 8),
    (DType::F8E4m3Fnuz, "f8e4m3fnuz", "float8_e4m3fnuz", 8),
    (DType::F8E5m2, "f8e5m2", "float8_e5m2", 8),
    (DType::F8E5m2Fnuz, "f8e5m2fnuz", "float8_e5m2fnuz", 8),
    (DType::F6E2m3, "f6e2m3", "float6_e2m3fn", 6),
    (DType::F6E3m2, "f6e3m2", "float6_e3m2fn", 6),
    (DType::F4E2m1x2, "f4e2m1x2", "float4_e2m1fn_x2", 4),
    (DType::Ue8m0, "ue8m0", "float8_e8m0fnu", 8),
    (DType::I8, "i8", "int8", 8),
    (DType::U8, "u8", "uint8", 8),
    (DType::I32, "i32", "int32", 32),
    (DType::I4, "i4", "int4", 4),
];

impl DType {
    /// Every type, in declaration order.
    pub fn all() -> impl Iterator<Item = DType> {
        NAMES.iter().map(|row| row.0)
    }

    #[inline]
    fn row(self) -> &'static (DType, &'static str, &'static str, u32) {
        // NAMES lists every variant, in order; the test `every_type_has_a_row` keeps it so.
        NAMES.get(self as usize).unwrap_or(&NAMES[0])
    }

    /// Our short name, such as `bf16`.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// PyTorch's name with its module, such as `torch.bfloat16`: what AITER's files carry.
    pub fn torch_name(self) -> String {
        format!("torch.{}", self.row().2)
    }

    /// Reads PyTorch's name: `torch.bfloat16`, or AITER's alias `dtypes.bf16`.
    pub fn from_torch(text: &str) -> Option<DType> {
        if let Some(name) = text.strip_prefix("torch.") {
            return match name {
                "half" => Some(DType::F16),
                "float" => Some(DType::F32),
                "double" => Some(DType::F64),
                _ => NAMES.iter().find(|row| row.2 == name).map(|row| row.0),
            };
        }
        match text.strip_prefix("dtypes.")? {
            "fp32" => Some(DType::F32),
            "fp16" => Some(DType::F16),
            "fp4x2" => Some(DType::F4E2m1x2),
            name => NAMES.iter().find(|row| row.1 == name).map(|row| row.0),
        }
    }

    /// Is it one of the 8-bit floating-point types with a sign (not a bare scale)?
    pub fn is_float8(self) -> bool {
        matches!(self, DType::F8E4m3Fn | DType::F8E4m3Fnuz | DType::F8E5m2 | DType::F8E5m2Fnuz)
    }

    /// Bits an element takes in memory; packed types count one element of the pack.
    #[inline]
    pub fn bits(self) -> u32 {
        self.row().3
    }

    /// Bytes that `elements` elements take, rounded up.
    #[inline]
    pub fn bytes(self, elements: u64) -> u64 {
        (elements * u64::from(self.bits())).div_ceil(8)
    }

    /// Unit roundoff: half the distance from 1 to the next larger value; 0 for integers.
    pub fn unit_roundoff(self) -> f64 {
        match self {
            DType::F64 => f64::EPSILON / 2.0,
            DType::F32 => f64::from(f32::EPSILON) / 2.0,
            DType::F16 => 2f64.powi(-11),
            DType::Bf16 => 2f64.powi(-8),
            DType::F8E4m3Fn | DType::F8E4m3Fnuz | DType::F6E2m3 => 2f64.powi(-4),
            DType::F8E5m2 | DType::F8E5m2Fnuz | DType::F6E3m2 => 2f64.powi(-3),
            DType::F4E2m1x2 => 2f64.powi(-2),
            DType::Ue8m0 => 0.5,
            DType::I8 | DType::U8 | DType::I32 | DType::I4 => 0.0,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no element type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} '{text}' (known: {known})")]
pub struct UnknownName {
    /// What kind of name was looked for.
    pub what: &'static str,
    /// The text as given.
    pub text: String,
    /// The names that would have been taken.
    pub known: String,
}

impl FromStr for DType {
    type Err = UnknownName;
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        NAMES.iter().find(|row| row.1 == text).map(|row| row.0).or_else(|| DType::from_torch(text)).ok_or_else(|| {
            let known: Vec<_> = NAMES.iter().map(|row| row.1).collect();
            UnknownName { what: "element type", text: text.into(), known: known.join(", ") }
        })
    }
}

impl TryFrom<String> for DType {
    type Error = UnknownName;
    fn try_from(text: String) -> Result<Self, UnknownName> {
        text.parse()
    }
}

impl From<DType> for String {
    fn from(dtype: DType) -> String {
        dtype.name().into()
    }
}

/// Declares an enum of words with a fixed text each: `Display`, `FromStr`, `ALL` and serde come from one table.
macro_rules! word_enum {
    ($(#[$meta:meta])* $vis:vis enum $name:ident($what:literal) { $($(#[$vmeta:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[non_exhaustive]
        $vis enum $name {
            $($(#[$vmeta])* #[cfg_attr(feature = "serde", serde(rename = $text))] $variant),+
        }

        impl $name {
            /// Every word of this kind, in declaration order.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The word as written in keys, files and on the command line.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::dtype::UnknownName;
            fn from_str(text: &str) -> Result<Self, $crate::dtype::UnknownName> {
                match text {
                    $($text => Ok($name::$variant),)+
                    _ => Err($crate::dtype::UnknownName { what: $what, text: text.into(), known: [$($text),+].join(", ") }),
                }
            }
        }
    };
}
pub(crate) use word_enum;

word_enum! {
    /// The type in which products are summed.
    pub enum Compute("compute type") {
        /// 32-bit float.
        F32 = "f32",
        /// 32-bit float over products rounded to 10 mantissa bits.
        Tf32 = "tf32",
        /// 16-bit float.
        F16 = "f16",
        /// 64-bit float.
        F64 = "f64",
        /// 32-bit integer.
        I32 = "i32",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_a_row_and_its_names_round_trip() {
        for dtype in DType::all() {
            assert_eq!(dtype.row().0, dtype);
            assert_eq!(dtype.name().parse::<DType>().unwrap(), dtype);
            assert_eq!(DType::from_torch(&dtype.torch_name()), Some(dtype));
        }
        assert_eq!(DType::all().count(), 16);
    }

    #[test]
    fn aiter_aliases_are_read() {
        assert_eq!(DType::from_torch("dtypes.bf16"), Some(DType::Bf16));
        assert_eq!(DType::from_torch("torch.half"), Some(DType::F16));
        assert_eq!(DType::from_torch("bfloat16"), None);
    }

    #[test]
    fn packed_types_round_up_to_whole_bytes() {
        assert_eq!(DType::F4E2m1x2.bytes(3), 2);
        assert_eq!(DType::F32.bytes(3), 12);
    }
}
