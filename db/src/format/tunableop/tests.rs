//! Whole files, written for these tests, and every real one that is at hand.

use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::choice::{Choice, Verdict};
use crate::device::Build;
use crate::dtype::DType;
use crate::format::{AssumedDevice, Read};
use crate::problem::Site;

const FILE: &str = "Validator,PT_VERSION,2.9.1\nValidator,HIPBLASLT_VERSION,100201-abc\nValidator,GCN_ARCH_NAME,gfx950:sramecc+\n\
    Validator,ROCBLAS_VERSION,5.2.0.abc\n\
    GemmTunableOp_Half_TN,tn_64_3_32_ld_32_32_64,Gemm_Hipblaslt_77,0.0121875\n\
    GemmAndBiasTunableOp_tf32_NN,nn_64_3_32_ld_64_32_64,Default,1.5\n\
    GemmTunableOp_Half_TN,tn_64_3_32_ld_32_32_64,Gemm_Rocblas_-9,0.013,BLAS_PARAMS: - { function: matmul, M: 64 }\n";

fn options() -> ReadOptions {
    ReadOptions { keep_origin: true, ..ReadOptions::default() }
}

fn choices(text: &str) -> Read<Choice> {
    match read(Path::new("r.csv"), text.as_bytes(), &options()).unwrap() {
        Content::Choices(read) => read,
        Content::Problems(read) => panic!("{read:?}"),
    }
}

fn validators() -> Validators {
    Validators::parse(FILE.as_bytes()).unwrap()
}

#[test]
fn a_results_file_is_choices_and_back() {
    assert!(recognise("anything", FILE.as_bytes()));
    let read = choices(FILE);
    assert_eq!((read.rows.len(), read.rejected.len()), (3, 0));
    let first = &read.rows[0].value;
    assert_eq!(first.problem, Site::linear(64, 32, DType::F16).at(3).into());
    assert_eq!((first.time_us, first.verdict, first.solution.index), (12.1875, Verdict::Unknown, 77));
    assert_eq!(first.device.to_string(), "gfx950/0");
    let default = &read.rows[1].value;
    assert!(default.is_baseline() && default.baselines.len() == 1);
    assert_eq!(
        read.warnings[0].to_string(),
        "r.csv:7: 1 rows repeat the key of an earlier one, this the first: PyTorch takes the earlier"
    );
    let kept: Vec<Choice> = read.into_values().collect();
    let (text, left_out) = to_text(&kept, Some(&validators())).unwrap();
    assert_eq!((text.as_str(), left_out.len()), (FILE, 0));
}

#[test]
fn a_row_that_was_changed_is_spelled_anew_and_the_repeat_gives_way() {
    let mut kept: Vec<Choice> = choices(FILE).into_values().collect();
    kept[0].time_us = 12.0;
    let (text, left_out) = to_text(&kept, Some(&validators())).unwrap();
    assert!(text.contains("tn_64_3_32_ld_32_32_64,Gemm_Hipblaslt_77,0.012\n"), "{text}");
    assert_eq!(left_out[0].reason, "an earlier choice has the same key");
}

#[test]
fn only_what_the_target_can_run_is_written() {
    let base = choices(FILE).rows[0].value.clone();
    let own = Choice { origin: None, ..base };
    let with_build = |library: &str, version: &str, revision: &str| {
        let mut choice = own.clone();
        choice.solution.build =
            Build { library: library.into(), version: version.into(), revision: revision.into() }.into();
        choice
    };
    let mut other_arch = own.clone();
    std::sync::Arc::make_mut(&mut other_arch.device).arch = "gfx942".into();
    let cases = [
        (with_build("asm", "1", ""), "TunableOp cannot run library asm"),
        (with_build("hipblaslt", "1.2.0", "abc"), "hipblaslt version was 1.2.0 when tuned, is 1.2.1 here"),
        (with_build("hipblaslt", "", ""), "its index is of an unknown build of hipblaslt"),
        (other_arch, "tuned on gfx942, the validators are of gfx950"),
    ];
    for (choice, why) in cases {
        let (text, left_out) = to_text([&choice], Some(&validators())).unwrap();
        assert_eq!(left_out[0].reason, why);
        assert_eq!(text, validators().to_text());
    }
    let baseline = Choice { verdict: Verdict::Ambiguous, ..with_build("onednn", "3", "") };
    let (text, _) = to_text([&baseline], Some(&validators())).unwrap();
    assert!(text.ends_with("tn_64_3_32_ld_32_32_64,Default,0.0121875\n"), "{text}");
    let refused = to_text([&own], None).unwrap_err().to_string();
    assert_eq!(
        refused,
        "no line 'Validator,PT_VERSION,…': name a results file that PyTorch itself wrote on the target"
    );
}

#[test]
fn what_is_no_validator_is_not_written_as_one() {
    let text = format!("Validator,,PT_VERSION,2.9.1\n{FILE}");
    assert_eq!(Validators::parse(text.as_bytes()).unwrap(), validators());
}

#[test]
fn bad_rows_have_reasons_and_untuned_files_are_problems() {
    let text = format!(
        "{FILE}GemmTunableOp_Half_TN,tn_1_1_1,Default,inf\nnot-a-row\nGemmTunableOp_Half_TN,tn_2_2_2\nValidator,X\n"
    );
    let reasons: Vec<String> = choices(&text).rejected.iter().map(ToString::to_string).collect();
    assert_eq!(
        reasons,
        [
            "r.csv:8: time is 'inf': finite milliseconds above 0 are expected",
            "r.csv:9: 'not-a-row' is no TunableOp operation",
            "r.csv:10: no solution: the row is of an untuned file",
            "r.csv:11: no validator: Validator,KEY,VALUE is expected",
        ]
    );
    let untuned = "GemmTunableOp_Half_TN,tn_64_3_32_ld_32_32_64\nnot\nGemmTunableOp_Half_TN,tn_64_3_32,BLAS_PARAMS: - { M: 1, N: 2 }\n";
    assert!(recognise("u.csv", untuned.as_bytes()));
    let Content::Problems(read) = read(Path::new("u.csv"), untuned.as_bytes(), &options()).unwrap() else { panic!() };
    assert_eq!((read.rows.len(), read.rejected.len()), (2, 1));
    assert_eq!(read.rows[0].value, read.rows[1].value);
}

#[test]
fn logs_and_other_tables_are_not_ours() {
    for head in [
        "M,N,K,bias,dtype\n",
        "finding fastest for GemmTunableOp_float_NN(nn_1_1_1)\n",
        "GemmTunableOp_float_NN(nn_1_1_1) -> Default,0.1\n",
        "",
    ] {
        assert!(!recognise("x.csv", head.as_bytes()), "{head}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = read(Path::new("x"), &bytes, &options());
    }

    #[test]
    fn nearly_right_bytes_are_read(cuts in proptest::collection::vec((0usize..700, "[A-Za-z0-9_,*.\n-]{0,6}"), 1..6)) {
        let mut text = FILE.to_owned();
        for (at, put) in cuts {
            let at = at.min(text.len());
            text.replace_range(at..(at + put.len()).min(text.len()), &put);
        }
        let _ = read(Path::new("x"), text.as_bytes(), &options());
    }
}

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data/tunableop");

/// Every file that others published comes back byte for byte, duplicates included.
#[test]
fn every_real_results_file_comes_back_as_it_was() {
    let mut found = 0;
    for folder in [CORPUS.to_owned(), format!("{CORPUS}/excerpts")] {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_none_or(|ext| ext != "csv") {
                continue;
            }
            found += 1;
            round_trip(&path);
        }
    }
    if found == 0 {
        println!("skipped: no TunableOp files at {CORPUS}");
    }
}

fn round_trip(path: &Path) {
    let bytes = std::fs::read(path).unwrap();
    let rows =
        bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty() && !line.starts_with(b"Validator")).count();
    let device = Some(AssumedDevice { arch: "gfx942".into(), compute_units: 304 });
    let name = path.file_name().unwrap().to_string_lossy();
    let options = ReadOptions { device, ..options() };
    match read(path, &bytes, &options).unwrap() {
        Content::Problems(read) => {
            assert_eq!(read.rows.len() + read.rejected.len(), rows);
            println!("{rows:>6} rows {:>6} kept {:>3} rejected  untuned  {name}", read.rows.len(), read.rejected.len());
            assert!(read.rejected.is_empty(), "{:?}", read.rejected);
        }
        Content::Choices(read) => {
            let (kept, rejected) = (read.rows.len(), read.rejected.len());
            let warnings: Vec<String> = read.warnings.iter().map(|warning| warning.what.clone()).collect();
            let rejections: Vec<String> = read.rejected.iter().map(ToString::to_string).collect();
            let kept_choices: Vec<Choice> = read.into_values().collect();
            let again = Validators::parse(&bytes).map(|validators| to_text(&kept_choices, Some(&validators)).unwrap());
            let verdict = match &again {
                Ok((text, left_out)) => {
                    assert_eq!(left_out.len(), 0);
                    let ended = if bytes.ends_with(b"\n") { text.as_str() } else { text.trim_end_matches('\n') };
                    assert!(ended.as_bytes() == bytes, "{name}");
                    "identical"
                }
                Err(NoValidators) => "no validators",
            };
            println!("{rows:>6} rows {kept:>6} kept {rejected:>3} rejected  {verdict}  {name}  {warnings:?}");
            assert_eq!((kept, rejections), (rows, Vec::new()), "{name}");
        }
    }
}
