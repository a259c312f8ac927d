//! `tune db merge` and `diff`.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use common::{Scratch, code, stderr, stdout, tune};
use serde_json::Value;
use tgemm_db::store::Store;

const HEADER: &str =
    "gfx,cu_num,M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle,libtype,solidx,splitK,us,kernelName,err_ratio,tflops,bw";

fn table(scratch: &Scratch, name: &str, rows: &[(u32, u32, &str)]) -> PathBuf {
    let row = |(m, index, us): &(u32, u32, &str)| {
        format!(
            "gfx950,256,{m},64,128,False,torch.bfloat16,torch.bfloat16,False,False,asm,{index},0,{us},k,0.0,1.0,2.0\n"
        )
    };
    scratch.write(name, format!("{HEADER}\n{}", rows.iter().map(row).collect::<String>()))
}

fn merge(files: &[&Path], out: &Path, more: &[&str]) -> Output {
    tune().args(["db", "merge"]).args(files).arg("-o").arg(out).args(more).output().expect("tune runs")
}

fn diff(old: &Path, new: &Path, more: &[&str]) -> Output {
    tune().args(["db", "diff"]).args([old, new]).args(more).output().expect("tune runs")
}

#[test]
fn the_order_of_inputs_does_not_matter_and_each_says_what_became_of_its_rows() {
    let scratch = Scratch::new();
    let a = table(&scratch, "a_bf16_tuned_gemm.csv", &[(1, 1, "5.0"), (2, 1, "5.0"), (4, 1, "5.0")]);
    let b = table(&scratch, "b_bf16_tuned_gemm.csv", &[(1, 2, "4.0"), (2, 2, "6.0"), (8, 2, "7.0"), (16, 2, "inf")]);
    let (one, two) = (scratch.path("one.csv"), scratch.path("two.csv"));
    let output = merge(&[&a, &b], &one, &["--json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    merge(&[&b, &a], &two, &[]);
    assert_eq!(fs::read(&one).unwrap(), fs::read(&two).unwrap());
    let told: Vec<Value> = stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&told[0]["won"], &told[0]["lost"][0]["rows"]), (&2.into(), &1.into()));
    assert_eq!(told[0]["lost"][0]["to"], b.display().to_string());
    assert_eq!((&told[1]["won"], &told[1]["rejected"]), (&2.into(), &1.into()));
    let again = scratch.path("again.csv");
    merge(&[&one, &a], &again, &[]);
    assert_eq!(fs::read(&again).unwrap(), fs::read(&one).unwrap(), "merging again changes nothing");
}

#[test]
fn a_database_holds_the_same_choices_as_a_table() {
    let scratch = Scratch::new();
    let a = table(&scratch, "a_bf16_tuned_gemm.csv", &[(1, 1, "5.0"), (2, 1, "5.0")]);
    let b = table(&scratch, "b_bf16_tuned_gemm.csv", &[(1, 2, "4.0")]);
    let (csv, db) = (scratch.path("out.csv"), scratch.path("out.sqlite"));
    assert_eq!(code(&merge(&[&a, &b], &csv, &[])), 0);
    let output = merge(&[&a, &b], &db, &[]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(code(&diff(&csv, &db, &[])), 0);
    assert_eq!(Store::open_read_only(&db).unwrap().choices().unwrap().len(), 2);
    let names = fs::read_dir(scratch.path("")).unwrap().count();
    assert_eq!(names, 4, "nothing lies beside the results");
    let output = merge(&[&a], &db, &[]);
    assert_eq!(code(&output), 2, "a database that is there is not replaced");
}

#[test]
fn an_input_is_never_the_output() {
    let scratch = Scratch::new();
    let a = table(&scratch, "bf16_tuned_gemm.csv", &[(1, 1, "5.0")]);
    let before = fs::read(&a).unwrap();
    let output = merge(&[&a], &a, &[]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("inputs are not edited"), "{}", stderr(&output));
    assert_eq!(fs::read(&a).unwrap(), before);
    let output = merge(&[&scratch.path("missing.csv")], &scratch.path("out.csv"), &[]);
    assert_eq!(code(&output), 2);
    assert!(!scratch.path("out.csv").exists());
}

#[test]
fn differences_are_a_table_and_an_exit_code() {
    let scratch = Scratch::new();
    let old = table(&scratch, "old_bf16_tuned_gemm.csv", &[(1, 1, "5.0"), (2, 1, "5.0"), (4, 1, "5.0"), (8, 1, "8.0")]);
    let new =
        table(&scratch, "new_bf16_tuned_gemm.csv", &[(1, 1, "5.0"), (2, 2, "4.0"), (4, 1, "5.5"), (16, 1, "9.0")]);
    let output = diff(&old, &new, &[]);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("1 changed, 1 added, 1 removed, 1 measured anew, 1 the same"), "{text}");
    assert!(text.contains("0.800"), "{text}");
    let lines = stdout(&diff(&old, &new, &["--json", "--times"]));
    let kinds: Vec<String> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["what"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds, ["changed", "retimed", "added", "removed"]);
    assert_eq!(code(&diff(&old, &old, &[])), 0);
    assert_eq!(code(&diff(&old, &scratch.path("missing.csv"), &[])), 2);
}
