//! The search goes on around what proved good, and what else was at work on the device is thrown away and said.

mod common;

use common::{Scratch, code, stderr, stdout, sweep, trials};
use serde_json::{Value, json};
use tgemm_db::Verdict;
use tgemm_db::outcome::OutcomeKind;
use tgemm_db::store::Store;

/// A list with a way on: two steps from its best lies something better; near its worst lies the best of all.
fn landscape() -> Value {
    json!([
        { "name": "default", "time_us": 100, "noise": 0.001, "baseline": "scripted gemm" },
        { "name": "good", "time_us": 60, "noise": 0.001 },
        { "name": "fair", "time_us": 80, "noise": 0.001 },
        { "name": "poor", "time_us": 110, "noise": 0.001 },
        { "name": "one step", "time_us": 45, "noise": 0.001, "near": "good" },
        { "name": "no step", "time_us": 70, "noise": 0.001, "near": "fair" },
        { "name": "two steps", "time_us": 30, "noise": 0.001, "near": "one step" },
        { "name": "wrong step", "time_us": 5, "near": "one step", "behaviours": [{ "kind": "wrong" }] },
        { "name": "astray", "time_us": 10, "noise": 0.001, "near": "poor" },
    ])
}

/// The name of the choice with that effort, and how many candidates were tried.
fn chosen(effort: &str) -> (String, usize, Vec<String>) {
    let scratch = Scratch::new();
    let device = scratch.script(landscape());
    let output = sweep(&scratch, &device, &scratch.untuned(&[2]), &["--effort", effort, "--sample", "0.2"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let db = scratch.path("db.sqlite");
    let choice = Store::open_read_only(&db).unwrap().choices().unwrap().remove(0);
    let tried: Vec<String> = trials(&db, 2).iter().map(|t| t.solution.name.to_string()).collect();
    (choice.solution.name.to_string(), tried.len(), tried)
}

#[test]
fn effort_says_how_many_steps_are_taken_beyond_the_list() {
    assert_eq!(chosen("minimal").0, "good");
    assert_eq!(chosen("minimal").1, 4, "nothing beyond the list");
    assert_eq!(chosen("balanced").0, "one step");
    let (name, count, tried) = chosen("extensive");
    assert_eq!((name.as_str(), count), ("two steps", 8), "{tried:?}");
    assert!(tried.iter().any(|name| name == "wrong step"), "a wrong neighbour has an outcome like any other");
    let (_, _, tried) = chosen("full");
    assert!(!tried.iter().any(|name| name == "astray"), "nobody searches around what is slow: {tried:?}");
}

#[test]
fn disturbed_blocks_are_void_counted_and_nobodys_fault() {
    let scratch = Scratch::new();
    let device = scratch.script(json!([
        { "name": "default", "time_us": 100, "noise": 0.001, "baseline": "scripted gemm" },
        { "name": "good", "time_us": 60, "noise": 0.001,
          "behaviours": [{ "kind": "disturbed", "when": "measure", "every": 7 }] },
    ]));
    let output = sweep(&scratch, &device, &scratch.untuned(&[2]), &["--sample", "0.2"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let said = stdout(&output);
    assert!(said.contains("blocks thrown away") && said.contains("another process was at work"), "{said}");
    let db = scratch.path("db.sqlite");
    assert!(trials(&db, 2).iter().all(|trial| trial.outcome.kind == OutcomeKind::Ok));
    let choice = Store::open_read_only(&db).unwrap().choices().unwrap().remove(0);
    assert_eq!((choice.solution.name.as_str(), choice.verdict), ("good", Verdict::Faster));
}

#[test]
fn a_device_that_never_is_calm_keeps_the_baseline() {
    let scratch = Scratch::new();
    let device = scratch.script(json!([
        { "name": "default", "time_us": 1e6, "noise": 0.001, "baseline": "scripted gemm" },
        { "name": "good", "time_us": 6e5, "noise": 0.001, "behaviours": [{ "kind": "disturbed", "when": "measure" }] },
    ]));
    let output = sweep(&scratch, &device, &scratch.untuned(&[2]), &["--sample", "0.2"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let choice = Store::open_read_only(&scratch.path("db.sqlite")).unwrap().choices().unwrap().remove(0);
    assert_eq!(choice.solution.name.as_str(), "default");
    assert_eq!(choice.verdict, Verdict::Ambiguous, "nothing was measured, so nothing is known");
}

#[test]
fn a_fruitless_round_is_the_last() {
    let scratch = Scratch::new();
    let device = scratch.script(json!([
        { "name": "default", "time_us": 100, "noise": 0.001, "baseline": "scripted gemm" },
        { "name": "good", "time_us": 60, "noise": 0.001 },
        { "name": "sideways", "time_us": 62, "noise": 0.001, "near": "good" },
        { "name": "beyond", "time_us": 20, "noise": 0.001, "near": "sideways" },
    ]));
    let output = sweep(&scratch, &device, &scratch.untuned(&[2]), &["--effort", "full", "--sample", "0.2"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let tried = trials(&scratch.path("db.sqlite"), 2);
    let names: Vec<&str> = tried.iter().map(|trial| trial.solution.name.as_str()).collect();
    assert!(names.contains(&"sideways") && !names.contains(&"beyond"), "{names:?}");
}
