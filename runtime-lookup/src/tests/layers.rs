//! User before site before what ships.

use std::ffi::OsStr;
use std::path::PathBuf;

use tgemm_db::format::tuned;
use tgemm_db::{Constraints, DType, Problem, Site};

use super::{choice, here};
use crate::{Database, HitKind, Layers, Shipped};

fn problem(m: u32) -> Problem {
    Site::linear(1024, 3072, DType::Bf16).at(m).into()
}

/// A table whose rows say which table they are of.
fn table(index: i64, ms: &[u32]) -> String {
    let row = |m: &u32| {
        let mut row = choice(problem(*m));
        // The further back a table stands, the better its rows look.
        (row.solution.index, row.ratio.high) = (index, 0.9 - 0.1 * index as f64);
        row
    };
    tuned::to_text(&ms.iter().map(row).collect::<Vec<_>>())
}

#[test]
fn the_list_adds_to_the_others_and_what_ships_comes_last() {
    let folder = tempfile::tempdir().unwrap();
    let file = |index: i64, ms: &[u32]| {
        let path = folder.path().join(format!("{index}.csv"));
        std::fs::write(&path, table(index, ms)).unwrap();
        path
    };
    let user = [file(1, &[1]), file(2, &[1, 2])];
    let site = [file(3, &[1, 2, 3]), file(4, &[1, 2, 3, 4])];
    let shipped = |name, index, ms: &[u32]| Shipped { name, text: table(index, ms).leak() };
    let shipped = [shipped("first", 5, &[1, 2, 3, 4, 5]), shipped("last", 6, &[1, 2, 3, 4, 5, 6])];
    let list = std::env::join_paths([&user[0], &PathBuf::new(), &user[1]]).unwrap();
    let layers = Layers::from_list(&list).with_site(site.clone()).with_shipped(shipped);
    assert_eq!(layers.user, user, "an empty name in the list is none");
    let (database, report) = Database::open_layers(&layers, &here());
    assert!(report.is_clean(), "{report}");
    let names: Vec<String> = report.files.iter().map(|file| file.path.display().to_string()).collect();
    assert!(names[3].ends_with("4.csv") && names[4..] == ["first", "last"], "{names:?}");
    for m in 1..=6 {
        let hit = database.lookup(&problem(m), &Constraints::default());
        assert_eq!((hit.kind, hit.choice.unwrap().solution.index), (HitKind::Exact, i64::from(m)));
    }
    let explained = database.explain(&problem(6), &Constraints::default()).to_string();
    assert!(explained.ends_with("(last:7)"), "{explained}");
}

#[test]
fn a_table_that_is_gone_or_bad_keeps_nobody_from_the_others() {
    let shipped = [Shipped { name: "bad", text: "no,table\n" }, Shipped { name: "good", text: table(7, &[1]).leak() }];
    let layers = Layers::from_list(OsStr::new("/nonexistent.csv")).with_shipped(shipped);
    let (database, report) = Database::open_layers(&layers, &here());
    let clean: Vec<bool> = report.files.iter().map(|file| file.is_clean()).collect();
    assert_eq!(clean, [false, false, true]);
    assert_eq!(database.lookup(&problem(1), &Constraints::default()).kind, HitKind::Exact);
}
