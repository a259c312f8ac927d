//! `tune db lint`: findings, codes for scripts, exit codes for CI.

mod common;

use common::{Scratch, code, run, stderr, stdout};
use serde_json::Value;

const HEADER: &str = "M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle";
const GOOD: &str = "1,64,128,False,torch.bfloat16,torch.bfloat16,False,False";

fn lint(content: &str, more: &[&str]) -> std::process::Output {
    let scratch = Scratch::new();
    let file = scratch.write("bf16_untuned_gemm.csv", content);
    let args = ["db", "lint"].iter().chain(more).map(std::ffi::OsString::from).chain([file.into_os_string()]);
    run(args)
}

#[test]
fn clean_is_0_warnings_are_0_unless_strict_errors_are_1() {
    let clean = format!("{HEADER}\n{GOOD}\n");
    let warning = format!("{HEADER}\n{}\n", GOOD.replacen("False", "FALSE", 1));
    let error = format!("{HEADER}\n{GOOD},9\n");
    for (content, more, want) in [
        (&clean, &["--strict"][..], 0),
        (&warning, &[], 0),
        (&warning, &["--strict"], 1),
        (&warning, &["--strict", "--ignore", "TG016"], 0),
        (&error, &[], 1),
        (&error, &["--ignore", "long-row"], 0),
        (&error, &["--ignore", "TG999"], 2),
    ] {
        let output = lint(content, more);
        assert_eq!(code(&output), want, "{content} {more:?}: {}", stderr(&output));
    }
}

#[test]
fn a_finding_names_file_line_code_and_mend() {
    let content = format!("{HEADER}\n{GOOD}\n{GOOD},9\n\n");
    let text = stdout(&lint(&content, &[]));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].contains("bf16_untuned_gemm.csv:3: error: TG004 long-row: "), "{text}");
    assert!(lines[1].contains(":4: note: TG012 blank-line: "), "{text}");
    let object: Value = serde_json::from_str(stdout(&lint(&content, &["--json"])).lines().next().unwrap()).unwrap();
    assert_eq!((&object["code"], &object["line"], &object["severity"]), (&"TG004".into(), &3.into(), &"error".into()));
    assert!(object["mend"].as_str().is_some_and(|mend| !mend.is_empty()));
    assert_eq!(stdout(&lint(&content, &["--least", "error"])).lines().count(), 1);
}

#[test]
fn a_missing_file_is_a_finding() {
    let output = run(["db", "lint", "no/such/file.csv"]);
    assert_eq!(code(&output), 1);
    assert!(stdout(&output).contains("no/such/file.csv: error: TG006 unreadable-file"), "{}", stdout(&output));
}
