//! `docs/store.md` is held to the truth: its queries run and answer, and it names every table and column.
#![cfg(feature = "sqlite")]

mod store_words;

use std::sync::Arc;

use rusqlite::Connection;
use store_words::{begin, choice, failed, problem, solution, trial};
use tgemm_db::origin::{Origin, Source};
use tgemm_db::outcome::{OutcomeKind, Phase};
use tgemm_db::store::Store;
use tgemm_db::{Choice, Constraints, Recorded, Trial};

fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/store.md");
    std::fs::read_to_string(path).unwrap()
}

/// A store with one problem raced to a verdict.
fn raced() -> (tempfile::TempDir, Connection) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.sqlite");
    let mut store = Store::open(&path).unwrap();
    let (run, env) = begin(&mut store);
    let mut winner = trial(4, 8);
    winner.samples.iter_mut().skip(4).for_each(|sample| sample.phase = Phase::Final);
    let mut baseline = Trial { solution: solution("gemm", -7), baseline_via: Some("gemm".into()), ..winner.clone() };
    baseline.samples.iter_mut().for_each(|sample| sample.time_us *= 2.0);
    for trial in [&baseline, &failed(9, OutcomeKind::Crashed), &winner] {
        store.save_trial(run, env, &problem(4), trial).unwrap();
    }
    let mut chosen = choice(4);
    chosen.baselines.remove(0);
    store.save_choice(run, env, &Constraints::default(), &chosen).unwrap();
    let source = Source { file: "a8w8_tuned_gemm.csv".into(), format: "aiter_a8w8_tuned".into(), ..Source::default() };
    let origin = Origin::new(source.into(), 7, []);
    let imported = Choice { origin: Some(Arc::new(origin)), ..choice(5) };
    store.save_choice(run, env, &Constraints::default(), &imported).unwrap();
    store.record(&[Recorded { count: 10_000, ..Recorded::bare(problem(4)) }], "/a.csv").unwrap();
    store.close().unwrap();
    let connection = Connection::open(&path).unwrap();
    (folder, connection)
}

/// The answer as text, a line a row.
fn answer(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(sql).unwrap_or_else(|error| panic!("{error} in:\n{sql}"));
    let columns = statement.column_count();
    let mut rows = statement.query([]).unwrap();
    let mut lines = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        let cell = |at| match row.get::<_, rusqlite::types::Value>(at).unwrap() {
            rusqlite::types::Value::Null => String::new(),
            rusqlite::types::Value::Integer(value) => value.to_string(),
            rusqlite::types::Value::Real(value) => value.to_string(),
            rusqlite::types::Value::Text(text) => text,
            rusqlite::types::Value::Blob(blob) => format!("{blob:?}"),
        };
        lines.push((0..columns).map(cell).collect::<Vec<_>>().join("|"));
    }
    lines
}

#[test]
fn every_query_of_the_page_answers() {
    let (_folder, connection) = raced();
    let page = page();
    let queries = page.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let answers: Vec<Vec<String>> = queries.map(|sql| answer(&connection, sql)).collect();
    let [candidates, pairs, time, imported, outcomes] = &answers[..] else { panic!("{} queries", answers.len()) };
    assert_eq!(candidates.len(), 3);
    assert!(candidates[0].starts_with("1|ok|hipblaslt|Cijk_4|"), "{candidates:?}");
    assert!(candidates[2].starts_with("0|crashed|hipblaslt|Cijk_9|") && candidates[2].ends_with("|signal 11"));
    assert_eq!(pairs.iter().map(|pair| pair.rsplit('|').next().unwrap()).collect::<Vec<_>>(), ["0.5"; 4]);
    assert_eq!(time.len(), 1);
    assert!(time[0].ends_with("|10000|faster|0.8|0.2|0.075"), "10,000 calls, 20 us to 12.5 us: {time:?}");
    assert_eq!(imported, &["a8w8_tuned_gemm.csv|aiter_a8w8_tuned||1|7|7"]);
    assert_eq!(outcomes, &["gemm|1.2|ok|1", "hipblaslt|1.2|crashed|1", "hipblaslt|1.2|ok|1"]);
}

#[test]
fn every_table_and_column_is_on_the_page() {
    let (_folder, connection) = raced();
    let page = page();
    let names = answer(
        &connection,
        "SELECT m.name || '.' || c.name FROM sqlite_schema AS m, pragma_table_xinfo(m.name) AS c
         WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'",
    );
    assert!(names.len() > 60, "{}", names.len());
    for name in names {
        let (table, column) = name.split_once('.').unwrap();
        assert!(page.contains(&format!("**`{table}`**")), "docs/store.md lacks table {table}");
        assert!(column == "id" || page.contains(&format!("`{column}`")), "docs/store.md lacks {name}");
    }
}
