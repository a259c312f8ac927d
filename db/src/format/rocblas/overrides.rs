//! The file that Tensile reads through `ROCBLAS_TENSILE_GEMM_OVERRIDE_PATH`, read and written.
//!
//! Its reader goes by position: a line of 15 cells is a single product, one of 18 a strided batch, three strides being
//! put before the types; a header is known by `transA`. It takes no index below 1, so that the negative indices of
//! rocBLAS 5 (ROCm 7) cannot be written. It compares no build: only choices of one known build are written together.

use std::collections::HashSet;
use std::path::Path;

use super::table;
use crate::atomic::{self, WriteError};
use crate::blas::{Call, Op};
use crate::choice::Choice;
use crate::device::Build;
use crate::dtype::DType;
use crate::format::aiter::NotExported;
use crate::format::hipblaslt::words::{spelled_compute, spelled_dtype};
use crate::format::limits::excerpt;
use crate::format::sheet::Reason;
use crate::format::{Format, Read, ReadError};
use crate::problem::{Activation, Problem, Scalar, ScaleMode};

const SINGLE: &str =
    "transA,transB,M,N,batch_count,K,alpha,beta,lda,ldb,ldc,input_type,output_type,compute_type,solution_index";
const BATCHED: &str = "transA,transB,M,N,batch_count,K,alpha,beta,lda,ldb,ldc,stride_a,stride_b,stride_c,\
input_type,output_type,compute_type,solution_index";

/// A row of an override file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Override {
    /// What is to be computed.
    pub problem: Problem,
    /// The solution that the file names for it, in a build that it does not name.
    pub index: i64,
}

/// Reads an override file with its indices.
///
/// # Errors
/// Too many rows. Rows that cannot be taken are in the result.
pub fn overrides(file: &Path, bytes: &[u8]) -> Result<Read<Override>, ReadError> {
    table::take(file, bytes, Format::RocblasOverride, |entry| {
        let said = entry.said()?;
        let index = said.need("solution_index")?;
        Ok(Override {
            problem: table::problem(&said)?,
            index: index.parse().map_err(|_| format!("solution_index is '{}', not a whole number", excerpt(index)))?,
        })
    })
}

/// The override file of those `choices` that are of library `rocblas` and of `build`, and all others with the reason
/// why they are not in it. Without a build that of the first choice which has a known one is taken.
pub fn to_text<'a>(choices: impl IntoIterator<Item = &'a Choice>, build: Option<&Build>) -> (String, Vec<NotExported>) {
    let choices: Vec<&Choice> = choices.into_iter().collect();
    let known = |build: &&Build| build.library == "rocblas" && build.is_known();
    let build = build.or_else(|| choices.iter().map(|choice| &*choice.solution.build).find(known));
    let (mut single, mut batched, mut left_out) = (String::new(), String::new(), Vec::new());
    let mut keys = HashSet::new();
    for choice in choices {
        let row = refuse(choice, build).map_or_else(|| row(choice), Err).and_then(|(key, is_batch)| {
            let why = "the file cannot tell it from an earlier choice";
            if keys.insert(key.clone()) { Ok((key, is_batch)) } else { Err(why.to_owned()) }
        });
        match row {
            Ok((key, is_batch)) => {
                let text = if is_batch { &mut batched } else { &mut single };
                text.push_str(&format!("{key},{}\n", choice.solution.index));
            }
            Err(reason) => left_out.push(NotExported { problem: choice.problem, reason }),
        }
    }
    let batched = if batched.is_empty() { batched } else { format!("{BATCHED}\n{batched}") };
    (format!("{SINGLE}\n{single}{batched}"), left_out)
}

/// Replaces `path` by the override file of `choices`, atomically; returns those that it cannot hold.
///
/// # Errors
/// The file cannot be replaced.
pub fn write<'a>(
    path: &Path,
    choices: impl IntoIterator<Item = &'a Choice>,
    build: Option<&Build>,
) -> Result<Vec<NotExported>, WriteError> {
    let (text, left_out) = to_text(choices, build);
    atomic::write(path, text.as_bytes())?;
    Ok(left_out)
}

/// Why rocBLAS of this build could not use the choice.
fn refuse(choice: &Choice, build: Option<&Build>) -> Option<Reason> {
    let solution = &choice.solution;
    if solution.library() != "rocblas" {
        return Some(format!("rocBLAS cannot run library {}", solution.library()));
    }
    let Some(build) = build.filter(|_| solution.build.is_known()) else {
        return Some("its index is of an unknown build of rocBLAS".into());
    };
    if *solution.build != *build {
        return Some(format!("its index is of {}, the file is for {build}", solution.build));
    }
    if solution.index < 1 {
        return Some(format!("Tensile reads no index below 1, this is {}", solution.index));
    }
    None
}

/// The line without its index, which is what Tensile matches by; and whether it is a batch's.
fn row(choice: &Choice) -> Result<(String, bool), Reason> {
    let gemm = choice.problem.gemm().ok_or("rocBLAS has no such operation")?;
    let call = Call::from_gemm(gemm);
    if call.bias.is_some() || call.activation != Activation::None || call.scale != ScaleMode::None {
        return Err("rocBLAS adds no bias, applies no activation and no scales".into());
    }
    if call.a != call.b || gemm.site.preshuffled {
        return Err("the file has one type for both inputs, and plain weights".into());
    }
    let dtype = |dtype: DType| {
        let name = spelled_dtype(dtype).filter(|_| dtype.bits() > 8 || dtype == DType::I8);
        name.ok_or_else(|| format!("Tensile has no name for {dtype} in this file"))
    };
    let factor = |scalar: Scalar| match scalar {
        Scalar::Zero => Ok(0),
        Scalar::One => Ok(1),
        Scalar::Other => Err("the value of a factor is not known"),
    };
    let letter = |op: Op| if op == Op::N { 'N' } else { 'T' };
    let is_batch = call.batch_count > 1;
    let strides = match is_batch {
        true => format!(",{},{},{}", call.stride_a, call.stride_b, call.stride_c),
        false => String::new(),
    };
    let (a, b) = (letter(call.op_a), letter(call.op_b));
    let sizes = format!("{},{},{},{}", call.m, call.n, call.batch_count, call.k);
    let factors = format!("{},{}", factor(call.alpha)?, factor(call.beta)?);
    let rows = format!("{},{},{}", call.lda, call.ldb, call.ldc);
    let types = format!("{},{},{}", dtype(call.a)?, dtype(call.c)?, spelled_compute(call.compute));
    Ok((format!("{a},{b},{sizes},{factors},{rows}{strides},{types}"), is_batch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::hipblaslt::words::device;
    use crate::problem::{Batch, Site};
    use crate::solution::Solution;

    fn choice(site: Site, index: i64, version: &str) -> Choice {
        let build = Build { library: "rocblas".into(), version: version.into(), revision: String::new() };
        let solution = Solution::bare(build, index, "");
        Choice::uncompared(site.at(3).into(), device("gfx942", 304), solution, 5.0)
    }

    #[test]
    fn what_is_written_reads_back_and_the_rest_is_told() {
        let layer = Site::linear(64, 32, DType::F16);
        let batch = Batch { count: 4, stride_x: 96, stride_w: 2048, stride_out: 192 };
        let choices = [
            choice(layer, 17, "4.2"),
            choice(Site { batch, ..layer }, 18, "4.2"),
            choice(Site::linear(64, 48, DType::F16), 19, "4.3"),
            choice(Site::linear(64, 48, DType::F16), -9, "4.2"),
            choice(layer.with_bias(DType::F16), 20, "4.2"),
            choice(layer, 21, "4.2"),
            choice(layer, 22, ""),
        ];
        let (text, left_out) = to_text(&choices, None);
        let read = overrides(Path::new("o.csv"), text.as_bytes()).unwrap();
        let back: Vec<_> = read.rows.iter().map(|row| (row.value.problem, row.value.index)).collect();
        assert_eq!(back, [(choices[0].problem, 17), (choices[1].problem, 18)]);
        assert_eq!(read.rejected, []);
        let reasons: Vec<&str> = left_out.iter().map(|left| left.reason.as_str()).collect();
        assert_eq!(
            reasons,
            [
                "its index is of rocblas 4.3, the file is for rocblas 4.2",
                "Tensile reads no index below 1, this is -9",
                "rocBLAS adds no bias, applies no activation and no scales",
                "the file cannot tell it from an earlier choice",
                "its index is of an unknown build of rocBLAS",
            ]
        );
        assert!(text.lines().nth(1).unwrap().starts_with("T,N,64,3,1,32,1,0,32,32,64,f16_r,f16_r,f32_r,17"), "{text}");
    }
}
