//! Small tables that we wrote, and every fused MoE table that AITER has published.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::*;
use crate::dtype::DType;
use crate::format::{parse, parse_choices, parse_untuned};
use proptest::prelude::*;

const KEY: &str = "7168,256,384,8,ActivationType.Silu,torch.bfloat16,torch.float4_e2m1fn_x2,torch.float4_e2m1fn_x2,QuantType.per_1x32,1,0";
const KEY_NAMES: &str =
    "token,model_dim,inter_dim,expert,topk,act_type,dtype,q_dtype_a,q_dtype_w,q_type,use_g1u1,doweight_stage1";
const STAGES: &str = "block_m,ksplit,us1,kernelName1,err1,us2,kernelName2,err2,us,run_1stage";

fn with_origin() -> ReadOptions {
    ReadOptions { keep_origin: true, ..ReadOptions::default() }
}

fn choices(text: &str) -> Read<Choice> {
    parse_choices(Path::new("tuned_fmoe.csv"), text.as_bytes(), &with_origin()).unwrap()
}

/// The header variants of today's tables with a row that each can hold: with and without gfx, xbf16, flat and tag.
fn variants() -> Vec<(String, String)> {
    let middle = "32,0,10.5,one,0.9%,2.25,two,0.0%,12.75";
    let today = format!("{STAGES},xbf16,flat,tflops,bw,_tag");
    vec![
        (format!("gfx,cu_num,{KEY_NAMES},{today}"), format!("gfx950,256,4,{KEY},{middle},0,1,0,5.26,2629.41,")),
        (format!("cu_num,{KEY_NAMES},{today}"), format!("304,4,{KEY},{middle},0,0,1,5.26,2629.41,flydsl_fallback")),
        (
            format!("cu_num,{KEY_NAMES},{STAGES},xbf16,tflops,bw,_tag"),
            format!("256,4,{KEY},{middle},1,0,5.26,2629.41,"),
        ),
        (format!("cu_num,{KEY_NAMES},{STAGES},tflops,bw,xbf16,_tag"), format!("80,4,{KEY},{middle},0,5.26,2629.41,0,")),
        (format!("cu_num,{KEY_NAMES},{STAGES},tflops,bw,_tag"), format!("256,4,{KEY},{middle},0,5.26,2629.41,")),
        (
            format!("cu_num,{KEY_NAMES},{}", STAGES.replace("err2,us,", "err2,total_us,")),
            format!("256,4,{KEY},{middle},0"),
        ),
    ]
}

#[test]
fn every_header_is_read_and_written_as_it_was() {
    for (header, row) in variants() {
        let text = format!("{header}\n{row}\n");
        let read = choices(&text);
        assert_eq!((read.rejected.as_slice(), read.warnings.as_slice()), ([].as_slice(), [].as_slice()), "{header}");
        let choice = &read.rows[0].value;
        assert_eq!((choice.solution.name.as_str(), choice.time_us, choice.err_ratio), ("one;two", 12.75, 0.009));
        let moe = choice.problem.moe().unwrap();
        assert_eq!(
            (moe.m, moe.site.experts, moe.site.topk, moe.site.model_dim, moe.site.inter_dim),
            (4, 384, 8, 7168, 256)
        );
        assert_eq!((moe.site.q_w, moe.site.quant), (Some(DType::F4E2m1x2), MoeQuant::Per1x32));
        assert!(moe.site.gated && !moe.site.weight_in_stage1);
        assert_eq!(to_text([choice]), (text, vec![]), "{header}");
    }
}

#[test]
fn the_device_follows_from_gfx_or_from_the_compute_units() {
    let archs: Vec<String> = variants()
        .iter()
        .map(|(header, row)| choices(&format!("{header}\n{row}\n")).rows[0].value.device.to_string())
        .collect();
    assert_eq!(archs, ["gfx950/256", "gfx942/304", "gfx950/256", "gfx942/80", "gfx950/256", "gfx950/256"]);
    let (header, row) = &variants()[4];
    let text = format!("{header}\n{}\n", row.replacen("256,4", "96,4", 1));
    assert!(choices(&text).rejected[0].reason.contains("cu_num 96 tells no arch"));
    let device = Some(AssumedDevice { arch: "gfx1250".into(), compute_units: 96 });
    let options = ReadOptions { device, ..ReadOptions::default() };
    let read = parse_choices(Path::new("x.csv"), text.as_bytes(), &options).unwrap();
    assert_eq!(read.rows[0].value.device.to_string(), "gfx1250/96");
}

#[test]
fn a_changed_row_is_written_anew_and_unknown_columns_survive() {
    let (header, row) = &variants()[0];
    let mut read = choices(&format!("{header},note\n{row},by hand\n"));
    assert_eq!(read.warnings[0].what, "columns that tgemm does not know, and that might be a key: note");
    let mut choice = read.rows.remove(0).value;
    assert_eq!(choice.solution.params.to_string(), "block_m=32;flat=0;ksplit=0;run_1stage=0;xbf16=1");
    choice.time_us = 11.0;
    choice.solution.name = "three".into();
    let (text, left_out) = to_text([&choice]);
    assert_eq!(left_out, []);
    let again = choices(&text).rows.remove(0).value;
    assert_eq!((again.time_us, &again.solution, again.problem), (11.0, &choice.solution, choice.problem));
    assert!(text.lines().nth(1).unwrap().ends_with(",by hand"), "{text}");
    assert!(text.contains(",,three,0.9%,,Null,0.9%,11,"), "times of stages are not made up: {text}");
    choice.origin = None;
    let fresh = choices(&to_text([&choice]).0).rows.remove(0).value;
    assert_eq!((fresh.solution, fresh.device), (choice.solution.clone(), choice.device.clone()));
}

#[test]
fn what_aiter_cannot_hold_is_left_out_with_its_reason() {
    let (header, row) = &variants()[0];
    let good = choices(&format!("{header}\n{row}\n")).rows.remove(0).value;
    let reason = |change: &dyn Fn(&mut Choice)| {
        let mut choice = good.clone();
        change(&mut choice);
        to_text([&choice]).1.remove(0).reason
    };
    assert!(reason(&|c| c.time_us = f64::NAN).contains("time is not known"));
    assert!(reason(&|c| c.solution.build = Build::unknown("triton").into()).contains("cannot run library triton"));
    assert!(
        reason(&|c| std::sync::Arc::make_mut(&mut c.device).vendor = Vendor::Nvidia).contains("is not an AMD device")
    );
    assert_eq!(reason(&|c| c.problem = MoeSite::unsaid(8, 64).at(1).into()), "AITER has no word for activation none");
    let narrow = |c: &mut Choice| {
        let site = c.problem.moe().unwrap().site;
        c.problem = MoeSite { topk: 0, ..site }.at(1).into();
    };
    assert!(reason(&narrow).contains("needs topk and model_dim, which are not known"));
    let gemm = crate::problem::Site::linear(8, 8, DType::Bf16).at(1);
    assert_eq!(reason(&|c| c.problem = gemm.into()), "not a fused MoE layer");
}

#[test]
fn the_two_kinds_of_short_rows_are_told_apart() {
    let (header, row) = &variants()[0];
    let comma_lost = row.strip_suffix(',').unwrap();
    let flag_lost = row.replace(",0,1,0,5.26,", ",0,1,5.26,");
    let two_lost = row.replace(",0,1,0,5.26,2629.41,", ",0,1,5.26,2629.41");
    let read = choices(&format!("{header}\n{comma_lost}\n{flag_lost}\n{two_lost}\n{row}\n"));
    assert_eq!(read.rows.iter().map(|row| row.line).collect::<Vec<_>>(), [2, 5]);
    assert_eq!(read.rows[0].value.solution, read.rows[1].value.solution);
    assert_eq!(read.warnings[0].line, Some(2));
    assert!(read.warnings[0].what.contains("last comma is missing"));
    assert_eq!(read.rejected[0].line, 3);
    let cause = "28 cells where the header has 29: one of the flags run_1stage, xbf16, flat is missing, so that 5.26 stands under flat; put the flag in";
    assert_eq!(read.rejected[0].reason, cause);
    assert_eq!((read.rejected[1].line, read.rejected[1].reason.contains("27 cells")), (4, true));
}

#[test]
fn cells_that_mean_nothing_are_rejected_with_the_cell() {
    let (header, row) = &variants()[0];
    let reason = |from: &str, to: &str| {
        let read = choices(&format!("{header}\n{}\n", row.replacen(from, to, 1)));
        read.rejected.first().map(|rejected| rejected.reason.clone()).unwrap_or_default()
    };
    assert!(reason("12.75", "0").starts_with("us is '0'"));
    assert!(reason("12.75", "inf").starts_with("us is 'inf'"));
    assert!(
        reason("ActivationType.Silu", "ActivationType.Odd").contains("ActivationType. and one of Silu, Gelu, Swiglu")
    );
    assert!(reason("QuantType.per_1x32", "per_1x32").starts_with("q_type is 'per_1x32'"));
    assert!(reason("0.9%", "x%").starts_with("err1 is 'x%': a percentage such as 0.9%"));
    assert!(reason("7168", "0").starts_with("model_dim is '0'"));
    assert!(reason("12.75,0,1", "12.75,yes,1").starts_with("run_1stage is 'yes'"));
    assert_eq!(reason("12.75,0,1", "12.75,False,True"), "", "README's spelling of flags");
    let second = format!("{header},q_type2\n{row},QuantType.No\n{row},QuantType.per_1x32\n{row},\n");
    let read = choices(&second);
    assert_eq!(read.rows.len(), 2);
    assert!(read.rejected[0].reason.starts_with("q_type2 is 'QuantType.No': the same as q_type, or nothing"));
}

#[test]
fn untuned_tables_hold_problems() {
    let text = format!("{KEY_NAMES}\n1,{KEY}\n64,{KEY}\n");
    let read = parse_untuned(Path::new("untuned_fmoe.csv"), text.as_bytes()).unwrap();
    assert_eq!((read.format, read.rows.len()), (Format::FmoeUntuned, 2));
    let problems: Vec<Recorded> = read.into_values().collect();
    assert_eq!(problems_to_text(&problems), (text, vec![]));
}

#[test]
fn related_tables_are_refused_by_name_and_headers_say_what_they_lack() {
    let error = |name: &str, header: &str| {
        parse(Path::new(name), header.as_bytes(), &ReadOptions::default()).unwrap_err().to_string()
    };
    assert!(error("t.csv", &format!("gfx,cu_num,{KEY_NAMES},max_m,tile_m,kernelName1")).contains("grouped fused MoE"));
    assert!(error("t.csv", &format!("cu_num,{KEY_NAMES},gate_mode")).contains("grouped fused MoE"));
    assert!(error("untuned_fhmoe.csv", &format!("gfx,cu_num,{KEY_NAMES}")).contains("fhmoe"));
    assert!(error("g.csv", "gfx,cu_num,H,Hg,V,total_chunks,max_seq_chunks").contains("gated delta rule"));
    assert!(
        error("t.csv", &format!("cu_num,{KEY_NAMES},block_m,kernelName1"))
            .contains("lacks the columns kernelName2, us")
    );
    assert!(error("t.csv", "token,model_dim").contains("lacks the columns inter_dim, expert"));
    let twice = format!("{KEY_NAMES},topk");
    assert!(error("t.csv", &twice).contains("column 'topk' stands twice"));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(tail in "[0-9a-zA-Z_.%,\" \n\r;-]{0,200}", header in 0usize..6) {
        let text = format!("{}\n{tail}", variants()[header].0);
        if let Ok(Content::Choices(read)) = parse(Path::new("t.csv"), text.as_bytes(), &with_origin()) {
            prop_assert!(read.rows.len() + read.rejected.len() < text.split('\n').count());
            let _ = to_text(read.rows.iter().map(|row| &row.value));
        }
    }
}

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data/aiter/aiter/configs");

/// Every fused MoE table of the corpus; none, with a message, where the corpus is not there.
fn corpus() -> Vec<PathBuf> {
    let folders = [PathBuf::from(CORPUS), Path::new(CORPUS).join("model_configs")];
    let entries = folders.iter().flat_map(fs::read_dir).flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    let is_ours = |name: &str| name.contains("moe") || name.contains("chunk_gdn");
    files.retain(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_ours));
    files.sort();
    if files.is_empty() {
        println!("skipped: no AITER files at {CORPUS}");
    }
    files
}

fn lines_in(text: &str) -> usize {
    text.lines().filter(|line| !line.trim().is_empty()).count() - 1
}

#[derive(Default)]
struct Totals {
    files: usize,
    rows: usize,
    kept: usize,
    mended: usize,
    identical: usize,
    causes: BTreeMap<String, usize>,
}

impl Totals {
    fn count<T>(&mut self, path: &Path, text: &str, read: &Read<T>, written: &str) {
        assert_eq!(lines_in(text), read.rows.len() + read.rejected.len(), "{}", path.display());
        self.files += 1;
        self.rows += lines_in(text);
        self.kept += read.rows.len();
        self.mended += read.warnings.len();
        for rejected in &read.rejected {
            let cause = rejected.reason.split(": ").next().unwrap_or_default();
            *self.causes.entry(cause.to_owned()).or_default() += 1;
        }
        let cause = match text == written {
            true => "identical".to_owned(),
            false if !read.rejected.is_empty() => format!("{} rows rejected", read.rejected.len()),
            false if !read.warnings.is_empty() => format!("{} commas put back", read.warnings.len()),
            false if format!("{text}\n") == written => "a line end was put behind the last row".to_owned(),
            false => panic!("{} differs without cause", path.display()),
        };
        self.identical += usize::from(cause == "identical");
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        println!("{:>5} rows {:>5} kept  {cause:<40} {name}", lines_in(text), read.rows.len());
    }
}

#[test]
fn every_published_table_is_accounted_for() {
    let (mut tuned, mut untuned, mut foreign) = (Totals::default(), Totals::default(), 0);
    let files = corpus();
    for path in &files {
        let text = fs::read_to_string(path).unwrap();
        match parse(path, text.as_bytes(), &with_origin()) {
            Ok(Content::Choices(read)) => {
                let (written, left_out) = to_text(read.rows.iter().map(|row| &row.value));
                assert_eq!(left_out, []);
                tuned.count(path, &text, &read, &written);
            }
            Ok(Content::Problems(read)) => {
                let (written, left_out) = problems_to_text(read.rows.iter().map(|row| &row.value));
                assert_eq!(left_out, []);
                untuned.count(path, &text, &read, &written);
            }
            Err(error) => {
                assert!(matches!(error.unreadable, Unreadable::Foreign(_)), "{error}");
                println!("{error}");
                foreign += 1;
            }
        }
    }
    if files.is_empty() {
        return;
    }
    for (kind, t) in [("tuned", &tuned), ("untuned", &untuned)] {
        let Totals { files, rows, kept, mended, identical, causes } = t;
        println!("{kind}: {files} files, {identical} identical; {rows} rows, {kept} kept, {mended} mended; {causes:?}");
    }
    println!("{foreign} files of related tables refused");
    assert_eq!((tuned.files, tuned.rows, tuned.kept, tuned.mended, tuned.identical), (26, 2105, 2084, 11, 22));
    let flag = "28 cells where the header has 29".to_owned();
    assert_eq!(tuned.causes[&flag], 8);
    assert_eq!((untuned.rows, untuned.kept), (1071, 1071));
    assert_eq!(foreign, 10);
}
