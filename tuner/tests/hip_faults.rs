//! The HIP path from the command line to the stored choice, on a double of ROCm's libraries: every fault is the outcome it
//! is, kills lose nothing, another build refuses what was tuned, another generation is named, old ROCm is refused.
//!
//! The quick number of kills runs with the other tests; `TGEMM_KILLS=50` (see CONTRIBUTING) is the long run.

mod common;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use common::{Scratch, code, stderr, stdout, tune};
use serde_json::{Value, json};
use tgemm_db::outcome::OutcomeKind;
use tgemm_db::store::Store;
use tgemm_db::{DType, Problem, Recorded, Site, Verdict};
use tgemm_rocm_double::{SCRIPT_VAR, built, install};
use tgemm_tuner::stats::Shuffle;

/// A machine with "ROCm": a folder of libraries and the script that they play.
struct Rocm {
    scratch: Scratch,
    libraries: PathBuf,
}

impl Rocm {
    fn new(generation: u32, script: &Value) -> Rocm {
        let scratch = Scratch::new();
        let libraries = scratch.path("rocm");
        install(&libraries, &built().expect("the double is built beside its tests"), generation).expect("installed");
        let rocm = Rocm { scratch, libraries };
        rocm.play(script);
        rocm
    }

    fn play(&self, script: &Value) {
        self.scratch.write("double.json", script.to_string());
    }

    fn tune(&self) -> Command {
        let mut command = tune();
        command.env("LD_LIBRARY_PATH", &self.libraries).env(SCRIPT_VAR, self.scratch.path("double.json"));
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.tune().args(args).output().expect("tune runs")
    }

    fn untuned(&self, ms: &[u32]) -> PathBuf {
        let rows: Vec<Recorded> = ms.iter().map(|&m| Recorded { count: 10, ..Recorded::bare(problem(m)) }).collect();
        let path = self.scratch.path("hip.csv");
        tgemm_db::format::untuned::write(&path, &rows).expect("written");
        path
    }

    fn db(&self) -> PathBuf {
        self.scratch.path("db.sqlite")
    }

    fn sweep(&self, untuned: &Path, more: &[&str]) -> Output {
        let mut command = self.tune();
        command.arg("sweep").arg(untuned).arg("--db").arg(self.db()).args(["--device", "hip:0"]);
        // Little to rotate: the double computes on this machine's processors.
        command.args(["--sample", "0.1", "--rotate", "64K"]).args(more).output().expect("tune runs")
    }
}

/// The problem that is tuned at `m` tokens.
fn problem(m: u32) -> Problem {
    Site::linear(48, 64, DType::Bf16).at(m).into()
}

/// A solution of hipBLASLt with a made-up time and fault.
fn solution(index: i64, name: &str, base_us: f64, fault: Value) -> Value {
    json!({ "index": index, "name": name, "cost": { "base_us": base_us, "tflops": 600 }, "sigma": 0.01, "fault": fault })
}

fn script(revision: &str, solutions: Value) -> Value {
    json!({ "generation": "7", "revision": revision, "noise": { "sigma": 0.01, "seed": 3 }, "solutions": solutions })
}

fn simple(revision: &str) -> Value {
    script(revision, json!([solution(10, "default", 100.0, json!("none")), solution(11, "good", 60.0, json!("none"))]))
}

#[test]
fn every_fault_is_the_outcome_it_is_and_the_right_winner_is_chosen() {
    let faults = [
        ("wrong", json!("wrong"), &[OutcomeKind::Wrong][..]),
        ("nan", json!("nan"), &[OutcomeKind::Wrong]),
        ("unwritten", json!("unwritten"), &[OutcomeKind::Wrong]),
        ("out of bounds", json!("out_of_bounds"), &[OutcomeKind::Wrong]),
        ("nondeterministic", json!("nondeterministic"), &[OutcomeKind::Nondeterministic, OutcomeKind::Wrong]),
        ("hang", json!("hang"), &[OutcomeKind::Hung]),
        ("abort", json!("abort"), &[OutcomeKind::Crashed]),
        ("segfault", json!("segfault"), &[OutcomeKind::Crashed]),
        ("illegal address", json!("illegal_address"), &[OutcomeKind::Crashed]),
        ("status", json!({ "error_status": 7 }), &[OutcomeKind::Unsupported]),
    ];
    let mut solutions = vec![
        solution(10, "default", 100.0, json!("none")),
        solution(11, "good", 60.0, json!("none")),
        solution(12, "slow", 900.0, json!("none")),
        solution(13, "not captured", 70.0, json!("capture_fails")),
    ];
    solutions.extend(
        faults.iter().enumerate().map(|(at, (name, fault, _))| solution(20 + at as i64, name, 5.0, fault.clone())),
    );
    let rocm = Rocm::new(7, &script("aaaa", Value::Array(solutions)));
    let output = rocm.sweep(&rocm.untuned(&[3]), &["--effort", "full", "--via", "lt_matmul"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let found = trials_of(&rocm.db(), 3);
    let outcome = |name: &str| {
        let named: Vec<_> = found.iter().filter(|trial| trial.solution.name == *name).collect();
        assert_eq!(named.len(), 1, "{name} has exactly one outcome\n{}", stderr(&output));
        named[0].outcome.clone()
    };
    for (name, _, expected) in &faults {
        let outcome = outcome(name);
        assert!(expected.contains(&outcome.kind), "{name}: {} {}", outcome.kind, outcome.detail);
    }
    assert_eq!(outcome("good").kind, OutcomeKind::Ok);
    assert_eq!(outcome("slow").kind, OutcomeKind::Pruned);
    let not_captured = found.iter().find(|trial| trial.solution.name == *"not captured").expect("tried");
    assert_eq!(not_captured.solution.graph_safe, Some(false));
    let choices = Store::open_read_only(&rocm.db()).expect("opens").choices().expect("reads");
    assert_eq!(choices.len(), 1);
    assert_eq!((&*choices[0].solution.name, choices[0].verdict), ("good", Verdict::Faster));
}

fn trials_of(db: &Path, m: u32) -> Vec<tgemm_db::Trial> {
    let store = Store::open_read_only(db).expect("opens");
    let environments = store.environments().expect("reads");
    store.trials(environments[0].0, &problem(m)).expect("reads")
}

#[test]
fn a_stored_choice_is_found_again_and_another_build_refuses_it_by_name() {
    let rocm = Rocm::new(7, &simple("aaaa"));
    let output = rocm.sweep(&rocm.untuned(&[4]), &[]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let db = rocm.db().display().to_string();
    let verify = |rocm: &Rocm| rocm.run(&["verify", "--db", &db, "--device", "hip:0", "--sample", "0.1"]);
    let again = verify(&rocm);
    assert_eq!(code(&again), 0, "{}{}", stdout(&again), stderr(&again));
    assert!(stdout(&again).contains("holds"), "{}", stdout(&again));
    rocm.play(&simple("bbbb"));
    let other = verify(&rocm);
    assert_eq!(code(&other), 1, "{}", stdout(&other));
    let text = stdout(&other);
    assert!(text.contains("hipblaslt revision was aaaa when tuned, is bbbb here"), "{text}");
}

#[test]
fn the_libraries_are_found_by_the_names_of_their_generation_and_old_ones_are_refused() {
    for (generation, version) in [(7, "hip 7.2"), (6, "hip 6.4")] {
        let rocm = Rocm::new(generation, &json!({ "generation": generation.to_string() }));
        let text = stdout(&rocm.run(&["doctor"]));
        for expected in [version, "hipblaslt", "rocblas"] {
            assert!(text.contains(expected), "{generation}: {text}");
        }
        let devices = stdout(&rocm.run(&["devices"]));
        assert!(devices.contains("gfx942/304/192GiB"), "{devices}");
    }
    let old = Rocm::new(5, &json!({ "generation": "5" }));
    let output = old.sweep(&old.untuned(&[1]), &[]);
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    assert!(stderr(&output).contains("ROCm 6.0 or newer is needed"), "{}", stderr(&output));
}

fn chosen(db: &Path) -> BTreeSet<String> {
    let store = Store::open_read_only(db).expect("opens");
    store.integrity_check().expect("sound");
    store.choices().expect("reads").iter().map(|choice| choice.problem.to_string()).collect()
}

#[test]
fn killed_sweeps_lose_nothing() {
    const PROBLEMS: u32 = 6;
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (kills, seed) = (number("TGEMM_KILLS").unwrap_or(4), number("TGEMM_SEED").unwrap_or(20_261_130));
    println!("seed {seed}, {kills} kills (TGEMM_SEED={seed} TGEMM_KILLS={kills} repeats this)");
    let mut rng = Shuffle::new(seed);
    let rocm = Rocm::new(7, &simple("aaaa"));
    let untuned = rocm.untuned(&(1..=PROBLEMS).collect::<Vec<_>>());
    let mut before = BTreeSet::new();
    for round in 0..kills {
        let mut command = rocm.tune();
        command.arg("sweep").arg(&untuned).arg("--db").arg(rocm.db()).args(["--device", "hip:0"]);
        command.args(["--sample", "0.1", "--rotate", "64K"]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut parent = command.spawn().expect("tune starts");
        std::thread::sleep(Duration::from_millis(20 + rng.next_u64() % 600));
        if rng.next_u64().is_multiple_of(2) {
            // The worker alone: the sweep goes on with a fresh one.
            let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", parent.id()));
            let worker = children.ok().and_then(|text| text.split_whitespace().next()?.parse::<i32>().ok());
            if let Some(pid) = worker.and_then(rustix::process::Pid::from_raw) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(rng.next_u64() % 200));
        }
        parent.kill().expect("killed");
        parent.wait().expect("reaped");
        if rocm.db().exists() {
            Store::open(&rocm.db()).and_then(Store::close).unwrap_or_else(|e| panic!("round {round}: {e}"));
            let after = chosen(&rocm.db());
            assert!(after.is_superset(&before), "seed {seed}, round {round}: a finished choice was lost");
            before = after;
        }
    }
    let output = rocm.sweep(&untuned, &[]);
    assert_eq!(code(&output), 0, "seed {seed}: {}", stderr(&output));
    assert_eq!(chosen(&rocm.db()).len() as u32, PROBLEMS, "seed {seed}");
}
