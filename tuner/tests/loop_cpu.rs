//! The loop on this machine's real CPU: sweep small problems, export, look up.

mod common;

use common::{Scratch, code, run, stderr, stdout};
use tgemm_db::format;
use tgemm_db::store::Store;
use tgemm_db::{DType, Recorded, Site};

#[test]
fn a_sweep_of_the_cpu_is_looked_up_and_its_csv_reads_back_equal() {
    let scratch = Scratch::new();
    let untuned = scratch.path("untuned.csv");
    let sites = [
        Site::linear(96, 64, DType::F32),
        Site::linear(96, 64, DType::F16).with_bias(DType::F16),
        Site::linear(96, 64, DType::Bf16),
    ];
    let rows: Vec<Recorded> =
        sites.iter().flat_map(|s| [1, 5].map(|m| Recorded { count: 3, ..Recorded::bare(s.at(m).into()) })).collect();
    format::untuned::write(&untuned, &rows).unwrap();
    let (db, csv) = (scratch.path("t.sqlite"), scratch.path("t.csv"));
    let path = |p: &std::path::Path| p.display().to_string();
    let swept =
        run(["sweep", &path(&untuned), "--db", &path(&db), "--csv", &path(&csv), "--rotate", "1M", "--sample", "0.2"]);
    assert_eq!(code(&swept), 0, "{}", stderr(&swept));

    let stored = Store::open_read_only(&db).unwrap().choices().unwrap();
    assert_eq!(stored.len(), rows.len());
    let read = format::read_choices(&csv, &Default::default()).unwrap();
    assert!(read.rejected.is_empty(), "{:?}", read.rejected);
    let mut from_csv: Vec<_> = read.into_values().collect();
    let mut from_db = stored.clone();
    let key = |c: &tgemm_db::Choice| c.problem;
    from_csv.sort_by_key(key);
    from_db.sort_by_key(key);
    assert_eq!(from_csv, from_db, "the CSV says what the database says");

    for choice in &stored {
        assert!(!choice.baselines.is_empty(), "{}: a CPU always has a baseline", choice.problem);
        assert!(choice.error_over_bound <= 1.0 && choice.time_us > 0.0);
        assert_eq!(choice.count, 3);
    }
    for file in [&db, &csv] {
        let looked = run(["lookup", "--db", &path(file), "--untuned", &path(&untuned)]);
        assert_eq!(code(&looked), 0, "{}{}", stdout(&looked), stderr(&looked));
        assert_eq!(stdout(&looked).matches("exact").count(), rows.len(), "{}", stdout(&looked));
    }
    let near = run(["lookup", "--db", &path(&db), "-m", "3", "-n", "96", "-k", "64", "--dtype", "bf16", "--explain"]);
    // What two neighbours chose answers for what is between them, if it is the same.
    let is_told = stdout(&near).contains("interval  M=5: ");
    let differ = stdout(&near).contains("the neighbours chose differently");
    assert!(is_told && code(&near) == i32::from(differ), "{}", stdout(&near));
    let far = run(["lookup", "--db", &path(&db), "-m", "99", "-n", "96", "-k", "64", "--dtype", "bf16", "--explain"]);
    assert_eq!(code(&far), 1, "{}", stdout(&far));
    assert!(stdout(&far).contains("nearest tuned M"), "{}", stdout(&far));
    let aiter = run(["db", "export", "--db", &path(&db), "--for", "aiter"]);
    assert_eq!(code(&aiter), 0, "{}", stderr(&aiter));
    assert!(stdout(&aiter).starts_with("gfx,cu_num,M,N,K,bias,"));
}

#[test]
fn a_dry_run_shows_the_plan_and_writes_nothing() {
    let scratch = Scratch::new();
    let db = scratch.path("t.sqlite").display().to_string();
    let untuned = scratch.untuned(&[1, 2]).display().to_string();
    let output = run(["sweep", &untuned, "--db", &db, "--dry-run", "--budget", "10s"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stdout(&output).contains("2 problems on "), "{}", stdout(&output));
    assert!(!scratch.path("t.sqlite").exists());
}

#[test]
fn shapes_of_a_model_are_an_untuned_csv() {
    let scratch = Scratch::new();
    let out = scratch.path("shapes.csv");
    let output = run([
        "shapes",
        "--model",
        "qwen3-0.6b",
        "--dtype",
        "bf16",
        "--tokens",
        "1,8",
        "-o",
        &out.display().to_string(),
    ]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let rows = format::read_untuned(&out).unwrap();
    assert!(rows.rejected.is_empty());
    let problems: Vec<String> = rows.into_values().map(|r| tgemm_db::key::short(&r.problem)).collect();
    assert!(problems.contains(&"8x4096x1024 bf16".to_owned()), "fused qkv of Qwen3-0.6B: {problems:?}");
    assert_eq!(problems.len(), 10);
}

#[test]
fn json_events_are_one_object_a_line() {
    let scratch = Scratch::new();
    let device =
        scratch.script(serde_json::json!([{ "name": "default", "time_us": 100, "baseline": "scripted gemm" }]));
    let output = common::sweep(&scratch, &device, &scratch.untuned(&[1, 2]), &["--json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let events: Vec<serde_json::Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let finished = events.iter().filter(|e| e["event"] == "finished").count();
    assert_eq!((events[0]["event"].as_str(), finished), (Some("planned"), 2));
}
