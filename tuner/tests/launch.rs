//! `tune record CMD` and `tune apply CMD`: the program that runs, how it ends, and what is made of what its processes leave.
//! The shim is played by a library that does nothing, and its files by copies.

mod common;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use common::{Scratch, code, problem, stderr, stdout, tune};
use rustix::process::{Pid, Signal, kill_process};
use tgemm_db::Recorded;
use tgemm_db::format::{read_untuned, untuned};
use tgemm_recorder::counters::{Counter, Counters};

/// A library that every process here has loaded anyway.
fn harmless() -> PathBuf {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let file = maps.split_whitespace().find(|word| word.contains("/libc.so")).expect("a C library");
    Path::new(file).canonicalize().unwrap()
}

/// `tune` in the scratch folder, with a shim.
fn ready(scratch: &Scratch) -> Command {
    let mut command = tune();
    for name in ["LD_PRELOAD", "TGEMM_COUNTERS", "TGEMM_COUNTERS_KEEP", "TGEMM_APPLY"] {
        command.env_remove(name);
    }
    command.current_dir(scratch.path("")).env("TGEMM_SHIM", harmless());
    command
}

/// Has `command` start as from a terminal, whatever the tests were started under: `nohup` ignores SIGHUP, a shell's `&` SIGINT,
/// and what is ignored stays so in all children.
fn with_default_signals(command: &mut Command) {
    const SENT: [i32; 6] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];
    // SAFETY: system calls that may be made after a fork.
    unsafe {
        command.pre_exec(|| {
            for signal in SENT {
                if libc::signal(signal, libc::SIG_DFL) == libc::SIG_ERR {
                    return Err(std::io::Error::last_os_error());
                }
            }
            Ok(())
        });
    }
}

fn record(scratch: &Scratch, script: &str) -> Output {
    ready(scratch).args(["record", "--", "sh", "-c", script]).output().expect("tune runs")
}

/// A process's recording of (M, count).
fn part(scratch: &Scratch, name: &str, rows: &[(u32, u64)]) {
    let row = |&(m, count): &(u32, u64)| Recorded { count, ..Recorded::bare(problem(m)) };
    scratch.write(name, untuned::to_text(&rows.iter().map(row).collect::<Vec<_>>()));
}

fn counts(path: &Path) -> Vec<(u32, u64)> {
    read_untuned(path).unwrap().into_values().map(|row| (row.problem.m(), row.count)).collect()
}

/// What a folder holds, hidden files too.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_program_ends_as_it_would_without_us() {
    let scratch = Scratch::new();
    for (script, ends) in [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)] {
        assert_eq!(code(&record(&scratch, script)), ends, "{script}");
    }
    scratch.write("text", "no program");
    for (program, ends) in [("./none", 127), ("no-such-program-anywhere", 127), ("./text", 126)] {
        let output = ready(&scratch).args(["record", program, "--flag"]).output().unwrap();
        assert_eq!(code(&output), ends, "{program}");
        let said = stderr(&output);
        assert!(
            said.starts_with(&format!("tune: {program}: cannot be started: ")) && said.lines().count() == 1,
            "{said}"
        );
    }
    assert_eq!(names(&scratch.path("")), ["text"], "nothing is left behind");
}

#[test]
fn its_streams_are_ours() {
    let scratch = Scratch::new();
    let mut command = ready(&scratch);
    command.args(["record", "cat"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"through").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(stdout(&output), "through");
}

#[test]
fn what_is_preloaded_stays_and_variables_are_told() {
    let scratch = Scratch::new();
    let mut command = ready(&scratch);
    let other = harmless();
    command.env("LD_PRELOAD", &other);
    command.args(["record", "sh", "-c", "echo $LD_PRELOAD $TGEMM_TUNE; test -d \"$TGEMM_UNTUNED\" && echo folder"]);
    let output = command.output().unwrap();
    assert_eq!(stdout(&output), format!("{}:{} 1\nfolder\n", harmless().display(), other.display()));
}

#[test]
fn signals_that_are_sent_to_us_reach_the_program() {
    let scratch = Scratch::new();
    let signals =
        [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2].map(|signal| (signal, true));
    // Without a trap it dies of the signal, and we say so.
    for (signal, has_trap) in signals.into_iter().chain([(Signal::TERM, false)]) {
        let number = signal.as_raw();
        let trap = if has_trap { format!("trap 'echo got; exit 9' {number};") } else { String::new() };
        let script = format!("{trap} echo ready; while :; do sleep 0.02; done");
        let mut command = ready(&scratch);
        command.args(["record", "sh", "-c", &script]).stdout(Stdio::piped()).stderr(Stdio::null());
        with_default_signals(&mut command);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        kill_process(Pid::from_child(&child), signal).unwrap();
        let status = child.wait().unwrap();
        let mut rest = String::new();
        lines.read_to_string(&mut rest).unwrap();
        let wanted = if has_trap { (Some(9), "got\n") } else { (Some(128 + number), "") };
        assert_eq!((status.code(), rest.as_str()), wanted, "signal {number}: {:?}", status.signal());
    }
}

/// Both ends of a new terminal, ours first.
fn terminal() -> (OwnedFd, OwnedFd) {
    let (mut ours, mut theirs) = (-1, -1);
    let (no_name, no_modes, no_size) = (std::ptr::null_mut(), std::ptr::null(), std::ptr::null());
    // SAFETY: two numbers are written; nulls ask for defaults.
    let made = unsafe { libc::openpty(&raw mut ours, &raw mut theirs, no_name, no_modes, no_size) };
    assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the call has just made them, and nobody else has them.
    unsafe { (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) }
}

#[test]
fn a_key_on_the_terminal_is_pressed_once() {
    let scratch = Scratch::new();
    let (ours, theirs) = terminal();
    let script = "trap 'echo got' INT; echo ready; for i in 1 2 3 4 5 6; do sleep 0.1; done; exit 5";
    let mut command = ready(&scratch);
    command.args(["record", "sh", "-c", script]).stdin(theirs).stdout(Stdio::piped()).stderr(Stdio::null());
    with_default_signals(&mut command);
    // SAFETY: two system calls, made in a child of one thread.
    unsafe {
        command.pre_exec(|| match libc::setsid() >= 0 && libc::ioctl(0, libc::TIOCSCTTY, 0) == 0 {
            true => Ok(()),
            false => Err(std::io::Error::last_os_error()),
        });
    }
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    std::fs::File::from(ours.try_clone().unwrap()).write_all(b"\x03").unwrap();
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!((line.as_str(), rest.as_str(), child.wait().unwrap().code()), ("ready\n", "got\n", Some(5)));
}

#[test]
fn an_ignored_signal_stays_ignored_in_the_program() {
    let scratch = Scratch::new();
    let mut command = Command::new("sh");
    command.current_dir(scratch.path("")).env("TGEMM_SHIM", harmless()).env("TUNE", env!("CARGO_BIN_EXE_tune"));
    command.args(["-c", "trap '' HUP; exec \"$TUNE\" record sh -c 'kill -HUP $$; exit 4'"]);
    assert_eq!(code(&command.output().unwrap()), 4);
}

#[test]
fn the_files_of_all_processes_become_one() {
    let scratch = Scratch::new();
    part(&scratch, "a", &[(1, 3), (2, 5)]);
    part(&scratch, "b", &[(2, 10)]);
    let output = record(&scratch, "cp a $TGEMM_UNTUNED/h-1-1.csv; (cp b $TGEMM_UNTUNED/h-2-1.csv)& wait; cd /; exit 3");
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    assert_eq!(stdout(&output), "");
    assert_eq!(counts(&scratch.path("untuned.csv")), [(1, 3), (2, 15)]);
    assert_eq!(names(&scratch.path("")), ["a", "b", "untuned.csv"]);
    let said = stderr(&output);
    assert!(said.contains("recorded in 2 processes: 2 problems, 18 calls"), "{said}");
    assert!(said.contains("f32") && said.contains("100.0 %") && said.contains("untuned.csv"), "{said}");
}

#[test]
fn a_folder_keeps_the_files_and_sums_all_runs() {
    let scratch = Scratch::new();
    part(&scratch, "a", &[(1, 3)]);
    for (run, sum) in [(1, 3), (2, 6)] {
        let script = format!("cp a $TGEMM_UNTUNED/h-{run}-1.csv; echo 'not, a, row' >> $TGEMM_UNTUNED/h-{run}-1.csv");
        let output = ready(&scratch).args(["record", "-o", "runs", "--", "sh", "-c", &script]).output().unwrap();
        assert_eq!(code(&output), 0);
        assert_eq!(counts(&scratch.path("runs/untuned.csv")), [(1, sum)]);
        assert!(stderr(&output).contains(&format!("{run} lines rejected")), "{}", stderr(&output));
        assert!(stderr(&output).contains(&format!("h-{run}-1.csv:3: ")), "{}", stderr(&output));
    }
    assert_eq!(names(&scratch.path("runs")), ["h-1-1.csv", "h-2-1.csv", "untuned.csv"]);
}

#[test]
fn an_empty_recording_says_why_and_what_else_there_is() {
    let scratch = Scratch::new();
    scratch.write("untuned.csv", "precious");
    let output = record(&scratch, "exit 6");
    assert_eq!(code(&output), 6);
    let said = stderr(&output);
    let parts = [
        "no GEMM call was seen",
        "in no process",
        "ctypes",
        "Triton",
        "--from-log",
        "ROCBLAS_LAYER",
        "AITER_TUNE_GEMM",
    ];
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    assert_eq!(std::fs::read_to_string(scratch.path("untuned.csv")).unwrap(), "precious");
    counted(&scratch, &[(Counter::Seen, 5), (Counter::Unrepresentable, 5)]);
    let said = stderr(&record(&scratch, &format!("{COUNT} exit 0")));
    assert!(said.contains("5 calls were seen, all of kinds"), "{said}");
}

#[test]
fn a_failed_merge_is_a_warning_and_loses_nothing() {
    let scratch = Scratch::new();
    part(&scratch, "a", &[(1, 3)]);
    let output = record(&scratch, "cp a $TGEMM_UNTUNED/h-1-1.csv; mkdir untuned.csv; exit 5");
    assert_eq!(code(&output), 5);
    let said = stderr(&output);
    let kept = said.split("recorded is in ").nth(1).expect("says where").trim();
    assert_eq!(counts(&Path::new(kept).join("h-1-1.csv")), [(1, 3)]);
}

#[test]
fn what_cannot_be_done_is_said_before_the_program_starts() {
    let scratch = Scratch::new();
    let refused = |command: &mut Command, part: &str| {
        let output = command.output().unwrap();
        assert_eq!(code(&output), 2, "{part}: {}", stderr(&output));
        assert!(stderr(&output).contains(part) && stdout(&output).is_empty(), "{part}: {}", stderr(&output));
    };
    refused(ready(&scratch).args(["record", "-o", "/proc/x/y.csv", "echo", "ran"]), "cannot be recorded to");
    refused(ready(&scratch).env("TGEMM_SHIM", "/none.so").args(["record", "echo", "ran"]), "names /none.so");
    refused(ready(&scratch).args(["record", "--from-log", "x", "--", "echo"]), "cannot be used with");
    refused(ready(&scratch).args(["record", "--device", "gfx942/304", "echo", "ran"]), "cannot be used with");
    refused(ready(&scratch).args(["apply", "--db", "none.csv", "--", "echo", "ran"]), "none.csv");
    refused(ready(&scratch).args(["apply", "--db", "/proc", "--", "echo", "ran"]), "/proc");
    refused(ready(&scratch).args(["apply", "--", "echo", "ran"]), "--db");
}

/// Leaves the counters of a process that ended, for `COUNT` to put where they are looked for.
fn counted(scratch: &Scratch, counts: &[(Counter, u64)]) {
    let folder = scratch.path("made");
    let counters = Counters::create(&folder).unwrap();
    counts.iter().for_each(|&(counter, n)| counters.add(counter, n));
    let mut bytes = std::fs::read(counters.path().unwrap()).unwrap();
    bytes[24..32].copy_from_slice(&u64::MAX.to_ne_bytes()); // Started later than any process here.
    drop(counters);
    std::fs::remove_dir(&folder).unwrap();
    scratch.write("counted", bytes);
}

const COUNT: &str = "test $TGEMM_COUNTERS_KEEP = 1 && mkdir -p $TGEMM_COUNTERS && cp counted $TGEMM_COUNTERS/77;";

fn table(scratch: &Scratch) -> PathBuf {
    scratch.write("tuned.csv", tgemm_db::format::tuned::to_text(&[]))
}

fn apply(scratch: &Scratch, more: &[&str], script: &str) -> Output {
    table(scratch);
    let mut command = ready(scratch);
    command.env("TGEMM_DB", "/theirs.csv").args(["apply", "--db", "tuned.csv"]).args(more);
    command.args(["--", "sh", "-c", script]).output().unwrap()
}

#[test]
fn a_program_is_told_what_to_apply() {
    let scratch = Scratch::new();
    let output = apply(&scratch, &[], "echo $TGEMM_APPLY $TGEMM_DB; exit 8");
    assert_eq!(code(&output), 8, "{}", stderr(&output));
    let ours = std::path::absolute(scratch.path("tuned.csv")).unwrap();
    assert_eq!(stdout(&output), format!("1 {}:/theirs.csv\n", ours.display()));
    assert!(stderr(&output).contains("in no process"), "{}", stderr(&output));
    assert_eq!(stdout(&apply(&scratch, &["--dry-run"], "echo $TGEMM_APPLY")), "dry\n");
}

#[test]
fn what_was_applied_is_told_by_reason() {
    let scratch = Scratch::new();
    let figures = [
        (Counter::Seen, 100),
        (Counter::Applied, 60),
        (Counter::MissedNotTuned, 20),
        (Counter::MissedWorkspace, 5),
        (Counter::FallenBackBuildDiffers, 15),
    ];
    counted(&scratch, &figures);
    let output = apply(&scratch, &[], COUNT);
    let wanted =
        "of 100 calls in 1 processes 60 ran a choice; missed: not tuned 20, workspace 5; fallen back: build differs 15";
    assert!(stderr(&output).contains(wanted), "{}", stderr(&output));
    let output = apply(&scratch, &["--counters", "kept", "--dry-run"], COUNT);
    assert!(stderr(&output).contains("0 would have run a choice"), "{}", stderr(&output));
    assert_eq!(names(&scratch.path("kept")), ["77"]);
}
