//! SIGKILL of the sweep or of its worker at random moments: nothing that was finished is lost, and a sweep that is
//! started again ends with the same problems chosen.
//!
//! The quick number of kills runs with the other tests; `TGEMM_KILLS=50` (see CONTRIBUTING) is the long run. A failure
//! prints its seed; `TGEMM_SEED` repeats it.

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use common::{Scratch, code, stderr, sweep, tune};
use serde_json::json;
use tgemm_db::store::Store;
use tgemm_tuner::stats::Shuffle;

const PROBLEMS: u32 = 12;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A device whose launches take real time, so that there is something to interrupt.
fn device(scratch: &Scratch) -> String {
    let solutions: Vec<_> = (0..6)
        .map(|i| {
            let baseline = (i == 0).then_some("scripted gemm");
            json!({ "name": format!("s{i}"), "time_us": 100 - i, "noise": 0.02, "baseline": baseline })
        })
        .collect();
    let path =
        scratch.write("script.json", json!({ "seed": 7, "real_time": true, "solutions": solutions }).to_string());
    format!("scripted:{}", path.display())
}

fn start(db: &Path, device: &str, untuned: &Path) -> Child {
    let mut command = tune();
    command.arg("sweep").arg(untuned).arg("--db").arg(db).args(["--device", device, "--sample", "0.3"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("tune starts")
}

/// The worker of `parent`, if it has one right now.
fn worker_of(parent: u32) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

fn kill(pid: u32) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid as i32) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

fn chosen(db: &Path) -> BTreeSet<String> {
    let store = Store::open_read_only(db).expect("opens");
    store.integrity_check().expect("sound");
    store.choices().expect("reads").iter().map(|choice| choice.problem.to_string()).collect()
}

#[test]
fn killed_sweeps_resume_to_the_same_set_of_problems() {
    let kills = setting("TGEMM_KILLS", 8);
    let seed = setting("TGEMM_SEED", Instant::now().elapsed().as_nanos() as u64 ^ u64::from(std::process::id()));
    println!("seed {seed}, {kills} kills (TGEMM_SEED={seed} TGEMM_KILLS={kills} repeats this)");
    let mut rng = Shuffle::new(seed);
    let scratch = Scratch::new();
    let device = device(&scratch);
    let untuned = scratch.untuned(&(1..=PROBLEMS).collect::<Vec<_>>());
    let db = scratch.path("db.sqlite");
    let mut before = BTreeSet::new();
    for round in 0..kills {
        let mut parent = start(&db, &device, &untuned);
        std::thread::sleep(Duration::from_millis(rng.next_u64() % 900));
        let worker = worker_of(parent.id());
        if rng.next_u64().is_multiple_of(2) {
            // The worker dies, the sweep goes on; then the sweep itself.
            worker.into_iter().for_each(kill);
            std::thread::sleep(Duration::from_millis(rng.next_u64() % 300));
        }
        kill(parent.id());
        parent.wait().expect("reaped");
        if !db.exists() {
            continue;
        }
        // A later writer must find the file free: the lock died with its holder.
        Store::open(&db).and_then(Store::close).unwrap_or_else(|e| panic!("seed {seed}, round {round}: {e}"));
        let after = chosen(&db);
        assert!(after.is_superset(&before), "seed {seed}, round {round}: a finished choice was lost");
        before = after;
    }
    let output = sweep(&scratch, &device, &untuned, &["--sample", "0.3"]);
    assert_eq!(code(&output), 0, "seed {seed}: {}", stderr(&output));
    assert_eq!(chosen(&db).len() as u32, PROBLEMS, "seed {seed}");
    // Everything is done: one more run has nothing left to tune.
    let again = sweep(&scratch, &device, &untuned, &[]);
    assert!(stderr(&again).contains("0 problems to tune, 12 chosen already"), "{}", stderr(&again));
}

#[test]
fn a_worker_goes_with_its_parent() {
    let scratch = Scratch::new();
    let device = device(&scratch);
    let untuned = scratch.untuned(&(1..=PROBLEMS).collect::<Vec<_>>());
    let mut parent = start(&scratch.path("db.sqlite"), &device, &untuned);
    let started = Instant::now();
    let worker = loop {
        if let Some(worker) = worker_of(parent.id()) {
            break worker;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "no worker was started");
        std::thread::sleep(Duration::from_millis(5));
    };
    // Give the worker the moment it needs to tie itself to its parent.
    std::thread::sleep(Duration::from_millis(200));
    kill(parent.id());
    parent.wait().expect("reaped");
    let gone = || {
        !Path::new(&format!("/proc/{worker}/exe")).exists()
            || std::fs::read_link(format!("/proc/{worker}/exe")).is_err()
    };
    let killed = Instant::now();
    while !gone() {
        assert!(killed.elapsed() < Duration::from_secs(5), "the worker outlives its parent");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn an_interrupt_keeps_everything_and_ends_with_130() {
    let scratch = Scratch::new();
    let device = device(&scratch);
    let untuned = scratch.untuned(&(1..=PROBLEMS).collect::<Vec<_>>());
    let db = scratch.path("db.sqlite");
    let csv = scratch.path("out.csv");
    let mut command = tune();
    command.arg("sweep").arg(&untuned).arg("--db").arg(&db).arg("--csv").arg(&csv);
    command.args(["--device", &device, "--sample", "0.3"]);
    let parent = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("tune starts");
    let started = Instant::now();
    while !(db.exists() && Store::open_read_only(&db).is_ok_and(|s| s.choices().is_ok_and(|c| !c.is_empty()))) {
        assert!(started.elapsed() < Duration::from_secs(60), "no choice was made");
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = rustix::process::Pid::from_raw(parent.id() as i32).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("signalled");
    let output = parent.wait_with_output().expect("ends");
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    let kept = chosen(&db);
    assert!(!kept.is_empty() && kept.len() < PROBLEMS as usize, "{} kept", kept.len());
    let rows = tgemm_db::format::read_choices(&csv, &Default::default()).expect("reads");
    assert_eq!(rows.rows.len(), kept.len(), "the CSV holds what is stored");
}
