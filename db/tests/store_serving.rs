//! The value that lookups read is what the rows say, or is not there.

#![cfg(feature = "sqlite")]

mod store_words;

use std::path::Path;

use rusqlite::Connection;
use store_words::{begin, choice, device, problem, solution};
use tgemm_db::store::{Store, StoreError};
use tgemm_db::{Choice, Constraints, DType, Site};

/// Choices of several sites, and of a fused layer, whose key is no GEMM's.
fn choices() -> Vec<Choice> {
    let sites = [Site::linear(64, 32, DType::Bf16), Site::linear(4096, 1024, DType::F32).with_bias(DType::F32)];
    let mut choices: Vec<Choice> = (1..20)
        .map(|m| Choice {
            problem: sites[m as usize % 2].at(m).into(),
            solution: solution(["gemm", "hipblaslt"][m as usize % 2], i64::from(m) - 7),
            pack_us: (m % 3 == 0).then_some(f64::from(m)),
            tuned_at: format!("2026-01-{m:02}T00:00:00Z"),
            ..choice(m)
        })
        .collect();
    let moe = "moe,m=1,experts=8,topk=2,model_dim=4096,inter_dim=14336,x=bf16,q_x=-,q_w=-,quant=none,block=0x0,act=silu,gated=1,stage1=0";
    choices.push(Choice { problem: moe.parse().unwrap(), ..choice(1) });
    choices[3].time_us = f64::NAN;
    choices
}

fn filled(path: &Path) {
    let mut store = Store::open(path).unwrap();
    let (run, environment) = begin(&mut store);
    store.save_choices(run, environment, &Constraints::default(), &choices()).unwrap();
    store.close().unwrap();
}

fn count(path: &Path) -> i64 {
    Connection::open(path).unwrap().query_row("SELECT count(*) FROM serving", [], |row| row.get(0)).unwrap()
}

/// What a lookup gets.
fn served(path: &Path) -> Vec<String> {
    let mut served = Vec::new();
    Store::open_read_only(path).unwrap().each_to_serve(|choice| served.push(format!("{choice:?}"))).unwrap();
    served
}

/// What the rows say, as far as a lookup wants it.
fn rows(path: &Path) -> Vec<String> {
    let choices = Store::open_read_only(path).unwrap().choices().unwrap();
    choices
        .into_iter()
        .map(|choice| format!("{:?}", Choice { baselines: Vec::new(), origin: None, ..choice }))
        .collect()
}

fn folder() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.sqlite");
    filled(&path);
    (folder, path)
}

#[test]
fn it_is_made_at_the_close_and_says_what_the_rows_say() {
    let (_folder, path) = folder();
    assert_eq!(count(&path), 1);
    assert_eq!(served(&path).len(), 20);
    assert_eq!(served(&path), rows(&path));
    Store::open_read_only(&path).unwrap().integrity_check().unwrap();
    // It is what is read: rows that contradict it are not seen, where nothing told it.
    let connection = Connection::open(&path).unwrap();
    let hidden = "DROP TRIGGER serving_choice_updated; UPDATE choice SET time_us = 77";
    connection.execute_batch(hidden).unwrap();
    drop(connection);
    assert_ne!(served(&path), rows(&path));
    let error = Store::open_read_only(&path).unwrap().integrity_check().unwrap_err();
    assert!(matches!(&error, StoreError::Damaged { detail, .. } if detail.contains("serving")), "{error}");
}

#[test]
fn whatever_changes_a_choice_or_a_problem_drops_it() {
    let changes = [
        "UPDATE choice SET count = 9 WHERE id = 2",
        "DELETE FROM choice WHERE id = 1",
        "INSERT INTO problem VALUES (99, 'gemm,m=77,n=64,k=32,x=bf16,w=bf16,out=bf16,compute=f32', 77, 64, 32);
         INSERT INTO choice SELECT 99, 99, environment, constraints, run, solution, workspace_bytes, numerics,
             deterministic, graph_safe, time_us, ratio_estimate, ratio_low, ratio_high, verdict, error_over_bound, err_ratio,
             pack_us, count, tuned_at, NULL, NULL, NULL FROM choice WHERE id = 1",
        "INSERT OR REPLACE INTO choice SELECT id, problem, environment, constraints, run, solution, 5, numerics,
             deterministic, graph_safe, time_us, ratio_estimate, ratio_low, ratio_high, verdict, error_over_bound, err_ratio,
             pack_us, count, tuned_at, NULL, NULL, NULL FROM choice WHERE id = 1",
        "UPDATE problem SET key = replace(key, 'm=2,', 'm=2222,'), m = 2222 WHERE m = 2",
        "DELETE FROM problem WHERE id = 1; DELETE FROM choice WHERE problem = 1",
    ];
    for change in changes {
        let (_folder, path) = folder();
        Connection::open(&path).unwrap().execute_batch(&format!("PRAGMA foreign_keys = OFF; {change}")).unwrap();
        assert_eq!(count(&path), 0, "{change}");
        assert_eq!(served(&path), rows(&path), "{change}");
    }
}

#[test]
fn a_writer_that_changed_nothing_leaves_it_and_one_that_did_makes_it_anew() {
    let (_folder, path) = folder();
    let digest = || -> Vec<u8> {
        Connection::open(&path).unwrap().query_row("SELECT digest FROM serving", [], |row| row.get(0)).unwrap()
    };
    let before = digest();
    Store::open(&path).unwrap().close().unwrap();
    assert_eq!(digest(), before);
    let mut store = Store::open(&path).unwrap();
    let (run, environment) = begin(&mut store);
    store
        .save_choice(run, environment, &Constraints::default(), &Choice { problem: problem(500), ..choice(1) })
        .unwrap();
    // Somebody reads meanwhile: the rows, as there is no value now.
    assert_eq!(served(&path), rows(&path));
    store.close().unwrap();
    assert_ne!(digest(), before);
    assert_eq!(served(&path), rows(&path));
}

#[test]
fn a_store_that_was_not_closed_is_read_by_its_rows() {
    let (_folder, path) = folder();
    let mut store = Store::open(&path).unwrap();
    let (run, environment) = begin(&mut store);
    store.save_choice(run, environment, &Constraints::default(), &choice(3)).unwrap();
    drop(store);
    assert_eq!(count(&path), 0);
    assert_eq!(served(&path), rows(&path));
}

#[test]
fn what_is_damaged_or_of_another_layout_is_not_read() {
    for change in [
        "UPDATE serving SET layout = layout || ' '",
        "UPDATE serving SET digest = zeroblob(32)",
        "UPDATE serving SET content = substr(content, 1, length(content) - 1)",
        "UPDATE serving SET content = zeroblob(length(content))",
        "UPDATE serving SET content = x''",
    ] {
        let (_folder, path) = folder();
        Connection::open(&path).unwrap().execute_batch(change).unwrap();
        assert_eq!(count(&path), 1, "{change}");
        assert_eq!(served(&path), rows(&path), "{change}");
    }
}

#[test]
fn devices_and_solutions_are_those_of_their_own_rows() {
    let (_folder, path) = folder();
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch("UPDATE solution SET name = 'renamed'; UPDATE environment SET last_level_cache_bytes = 77")
        .unwrap();
    assert_eq!(count(&path), 1);
    assert_eq!(served(&path), rows(&path));
    let mut devices = Vec::new();
    Store::open_read_only(&path).unwrap().each_to_serve(|choice| devices.push(choice.device)).unwrap();
    assert!(devices.iter().all(|have| have.last_level_cache_bytes == 77 && have.arch == device().arch));
}
