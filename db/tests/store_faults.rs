//! Kills, full disks, read-only folders: nothing that was acknowledged is lost, nothing is half there.
//!
//! The bodies marked `#[ignore]` are run by the tests beside them in a process of their own, where they may be killed
//! or may see a file system that nobody else sees.
#![cfg(all(feature = "sqlite", target_os = "linux"))]

#[path = "../../tests/own_mounts.rs"]
mod own_mounts;
mod store_words;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use own_mounts::FOLDER;
use store_words::{begin, choice, environment, files, problem, trial};
use tgemm_db::Constraints;
use tgemm_db::store::{Store, StoreError};

const KILLS: u32 = 30;
const BIRTHS: u32 = 15;
/// Sizes of disk that are tried.
const ROOMS: u64 = 45;

fn body_folder() -> Option<PathBuf> {
    let folder = std::env::var_os(FOLDER).map(PathBuf::from);
    if folder.is_none() {
        println!("skipped: runs only inside the test of the same subject");
    }
    folder
}

fn body(name: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--ignored", "--nocapture", "--test-threads=1"]).env(FOLDER, folder);
    command
}

/// A small random number generator (Marsaglia's xorshift64), so that a printed seed replays a run.
struct Random(u64);

impl Random {
    fn seeded() -> Random {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        let seed = std::env::var("TGEMM_TEST_SEED").ok().map_or(now | 1, |text| text.parse().expect("a number"));
        println!("seed: TGEMM_TEST_SEED={seed}");
        Random(seed)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Saves trials and choices forever from `TGEMM_TEST_NEXT` on, one line of acknowledgement each.
#[test]
#[ignore = "body of sigkill_at_any_moment_loses_nothing_acknowledged"]
fn body_writer() {
    let Some(folder) = body_folder() else { return };
    let next: u32 = std::env::var("TGEMM_TEST_NEXT").unwrap().parse().unwrap();
    let mut store = Store::open(&folder.join("t.sqlite")).unwrap();
    let (run, env) = begin(&mut store);
    let mut out = std::io::stdout();
    for number in next.. {
        store.save_trial(run, env, &problem(number), &trial(number.into(), 20)).unwrap();
        writeln!(out, "\ntrial {number}").unwrap();
        // An outcome that is replaced must be there whole too, old or new.
        store.save_trial(run, env, &problem(1), &trial(1, number % 50)).unwrap();
        if number % 5 == 0 {
            store.save_choice(run, env, &Constraints::default(), &choice(number)).unwrap();
            writeln!(out, "\nchoice {number}").unwrap();
        }
        // Now and then a whole life of a store, so that kills meet opening, migrating and folding too.
        if number % 40 == 0 {
            store.close().unwrap();
            store = Store::open(&folder.join("t.sqlite")).unwrap();
        }
    }
}

#[test]
fn sigkill_at_any_moment_loses_nothing_acknowledged() {
    let mut random = Random::seeded();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.sqlite");
    let (mut trials, mut choices) = (Vec::new(), Vec::new());
    for kill in 0..KILLS {
        let next = trials.last().copied().unwrap_or(1) + 10;
        let mut child = body("body_writer", folder.path())
            .env("TGEMM_TEST_NEXT", next.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let reader = std::thread::spawn(move || lines.map_while(Result::ok).collect::<Vec<String>>());
        std::thread::sleep(Duration::from_micros(random.below(140_000)));
        child.kill().unwrap();
        let status = child.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "it saved until it was killed");
        for line in reader.join().unwrap() {
            // Each line is one write of far less than PIPE_BUF: there whole or not at all.
            match line.split_once(' ').map(|(what, number)| (what, number.parse::<u32>())) {
                Some(("trial", Ok(number))) if number >= next => trials.push(number),
                Some(("choice", Ok(number))) if number >= next => choices.push(number),
                _ => {}
            }
        }
        if path.exists() {
            check(&path, &trials, &choices, kill);
        }
    }
    println!("{KILLS} kills, {} trials and {} choices acknowledged", trials.len(), choices.len());
    assert!(!trials.is_empty() && !choices.is_empty(), "the kills came before anything was saved");
    assert_eq!(files(folder.path()), ["t.sqlite"]);
}

#[test]
fn sigkill_while_the_file_is_made_leaves_one_that_opens() {
    let mut random = Random::seeded();
    let mut made = 0;
    for kill in 0..BIRTHS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.sqlite");
        let mut writer = body("body_writer", folder.path());
        let mut child = writer.env("TGEMM_TEST_NEXT", "2").stdout(Stdio::null()).spawn().unwrap();
        // From when the file appears: what comes before is only the start of a process.
        while !path.exists() {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_micros(random.below(25_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        made += u32::from(std::fs::metadata(&path).unwrap().len() > 0);
        check(&path, &[], &[], kill);
        assert_eq!(files(folder.path()), ["t.sqlite"]);
    }
    println!("{BIRTHS} kills, {made} after the first page was there");
}

fn check(path: &Path, trials: &[u32], choices: &[u32], kill: u32) {
    let mut store = Store::open(path).unwrap();
    store.integrity_check().unwrap();
    let env = store.environment(&environment()).unwrap();
    for &number in trials {
        let found = store.trials(env, &problem(number)).unwrap();
        assert_eq!(found, [trial(number.into(), 20)], "kill {kill}: acknowledged trial {number}");
    }
    for &number in choices {
        let constraints = Constraints::default();
        assert!(store.has_choice(env, &constraints, &problem(number)).unwrap(), "kill {kill}: choice {number}");
    }
    for replaced in store.trials(env, &problem(1)).unwrap() {
        assert_eq!(replaced, trial(1, replaced.samples.len() as u32), "kill {kill}: all of it or nothing");
    }
    store.close().unwrap();
}

#[test]
fn a_full_disk_is_one_clear_line_and_keeps_what_was_saved() {
    let folder = tempfile::tempdir().unwrap();
    own_mounts::run(folder.path(), "body_full_disk", "mount -t tmpfs -o size=512k tmpfs \"$D\"");
}

#[test]
#[ignore = "body of a_full_disk_is_one_clear_line_and_keeps_what_was_saved"]
fn body_full_disk() {
    let Some(folder) = body_folder() else { return };
    let path = folder.join("t.sqlite");
    let ballast = folder.join("ballast");
    let full = |error: &StoreError| {
        let message = error.to_string();
        assert!(matches!(error, StoreError::DiskFull { .. }), "{message}");
        assert!(message.starts_with(&format!("{}: the disk is full; ", path.display())), "{message}");
        assert_eq!(message.lines().count(), 1);
    };
    // Not even room to begin: nothing is left behind.
    fill(&ballast, 0);
    full(&Store::open(&path).unwrap_err());
    assert_eq!(files(&folder), ["ballast"]);
    std::fs::remove_file(&ballast).unwrap();

    // Room for some: every acknowledged trial is there, in this process and in the next.
    let mut store = Store::open(&path).unwrap();
    let (run, env) = begin(&mut store);
    let mut saved = 0;
    let error = loop {
        match store.save_trial(run, env, &problem(saved + 1), &trial(1, 100)) {
            Ok(()) => saved += 1,
            Err(error) => break error,
        }
        assert!(saved < 10_000, "the disk never filled");
    };
    full(&error);
    assert!(saved > 5, "{saved} saved");
    let all_there = |store: &Store| {
        store.integrity_check().unwrap();
        for number in 1..=saved {
            assert_eq!(store.trials(env, &problem(number)).unwrap(), [trial(1, 100)], "trial {number}");
        }
        assert_eq!(store.trials(env, &problem(saved + 1)).unwrap(), [], "nothing half-written");
    };
    all_there(&store);
    if let Err(error) = store.close() {
        full(&error);
    }
    all_there(&Store::open_read_only(&path).unwrap());
    println!("{saved} trials saved before the disk was full; files: {:?}", files(&folder));
    std::process::Command::new("mount").args(["-o", "remount,size=4m"]).arg(&folder).status().unwrap();
    let mut store = Store::open(&path).unwrap();
    all_there(&store);
    let (run, env) = begin(&mut store);
    store.save_trial(run, env, &problem(saved + 1), &trial(1, 100)).unwrap();
    store.close().unwrap();
    assert_eq!(files(&folder), ["t.sqlite"]);
}

/// Writes until the disk is full, then gives `spare_bytes` back.
fn fill(ballast: &Path, spare_bytes: u64) {
    let mut file = std::fs::File::create(ballast).unwrap();
    while file.write_all(&[1; 1024]).is_ok() {}
    let length = file.metadata().unwrap().len();
    file.set_len(length.saturating_sub(spare_bytes)).unwrap();
}

#[test]
#[ignore = "body of a_disk_filling_at_any_byte_keeps_what_was_saved"]
fn body_filling_disk() {
    let Some(folder) = body_folder() else { return };
    let (path, ballast) = (folder.join("t.sqlite"), folder.join("ballast"));
    let mut complete = 0u64;
    // Rooms from nothing to enough, two pages at a time: creating, migrating, logging and folding each run out somewhere.
    for spare_pages in (0..2 * ROOMS).step_by(2) {
        fill(&ballast, spare_pages * 4096);
        let mut saved = 0;
        let mut fold = || -> Result<(), StoreError> {
            let mut store = Store::open(&path)?;
            let run = store.begin_run(&store_words::run_info())?;
            let env = store.environment(&environment())?;
            for number in 1..4 {
                store.save_trial(run, env, &problem(number), &trial(1, 50))?;
                saved = number;
            }
            store.save_choice(run, env, &Constraints::default(), &choice(1))?;
            saved = 4;
            store.close()
        };
        match fold() {
            Ok(()) => complete += 1,
            Err(error) => assert!(matches!(error, StoreError::DiskFull { .. }), "{spare_pages} pages: {error}"),
        }
        std::fs::remove_file(&ballast).unwrap();
        let mut store = Store::open(&path).unwrap();
        store.integrity_check().unwrap();
        let env = store.environment(&environment()).unwrap();
        for number in 1..=saved.min(3) {
            assert_eq!(store.trials(env, &problem(number)).unwrap(), [trial(1, 50)], "{spare_pages} pages");
        }
        assert_eq!(store.choices().unwrap().len(), usize::from(saved == 4), "{spare_pages} pages");
        store.close().unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(files(&folder), [""; 0]);
    }
    println!("{complete} of {ROOMS} rooms were enough");
    assert!(complete > 0 && complete < ROOMS / 2);
}

#[test]
fn a_disk_filling_at_any_byte_keeps_what_was_saved() {
    let folder = tempfile::tempdir().unwrap();
    own_mounts::run(folder.path(), "body_filling_disk", "mount -t tmpfs -o size=2m tmpfs \"$D\"");
}

#[test]
fn a_read_only_folder_is_read_and_a_sweep_into_it_refused() {
    let folder = tempfile::tempdir().unwrap();
    // A name that a URI has to spell out.
    let path = folder.path().join("t #1?.sqlite");
    let mut store = Store::open(&path).unwrap();
    let (run, env) = begin(&mut store);
    store.save_choice(run, env, &Constraints::default(), &choice(1)).unwrap();
    store.close().unwrap();
    // One file in write-ahead mode without its log, as from a copy made by hand; and one with a log to be recovered.
    let wal = folder.path().join("wal mode.sqlite");
    std::fs::copy(&path, &wal).unwrap();
    rusqlite::Connection::open(&wal).unwrap().pragma_update(None, "journal_mode", "WAL").unwrap();
    let mut live = Store::open(&folder.path().join("live.sqlite")).unwrap();
    begin(&mut live);
    for suffix in ["", "-wal"] {
        let name = |stem: &str| folder.path().join(format!("{stem}.sqlite{suffix}"));
        std::fs::copy(name("live"), name("killed")).unwrap();
    }
    drop(live);
    own_mounts::run(
        folder.path(),
        "body_read_only",
        "mount --bind \"$D\" \"$D\" && mount -o remount,bind,ro \"$D\" && ! touch \"$D/x\" 2>/dev/null",
    );
}

#[test]
#[ignore = "body of a_read_only_folder_is_read_and_a_sweep_into_it_refused"]
fn body_read_only() {
    let Some(folder) = body_folder() else { return };
    let before = files(&folder);
    let store = Store::open_read_only(&folder.join("t #1?.sqlite")).unwrap();
    assert_eq!(store.choices().unwrap(), [choice(1)]);
    store.integrity_check().unwrap();
    // Nothing tells whether it is whole.
    let error = Store::open_read_only(&folder.join("wal mode.sqlite")).unwrap_err();
    assert!(matches!(error, StoreError::LogMissing { .. }), "{error}");
    let error = Store::open_read_only(&folder.join("killed.sqlite")).unwrap_err();
    assert!(matches!(error, StoreError::NeedsRecovery { .. }), "{error}");
    for name in ["t #1?.sqlite", "new.sqlite"] {
        let error = Store::open(&folder.join(name)).unwrap_err();
        assert!(matches!(error, StoreError::ReadOnly { .. }), "{error}");
        assert!(error.to_string().contains("the file or its folder is read-only; name a --db"), "{error}");
    }
    assert_eq!(files(&folder), before);
}

/// Closing any handle of a file drops all POSIX locks that the process holds on it, SQLite's own among them. An older
/// `sqlite3` that looks in then finds the log unguarded, folds it and removes it under the writer.
#[test]
fn looking_in_the_same_process_does_not_drop_the_writers_locks() {
    use std::os::unix::fs::MetadataExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.sqlite");
    let mut store = Store::open(&path).unwrap();
    begin(&mut store);
    let inode = format!(":{} ", std::fs::metadata(&path).unwrap().ino());
    let locked = || std::fs::read_to_string("/proc/locks").unwrap().lines().any(|line| line.contains(&inode));
    if !locked() {
        println!("skipped: /proc/locks does not show the locks of this file system");
        return;
    }
    drop(Store::open_read_only(&path).unwrap());
    assert!(locked(), "a reader took the writer's lock with it");
    assert!(matches!(Store::open(&path).unwrap_err(), StoreError::Locked { .. }));
    assert!(locked(), "a refused writer took the writer's lock with it");
}
