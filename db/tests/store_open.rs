//! Opening and closing: whose file it is, what is refused in which words, who may write, what is left behind.
#![cfg(feature = "sqlite")]

mod store_words;

use std::path::Path;

use rusqlite::Connection;
use store_words::{begin, choice, environment, files, problem, trial};
use tgemm_db::Constraints;
use tgemm_db::store::{SCHEMA_VERSION, Store, StoreError};

fn filled(path: &Path) {
    let mut store = Store::open(path).unwrap();
    let (run, env) = begin(&mut store);
    store.save_trial(run, env, &problem(1), &trial(1, 3)).unwrap();
    store.save_choice(run, env, &Constraints::default(), &choice(1)).unwrap();
    store.end_run(run, "done").unwrap();
    store.close().unwrap();
}

fn refusals(path: &Path) -> [StoreError; 2] {
    [Store::open(path).unwrap_err(), Store::open_read_only(path).unwrap_err()]
}

/// Both ways of opening refuse with this end of the message, and neither file nor folder is changed.
fn refused_untouched(name: &str, content: &[u8], why: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    for error in refusals(&path) {
        let message = error.to_string();
        assert_eq!(message, format!("{}: {why}", path.display()));
        assert_eq!(message.lines().count(), 1);
    }
    assert_eq!(std::fs::read(&path).unwrap(), content);
    assert_eq!(files(folder.path()), [name], "nothing is left beside it");
}

fn foreign(sql: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("foreign");
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    std::fs::read(path).unwrap()
}

#[test]
fn what_is_not_ours_is_refused_and_not_touched() {
    let not_sqlite = "not a tgemm database (not SQLite); name another file";
    refused_untouched("junk", b"\x7fELF\x02\x01\x01 and more than a hundred bytes would be", not_sqlite);
    refused_untouched("csv", "M,N,K\n".repeat(100).as_bytes(), not_sqlite);
    refused_untouched("torn", b"SQLite format 3\0short", not_sqlite);
    refused_untouched("zeros", &[0; 4096], not_sqlite);
    let other = |id| format!("not a tgemm database (SQLite application id {id}); name another file");
    refused_untouched("unmarked", &foreign("CREATE TABLE a (x)"), &other("0x00000000"));
    refused_untouched("wal", &foreign("PRAGMA journal_mode=WAL; CREATE TABLE a (x)"), &other("0x00000000"));
    refused_untouched("marked", &foreign("PRAGMA application_id=7; CREATE TABLE a (x)"), &other("0x00000007"));
    let newer = foreign("PRAGMA application_id=0x7467656d; PRAGMA user_version=7; CREATE TABLE a (x)");
    let known = SCHEMA_VERSION;
    refused_untouched("newer", &newer, &format!("schema 7, this build knows up to {known}: use a newer tune"));
}

#[test]
fn a_file_of_a_later_schema_is_refused_until_the_tool_is_newer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.sqlite");
    filled(&path);
    let set = |version: u32| Connection::open(&path).unwrap().pragma_update(None, "user_version", version).unwrap();
    set(SCHEMA_VERSION + 1);
    for error in refusals(&path) {
        assert!(matches!(error, StoreError::Newer { found, .. } if found == SCHEMA_VERSION + 1));
    }
    set(SCHEMA_VERSION);
    assert_eq!(Store::open_read_only(&path).unwrap().choices().unwrap(), [choice(1)]);
    set(0);
    assert!(matches!(Store::open_read_only(&path).unwrap_err(), StoreError::Older { found: 0, .. }));
}

#[test]
fn folders_pipes_and_missing_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    for error in refusals(folder.path()) {
        assert!(matches!(error, StoreError::Folder { .. }), "{error}");
    }
    let missing = folder.path().join("t.sqlite");
    let error = Store::open_read_only(&missing).unwrap_err();
    assert_eq!(error.to_string(), format!("{}: no such file; `tune sweep --db` makes one", missing.display()));
    for error in refusals(&folder.path().join("no/t.sqlite")) {
        assert!(error.to_string().ends_with("its folder does not exist; make it first"), "{error}");
    }
    for error in refusals(Path::new("/dev/null")) {
        assert!(matches!(error, StoreError::NotSqlite { .. }), "{error}");
    }
    for error in refusals(Path::new("")) {
        assert!(error.to_string().starts_with("'': "), "{error}");
    }
    assert_eq!(files(folder.path()), [""; 0]);
}

#[test]
fn an_empty_file_is_a_new_database() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.sqlite");
    std::fs::write(&path, "").unwrap();
    assert!(matches!(Store::open_read_only(&path).unwrap_err(), StoreError::Empty { .. }));
    filled(&path);
    assert_eq!(Store::open_read_only(&path).unwrap().choices().unwrap(), [choice(1)]);
}

#[test]
fn names_special_to_sqlite_are_only_names() {
    let folder = tempfile::tempdir().unwrap();
    for name in [":memory:", "file:a?mode=memory", "a b%20?#'\".sqlite", "ü\n.sqlite"] {
        let path = folder.path().join(name);
        filled(&path);
        assert_eq!(Store::open_read_only(&path).unwrap().choices().unwrap().len(), 1);
    }
    assert_eq!(files(folder.path()).len(), 4);
    let message = Store::open_read_only(&folder.path().join("a\nb")).unwrap_err().to_string();
    assert_eq!(message.lines().count(), 1);
}

#[test]
fn closing_and_dropping_leave_one_file_in_rollback_mode() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.sqlite");
    filled(&path);
    assert_eq!(files(folder.path()), ["t.sqlite"]);
    let mut store = Store::open(&path).unwrap();
    let (run, env) = begin(&mut store);
    store.save_trial(run, env, &problem(2), &trial(2, 3)).unwrap();
    assert_eq!(files(folder.path()), ["t.sqlite", "t.sqlite-lock", "t.sqlite-shm", "t.sqlite-wal"]);
    drop(store);
    assert_eq!(files(folder.path()), ["t.sqlite"]);
    let header = std::fs::read(&path).unwrap();
    assert_eq!(header[18..20], [1, 1], "the versions that say: no write-ahead log");
    assert_eq!(Store::open_read_only(&path).unwrap().trials(env, &problem(2)).unwrap(), [trial(2, 3)]);
}

#[test]
fn a_second_writer_is_told_who_has_it_also_through_another_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.sqlite");
    let mut first = Store::open(&path).unwrap();
    let (run, env) = begin(&mut first);
    let error = Store::open(&path).unwrap_err().to_string();
    let process = std::process::id();
    assert_eq!(
        error,
        format!(
            "{}: in use by another sweep (process {process}); wait for it to end or name another file",
            path.display()
        )
    );
    #[cfg(unix)]
    {
        let link = folder.path().join("link.sqlite");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(matches!(Store::open(&link).unwrap_err(), StoreError::Locked { .. }));
    }
    first.save_trial(run, env, &problem(1), &trial(1, 3)).unwrap();
    first.close().unwrap();
    Store::open(&path).unwrap().close().unwrap();
}

#[test]
fn a_stale_lock_file_locks_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.sqlite");
    std::fs::write(folder.path().join("t.sqlite-lock"), "4294967295 stale").unwrap();
    Store::open(&path).unwrap().close().unwrap();
    assert_eq!(files(folder.path()), ["t.sqlite"]);
}

#[test]
fn of_many_openers_at_once_one_writes_and_the_rest_are_refused_or_wait_their_turn() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.sqlite");
    let writers = std::sync::atomic::AtomicU32::new(0);
    let opened = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    match Store::open(&path) {
                        Ok(mut store) => {
                            let others = writers.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                            assert_eq!(others, 0, "two writers at once");
                            opened.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                            begin(&mut store);
                            writers.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        }
                        Err(StoreError::Locked { .. }) => std::thread::yield_now(),
                        Err(other) => panic!("{other}"),
                    }
                }
            });
        }
    });
    let store = Store::open(&path).unwrap();
    store.integrity_check().unwrap();
    drop(store);
    let runs: u32 =
        Connection::open(&path).unwrap().query_row("SELECT count(*) FROM run", [], |row| row.get(0)).unwrap();
    assert_eq!(runs, opened.into_inner());
}

#[test]
fn readers_see_a_live_sweep_and_closing_says_that_they_hold_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.sqlite");
    let mut writer = Store::open(&path).unwrap();
    let (run, env) = begin(&mut writer);
    let reader = Store::open_read_only(&path).unwrap();
    writer.save_choice(run, env, &Constraints::default(), &choice(3)).unwrap();
    assert_eq!(reader.choices().unwrap(), [choice(3)]);
    let error = writer.close().unwrap_err();
    assert!(matches!(error, StoreError::StillRead { .. }), "{error}");
    assert_eq!(reader.choices().unwrap(), [choice(3)], "nothing is lost");
    drop(reader);
    Store::open(&path).unwrap().close().unwrap();
    assert_eq!(files(folder.path()), ["t.sqlite"], "the next writer folds it");
}

#[test]
fn a_killed_run_is_ended_by_the_next_writer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.sqlite");
    let mut store = Store::open(&path).unwrap();
    begin(&mut store);
    let (second, _) = begin(&mut store);
    store.end_run(second, "done").unwrap();
    drop(store);
    Store::open(&path).unwrap().close().unwrap();
    let ended: Vec<String> = Connection::open(&path)
        .unwrap()
        .prepare("SELECT ended || ' ' || (ended_at IS NOT NULL) FROM run ORDER BY id")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(ended, ["killed 0", "done 1"]);
}

#[test]
fn damage_is_found_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.sqlite");
    filled(&path);
    let whole = std::fs::read(&path).unwrap();
    Store::open_read_only(&path).unwrap().integrity_check().unwrap();
    // Each page but the first in turn becomes noise; none of it may panic, or pass for sound.
    const PAGE: usize = 4096;
    for page in 1..whole.len() / PAGE {
        let mut torn = whole.clone();
        torn[page * PAGE..][..PAGE].iter_mut().enumerate().for_each(|(i, byte)| *byte = (i * 31 % 251) as u8);
        std::fs::write(&path, &torn).unwrap();
        let error = Store::open_read_only(&path)
            .and_then(|store| {
                let _ = (store.choices(), store.recorded(), store.environments());
                store.integrity_check()
            })
            .unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "page {page}: {error}");
        assert_eq!(error.to_string().lines().count(), 1);
    }
    // A reference that leads nowhere is damage too.
    for lost in ["DELETE FROM solution WHERE id=(SELECT solution FROM choice)", "UPDATE choice SET problem = 99"] {
        std::fs::write(&path, &whole).unwrap();
        Connection::open(&path).unwrap().execute_batch(&format!("PRAGMA foreign_keys=OFF; {lost}")).unwrap();
        let store = Store::open_read_only(&path).unwrap();
        assert!(matches!(store.integrity_check().unwrap_err(), StoreError::Damaged { .. }), "{lost}");
        assert!(matches!(store.choices().unwrap_err(), StoreError::Damaged { .. }), "{lost}");
        assert!(matches!(store.each_to_serve(|_| ()).unwrap_err(), StoreError::Damaged { .. }), "{lost}");
    }
}

#[test]
fn a_word_of_a_later_build_is_named_with_table_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.sqlite");
    filled(&path);
    Connection::open(&path).unwrap().execute("UPDATE choice SET verdict = 'slower'", []).unwrap();
    let error = Store::open_read_only(&path).unwrap().choices().unwrap_err().to_string();
    assert!(error.contains("choice.verdict holds 'slower': "), "{error}");
}

#[test]
fn ids_of_another_store_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(&folder.path().join("t.sqlite")).unwrap();
    let mut other = Store::open(&folder.path().join("u.sqlite")).unwrap();
    let (run, env) = begin(&mut store);
    let error = other.save_trial(run, env, &problem(1), &trial(1, 3)).unwrap_err();
    assert!(matches!(error, StoreError::Reference { .. }), "{error}");
    let error = other.save_choice(run, env, &Constraints::default(), &choice(1)).unwrap_err();
    assert!(matches!(error, StoreError::Reference { .. }), "{error}");
    assert!(matches!(other.end_run(run, "done").unwrap_err(), StoreError::Reference { .. }));
    other.integrity_check().unwrap();
    let mut elsewhere = choice(1);
    std::sync::Arc::make_mut(&mut elsewhere.device).memory_gib = Some(256);
    let error = store.save_choice(run, env, &Constraints::default(), &elsewhere).unwrap_err();
    assert!(matches!(error, StoreError::Device { .. }), "{error}");
    assert_eq!(store.environments().unwrap().len(), 1);
    assert_eq!(*store.environments().unwrap()[0].1, environment());
}

/// The first schema, as it was released.
const SCHEMA_1: &str = include_str!("../src/store/0001_initial.sql");

#[test]
fn a_file_of_the_first_schema_is_migrated_with_all_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    let (now, old) = (folder.path().join("now.sqlite"), folder.path().join("old.sqlite"));
    filled(&now);
    let connection = Connection::open(&old).unwrap();
    connection.execute_batch(SCHEMA_1).unwrap();
    connection.pragma_update(None, "application_id", i64::from(u32::from_be_bytes(*b"tgem"))).unwrap();
    connection.pragma_update(None, "user_version", 1).unwrap();
    connection.execute("ATTACH ?1 AS now", [now.to_str().unwrap()]).unwrap();
    let tables: Vec<String> = {
        let mut select =
            connection.prepare("SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'");
        select.as_mut().unwrap().query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    for table in &tables {
        let mut names = connection.prepare("SELECT name FROM pragma_table_info(?1, 'main')").unwrap();
        let names: Vec<String> = names.query_map([table], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        let names = names.join(", ");
        let copy = format!("INSERT INTO main.\"{table}\" ({names}) SELECT {names} FROM now.\"{table}\"");
        connection.execute(&copy, []).unwrap();
    }
    drop(connection);

    assert!(matches!(
        Store::open_read_only(&old).unwrap_err(),
        StoreError::Older { found: 1, needed: SCHEMA_VERSION, .. }
    ));
    let store = Store::open(&old).unwrap();
    assert_eq!(store.choices().unwrap(), [choice(1)]);
    store.integrity_check().unwrap();
    store.close().unwrap();
    let kept = |path: &Path| {
        let connection = Connection::open(path).unwrap();
        let count = |table: &String| {
            let sql = format!("SELECT count(*) FROM \"{table}\"");
            connection.query_row(&sql, [], |row| row.get::<_, i64>(0)).unwrap()
        };
        tables.iter().map(count).collect::<Vec<_>>()
    };
    assert_eq!(kept(&old), kept(&now));
    assert_eq!(Store::open_read_only(&old).unwrap().choices().unwrap(), [choice(1)]);
}

#[test]
fn a_file_that_was_copied_without_its_log_is_not_taken_for_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("t.sqlite"), folder.path().join("copy.sqlite"));
    let mut store = Store::open(&path).unwrap();
    let (run, environment) = begin(&mut store);
    store.save_choice(run, environment, &Constraints::default(), &choice(1)).unwrap();
    std::fs::copy(&path, &copy).unwrap();
    let error = Store::open_read_only(&copy).unwrap_err();
    assert!(matches!(error, StoreError::LogMissing { .. }), "{error}");
    // With it, all is there.
    std::fs::copy(folder.path().join("t.sqlite-wal"), folder.path().join("copy.sqlite-wal")).unwrap();
    assert_eq!(Store::open_read_only(&copy).unwrap().choices().unwrap().len(), 1);
    // Who means the file as it is opens it for writing.
    let _ = std::fs::remove_file(folder.path().join("copy.sqlite-wal"));
    let _ = std::fs::remove_file(folder.path().join("copy.sqlite-shm"));
    Store::open(&copy).unwrap().close().unwrap();
    assert!(Store::open_read_only(&copy).is_ok());
    store.close().unwrap();
    assert_eq!(Store::open_read_only(&path).unwrap().choices().unwrap().len(), 1);
}
