//! Element types: their numbers in each of the libraries, and their values.

use half::{bf16, f16};

/// The types that products are computed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    F64,
    F32,
    F16,
    Bf16,
    E4m3,
    E5m2,
    E4m3Fnuz,
    E5m2Fnuz,
}

/// (element, its name in a script, `hipDataType` of `library_types.h`, `rocblas_datatype` of `rocblas-types.h`).
const NUMBERS: [(Element, &str, i32, i32); 8] = [
    (Element::F32, "f32", 0, 151),
    (Element::F64, "f64", 1, 152),
    (Element::F16, "f16", 2, 150),
    (Element::Bf16, "bf16", 14, 168),
    (Element::E4m3, "e4m3", 28, -1),
    (Element::E5m2, "e5m2", 29, -1),
    (Element::E4m3Fnuz, "e4m3fnuz", 1000, -1),
    (Element::E5m2Fnuz, "e5m2fnuz", 1001, -1),
];

impl Element {
    pub fn from_hip(number: i32) -> Option<Element> {
        NUMBERS.iter().find(|row| row.2 == number).map(|row| row.0)
    }

    pub fn from_rocblas(number: i32) -> Option<Element> {
        NUMBERS.iter().find(|row| row.3 == number && number >= 0).map(|row| row.0)
    }

    /// Its `hipDataType`.
    pub fn hip(self) -> i32 {
        NUMBERS.iter().find(|row| row.0 == self).map_or(255, |row| row.2)
    }

    /// Its name in a script.
    pub fn name(self) -> &'static str {
        NUMBERS.iter().find(|row| row.0 == self).map_or("", |row| row.1)
    }

    pub fn bytes(self) -> usize {
        match self {
            Element::F64 => 8,
            Element::F32 => 4,
            Element::F16 | Element::Bf16 => 2,
            _ => 1,
        }
    }

    pub fn is_fp8(self) -> bool {
        self.bytes() == 1
    }

    /// Is it one of the 8-bit types without infinities and with one zero?
    pub fn is_fnuz(self) -> bool {
        matches!(self, Element::E4m3Fnuz | Element::E5m2Fnuz)
    }

    /// The value of the element that begins with `bytes`.
    pub fn decode(self, bytes: &[u8]) -> f64 {
        match self {
            Element::F64 => f64::from_ne_bytes(first(bytes)),
            Element::F32 => f32::from_ne_bytes(first(bytes)).into(),
            Element::F16 => f16::from_ne_bytes(first(bytes)).to_f64(),
            Element::Bf16 => bf16::from_ne_bytes(first(bytes)).to_f64(),
            fp8 => fp8_value(fp8, first::<1>(bytes)[0]),
        }
    }

    /// Writes the nearest value; ties go to even; 8-bit types saturate.
    pub fn encode(self, value: f64, into: &mut [u8]) {
        match self {
            Element::F64 => into.copy_from_slice(&value.to_ne_bytes()),
            Element::F32 => into.copy_from_slice(&(value as f32).to_ne_bytes()),
            // By way of f32, as the devices round: accumulators are f32.
            Element::F16 => into.copy_from_slice(&f16::from_f32(value as f32).to_ne_bytes()),
            Element::Bf16 => into.copy_from_slice(&bf16::from_f32(value as f32).to_ne_bytes()),
            fp8 => into.copy_from_slice(&[fp8_code(fp8, value)]),
        }
    }
}

fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[..N]);
    array
}

/// (mantissa bits, exponent bias).
fn fp8_shape(fp8: Element) -> (u32, i32) {
    match fp8 {
        Element::E4m3 => (3, 7),
        Element::E4m3Fnuz => (3, 8),
        Element::E5m2Fnuz => (2, 16),
        _ => (2, 15),
    }
}

/// OCP 8-bit formats: e4m3 has NaN at S.1111.111 and no infinity, e5m2 is like IEEE. FNUZ: 0x80 is the only NaN.
fn fp8_value(fp8: Element, code: u8) -> f64 {
    let (mantissa_bits, bias) = fp8_shape(fp8);
    let sign = if code & 0x80 == 0 { 1.0 } else { -1.0 };
    let magnitude = code & 0x7f;
    let (exponent, mantissa) = (i32::from(magnitude >> mantissa_bits), magnitude & ((1 << mantissa_bits) - 1));
    match fp8 {
        _ if fp8.is_fnuz() && code == 0x80 => return f64::NAN,
        Element::E4m3 if magnitude == 0x7f => return f64::NAN,
        Element::E5m2 if exponent == 31 => return if mantissa == 0 { sign * f64::INFINITY } else { f64::NAN },
        _ => {}
    }
    let fraction = f64::from(mantissa) / f64::from(1 << mantissa_bits);
    let (whole, exponent) = if exponent == 0 { (0.0, 1) } else { (1.0, exponent) };
    sign * (whole + fraction) * f64::from(exponent - bias).exp2()
}

fn fp8_code(fp8: Element, value: f64) -> u8 {
    // The largest finite code; codes up to it are in the order of their values.
    let largest = match fp8 {
        Element::E4m3 => 0x7e,
        Element::E5m2 => 0x7b,
        _ => 0x7f,
    };
    if value.is_nan() {
        return if fp8.is_fnuz() { 0x80 } else { 0x7f };
    }
    let target = value.abs();
    let (mut low, mut high) = (0u8, largest);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fp8_value(fp8, middle) <= target { low = middle } else { high = middle }
    }
    let (below, above) = (target - fp8_value(fp8, low), fp8_value(fp8, high) - target);
    let code = if below < above || (below == above && low % 2 == 0) { low } else { high };
    // FNUZ has no negative zero.
    if value.is_sign_negative() && !(fp8.is_fnuz() && code == 0) { code | 0x80 } else { code }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values_of_the_eight_bit_formats() {
        for (element, code, value) in [
            (Element::E4m3, 0x7e, 448.0),
            (Element::E4m3, 0x38, 1.0),
            (Element::E4m3, 0x01, 1.0 / 512.0),
            (Element::E4m3Fnuz, 0x7f, 240.0),
            (Element::E4m3Fnuz, 0x40, 1.0),
            (Element::E5m2, 0x7b, 57344.0),
            (Element::E5m2, 0x3c, 1.0),
            (Element::E5m2Fnuz, 0x7f, 57344.0),
            (Element::E5m2Fnuz, 0x40, 1.0),
        ] {
            assert_eq!(fp8_value(element, code), value, "{element:?} {code:#x}");
        }
        assert!(fp8_value(Element::E4m3Fnuz, 0x80).is_nan() && fp8_value(Element::E4m3, 0xff).is_nan());
    }

    #[test]
    fn every_code_encodes_to_itself() {
        for element in [Element::E4m3, Element::E5m2, Element::E4m3Fnuz, Element::E5m2Fnuz] {
            for code in 0..=255u8 {
                let value = fp8_value(element, code);
                if value.is_finite() {
                    assert_eq!(fp8_code(element, value), code, "{element:?} {code:#x}");
                }
            }
            assert_eq!(fp8_value(element, fp8_code(element, 1e9)), fp8_value(element, fp8_code(element, 1e6)));
        }
        assert_eq!(fp8_value(Element::E4m3, fp8_code(Element::E4m3, 1.0625)), 1.0, "a tie goes to even");
        assert_eq!(fp8_value(Element::E4m3, fp8_code(Element::E4m3, 1.1875)), 1.25, "a tie goes to even");
    }
}
