//! How BLAS libraries spell element types, operations and factors in logs, maps and tables.

use crate::blas::Op;
use crate::device::{Device, Vendor};
use crate::dtype::{Compute, DType};
use crate::format::ReadOptions;
use crate::format::limits::excerpt;
use crate::format::sheet::Reason;
use crate::problem::Scalar;

/// Which 8-bit floats a bare `f8_r` or `R_8F_E4M3` means.
///
/// The spelling is that of the OCP types since ROCm 6.3 and in CUDA; before, it was that of gfx942's own, and gfx942
/// computes no other. So the architecture decides where it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Float8 {
    /// The OCP types.
    Ocp,
    /// gfx940 to gfx942: bias one larger, no negative zero.
    Fnuz,
}

impl Float8 {
    /// As an architecture computes.
    pub(crate) fn of_arch(arch: &str) -> Float8 {
        if arch.starts_with("gfx94") { Float8::Fnuz } else { Float8::Ocp }
    }

    /// As the assumed device computes; OCP if none is.
    pub(crate) fn of(options: &ReadOptions) -> Float8 {
        options.device.as_ref().map_or(Float8::Ocp, |device| Float8::of_arch(&device.arch))
    }

    fn e4m3(self) -> DType {
        if self == Float8::Fnuz { DType::F8E4m3Fnuz } else { DType::F8E4m3Fn }
    }

    fn e5m2(self) -> DType {
        if self == Float8::Fnuz { DType::F8E5m2Fnuz } else { DType::F8E5m2 }
    }
}

/// The name itself, of `CUDA_R_16F(2)`, `HIP_R_16F`, `CUBLAS_COMPUTE_32F(68)` or `c_f32_r`.
fn bare(text: &str) -> &str {
    let text = text.split('(').next().unwrap_or(text).trim();
    ["CUDA_", "HIP_", "CUBLAS_", "HIPBLAS_", "c_"]
        .iter()
        .fold(text, |text, prefix| text.strip_prefix(prefix).unwrap_or(text))
}

/// An element type: `bf16_r`, rocblas-bench's letters, `R_16BF`, `CUDA_R_16BF(14)`.
///
/// # Errors
/// A complex type, or no known name.
pub(crate) fn dtype(text: &str, float8: Float8) -> Result<DType, Reason> {
    Ok(match bare(text) {
        "f64_r" | "d" | "R_64F" => DType::F64,
        "f32_r" | "s" | "R_32F" => DType::F32,
        "f16_r" | "h" | "R_16F" => DType::F16,
        "bf16_r" | "R_16BF" => DType::Bf16,
        "f8_r" | "R_8F_E4M3" => float8.e4m3(),
        "bf8_r" | "R_8F_E5M2" => float8.e5m2(),
        "f8_fnuz_r" | "R_8F_E4M3_FNUZ" => DType::F8E4m3Fnuz,
        "bf8_fnuz_r" | "R_8F_E5M2_FNUZ" => DType::F8E5m2Fnuz,
        "f6_r" | "R_6F_E2M3" => DType::F6E2m3,
        "bf6_r" | "R_6F_E3M2" => DType::F6E3m2,
        "f4_r" | "R_4F_E2M1" => DType::F4E2m1x2,
        "i8_r" | "R_8I" => DType::I8,
        "u8_r" | "R_8U" => DType::U8,
        "i32_r" | "R_32I" => DType::I32,
        "c" | "z" | "f32_c" | "f64_c" | "C_32F" | "C_64F" => {
            return Err(format!("element type {} is complex", excerpt(text)));
        }
        _ => return Err(format!("element type '{}' is not known", excerpt(text))),
    })
}

/// A compute type: `f32_r`, `c_xf32_r`, `COMPUTE_32F_FAST_TF32`, `CUBLAS_COMPUTE_32F(68)`; also the element types that
/// stood in its place in older calls.
///
/// # Errors
/// One that splits or rounds inputs in a way that has no word here, or no known name.
pub(crate) fn compute(text: &str) -> Result<Compute, Reason> {
    Ok(match bare(text) {
        "f32_r" | "s" | "R_32F" | "COMPUTE_32F" | "COMPUTE_32F_PEDANTIC" => Compute::F32,
        "xf32_r" | "COMPUTE_32F_FAST_TF32" => Compute::Tf32,
        "f16_r" | "h" | "R_16F" | "COMPUTE_16F" | "COMPUTE_16F_PEDANTIC" => Compute::F16,
        "f64_r" | "d" | "R_64F" | "COMPUTE_64F" | "COMPUTE_64F_PEDANTIC" => Compute::F64,
        "i32_r" | "R_32I" | "COMPUTE_32I" | "COMPUTE_32I_PEDANTIC" => Compute::I32,
        _ => return Err(format!("compute type '{}' has no word here", excerpt(text))),
    })
}

/// `N`, `T`, `OP_T`, `CUBLAS_OP_N(0)`; a conjugate is a transposition for real types.
///
/// # Errors
/// Anything else.
pub(crate) fn op(text: &str) -> Result<Op, Reason> {
    let name = bare(text);
    match name.strip_prefix("OP_").unwrap_or(name) {
        "N" | "n" => Ok(Op::N),
        "T" | "t" | "C" | "c" => Ok(Op::T),
        _ => Err(format!("'{}' is no transposition: N, T or C is expected", excerpt(text))),
    }
}

/// The class of a factor. `?` is what cuBLASLt prints for one that lies on the device.
///
/// # Errors
/// Not a number.
pub(crate) fn scalar(text: &str) -> Result<Scalar, Reason> {
    if text == "?" {
        return Ok(Scalar::Other);
    }
    let value: f64 = text.parse().map_err(|_| format!("factor '{}' is not a number", excerpt(text)))?;
    Ok(Scalar::of(value))
}

/// Was the text cut or shortened by whoever published it?
pub(crate) fn is_elided(text: &str) -> bool {
    text.contains("...") || text.contains('…')
}

/// A device of which architecture and compute units are known, 0 meaning that the latter are not.
pub(crate) fn device(arch: &str, compute_units: u32) -> Device {
    let vendor = if arch.starts_with("sm_") { Vendor::Nvidia } else { Vendor::Amd };
    Device::named(vendor, arch, compute_units)
}

/// hipBLASLt's version as text: `1.2.1` of 100201 (major·100000 + minor·100 + patch).
pub(crate) fn decoded_version(number: u32) -> String {
    format!("{}.{}.{}", number / 100_000, number / 100 % 1000, number % 100)
}

/// hipblaslt-bench's and rocblas-bench's name of an element type, if they have one.
pub(crate) fn spelled_dtype(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::F64 => "f64_r",
        DType::F32 => "f32_r",
        DType::F16 => "f16_r",
        DType::Bf16 => "bf16_r",
        DType::F8E4m3Fn => "f8_r",
        DType::F8E5m2 => "bf8_r",
        DType::F8E4m3Fnuz => "f8_fnuz_r",
        DType::F8E5m2Fnuz => "bf8_fnuz_r",
        DType::F6E2m3 => "f6_r",
        DType::F6E3m2 => "bf6_r",
        DType::F4E2m1x2 => "f4_r",
        DType::I8 => "i8_r",
        DType::U8 => "u8_r",
        DType::I32 => "i32_r",
        DType::Ue8m0 | DType::I4 => return None,
    })
}

/// Their name of a compute type.
pub(crate) fn spelled_compute(compute: Compute) -> &'static str {
    match compute {
        Compute::F32 => "f32_r",
        Compute::Tf32 => "xf32_r",
        Compute::F16 => "f16_r",
        Compute::F64 => "f64_r",
        Compute::I32 => "i32_r",
    }
}

/// A number as C++ streams print it by default: six significant digits, no trailing zeros, an exponent of two digits
/// where it is below −4 or above 5.
pub(crate) fn cpp_number(value: f64) -> String {
    let scientific = format!("{value:.5e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |digits: &str| match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => digits.to_owned(),
    };
    if (-4..6).contains(&exponent) {
        return trim(&format!("{value:.*}", (5 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim(digits), exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_type_has_many_names() {
        for name in ["bf16_r", "R_16BF", "CUDA_R_16BF(14)", "HIP_R_16BF"] {
            assert_eq!(dtype(name, Float8::Ocp), Ok(DType::Bf16), "{name}");
        }
        assert_eq!(dtype("f8_r", Float8::of_arch("gfx942")), Ok(DType::F8E4m3Fnuz));
        assert_eq!(dtype("f8_r", Float8::of_arch("gfx950")), Ok(DType::F8E4m3Fn));
        assert_eq!(dtype("f8_fnuz_r", Float8::Ocp), Ok(DType::F8E4m3Fnuz));
        assert_eq!(dtype("z", Float8::Ocp).unwrap_err(), "element type z is complex");
        assert!(dtype("bf16", Float8::Ocp).is_err());
    }

    #[test]
    fn compute_types_that_round_inputs_are_refused() {
        for (name, want) in
            [("c_f32_r", Compute::F32), ("CUBLAS_COMPUTE_32F(68)", Compute::F32), ("xf32_r", Compute::Tf32)]
        {
            assert_eq!(compute(name), Ok(want));
        }
        assert!(compute("COMPUTE_32F_FAST_16F").is_err());
        assert!(compute("f32_f16_r").is_err());
    }

    #[test]
    fn operations_and_factors() {
        assert_eq!((op("CUBLAS_OP_T(1)"), op("OP_N"), op("C")), (Ok(Op::T), Ok(Op::N), Ok(Op::T)));
        assert!(op("x").is_err());
        assert_eq!(
            (scalar("1.000000"), scalar("0"), scalar("-1.0")),
            (Ok(Scalar::One), Ok(Scalar::Zero), Ok(Scalar::Other))
        );
        assert_eq!(scalar("?"), Ok(Scalar::Other));
        assert!(scalar("one").is_err());
    }

    #[test]
    fn numbers_look_as_in_cpp() {
        let cases = [
            (0.0190437, "0.0190437"),
            (0.2, "0.2"),
            (77.281, "77.281"),
            (21.33, "21.33"),
            (100.0, "100"),
            (123_456.7, "123457"),
            (999_999.5, "1e+06"),
            (0.000_099_999_96, "0.0001"),
            (0.00001234, "1.234e-05"),
            (1.0 / 3.0, "0.333333"),
        ];
        for (value, want) in cases {
            assert_eq!(cpp_number(value), want);
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        for name in DType::all().filter_map(|dtype| Some((dtype, spelled_dtype(dtype)?))) {
            assert_eq!(dtype(name.1, Float8::Ocp), Ok(name.0));
        }
        for &compute_type in Compute::ALL {
            assert_eq!(compute(spelled_compute(compute_type)), Ok(compute_type));
        }
    }
}
