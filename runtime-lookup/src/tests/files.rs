//! Databases from files: layers, bad files, AITER's tables.

use std::fs;
use std::path::PathBuf;

use tgemm_db::format::tuned;
use tgemm_db::{Constraints, DType, Problem, Site, WeightForm};

use super::{choice, device, here};
use crate::builder::Builder;
use crate::load::Origin;
use crate::{Database, HitKind};

fn problem(m: u32) -> Problem {
    Site::linear(1024, 3072, DType::Bf16).at(m).into()
}

#[test]
fn the_first_file_counts_most_and_exact_beats_borrowed() {
    let folder = tempfile::tempdir().unwrap();
    let [user, site] = ["user.csv", "site.csv"].map(|name| folder.path().join(name));
    let (mut slow, mut fast, mut nine) = (choice(problem(16)), choice(problem(16)), choice(problem(9)));
    (slow.solution.index, slow.ratio.high) = (1, 0.99);
    (fast.solution.index, fast.ratio.high) = (2, 0.5);
    nine.solution.index = 3;
    tuned::write(&user, &[slow.clone()]).unwrap();
    tuned::write(&site, &[fast.clone(), nine]).unwrap();
    let (database, report) = Database::open(&[user.clone(), site.clone()], &here());
    assert!(report.is_clean(), "{report}");
    let constraints = Constraints::default();
    let index = |m: u32| database.lookup(&problem(m), &constraints).choice.map(|choice| choice.solution.index);
    assert_eq!([index(16), index(9), index(10)], [Some(1), Some(3), Some(1)]);
    let explained = database.explain(&problem(16), &constraints).to_string();
    assert!(explained.ends_with("user.csv:2)"), "{explained}");

    let (turned, _) = Database::open(&[site, user], &here());
    assert_eq!(turned.lookup(&problem(16), &constraints).choice, Some(&fast));
}

#[test]
fn nothing_raises_and_the_report_says_what_became_of_each_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut elsewhere = choice(problem(4));
    elsewhere.device = device("gfx950", 256).into();
    let mut text = tuned::to_text(&[choice(problem(4)), elsewhere]);
    text.push_str("1,2,3\n");
    fs::write(path("good.csv"), text).unwrap();
    fs::write(path("junk.csv"), b"\0\x01\x02").unwrap();
    fs::write(path("sqlite.db"), b"SQLite format 3\0 and then nothing").unwrap();
    let names = ["good.csv", "none.csv", "junk.csv", "sqlite.db"];
    let paths: Vec<PathBuf> = names.iter().map(|name| path(name)).chain([folder.path().to_owned()]).collect();
    let (database, report) = Database::open(&paths, &here());
    assert_eq!(database.len(), 1);
    assert!(!report.is_clean());
    let text = report.to_string().replace(&format!("{}/", folder.path().display()), "");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..4],
        [
            "good.csv: 1 rows serve here, 1 of other devices, 1 rejected",
            "  good.csv:4: 3 cells where the header has 47: row is too short",
            "none.csv: no such file: check the path",
            "junk.csv:1: is not text: a CSV file is expected",
        ]
    );
    assert!(lines[4].starts_with("sqlite.db"), "{}", lines[4]);
    assert!(lines[5].ends_with("is a directory: name a CSV file in it"), "{}", lines[5]);
    assert_eq!(lines.len(), 6);
}

#[test]
fn the_list_of_files_is_bounded() {
    let paths = vec![PathBuf::from("none.csv"); super::super::load::FILES_MAX + 1];
    let (_, report) = Database::open(&paths, &here());
    let last = report.files.last().and_then(|file| file.error.clone());
    assert_eq!(last.as_deref(), Some("none.csv: not read: at most 64 files are, merge some"));
}

#[test]
fn an_aiter_table_serves_its_device_and_borrows_by_its_rule() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("aiter.csv");
    let row = |cu: u32, m: u32, shuffled: &str| {
        format!(
            "gfx942,{cu},{m},1024,3072,False,torch.bfloat16,torch.bfloat16,False,{shuffled},asm,1,0,9.5,kernel,0,1,1\n"
        )
    };
    let header = tgemm_db::format::aiter::COLUMNS.join(",");
    let rows = [row(304, 512, "False"), row(80, 320, "False"), row(304, 64, "True")].concat();
    fs::write(&path, format!("{header}\n{rows}")).unwrap();
    let (database, report) = Database::open(&[path], &here());
    assert!(report.is_clean(), "{report}");
    assert_eq!((database.len(), database.refused()), (2, 1));
    let hit = database.lookup(&problem(300), &Constraints::default());
    assert_eq!((hit.kind, hit.tuned_m), (HitKind::Padded, Some(512)));

    let shuffled: Problem = Site { preshuffled: true, ..problem(64).gemm().unwrap().site }.at(64).into();
    assert_eq!(database.lookup(&shuffled, &Constraints::default()).kind, HitKind::Default, "not held by default");
    let held = Constraints { weight_forms: [WeightForm::Preshuffled].into(), ..Constraints::default() };
    assert_eq!(database.lookup(&shuffled, &held).kind, HitKind::Exact);
}

#[cfg(feature = "sqlite")]
#[test]
fn the_database_of_a_sweep_serves_as_its_csv_does() {
    use tgemm_db::store::{RunInfo, Store};
    let folder = tempfile::tempdir().unwrap();
    let [sqlite, csv] = ["t.sqlite", "t.csv"].map(|name| folder.path().join(name));
    let choices = [choice(problem(4)), choice(problem(16))];
    let mut store = Store::open(&sqlite).unwrap();
    let run = RunInfo { tool_version: "0".into(), command_line: String::new(), options: Default::default() };
    let run = store.begin_run(&run).unwrap();
    let environment = store.environment(&here()).unwrap();
    for choice in &choices {
        store.save_choice(run, environment, &Constraints::default(), choice).unwrap();
    }
    store.close().unwrap();
    tuned::write(&csv, &choices).unwrap();
    let [stored, written] = [sqlite, csv].map(|path| Database::open(&[path], &here()));
    assert!(stored.1.is_clean() && written.1.is_clean(), "{}\n{}", stored.1, written.1);
    assert_eq!(stored.0.choices(), written.0.choices());
    assert_eq!(stored.0.lookup(&problem(9), &Constraints::default()).tuned_m, Some(16));
}

#[test]
fn rows_of_a_file_that_ends_unreadable_are_forgotten() {
    let here = here();
    let mut elsewhere = choice(problem(8));
    elsewhere.device = device("gfx950", 256).into();
    let mut builder = Builder::new(&here);
    builder.push(choice(problem(4)), Origin::NONE);
    let mark = builder.mark();
    builder.push(choice(problem(16)), Origin::NONE);
    builder.push(elsewhere, Origin::NONE);
    builder.back_to(mark);
    let database = builder.finish(Vec::new());
    assert_eq!((database.len(), database.origins.len(), database.refused()), (1, 1, 0));
    assert_eq!(database.lookup(&problem(4), &Constraints::default()).kind, HitKind::Exact);
}
