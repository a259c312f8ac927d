//! Every CSV file that AITER and others have published, as it is: all rows are accounted for, none is refused without
//! cause, and what is written again is the same bytes or says why not.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::format::aiter::{self, Family, Like};
use crate::format::{self, AssumedDevice, Cause, Content, Format, Read, ReadOptions, Unreadable};

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data");

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

/// Every file of the corpus; none, with a message, where the corpus is not there.
fn files() -> Vec<PathBuf> {
    let mut all = Vec::new();
    csv_files(&Path::new(DATA).join("aiter"), &mut all);
    csv_files(&Path::new(DATA).join("logs/aiter-csv"), &mut all);
    if all.is_empty() {
        println!("skipped: no AITER files at {DATA}");
    }
    all
}

/// As a person would who imports these files: the oldest headers lack the device, and their rows were MI300X rows.
fn options() -> ReadOptions {
    ReadOptions {
        device: Some(AssumedDevice { arch: "gfx942".into(), compute_units: 304 }),
        keep_origin: true,
        imported_at: "2026-09-01T00:00:00Z".into(),
        ..ReadOptions::default()
    }
}

/// Lines that are neither blank nor headers.
fn rows_in(bytes: &[u8]) -> usize {
    let text = std::str::from_utf8(bytes).unwrap();
    let is_header = |line: &&str| line.split(',').any(|name| name.trim() == "K" || name.trim() == "k");
    text.lines().filter(|line| !line.trim().is_empty() && !is_header(line)).count()
}

/// What became of one file.
#[derive(Default)]
struct Fate {
    rows: usize,
    kept: usize,
    why_rejected: BTreeMap<String, usize>,
    warnings: Vec<String>,
    /// Bytes are the same; or the causes, counted.
    causes: BTreeMap<String, usize>,
}

fn kind(cause: &Cause) -> String {
    match cause {
        Cause::LeftOut(why) => format!("left out: {}", why.split(':').next().unwrap_or_default()),
        Cause::Cell(from, to) => format!("'{from}' becomes '{to}'"),
        other => other.to_string(),
    }
}

fn fate<T>(bytes: &[u8], read: &Read<T>, written: &str) -> Fate {
    let mut why_rejected = BTreeMap::new();
    for row in &read.rejected {
        *why_rejected.entry(row.reason.clone()).or_default() += 1;
    }
    let left_out: Vec<(u64, String)> = read.rejected.iter().map(|row| (row.line, row.reason.clone())).collect();
    let differences = format::differences(bytes, written.as_bytes(), &left_out);
    assert_eq!(differences.is_empty(), bytes == written.as_bytes(), "{}", read.file.display());
    let mut causes = BTreeMap::new();
    for difference in &differences {
        assert_ne!(difference.cause, Cause::Rows, "{}: {difference}", read.file.display());
        *causes.entry(kind(&difference.cause)).or_default() += 1;
    }
    Fate {
        rows: rows_in(bytes),
        kept: read.rows.len(),
        why_rejected,
        warnings: read.warnings.iter().map(|warning| warning.what.clone()).collect(),
        causes,
    }
}

/// Imports a file with its origins and writes it again.
fn round_trip(path: &Path) -> Result<Option<(Format, Fate)>, Unreadable> {
    let bytes = fs::read(path).unwrap();
    let mut options = options();
    let read = match format::parse(path, &bytes, &options) {
        // The shape lists of some models are `M,N,K` and say nothing else.
        Err(error) if matches!(error.unreadable, Unreadable::AmbiguousFamily { .. }) => {
            println!("{error}");
            options.family = Some(Family::A8w8Blockscale);
            format::parse(path, &bytes, &options)
        }
        read => read,
    };
    match read.map_err(|error| error.unreadable)? {
        Content::Choices(read) => {
            let Format::AiterTuned(family) = read.format else { return Ok(None) };
            let written = match read.rows.is_empty() {
                true => aiter::to_text_like([], Like::Family(family)),
                false => aiter::to_text_like(read.rows.iter().map(|row| &row.value), Like::Origin),
            };
            assert_eq!(written.left_out, [], "{}", path.display());
            Ok(Some((read.format, fate(&bytes, &read, &written.text))))
        }
        Content::Problems(read) => {
            let Format::AiterUntuned(family) = read.format else { return Ok(None) };
            let rows = read.rows.iter().map(|row| &row.value);
            let (text, left_out) = match read.rows.is_empty() {
                true => aiter::untuned_text(family, None, rows),
                false => aiter::untuned_text_like_origin(rows),
            };
            assert_eq!(left_out, [], "{}", path.display());
            Ok(Some((read.format, fate(&bytes, &read, &text))))
        }
    }
}

/// Files, rows, kept, rejected, files that come out as the same bytes.
type Totals = [usize; 5];

/// What the corpus holds. Tuned files that are not identical: 242 placeholders of 0 us in two tables and 559 in two of
/// others, one `inf`, five headers with no row below them that could say so, one table without a header, blanks in the
/// legacy one. The one untuned file is a header with no row below it that could carry its spelling.
#[rustfmt::skip]
const TOTALS: &[(&str, Totals)] = &[
    ("aiter_a4w4_blockscale_tuned",                [2, 1_500, 1_500, 0, 2]),
    ("aiter_a4w4_blockscale_untuned",              [3, 256, 256, 0, 3]),
    ("aiter_a8w8_blockscale_bpreshuffle_tuned",    [8, 3_455, 3_455, 0, 8]),
    ("aiter_a8w8_blockscale_bpreshuffle_untuned",  [6, 1_584, 1_584, 0, 5]),
    ("aiter_a8w8_blockscale_tuned",                [9, 30_958, 30_958, 0, 9]),
    ("aiter_a8w8_blockscale_untuned",              [8, 2_745, 2_745, 0, 8]),
    ("aiter_a8w8_bpreshuffle_tuned",               [8, 2_787, 2_786, 1, 7]),
    ("aiter_a8w8_bpreshuffle_untuned",             [6, 587, 587, 0, 6]),
    ("aiter_a8w8_tuned",                           [2, 588, 588, 0, 2]),
    ("aiter_a8w8_untuned",                         [1, 66, 66, 0, 1]),
    ("aiter_asm_a8w8_tuned",                       [1, 34, 34, 0, 0]),
    ("aiter_batched_a8w8_mxscale_tuned",           [1, 77, 77, 0, 1]),
    ("aiter_batched_a8w8_tuned",                   [1, 26, 26, 0, 1]),
    ("aiter_batched_a8w8_untuned",                 [1, 26, 26, 0, 1]),
    ("aiter_batched_bf16_tuned",                   [1, 26, 26, 0, 1]),
    ("aiter_batched_bf16_untuned",                 [1, 26, 26, 0, 1]),
    ("aiter_bf16_tuned",                           [34, 5_886, 5_085, 801, 25]),
    ("aiter_bf16_untuned",                         [14, 2_529, 2_529, 0, 14]),
];

#[test]
fn every_gemm_table_reads_and_comes_out_as_it_went_in() {
    let mut totals = BTreeMap::<String, Totals>::new();
    let mut foreign = BTreeMap::<String, usize>::new();
    for path in files() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let (format, fate) = match round_trip(&path) {
            Ok(Some(done)) => done,
            Ok(None) => continue,
            Err(error) => {
                println!("{name}: {error}");
                let why = match error {
                    Unreadable::Foreign(what) => what.split(':').next().unwrap_or_default().to_owned(),
                    // Fused MoE tables that their own module does not take (`M` is none of their columns).
                    Unreadable::UnknownHeader { header, .. } if header.contains("token,") => "fused MoE".into(),
                    Unreadable::UnknownHeader { .. } => format!("unknown: {name}"),
                    other => panic!("{name}: {other}"),
                };
                *foreign.entry(why).or_default() += 1;
                continue;
            }
        };
        let Fate { rows, kept, why_rejected, warnings, causes } = fate;
        let rejected: usize = why_rejected.values().sum();
        println!(
            "{rows:>5} rows {kept:>5} kept {rejected:>4} rejected {why_rejected:?} {warnings:?} {causes:?}  {name}"
        );
        assert_eq!(rows, kept + rejected, "{name}");
        let placeholder = |why: &String| why.contains(" is '0") || why.starts_with("us is 'inf'");
        assert!(why_rejected.keys().all(placeholder), "{name} rejected without cause: {why_rejected:?}");
        let found = [1, rows, kept, rejected, usize::from(causes.is_empty())];
        let all: &mut Totals = totals.entry(format.word()).or_default();
        all.iter_mut().zip(found).for_each(|(all, found)| *all += found);
    }
    println!("files, rows, kept, rejected, identical: {totals:#?}\n{foreign:#?}");
    if totals.is_empty() {
        return;
    }
    let want: BTreeMap<String, Totals> = TOTALS.iter().map(|(word, all)| ((*word).to_owned(), *all)).collect();
    assert_eq!(totals, want);
}

fn all_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            all_files(&path, found);
        } else {
            found.push(path);
        }
    }
    found.sort();
}

#[test]
fn every_published_file_is_told_for_what_it_is() {
    let mut files = Vec::new();
    for folder in ["aiter", "logs", "tunableop", "vllm-moe"] {
        all_files(&Path::new(DATA).join(folder), &mut files);
    }
    let mut formats = BTreeMap::<String, [usize; 3]>::new();
    for path in files {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if ["SOURCE", "LICENSE", "SHA256SUMS"].iter().any(|start| name.starts_with(start)) {
            continue;
        }
        let (word, kept, rejected) = match format::read(&path, &options()) {
            Ok(Content::Choices(read)) => (read.format.word(), read.rows.len(), read.rejected.len()),
            Ok(Content::Problems(read)) => (read.format.word(), read.rows.len(), read.rejected.len()),
            Err(error) => {
                println!("{error}");
                (format!("refused {name}"), 0, 0)
            }
        };
        let all = formats.entry(word).or_default();
        all.iter_mut().zip([1, kept, rejected]).for_each(|(all, found)| *all += found);
    }
    println!("files, kept, rejected: {formats:#?}");
    if formats.is_empty() {
        return;
    }
    let refused: Vec<&str> = formats.keys().filter_map(|word| word.strip_prefix("refused ")).collect();
    let known = |name: &&&str| REFUSED.iter().any(|part| name.contains(part));
    assert_eq!(refused.iter().filter(|name| !known(name)).collect::<Vec<_>>(), [] as [&&str; 0]);
    let read = ["aiter_fmoe_tuned", "vllm_moe", "tunableop", "hipblaslt_log", "hipblaslt_override", "rocblas_log"];
    for word in read.into_iter().chain(["aiter_fmoe_untuned", "tunableop_untuned", "rocblas_override", "cublaslt_log"])
    {
        assert!(formats.get(word).is_some_and(|[_, kept, _]| *kept > 0), "nothing is read as {word}");
    }
}

/// Parts of the names of files that are refused whole, each with its reason in the message: kernel catalogues, linear
/// attention, kinds of fused MoE that are not kept, tables without a time, shape lists that tell no family, a vendor
/// that has no word here.
const REFUSED: &[&str] = &[
    "gemm_bf16_perTokenI8",
    "gemm_bf16_per1x32Fp4",
    "gemm_bf16_blockscale",
    "gemm_fp32bf16",
    "f4gemm.csv",
    "mxfp8fp4gemm",
    "chunk_gdn",
    "fhmoe",
    "grouped_fmoe",
    "rocm-vllm-fp8-hipblaslt",
    "llama405B_untuned_gemm.csv",
    "llama70B_untuned_gemm.csv",
    "qwen32B_untuned_gemm.csv",
    "Intel(R)_Arc",
];
