//! Logs: whatever a GEMM library or a server prints, in any mixture, one reader for all.
//!
//! | lines | module | by |
//! |---|---|---|
//! | bench commands | `bench` | hipBLASLt (mask 32), rocBLAS (layer 2) |
//! | profile maps with counts | `profile` | hipBLASLt (mask 64), rocBLAS (layer 4) |
//! | matmul traces | `trace` | hipBLASLt (mask 2), cuBLASLt (level 2 to 5) |
//! | argument lists, one argument a line | `cublas` | cuBLAS' API logger |
//! | "shape is M:…" | `aiter` | AITER, through vLLM and SGLang |
//! | `GemmTunableOp_…` | `tunable` | PyTorch (`PYTORCH_TUNABLEOP_VERBOSE`) |
//!
//! A line that is no GEMM call is passed over and counted; one that is a call, but cut, elided or without a word here,
//! is rejected with its reason. Equal calls become one row with their count, at the line of the first.
//!
//! One call may be told at several levels (a trace, then its bench line, then the profile at exit): of one library's
//! equal problems only the most complete level counts. A rocBLAS that forwards to hipBLASLt still shows in both logs.

mod aiter;
mod bench;
mod cublas;
mod profile;
mod trace;
mod tunable;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use crate::dtype::DType;
use crate::format::aiter::Family;
use crate::format::hipblaslt::words::Float8;
use crate::format::limits::{LINE_BYTES_MAX, ROWS_MAX};
use crate::format::sheet::Reason;
use crate::format::{Content, Format, HEAD_BYTES, Read, ReadError, ReadOptions, Rejected, Sourced, Unreadable};
use crate::problem::Problem;
use crate::recording::{Recorded, Via};

/// Who told of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    Hipblaslt,
    Rocblas,
    Cublaslt,
    /// AITER's lookup, for a table of this family.
    Aiter(Family),
    TunableOp,
}

impl Source {
    fn format(self) -> Format {
        match self {
            Source::Hipblaslt => Format::HipblasltLog,
            Source::Rocblas => Format::RocblasLog,
            Source::Cublaslt => Format::CublasltLog,
            Source::Aiter(family) => Format::AiterUntuned(family),
            Source::TunableOp => Format::TunableOpUntuned,
        }
    }
}

/// How completely a line tells of a call, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Level {
    /// Algorithms were asked for; whether it ran is not said.
    Asked,
    /// One line a call.
    Trace,
    /// One line a call, with everything that the bench program needs to repeat it.
    Bench,
    /// One line a distinct call, with its count.
    Profile,
}

/// A call as one line tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) problem: Problem,
    /// 0 where the line does not count.
    pub(crate) count: u64,
    pub(crate) via: Via,
    pub(crate) workspace_bytes_max: Option<u64>,
    pub(crate) source: Source,
    pub(crate) level: Level,
    /// Was an 8-bit float taken for OCP's because nothing says which it is?
    pub(crate) is_float8_assumed: bool,
}

impl Seen {
    /// A call that one line tells of once.
    pub(crate) fn once(problem: Problem, via: Via, source: Source, level: Level) -> Seen {
        Seen { problem, count: 1, via, workspace_bytes_max: None, source, level, is_float8_assumed: false }
    }
}

/// What became of the lines of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Lines that are not blank.
    pub lines: u64,
    /// Lines that are GEMM calls, or parts of one.
    pub gemm_lines: u64,
    /// Calls that were taken.
    pub kept: u64,
    /// Calls that were rejected.
    pub rejected: u64,
    /// Rows left out because the same library tells of the same problem more completely.
    pub repeated: u64,
}

impl Tally {
    /// Lines that are no part of a GEMM call.
    pub fn other(&self) -> u64 {
        self.lines - self.gemm_lines
    }
}

/// Equal calls are one row.
type Identity = (Problem, Via, Option<u64>, Source, Level);

struct Scan {
    file: Arc<Path>,
    rows: Vec<(u64, Seen)>,
    at: HashMap<Identity, usize>,
    rejected: Vec<Rejected>,
    tally: Tally,
}

impl Scan {
    fn note(&mut self, line: u64, call: Result<Seen, Reason>) -> Result<(), ReadError> {
        match call {
            Ok(seen) => {
                self.tally.kept += 1;
                let identity = (seen.problem, seen.via, seen.workspace_bytes_max, seen.source, seen.level);
                if let Some(&at) = self.at.get(&identity) {
                    let have = &mut self.rows[at].1;
                    have.count = have.count.saturating_add(seen.count);
                    return Ok(());
                }
                self.at.insert(identity, self.rows.len());
                self.rows.push((line, seen));
            }
            Err(reason) => {
                self.tally.rejected += 1;
                self.rejected.push(Rejected { file: self.file.clone(), line, reason });
            }
        }
        if self.rows.len() + self.rejected.len() > ROWS_MAX {
            let unreadable = Unreadable::TooManyRows { rows_max: ROWS_MAX };
            return Err(ReadError { file: self.file.clone(), line: Some(line), unreadable });
        }
        Ok(())
    }

    fn lines(&mut self, bytes: &[u8], float8: Float8, options: &ReadOptions) -> Result<(), ReadError> {
        let mut cublas = cublas::Calls::default();
        let mut found = Vec::new();
        for (line, text) in bytes.split(|&byte| byte == b'\n').zip(1..).map(|(text, line): (_, u64)| (line, text)) {
            let text = text.trim_ascii();
            if text.is_empty() {
                continue;
            }
            self.tally.lines += 1;
            if text.len() > LINE_BYTES_MAX {
                let reason = format!("line of {} bytes; at most {LINE_BYTES_MAX} are read", text.len());
                self.note(line, Err(reason))?;
                continue;
            }
            let text = String::from_utf8_lossy(text);
            if let Some((at, call)) = cublas.line(line, &text) {
                self.note(at, call)?;
            }
            if cublas.took_line() {
                self.tally.gemm_lines += 1;
                continue;
            }
            calls(&text, float8, options, &mut found);
            self.tally.gemm_lines += u64::from(!found.is_empty());
            for call in found.drain(..) {
                self.note(line, call)?;
            }
        }
        match cublas.end() {
            Some((line, call)) => self.note(line, call),
            None => Ok(()),
        }
    }

    /// Leaves out the rows that the same library tells of more completely.
    fn leave_repeated_out(&mut self) {
        let mut best: HashMap<(Problem, Source), Level> = HashMap::new();
        for (_, seen) in &self.rows {
            let level = best.entry((seen.problem, seen.source)).or_insert(seen.level);
            *level = seen.level.max(*level);
        }
        let before = self.rows.len();
        self.rows.retain(|(_, seen)| best.get(&(seen.problem, seen.source)) == Some(&seen.level));
        self.tally.repeated = (before - self.rows.len()) as u64;
    }
}

/// All calls of one line, by every grammar that has its mark in it.
fn calls(text: &str, float8: Float8, options: &ReadOptions, found: &mut Vec<Result<Seen, Reason>>) {
    if text.contains("-bench") {
        bench::calls(text, float8, found);
    }
    if text.contains("function:") {
        found.extend(profile::call(text, float8));
    }
    if text.contains("Adesc=[") {
        found.extend(trace::call(text, float8));
    }
    if text.contains("TunableOp_") {
        found.extend(tunable::call(text));
    }
    if text.contains("shape") {
        found.extend(aiter::call(text, options));
    }
}

/// Has `text` a mark of any log?
pub(crate) fn is_log(text: &[u8]) -> bool {
    const MARKS: [&[u8]; 9] = [
        b"hipblaslt-bench ",
        b"rocblas-bench ",
        b"function: matmul",
        b"rocblas_function:",
        b"[HIPBLASLT]",
        b"[cublasLt]",
        b"! cuBLAS (",
        b"[aiter] ",
        b"TunableOp_",
    ];
    MARKS.iter().any(|mark| text.windows(mark.len()).any(|window| window == *mark))
}

/// Reads the log `bytes` of `file`, of whichever library or server: its calls as recorded problems, and what became of
/// its lines.
///
/// # Errors
/// Too many distinct calls.
pub fn scan(file: &Path, bytes: &[u8], options: &ReadOptions) -> Result<(Read<Recorded>, Tally), ReadError> {
    let file: Arc<Path> = file.into();
    let tally = Tally::default();
    let mut scan = Scan { file: file.clone(), rows: Vec::new(), at: HashMap::new(), rejected: Vec::new(), tally };
    scan.lines(bytes, Float8::of(options), options)?;
    scan.leave_repeated_out();
    let Scan { rows, mut rejected, tally, .. } = scan;
    rejected.sort_by_key(|rejected| rejected.line);
    let format = rows.first().map_or_else(|| format_by_marks(bytes), |(_, seen)| seen.source.format());
    let mut read = Read::new(file, format);
    read.rejected = rejected;
    if tally.other() > 0 {
        read.warn(None, format!("{} of {} lines are no GEMM calls", tally.other(), tally.lines));
    }
    if tally.repeated > 0 {
        read.warn(
            None,
            format!("{} rows repeat problems that other lines of the same library tell better", tally.repeated),
        );
    }
    let is_assumed = |seen: &Seen| seen.is_float8_assumed || options.device.is_none() && has_float8_by_old_name(seen);
    if let Some((line, _)) = rows.iter().find(|(_, seen)| is_assumed(seen)) {
        read.warn(
            Some(*line),
            "the log does not say which fp8 it means: e4m3fn is taken; name the device for e4m3fnuz",
        );
    }
    read.rows = rows.into_iter().map(|(line, seen)| Sourced { line, value: recorded(&seen) }).collect();
    Ok((read, tally))
}

/// Does hipBLASLt say of a matrix that it is of a type whose name meant another one before ROCm 6.3?
fn has_float8_by_old_name(seen: &Seen) -> bool {
    let is_ocp = |dtype: DType| matches!(dtype, DType::F8E4m3Fn | DType::F8E5m2);
    let site = seen.problem.gemm().map(|gemm| &gemm.site);
    seen.source == Source::Hipblaslt && site.is_some_and(|site| [site.x, site.w, site.out].into_iter().any(is_ocp))
}

/// What a log without a single whole call is of.
fn format_by_marks(bytes: &[u8]) -> Format {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(HEAD_BYTES)]);
    let has = |marks: [&str; 2]| marks.iter().any(|mark| head.contains(mark));
    if has(["[cublasLt]", "! cuBLAS ("]) {
        Format::CublasltLog
    } else if has(["rocblas-bench ", "rocblas_function:"]) {
        Format::RocblasLog
    } else if has(["[aiter] ", "shape M:"]) {
        Format::AiterUntuned(Family::Bf16)
    } else {
        Format::HipblasltLog
    }
}

fn recorded(seen: &Seen) -> Recorded {
    Recorded {
        count: seen.count,
        via: seen.via,
        workspace_bytes_max: seen.workspace_bytes_max,
        ..Recorded::bare(seen.problem)
    }
}

/// [`scan`] for the formats' common entrance.
pub(crate) fn read(file: &Path, bytes: &[u8], options: &ReadOptions) -> Result<Content, ReadError> {
    scan(file, bytes, options).map(|(read, _)| Content::Problems(read))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Site;

    const BENCH: &str = "hipblaslt-bench -m 64 -n 3 -k 32 --transA T --transB N --a_type f16_r --b_type f16_r --c_type f16_r \
                         --d_type f16_r --compute_type f32_r";
    const TRACE: &str = "[2026-01-02 03:04:05][HIPBLASLT][7][Trace][rocblaslt_matmul] A=0x10 Adesc=[type=R_16F rows=32 cols=64 ld=32] \
                         B=0x20 Bdesc=[type=R_16F rows=32 cols=3 ld=32] C=0x30 Cdesc=[type=R_16F rows=64 cols=3 ld=64] D=0x30 \
                         Ddesc=[type=R_16F rows=64 cols=3 ld=64] computeDesc=[computeType=COMPUTE_32F scaleType=R_32F transA=OP_T \
                         transB=OP_N epilogue=EPILOGUE_DEFAULT] workSpace=0 workSpaceSizeInBytes=64 alpha=1 beta=0 stream=0";

    fn scanned(text: &str) -> (Read<Recorded>, Tally) {
        scan(Path::new("a.log"), text.as_bytes(), &ReadOptions::default()).unwrap()
    }

    #[test]
    fn equal_calls_are_one_row_and_everything_is_accounted_for() {
        let text = format!("hello\n{BENCH}\n\n{BENCH}\r\n{}\nbye\n", &BENCH[..90]);
        let (read, tally) = scanned(&text);
        assert_eq!(tally, Tally { lines: 5, gemm_lines: 3, kept: 2, rejected: 1, repeated: 0 });
        assert_eq!(read.format, Format::HipblasltLog);
        let [row] = &read.rows[..] else { panic!("{:?}", read.rows) };
        assert_eq!((row.line, row.value.count, row.value.via), (2, 2, Via::LtMatmul));
        assert_eq!(row.value.problem, Site::linear(64, 32, DType::F16).at(3).into());
        assert_eq!(read.rejected[0].to_string(), "a.log:5: c_type is not said");
        assert_eq!(read.warnings[0].what, "2 of 5 lines are no GEMM calls");
    }

    #[test]
    fn a_call_told_twice_counts_once_at_its_best_level() {
        let (read, tally) = scanned(&format!("{TRACE}\n{BENCH}\n{TRACE}\n{BENCH}\n"));
        assert_eq!((read.rows.len(), tally.kept, tally.repeated), (1, 4, 1));
        assert_eq!(read.rows[0].value.count, 2);
        let (read, _) = scanned(&format!("{TRACE}\n"));
        assert_eq!(read.rows[0].value.workspace_bytes_max, Some(64), "alone, the trace is what there is");
    }

    #[test]
    fn long_lines_and_bytes_that_are_no_text_are_told() {
        let (read, tally) = scanned(&"x".repeat(LINE_BYTES_MAX + 1));
        assert_eq!((read.rejected.len(), tally.other()), (1, 1));
        let bytes = [b"\xff\xfe hipblaslt-bench -m \xff -n 3 -k 1".as_slice(), b"\n\x00\x01"].concat();
        let (read, tally) = scan(Path::new("b"), &bytes, &ReadOptions::default()).unwrap();
        assert_eq!((read.rejected.len(), tally.other()), (1, 1));
    }
}
