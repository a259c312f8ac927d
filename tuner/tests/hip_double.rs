//! The HIP path of the command, from the doctor to the bundle, against the double of ROCm's libraries. It proves that the
//! path is whole, not that AMD's hardware agrees.

mod common;

use std::path::Path;
use std::process::{Command, Output};

use common::{Scratch, code, stderr, stdout, tune};
use serde_json::{Value, json};
use tgemm_db::store::Store;
use tgemm_db::{DType, Recorded, Site};

/// `tune` on a machine that has "ROCm 7" and one "card" whose cache is small, so that rotations are short.
fn tune_on_rocm(scratch: &Scratch) -> Command {
    let folder = scratch.path("rocm");
    let library = tgemm_rocm_double::built().expect("cargo builds the double with this test");
    tgemm_rocm_double::install(&folder, &library, 7).expect("installed");
    let script = json!({
        "mode": "host", "noise": { "sigma": 0.01, "seed": 1 }, "trace": scratch.path("trace.jsonl"),
        "device": { "arch": "gfx90a:sramecc+:xnack-", "name": "AMD Instinct MI250X", "cus": 104, "l2_bytes": 8388608 },
    });
    let mut command = tune();
    command
        .env("LD_LIBRARY_PATH", &folder)
        .env(tgemm_rocm_double::SCRIPT_VAR, scratch.write("double.json", script.to_string()));
    command
}

fn untuned(scratch: &Scratch) -> std::path::PathBuf {
    let row = Recorded { count: 5, ..Recorded::bare(Site::linear(64, 128, DType::Bf16).at(3).into()) };
    let path = scratch.path("untuned.csv");
    tgemm_db::format::untuned::write(&path, [&row]).expect("written");
    path
}

fn sweep(scratch: &Scratch, db: &Path, more: &[&str]) -> Output {
    let mut command = tune_on_rocm(scratch);
    command.arg("sweep").arg(untuned(scratch)).args(["--device", "hip:0", "--effort", "minimal", "--db"]).arg(db);
    command.args(more).output().expect("tune runs")
}

#[test]
fn a_card_is_found_checked_and_bundled() {
    let scratch = Scratch::new();
    let doctor = tune_on_rocm(&scratch).args(["doctor", "--json"]).output().unwrap();
    let value: Value = serde_json::from_str(&stdout(&doctor)).expect("JSON");
    assert_eq!((value[0]["dialect"].as_str(), value[0]["devices"].as_u64()), (Some("hip"), Some(1)), "{value}");
    let devices = tune_on_rocm(&scratch).arg("devices").output().unwrap();
    assert!(stdout(&devices).contains("hip:0: gfx90a/104/"), "{}", stdout(&devices));

    let bundle = scratch.path("bundle.tar");
    let mut command = tune_on_rocm(&scratch);
    command.args(["selfcheck", "--device", "hip", "--budget", "60s", "--bundle"]).arg(&bundle);
    let output = command.arg("--untuned").arg(untuned(&scratch)).output().unwrap();
    assert_eq!(code(&output), 0, "{}\n{}", stdout(&output), stderr(&output));
    let said = stdout(&output);
    for library in ["hipblaslt: ", "rocblas: "] {
        let count = said.split(library).nth(1).and_then(|rest| rest.split(' ').next());
        assert!(count.and_then(|n| n.parse::<u32>().ok()).is_some_and(|n| n > 1), "{library} lists solutions: {said}");
    }
    assert!(!said.contains(" 0 of 0 stored") && said.contains("stored solutions went as they should"), "{said}");
    assert!(bundle.is_file());
}

#[test]
fn the_call_that_an_engine_makes_decides_the_baseline() {
    let scratch = Scratch::new();
    let vias = |db: &str, more: &[&str]| -> Vec<String> {
        let db = scratch.path(db);
        let output = sweep(&scratch, &db, more);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let choice = Store::open_read_only(&db).unwrap().choices().unwrap().remove(0);
        let mut vias: Vec<String> = choice.baselines.iter().map(|baseline| baseline.via.clone()).collect();
        vias.sort();
        vias
    };
    assert_eq!(vias("lt.sqlite", &["--via", "lt_matmul"]), ["hipblasLtMatmul"]);
    let any = vias("any.sqlite", &["--via", "any"]);
    assert!(any.len() > 1 && any.contains(&"hipblasLtMatmul".to_owned()), "{any:?}");
}

#[test]
fn what_stands_between_launches_is_no_part_of_their_time() {
    let scratch = Scratch::new();
    let trace = scratch.path("trace.jsonl");
    let timed = |db: &str, more: &[&str]| -> (f64, [usize; 2]) {
        let db = scratch.path(db);
        let _ = std::fs::remove_file(&trace);
        let output = sweep(&scratch, &db, more);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let launches = std::fs::read_to_string(&trace).expect("launches were traced");
        let count = |kernel: &str| launches.lines().filter(|line| line.contains(kernel)).count();
        let time_us = Store::open_read_only(&db).unwrap().choices().unwrap()[0].time_us;
        (time_us, [count("tgemm_between"), count("tgemm_walk")])
    };
    // The double's small kernels take 2 us each.
    let (spaced_us, [between, no_walk]) = timed("spaced.sqlite", &["--between", "4"]);
    let (alone_us, none) = timed("alone.sqlite", &["--cold-code"]);
    assert!(between > 256 && no_walk == 0, "{between} and {no_walk}");
    assert_eq!(none, [0, 0], "by default none on AMD's devices, and then no first one");
    assert!((spaced_us / alone_us - 1.0).abs() < 0.1, "{spaced_us} and {alone_us} us");
    let (cold_us, [three, one]) = timed("cold.sqlite", &["--between", "4", "--cold-code"]);
    assert!(one > 64 && three == 3 * one, "{three} and {one}");
    assert!((cold_us / alone_us - 1.0).abs() < 0.1, "{cold_us} and {alone_us} us");
    let (_, [used, _]) = timed("streams.sqlite", &["--streams", "5"]);
    assert!(used >= 5 && used % 5 == 0, "{used}: one in each stream, of each worker");
}

#[test]
fn a_choice_is_held_against_the_baseline_of_a_call_that_comes_later() {
    let scratch = Scratch::new();
    let db = scratch.path("db.sqlite");
    let planned = |more: &[&str]| -> bool {
        let output = sweep(&scratch, &db, more);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        !stderr(&output).contains("0 problems to tune, 1 chosen already")
    };
    assert!(planned(&["--via", "lt_matmul"]), "a new problem is tuned");
    assert!(!planned(&["--via", "lt_matmul"]), "and left alone after that");
    assert!(planned(&["--via", "rocblas_gemm_ex"]), "until another call asks for it");
    assert!(!planned(&["--via", "rocblas_gemm_ex"]), "which is then settled too");
    assert!(!planned(&["--via", "lt_matmul"]), "both are");
    let choice = Store::open_read_only(&db).unwrap().choices().unwrap().remove(0);
    let vias: Vec<&str> = choice.baselines.iter().map(|baseline| baseline.via.as_str()).collect();
    assert_eq!(vias.len(), 2, "the choice is held against both: {vias:?}");
}

#[test]
fn a_card_that_is_not_there_ends_with_code_3() {
    let scratch = Scratch::new();
    let mut command = tune_on_rocm(&scratch);
    command.arg("sweep").arg(untuned(&scratch)).args(["--device", "hip:7", "--db"]).arg(scratch.path("db.sqlite"));
    let output = command.output().unwrap();
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    assert!(stderr(&output).contains("there is no device hip:7; 1 here"), "{}", stderr(&output));
}

#[test]
fn a_choice_is_verified_against_the_calls_that_it_was_made_for() {
    let scratch = Scratch::new();
    let db = scratch.path("db.sqlite");
    assert_eq!(code(&sweep(&scratch, &db, &["--via", "lt_matmul"])), 0);
    let mut command = tune_on_rocm(&scratch);
    let output = command.args(["verify", "--device", "hip:0", "--json", "--db"]).arg(&db).output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let line: Value = serde_json::from_str(stdout(&output).lines().next().unwrap_or_default()).expect("JSON");
    let figure = |ratio: &str| line[ratio]["estimate"].as_f64().unwrap_or_else(|| panic!("{line}"));
    assert!((figure("ratio") / figure("stored_ratio") - 1.0).abs() < 0.05, "the same comparison again: {line}");
}

#[test]
fn a_mix_in_one_graph_costs_what_its_launches_do() {
    let scratch = Scratch::new();
    let row = |(n, count)| Recorded { count, ..Recorded::bare(Site::linear(n, 128, DType::Bf16).at(3).into()) };
    let (untuned, db) = (scratch.path("two.csv"), scratch.path("db.sqlite"));
    tgemm_db::format::untuned::write(&untuned, &[(64, 6), (96, 3)].map(row)).expect("written");
    let mut command = tune_on_rocm(&scratch);
    command.arg("sweep").arg(&untuned).args(["--device", "hip:0", "--effort", "minimal", "--via", "lt_matmul", "--db"]);
    let output = command.arg(&db).output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let mut command = tune_on_rocm(&scratch);
    let output = command.args(["verify", "--mix", "--device", "hip:0", "--json", "--db"]).arg(&db).output().unwrap();
    assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
    let lines: Vec<Value> = stdout(&output).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let mix = &lines.iter().find(|line| !line["mix"].is_null()).unwrap_or_else(|| panic!("a mix: {lines:?}"))["mix"];
    assert_eq!((&mix["problems"], &mix["launches"]), (&json!(2), &json!(6 + 3)), "{mix}");
    // The double's kernels do not care what ran before them.
    let choices = Store::open_read_only(&db).unwrap().choices().unwrap();
    let launches = |choice: &tgemm_db::Choice| if choice.count == 6 { 6.0 } else { 3.0 };
    let alone_us: f64 = choices.iter().map(|choice| launches(choice) * choice.baseline_us().unwrap()).sum();
    assert!((mix["baselines_us"].as_f64().unwrap() / alone_us - 1.0).abs() < 0.1, "{mix}, alone {alone_us} us");
    for line in lines.iter().filter(|line| line["mix"].is_null() && line["review"] == "holds") {
        let figure = |ratio: &str| line[ratio]["estimate"].as_f64().unwrap_or_else(|| panic!("{line}"));
        assert!((figure("ratio") / figure("stored_ratio") - 1.0).abs() < 0.1, "{line}");
    }
}
