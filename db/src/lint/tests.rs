//! Each code on a file that we wrote, clean files without any, and AITER's own files.

use std::collections::BTreeMap;

use super::*;

const HEADER: &str =
    "gfx,cu_num,M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle,libtype,solidx,splitK,us,kernelName,err_ratio,tflops,bw";
const UNTUNED: &str = "M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle";

/// A row of a bf16 table.
fn row(m: u32, us: &str) -> String {
    format!("gfx950,256,{m},64,128,False,torch.bfloat16,torch.bfloat16,False,False,asm,1,0,{us},k1,0.0,1.0,2.0")
}

fn lint_texts(files: &[(&str, String)]) -> Report {
    let options = ReadOptions::default();
    let mut linter = Linter::new(&options);
    for (name, text) in files {
        linter.bytes(Path::new(name), text.as_bytes());
    }
    linter.finish()
}

/// The findings in one file, each as its code and line.
fn found(name: &str, text: String) -> Vec<(Code, u64)> {
    lint_texts(&[(name, text)]).findings.iter().map(|f| (f.code, f.line.unwrap_or(0))).collect()
}

fn tuned(rows: &[String]) -> Vec<(Code, u64)> {
    found("bf16_tuned_gemm.csv", format!("{HEADER}\n{}\n", rows.join("\n")))
}

fn untuned(rows: &str) -> Vec<(Code, u64)> {
    found("bf16_untuned_gemm.csv", format!("{UNTUNED}\n{rows}"))
}

#[test]
fn clean_files_have_no_findings() {
    assert_eq!(tuned(&[row(1, "5.0"), row(2, "4.9"), row(4, "6.0")]), []);
    assert_eq!(untuned("1,64,128,False,torch.bfloat16,torch.bfloat16,False,False\n"), []);
}

#[test]
fn times_that_are_none_and_rows_of_another_length_have_codes_of_their_own() {
    let short = row(5, "1.0").rsplit_once(',').unwrap().0.to_owned();
    let rows = [row(1, "0"), row(2, "-1.0"), row(3, "inf"), row(4, "nan"), short, row(6, "1.0") + ",9", row(7, "fast")];
    let want = [
        (Code::PlaceholderTime, 2),
        (Code::PlaceholderTime, 3),
        (Code::InfiniteTime, 4),
        (Code::InfiniteTime, 5),
        (Code::ShortRow, 6),
        (Code::LongRow, 7),
        (Code::RejectedRow, 8),
    ];
    assert_eq!(tuned(&rows), want);
}

#[test]
fn spelling_is_named_where_it_stands() {
    let good = "1,64,128,False,torch.bfloat16,torch.bfloat16,False,False";
    assert_eq!(untuned(good), [(Code::NoFinalNewline, 2)]);
    assert_eq!(untuned(&format!("{good}\n\n")), [(Code::BlankLine, 3)]);
    assert_eq!(untuned(&format!("{good}\r\n")), [(Code::CarriageReturns, 2)]);
    assert_eq!(untuned(&format!("{}\n", good.replace(",128", ", 128"))), [(Code::StrayBlank, 2)]);
    assert_eq!(untuned(&format!("{good} \n")), [(Code::StrayBlank, 2)]);
    assert_eq!(untuned(&format!("{}\n", good.replacen("False", "FALSE", 1))), [(Code::SpreadsheetBoolean, 2)]);
    assert_eq!(untuned(&format!("{}\n", good.replace("torch.bfloat16", "dtypes.bf16"))), [(Code::DtypesSpelling, 2)]);
    assert_eq!(untuned(&format!("{good}\n{good}\n")), [(Code::DuplicateProblem, 3)]);
    assert_eq!(untuned(&format!("{good}\n{UNTUNED}\n")), [(Code::RepeatedHeader, 3)]);
    let marked = untuned(&format!("<<<<<<< ours\n{good}\n=======\n>>>>>>> theirs\n"));
    assert_eq!(marked, [2, 4, 5].map(|line| (Code::ConflictMarker, line)));
    let marked = found("bf16_untuned_gemm.csv", format!("\u{feff}{UNTUNED}\n{good}\n"));
    assert_eq!(marked, [(Code::ByteOrderMark, 0)]);
}

#[test]
fn blanks_count_more_where_aiter_compares_text() {
    let text = row(1, "5.0").replacen("torch.bfloat16", "torch.bfloat16\t", 1);
    let number = row(2, " 5.0");
    assert_eq!(tuned(&[text, number]), [(Code::BlankInText, 2), (Code::StrayBlank, 3)]);
}

#[test]
fn duplicates_are_told_apart_by_what_differs_and_where() {
    let other_winner = row(1, "5.0").replace(",asm,1,", ",asm,2,");
    assert_eq!(tuned(&[row(1, "5.0"), row(1, "5.0")]), [(Code::DuplicateRow, 3)]);
    assert_eq!(tuned(&[row(1, "5.0"), row(1, "6.0")]), [(Code::DuplicateKey, 3)]);
    assert_eq!(tuned(&[row(1, "5.0"), other_winner.clone()]), [(Code::DuplicateKey, 3)]);
    assert_eq!(tuned(&[row(1, "5.0"), row(1, "5.0").replace("gfx950", "gfx942")]), []);
    let across = |second: &str| {
        let first = ("bf16_tuned_gemm.csv", format!("{HEADER}\n{}\n", row(1, "5.0")));
        let report = lint_texts(&[first, ("x_bf16_tuned_gemm.csv", format!("{HEADER}\n{second}\n"))]);
        report.findings.iter().map(|f| (f.code, f.file.display().to_string())).collect::<Vec<_>>()
    };
    let in_second = |code| vec![(code, "x_bf16_tuned_gemm.csv".to_owned())];
    assert_eq!(across(&row(1, "5.0")), in_second(Code::DuplicateRow));
    assert_eq!(across(&row(1, "6.0")), in_second(Code::TunedTwice));
    assert_eq!(across(&other_winner), in_second(Code::TwoWinners));
}

#[test]
fn figures_that_cannot_be_or_should_not_be_are_named() {
    let high = row(1, "5.0").replace(",0.0,1.0,2.0", ",0.06,1.0,2.0");
    assert_eq!(tuned(&[high]), [(Code::HighError, 2)]);
    assert_eq!(tuned(&[row(8, "4.0"), row(4, "5.0")]), [(Code::TimeFalls, 3)]);
    let foreign = row(1, "5.0").replace(",k1,", ",k_gfx942_1,");
    assert_eq!(tuned(&[foreign]), [(Code::ForeignKernel, 2)]);
}

#[test]
fn headers_that_lack_the_device_or_differ_are_named() {
    let without_gfx = |text: &str| text.replace("gfx,", "").replace("gfx950,", "");
    let old = format!("{}\n{}\n", without_gfx(HEADER), without_gfx(&row(1, "5.0")));
    assert_eq!(found("bf16_tuned_gemm.csv", old.clone()), [(Code::MissingGfx, 1)]);
    let new = format!("{HEADER}\n{}\n", row(2, "5.0"));
    let report = lint_texts(&[("bf16_tuned_gemm.csv", new), ("a_bf16_tuned_gemm.csv", old)]);
    let codes: Vec<Code> = report.findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, [Code::MissingGfx, Code::HeaderVariant]);
    let renamed = format!("{}\n{}\n", HEADER.replace(",us,", ",soltimes,"), row(1, "5.0"));
    assert_eq!(found("bf16_tuned_gemm.csv", renamed), [(Code::OldColumn, 1)]);
}

#[test]
fn a_finding_is_one_line_with_its_mend() {
    let report = lint_texts(&[("bf16_tuned_gemm.csv", format!("{HEADER}\n{}\n", row(1, "0")))]);
    let line = report.findings[0].to_string();
    assert!(line.starts_with("bf16_tuned_gemm.csv:2: error: TG001 placeholder-time: us is '0'"), "{line}");
    assert!(line.ends_with(Code::PlaceholderTime.mend()), "{line}");
    assert_eq!((report.count(Severity::Error), report.files, report.rows), (1, 1, 0));
}

#[test]
fn files_that_are_not_there_or_of_no_format_are_findings_too() {
    let folder = tempfile::tempdir().unwrap();
    let paths = [folder.path().join("missing.csv"), folder.path().to_owned()];
    let report = lint(&paths, &ReadOptions::default());
    assert_eq!(report.counts, [(Code::Unreadable, 2)]);
    assert_eq!(found("junk.csv", "a,b\n1,2\n".into()), [(Code::Unreadable, 1)]);
}

fn shared_data(folder: &str) -> Option<PathBuf> {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data")).join(folder);
    if !path.is_dir() {
        println!("skipped: no {}", path.display());
        return None;
    }
    Some(path)
}

fn files_under(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_text = path.extension().is_some_and(|e| e == "txt");
        match path.is_dir() {
            true => files_under(&path, found),
            false if !is_text && path.extension().is_some() => found.push(path),
            false => {}
        }
    }
    found.sort();
}

/// Counts by code, of each folder of files that belong together. `--nocapture` shows them.
fn lint_folder(folder: &str) -> Option<(Report, BTreeMap<&'static str, u64>)> {
    let mut files = Vec::new();
    files_under(&shared_data(folder)?, &mut files);
    let report = lint(&files, &ReadOptions::default());
    println!("{folder}: {} files, {} rows", report.files, report.rows);
    for (code, n) in &report.counts {
        println!("  {n:6} {} {code}", code.severity());
    }
    let counts = report.counts.iter().map(|(code, n)| (code.id(), *n)).collect();
    Some((report, counts))
}

/// What is known to be wrong with AITER's own tables, counted by other means.
#[test]
fn the_dirt_of_aiters_tables_is_found() {
    let Some((report, counts)) = lint_folder("aiter/aiter") else { return };
    let count = |code: Code| counts.get(code.id()).copied().unwrap_or(0);
    // 242 rows of bf16 tables and 13 of fused MoE.
    assert_eq!(count(Code::PlaceholderTime), 255);
    assert_eq!(count(Code::InfiniteTime), 1);
    let infinite = report.findings.iter().find(|finding| finding.code == Code::InfiniteTime).unwrap();
    assert!(
        infinite.file.ends_with("dsv3_a8w8_bpreshuffle_tuned_gemm.csv") && infinite.line == Some(1291),
        "{infinite}"
    );
    assert_eq!(count(Code::SpreadsheetBoolean), 188);
    assert_eq!(count(Code::DuplicateProblem), 1);
    // 19 rows of 28 cells under 29 columns: 8 lack a cell in the middle, 11 their last comma.
    assert_eq!((count(Code::ShortRow), count(Code::MissingLastCell)), (8, 11));
    let blank_lines = |finding: &&Finding| finding.code == Code::BlankLine;
    let mut by_file: BTreeMap<&Path, u32> = BTreeMap::new();
    report.findings.iter().filter(blank_lines).for_each(|finding| *by_file.entry(&finding.file).or_default() += 1);
    assert_eq!(by_file.values().max(), Some(&35));
    for code in [Code::StrayBlank, Code::NoFinalNewline, Code::HighError, Code::TimeFalls, Code::MissingGfx] {
        assert!(count(code) > 0, "{code}");
    }
    for code in [Code::DuplicateKey, Code::ConflictMarker, Code::LongRow] {
        assert_eq!(count(code), 0, "{code}");
    }
}

#[test]
fn every_shared_file_is_looked_at() {
    for folder in ["aiter/history", "aiter/hsa_catalogs", "aiter/op_tests", "tunableop", "vllm-moe", "logs"] {
        if let Some((report, _)) = lint_folder(folder) {
            for finding in report.findings.iter().filter(|f| f.code.severity() == Severity::Error) {
                println!("  {finding}");
            }
            assert!(report.files > 0, "{folder}");
        }
    }
}
