//! `tune coverage` and `tune record --from-log`.

mod common;

use std::path::{Path, PathBuf};
use std::process::Output;

use common::{Scratch, code, run, stderr, stdout, tune};
use serde_json::Value;
use tgemm_db::format::untuned;
use tgemm_db::{DType, Recorded, Site};

/// AITER rows of (M, N) on gfx942/304.
fn tuned(scratch: &Scratch, rows: &[(u32, u32)]) -> PathBuf {
    let header = "gfx,cu_num,M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle,libtype,solidx,splitK,us,kernelName,err_ratio,tflops,bw";
    let row = |(m, n): &(u32, u32)| {
        format!("gfx942,304,{m},{n},128,False,torch.bfloat16,torch.bfloat16,False,False,asm,1,0,10.0,k,0.0,1.0,2.0\n")
    };
    scratch.write("bf16_tuned_gemm.csv", format!("{header}\n{}", rows.iter().map(row).collect::<String>()))
}

/// A recording of (M, N, count).
fn recorded(scratch: &Scratch, name: &str, rows: &[(u32, u32, u64)]) -> PathBuf {
    let row = |(m, n, count): &(u32, u32, u64)| Recorded {
        count: *count,
        ..Recorded::bare(Site::linear(*n, 128, DType::Bf16).at(*m).into())
    };
    let path = scratch.path(name);
    untuned::write(&path, &rows.iter().map(row).collect::<Vec<_>>()).unwrap();
    path
}

fn coverage(untuned: &Path, db: &Path, more: &[&str]) -> Output {
    tune().arg("coverage").arg(untuned).arg("--db").arg(db).args(more).output().expect("tune runs")
}

const HERE: [&str; 2] = ["--assume-device", "gfx942/304"];

#[test]
fn each_level_is_counted_and_near_misses_are_named() {
    let scratch = Scratch::new();
    let db = tuned(&scratch, &[(1, 64), (16, 64), (1, 2688)]);
    let asked = recorded(&scratch, "untuned.csv", &[(1, 64, 6), (9, 64, 3), (1, 2624, 1), (1, 512, 1)]);
    let output = coverage(&asked, &db, &[&HERE[..], &["--json"]].concat());
    assert_eq!(code(&output), 1, "some have no answer: {}", stderr(&output));
    let lines: Vec<Value> = stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let levels = &lines.last().unwrap()["levels"];
    let counted = |level: &str| (levels[level]["problems"].as_u64().unwrap(), levels[level]["calls"].as_u64().unwrap());
    assert_eq!((counted("exact"), counted("padded"), counted("default")), ((1, 6), (1, 3), (2, 2)));
    let shares: f64 = lines[..4].iter().map(|line| line["share"].as_f64().unwrap()).sum();
    assert!((shares - 1.0).abs() < 1e-9, "{shares}");
    let text = stdout(&coverage(&asked, &db, &HERE));
    assert!(text.contains("N=2624 recorded, N=2688 tuned"), "{text}");
}

#[test]
fn rows_of_another_device_are_told_of() {
    let scratch = Scratch::new();
    let db = tuned(&scratch, &[(1, 64)]);
    let asked = recorded(&scratch, "untuned.csv", &[(1, 64, 1)]);
    let output = coverage(&asked, &db, &["--assume-device", "gfx942/80"]);
    assert_eq!(code(&output), 1);
    assert!(stdout(&output).contains("not for here: M=1 tuned on gfx942/304"), "{}", stdout(&output));
    assert_eq!(code(&coverage(&asked, &db, &HERE)), 0);
    assert_eq!(code(&coverage(&asked, &scratch.path("missing.csv"), &HERE)), 2);
    assert_eq!(code(&coverage(&scratch.path("missing.csv"), &db, &HERE)), 2);
}

#[test]
fn recordings_and_logs_are_summed_into_one_untuned_table() {
    let scratch = Scratch::new();
    let a = recorded(&scratch, "a.csv", &[(1, 64, 6), (2, 64, 1)]);
    let b = recorded(&scratch, "b.csv", &[(1, 64, 4)]);
    let out = scratch.path("untuned.csv");
    let output = tune().args(["record", "--from-log"]).args([&a, &b]).arg("-o").arg(&out).output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stderr(&output).contains("2 different problems, 11 calls"), "{}", stderr(&output));
    let rows: Vec<Recorded> = tgemm_db::format::read_untuned(&out).unwrap().into_values().collect();
    assert_eq!(rows.iter().map(|row| row.count).collect::<Vec<_>>(), [10, 1]);
}

#[test]
fn what_is_no_recording_is_one_line() {
    let scratch = Scratch::new();
    let db = tuned(&scratch, &[(1, 64)]);
    let output = tune().args(["record", "--from-log"]).arg(&db).output().unwrap();
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("tune db import"), "{}", stderr(&output));
    assert_eq!(code(&run(["record"])), 2);
}
