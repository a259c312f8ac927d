//! The laws of merging, and what it tells.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::sample::select;

use super::sample::{Figures, choice};
use super::*;
use crate::choice::Verdict;
use crate::format::tuned;

fn figures() -> impl Strategy<Value = Figures> {
    // Few values of each, so that rows meet and tie in every way.
    let key = (1u32..3, select(vec![64u32, 96]), select(vec!["gfx942", "gfx950"]), select(vec!["", "1.0", "2.0"]));
    let rest = (0i64..2, select(Verdict::ALL), select(vec![0.8, 0.9]), select(vec![5.0, 7.0]), 0u64..2);
    let stamps = select(vec!["", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.25Z"]);
    (key, rest, stamps).prop_map(|((m, n, arch, version), (index, verdict, high, time_us, count), tuned_at)| Figures {
        m,
        n,
        arch,
        version,
        index,
        verdict,
        high,
        time_us,
        tuned_at,
        count,
    })
}

fn table() -> impl Strategy<Value = Vec<Choice>> {
    proptest::collection::vec(figures().prop_map(choice), 0..24)
}

fn merged(tables: &[&[Choice]]) -> Merged {
    let mut merge = Merge::new();
    for (at, table) in tables.iter().enumerate() {
        merge.add_rows(format!("table {at}"), table.iter().cloned().map(Row::bare)).unwrap();
    }
    merge.finish()
}

fn merge(tables: &[&[Choice]]) -> Vec<Choice> {
    merged(tables).choices().unwrap()
}

proptest! {
    #[test]
    fn the_order_of_sources_and_rows_does_not_matter(a in table(), b in table()) {
        let both = merge(&[&a, &b]);
        prop_assert_eq!(&merge(&[&b, &a]), &both);
        let mut shuffled: Vec<Choice> = a.iter().chain(&b).cloned().collect();
        shuffled.reverse();
        prop_assert_eq!(merge(&[&shuffled]), both);
    }

    #[test]
    fn the_grouping_of_sources_does_not_matter(a in table(), b in table(), c in table()) {
        let all = merge(&[&a, &b, &c]);
        prop_assert_eq!(&merge(&[&merge(&[&a, &b]), &c]), &all);
        prop_assert_eq!(&merge(&[&a, &merge(&[&b, &c])]), &all);
    }

    #[test]
    fn merging_again_changes_nothing(a in table()) {
        let once = merge(&[&a]);
        prop_assert_eq!(&merge(&[&once]), &once);
        prop_assert_eq!(&merge(&[&once, &a, &once]), &once);
    }

    /// The rule said a second time: nobody stays who has a better rival, and each row that goes has one that stays.
    #[test]
    fn the_best_of_each_key_stays_and_no_other(a in table(), b in table()) {
        let rows: Vec<&Choice> = a.iter().chain(&b).collect();
        let rivals = |x: &Choice, y: &Choice| {
            let builds = |c: &Choice| (c.solution.build.version.clone(), c.baselines.first().map(|b| b.solution.build.version.clone()));
            // A build that is not known tells rows apart no more than having no baseline does.
            let known = |c: &Choice| {
                let (winner, baseline) = builds(c);
                [Some(winner), baseline].into_iter().flatten().filter(|v| !v.is_empty()).collect::<std::collections::BTreeSet<_>>()
            };
            x.problem == y.problem && x.device == y.device && known(x) == known(y)
        };
        let result = merge(&[&a, &b]);
        for kept in &result {
            prop_assert!(rows.contains(&kept));
            for row in rows.iter().filter(|row| rivals(row, kept)) {
                prop_assert!(compare(kept, row).is_le(), "{:?}\n{:?}", kept, row);
            }
        }
        for row in rows {
            prop_assert_eq!(result.iter().filter(|kept| rivals(row, kept)).count(), 1);
        }
    }

    #[test]
    fn every_row_is_accounted_for(a in table(), b in table()) {
        let merged = merged(&[&a, &b]);
        for (report, rows) in merged.reports().iter().zip([a.len(), b.len()]) {
            prop_assert_eq!(report.rows, rows as u64);
            prop_assert_eq!(report.won + report.lost_total() + report.identical, report.rows);
        }
        prop_assert_eq!(merged.reports().iter().map(|report| report.won).sum::<u64>(), merged.len() as u64);
    }

}

proptest! {
    // Each case waits for the disk.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn tables_in_files_merge_as_in_memory(a in table(), b in table()) {
        let folder = tempfile::tempdir().unwrap();
        let files = [("a.csv", &a), ("b.csv", &b)].map(|(name, rows)| write(folder.path(), name, rows));
        let mut merge_files = Merge::new();
        for file in &files {
            merge_files.add_file(file, &ReadOptions::default()).unwrap();
        }
        let out = folder.path().join("out.csv");
        merge_files.finish().write_csv(&out).unwrap();
        prop_assert_eq!(read(&out), merge(&[&a, &b]));
        prop_assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "nothing lies beside the result");
    }
}

fn write(folder: &Path, name: &str, rows: &[Choice]) -> PathBuf {
    let path = folder.join(name);
    tuned::write(&path, rows).unwrap();
    path
}

fn read(path: &Path) -> Vec<Choice> {
    format::read_choices(path, &ReadOptions::default()).unwrap().into_values().collect()
}

#[test]
fn losses_name_the_source_that_won_and_equal_rows_are_told_apart_from_losses() {
    let raced = |high, m| choice(Figures { m, high, verdict: Verdict::Faster, ..Figures::default() });
    let tables = [vec![raced(0.9, 1), raced(0.9, 2)], vec![raced(0.8, 1), raced(0.9, 2)], vec![raced(0.7, 1)]];
    let merged = merged(&[&tables[0], &tables[1], &tables[2]]);
    let figures: Vec<_> = merged.reports().iter().map(|r| (r.won, r.lost.clone(), r.identical)).collect();
    assert_eq!(figures, [(1, vec![(2, 1)], 0), (0, vec![(2, 1)], 1), (1, vec![], 0)]);
}

#[test]
fn aiters_rows_with_blank_lines_bad_rows_and_no_final_newline_keep_their_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bf16_tuned_gemm.csv");
    let header = "gfx,cu_num,M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle,libtype,solidx,splitK,us,kernelName,err_ratio,tflops,bw";
    let row = |m: u32, us: &str| {
        format!("gfx950,256,{m},64,128,False,torch.bfloat16,torch.bfloat16,False,False,asm,1,0,{us},k,0.0,1,1")
    };
    fs::write(&path, format!("\n{header}\n{}\n\n{}\n{}\n{}", row(2, "8"), row(3, "0"), row(1, "7"), row(2, "6")))
        .unwrap();
    let before = fs::read(&path).unwrap();
    let mut merge = Merge::new();
    merge.add_file(&path, &ReadOptions::default()).unwrap();
    let merged = merge.finish();
    let report = &merged.reports()[0];
    assert_eq!((report.rows, report.won, report.rejected), (3, 2, 1));
    assert_eq!(report.rejections[0].line, 5, "{:?}", report.rejections);
    let rows = merged.choices().unwrap();
    let told: Vec<_> = rows.iter().map(|c| (c.problem.m(), c.time_us, c.origin.as_ref().unwrap().line)).collect();
    assert_eq!(told, [(1, 7.0, 6), (2, 6.0, 7)]);
    let origin = rows[0].origin.as_ref().unwrap();
    assert_eq!(origin.source.file_hash, blake3::hash(&before).to_hex().to_string());
    assert_eq!(fs::read(&path).unwrap(), before, "inputs are never edited");
}

#[test]
fn a_source_that_changes_meanwhile_is_an_error_and_the_target_stays() {
    let folder = tempfile::tempdir().unwrap();
    let rows: Vec<Choice> = (1..9).map(|m| choice(Figures { m, ..Figures::default() })).collect();
    let source = write(folder.path(), "a.csv", &rows);
    let out = folder.path().join("out.csv");
    fs::write(&out, "old").unwrap();
    let mut merge = Merge::new();
    merge.add_file(&source, &ReadOptions::default()).unwrap();
    let merged = merge.finish();
    fs::OpenOptions::new()
        .append(true)
        .open(&source)
        .and_then(|mut file| io::Write::write_all(&mut file, b"x\n"))
        .unwrap();
    let error = merged.write_csv(&out).unwrap_err();
    assert!(error.to_string().contains("changed while it was merged"), "{error}");
    assert_eq!(fs::read_to_string(&out).unwrap(), "old");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing lies beside it");
}

#[test]
fn what_is_no_table_of_choices_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let junk = folder.path().join("junk.csv");
    fs::write(&junk, "a,b,c\n1,2,3\n").unwrap();
    for path in [junk, folder.path().join("missing.csv"), folder.path().to_owned()] {
        let error = Merge::new().add_file(&path, &ReadOptions::default()).unwrap_err();
        assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
    }
}

#[test]
fn a_line_without_end_costs_itself_only() {
    let folder = tempfile::tempdir().unwrap();
    let good = tuned::to_text([&choice(Figures::default())]);
    let path = folder.path().join("long.csv");
    fs::write(&path, [good.as_bytes(), &vec![b'x'; 3 << 20], b"\n", good.as_bytes()].concat()).unwrap();
    let mut merge = Merge::new();
    merge.add_file(&path, &ReadOptions::default()).unwrap();
    let report = merge.finish().reports()[0].clone();
    assert_eq!((report.rows, report.rejected), (2, 1));
    assert_eq!(report.rejections[0].line, 3);
}

/// A million rows in four tables that overlap by a fifth, as sweeps write them: time and memory of their merge.
///
/// `cargo test --release -p tgemm-db --lib -- --ignored --nocapture merge_figures`
#[test]
#[ignore = "takes a minute, and means something in a release build only"]
fn merge_figures() {
    const FILES: u32 = 4;
    const ROWS: u32 = 250_000;
    const STEP: u32 = 200_000;
    const MS: u32 = 500;
    let folder = tempfile::tempdir().unwrap();
    let header = tuned::to_text([]);
    let mut paths = Vec::new();
    for file in 0..FILES {
        let path = folder.path().join(format!("tuned_{file}.csv"));
        let mut out = io::BufWriter::new(fs::File::create(&path).unwrap());
        io::Write::write_all(&mut out, header.as_bytes()).unwrap();
        for at in 0..ROWS {
            let key = file * STEP + at;
            // A cheap hash of key and file, so that either side of an overlap may win.
            let noise = (key ^ file << 20).wrapping_mul(2_654_435_761) >> 8;
            let high = 0.5 + f64::from(noise % 4999) / 10_000.0;
            let row = choice(Figures {
                m: key % MS + 1,
                n: 64 * (key / MS + 1),
                version: "1.2.3",
                index: i64::from(noise % 200),
                verdict: Verdict::Faster,
                high,
                time_us: 20.0 * high,
                tuned_at: "2026-01-01T00:00:00Z",
                count: u64::from(noise % 1000),
                ..Figures::default()
            });
            io::Write::write_all(&mut out, &tuned::to_text([&row]).as_bytes()[header.len()..]).unwrap();
        }
        io::Write::flush(&mut out).unwrap();
        paths.push(path);
    }
    let bytes: u64 = paths.iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    let start = std::time::Instant::now();
    let mut merge = Merge::new();
    for path in &paths {
        merge.add_file(path, &ReadOptions::default()).unwrap();
    }
    let read = start.elapsed();
    let merged = merge.finish();
    let decided = start.elapsed();
    let out = folder.path().join("out.csv");
    let rows = merged.write_csv(&out).unwrap();
    let took = start.elapsed();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM: unknown");
    println!(
        "{} rows ({} MB) -> {rows} rows ({} MB): read {read:.2?}, decided {:.2?}, written {:.2?}; in all {took:.2?}; {peak}",
        FILES * ROWS,
        bytes >> 20,
        fs::metadata(&out).unwrap().len() >> 20,
        decided - read,
        took - decided,
    );
    for report in merged.reports() {
        println!("{}: {} rows, {} won, lost {:?}", report.name, report.rows, report.won, report.lost);
    }
    assert_eq!(rows as u32, (FILES - 1) * STEP + ROWS);
}

#[test]
fn a_last_line_without_an_end_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a8w8_tuned_gemm.csv");
    let header = "gfx,cu_num,M,N,K,q_dtype_w,libtype,kernelId,splitK,us,kernelName,tflops,bw,errRatio\n";
    let row = |m: u32| format!("gfx942,80,{m},1280,8192,torch.int8,ck,34,2,20.50,k,1.02,510.5,0.0");
    // The last line is the first of the result.
    std::fs::write(&path, format!("{header}{}\n{}", row(4), row(1))).unwrap();
    let mut merge = Merge::new();
    merge.add_file(&path, &ReadOptions { imported_at: "2026-09-01".into(), ..ReadOptions::default() }).unwrap();
    let choices = merge.finish().choices().unwrap();
    let ends: Vec<_> = choices.iter().map(|choice| choice.origin.as_ref().unwrap().cell("")).collect();
    assert_eq!(ends, [Some(""), None]);
    let sources: Vec<_> = choices.iter().map(|choice| &choice.origin.as_ref().unwrap().source).collect();
    let hash = blake3::hash(&std::fs::read(&path).unwrap()).to_hex();
    assert!(sources.iter().all(|source| source.file_hash == hash.as_str() && source.imported_at == "2026-09-01"));
    assert_eq!(choices.iter().map(|choice| choice.origin.as_ref().unwrap().line).collect::<Vec<_>>(), [3, 2]);
}
