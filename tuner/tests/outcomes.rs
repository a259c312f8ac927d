//! Each way in which a candidate can fail gets the outcome it deserves, in the real worker process, and the sweep ends
//! with the right winner.

mod common;

use common::{Scratch, code, stderr, sweep, trials};
use serde_json::json;
use tgemm_db::outcome::OutcomeKind;
use tgemm_db::store::Store;
use tgemm_db::{Trial, Verdict};

fn outcome(trials: &[Trial], name: &str) -> OutcomeKind {
    let found: Vec<&Trial> = trials.iter().filter(|t| t.solution.name == name).collect();
    assert_eq!(found.len(), 1, "{name} has exactly one outcome");
    found[0].outcome.kind
}

#[test]
fn every_fault_is_the_outcome_it_is_and_the_right_winner_is_chosen() {
    let scratch = Scratch::new();
    let fault = |name: &str, kind: &str, when: &str| json!({ "name": name, "time_us": 5, "behaviours": [{ "kind": kind, "when": when }] });
    let device = scratch.script(json!([
        { "name": "default", "time_us": 100, "noise": 0.01, "baseline": "scripted gemm" },
        { "name": "good", "time_us": 60, "noise": 0.01 },
        { "name": "slow", "time_us": 900, "noise": 0.01 },
        fault("wrong", "wrong", "verify"),
        fault("nan", "nan", "verify"),
        fault("unwritten", "unwritten", "verify"),
        fault("out of bounds", "out_of_bounds", "verify"),
        { "name": "over workspace", "time_us": 5, "workspace_bytes": 64, "behaviours": [{ "kind": "over_workspace" }] },
        fault("nondeterministic", "nondeterministic", "verify"),
        fault("hang", "hang", "verify"),
        fault("hang in timing", "hang", "measure"),
        fault("abort", "abort", "verify"),
        fault("abort in prepare", "abort", "prepare"),
        fault("abort in timing", "abort", "measure"),
        fault("exit 0", "exit0", "verify"),
        fault("unsupported", "unsupported", "prepare"),
        fault("out of memory", "out_of_memory", "prepare"),
        fault("error", "error", "verify"),
        { "name": "garbage on stdout", "time_us": 70, "behaviours": [{ "kind": "garbage" }] },
        { "name": "flaky", "time_us": 5, "behaviours": [{ "kind": "wrong", "every": 2 }] },
    ]));
    let untuned = scratch.untuned(&[3]);
    let output = sweep(&scratch, &device, &untuned, &[]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let db = scratch.path("db.sqlite");
    let trials = trials(&db, 3);
    assert_eq!(trials.len(), 20, "every candidate has an outcome");
    use OutcomeKind::*;
    let expected = [
        ("default", &[Ok][..]),
        ("good", &[Ok]),
        ("garbage on stdout", &[Ok]),
        ("slow", &[Pruned]),
        ("wrong", &[Wrong]),
        ("nan", &[Wrong]),
        ("unwritten", &[Wrong]),
        ("out of bounds", &[Wrong]),
        ("over workspace", &[Wrong]),
        ("nondeterministic", &[Nondeterministic]),
        ("hang", &[Hung]),
        ("hang in timing", &[Hung]),
        ("abort", &[Crashed]),
        ("abort in prepare", &[Crashed]),
        ("abort in timing", &[Crashed]),
        ("exit 0", &[Crashed]),
        ("unsupported", &[Unsupported]),
        ("out of memory", &[OutOfMemory]),
        ("error", &[Unsupported, Crashed, Wrong]),
        // Wrong at every second launch: the gate sees a wrong result or two results that differ.
        ("flaky", &[Wrong, Nondeterministic]),
    ];
    for (name, kinds) in expected {
        let kind = outcome(&trials, name);
        assert!(kinds.contains(&kind), "{name}: {kind}");
    }
    let choices = Store::open_read_only(&db).unwrap().choices().unwrap();
    assert_eq!(choices.len(), 1);
    assert_eq!((choices[0].solution.name.as_str(), choices[0].verdict), ("good", Verdict::Faster));
    assert!((choices[0].ratio.estimate - 0.6).abs() < 0.02, "{:?}", choices[0].ratio);
}

#[test]
fn a_candidate_that_dies_only_in_the_race_is_taken_out() {
    let scratch = Scratch::new();
    let device = scratch.script(json!([
        { "name": "default", "time_us": 100, "baseline": "scripted gemm" },
        { "name": "late abort", "time_us": 50, "behaviours": [{ "kind": "abort", "when": "measure", "every": 2 }] },
        { "name": "good", "time_us": 70, "noise": 0.001 },
    ]));
    let output = sweep(&scratch, &device, &scratch.untuned(&[2]), &["--sample", "0.05"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let db = scratch.path("db.sqlite");
    assert_eq!(outcome(&trials(&db, 2), "late abort"), OutcomeKind::Crashed);
    assert_eq!(Store::open_read_only(&db).unwrap().choices().unwrap()[0].solution.name, "good");
}

#[test]
fn copies_of_the_baseline_do_not_replace_it() {
    let scratch = Scratch::new();
    let mut solutions = vec![json!({ "name": "default", "time_us": 100, "noise": 0.02, "baseline": "scripted gemm" })];
    solutions.extend((0..32).map(|i| json!({ "name": format!("copy {i}"), "time_us": 100, "noise": 0.02 })));
    let device = scratch.script(json!(solutions));
    let ms: Vec<u32> = (1..=24).collect();
    let output = sweep(&scratch, &device, &scratch.untuned(&ms), &["--sample", "0.2"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let choices = Store::open_read_only(&scratch.path("db.sqlite")).unwrap().choices().unwrap();
    let switched = choices.iter().filter(|c| c.verdict == Verdict::Faster).count();
    assert!(choices.len() == 24 && switched <= 1, "{switched} of {} A/A races switched", choices.len());
}

#[test]
fn a_problem_without_any_right_solution_fails_and_the_rest_goes_on() {
    let scratch = Scratch::new();
    let device = scratch.script(json!([
        { "name": "liar", "time_us": 5, "baseline": "scripted gemm", "behaviours": [{ "kind": "wrong" }] },
    ]));
    let output = sweep(&scratch, &device, &scratch.untuned(&[1, 2]), &[]);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("wrong"), "it says why");
    assert!(Store::open_read_only(&scratch.path("db.sqlite")).unwrap().choices().unwrap().is_empty());
}

#[test]
fn the_budget_ends_the_sweep_and_the_rest_is_untried() {
    let scratch = Scratch::new();
    let mut solutions = vec![json!({ "name": "default", "time_us": 100, "baseline": "scripted gemm" })];
    solutions.extend(
        (0..40).map(|i| json!({ "name": format!("hang {i}"), "time_us": 5, "behaviours": [{ "kind": "hang" }] })),
    );
    let device = scratch.script(json!(solutions));
    let started = std::time::Instant::now();
    let output = sweep(&scratch, &device, &scratch.untuned(&[1, 2, 3]), &["--budget", "4s"]);
    assert!(started.elapsed().as_secs_f64() < 4.0 + 10.0, "took {:?}", started.elapsed());
    assert!(matches!(code(&output), 0 | 1), "{}", stderr(&output));
    let db = scratch.path("db.sqlite");
    let first = (1..=3).map(|m| trials(&db, m)).find(|t| !t.is_empty()).expect("one problem was begun");
    assert_eq!(first.len(), 41, "every candidate has exactly one outcome");
    assert!(first.iter().any(|t| t.outcome.kind == OutcomeKind::Untried));
}
