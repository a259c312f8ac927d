//! SQLite databases as nobody should hand them over: bytes that flipped, files that were cut, logs that belong to another
//! file, rows with values of any type that refer to nothing.
//!
//! - a database that cannot be read is refused whole, and leaves no row behind;
//! - one that can gives every choice that it has, as SQLite itself counts them, and no other; or, where the rows are damaged
//!   and the value beside them is not, every choice that it had;
//! - opening leaves the file as it was;
//! - answers are held to what [`lookup`] says.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};
use tgemm_db::format::{self, ReadOptions};
use tgemm_db::store::{RunInfo, Store};
use tgemm_db::{Choice, Constraints, Environment};
use tgemm_lookup::Database;

use crate::feed::Feed;
use crate::scratch::must;
use crate::{lookup, scratch};

/// Changes to one database.
const CHANGES_MAX: usize = 8;

/// Tables that a loader looks into, and their columns.
const COLUMNS: &[(&str, &[&str])] = &[
    (
        "choice",
        &[
            "id",
            "problem",
            "environment",
            "constraints",
            "run",
            "solution",
            "workspace_bytes",
            "numerics",
            "deterministic",
            "graph_safe",
            "time_us",
            "ratio_estimate",
            "ratio_low",
            "ratio_high",
            "verdict",
            "error_over_bound",
            "err_ratio",
            "pack_us",
            "count",
            "tuned_at",
            "imported_file",
            "imported_line",
            "imported_cells",
        ],
    ),
    ("problem", &["id", "key", "m", "n", "k"]),
    ("solution", &["id", "build", "solution_index", "name", "params", "weight_form"]),
    ("build", &["id", "library", "version", "revision"]),
    ("environment", &["id", "identity", "last_level_cache_bytes"]),
    ("constraints", &["id", "identity"]),
    ("serving", &["id", "layout", "digest", "content"]),
    ("imported_file", &["id", "file", "file_hash", "format", "imported_at", "columns"]),
    (
        "choice_baseline",
        &[
            "choice",
            "position",
            "via",
            "solution",
            "workspace_bytes",
            "numerics",
            "deterministic",
            "graph_safe",
            "time_us",
        ],
    ),
];

/// Databases to begin with, made once.
struct Bases {
    /// As a sweep leaves it.
    whole: Vec<u8>,
    /// The same with tables that take any value.
    loose: Vec<u8>,
    /// While a sweep writes: the file, and its log.
    written: (Vec<u8>, Vec<u8>),
    /// How many choices all of them have.
    choices: usize,
    here: Environment,
}

static BASES: LazyLock<Bases> = LazyLock::new(|| {
    let rows = rows();
    let path = fill("base.sqlite", &rows);
    let whole = must(std::fs::read(&path), "a store that was closed");
    let (path, store) = fill_and_hold(&rows);
    let beside = |suffix: &str| {
        let mut beside = path.clone().into_os_string();
        beside.push(suffix);
        must(std::fs::read(PathBuf::from(beside)), "the log of a store that is open")
    };
    let written = (beside(""), beside("-wal"));
    drop(store);
    let choices = counted(&scratch::folder().join("base.sqlite")).unwrap_or_default();
    Bases { loose: loosened(&whole), whole, written, choices, here: lookup::here(&rows) }
});

/// Choices of every kind that is read.
fn rows() -> Vec<Choice> {
    let texts: [(&str, &[u8]); 4] = [
        ("t.csv", include_bytes!("../corpus/tuned/row")),
        ("t.csv", include_bytes!("../corpus/aiter/bf16")),
        ("t.csv", include_bytes!("../corpus/fmoe/tuned")),
        ("t.csv", include_bytes!("../corpus/lookup/cpu")),
    ];
    let options = ReadOptions { keep_origin: true, imported_at: "2026-11-30T00:00:00Z".into(), ..Default::default() };
    let read = |(name, text)| must(format::parse_choices(Path::new(name), text, &options), "a seed").into_values();
    texts.into_iter().rev().flat_map(read).collect()
}

fn fill_and_hold(rows: &[Choice]) -> (PathBuf, Store) {
    let path = scratch::folder().join("written.sqlite");
    let mut store = must(Store::open(&path), "a scratch store");
    let run = RunInfo { tool_version: "0".into(), command_line: String::new(), options: Default::default() };
    let run = must(store.begin_run(&run), "a run");
    must(store.import_choices(run, &Constraints::default(), rows), "seeds that are stored");
    (path, store)
}

fn fill(name: &str, rows: &[Choice]) -> PathBuf {
    let (path, store) = fill_and_hold(rows);
    must(store.close(), "a store that nobody reads");
    let to = scratch::folder().join(name);
    must(std::fs::rename(path, &to), "a scratch file");
    to
}

/// The same rows in tables without types, keys and checks.
fn loosened(whole: &[u8]) -> Vec<u8> {
    let path = scratch::file("loose.sqlite", whole);
    let connection = must(Connection::open(&path), "a scratch store");
    let loosen = "PRAGMA writable_schema = 1;
        UPDATE sqlite_schema SET sql = replace(replace(replace(sql, 'STRICT, ', ''), ' STRICT', ''), 'NOT NULL', '')
            WHERE type = 'table';
        PRAGMA writable_schema = 0;";
    must(connection.execute_batch(loosen), "a schema is text");
    drop(connection);
    must(std::fs::read(path), "a scratch file")
}

/// What is done to a database is the first byte's to say, and how all others'.
pub fn check(bytes: &[u8]) {
    let mut feed = Feed::new(bytes);
    scratch::remove("t.sqlite-wal");
    scratch::remove("t.sqlite-journal");
    let path = match feed.below(8) {
        0 => scratch::file("t.sqlite", &damaged(&BASES.whole, &mut feed)),
        1 => {
            let path = scratch::file("t.sqlite", &damaged(&BASES.written.0, &mut feed));
            scratch::file("t.sqlite-wal", &damaged(&BASES.written.1, &mut feed));
            path
        }
        2 => {
            let path = scratch::file("t.sqlite", &BASES.whole);
            scratch::file(feed.one(&["t.sqlite-wal", "t.sqlite-journal"]), &damaged(&BASES.written.1, &mut feed));
            path
        }
        3..6 => spoiled(&BASES.loose, &mut feed),
        _ => spoiled(&BASES.whole, &mut feed),
    };
    check_file(&path, lookup::salt(bytes));
}

/// A file of which some bytes are others, and the end may be missing.
fn damaged(base: &[u8], feed: &mut Feed<'_>) -> Vec<u8> {
    let mut file = base.to_vec();
    if feed.rarely(4) {
        file.truncate(feed.word() as usize % (file.len() + 1));
    }
    for _ in 0..feed.below(CHANGES_MAX) {
        let at = feed.word() as usize % (file.len() + 1);
        let count = 1 + feed.below(8);
        for (to, from) in file[at..].iter_mut().zip(feed.bytes(count)) {
            *to = *from;
        }
    }
    file
}

/// A file in which some cells hold anything, and some rows are gone.
fn spoiled(base: &[u8], feed: &mut Feed<'_>) -> PathBuf {
    let path = scratch::file("t.sqlite", base);
    let connection = must(Connection::open(&path), "a scratch file");
    let careless = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF;
        PRAGMA ignore_check_constraints = ON;";
    must(connection.execute_batch(careless), "pragmas");
    for _ in 0..1 + feed.below(CHANGES_MAX) {
        let (table, columns) = feed.one(COLUMNS);
        let column = feed.one(columns);
        let key = if table == "choice_baseline" { "choice" } else { "id" };
        // Whatever SQLite refuses is as it was.
        let _ = match feed.below(8) {
            0 => connection.execute(&format!("DELETE FROM {table} WHERE {key} = ?1"), [feed.byte() % 8]),
            1 => connection.execute(&format!("UPDATE OR REPLACE {table} SET {column} = ?1"), [value(feed)]),
            _ => connection.execute(
                &format!("UPDATE OR REPLACE {table} SET {column} = ?1 WHERE {key} = ?2"),
                (value(feed), feed.byte() % 8),
            ),
        };
    }
    path
}

fn value(feed: &mut Feed<'_>) -> Value {
    match feed.below(8) {
        0 => Value::Null,
        1 => Value::Integer(feed.byte().into()),
        2 => Value::Integer(feed.long() as i64),
        3 => Value::Real(f64::from_bits(feed.long())),
        4 => Value::Real(feed.one(&[0.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, 1e-300, 1e300])),
        5 => Value::Blob(feed.bytes(32).to_vec()),
        _ => {
            let count = feed.byte().into();
            Value::Text(String::from_utf8_lossy(feed.bytes(count)).into_owned())
        }
    }
}

const COUNT: &str = "SELECT count(*) FROM choice NOT INDEXED";

/// Opens it and looks at what came of it.
fn check_file(path: &Path, salt: u64) {
    let before = must(std::fs::read(path), "a file that was just written");
    let (database, report) = Database::open(&[path.to_owned()], &BASES.here);
    let file = &report.files[0];
    match &file.error {
        Some(error) => {
            assert!(database.is_empty() && database.refused() == 0, "rows of a file that cannot be read: {report}");
            assert!(error.lines().count() == 1 && !error.chars().any(char::is_control), "{error:?}");
        }
        None => {
            assert_eq!(file.kept, database.len());
            assert_eq!(file.other_device + file.other_build, database.refused());
            assert_eq!(file.rejected, 0, "a database has no lines");
            if let Some(count) = counted(path) {
                let served = file.kept + file.other_device + file.other_build;
                assert!(served == count || served == BASES.choices, "{count} choices, not {served}: {report}");
            }
        }
    }
    if !has_log() {
        assert!(std::fs::read(path).is_ok_and(|after| after == before), "looking at it changed it");
    }
    lookup::check_answers(database, &BASES.here, salt);
}

fn has_log() -> bool {
    ["t.sqlite-wal", "t.sqlite-journal"].iter().any(|name| scratch::folder().join(name).exists())
}

/// How many choices SQLite counts, if it can.
fn counted(path: &Path) -> Option<usize> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).ok()?;
    let count: i64 = connection.query_row(COUNT, [], |row| row.get(0)).ok()?;
    usize::try_from(count).ok()
}
