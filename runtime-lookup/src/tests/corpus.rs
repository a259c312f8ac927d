//! Every table that AITER has published, through the door that engines use: each of its rows serves, or is told why not.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tgemm_db::{Device, Environment, Vendor};

use crate::Database;
use crate::load::REJECTED_TOLD_MAX;

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data/aiter");

/// The fewest rows that must be admitted over all files: an MI355X has most of AITER's tables.
const ADMITTED_MIN: usize = 20_000;

fn csv_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            csv_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "csv") {
            found.push(path);
        }
    }
    found.sort();
}

/// Lines that are neither blank nor the header again.
fn rows_in(bytes: &[u8]) -> usize {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.trim_start_matches('\u{feff}').lines().filter(|line| !line.trim().is_empty());
    let Some(header) = lines.next() else { return 0 };
    lines.filter(|line| *line != header).count()
}

/// `file.csv:12: reason` without its place; a reason that says a value is one kind with it.
fn reason<'r>(rejection: &'r str, file: &Path) -> &'r str {
    let rest = rejection.strip_prefix(&file.display().to_string()).expect("a rejection names its file");
    rest.splitn(3, ':').nth(2).expect("a rejection names its line").trim()
}

#[test]
fn every_published_table_loads_and_no_row_is_lost_in_silence() {
    let mut files = Vec::new();
    csv_files(Path::new(CORPUS), &mut files);
    if files.is_empty() {
        println!("skipped: no AITER files at {CORPUS}");
        return;
    }
    let device = Device::named(Vendor::Amd, "gfx950", 256);
    let here = Environment { device, builds: Vec::new(), driver: String::new(), vars: BTreeMap::new() };
    let (mut tables, mut rows, mut admitted, mut elsewhere) = (0, 0, 0, 0);
    let mut rejected: BTreeMap<String, usize> = BTreeMap::new();
    let mut refused: BTreeMap<String, usize> = BTreeMap::new();
    for path in &files {
        let (database, report) = Database::open(std::slice::from_ref(path), &here);
        let [file] = &report.files[..] else { panic!("one file, one report") };
        if let Some(error) = &file.error {
            assert_eq!((file.kept, file.rejected, database.len()), (0, 0, 0), "{error}");
            // What it is instead: a table of problems, of another operation, a catalogue of kernels.
            let why = error.rsplit_once(": ").map_or(error.as_str(), |(_, why)| why);
            *refused.entry(why.to_owned()).or_default() += 1;
            continue;
        }
        let all = rows_in(&fs::read(path).unwrap());
        let others = file.other_device + file.other_build;
        assert_eq!(file.kept + others + file.rejected, all, "{report}");
        assert_eq!((database.len(), database.refused()), (file.kept, others), "{report}");
        assert_eq!(file.rejections.len(), file.rejected.min(REJECTED_TOLD_MAX), "{report}");
        for rejection in &file.rejections {
            *rejected.entry(reason(rejection, path).to_owned()).or_default() += 1;
        }
        (tables, rows, admitted, elsewhere) = (tables + 1, rows + all, admitted + file.kept, elsewhere + others);
    }
    println!(
        "{tables} tables of {} files, {rows} rows: {admitted} serve, {elsewhere} are of other devices",
        files.len()
    );
    rejected.iter().for_each(|(why, count)| println!("{count:>6} rows (of those told) rejected: {why}"));
    refused.iter().for_each(|(why, count)| println!("{count:>6} files refused: {why}"));
    assert!(admitted >= ADMITTED_MIN, "{admitted}");
    assert_eq!(tables + refused.values().sum::<usize>(), files.len());
}
