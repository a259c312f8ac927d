//! The recorder's promises, kept: exact counts, threads, forks, kills, full disks and hosts left unharmed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use tgemm_db::format::read_untuned;
use tgemm_db::{DType, Problem, Site, Via};
use tgemm_recorder::{PROBLEMS_MAX, Recorder, RecorderOptions};

fn problem(m: u32) -> Problem {
    Site::linear(64, 128, DType::F32).at(m).into()
}

/// Every CSV file in a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// The lines of a file as (M, count), after checking that it holds one header and only whole lines.
fn lines(path: &Path) -> Vec<(u32, u64)> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.ends_with('\n'), "{path:?} ends in half a line");
    let read = read_untuned(path).unwrap();
    assert!(read.rejected.is_empty(), "{:?}", read.rejected);
    read.into_values().map(|row| (row.problem.m(), row.count)).collect()
}

/// Counts by M, summed over files.
fn sums<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> BTreeMap<u32, u64> {
    let mut sums = BTreeMap::new();
    for (m, count) in paths.into_iter().flat_map(|path| lines(path)) {
        *sums.entry(m).or_default() += count;
    }
    sums
}

/// Runs `child` in a forked process that ends without exit handlers; gives its pid.
fn fork(child: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the child runs only the given closure, which uses nothing that another thread could hold, and `_exit`s.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        let ok = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).is_ok();
        // SAFETY: ends the child without running the test harness's exit handlers.
        unsafe { libc::_exit(if ok { 0 } else { 1 }) };
    }
    pid
}

/// Waits for a child; its raw status.
fn wait(pid: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    status
}

#[test]
fn counts_are_exact_and_a_line_is_written_at_every_doubling() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::open(RecorderOptions::to(folder.path()));
    assert!(files(folder.path()).is_empty(), "no file before the first problem");
    for call in 0..100u64 {
        recorder.record(&problem(7), Via::Linear, false);
        let path = recorder.path().unwrap();
        let on_disk: u64 = lines(&path).iter().map(|line| line.1).sum();
        assert!(on_disk * 2 > call + 1, "{on_disk} of {} on disk", call + 1);
    }
    let path = recorder.path().unwrap();
    assert_eq!(lines(&path), [(7, 1), (7, 1), (7, 2), (7, 4), (7, 8), (7, 16), (7, 32)]);
    assert!(recorder.flush());
    assert_eq!(lines(&path).last(), Some(&(7, 36)));
    assert!(recorder.flush());
    assert_eq!(lines(&path).len(), 8, "a flush without news writes nothing");
    recorder.record(&problem(9), Via::Linear, false);
    drop(recorder);
    assert_eq!(sums([&path]), BTreeMap::from([(7, 100), (9, 1)]));
}

#[test]
fn what_is_recorded_reads_back_from_memory_and_first_capture_is_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::open(RecorderOptions::to(folder.path()));
    for _ in 0..3 {
        recorder.record(&problem(1), Via::Linear, false);
    }
    recorder.record(&problem(1), Via::Blas, false);
    let path = recorder.path().unwrap();
    let before = lines(&path).len();
    for _ in 0..5 {
        recorder.record(&problem(1), Via::Linear, true);
    }
    assert!(lines(&path).len() > before);
    let rows = recorder.recorded();
    let flat: Vec<_> = rows.iter().map(|row| (row.via, row.count, row.captured)).collect();
    assert_eq!(flat, [(Via::Blas, 1, false), (Via::Linear, 8, true)]);

    let memory = Recorder::open(RecorderOptions::in_memory());
    memory.record(&problem(3), Via::Linear, false);
    assert_eq!(memory.path(), None);
    assert_eq!(memory.recorded().len(), 1);
}

#[test]
fn eight_threads_lose_nothing() {
    const CALLS: u64 = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::open(RecorderOptions::to(folder.path()));
    std::thread::scope(|scope| {
        for thread in 0..8u32 {
            let recorder = &recorder;
            scope.spawn(move || {
                for call in 0..CALLS {
                    recorder.record(&problem(1), Via::Linear, false);
                    recorder.record(&problem(100 + thread), Via::Linear, false);
                    recorder.record(&problem(1000 + call as u32 % 50), Via::Linear, false);
                }
            });
        }
    });
    let path = recorder.path().unwrap();
    drop(recorder);
    let sums = sums([&path]);
    assert_eq!(sums[&1], 8 * CALLS);
    assert!((0..8).all(|thread| sums[&(100 + thread)] == CALLS));
    assert!((0..50).all(|m| sums[&(1000 + m)] == 8 * CALLS / 50));
    assert_eq!(sums.len(), 1 + 8 + 50);
}

#[test]
fn beyond_the_limit_calls_are_dropped_and_counted() {
    let recorder = Recorder::open(RecorderOptions::in_memory());
    for m in 1..=PROBLEMS_MAX as u32 + 10 {
        recorder.record(&problem(m), Via::Linear, false);
    }
    recorder.record(&problem(1), Via::Linear, false);
    assert_eq!(recorder.dropped(), 10);
    assert_eq!(recorder.recorded().len(), PROBLEMS_MAX);
}

fn forked_children_lose_and_repeat_nothing(target: &Path) {
    let recorder = Recorder::open(RecorderOptions::to(target));
    // Five calls: one line is still to come when the children are made.
    (0..5).for_each(|_| recorder.record(&problem(1), Via::Linear, false));
    let children: Vec<_> = (0..4u32)
        .map(|child| {
            fork(|| {
                // The first one calls nothing: its flush must not write the parent's counts.
                (0..child * 11).for_each(|_| recorder.record(&problem(1), Via::Linear, false));
                (0..3).for_each(|_| recorder.record(&problem(10 + child), Via::Linear, false));
                assert!(recorder.flush());
            })
        })
        .collect();
    (0..6).for_each(|_| recorder.record(&problem(1), Via::Linear, false));
    children.into_iter().for_each(|pid| assert_eq!(wait(pid), 0));
    drop(recorder);
}

#[test]
fn forked_children_write_their_own_files() {
    let folder = tempfile::tempdir().unwrap();
    forked_children_lose_and_repeat_nothing(folder.path());
    let files = files(folder.path());
    assert_eq!(files.len(), 5);
    let expected = BTreeMap::from([(1, 11 + 11 * (1 + 2 + 3)), (10, 3), (11, 3), (12, 3), (13, 3)]);
    assert_eq!(sums(&files), expected);
}

#[test]
fn forked_children_share_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shapes.csv");
    forked_children_lose_and_repeat_nothing(&path);
    let expected = BTreeMap::from([(1, 11 + 11 * (1 + 2 + 3)), (10, 3), (11, 3), (12, 3), (13, 3)]);
    assert_eq!(sums([&path]), expected);
}

#[test]
fn sigkill_leaves_whole_lines_every_problem_and_half_of_each_count() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let folder = tempfile::tempdir().unwrap();
    // SAFETY: a fresh anonymous mapping, shared with the child, never unmapped.
    let shared = unsafe {
        let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        let map = libc::mmap(std::ptr::null_mut(), 4096, prot, flags, -1, 0);
        assert_ne!(map, libc::MAP_FAILED);
        &*map.cast::<AtomicU64>()
    };
    let recorder = Recorder::open(RecorderOptions::to(folder.path()));
    let pid = fork(|| {
        loop {
            let calls = shared.load(Ordering::Relaxed);
            recorder.record(&problem(1 + (calls % 10) as u32), Via::Linear, false);
            shared.store(calls + 1, Ordering::Release);
        }
    });
    std::thread::sleep(Duration::from_millis(40));
    // SAFETY: our own child.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    assert_eq!(libc::WTERMSIG(wait(pid)), libc::SIGKILL);
    let calls = shared.load(Ordering::Acquire);
    let sums = sums(&files(folder.path()));
    assert_eq!(sums.len(), 10.min(calls as usize));
    for (m, sum) in sums {
        let made = calls / 10 + u64::from(u64::from(m - 1) < calls % 10);
        // The call under way when the signal came may be one more.
        assert!(sum * 2 >= made && sum <= made + 1, "M={m}: {sum} of {made}");
    }
}

#[test]
fn a_full_disk_leaves_whole_lines_and_is_made_good_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shapes.csv");
    let recorder = Recorder::open(RecorderOptions::to(&path));
    let pid = fork(|| {
        let limit = |bytes: u64| {
            let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
            // SAFETY: `limit` outlives the call.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
        };
        // SAFETY: without a handler the file-size limit would end the child; a full disk does not signal either.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        // A prime: the limit falls into the middle of a line, so that the last write is a short one.
        limit(1009);
        (1..=200).for_each(|m| recorder.record(&problem(m), Via::Linear, false));
        let held = sums([&path]);
        assert!(!held.is_empty() && held.len() < 100, "{} lines fit", held.len());
        assert!(!recorder.flush());
        assert_eq!(sums([&path]), held);
        limit(libc::RLIM_INFINITY);
        // The next new problem brings along all that wait.
        recorder.record(&problem(201), Via::Linear, false);
        assert_eq!(sums([&path]), (1..=201).map(|m| (m, 1)).collect());
    });
    assert_eq!(wait(pid), 0);
}

#[test]
fn half_a_line_of_another_writer_is_closed_and_the_header_stays_single() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shapes.csv");
    let one = Recorder::open(RecorderOptions::to(&path));
    one.record(&problem(1), Via::Linear, false);
    drop(one);
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{whole}3,64")).unwrap();
    let two = Recorder::open(RecorderOptions::to(&path));
    two.record(&problem(2), Via::Linear, false);
    drop(two);
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert_eq!(lines[2], "3,64");
    assert!(text.starts_with(&whole) && text.ends_with('\n'));
}

#[test]
fn a_place_that_cannot_be_written_harms_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    for target in [file.join("below"), file.join("below.csv"), PathBuf::from("/proc/none"), folder.path().join("d.csv")]
    {
        if target.ends_with("d.csv") {
            fs::create_dir(&target).unwrap();
        }
        let recorder = Recorder::open(RecorderOptions::to(&target));
        (0..9).for_each(|_| recorder.record(&problem(1), Via::Linear, false));
        assert!(!recorder.flush());
        assert_eq!(recorder.recorded()[0].count, 9);
    }
}

#[test]
fn a_pipe_in_the_files_place_does_not_stop_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe.csv");
    let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: `name` outlives the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let recorder = Recorder::open(RecorderOptions::to(&path));
    recorder.record(&problem(1), Via::Linear, false);
    assert!(!recorder.flush());
}

/// Runs [`child_of_the_global_recorder`] in a process of its own.
fn run_child(vars: &[(&str, &str)], folder: &Path) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child_of_the_global_recorder", "--nocapture"]).env("RECORDER_TEST_CHILD", "1");
    command.env_remove("TGEMM_TUNE").env_remove("AITER_TUNE_GEMM").env_remove("TGEMM_UNTUNED");
    command.envs(vars.iter().copied()).current_dir(folder).output().unwrap()
}

#[test]
fn child_of_the_global_recorder() {
    if std::env::var_os("RECORDER_TEST_CHILD").is_none() {
        return;
    }
    if let Some(recorder) = Recorder::global() {
        (0..13).for_each(|_| recorder.record(&problem(5), Via::Linear, false));
    }
    // The harness ends the process by exit: the last counts are written by the exit hook.
}

#[test]
fn the_global_recorder_obeys_its_variables_and_writes_at_exit() {
    let folder = tempfile::tempdir().unwrap();
    let off = run_child(&[], folder.path());
    assert!(off.status.success() && files(folder.path()).is_empty());
    assert!(run_child(&[("TGEMM_TUNE", "1")], folder.path()).status.success());
    assert!(run_child(&[("AITER_TUNE_GEMM", "1")], folder.path()).status.success());
    let recorded = files(&folder.path().join("tgemm-untuned"));
    assert_eq!(recorded.len(), 2);
    assert_eq!(sums(&recorded), BTreeMap::from([(5, 26)]));
    assert!(run_child(&[("TGEMM_TUNE", "1"), ("TGEMM_UNTUNED", "one.csv")], folder.path()).status.success());
    assert_eq!(sums([&folder.path().join("one.csv")]), BTreeMap::from([(5, 13)]));
}

#[test]
fn an_unwritable_place_is_one_line_on_stderr() {
    let folder = tempfile::tempdir().unwrap();
    let output = run_child(&[("TGEMM_TUNE", "1"), ("TGEMM_UNTUNED", "/proc/none/at/all")], folder.path());
    assert!(output.status.success());
    let stderr = String::from_utf8(output.stderr).unwrap();
    let ours: Vec<&str> = stderr.lines().filter(|line| line.starts_with("tgemm:")).collect();
    assert_eq!(ours.len(), 1, "{stderr}");
    assert!(ours[0].contains("/proc/none/at/all") && ours[0].contains("TGEMM_UNTUNED"), "{stderr}");
}
