//! Bench commands: what hipBLASLt logs with bit 32 of its mask and rocBLAS with bit 2 of its layers, one call a line.
//!
//! ```text
//! hipblaslt-bench --api_method c -m 64 -n 3 -k 32 … --compute_type f32_r --algo_method index --solution_index 12
//!   417 ./rocblas-bench -f gemm_ex --transposeA N … --compute_type f32_r --algo 0 --solution_index 0 --flags 0
//! ```
//! A number in front is the count of `uniq -c`. Several commands on one line are several calls. The solution index is
//! of the build that logged, which the line does not name: it is passed over.

use super::{Level, Seen, Source};
use crate::format::hipblaslt::said::Said;
use crate::format::hipblaslt::words::{Float8, is_elided};
use crate::format::rocblas::function::Function;
use crate::format::sheet::Reason;
use crate::recording::Via;

/// The end of both programs' names, and what is in front of it.
const BENCH: &str = "-bench";
const PROGRAMS: [(&str, Source); 2] = [("hipblaslt", Source::Hipblaslt), ("rocblas", Source::Rocblas)];

/// Where commands are: from their program's name, and from what follows it. Found in one pass, since a line may hold
/// many.
fn commands(line: &str) -> impl Iterator<Item = (usize, usize, Source)> + '_ {
    line.match_indices(BENCH).filter_map(|(at, _)| {
        let after = at + BENCH.len();
        let (name, source) = PROGRAMS.iter().find(|(name, _)| line[..at].ends_with(name))?;
        line[after..].starts_with([' ', '\t']).then_some((at - name.len(), after, *source))
    })
}

/// The count of `uniq -c` where that, and at most the program's folder, stands in front of a command; else 1.
fn count_before(text: &str) -> u64 {
    let mut words = text.split_whitespace();
    let count = words.next().and_then(|word| word.parse().ok());
    let is_alone = words.next().is_none_or(|word| word.ends_with('/')) && words.next().is_none();
    count.filter(|_| is_alone).unwrap_or(1)
}

/// All calls of `line`.
pub(super) fn calls(line: &str, float8: Float8, seen: &mut Vec<Result<Seen, Reason>>) {
    let mut commands = commands(line).peekable();
    let count = commands.peek().map_or(1, |(at, _, _)| count_before(&line[..*at]));
    while let Some((_, from, source)) = commands.next() {
        let end = commands.peek().map_or(line.len(), |(next, _, _)| *next);
        seen.extend(command(&line[from..end], source, float8).map(|call| call.map(|call| Seen { count, ..call })));
    }
}

/// An option is a dash and a letter: `-1.0` is a value.
fn option(word: &str) -> Option<&str> {
    let name = word.strip_prefix('-')?;
    let name = name.strip_prefix('-').unwrap_or(name);
    name.starts_with(|c: char| c.is_ascii_alphabetic()).then_some(name)
}

/// Does the rest belong to a shell?
fn ends_command(word: &str) -> bool {
    matches!(word, "|" | ">" | ">>" | "2>&1" | "&&" | "||" | ";" | "&" | "#")
}

fn arguments(text: &str) -> Result<Said<'_>, Reason> {
    let mut said = Said::default();
    let mut words = text.split_whitespace().take_while(|word| !ends_command(word)).peekable();
    while let Some(word) = words.next() {
        let Some(name) = option(word) else {
            // Stray words are the rest of a path or of a program's output on the same line.
            continue;
        };
        match name.split_once('=') {
            Some((name, value)) => said.push(name, value)?,
            None => match words.next_if(|word| option(word).is_none()) {
                Some(value) => said.push(name, value)?,
                None => said.push(name, "true")?,
            },
        }
    }
    Ok(said)
}

/// The call of one command; `None` if it is of no GEMM.
fn command(text: &str, source: Source, float8: Float8) -> Option<Result<Seen, Reason>> {
    let said = match arguments(text) {
        Ok(said) => said,
        Err(why) => return Some(Err(why)),
    };
    let problem = match source {
        Source::Rocblas => {
            let function = Function::of(said.get("function")?)?;
            function
                .types(&said, float8)
                .and_then(|types| said.rocblas_problem(types))
                .map(|problem| (problem, function.via()))
        }
        _ => {
            ["m", "n", "k"].iter().find_map(|name| said.get(name))?;
            said.hipblaslt_problem(float8).map(|problem| (problem, Via::LtMatmul))
        }
    };
    let told = problem.map(|(problem, via)| Seen::once(problem, via, source, Level::Bench));
    Some(told.map_err(|why| if is_elided(text) { format!("elided: {why}") } else { why }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::problem::Site;

    const LT: &str = "hipblaslt-bench --api_method c -m 64 -n 3 -k 32 --lda 32 --ldb 32 --ldc 64 --ldd 64  --alpha 1.000000 \
                      --beta 0.000000 --transA T --transB N --batch_count 1  --a_type f16_r --b_type f16_r --c_type f16_r \
                      --d_type f16_r --scale_type f32_r --compute_type f32_r --activation_type none ";
    const ROC: &str = "./rocblas-bench -f gemm_ex --transposeA T --transposeB N -m 64 -n 3 -k 32 --alpha 1 --a_type f16_r \
                       --lda 32 --b_type f16_r --ldb 32 --beta 0 --c_type f16_r --ldc 64 --d_type f16_r --ldd 64 \
                       --compute_type f32_r --algo 0 --solution_index 0 --flags 0";

    fn all(line: &str) -> Vec<Result<Seen, Reason>> {
        let mut seen = Vec::new();
        calls(line, Float8::Ocp, &mut seen);
        seen
    }

    #[test]
    fn both_programs_log_the_same_layer() {
        let layer = Site::linear(64, 32, DType::F16).at(3).into();
        let lt = Seen::once(layer, Via::LtMatmul, Source::Hipblaslt, Level::Bench);
        let roc = Seen::once(layer, Via::RocblasGemmEx, Source::Rocblas, Level::Bench);
        assert_eq!(all(LT), [Ok(lt)]);
        assert_eq!(all(ROC), [Ok(roc)]);
        assert_eq!(all(&format!("  417 /opt/bin/{}", &ROC[2..])), [Ok(Seen { count: 417, ..roc })]);
        assert_eq!(all(&format!("2026 started {LT}")), [Ok(lt)], "a number that is no count");
        assert_eq!(all(&format!("{LT}{ROC}")), [Ok(lt), Ok(roc)], "run together on one line");
        assert_eq!(all(&format!("{LT} > out.txt -m 9")), [Ok(lt)], "what follows is the shell's");
    }

    #[test]
    fn a_cut_command_is_a_call_with_a_reason_and_other_programs_are_none() {
        let cut = all(&LT[..LT.find("--d_type").unwrap()]);
        assert_eq!(cut, [Err("d_type is not said".into())]);
        assert_eq!(all(&LT.replace("-k 32", "-k 32...")), [Err("elided: k is elided".into())]);
        assert_eq!(all("rocblas-bench -f gemv -r s -m 4 -n 4"), []);
        assert_eq!(all("hipblaslt-bench --help"), []);
        assert_eq!(all("see rocblas-benchmarks"), []);
    }

    #[test]
    fn many_commands_on_one_line_take_linear_time() {
        let found = all(&"rocblas-bench -f gemm ".repeat(40_000));
        assert_eq!(found.len(), 40_000);
    }

    #[test]
    fn every_cut_of_a_line_is_the_same_call_or_a_reason() {
        let whole = all(LT).remove(0).unwrap();
        for end in 0..LT.len() {
            for call in all(&LT[..end]).into_iter().flatten() {
                assert_eq!(call, whole, "{}", &LT[..end]);
            }
        }
    }
}
