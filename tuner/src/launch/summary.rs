//! What a recording comes to, for a person: which types and problems the work is in, and whose libraries did it.

use std::collections::{BTreeMap, BTreeSet};

use tgemm_db::{Problem, Recorded, cost, key};

use crate::report::table;

/// Problems that are listed, those with the most arithmetic first.
const PROBLEMS_SHOWN_MAX: usize = 10;

/// Work that is summed.
#[derive(Clone, Debug, Default, PartialEq)]
struct Work {
    problems: BTreeSet<Problem>,
    calls: u64,
    flops: f64,
    bytes: f64,
}

impl Work {
    fn of(row: &Recorded) -> Work {
        let calls = row.count.max(1);
        let times = calls as f64;
        Work {
            problems: BTreeSet::from([row.problem]),
            calls,
            flops: times * cost::flops(&row.problem),
            bytes: times * cost::bytes(&row.problem) as f64,
        }
    }

    fn add(&mut self, other: Work) {
        self.problems.extend(other.problems);
        self.calls = self.calls.saturating_add(other.calls);
        self.flops += other.flops;
        self.bytes += other.bytes;
    }

    fn shares(&self, all: &Work) -> [String; 2] {
        let percent = |part: f64, whole: f64| format!("{:.1} %", 100.0 * part / whole.max(f64::MIN_POSITIVE));
        [percent(self.flops, all.flops), percent(self.bytes, all.bytes)]
    }
}

/// Element types of the inputs: `bf16`, `f8e4m3fn x bf16` where they differ.
fn types(problem: &Problem) -> String {
    match problem.gemm() {
        Some(gemm) if gemm.site.x == gemm.site.w => gemm.site.x.to_string(),
        Some(gemm) => format!("{} x {}", gemm.site.x, gemm.site.w),
        None => format!("moe {}", problem.moe().and_then(|moe| moe.site.x).map_or("?".into(), |x| x.to_string())),
    }
}

/// Sums `rows` by what `name` says of them, most arithmetic first.
fn by<'a>(rows: impl IntoIterator<Item = &'a Recorded>, name: impl Fn(&Recorded) -> String) -> Vec<(String, Work)> {
    let mut sums: BTreeMap<String, Work> = BTreeMap::new();
    for row in rows {
        sums.entry(name(row)).or_default().add(Work::of(row));
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by(|a, b| b.1.flops.total_cmp(&a.1.flops));
    sums
}

/// The library that served a row, with its build; empty if not said.
fn library(row: &Recorded) -> String {
    match (row.library_file.as_str(), row.library_build.as_str()) {
        ("", build) => build.to_owned(),
        (file, "") => file.to_owned(),
        (file, build) => format!("{file} {build}"),
    }
}

/// Tables and lines about `rows` (merged), each line ended.
pub fn summary(rows: &[Recorded]) -> String {
    let mut all = Work::default();
    rows.iter().for_each(|row| all.add(Work::of(row)));
    let mut text = format!("{} problems, {} calls", all.problems.len(), all.calls);
    let mut captured = Work::default();
    rows.iter().filter(|row| row.captured).for_each(|row| captured.add(Work::of(row)));
    if captured.calls > 0 {
        let [flops, _] = captured.shares(&all);
        text += &format!("; {} problems were seen under graph capture ({flops} of the FLOPs)", captured.problems.len());
    }
    let mut kinds = table::table(&["type", "problems", "calls", "FLOPs", "bytes"], 1);
    for (name, work) in by(rows, |row| types(&row.problem)) {
        let [flops, bytes] = work.shares(&all);
        kinds.add_row([name, work.problems.len().to_string(), work.calls.to_string(), flops, bytes]);
    }
    let mut problems = table::table(&["problem", "calls", "FLOPs", "bytes"], 1);
    let named = by(rows, |row| key::short(&row.problem));
    for (name, work) in named.iter().take(PROBLEMS_SHOWN_MAX) {
        let [flops, bytes] = work.shares(&all);
        problems.add_row([name.clone(), work.calls.to_string(), flops, bytes]);
    }
    text += &format!("\n{kinds}\n\n{problems}\n");
    if named.len() > PROBLEMS_SHOWN_MAX {
        text += &format!("and {} more\n", named.len() - PROBLEMS_SHOWN_MAX);
    }
    for (name, work) in by(rows, library).iter().filter(|(name, _)| !name.is_empty()) {
        text += &format!("library {name}: {} calls\n", work.calls);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use tgemm_db::{DType, Site};

    #[test]
    fn shares_are_by_count_times_cost() {
        let row = |m, dtype, count| Recorded { count, ..Recorded::bare(Site::linear(64, 128, dtype).at(m).into()) };
        let rows = [
            Recorded { library_file: "/lt.so".into(), library_build: "1.2.3".into(), ..row(1, DType::Bf16, 10) },
            Recorded { captured: true, ..row(3, DType::Bf16, 10) },
            row(4, DType::F32, 15),
        ];
        let text = summary(&rows);
        assert!(
            text.starts_with("3 problems, 35 calls; 1 problems were seen under graph capture (30.0 % of the FLOPs)"),
            "{text}"
        );
        let line = |start: &str| {
            let found = text.lines().find(|line| line.trim_start().starts_with(start));
            found.unwrap_or_else(|| panic!("{start}: {text}")).split_whitespace().collect::<Vec<_>>().join(" ")
        };
        // 2·64·128·m·count: 10, 30 and 60 of 100. Bytes: elements 64·128 + m·(64 + 128), of 2, 2 and 4 bytes.
        let bytes =
            [(1.0, 2.0, 10.0), (3.0, 2.0, 10.0), (4.0, 4.0, 15.0)].map(|(m, size, n)| n * size * (8192.0 + 192.0 * m));
        let f32_share = 100.0 * bytes[2] / (bytes[0] + bytes[1] + bytes[2]);
        assert_eq!(line("f32"), format!("f32 1 15 60.0 % {f32_share:.1} %"));
        assert!(line("bf16").starts_with("bf16 2 20 40.0 % "), "{text}");
        assert_eq!(line("library"), "library /lt.so 1.2.3: 10 calls");
        let order: Vec<usize> = [4, 3, 1]
            .map(|m| text.find(&key::short(&row(m, if m == 4 { DType::F32 } else { DType::Bf16 }, 1).problem)).unwrap())
            .into();
        assert!(order.is_sorted(), "{text}");
    }

    #[test]
    fn a_long_recording_is_cut_and_says_so() {
        let rows: Vec<Recorded> =
            (1..=13).map(|m| Recorded::bare(Site::linear(64, 128, DType::F32).at(m).into())).collect();
        assert!(summary(&rows).contains("and 3 more\n"));
    }
}
