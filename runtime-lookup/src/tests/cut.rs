//! Files that were cut anywhere, and files where nothing may be written.

use std::path::{Path, PathBuf};

use tgemm_db::format::tuned;
use tgemm_db::{Choice, DType, Problem, Site};

use super::{choice, here};
use crate::Database;
use crate::load::FileReport;

fn rows(count: u32) -> Vec<Choice> {
    let problem = |m: u32| -> Problem { Site::linear(1024, 3072, DType::Bf16).at(m).into() };
    (1..=count).map(|m| choice(problem(m))).collect()
}

fn open(path: &Path) -> (Database, FileReport) {
    let (database, mut report) = Database::open(&[path.to_owned()], &here());
    (database, report.files.remove(0))
}

fn scratch(name: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    (folder, path)
}

/// Writes each beginning of `text`, a table with a header that holds `rows`, and opens it.
fn gives_its_whole_rows_wherever_it_is_cut(path: &Path, text: &str, rows: &[Choice]) {
    for at in 0..=text.len() {
        std::fs::write(path, &text[..at]).unwrap();
        let (database, report) = open(path);
        let whole = text[..at].matches('\n').count().saturating_sub(1);
        let kept = database.choices();
        // The last line may be whole but for its end, or for its last cell, which says nothing of what runs.
        assert!(kept.len() == whole || kept.len() == whole + 1, "cut at {at}: {} of {whole}", kept.len());
        assert!(kept == &rows[..kept.len()], "cut at {at}");
        let is_at_line_end = at > 0 && text.as_bytes()[at - 1] == b'\n';
        assert_eq!(report.is_clean(), is_at_line_end, "cut at {at}: {report}");
    }
}

#[test]
fn a_table_cut_at_any_byte_gives_its_whole_rows_and_says_that_it_was_cut() {
    let (_folder, path) = scratch("t.csv");
    let rows = rows(4);
    let text = tuned::to_text(&rows);
    gives_its_whole_rows_wherever_it_is_cut(&path, &text, &rows);
}

#[test]
fn an_aiter_table_cut_at_any_byte_gives_its_whole_rows_and_says_that_it_was_cut() {
    let (_folder, path) = scratch("aiter.csv");
    let row = |m: u32| {
        format!("gfx942,304,{m},1024,3072,False,torch.bfloat16,torch.bfloat16,False,False,asm,1,0,9.5,kern,0,1.5,2.5\n")
    };
    let header = tgemm_db::format::aiter::COLUMNS.join(",") + "\n";
    let text = header.clone() + &[row(64), row(80), row(512)].concat();
    std::fs::write(&path, &text).unwrap();
    let (all, report) = open(&path);
    assert!(report.is_clean() && all.len() == 3, "{report}");
    gives_its_whole_rows_wherever_it_is_cut(&path, &text, all.choices());
}

#[cfg(feature = "sqlite")]
fn store(path: &Path, rows: &[Choice]) {
    use tgemm_db::store::{RunInfo, Store};
    let mut store = Store::open(path).unwrap();
    let run = RunInfo { tool_version: "0".into(), command_line: String::new(), options: Default::default() };
    let run = store.begin_run(&run).unwrap();
    let environment = store.environment(&here()).unwrap();
    store.save_choices(run, environment, &Default::default(), rows).unwrap();
    store.close().unwrap();
}

#[cfg(feature = "sqlite")]
#[test]
fn a_database_cut_at_any_byte_is_whole_or_says_that_it_is_not() {
    let (_folder, path) = scratch("t.sqlite");
    let rows = rows(300);
    store(&path, &rows);
    let bytes = std::fs::read(&path).unwrap();
    // All of the header, around each page, and every so many bytes between.
    let pages = (0..bytes.len()).step_by(512).flat_map(|page| [page.saturating_sub(1), page, page + 1]);
    let cuts = (0..=120).chain(pages).chain((0..bytes.len()).step_by(997)).filter(|&at| at < bytes.len());
    for at in cuts {
        std::fs::write(&path, &bytes[..at]).unwrap();
        let (database, report) = open(&path);
        assert!(report.error.is_some(), "cut at {at} of {}: {report}", bytes.len());
        assert_eq!(database.len(), 0, "rows of a file that is not whole");
    }
    std::fs::write(&path, &bytes).unwrap();
    let (database, report) = open(&path);
    assert!(report.is_clean() && database.choices() == rows, "{report}");
}

/// The log of a sweep that was killed: whole transactions count, and no more.
#[cfg(feature = "sqlite")]
#[test]
fn a_log_cut_at_any_byte_gives_whole_transactions_or_says_why_not() {
    use tgemm_db::store::{RunInfo, Store};
    let (folder, live) = scratch("live.sqlite");
    let (first, all) = (rows(20), rows(60));
    let mut store = Store::open(&live).unwrap();
    let run = RunInfo { tool_version: "0".into(), command_line: String::new(), options: Default::default() };
    let run = store.begin_run(&run).unwrap();
    let environment = store.environment(&here()).unwrap();
    for part in [&all[..20], &all[20..]] {
        store.save_choices(run, environment, &Default::default(), part).unwrap();
    }
    let read = |suffix: &str| std::fs::read(folder.path().join(format!("live.sqlite{suffix}"))).unwrap();
    let (file, log) = (read(""), read("-wal"));
    let (path, beside) = (folder.path().join("cut.sqlite"), folder.path().join("cut.sqlite-wal"));
    let mut counts = std::collections::BTreeSet::new();
    for at in (0..=40).chain((0..log.len()).step_by(509)).chain([log.len() - 1, log.len()]) {
        std::fs::write(&path, &file).unwrap();
        std::fs::write(&beside, &log[..at]).unwrap();
        let (database, report) = open(&path);
        let is_whole = [&[][..], &first, &all].contains(&database.choices());
        assert!(is_whole && (report.is_clean() || database.is_empty()), "cut at {at} of {}: {report}", log.len());
        counts.insert(database.len());
        for left in [&beside, &folder.path().join("cut.sqlite-shm")] {
            let _ = std::fs::remove_file(left);
        }
    }
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), [0, 20, 60], "a log of two transactions");
}

/// Root may write anywhere: then only the bits are as they would be.
#[cfg(unix)]
#[test]
fn a_read_only_folder_is_read_and_left_as_it_was() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let rows = rows(20);
    let csv = folder.path().join("t.csv");
    tuned::write(&csv, &rows).unwrap();
    let mut files = vec![csv];
    if cfg!(feature = "sqlite") {
        #[cfg(feature = "sqlite")]
        store(&folder.path().join("t.sqlite"), &rows);
        files.push(folder.path().join("t.sqlite"));
    }
    let names = || std::fs::read_dir(folder.path()).unwrap().count();
    let before = names();
    let mode = |path: &Path, mode: u32| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    files.iter().for_each(|file| mode(file, 0o444));
    mode(folder.path(), 0o555);
    for file in &files {
        let (database, report) = open(file);
        assert!(report.is_clean() && database.choices() == rows, "{report}");
    }
    assert_eq!(names(), before);
    mode(folder.path(), 0o755);
}
