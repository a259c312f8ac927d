//! Hosts of every kind: with the shim in them they print what they print without it and end as they end without it, and what
//! they did is recorded.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use common::{Bench, HOST_PARTS, complaint, counts_by_m, files, said};

/// A way a host can be.
struct Mode<'a> {
    arguments: &'a [&'a str],
    code: i32,
}

/// What is said once where recorded problems cannot be written for a while.
const UNWRITTEN: &str = "tgemm: recorded problems cannot be written to ";

impl Mode<'_> {
    fn run(&self, mut command: Command) -> Output {
        let output = command.args(self.arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(self.code), "{command:?}: {:?} {output:?}", output.status);
        output
    }

    /// Runs the host without us, with us switched off and recording: alike. What was recorded, by M.
    fn check(&self, bench: &Bench, host: &Path) -> BTreeMap<u32, u64> {
        let alone = self.run(bench.alone(host));
        let both = |output: &Output| (said(output), complaint(output));
        assert_eq!(both(&self.run(bench.off(host))), both(&alone), "{:?}", self.arguments);
        let recording = self.run(bench.recording(host, "recorded"));
        assert_eq!(said(&recording), said(&alone), "{:?}", self.arguments);
        // A host that leaves us no room is told so, once.
        let complaint = complaint(&recording);
        let is_told = ["handlers", "limited", "descriptors"].contains(&self.arguments[0]);
        assert_eq!(complaint.lines().count(), usize::from(is_told), "{complaint}");
        assert!(!is_told || complaint.starts_with(UNWRITTEN), "{complaint}");
        counts_by_m(&bench.path("recorded"))
    }
}

fn checked(arguments: &[&str], code: i32) -> Option<(Bench, BTreeMap<u32, u64>)> {
    let bench = Bench::new()?;
    let host = bench.host();
    let counts = Mode { arguments, code }.check(&bench, &host);
    Some((bench, counts))
}

#[test]
fn nothing_to_do_leaves_nothing() {
    let Some(bench) = Bench::new() else { return };
    let host = bench.host();
    // Without a folder of our own: it would be in /dev/shm.
    let kept = |mut command: Command, keep: &str| {
        command.args(["calls", "1", "5"]).stdout(Stdio::null());
        command.env_remove("TGEMM_COUNTERS").env("TGEMM_COUNTERS_KEEP", keep).env_remove("TGEMM_UNTUNED");
        let mut child = command.spawn().unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(3));
        // SAFETY: asks for a number.
        PathBuf::from(format!("/dev/shm/tgemm-{}/{}", unsafe { libc::geteuid() }, child.id()))
    };
    assert!(!kept(bench.off(&host), "1").exists());
    assert!(!bench.path("tgemm-untuned").exists());
    let counters = kept(bench.recording(&host, "recorded"), "1");
    if Path::new("/dev/shm").is_dir() {
        assert!(counters.exists(), "what is on is there, so that the check above could have failed");
        fs::remove_file(counters).unwrap();
    }
    assert!(bench.path("tgemm-untuned").exists());
    assert!(!kept(bench.recording(&host, "recorded"), "0").exists(), "what is on cleans up");
}

#[test]
fn processes_of_threads_lose_nothing_and_repeat_nothing() {
    const PROCESSES: u64 = 8;
    const THREADS: u64 = 8;
    const CALLS: u64 = 2000;
    let Some(bench) = Bench::new() else { return };
    let host = bench.host();
    for (place, files_expected) in [("folder", PROCESSES as usize), ("one.csv", 1)] {
        let start = |_| {
            let mut command = bench.recording(&host, place);
            command.args(["threads", &THREADS.to_string(), &CALLS.to_string()]).stdout(Stdio::null()).spawn().unwrap()
        };
        let hosts: Vec<_> = (0..PROCESSES).map(start).collect();
        hosts.into_iter().for_each(|mut host| assert_eq!(host.wait().unwrap().code(), Some(4)));
        let mut wanted = BTreeMap::from([(1, PROCESSES * THREADS * CALLS), (2, PROCESSES)]);
        wanted.extend((0..THREADS as u32).map(|thread| (100 + thread, PROCESSES * CALLS)));
        wanted.extend((0..50).map(|m| (1000 + m, PROCESSES * THREADS * CALLS / 50)));
        assert_eq!(counts_by_m(&bench.path(place)), wanted, "{place}");
        assert_eq!(files(&bench.path(place)).len(), files_expected);
    }
}

#[test]
fn threads_that_call_while_the_program_ends() {
    let Some((_bench, counts)) = checked(&["at_exit"], 5) else { return };
    assert_eq!((counts.get(&1), counts.get(&2)), (Some(&50), Some(&1)));
}

#[test]
fn threads_that_call_while_they_end() {
    let Some((_bench, counts)) = checked(&["thread_ends"], 6) else { return };
    assert_eq!(counts, [(2, 1), (6, 10), (7, 60), (8, 60)].into());
}

#[test]
fn calls_among_and_after_the_handlers_of_an_exit() {
    let Some((_bench, counts)) = checked(&["late"], 7) else { return };
    assert_eq!(counts, [(2, 1), (20, 1), (21, 2), (22, 1)].into());
}

#[test]
fn forked_children_that_end_normally_are_exact() {
    let Some((bench, counts)) = checked(&["forks"], 10) else { return };
    assert_eq!(counts, [(1, 11 + 18 + 8), (11, 1), (12, 2), (13, 3)].into());
    assert_eq!(files(&bench.path("recorded")).len(), 5, "a file for each that called");
}

#[test]
fn a_forked_child_that_ends_without_its_handlers_loses_no_problem() {
    let Some((_bench, counts)) = checked(&["fork_ends"], 12) else { return };
    assert_eq!(counts.keys().copied().collect::<Vec<_>>(), [1, 2]);
    assert_eq!(counts[&1], 5 + 2 + 1);
    assert!((2..=3).contains(&counts[&2]), "{counts:?}");
}

#[test]
fn forks_while_threads_record() {
    let Some((_bench, counts)) = checked(&["busy_forks"], 13) else { return };
    assert_eq!(counts.get(&2), Some(&120));
    assert!(counts.len() > 2);
}

#[test]
fn programs_that_are_started_record_too() {
    let Some((_bench, counts)) = checked(&["starts"], 14) else { return };
    assert_eq!(counts, [(1, 9), (3, 30)].into());
}

#[test]
fn a_program_that_is_replaced_has_recorded() {
    let Some((_bench, counts)) = checked(&["execs"], 3) else { return };
    assert_eq!(counts, [(1, 4), (3, 5)].into());
}

#[test]
fn handlers_stacks_and_masks_of_the_host_stay_its_own() {
    let Some((_bench, counts)) = checked(&["handlers"], 15) else { return };
    let mut wanted = BTreeMap::from([(1, 9), (2, 2)]);
    wanted.extend((30..40).map(|m| (m, 1)));
    assert_eq!(counts, wanted);
}

#[test]
fn a_host_without_a_descriptor_to_spare() {
    let Some((_bench, counts)) = checked(&["descriptors"], 16) else { return };
    assert_eq!(counts, [(1, 9), (2, 1), (3, 1), (5, 1)].into());
}

#[test]
fn a_host_that_closes_our_file_keeps_its_own() {
    let Some((bench, counts)) = checked(&["closes", "own"], 17) else { return };
    assert_eq!(fs::read_to_string(bench.path("own")).unwrap(), "mine");
    assert_eq!(counts, [(1, 43), (40, 1), (41, 1)].into());
}

#[test]
fn a_host_with_closed_streams_gets_the_numbers_that_it_expects() {
    let Some((bench, counts)) = checked(&["silent", "own"], 19) else { return };
    assert_eq!(fs::read_to_string(bench.path("own")).unwrap(), "");
    let mut wanted = BTreeMap::from([(1, 3), (2, 3)]);
    wanted.extend((50..60).map(|m| (m, 1)));
    assert_eq!(counts, wanted);
}

#[test]
fn files_that_may_not_grow_are_made_good_later() {
    let Some((_bench, counts)) = checked(&["limited", "1009"], 18) else { return };
    let mut wanted: BTreeMap<u32, u64> = (1..=100).map(|m| (m, 1)).collect();
    wanted.insert(2, 2);
    assert_eq!(counts, wanted);
}

/// The host in `mode`, recording to a `place` where nothing can be written: one line more on its stderr is all.
fn nowhere(bench: &Bench, host: &Path, place: &Path) {
    let mode = Mode { arguments: &["calls", "1", "9", "2", "3"], code: 3 };
    let alone = mode.run(bench.alone(host));
    let output = mode.run(bench.recording(host, place));
    assert_eq!(said(&output), said(&alone));
    let complaint = complaint(&output);
    assert!(complaint.starts_with(UNWRITTEN) && complaint.lines().count() == 1, "{place:?}: {complaint}");
    // Nor does it harm a host whose stderr nobody reads.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = bench.recording(host, place);
    let mut child = command.args(mode.arguments).stdout(Stdio::null()).stderr(writer).spawn().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(mode.code), "{place:?}");
}

#[test]
fn places_that_cannot_be_written_to() {
    let Some(bench) = Bench::new() else { return };
    let host = bench.host();
    fs::write(bench.path("file"), "").unwrap();
    for place in ["/proc/none", "/proc/none.csv", "file/below", "file/below.csv"] {
        nowhere(&bench, &host, Path::new(place));
    }
    let made = Mode { arguments: &["calls", "1", "1"], code: 3 };
    made.run(bench.recording(&host, "not/there/yet"));
    assert_eq!(counts_by_m(&bench.path("not/there/yet")), [(1, 2)].into());
}

/// A file system that is taken away again.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk() {
    let Some(bench) = Bench::new() else { return };
    let host = bench.host();
    let small = bench.path("small");
    fs::create_dir(&small).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k,mode=700", "none"]).arg(&small).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: a small file system cannot be mounted here");
        return;
    }
    let mounted = Mounted(small);
    let filler = mounted.0.join("filler");
    assert!(fs::write(&filler, vec![7; 1 << 20]).is_err(), "the disk is full");
    for place in ["recorded", "recorded.csv"] {
        let place = mounted.0.join(place);
        nowhere(&bench, &host, &place);
        for file in files(&place) {
            assert_eq!(fs::read_to_string(file).unwrap(), "", "whole lines or none");
        }
    }
    fs::remove_file(filler).unwrap();
    let mode = Mode { arguments: &["calls", "1", "9"], code: 3 };
    mode.run(bench.recording(&host, mounted.0.join("recorded.csv")));
    assert_eq!(counts_by_m(&mounted.0.join("recorded.csv")), [(1, 10)].into(), "there is room now");
}

#[test]
fn a_shim_that_is_named_twice_counts_once() {
    let Some(bench) = Bench::new() else { return };
    let host = bench.host();
    let link = bench.path("link.so");
    std::os::unix::fs::symlink(common::shim(), &link).unwrap();
    let mut command = bench.recording(&host, "recorded");
    command.env("LD_PRELOAD", format!("{0}:{1}:{0}", common::shim().display(), link.display()));
    let mode = Mode { arguments: &["calls", "1", "9"], code: 3 };
    assert_eq!(said(&mode.run(command)), said(&mode.run(bench.alone(&host))));
    assert_eq!(counts_by_m(&bench.path("recorded")), [(1, 10)].into());
}

#[test]
fn a_static_program_is_left_alone() {
    let Some(bench) = Bench::new() else { return };
    let blas = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/tinyblas.c");
    if !bench.try_build("static", "host.c", &[&HOST_PARTS[..], &[blas, "-static"]].concat()).status.success() {
        eprintln!("skipped: nothing can be linked statically here");
        return;
    }
    let mode = Mode { arguments: &["calls", "1", "9"], code: 3 };
    assert!(mode.check(&bench, &bench.path("static")).is_empty());
    assert!(!bench.path("recorded").exists());
}
