//! `tune top`: counters of a process that runs, has ended, or was never one of ours.

mod common;

use std::path::Path;
use std::process::{Command, Output};

use common::{Scratch, code, stderr, stdout, tune};
use serde_json::Value;
use tgemm_recorder::counters::{Counter, Counters, start_ticks};

fn top(folder: &Path, pid: u32, more: &[&str]) -> Output {
    tune().arg("top").arg(pid.to_string()).arg("--counters").arg(folder).args(more).output().expect("tune runs")
}

fn lines(output: &Output) -> Vec<Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_running_process_is_shown() {
    let scratch = Scratch::new();
    let folder = scratch.path("counters");
    let counters = Counters::create(&folder).unwrap();
    counters.add(Counter::Seen, 12);
    counters.add(Counter::MissedWorkspace, 3);
    let pid = std::process::id();
    let output = top(&folder, pid, &["--once"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("missed_workspace") && text.contains("12") && !text.contains("applied"), "{text}");
    let shown = lines(&top(&folder, pid, &["--once", "--json"]));
    assert_eq!((shown.len(), shown[0]["counters"]["seen"].as_u64(), &shown[0]["running"]), (1, Some(12), &true.into()));
    assert_eq!(shown[0]["counters"].as_object().unwrap().len(), Counter::ALL.len());
}

#[test]
fn it_is_watched_until_it_ends() {
    let scratch = Scratch::new();
    let mut child = Command::new("sleep").arg("0.6").spawn().unwrap();
    let pid = child.id();
    // The counters of this process, as that one would have written them.
    let counters = Counters::create(&scratch.path("own")).unwrap();
    counters.add(Counter::Applied, 4);
    let mut bytes = std::fs::read(counters.path().unwrap()).unwrap();
    bytes[16..24].copy_from_slice(&u64::from(pid).to_ne_bytes());
    bytes[24..32].copy_from_slice(&start_ticks(pid).unwrap().to_ne_bytes());
    scratch.write(&pid.to_string(), bytes);
    let waited = std::thread::spawn(move || child.wait().unwrap());
    let output = top(&scratch.path(""), pid, &["--interval", "0.1s", "--json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(waited.join().unwrap().success());
    let shown = lines(&output);
    let running: Vec<bool> = shown.iter().map(|line| line["running"].as_bool().unwrap()).collect();
    let (last, before) = running.split_last().unwrap();
    assert!(!last && before.len() > 1 && before.iter().all(|running| *running), "{running:?}");
    assert_eq!((&shown[0]["per_second"], shown[1]["per_second"]["applied"].as_f64()), (&Value::Null, Some(0.0)));
}

#[test]
fn what_an_ended_process_left_is_said_to_be_that() {
    let scratch = Scratch::new();
    let counters = Counters::create(&scratch.path("own")).unwrap();
    counters.add(Counter::Seen, 9);
    let mut bytes = std::fs::read(counters.path().unwrap()).unwrap();
    let pid = std::process::id();
    bytes[24..32].copy_from_slice(&1u64.to_ne_bytes());
    scratch.write(&pid.to_string(), bytes);
    let output = top(&scratch.path(""), pid, &[]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("its process has ended") && stdout(&output).contains('9'), "{}", stderr(&output));
}

#[test]
fn what_is_no_counter_file_is_one_line() {
    let scratch = Scratch::new();
    scratch.write("1", "garbage");
    scratch.write("2", b"tgemmcnt\x02\0\0\0\x0e\0\0\0");
    scratch.write("4", b"tgemmcnt\x01\0\0\0\x0e\0\0\0");
    let parts = [
        "is no counter file",
        "is damaged: it ends after 16 bytes",
        "no such file",
        "is of version 1, this program reads 2",
    ];
    for (pid, part) in (1..).zip(parts) {
        let output = top(&scratch.path(""), pid, &["--once"]);
        assert_eq!(code(&output), 2, "{part}");
        assert!(stderr(&output).contains(part) && stderr(&output).lines().count() == 1, "{}", stderr(&output));
    }
}
