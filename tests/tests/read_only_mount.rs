//! Tables on a read-only mount, where not even the superuser may write: what is whole opens as anywhere, what cannot be read
//! there says why and what to do, and nothing is written.
//!
//! The test starts itself again in a mount name space of its own, whose mounts vanish with it.

#[path = "../own_mounts.rs"]
mod own_mounts;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tgemm_db::format::tuned;
use tgemm_db::store::{RunInfo, Store};
use tgemm_db::{Build, Choice, Constraints, DType, Device, Environment, Problem, Site, Solution, Vendor};
use tgemm_lookup::{Database, HitKind, Layers, Levels, Live, Refreshed};

const ROWS: u32 = 20;

fn here() -> Environment {
    let device = Device::named(Vendor::Cpu, "x86_64-v4", 2);
    Environment { device, builds: Vec::new(), driver: String::new(), vars: BTreeMap::new() }
}

fn problem(m: u32) -> Problem {
    Site::linear(64, 64, DType::F32).at(m).into()
}

fn rows() -> Vec<Choice> {
    let row = |m: u32| {
        let solution = Solution::bare(Build::unknown("gemm"), m.into(), "gemm");
        Choice::uncompared(problem(m), here().device, solution, 1.0)
    };
    (1..=ROWS).map(row).collect()
}

fn filled(path: &Path) -> Store {
    let mut store = Store::open(path).unwrap();
    let run = RunInfo { tool_version: "0".into(), command_line: String::new(), options: Default::default() };
    let run = store.begin_run(&run).unwrap();
    store.import_choices(run, &Constraints::default(), &rows()).unwrap();
    store
}

/// Every state in which a table may have been put on such a medium.
fn fill(folder: &Path) {
    tuned::write(&folder.join("t.csv"), &rows()).unwrap();
    filled(&folder.join("closed.sqlite")).close().unwrap();
    // A sweep that still writes, copied with its log and its index, with its log alone, and without either.
    let open = filled(&folder.join("open.sqlite"));
    let copy = |from: &str, to: &str| std::fs::copy(folder.join(from), folder.join(to)).map(drop);
    for (to, suffixes) in [("all", &["-wal", "-shm"][..]), ("log", &["-wal"]), ("bare", &[])] {
        copy("open.sqlite", &format!("{to}.sqlite")).unwrap();
        for suffix in suffixes {
            copy(&format!("open.sqlite{suffix}"), &format!("{to}.sqlite{suffix}")).unwrap();
        }
    }
    open.close().unwrap();
    std::fs::remove_file(folder.join("open.sqlite")).unwrap();
    // A log of no bytes, as a sweep leaves that was killed when it had just begun.
    copy("closed.sqlite", "empty_log.sqlite").unwrap();
    std::fs::write(folder.join("empty_log.sqlite-wal"), "").unwrap();
    // A journal that may have to be rolled back.
    copy("closed.sqlite", "journal.sqlite").unwrap();
    std::fs::write(folder.join("journal.sqlite-journal"), [0xd9; 4096]).unwrap();
}

#[test]
fn tables_open_from_a_read_only_mount_or_say_why_not() {
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path());
    let mount = "mount --bind \"$D\" \"$D\" && mount -o remount,bind,ro \"$D\" && ! touch \"$D/x\" 2>/dev/null";
    own_mounts::run(folder.path(), "body_on_a_read_only_mount", mount);
}

/// Every file with its content.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

#[test]
#[ignore = "body of tables_open_from_a_read_only_mount_or_say_why_not"]
fn body_on_a_read_only_mount() {
    let Some(folder) = std::env::var_os(own_mounts::FOLDER).map(PathBuf::from) else { return };
    let before = files(&folder);
    for name in ["t.csv", "closed.sqlite", "empty_log.sqlite"] {
        let path = folder.join(name);
        let (database, report) = Database::open(std::slice::from_ref(&path), &here());
        assert!(report.is_clean() && database.choices() == rows(), "{report}");
        let hit = database.lookup(&problem(7), &Constraints::default());
        assert_eq!((hit.kind, hit.choice.map(|choice| choice.solution.index)), (HitKind::Exact, Some(7)), "{name}");
        let (live, report) = Live::open(Layers::default().with_site([path]), here(), Levels::default());
        assert!(report.is_clean(), "{report}");
        assert!(matches!(live.refresh(), Refreshed::Unchanged | Refreshed::Replaced(_)), "{name}");
    }
    for name in ["all.sqlite", "log.sqlite", "journal.sqlite"] {
        let (database, report) = Database::open(&[folder.join(name)], &here());
        println!("{report}");
        match &report.files[0].error {
            None => assert_eq!(database.choices(), rows(), "{name}: all or nothing"),
            Some(error) => {
                assert!(database.is_empty(), "{name}: rows of a file that is not read");
                assert!(error.contains("read-only") && error.contains("copy the file with its -wal"), "{error}");
            }
        }
    }
    // What was in the log is gone with it, and nothing is left to tell.
    let (database, report) = Database::open(&[folder.join("bare.sqlite")], &here());
    println!("{report}");
    assert!(!report.is_clean() || database.is_empty() || database.choices() == rows(), "{report}");
    assert_eq!(files(&folder), before, "something was written");
}
