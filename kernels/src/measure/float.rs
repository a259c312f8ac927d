//! Floating-point types whose values the host can make and read.
//!
//! 8-bit types: OCP "8-bit Floating Point Specification" (E4M3, E5M2) and their variants without negative zero and infinity
//! (FNUZ), whose exponent bias is one more, so that equal bits mean half the value.

use std::sync::OnceLock;

use half::{bf16, f16};
use tgemm_db::DType;

use crate::Error;

/// A floating-point type whose values the host can make and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Float {
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// bfloat16.
    Bf16,
    /// An 8-bit type.
    F8(Float8),
}

/// An 8-bit floating-point type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Float8 {
    dtype: DType,
    mantissa_bits: u32,
    bias: i32,
    /// The largest code without its sign that is a number.
    code_max: u8,
    /// The code of what is no number.
    code_nan: u8,
}

const E4M3_FN: Float8 = Float8 { dtype: DType::F8E4m3Fn, mantissa_bits: 3, bias: 7, code_max: 0x7E, code_nan: 0x7F };
const E4M3_FNUZ: Float8 =
    Float8 { dtype: DType::F8E4m3Fnuz, mantissa_bits: 3, bias: 8, code_max: 0x7F, code_nan: 0x80 };
const E5M2: Float8 = Float8 { dtype: DType::F8E5m2, mantissa_bits: 2, bias: 15, code_max: 0x7B, code_nan: 0x7F };
const E5M2_FNUZ: Float8 =
    Float8 { dtype: DType::F8E5m2Fnuz, mantissa_bits: 2, bias: 16, code_max: 0x7F, code_nan: 0x80 };

impl Float8 {
    fn has_negative_zero(self) -> bool {
        self.code_nan != 0x80
    }

    /// The value of a code: NaN and infinities where the type has them.
    pub fn decode(self, code: u8) -> f32 {
        self.table()[usize::from(code)]
    }

    /// The values of all codes, computed once.
    fn table(self) -> &'static [f32; 256] {
        static TABLES: [OnceLock<[f32; 256]>; 4] = [const { OnceLock::new() }; 4];
        let place = match self.dtype {
            DType::F8E4m3Fn => 0,
            DType::F8E4m3Fnuz => 1,
            DType::F8E5m2 => 2,
            _ => 3,
        };
        TABLES[place].get_or_init(|| std::array::from_fn(|code| self.value_of(code as u8)))
    }

    fn value_of(self, code: u8) -> f32 {
        if code == self.code_nan && code == 0x80 {
            return f32::NAN;
        }
        let (magnitude, sign) = (code & 0x7F, if code & 0x80 == 0 { 1.0 } else { -1.0 });
        if magnitude > self.code_max {
            // E5M2 has an infinity right above its largest number; everything else up there is no number.
            let is_infinite = self.dtype == DType::F8E5m2 && magnitude == self.code_max + 1;
            return if is_infinite { sign * f32::INFINITY } else { f32::NAN };
        }
        let (exponent, mantissa) = (i32::from(magnitude >> self.mantissa_bits), magnitude & self.mantissa_mask());
        let fraction = f32::from(mantissa) / (1u32 << self.mantissa_bits) as f32;
        match exponent {
            0 => sign * fraction * 2f32.powi(1 - self.bias),
            _ => sign * (1.0 + fraction) * 2f32.powi(exponent - self.bias),
        }
    }

    fn mantissa_mask(self) -> u8 {
        (1 << self.mantissa_bits) - 1
    }

    /// The code of the nearest value, ties to even; beyond the largest number, that.
    pub fn encode(self, value: f64) -> u8 {
        if value.is_nan() {
            return self.code_nan;
        }
        let magnitude = value.abs();
        let table = self.table();
        let mut code = self.code_max;
        if magnitude < f64::from(table[usize::from(self.code_max)]) {
            // Codes without sign grow with their values, so the nearest lies at the end of a binary search.
            let (mut low, mut high) = (0u8, self.code_max);
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                if f64::from(table[usize::from(middle)]) <= magnitude { low = middle } else { high = middle }
            }
            let (below, above) = (f64::from(table[usize::from(low)]), f64::from(table[usize::from(high)]));
            let (down, up) = (magnitude - below, above - magnitude);
            code = if down < up || (down == up && low.is_multiple_of(2)) { low } else { high };
        }
        let is_negative = value.is_sign_negative() && (code != 0 || self.has_negative_zero());
        if is_negative { code | 0x80 } else { code }
    }
}

impl Float {
    /// The type, if the host can make it.
    pub fn of(dtype: DType) -> Result<Float, Error> {
        match dtype {
            DType::F32 => Ok(Float::F32),
            DType::F16 => Ok(Float::F16),
            DType::Bf16 => Ok(Float::Bf16),
            DType::F8E4m3Fn => Ok(Float::F8(E4M3_FN)),
            DType::F8E4m3Fnuz => Ok(Float::F8(E4M3_FNUZ)),
            DType::F8E5m2 => Ok(Float::F8(E5M2)),
            DType::F8E5m2Fnuz => Ok(Float::F8(E5M2_FNUZ)),
            other => Err(Error::unsupported(format!("operands of type {other} cannot be made or checked yet"))),
        }
    }

    /// The type, if outputs of it can be checked.
    pub fn of_output(dtype: DType) -> Result<Float, Error> {
        match Float::of(dtype)? {
            Float::F8(_) => Err(Error::unsupported(format!("outputs of type {dtype} cannot be checked yet"))),
            float => Ok(float),
        }
    }

    /// The type as the house's words have it.
    pub fn dtype(self) -> DType {
        match self {
            Float::F32 => DType::F32,
            Float::F16 => DType::F16,
            Float::Bf16 => DType::Bf16,
            Float::F8(float) => float.dtype,
        }
    }

    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            Float::F32 => 4,
            Float::F16 | Float::Bf16 => 2,
            Float::F8(_) => 1,
        }
    }

    /// Is it one of the 8-bit types?
    pub fn is_8_bit(self) -> bool {
        matches!(self, Float::F8(_))
    }

    /// The nearest value of this type.
    pub fn round(self, value: f64) -> f32 {
        match self {
            Float::F32 => value as f32,
            Float::F16 => f16::from_f64(value).to_f32(),
            Float::Bf16 => bf16::from_f64(value).to_f32(),
            Float::F8(float) => float.decode(float.encode(value)),
        }
    }

    /// Appends the bytes of the nearest value of this type.
    pub fn encode(self, value: f64, into: &mut Vec<u8>) {
        match self {
            Float::F32 => into.extend((value as f32).to_ne_bytes()),
            Float::F16 => into.extend(f16::from_f64(value).to_ne_bytes()),
            Float::Bf16 => into.extend(bf16::from_f64(value).to_ne_bytes()),
            Float::F8(float) => into.push(float.encode(value)),
        }
    }

    /// The value of the element that `bytes` starts with; `bytes` holds at least [`Float::bytes`].
    pub fn decode(self, bytes: &[u8]) -> f32 {
        match self {
            Float::F32 => f32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            Float::F16 => f16::from_ne_bytes([bytes[0], bytes[1]]).to_f32(),
            Float::Bf16 => bf16::from_ne_bytes([bytes[0], bytes[1]]).to_f32(),
            Float::F8(float) => float.decode(bytes[0]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Float8; 4] = [E4M3_FN, E4M3_FNUZ, E5M2, E5M2_FNUZ];

    #[test]
    fn the_tables_of_the_standards() {
        // OCP 8-bit Floating Point Specification, table 1; and the FNUZ variants: bias + 1, NaN only at negative zero.
        let row =
            |float: Float8, codes: [(u8, f32); 4]| codes.map(|(code, value)| assert_eq!(float.decode(code), value));
        row(E4M3_FN, [(0x7E, 448.0), (0x08, 2f32.powi(-6)), (0x07, 0.875 * 2f32.powi(-6)), (0x01, 2f32.powi(-9))]);
        row(E5M2, [(0x7B, 57344.0), (0x04, 2f32.powi(-14)), (0x03, 0.75 * 2f32.powi(-14)), (0x01, 2f32.powi(-16))]);
        row(E4M3_FNUZ, [(0x7F, 240.0), (0x08, 2f32.powi(-7)), (0x38, 0.5), (0x01, 2f32.powi(-10))]);
        row(E5M2_FNUZ, [(0x7F, 57344.0), (0x04, 2f32.powi(-15)), (0x3C, 0.5), (0x01, 2f32.powi(-17))]);
        assert!(E5M2.decode(0x7C) == f32::INFINITY && E5M2.decode(0xFC) == f32::NEG_INFINITY);
        assert!(E4M3_FN.decode(0x7F).is_nan() && E4M3_FN.decode(0xFF).is_nan() && E5M2.decode(0x7D).is_nan());
        assert!(E4M3_FNUZ.decode(0x80).is_nan() && E5M2_FNUZ.decode(0x80).is_nan());
        assert!(E4M3_FN.decode(0x80) == 0.0 && E4M3_FN.decode(0x80).is_sign_negative());
    }

    #[test]
    fn every_code_of_a_number_comes_back() {
        for float in ALL {
            for code in 0..=255u8 {
                let value = float.decode(code);
                if value.is_finite() {
                    assert_eq!(float.encode(value.into()), code, "{:?} {code:#x} is {value}", float.dtype);
                }
            }
            assert!(float.decode(float.encode(f64::NAN)).is_nan());
            assert_eq!(float.encode(1e9), float.code_max, "numbers beyond the largest become it");
            assert_eq!(float.encode(-1e-30), if float.has_negative_zero() { 0x80 } else { 0 });
        }
    }

    proptest! {
        #[test]
        fn encoding_takes_the_nearest(value in -500.0f64..500.0) {
            for float in ALL {
                let nearest = float.decode(float.encode(value));
                let error = (f64::from(nearest) - value).abs();
                for code in 0..=255u8 {
                    let other = float.decode(code);
                    if other.is_finite() {
                        prop_assert!(error <= (f64::from(other) - value).abs(), "{:?} {value} {nearest} {other}", float.dtype);
                    }
                }
            }
        }
    }
}
