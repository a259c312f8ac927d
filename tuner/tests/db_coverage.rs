//! `tune coverage` and `tune record --from-log`.

mod common;

use std::path::{Path, PathBuf};
use std::process::Output;

use common::{Scratch, code, run, stderr, stdout, tune};
use serde_json::Value;
use tgemm_db::choice::{Baseline, Ratio};
use tgemm_db::device::{Build, Device, Vendor};
use tgemm_db::format::untuned;
use tgemm_db::{Choice, DType, Recorded, Site, Solution, Verdict};

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

/// Choices at M = 1 and 4 with a baseline of 20 us each: one that is faster, one that is the baseline.
fn raced(scratch: &Scratch) -> PathBuf {
    let choice = |m: u32, verdict: Verdict, ratio: Ratio| {
        let solution = Solution::bare(Build::unknown("hipblaslt"), 1, "Cijk");
        let device = Device::named(Vendor::Amd, "gfx942", 304);
        let problem = Site::linear(64, 128, DType::Bf16).at(m).into();
        let baseline = Baseline { via: "hipblasLtMatmul".into(), solution: solution.clone(), time_us: 20.0 };
        let time_us = 20.0 * ratio.estimate;
        Choice { verdict, ratio, baselines: vec![baseline], ..Choice::uncompared(problem, device, solution, time_us) }
    };
    let path = scratch.path("tuned.csv");
    let faster = choice(1, Verdict::Faster, Ratio { estimate: 0.8, low: 0.75, high: 0.9 });
    let same = choice(4, Verdict::Same, Ratio { estimate: 0.9, low: 0.8, high: 1.1 });
    tgemm_db::format::tuned::write(&path, &[faster, same]).unwrap();
    path
}

#[test]
fn the_saving_is_predicted_with_its_interval() {
    let scratch = Scratch::new();
    let db = raced(&scratch);
    let total = |rows: &[(u32, u32, u64)]| -> [f64; 5] {
        let asked = recorded(&scratch, "untuned.csv", rows);
        let output = coverage(&asked, &db, &[&HERE[..], &["--json"]].concat());
        let last: Value = serde_json::from_str(stdout(&output).lines().last().unwrap()).unwrap();
        ["total_us", "saving_us", "saving_low_us", "saving_high_us", "saving_share"].map(|name| {
            // To a millionth: figures went through decimal text.
            (last[name].as_f64().unwrap_or_else(|| panic!("{name}: {last}")) * 1e6).round() / 1e6
        })
    };
    // 100 calls of 20 us: a fifth saved, a tenth to a quarter.
    assert_eq!(total(&[(1, 64, 100)]), [2000.0, 400.0, 200.0, 500.0, 0.2]);
    // What runs the baseline saves nothing, but has its time.
    assert_eq!(total(&[(1, 64, 100), (4, 64, 100)]), [4000.0, 400.0, 200.0, 500.0, 0.1]);
    let [all, saved, low, high, _] = total(&[(1, 64, 100), (1, 512, 100)]);
    assert_eq!((saved, low, high), (400.0, 200.0, 500.0), "what has no choice saves nothing");
    assert!(all > 2000.0, "but takes its time: {all}");
    let asked = recorded(&scratch, "untuned.csv", &[(1, 64, 100)]);
    let text = stdout(&coverage(&asked, &db, &HERE));
    let wanted = "predicted saving: 0.400 ms (0.200 to 0.500) of 2.000 ms recorded, 20.0 % (10.0 to 25.0)";
    assert!(text.contains(wanted), "{text}");
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
