//! Every bf16 file that AITER has published, as it is: all rows are accounted for, none is refused without cause.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::format::{self, AssumedDevice, ChoiceOptions, Format, aiter};

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data/aiter");

fn csv_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            csv_files(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "csv") {
            found.push(path);
        }
    }
    found.sort();
}

/// Every CSV file of the corpus with its format by its header; none, with a message, where the corpus is not there.
fn files() -> Vec<(PathBuf, Option<Format>)> {
    let mut all = Vec::new();
    csv_files(Path::new(CORPUS), &mut all);
    if all.is_empty() {
        println!("skipped: no AITER files at {CORPUS}");
    }
    let sniffed = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        (path, format::sniff(text.lines().next().unwrap_or_default()))
    };
    all.into_iter().map(sniffed).collect()
}

fn files_of(format: Format) -> Vec<PathBuf> {
    files().into_iter().filter(|(_, have)| *have == Some(format)).map(|(path, _)| path).collect()
}

/// Lines below the header that are not blank.
fn rows_in(path: &Path) -> usize {
    let bytes = fs::read(path).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    text.lines().filter(|line| !line.trim().is_empty()).count() - 1
}

fn tell(path: &Path, rows: usize, kept: usize, rejected: usize) {
    let name = path.strip_prefix(CORPUS).unwrap_or(path);
    println!("{rows:>5} rows {kept:>5} kept {rejected:>4} rejected  {}", name.display());
}

#[test]
fn every_tuned_table_reads() {
    // Without gfx and cu_num in the oldest headers an assumed device must stand in, or their rows would not count.
    let options = ChoiceOptions { device: Some(AssumedDevice { arch: "gfx942".into(), compute_units: 304 }) };
    let (mut rows, mut kept, mut libraries) = (0, 0, BTreeMap::<String, usize>::new());
    let mut why = BTreeMap::<String, usize>::new();
    let files = files_of(Format::AiterBf16Tuned);
    for path in &files {
        let read = format::read_choices(path, &options).unwrap();
        tell(path, rows_in(path), read.rows.len(), read.rejected.len());
        assert_eq!(rows_in(path), read.rows.len() + read.rejected.len(), "{}", path.display());
        rows += rows_in(path);
        kept += read.rows.len();
        for row in &read.rejected {
            *why.entry(row.reason.clone()).or_default() += 1;
        }
        for row in &read.rows {
            *libraries.entry(row.value.solution.library().to_owned()).or_default() += 1;
        }
    }
    println!("{} tuned files: {rows} rows, {kept} kept, rejected: {why:?}; {libraries:?}", files.len());
    if files.is_empty() {
        return;
    }
    // 242 placeholders of 0 us in today's tables, 10 in one of October 2025.
    let placeholder = |reason: &String| reason.starts_with("us is '0");
    assert!(why.keys().all(placeholder), "rejected without cause: {why:?}");
    assert_eq!(why.values().sum::<usize>(), 252);
    assert!(libraries["hipblaslt"] >= 224 + 809 && libraries["rocblas"] == 3, "{libraries:?}");
}

#[test]
fn every_untuned_table_reads() {
    let (mut rows, mut kept) = (0, 0);
    let files = files_of(Format::AiterBf16Untuned);
    for path in &files {
        let read = format::read_untuned(path).unwrap();
        tell(path, rows_in(path), read.rows.len(), read.rejected.len());
        assert_eq!(read.rejected, [], "{}", path.display());
        assert_eq!(rows_in(path), read.rows.len(), "{}", path.display());
        rows += rows_in(path);
        kept += read.rows.len();
    }
    println!("{} untuned files: {rows} rows, {kept} kept", files.len());
}

#[test]
fn todays_tables_come_out_of_an_export_as_they_went_in() {
    let mut compared = 0;
    for path in files_of(Format::AiterBf16Tuned) {
        let options = ChoiceOptions::default();
        let choices: Vec<_> = format::read_choices(&path, &options).unwrap().into_values().collect();
        let (text, left_out) = aiter::to_text(&choices);
        // A library that AITER has dropped since, and rows that would make AITER refuse its own file.
        let known = ["AITER cannot run library rocblas", "an earlier choice has the same key"];
        assert!(left_out.iter().all(|row| known.contains(&row.reason.as_str())), "{}: {left_out:?}", path.display());
        let back: Vec<_> = format::parse_choices(&path, text.as_bytes(), &options).unwrap().into_values().collect();
        assert_eq!(choices.len(), back.len() + left_out.len());
        assert!(back.iter().all(|row| choices.contains(row)), "{}", path.display());
        compared += back.len();
    }
    println!("{compared} rows exported and read back equal");
}

#[test]
fn other_families_are_refused_by_their_header_and_no_bf16_table_is() {
    let mut refused = 0;
    for (path, format) in files() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_bf16 =
            name.contains("bf16_tuned_gemm") || name.contains("bf16_untuned_gemm") || name.starts_with("tuned_gemm.");
        assert!(!is_bf16 || format.is_some(), "{name}");
        if format.is_none() {
            let error = format::read_choices(&path, &ChoiceOptions::default()).unwrap_err();
            assert!(error.to_string().contains("is of no known format"), "{error}");
            refused += 1;
        }
    }
    println!("{refused} files of other families refused by their header");
}
