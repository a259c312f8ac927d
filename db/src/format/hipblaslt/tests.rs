//! Tables and override files written for these tests, and every real log and table that is at hand.

use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;
use crate::choice::Choice;
use crate::dtype::DType;
use crate::format::{self, AssumedDevice, Format, Read};
use crate::problem::{ScaleMode, Site};
use crate::recording::Recorded;

const TUNING: &str = "Git Version: ab12cd\n\
    \x20   transA,transB,grouped_gemm,batch_count,m,n,k,alpha,lda,stride_a,beta,ldb,stride_b,ldc,stride_c,ldd,stride_d,a_type,b_type,c_type,d_type,compute_type,scaleA,scaleB,scaleC,scaleD,amaxD,activation_type,bias_vector,bias_type,rotating_buffer,hipblaslt-Gflops,us,soulution_index,gcnArchName,CUs\n\
    \x20   T,N,0,1,64,3,32,1,32,2048,0,32,96,64,192,64,192,i8_r,i8_r,i32_r,bf16_r,i32_r,2,2,0,0,0,none,0,f32_r,512,150.5,9.5,5223,gfx938:sramecc+:xnack-,72\n\
    \x20   T,N,0,1,64,3,48,1,48,3072,0,48,144,64,192,64,192,bf16_r,bf16_r,bf16_r,bf16_r,f32_r,0,0,0,0,0,relu,1,f32_r,512,150.5,inf,5224,gfx938:sramecc+:xnack-,72\n\
    \x20   T,N,0,1,64,4,48,1,48,3072,0,48,192,64,256,64,256,bf16_r,bf16_r,bf16_r,bf16_r,f32_r,0,0,0,0,0,relu,1,f32_r,512,150.5,8.25,5225,gfx938:sramecc+:xnack-,72\n";

fn options() -> ReadOptions {
    ReadOptions { keep_origin: true, ..ReadOptions::default() }
}

fn choices(text: &str) -> Read<Choice> {
    match read(Path::new("t.csv"), text.as_bytes(), &options()).unwrap() {
        Content::Choices(read) => read,
        Content::Problems(read) => panic!("{read:?}"),
    }
}

#[test]
fn a_tuning_file_is_choices_of_its_build_and_device() {
    assert!(recognise("x.csv", TUNING.as_bytes()));
    let read = choices(TUNING);
    assert_eq!(read.rejected[0].to_string(), "t.csv:4: us is 'inf': finite microseconds above 0 are expected");
    let first = &read.rows[0].value;
    assert_eq!((first.solution.index, first.time_us, first.device.to_string()), (5223, 9.5, "gfx938/72".to_owned()));
    assert_eq!(first.solution.build.to_string(), "hipblaslt (ab12cd)");
    let site = Site { scale: ScaleMode::TokenChannel, ..Site::linear(64, 32, DType::I8) }.with_out(DType::Bf16);
    assert_eq!(first.problem, site.at(3).into());
    assert_eq!(first.origin.as_ref().unwrap().line, 3);
}

#[test]
fn bench_output_without_solutions_is_problems() {
    let text = TUNING.replace("soulution_index", "efficiency");
    let Content::Problems(read) = read(Path::new("t.csv"), text.as_bytes(), &options()).unwrap() else { panic!() };
    assert_eq!((read.rows.len(), read.format), (3, Format::HipblasltLog));
}

/// What the older reader of the library takes: exactly 37 cells, numbers where they must be, an index above 0.
fn as_the_older_reader(line: &str) -> Option<(Vec<String>, i64)> {
    let cells: Vec<String> = line.trim_start().split(',').map(str::to_owned).collect();
    if cells.len() != 37 || cells[36].is_empty() {
        return None;
    }
    if cells[3..7].iter().any(|cell| cell.parse::<i64>().is_err()) {
        return None;
    }
    let index = cells[34].parse().ok()?;
    (index > 0).then_some((cells, index))
}

/// What the newer one takes: a header on the first line, then cells by their columns' names.
fn as_the_newer_reader(text: &str) -> Vec<i64> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let at = |name: &str| names.iter().position(|have| *have == name).unwrap();
    let numbers = ["batch_count", "m", "n", "k", "solution_index"].map(at);
    lines
        .filter_map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            let parsed: Option<Vec<i64>> = numbers.iter().map(|&at| cells.get(at)?.parse().ok()).collect();
            parsed.map(|numbers| numbers[4])
        })
        .collect()
}

#[test]
fn both_readers_of_the_library_take_the_override_file_and_so_do_we() {
    let kept: Vec<Choice> = choices(TUNING).into_values().collect();
    let mut others = kept.clone();
    std::sync::Arc::make_mut(&mut others[0].solution.build).revision = "other".into();
    std::sync::Arc::make_mut(&mut others[1].solution.build).library = "rocblas".into();
    let mut negative = kept[1].clone();
    negative.solution.index = -3;
    let mut same_key = kept[1].clone();
    same_key.solution.index = 7;
    let all: Vec<&Choice> = kept.iter().chain(&others).chain([&negative, &same_key]).collect();
    let (text, left_out) = to_text(all, None);
    let older: Vec<i64> = text.lines().filter_map(as_the_older_reader).map(|(_, index)| index).collect();
    assert_eq!(older, [5223, 5225]);
    assert_eq!(as_the_newer_reader(&text), [5223, 5225]);
    let (cells, _) = text.lines().find_map(as_the_older_reader).unwrap();
    assert_eq!([17, 18, 19, 20, 21].map(|at| cells[at].as_str()), ["i8_r", "i8_r", "i32_r", "bf16_r", "i32_r"]);
    let reasons: Vec<&str> = left_out.iter().map(|left| left.reason.as_str()).collect();
    assert_eq!(
        reasons,
        [
            "its index is of revision other, the file is for ab12cd",
            "hipBLASLt cannot run library rocblas",
            "hipBLASLt reads no index below 1, this is -3",
            "the file cannot tell it from an earlier choice: it says nothing of bias, scales and strides",
        ]
    );
    let device = Some(AssumedDevice { arch: "gfx938".into(), compute_units: 72 });
    let options = ReadOptions { device, ..options() };
    let Content::Choices(again) = read(Path::new("o"), text.as_bytes(), &options).unwrap() else { panic!() };
    let decisions = |choice: &Choice| (choice.problem, choice.device.clone(), choice.solution.index, choice.time_us);
    let back: Vec<_> = again.rows.iter().map(|row| decisions(&row.value)).collect();
    assert_eq!(back, kept.iter().map(decisions).collect::<Vec<_>>());
    assert!(again.rows.iter().all(|row| row.value.solution.build.revision == "ab12cd"));
}

#[test]
fn files_go_to_their_own_readers() {
    for (name, head, is_ours) in [
        ("server.log", "starting", true),
        ("x", "hipblaslt-bench -m 4", true),
        ("x.csv", "M,N,K,bias,dtype\n", false),
        ("bench.log", "transA,transB,M,N,K,alpha,rocblas-Gflops,us\n", false),
        ("x.csv", "Validator,PT_VERSION,2\n", false),
        ("x.csv", "gfx,cu_num,M,origin_cells\ngfx942,304,4,op=GemmTunableOp_Half_TN\n", false),
        ("x.txt", "M,N,K,bias,dtype\n", false),
        ("x.log", "SQLite format 3\0", false),
    ] {
        assert_eq!(recognise(name, head.as_bytes()), is_ours, "{name} {head}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = read(Path::new("x"), &bytes, &options());
    }

    #[test]
    fn nearly_right_lines_are_read(
        start in prop_oneof![
            Just("hipblaslt-bench -m 4 -n "), Just("- {function: matmul, M: "), Just("[HIPBLASLT][Trace][rocblaslt_matmul] Adesc=["),
            Just("[aiter] shape is M:4, N:"), Just("I! cuBLAS (v1) function cublasStatus_t cublasSgemm_v2(\ni! m: val="),
            Just("transA,transB,grouped_gemm,us\nT,N,0,"), Just("rocblas-bench -f gemm_ex -r "), Just("finding fastest for GemmTunableOp_"),
        ],
        rest in "[ -~\u{1b}\n…]{0,120}",
    ) {
        let text = format!("{start}{rest}");
        let _ = read(Path::new("x"), text.as_bytes(), &options());
    }
}

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data/logs");

/// Files, rows and rejections, as looked through by hand.
const CORPUS_TOTALS: (usize, usize, usize) = (82, 298, 67);

fn corpus_files() -> Vec<PathBuf> {
    let folders = ["hipblaslt-log", "hipblaslt-tuning", "rocblas", "cublas", "tunableop-aiter-log"];
    let in_folder = |folder| std::fs::read_dir(Path::new(CORPUS).join(folder)).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = folders.into_iter().flat_map(in_folder).map(|entry| entry.path()).collect();
    files.retain(|path| path.file_name().is_some_and(|name| name != "SOURCE.txt"));
    files.sort();
    files
}

fn print(
    path: &Path,
    kind: &str,
    rows: usize,
    calls: u64,
    rejected: &[format::Rejected],
    warnings: &[format::Warning],
) {
    let name = path.strip_prefix(CORPUS).unwrap_or(path).display();
    println!("{kind:<34} rows {rows:>3} calls {calls:>4} rejected {:>3}  {name}", rejected.len());
    for warning in warnings {
        println!("      note: {}", warning.what);
    }
    for rejected in rejected {
        println!("      line {}: {}", rejected.line, rejected.reason);
    }
}

/// Every line that others published is a row, a reason, or none of a GEMM's.
#[test]
fn every_real_log_is_read() {
    let device = Some(AssumedDevice { arch: "gfx950".into(), compute_units: 256 });
    let options = ReadOptions { device, ..options() };
    let (mut rows, mut rejected, mut files) = (0, 0, 0);
    for path in corpus_files() {
        let content = format::read(&path, &options).unwrap_or_else(|error| panic!("{error}"));
        files += 1;
        match content {
            Content::Choices(read) => {
                print(&path, &read.format.to_string(), read.rows.len(), 0, &read.rejected, &read.warnings);
                rows += read.rows.len();
                rejected += read.rejected.len();
            }
            Content::Problems(read) => {
                let calls = read.rows.iter().map(|row: &format::Sourced<Recorded>| row.value.count).sum();
                print(&path, &read.format.to_string(), read.rows.len(), calls, &read.rejected, &read.warnings);
                rows += read.rows.len();
                rejected += read.rejected.len();
            }
        }
    }
    match files {
        0 => println!("skipped: no logs at {CORPUS}"),
        _ => {
            println!("{files} files, {rows} rows, {rejected} rejected");
            assert_eq!((files, rows, rejected), CORPUS_TOTALS);
        }
    }
}
