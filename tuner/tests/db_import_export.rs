//! `tune db import`, `export` and `stats`: what comes in, what is told of it, and what goes out again.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{Scratch, code, stderr, stdout, tune};
use serde_json::Value;
use tgemm_db::store::Store;

const HEADER: &str =
    "gfx,cu_num,M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle,libtype,solidx,splitK,us,kernelName,err_ratio,tflops,bw";

fn row(m: u32, index: u32, us: &str) -> String {
    format!(
        "gfx950,256,{m},64,128,False,torch.bfloat16,torch.bfloat16,False,False,asm,{index},0,{us},k{index},0.0,1.0,2.0"
    )
}

fn table(scratch: &Scratch, name: &str, rows: &[String]) -> PathBuf {
    scratch.write(name, format!("{HEADER}\n{}\n", rows.join("\n")))
}

fn import(db: &Path, files: &[&Path], more: &[&str]) -> std::process::Output {
    let mut command = tune();
    command.args(["db", "import"]).args(files).arg("--db").arg(db).args(more);
    command.output().expect("tune runs")
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

#[test]
fn every_row_comes_in_with_where_it_came_from_or_is_named() {
    let scratch = Scratch::new();
    let file = table(&scratch, "bf16_tuned_gemm.csv", &[row(1, 7, "5.5"), row(2, 7, "0"), row(4, 8, "6.5")]);
    let before = fs::read(&file).unwrap();
    let db = scratch.path("db.sqlite");
    let output = import(&db, &[&file], &["--json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let told = json_lines(&stdout(&output));
    assert_eq!((&told[0]["rows"], &told[0]["kept"], &told[0]["rejected"]), (&2.into(), &2.into(), &1.into()));
    assert_eq!(told[0]["reasons"][0]["line"], 3);
    assert!(stderr(&output).contains("bf16_tuned_gemm.csv:3: us is '0'"), "{}", stderr(&output));
    let choices = Store::open_read_only(&db).unwrap().choices().unwrap();
    let origins: Vec<_> = choices.iter().map(|choice| choice.origin.clone().expect("an origin")).collect();
    assert_eq!(origins.iter().map(|origin| origin.line).collect::<Vec<_>>(), [2, 4]);
    assert!(
        origins
            .iter()
            .all(|origin| origin.source.file == file.display().to_string() && !origin.source.imported_at.is_empty())
    );
    assert_eq!(origins[0].source.file_hash.len(), 64, "{}", origins[0].source.file_hash);
    assert_eq!(fs::read(&file).unwrap(), before, "inputs are not edited");
    assert_eq!(code(&import(&db, &[&file], &["--strict"])), 1, "a rejected row counts if it is strict");
}

#[test]
fn importing_again_changes_nothing_and_a_better_row_takes_its_place() {
    let scratch = Scratch::new();
    let db = scratch.path("db.sqlite");
    let first = table(&scratch, "bf16_tuned_gemm.csv", &[row(1, 7, "5.5"), row(2, 7, "6.0")]);
    let second = table(&scratch, "x_bf16_tuned_gemm.csv", &[row(1, 9, "4.5"), row(2, 9, "9.0")]);
    import(&db, &[&first], &[]);
    let again = json_lines(&stdout(&import(&db, &[&first], &["--json"])));
    assert_eq!((&again[0]["kept"], &again[0]["known"]), (&0.into(), &2.into()));
    let better = json_lines(&stdout(&import(&db, &[&second], &["--json"])));
    assert_eq!((&better[0]["kept"], &better[0]["lost"]), (&1.into(), &1.into()));
    let mut choices = Store::open_read_only(&db).unwrap().choices().unwrap();
    choices.sort_by_key(|choice| choice.problem);
    let indices: Vec<i64> = choices.iter().map(|choice| choice.solution.index).collect();
    assert_eq!(indices, [9, 7]);
}

#[test]
fn aiters_table_comes_out_byte_for_byte_as_it_went_in() {
    let scratch = Scratch::new();
    // Not in our order, and with spellings that are not ours.
    let rows = [row(64, 7, "5.50"), row(1, 8, "6"), row(8, 7, "7.125")];
    let file = table(&scratch, "bf16_tuned_gemm.csv", &rows);
    let db = scratch.path("db.sqlite");
    import(&db, &[&file], &[]);
    let out = scratch.path("out.csv");
    let mut command = tune();
    command.args(["db", "export", "--for", "aiter", "--as-imported", "--source"]).arg(&file);
    let output = command.arg("--db").arg(&db).arg("-o").arg(&out).output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(fs::read_to_string(&out).unwrap(), fs::read_to_string(&file).unwrap());
}

#[test]
fn untuned_files_become_recordings_once() {
    let scratch = Scratch::new();
    let file = scratch.untuned(&[1, 2]);
    let db = scratch.path("db.sqlite");
    for _ in 0..2 {
        let output = import(&db, &[&file], &[]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
    }
    let recorded = Store::open_read_only(&db).unwrap().recorded().unwrap();
    assert_eq!(recorded.iter().map(|row| row.count).collect::<Vec<_>>(), [10, 10]);
}

#[test]
fn a_file_that_cannot_be_read_is_one_line_and_the_others_come_in() {
    let scratch = Scratch::new();
    let db = scratch.path("db.sqlite");
    let (junk, missing) = (scratch.write("junk.csv", "a,b\n1,2\n"), scratch.path("missing.csv"));
    let output = import(&db, &[&junk], &[]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("junk.csv"), "{}", stderr(&output));
    assert!(!db.exists(), "no database is made of nothing");
    let good = table(&scratch, "bf16_tuned_gemm.csv", &[row(1, 7, "5.5")]);
    let output = import(&db, &[&missing, &good, &junk], &[]);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert_eq!(Store::open_read_only(&db).unwrap().choices().unwrap().len(), 1);
}

#[test]
fn exports_say_what_the_target_cannot_express() {
    let scratch = Scratch::new();
    let db = scratch.path("db.sqlite");
    let file = table(&scratch, "bf16_tuned_gemm.csv", &[row(1, 7, "5.5"), row(2, 7, "6.5")]);
    import(&db, &[&file], &[]);
    let export = |more: &[&str]| {
        let mut command = tune();
        command.args(["db", "export", "--db"]).arg(&db).args(more).output().unwrap()
    };
    for target in ["hipblaslt", "rocblas"] {
        let output = export(&["--for", target]);
        let complaints = stderr(&output).lines().filter(|line| line.starts_with("tune: left out: ")).count();
        assert_eq!((code(&output), complaints), (0, 2), "{target}: {}", stderr(&output));
    }
    let output = export(&["--for", "tunableop"]);
    assert_eq!(code(&output), 2, "PyTorch would reject it whole");
    assert!(stderr(&output).contains("--validators-from"), "{}", stderr(&output));
    assert_eq!(json_lines(&stdout(&export(&["--for", "json"]))).len(), 2);
    assert_eq!(stdout(&export(&["--for", "csv"])).lines().count(), 3);
    assert_eq!(stdout(&export(&["--for", "aiter"])).lines().next(), Some(HEADER));
    assert_eq!(code(&export(&["--source", "other.csv"])), 2);
}

#[test]
fn stats_count_by_device_library_and_format() {
    let scratch = Scratch::new();
    let other = row(1, 7, "5.5").replace("gfx950,256", "gfx942,80");
    let file = table(&scratch, "bf16_tuned_gemm.csv", &[row(1, 7, "5.5"), row(64, 7, "6.5"), other]);
    let output = tune().args(["db", "stats", "--json"]).arg(&file).output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let told = json_lines(&stdout(&output));
    let group = |at: usize| (told[at]["device"].clone(), told[at]["rows"].clone(), told[at]["m_max"].clone());
    assert_eq!(group(0), ("gfx942/80".into(), 1.into(), 1.into()));
    assert_eq!(group(1), ("gfx950/256".into(), 2.into(), 64.into()));
    assert_eq!(told[2]["rows"], 3, "one source: {}", told[2]);
    let output = tune().args(["db", "stats", "--sources"]).arg(&file).output().unwrap();
    assert!(stdout(&output).contains("bf16_tuned_gemm.csv"), "{}", stdout(&output));
}

/// All of AITER's shipped tables at once: every row is kept, known, lost or rejected, and none is lost from sight.
#[test]
fn aiters_shipped_tables_all_come_in() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data/aiter/aiter/configs"));
    if !folder.is_dir() {
        println!("skipped: no {}", folder.display());
        return;
    }
    let mut files: Vec<PathBuf> = [folder.to_owned(), folder.join("model_configs")]
        .iter()
        .flat_map(|folder| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "csv"))
        .collect();
    files.sort();
    let scratch = Scratch::new();
    let db = scratch.path("db.sqlite");
    let paths: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    let output = import(&db, &paths, &["--json"]);
    let told = json_lines(&stdout(&output));
    assert_eq!(told.len(), files.len());
    let mut kept = 0;
    for file in &told {
        let figure = |name: &str| file[name].as_u64().unwrap();
        assert_eq!(figure("kept") + figure("known") + figure("lost"), figure("rows"), "{file}");
        assert_eq!(
            figure("rejected"),
            file["reasons"].as_array().unwrap().len() as u64 * u64::from(figure("rejected") > 0)
        );
        let is_choices = file["format"].as_str().unwrap().contains(" tuned table");
        kept += if is_choices { figure("kept") } else { 0 };
    }
    println!("{}", stderr(&output).lines().last().unwrap_or_default());
    let stored = Store::open_read_only(&db).unwrap().choices().unwrap();
    assert_eq!(stored.len() as u64, kept, "what is told to be kept is in the database");
    assert!(stored.iter().all(|choice| choice.origin.is_some()));
}
