//! rocBLAS' functions: which are GEMMs, and what their names say of types.

use crate::dtype::{Compute, DType};
use crate::format::hipblaslt::draft::Types;
use crate::format::hipblaslt::said::Said;
use crate::format::hipblaslt::words::{self, Float8};
use crate::format::sheet::Reason;
use crate::recording::Via;

/// A GEMM function of rocBLAS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Function<'a> {
    /// The letter of the type, of a function that has one (`s` of `rocblas_sgemm`).
    letter: Option<&'a str>,
    /// One that takes a type for each matrix.
    is_ex: bool,
    /// Matrices of a batch by pointers.
    is_pointers: bool,
}

impl<'a> Function<'a> {
    /// The function called `name`, as the library (`rocblas_dgemm_batched`) or its bench program (`gemm_ex`) calls it;
    /// `None` for everything that is no GEMM.
    pub(crate) fn of(name: &'a str) -> Option<Function<'a>> {
        let name = name.strip_prefix("rocblas_").unwrap_or(name);
        let name = name.strip_suffix("_64").unwrap_or(name);
        let at = name.find("gemm").filter(|&at| at <= 1)?;
        let letter = &name[..at];
        let (is_ex, is_pointers) = match &name[at + "gemm".len()..] {
            "" | "_strided_batched" => (false, false),
            "_batched" => (false, true),
            "_ex" | "_strided_batched_ex" => (true, false),
            "_batched_ex" => (true, true),
            _ => return None,
        };
        matches!(letter, "" | "h" | "s" | "d" | "c" | "z").then_some(Function {
            letter: (!letter.is_empty()).then_some(letter),
            is_ex,
            is_pointers,
        })
    }

    /// By which API the caller asked.
    pub(crate) fn via(&self) -> Via {
        if self.is_ex { Via::RocblasGemmEx } else { Via::Blas }
    }

    /// The element types: the letter's or the precision's throughout, unless a matrix says its own.
    ///
    /// # Errors
    /// A batch of pointers, which has no strides; a type that is not said, not known or complex.
    pub(crate) fn types(&self, said: &Said<'_>, float8: Float8) -> Result<Types, Reason> {
        if self.is_pointers {
            return Err("a batch of pointers: it has no strides".into());
        }
        let name = self.letter.or(said.get("precision"));
        let precision = name.map(|name| words::dtype(name, float8)).transpose()?;
        let dtype = |name: &str, or: Option<DType>| match (said.get(name), or) {
            (Some(text), _) => words::dtype(text, float8).map_err(|why| format!("{name}: {why}")),
            (None, Some(dtype)) if dtype.bits() > 8 || !matches!(name, "c_type" | "d_type") => Ok(dtype),
            (None, _) => Err(format!("{name} is not said")),
        };
        let c = dtype("c_type", precision)?;
        let mut types = Types {
            a: dtype("a_type", precision)?,
            b: dtype("b_type", precision)?,
            c,
            d: dtype("d_type", Some(c))?,
            compute: self.compute(said, precision)?,
        };
        // rocblas-bench's number of the mode that lets a library round f32 inputs to 10 bits.
        if types.compute == Compute::F32 && said.get("math_mode") == Some("1") {
            types.compute = Compute::Tf32;
        }
        Ok(types)
    }

    /// A function without types for each matrix sums in its own type, half included.
    fn compute(&self, said: &Said<'_>, precision: Option<DType>) -> Result<Compute, Reason> {
        match (said.get("compute_type"), precision) {
            (Some(text), _) => words::compute(text),
            (None, Some(DType::F16)) => Ok(Compute::F16),
            (None, Some(dtype)) => Ok(Types::all(dtype).compute),
            (None, None) => Err("compute_type is not said".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gemms_are_told_from_their_neighbours() {
        for name in ["gemm", "gemm_ex", "rocblas_sgemm", "rocblas_gemm_strided_batched_ex", "rocblas_hgemm_64"] {
            assert!(Function::of(name).is_some(), "{name}");
        }
        for name in [
            "gemv",
            "rocblas_dgemmt",
            "rocblas_gemm_ex3",
            "trsm",
            "rocblas_gemm_ex_get_solutions",
            "dgemm2",
            "syrk",
            "xgemm",
        ] {
            assert_eq!(Function::of(name), None, "{name}");
        }
        assert_eq!(Function::of("rocblas_sgemm").unwrap().via(), Via::Blas);
        assert_eq!(Function::of("gemm_ex").unwrap().via(), Via::RocblasGemmEx);
    }

    #[test]
    fn types_come_from_the_letter_the_precision_or_each_matrix() {
        let types = |function: &'static str, pairs: &[(&'static str, &'static str)]| {
            let said = Said::of(pairs.iter().copied()).unwrap();
            Function::of(function).unwrap().types(&said, Float8::Ocp)
        };
        let half = Types { compute: Compute::F16, ..Types::all(DType::F16) };
        assert_eq!(types("hgemm", &[]), Ok(half));
        assert_eq!(types("gemm", &[("r", "h")]), Ok(half));
        assert_eq!(types("gemm_ex", &[("r", "bf16_r"), ("compute_type", "s")]), Ok(Types::all(DType::Bf16)));
        let mixed = [("a_type", "h"), ("b_type", "h"), ("c_type", "s"), ("d_type", "s"), ("compute_type", "s")];
        assert_eq!(types("gemm_ex", &mixed), Ok(Types { a: DType::F16, b: DType::F16, ..Types::all(DType::F32) }));
        assert_eq!(types("gemm_ex", &mixed[..2]).unwrap_err(), "c_type is not said");
        assert_eq!(types("zgemm", &[]).unwrap_err(), "element type z is complex");
        assert_eq!(types("gemm_ex", &[("r", "i8_r")]).unwrap_err(), "c_type is not said");
        assert_eq!(types("gemm_batched", &[("r", "s")]).unwrap_err(), "a batch of pointers: it has no strides");
        assert_eq!(types("gemm", &[("r", "s"), ("math_mode", "1")]).unwrap().compute, Compute::Tf32);
    }
}
