//! Choices measured again, the race held against itself, and what is said about devices and databases.

mod common;

use std::path::PathBuf;
use std::process::Output;

use common::{Scratch, code, run, stderr, stdout, sweep, tune};
use serde_json::{Value, json};
use tgemm_db::{DType, Follows, Recorded, Site};

fn script(scratch: &Scratch, good_us: f64, more: Value) -> String {
    let mut good = json!({ "name": "good", "time_us": good_us, "noise": 0.005 });
    good.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    scratch.script(json!([
        { "name": "default", "time_us": 100, "noise": 0.005, "baseline": "scripted gemm" },
        { "name": "old call", "time_us": 130, "noise": 0.005, "baseline": "scripted gemm_old" },
        good,
    ]))
}

/// A database with three choices of `good`, and the device it was made on.
fn tuned() -> (Scratch, PathBuf) {
    let scratch = Scratch::new();
    let device = script(&scratch, 60.0, json!({}));
    let output = sweep(&scratch, &device, &scratch.untuned(&[1, 2, 3]), &["--sample", "0.2"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let db = scratch.path("db.sqlite");
    (scratch, db)
}

fn verify(device: &str, db: &PathBuf, more: &[&str]) -> Output {
    let mut command = tune();
    command.args(["verify", "--device", device, "--sample", "0.2", "--db"]).arg(db).args(more);
    command.output().expect("tune runs")
}

#[test]
fn choices_that_hold_pass() {
    let (scratch, db) = tuned();
    let device = script(&scratch, 60.0, json!({}));
    let output = verify(&device, &db, &["--json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let lines: Vec<Value> = stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    for line in lines {
        assert_eq!(line["review"], "holds", "{line}");
        assert!((line["ratio"]["estimate"].as_f64().unwrap() - 0.6).abs() < 0.02, "{line}");
    }
    assert_eq!(stdout(&verify(&device, &db, &["--json", "--limit", "2"])).lines().count(), 2);
    assert_eq!(stdout(&verify(&device, &db, &["--json", "--where", "m == 2"])).lines().count(), 1);
}

#[test]
fn several_processes_say_what_changes_between_them() {
    let (scratch, db) = tuned();
    let device = script(&scratch, 60.0, json!({}));
    let csv = scratch.path("verified.csv");
    let output = verify(&device, &db, &["--json", "--processes", "3", "--csv", &csv.display().to_string()]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let lines: Vec<Value> = stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3, "one line a choice, not one a look");
    let written = tgemm_db::format::parse_choices(&csv, &std::fs::read(&csv).unwrap(), &Default::default()).unwrap();
    let written: Vec<tgemm_db::Choice> = written.into_values().collect();
    for line in &lines {
        let figure = |name: &str| line["ratio"][name].as_f64().unwrap_or_else(|| panic!("{line}"));
        let (low, estimate, high) = (figure("low"), figure("estimate"), figure("high"));
        assert!(low <= estimate && estimate <= high && high - low < 0.1, "of four processes: {line}");
        let stored = line["stored_ratio"]["estimate"].as_f64().unwrap();
        assert!((low..=high).contains(&stored) && low < high, "the sweep is one of them: {line}");
        assert!(written.iter().any(|choice| (choice.ratio.estimate - estimate).abs() < 1e-4), "{line}");
    }
}

/// A database with choices of `good` for three problems of 4 tokens, run 4, 2 and 1 times, and the device it was made on.
fn tuned_step(device_memory: u64, good: Value) -> (Scratch, PathBuf, String) {
    let scratch = Scratch::new();
    let device = scratch.script(json!([
        { "name": "default", "time_us": 100, "noise": 0.002, "mixed_us": 20, "baseline": "scripted gemm" },
        good,
    ]));
    let row = |(n, count)| Recorded { count, ..Recorded::bare(Site::linear(n, 32, DType::F32).at(4).into()) };
    let untuned = scratch.path("untuned.csv");
    tgemm_db::format::untuned::write(&untuned, &[(24, 40), (48, 20), (8, 10)].map(row)).unwrap();
    assert_eq!(code(&sweep(&scratch, &device, &untuned, &["--sample", "0.2"])), 0);
    if device_memory > 0 {
        let path = scratch.path("script.json");
        let limit = format!(r#"{{"memory_bytes": {device_memory},"#);
        std::fs::write(&path, std::fs::read_to_string(&path).unwrap().replacen('{', &limit, 1)).unwrap();
    }
    let db = scratch.path("db.sqlite");
    (scratch, db, device)
}

/// The lines of choices and those of mixes.
fn mixed(output: &Output) -> (Vec<Value>, Vec<Value>) {
    let lines = stdout(output);
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).partition(|line: &Value| line["mix"].is_null())
}

#[test]
fn a_mix_says_what_a_choice_saves_after_other_problems() {
    let good = json!({ "name": "good", "time_us": 60, "noise": 0.002 });
    let (scratch, db, device) = tuned_step(0, good);
    let csv = scratch.path("verified.csv").display().to_string();
    let output = verify(&device, &db, &["--json", "--mix", "--csv", &csv]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let (choices, mixes) = mixed(&output);
    assert_eq!(choices.len(), 3);
    for line in &choices {
        assert!((line["stored_ratio"]["estimate"].as_f64().unwrap() - 0.6).abs() < 0.01, "{line}");
        // 60 us alone, and the 60 of 120 that it saves in company.
        assert!((line["ratio"]["estimate"].as_f64().unwrap() - 0.5).abs() < 0.01, "{line}");
    }
    let [mix] = &mixes[..] else { panic!("one M: {mixes:?}") };
    let mix = &mix["mix"];
    assert_eq!((&mix["m"], &mix["problems"], &mix["processes"]), (&json!(4), &json!(3), &json!(1)), "{mix}");
    // 4, 2 and 1 to one another, 16 the most.
    assert_eq!(mix["launches"], 16 + 8 + 4);
    assert!((mix["baselines_us"].as_f64().unwrap() / (28.0 * 120.0) - 1.0).abs() < 0.01, "{mix}");
    assert!((mix["ratio"]["estimate"].as_f64().unwrap() - 0.5).abs() < 0.01, "{mix}");
    let written = tgemm_db::format::parse_choices(csv.as_ref(), &std::fs::read(&csv).unwrap(), &Default::default());
    assert!(written.unwrap().into_values().all(|choice| (choice.ratio.estimate - 0.5).abs() < 0.01));
    let said = stdout(&verify(&device, &db, &["--mix", "--processes", "2"]));
    assert!(said.contains("M = 4: 28 launches of 3 problems in turn, ") && said.contains("0.500"), "{said}");
}

#[test]
fn a_mix_goes_by_the_order_of_a_recording() {
    let good = json!({ "name": "good", "time_us": 60, "noise": 0.002 });
    let (scratch, db, device) = tuned_step(0, good);
    let untuned = scratch.path("untuned.csv").display().to_string();
    let output = verify(&device, &db, &["--json", "--mix", "--order", &untuned]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stderr(&output).contains("nothing is known of their order"), "{}", stderr(&output));
    assert_eq!(mixed(&output).1[0]["mix"]["launches"], 16 + 8 + 4, "spread, by their counts");
    // N = 24 and 48 took turns in graphs, ten times each; of N = 8 nothing is said.
    let problem = |n| Site::linear(n, 32, DType::F32).at(4).into();
    let row = |(n, after)| {
        let follows = Some(Follows { problem: problem(after), nodes_between: Some(2) });
        Recorded { count: 10, captured: true, follows, ..Recorded::bare(problem(n)) }
    };
    let captured = scratch.path("captured.csv");
    tgemm_db::format::untuned::write(&captured, &[(24, 48), (48, 24)].map(row)).unwrap();
    let output = verify(&device, &db, &["--json", "--mix", "--order", &captured.display().to_string()]);
    assert_eq!((code(&output), stderr(&output).as_str()), (0, ""));
    assert_eq!(mixed(&output).1[0]["mix"]["launches"], 10 + 10 + 4);
    let output = verify(&device, &db, &["--order", &untuned]);
    assert!(code(&output) == 2 && stderr(&output).contains("--mix"), "{}", stderr(&output));
}

#[test]
fn a_choice_that_is_slower_in_a_mix_does_not_hold() {
    let good = json!({ "name": "good", "time_us": 60, "noise": 0.002, "mixed_us": 80 });
    let (scratch, db, device) = tuned_step(0, good);
    let csv = scratch.path("verified.csv").display().to_string();
    assert_eq!(code(&verify(&device, &db, &[])), 0, "alone it holds");
    let output = verify(&device, &db, &["--mix", "--csv", &csv]);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert_eq!(stdout(&output).matches(": slower: ").count(), 3, "{}", stdout(&output));
    let written = tgemm_db::format::parse_choices(csv.as_ref(), &std::fs::read(&csv).unwrap(), &Default::default());
    assert!(written.unwrap().into_values().all(|choice| choice.solution.name == "default"));
}

#[test]
fn where_there_is_no_room_for_a_mix_choices_are_judged_alone() {
    let good = json!({ "name": "good", "time_us": 60, "noise": 0.002 });
    let (_scratch, db, device) = tuned_step(35_000, good);
    let output = verify(&device, &db, &["--json", "--mix"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stderr(&output).contains("3 problems at M = 4 cannot be timed together: "), "{}", stderr(&output));
    let (choices, mixes) = mixed(&output);
    assert!(mixes.is_empty() && choices.len() == 3);
    let alone = |line: &Value| (line["ratio"]["estimate"].as_f64().unwrap() - 0.6).abs() < 0.01;
    assert!(choices.iter().all(alone), "{choices:?}");
}

#[test]
fn choices_that_do_not_hold_are_named_with_the_reason() {
    let wrong = json!({ "behaviours": [{ "kind": "wrong" }] });
    for (what, good_us, more, word) in [
        ("slower now", 110.0, json!({}), "slower"),
        ("wrong now", 60.0, wrong, "refused: wrong"),
        ("gone", 60.0, json!({ "params": { "threads": 2 } }), "refused"),
    ] {
        let (scratch, db) = tuned();
        let device = script(&scratch, good_us, more);
        let output = verify(&device, &db, &[]);
        assert_eq!(code(&output), 1, "{what}: {}", stderr(&output));
        assert!(stdout(&output).contains(word), "{what}: {}", stdout(&output));
    }
}

#[test]
fn another_build_is_said_to_be_one() {
    let (scratch, db) = tuned();
    let device = script(&scratch, 60.0, json!({}));
    let path = scratch.path("script.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen('{', r#"{"version": "2","#, 1)).unwrap();
    let output = verify(&device, &db, &[]);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert!(stdout(&output).contains("version"), "{}", stdout(&output));
}

#[test]
fn a_noisy_baseline_seldom_loses_to_its_own_copies() {
    let scratch = Scratch::new();
    let device = scratch.script(json!([
        { "name": "default", "time_us": 100, "noise": 0.03, "baseline": "scripted gemm" },
    ]));
    let untuned = scratch.untuned(&(1..=12).collect::<Vec<_>>());
    let untuned = untuned.display().to_string();
    let output = run(["noise", &untuned, "--device", &device, "--sample", "0.2"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let said = stdout(&output);
    assert!(said.starts_with("12 problems raced against 32 copies of their baseline: "), "{said}");
    let switches: u32 = said.split(": ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(switches <= 1, "{said}");
}

#[test]
fn a_report_has_every_baseline_and_the_means() {
    let (_scratch, db) = tuned();
    let db = db.display().to_string();
    let page = stdout(&run(["report", "--db", &db]));
    assert!(page.contains("| scripted gemm us | scripted gemm_old us |"), "{page}");
    assert!(page.contains("| all | 3 | 3 | 0.60") || page.contains("| all | 3 | 3 | 0.59"), "{page}");
    assert!(page.contains("| M = 2 | 1 | 1 | "), "{page}");
    let columns: Vec<usize> = page.lines().filter(|l| l.contains("faster |")).map(|l| l.matches('|').count()).collect();
    assert!(columns.windows(2).take(2).all(|pair| pair[0] == pair[1]), "{page}");
    let value: Value = serde_json::from_str(&stdout(&run(["report", "--db", &db, "--format", "json"]))).unwrap();
    assert_eq!(value[0]["problems"].as_array().map(Vec::len), Some(3));
    assert_eq!(value[0]["means"][0]["faster"], 3);
    assert_eq!(value[0]["problems"][0]["choice"]["baselines"].as_array().map(Vec::len), Some(2));
}

#[test]
fn the_doctor_always_answers() {
    let scratch = Scratch::new();
    // A file that is no library is a finding like any other.
    let junk = scratch.write("libjunk.so", b"no library");
    let output = tune().arg("doctor").env("TGEMM_HIP", &junk).env("ROCBLAS_USE_HIPBLASLT", "1").output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let said = stdout(&output);
    assert!(said.contains("libjunk.so") && said.contains("ROCBLAS_USE_HIPBLASLT=1"), "{said}");
    let output = tune().args(["doctor", "--json"]).env("TGEMM_HIP", &junk).output().unwrap();
    let value: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    let names: Vec<&str> = value.as_array().unwrap().iter().filter_map(|d| d["dialect"].as_str()).collect();
    assert_eq!(names, ["hip", "cuda", "cpu"]);
    assert!(value[0]["libraries"][0]["tried"][0]["what"].as_str().unwrap().contains("libjunk.so"));
    assert!(value[0]["variables"]["TGEMM_HIP"].as_str().unwrap().contains("libjunk.so"));
}

#[test]
fn devices_that_are_not_here_end_with_one_line_and_code_3() {
    let scratch = Scratch::new();
    let untuned = scratch.untuned(&[1]);
    for device in ["hip:63", "cuda:63", "tpu", "hip:x"] {
        let output = sweep(&scratch, device, &untuned, &[]);
        assert_eq!(code(&output), 3, "{device}: {}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 1, "{device}: {}", stderr(&output));
    }
    let value: Value = serde_json::from_str(&stdout(&run(["devices", "--json"]))).expect("JSON");
    assert_eq!(value[0]["name"], "cpu");
    assert!(value.as_array().unwrap().len() >= 3, "each dialect says something: {value}");
}

#[test]
fn the_call_that_engines_make_can_be_said() {
    let scratch = Scratch::new();
    let device = script(&scratch, 60.0, json!({}));
    let untuned = scratch.untuned(&[1]);
    assert_eq!(code(&sweep(&scratch, &device, &untuned, &["--via", "gemm_ex"])), 0);
    let output = sweep(&scratch, &device, &untuned, &["--via", "telepathy"]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("lt_matmul"), "{}", stderr(&output));
}
