//! The file that hipBLASLt reads through `HIPBLASLT_TUNING_OVERRIDE_FILE`, written.
//!
//! There are two readers in its published sources, and one text that both take. The older goes by position: it takes
//! lines of exactly 37 cells, finds the index in the 35th, and passes over a header because its numbers are none. The
//! later goes by the names of a header, which must be the first line. Neither compares the line `Git Version`: an index
//! of another build names another kernel without a word, so that here only choices of one known revision are written
//! together.
//!
//! Both match by transpositions, batch, m, n, k, the types of A, B and C and the compute type, and take no index below
//! 1.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;

use super::words::{cpp_number, spelled_compute, spelled_dtype};
use crate::atomic::{self, WriteError};
use crate::blas::{Call, Op};
use crate::choice::Choice;
use crate::cost;
use crate::dtype::DType;
use crate::format::Format;
use crate::format::aiter::NotExported;
use crate::format::sheet::Reason;
use crate::problem::{Activation, Scalar, ScaleMode};

/// The 37 columns, in the order that hipblaslt-bench writes and the older reader counts.
const COLUMNS: &str = "transA,transB,grouped_gemm,batch_count,m,n,k,alpha,lda,stride_a,beta,ldb,stride_b,ldc,stride_c,ldd,stride_d,\
a_type,b_type,c_type,d_type,compute_type,scaleA,scaleB,scaleC,scaleD,amaxD,activation_type,bias_vector,bias_type,rotating_buffer,\
hipblaslt-Gflops,hipblaslt-GB/s,us,solution_index,kernel_name,solution_name";

/// What stands for a name that is not known: the older reader wants a last cell.
const NO_NAME: &str = "unknown";

/// The override file of those `choices` that are of library `hipblaslt` and of `revision`, and all others with the
/// reason why they are not in it. Without a revision that of the first choice which has one is taken.
pub fn to_text<'a>(
    choices: impl IntoIterator<Item = &'a Choice>,
    revision: Option<&str>,
) -> (String, Vec<NotExported>) {
    let choices: Vec<&Choice> = choices.into_iter().collect();
    let known =
        |choice: &&&Choice| choice.solution.library() == "hipblaslt" && !choice.solution.build.revision.is_empty();
    let first = choices.iter().find(known).map(|choice| choice.solution.build.revision.as_str());
    let revision = revision.or(first).unwrap_or_default();
    let mut text = format!("{COLUMNS}\nGit Version: {revision}\n");
    let mut left_out = Vec::new();
    let mut keys = HashSet::new();
    for choice in choices {
        let row = refuse(choice, revision).map_or_else(|| row(choice), Err).and_then(|(key, line)| {
            let why = "the file cannot tell it from an earlier choice: it says nothing of bias, scales and strides";
            if keys.insert(key) { Ok(line) } else { Err(why.to_owned()) }
        });
        match row {
            Ok(line) => {
                text.push_str(&line);
                text.push('\n');
            }
            Err(reason) => left_out.push(NotExported { problem: choice.problem, reason }),
        }
    }
    (text, left_out)
}

/// Replaces `path` by the override file of `choices`, atomically; returns those that it cannot hold.
///
/// # Errors
/// The file cannot be replaced.
pub fn write<'a>(
    path: &Path,
    choices: impl IntoIterator<Item = &'a Choice>,
    revision: Option<&str>,
) -> Result<Vec<NotExported>, WriteError> {
    let (text, left_out) = to_text(choices, revision);
    atomic::write(path, text.as_bytes())?;
    Ok(left_out)
}

/// Why hipBLASLt of this revision could not use the choice.
fn refuse(choice: &Choice, revision: &str) -> Option<Reason> {
    let solution = &choice.solution;
    let build = &solution.build;
    if build.library != "hipblaslt" {
        return Some(format!("hipBLASLt cannot run library {}", build.library));
    }
    if build.revision.is_empty() {
        return Some("its index is of an unknown revision of hipBLASLt".into());
    }
    if build.revision != revision {
        return Some(format!("its index is of revision {}, the file is for {revision}", build.revision));
    }
    if solution.index < 1 {
        return Some(format!("hipBLASLt reads no index below 1, this is {}", solution.index));
    }
    if !solution.params.is_empty() {
        return Some(format!("the file cannot say the parameters {}", solution.params));
    }
    if solution.name.contains(|c: char| c == ',' || c.is_control()) {
        return Some("a comma or a control character in its name".into());
    }
    None
}

/// What the library matches by, and the line.
fn row(choice: &Choice) -> Result<(String, String), Reason> {
    let gemm = choice.problem.gemm().ok_or("hipBLASLt has no such operation")?;
    let call = Call::from_gemm(gemm);
    let letter = |op: Op| if op == Op::N { 'N' } else { 'T' };
    let dtype = |dtype: DType| spelled_dtype(dtype).ok_or_else(|| format!("hipblaslt-bench has no name for {dtype}"));
    let compute = spelled_compute(call.compute);
    let (a, b, d) = (dtype(call.a)?, dtype(call.b)?, dtype(call.c)?);
    // The reader takes the output's type from C's column; an imported row may have had another there.
    let imported = choice.origin.as_deref().filter(|origin| origin.source.format == Format::HipblasltOverride.word());
    let c = imported.and_then(|origin| origin.cell("c_type"));
    let c = c.unwrap_or(d);
    let transposed = format!("{},{}", letter(call.op_a), letter(call.op_b));
    let key = format!("{transposed},{},{},{},{},{a},{b},{c},{compute}", call.batch_count, call.m, call.n, call.k);
    let scale = match call.scale {
        ScaleMode::None => 0,
        ScaleMode::Tensor => 1,
        ScaleMode::TokenChannel => 2,
        ScaleMode::Mx => 3,
        ScaleMode::Block128 => return Err("hipblaslt-bench has no number for scales of 128x128".into()),
    };
    let activation = match call.activation {
        Activation::None => "none",
        Activation::Relu => "relu",
        Activation::Gelu => "gelu",
        Activation::Silu => "swish",
        Activation::Swiglu | Activation::Situv2 => return Err("hipBLASLt has no such activation".into()),
    };
    let factor = |scalar: Scalar| match scalar {
        Scalar::Zero => Ok("0"),
        Scalar::One => Ok("1"),
        Scalar::Other => Err("the value of a factor is not known"),
    };
    let bias = call.bias.map_or(Ok(d), dtype)?;
    let gflops = cpp_number(cost::gflops_per_s(&choice.problem, choice.time_us));
    let gbytes = cpp_number(cost::gbytes_per_s(&choice.problem, choice.time_us));
    let name = if choice.solution.name.is_empty() { NO_NAME } else { &choice.solution.name };
    let mut line = format!("{transposed},0,{},{},{},{}", call.batch_count, call.m, call.n, call.k);
    // Writing to a string does not fail.
    let _ = write!(line, ",{},{},{}", factor(call.alpha)?, call.lda, call.stride_a);
    let _ = write!(line, ",{},{},{}", factor(call.beta)?, call.ldb, call.stride_b);
    let _ = write!(line, ",{ldc},{stride},{ldc},{stride}", ldc = call.ldc, stride = call.stride_c);
    let _ =
        write!(line, ",{a},{b},{c},{d},{compute},{scale},{scale},0,0,0,{activation},{}", u8::from(call.bias.is_some()));
    let _ = write!(
        line,
        ",{bias},0,{gflops},{gbytes},{},{},{name},{name}",
        cpp_number(choice.time_us),
        choice.solution.index
    );
    Ok((key, line))
}
