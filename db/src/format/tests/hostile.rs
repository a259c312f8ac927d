//! Bad input: one clear line each, nothing lost, never a panic.

use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::dtype::DType;
use crate::format::aiter::{Family, Like};
use crate::format::limits::LINE_BYTES_MAX;
use crate::format::{self, AssumedDevice, Content, Format, ReadOptions, aiter, tuned, untuned};
use crate::problem::{ScaleMode, Site};
use crate::recording::{Follows, Recorded};

const AITER_UNTUNED: &str = "M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle";

fn untuned_reasons(text: &str) -> Vec<String> {
    let read = format::parse_untuned(Path::new("u.csv"), text.as_bytes()).unwrap();
    read.rejected.iter().map(ToString::to_string).collect()
}

fn unreadable(bytes: &[u8]) -> String {
    format::parse_untuned(Path::new("u.csv"), bytes).unwrap_err().to_string()
}

#[test]
fn each_bad_cell_is_named_and_costs_its_own_row_only() {
    let good = "16,64,32,False,torch.bfloat16,torch.bfloat16,False,False";
    let cases = [
        ("M", "9223372036854775808", "a whole number from 1 to 2147483647 is expected"),
        ("M", "0", "a whole number from 1 to 2147483647 is expected"),
        ("M", "-4", "a whole number from 1 to 2147483647 is expected"),
        ("M", "four", "a whole number from 1 to 2147483647 is expected"),
        ("M", "", "a whole number from 1 to 2147483647 is expected"),
    ];
    for (name, cell, expected) in cases {
        let text = format!("{AITER_UNTUNED}\n{good}\n{}\n{good}\n", good.replacen("16", cell, 1));
        assert_eq!(untuned_reasons(&text), [format!("u.csv:3: {name} is '{cell}': {expected}")]);
    }
    let other = [
        (good.replacen("False", "maybe", 1), "bias is 'maybe': True or False is expected"),
        (
            good.replacen("torch.bfloat16", "bf17", 1),
            "dtype is 'bf17': a torch element type such as torch.bfloat16 is expected",
        ),
        ("16,64".to_owned(), "2 cells where the header has 8: row is too short"),
        (format!("{good},"), "9 cells where the header has 8: row is too long"),
        (format!("\"{good}"), "a quote is not closed on its line"),
        ("x".repeat(LINE_BYTES_MAX + 1), "line of 1048577 bytes; at most 1048576 are read"),
        (",".repeat(500), "more than 128 cells"),
    ];
    for (row, reason) in other {
        let text = format!("{AITER_UNTUNED}\n{row}\n{good}\n");
        assert_eq!(untuned_reasons(&text), [format!("u.csv:2: {reason}")]);
        assert_eq!(format::parse_untuned(Path::new("u.csv"), text.as_bytes()).unwrap().rows.len(), 1);
    }
}

#[test]
fn dirt_that_means_nothing_is_passed_over() {
    let text = "\u{feff}M, N, K ,bias,dtype\r\n\r\n16, 64, 32\t, FALSE ,torch.bfloat16 \r\n   \nM, N, K ,bias,dtype\n1,2,3,true,\"torch.half\"";
    let read = format::parse_untuned(Path::new("u.csv"), text.as_bytes()).unwrap();
    assert_eq!(read.rejected, []);
    assert_eq!(read.rows.iter().map(|row| row.line).collect::<Vec<_>>(), [3, 6]);
    let problems: Vec<_> = read.into_values().map(|row| row.problem).collect();
    let first = Site::linear(64, 32, DType::Bf16).at(16).into();
    let second = Site::linear(2, 3, DType::F16).with_bias(DType::F16).at(1).into();
    assert_eq!(problems, [first, second]);
}

#[test]
fn bytes_that_are_no_table_get_one_line() {
    let cases: &[(&[u8], &str)] = &[
        (b"", "u.csv: is empty: a header line such as M,N,K,bias,dtype,outdtype is expected"),
        (b"\xef\xbb\xbf\r\n \n", "u.csv: is empty: a header line such as M,N,K,bias,dtype,outdtype is expected"),
        (b"\x7fELF\x02\x01\x01\0\0", "u.csv:1: is not text: a CSV file is expected"),
        (b"\n\xff\xfeM\0,\0", "u.csv:2: is not text: a CSV file is expected"),
        (
            b"SQLite format 3\0rest",
            "u.csv: is a SQLite database: name it where a database is taken, or export it to CSV",
        ),
        (
            b"M,N,q_dtype_w\n",
            "u.csv:1: header 'M,N,q_dtype_w' is of no known format: nearest is an AITER a8w8 untuned table, \
             but it lacks 'K'",
        ),
        (
            b"M,N,K,bias,dtype,dtype\n",
            "u.csv:1: header 'M,N,K,bias,dtype,dtype' is of no known format: nearest is an AITER bf16 untuned table, \
             but it 'dtype' stands twice",
        ),
        (b"\"M,N\n", "u.csv:1: header '\"M,N' is of no known format: a quote is not closed on its line"),
    ];
    for (bytes, want) in cases {
        assert_eq!(unreadable(bytes), *want);
    }
    let header = format!("{}\n", aiter::COLUMNS.join(","));
    assert_eq!(
        unreadable(header.as_bytes()),
        "u.csv: is an AITER bf16 tuned table, which holds choices: problems are expected here"
    );
    let wrong = format::parse_choices(Path::new("u.csv"), untuned::header().as_bytes(), &ReadOptions::default());
    assert_eq!(
        wrong.unwrap_err().to_string(),
        "u.csv: is an untuned table, which holds problems: choices are expected here"
    );
}

#[test]
fn places_that_hold_no_file_get_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let missing = format::read_untuned(&folder.path().join("none.csv")).unwrap_err().to_string();
    assert!(missing.ends_with("none.csv: no such file: check the path"), "{missing}");
    let directory = format::read_untuned(folder.path()).unwrap_err().to_string();
    assert!(directory.ends_with("is a directory: name a CSV file in it"), "{directory}");
}

#[test]
fn times_that_never_were_do_not_win() {
    for us in ["0", "0.0", "-1", "inf", "nan", "", "fast"] {
        let row = format!("gfx942,304,16,64,64,False,torch.bfloat16,torch.bfloat16,False,False,asm,1,0,{us},k,0,1,1");
        let text = format!("{}\n{row}\n", aiter::COLUMNS.join(","));
        let read = format::parse_choices(Path::new("a.csv"), text.as_bytes(), &ReadOptions::default()).unwrap();
        assert_eq!(read.rows, []);
        let reason = format!("a.csv:2: us is '{us}': a finite number above 0 is expected");
        assert_eq!(read.rejected[0].to_string(), reason);
    }
}

#[test]
fn the_age_of_an_aiter_table_decides_its_device() {
    let read = |text: &str, device: Option<AssumedDevice>| {
        let read =
            format::parse_choices(Path::new("a.csv"), text.as_bytes(), &ReadOptions { device, ..Default::default() })
                .unwrap();
        let devices: Vec<String> = read.rows.iter().map(|row| row.value.device.to_string()).collect();
        (devices, read.rejected.iter().map(|row| row.reason.clone()).collect::<Vec<_>>())
    };
    let oldest = "M,N,K,bias,dtype,outdtype,libtype,solidx,soltimes\n\
                  1,64,64,False,torch.bfloat16,torch.bfloat16,hipblaslt,7,3.5\n";
    assert_eq!(read(oldest, None), (vec![], vec!["neither gfx nor cu_num: say which device it was".to_owned()]));
    let mi300x = AssumedDevice { arch: "gfx942".into(), compute_units: 304 };
    assert_eq!(read(oldest, Some(mi300x.clone())), (vec!["gfx942/304".to_owned()], vec![]));

    let no_gfx = |cu: u32| {
        format!(
            "M,N,K,bias,dtype,outdtype,scaleAB,cu_num,libtype,solidx,soltimes,kernelName\n\
                 1,64,64,False,torch.bfloat16,torch.bfloat16,False,{cu},hipblaslt,7,3.5,name\n"
        )
    };
    assert_eq!(read(&no_gfx(256), None).0, ["gfx950/256"]);
    assert_eq!(read(&no_gfx(80), None).0, ["gfx942/80"]);
    assert_eq!(read(&no_gfx(304), Some(AssumedDevice { arch: "gfx940".into(), ..mi300x.clone() })).0, ["gfx940/304"]);
    assert_eq!(read(&no_gfx(80), Some(mi300x)).0, ["gfx942/80"], "an assumption does not overrule the file");
    assert_eq!(read(&no_gfx(96), None).1, ["no gfx column, and cu_num 96 tells no arch: say which device it was"]);
}

#[test]
fn a_row_that_contradicts_its_problem_is_rejected() {
    let site = Site { scale: ScaleMode::Tensor, ..Site::linear(64, 32, DType::Bf16) };
    let text = untuned::to_text(&[Recorded::bare(site.at(16).into())]);
    assert_eq!(untuned_reasons(&text), [] as [&str; 0]);
    let reasons = untuned_reasons(&text.replace("\n16,64", "\n17,64"));
    assert_eq!(
        reasons,
        ["u.csv:2: columns disagree with problem \
          'gemm,m=16,n=64,k=32,x=bf16,w=bf16,out=bf16,compute=f32,scale=tensor': M is 17, the problem says 16"]
    );
    let reasons = untuned_reasons(&text.replace("k=32,", ""));
    assert_eq!(reasons, ["u.csv:2: problem: key lacks field 'k'"]);
}

#[test]
fn what_a_call_followed_is_named_where_it_is_nonsense() {
    let problem = Site::linear(64, 32, DType::Bf16).at(16).into();
    let followed = |nodes_between| Recorded {
        count: 5,
        follows: Some(Follows { problem, nodes_between }),
        ..Recorded::bare(problem)
    };
    let text = untuned::to_text(&[followed(Some(7)), followed(None)]);
    assert_eq!(untuned_reasons(&text), [] as [&str; 0]);
    let end = format!(",\"{problem}\",7\n");
    assert!(text.contains(&end), "{text}");
    let bad = |cells: &str| untuned_reasons(&text.replacen(&end, &format!(",{cells}\n"), 1));
    let key = format!("\"{problem}\"");
    // The column's name is in the reason, and the other row is read.
    for (cells, reason) in [
        (format!("{},7", key.replace("m=16,", "")), "follows: key lacks field 'm'"),
        ("nonsense,7".to_owned(), "follows: key starts with 'nonsense'; known operations: gemm, moe"),
        (format!("{key},many"), "nodes_between is 'many': a whole number in range is expected"),
        (format!("{key},-1"), "nodes_between is '-1': a whole number in range is expected"),
        (format!("{key},4294967296"), "nodes_between is '4294967296': a whole number in range is expected"),
        (",many".to_owned(), "nodes_between is 'many': a whole number in range is expected"),
    ] {
        assert_eq!(bad(&cells), [format!("u.csv:2: {reason}")]);
    }
}

#[test]
fn recordings_from_before_calls_were_known_to_follow_others_read_as_they_did() {
    let problem = Site::linear(64, 32, DType::Bf16).at(16).into();
    let follows = Some(Follows { problem, nodes_between: Some(7) });
    let row = Recorded { count: 5, captured: true, follows, workspace_bytes_max: Some(9), ..Recorded::bare(problem) };
    let text = untuned::to_text([&row]);
    let read = |text: &str| {
        let read = format::parse_untuned(Path::new("u.csv"), text.as_bytes()).unwrap();
        assert_eq!((read.format, &read.rejected), (Format::Untuned, &vec![]), "{text}");
        read.into_values().collect::<Vec<_>>()
    };
    let key = format!(",\"{problem}\"");
    let old = text.replace(",follows,nodes_between", "").replace(&format!("{key},7\n"), "\n");
    let former = "M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle,problem,count,via,captured,workspace_bytes_max,\
                  library_file,library_build\n";
    assert!(old.starts_with(former) && old.ends_with(",5,,True,9,,\n"), "{old}");
    assert_eq!(read(&old), [Recorded { follows: None, ..row.clone() }]);
    // Either column may be absent, or say nothing.
    let nodes_unknown = Recorded { follows: Some(Follows { problem, nodes_between: None }), ..row.clone() };
    let no_nodes = text.replace(",nodes_between", "").replace(&format!("{key},7\n"), &format!("{key}\n"));
    assert_eq!(read(&no_nodes), std::slice::from_ref(&nodes_unknown));
    assert_eq!(read(&text.replace(",7\n", ",\n")), [nodes_unknown]);
    assert_eq!(read(&text.replace(&format!("{key},7\n"), ",,\n")), [Recorded { follows: None, ..row }]);
}

/// The format of a file called `name` that starts with the line `header`.
fn format_of(name: &str, header: &str) -> Result<Format, String> {
    match format::parse(Path::new(name), header.as_bytes(), &ReadOptions::default()) {
        Ok(Content::Choices(read)) => Ok(read.format),
        Ok(Content::Problems(read)) => Ok(read.format),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn headers_and_names_tell_formats_apart() {
    assert_eq!(format_of("x.csv", untuned::header()), Ok(Format::Untuned));
    assert_eq!(format_of("x.csv", &tuned::to_text([])), Ok(Format::Tuned));
    assert_eq!(format_of("x.csv", AITER_UNTUNED), Ok(Format::AiterUntuned(Family::Bf16)));
    assert_eq!(format_of("x.csv", &aiter::COLUMNS.join(",")), Ok(Format::AiterTuned(Family::Bf16)));
    for &family in Family::ALL {
        let tuned = family.tuned_columns().join(",");
        let name = format!("model_{}_model.csv", family.tuned_stem());
        assert_eq!(format_of(&name, &tuned), Ok(Format::AiterTuned(family)));
        let untuned = family.untuned_columns().join(",");
        let name = name.replace("tuned", "untuned");
        if !untuned.is_empty() {
            assert_eq!(format_of(&name, &untuned), Ok(Format::AiterUntuned(family)));
        }
    }
    assert_eq!(
        format_of("x.csv", "B,M,N,K").unwrap_err(),
        "x.csv:1: header 'B,M,N,K' is that of batched_a8w8 and batched_bf16: \
         name the file as AITER does, or say its family"
    );
}

#[test]
fn a_family_that_is_said_is_believed_or_refused() {
    let read = |family, text: &str| {
        let options = ReadOptions { family: Some(family), ..ReadOptions::default() };
        format::parse(Path::new("x.csv"), text.as_bytes(), &options)
    };
    let Ok(Content::Problems(found)) = read(Family::A4w4Blockscale, "M,N,K\n1,2,3\n") else { panic!("problems") };
    assert_eq!(found.rows[0].value.problem.gemm().map(|gemm| gemm.site.x), Some(DType::F4E2m1x2));
    assert_eq!(
        read(Family::Bf16, "M,N,K\n1,2,3\n").unwrap_err().to_string(),
        "x.csv:1: header 'M,N,K' is not that of AITER's bf16 tables: lacks 'bias', lacks 'dtype'"
    );
}

#[test]
fn kernel_names_tell_families_of_one_header() {
    let header = Family::A8w8Blockscale.tuned_columns().join(",");
    let table = |kernel: &str| format!("{header}\ngfx950,256,1,2048,3072,ck,8,2,4.8,{kernel},2.61,1304.22,0.0\n");
    let plain = format_of("x.csv", &table("a8w8_blockscale_1x128x128_256x16x64x256_x"));
    assert_eq!(plain, Ok(Format::AiterTuned(Family::A8w8Blockscale)));
    let shuffled = format_of("x.csv", &table("a8w8_blockscale_bpreshuffle_1x128x128_x"));
    assert_eq!(shuffled, Ok(Format::AiterTuned(Family::A8w8BlockscaleBpreshuffle)));
    assert!(format_of("x.csv", &table("nobody")).unwrap_err().contains("a8w8_blockscale and a8w8_blockscale_bpre"));
}

#[test]
fn unknown_columns_survive_with_a_warning_where_they_may_be_keys() {
    let options = ReadOptions { keep_origin: true, ..ReadOptions::default() };
    let text = "gfx,cu_num,M,N,K,swizzle,libtype,kernelId,splitK,us,kernelName,tflops,bw,errRatio,note\n\
                gfx950,256,1,2048,3072,7,ck,8,2,4.8,a8w8_blockscale_1x128x128_x,2.61,1304.22,0.0,\"a, b\"\n";
    let read = format::parse_choices(Path::new("a8w8_blockscale_tuned_gemm.csv"), text.as_bytes(), &options).unwrap();
    let warnings: Vec<String> = read.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "a8w8_blockscale_tuned_gemm.csv: AITER's a8w8_blockscale tables have no column 'swizzle', and it may be a key: \
          rows that differ in it alone look alike"
        ]
    );
    let mut choices: Vec<_> = read.into_values().collect();
    assert_eq!(choices[0].solution.params.to_string(), "split_k=4");
    assert_eq!(choices[0].solution.numerics, crate::solution::Numerics::Exact);
    assert_eq!(aiter::to_text_like(&choices, Like::Origin).text, text);
    // What is measured anew is written anew, and only that.
    choices[0].time_us = 4.5;
    let written = aiter::to_text_like(&choices, Like::Origin).text;
    assert_eq!(written, text.replace(",4.8,", ",4.5,").replace(",2.61,1304.22,", ",2.80,1399.69,"));
}

/// Bytes that get past the first checks: known headers, then cells that are nearly right.
fn nearly_right() -> impl Strategy<Value = Vec<u8>> {
    let header = select(vec![
        AITER_UNTUNED.to_owned(),
        untuned::header().trim_end().to_owned(),
        tuned::to_text([]).trim_end().to_owned(),
        aiter::COLUMNS.join(","),
        "M,N,K,bias,dtype,outdtype,libtype,solidx,soltimes".to_owned(),
    ]);
    let cell = prop_oneof![
        select(vec![
            "1",
            "16",
            "True",
            "torch.bfloat16",
            "0",
            "-1",
            "inf",
            "nan",
            "1e308",
            "\"",
            "\"\"",
            "a|b#c",
            "\\"
        ])
        .prop_map(str::to_owned),
        ".{0,10}",
        "\"gemm,m=[0-9]{1,12},n=4,k=4,x=bf16,w=bf16,out=bf16,compute=f32\"",
    ];
    let row = vec(cell, 0..45).prop_map(|cells| cells.join(","));
    (header, vec(row, 0..6), select(vec!["\n", "\r\n"]))
        .prop_map(|(header, rows, end)| format!("{header}{end}{}", rows.join(end)).into_bytes())
}

fn no_panic_and_nothing_lost(bytes: &[u8]) -> Result<(), TestCaseError> {
    let lines = bytes.split(|&byte| byte == b'\n').count();
    let device = Some(AssumedDevice { arch: "gfx942".into(), compute_units: 1 });
    let options = ReadOptions { device, keep_origin: true, ..ReadOptions::default() };
    if let Ok(read) = format::parse_untuned(Path::new("f"), bytes) {
        prop_assert!(read.rows.len() + read.rejected.len() < lines);
        prop_assert!(read.rejected.iter().all(|row| !row.to_string().contains('\n')));
    }
    if let Ok(read) = format::parse_choices(Path::new("f"), bytes, &options) {
        prop_assert!(read.rows.len() + read.rejected.len() < lines);
        prop_assert!(read.rows.iter().all(|row| row.value.time_us > 0.0 && row.value.time_us.is_finite()));
        prop_assert!(read.rejected.iter().all(|row| !row.to_string().contains('\n')));
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(bytes in vec(any::<u8>(), 0..300)) {
        no_panic_and_nothing_lost(&bytes)?;
    }

    #[test]
    fn nearly_right_bytes_are_read_without_panic(bytes in nearly_right()) {
        no_panic_and_nothing_lost(&bytes)?;
    }

    #[test]
    fn broken_tables_are_read_without_panic(at in 0usize..400, byte in any::<u8>(), cut in 0usize..500) {
        let site = Site::linear(64, 32, DType::Bf16);
        let mut bytes = untuned::to_text(&[Recorded::bare(site.at(16).into())]).into_bytes();
        bytes.truncate(cut);
        if let Some(place) = bytes.get_mut(at) {
            *place = byte;
        }
        no_panic_and_nothing_lost(&bytes)?;
    }
}
