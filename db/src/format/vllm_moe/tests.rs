//! Small configurations that we wrote, and every one that vLLM ships and we hold.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::*;
use crate::choice::Constraints;
use crate::choice::Verdict;
use crate::dtype::DType;
use crate::format::{parse, parse_choices};
use crate::moe::MoeQuant;
use proptest::prelude::*;

const NAME: &str = "E=8,N=14336,device_name=AMD_Instinct_MI300X,dtype=fp8_w8a8,block_shape=[128,128].json";

const TEXT: &str = r#"{
  "triton_version": "3.5.0",
  "16": { "BLOCK_SIZE_M": 64, "num_warps": 8, "grf_mode": "256" },
    "1": {
        "num_warps": 4,
        "BLOCK_SIZE_M": 16
    }
}
"#;

fn with_origin() -> ReadOptions {
    ReadOptions { keep_origin: true, ..ReadOptions::default() }
}

fn read_as(name: &str, text: &str) -> Read<Choice> {
    parse_choices(&Path::new("configs").join(name), text.as_bytes(), &with_origin()).unwrap()
}

fn file(name: &str, text: &str) -> ConfigFile {
    ConfigFile { name: name.into(), text: text.into() }
}

#[test]
fn entries_are_choices_without_a_time() {
    let read = read_as(NAME, TEXT);
    assert_eq!((read.format, read.rejected.as_slice()), (Format::VllmMoe, [].as_slice()));
    assert_eq!(read.rows.iter().map(|row| row.line).collect::<Vec<_>>(), [3, 4]);
    let choice = &read.rows[0].value;
    let moe = choice.problem.moe().unwrap();
    assert_eq!((moe.m, moe.site.experts, moe.site.inter_dim, moe.site.topk), (16, 8, 14336, 0));
    assert_eq!((moe.site.quant, moe.site.block), (MoeQuant::Block, (128, 128)));
    assert_eq!((moe.site.q_x, moe.site.q_w), (Some(DType::F8E4m3Fnuz), Some(DType::F8E4m3Fnuz)));
    assert_eq!(choice.device.to_string(), "gfx942/304/192GiB");
    assert_eq!(choice.solution.to_string(), "triton BLOCK_SIZE_M=64 grf_mode=256 num_warps=8 triton_version=3.5.0");
    assert!(choice.time_us.is_nan() && choice.verdict == Verdict::Unknown);
    assert_eq!(Constraints::default().refuse_choice(choice), None);
}

#[test]
fn a_configuration_comes_out_as_it_went_in() {
    let read = read_as(NAME, TEXT);
    let (files, left_out) = to_files(read.rows.iter().map(|row| &row.value));
    assert_eq!((files, left_out), (vec![file(NAME, TEXT)], vec![]));
}

#[test]
fn what_changed_is_written_anew_and_the_rest_as_it_was() {
    let mut rows: Vec<Choice> = read_as(NAME, TEXT).into_values().collect();
    rows[1].solution.params = rows[1].solution.params.clone().with("kpack", 2);
    let (files, _) = to_files(&rows);
    let (changed, kept) = (&files[0].text, &TEXT[..TEXT.find("\"1\"").unwrap()]);
    assert!(changed.starts_with(kept), "{changed}");
    assert!(
        changed.contains("\"BLOCK_SIZE_M\": 16,\n        \"num_warps\": 4,\n        \"kpack\": 2\n    }"),
        "{changed}"
    );
    let (alone, _) = to_files(&rows[1..]);
    assert_eq!(read_as(NAME, &alone[0].text).rows.len(), 1);
    for row in &mut rows {
        row.origin = None;
    }
    let (fresh, left_out) = to_files(&rows);
    assert_eq!((fresh[0].name.as_str(), left_out.len()), (NAME, 0));
    let again: Vec<Choice> = read_as(NAME, &fresh[0].text).into_values().collect();
    let told = |rows: &[Choice]| rows.iter().map(|row| (row.problem, row.solution.clone())).collect::<Vec<_>>();
    assert_eq!(told(&again), told(&rows));
}

#[test]
fn a_row_of_another_device_takes_that_devices_name() {
    let mut row = read_as(NAME, TEXT).into_values().next().unwrap();
    Arc::make_mut(&mut row.device).memory_gib = Some(256);
    assert_eq!(to_files([&row]).0[0].name, NAME.replace("MI300X", "MI325X"));
    Arc::make_mut(&mut row.device).memory_gib = None;
    assert!(to_files([&row]).1[0].reason.contains("not certain how vLLM calls gfx942/304"));
    row.solution.build = Build::unknown("aiter").into();
    assert!(to_files([&row]).1[0].reason.contains("cannot name library aiter"));
}

#[test]
fn a_second_choice_for_one_entry_is_left_out() {
    let row = read_as(NAME, TEXT).into_values().next().unwrap();
    let (files, left_out) = to_files([&row, &row]);
    assert_eq!((files.len(), left_out[0].reason.as_str()), (1, "an earlier choice has M=16 in the same file"));
}

#[test]
fn bad_entries_are_rejected_with_their_line() {
    let text = "{\n\"0\": {\"a\": 1},\n\"x\": {\"a\": 1},\n\"2\": {},\n\"3\": {\"a\": [1]},\n\"4\": 7,\n\"5\": {\"a\": 1},\n\"5\": {\"a\": 2},\n\"6\": {\"a\": 1, \"a\": 2}}";
    let read = read_as(NAME, text);
    let told: Vec<String> = read.rejected.iter().map(|row| format!("{}: {}", row.line, row.reason)).collect();
    assert_eq!(told.len(), 7, "{told:?}");
    assert!(told[0].starts_with("2: '0' is no number of tokens"));
    assert!(told[1].starts_with("3: 'x' is no number of tokens"));
    assert_eq!(told[2], "4: M=2: an object of launch parameters is expected, this one is empty");
    assert_eq!(told[3], "5: M=3: a is no plain value");
    assert!(told[4].starts_with("6: M=4: '{' is expected, not '7'"));
    assert_eq!(told[5], "7: M=5 stands again below, and JSON keeps the last");
    assert_eq!(told[6], "9: M=6: a stands twice");
    assert_eq!(read.rows[0].value.solution.params.get("a"), Some("2"));
}

#[test]
fn other_files_say_what_is_wrong() {
    let error = |name: &str, bytes: &[u8]| parse(Path::new(name), bytes, &with_origin()).unwrap_err().to_string();
    assert!(error(NAME, b"{\n\"1\": }").contains("json:2: is a vLLM fused MoE configuration, but is no JSON object"));
    assert!(error(NAME, b"\xff").contains("is not text"));
    assert!(error("config.json", b"{}").contains("its name is its key"));
    assert!(error("E=8,N=4,device_name=Intel(R)_Arc.json", b"{}").contains("of no vendor that tgemm knows"));
    assert!(error("E=8,N=4,device_name=AMD_X,dtype=fp3.json", b"{}").contains("dtype=fp3"));
    let many: String = (1..=MEMBERS_MAX + 1).map(|m| format!(",\"{m}\": 1")).collect();
    assert!(error(NAME, format!("{{{}}}", &many[1..]).as_bytes()).contains("more than 4096 members"));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(text in "[{}\":,\\\\0-9a-c \n]{0,60}") {
        if let Ok(Content::Choices(read)) = parse(Path::new(NAME), text.as_bytes(), &with_origin()) {
            let _ = to_files(read.rows.iter().map(|row| &row.value));
        }
    }

    /// Whatever entries are taken out of a file, what is left is a file that gives back the same choices.
    #[test]
    fn any_part_of_a_file_is_a_file(kept in proptest::sample::subsequence(vec![1u32, 2, 4, 8, 16], 1..=5)) {
        let entry = |m: &u32| format!("\"{m}\": {{\"num_warps\": {m}}}");
        let all: Vec<String> = [1, 2, 4, 8, 16].iter().map(entry).collect();
        let read = read_as(NAME, &format!("{{\"triton_version\": \"3\",\n {}\n}}", all.join(",\n ")));
        let rows: Vec<Choice> = read.into_values().filter(|row| kept.contains(&row.problem.m())).collect();
        let (files, _) = to_files(&rows);
        let again = read_as(NAME, &files[0].text);
        prop_assert_eq!(again.rejected, vec![]);
        let told: Vec<_> = again.rows.iter().map(|row| (row.value.problem, row.value.solution.clone())).collect();
        let want: Vec<_> = rows.iter().map(|row| (row.problem, row.solution.clone())).collect();
        prop_assert_eq!(told, want);
    }
}

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data/vllm-moe");

/// Every configuration of the corpus; none, with a message, where the corpus is not there.
fn corpus() -> Vec<PathBuf> {
    let entries = fs::read_dir(CORPUS).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|ext| ext == "json"));
    files.sort();
    if files.is_empty() {
        println!("skipped: no vLLM files at {CORPUS}");
    }
    files
}

#[test]
fn every_shipped_configuration_comes_out_as_it_went_in() {
    let (mut rows, mut kept, mut identical, mut certain) = (0, 0, 0, 0);
    let mut refused = BTreeMap::<String, usize>::new();
    let files = corpus();
    for path in &files {
        let text = fs::read_to_string(path).unwrap();
        let entries = text.matches("\": {").count();
        rows += entries;
        let read = match parse(path, text.as_bytes(), &with_origin()) {
            Ok(Content::Choices(read)) => read,
            other => {
                let error = other.unwrap_err().to_string();
                let why = error.split("but ").last().unwrap_or_default().to_owned();
                *refused.entry(why).or_default() += entries;
                continue;
            }
        };
        assert_eq!((read.rows.len(), read.rejected.len()), (entries, 0), "{}", path.display());
        kept += read.rows.len();
        certain += usize::from(read.rows[0].value.device.compute_units > 0);
        let (written, left_out) = to_files(read.rows.iter().map(|row| &row.value));
        let name = path.file_name().unwrap().to_string_lossy();
        assert_eq!((written, left_out), (vec![file(&name, &text)], vec![]), "{name}");
        identical += 1;
        // Without its spelling a file still says the same.
        let bare: Vec<Choice> = read.rows.into_iter().map(|row| Choice { origin: None, ..row.value }).collect();
        let (fresh, left_out) = to_files(&bare);
        if left_out.is_empty() {
            let again = read_as(&fresh[0].name, &fresh[0].text);
            let pairs = again.rows.iter().zip(&bare);
            assert!(pairs.into_iter().all(|(a, b)| (a.value.problem, &a.value.solution) == (b.problem, &b.solution)));
        }
    }
    println!(
        "{} files, {identical} identical, {certain} of a certain device; {rows} rows, {kept} kept; refused: {refused:?}",
        files.len()
    );
    if files.is_empty() {
        return;
    }
    assert_eq!((files.len(), identical, rows, kept), (282, 280, 4931 + 112, 5007));
    assert_eq!(refused.values().sum::<usize>(), 36, "two files of an Intel device");
}

#[test]
fn an_origin_that_is_not_ours_frames_nothing() {
    let mut row = read_as(NAME, TEXT).into_values().next().unwrap();
    let mut origin = crate::Origin::clone(row.origin.as_ref().unwrap());
    Arc::make_mut(&mut origin.source).format = "tuned".into();
    row.origin = Some(Arc::new(origin));
    assert!(
        to_files([&row]).0[0].text.starts_with("{\n    \"triton_version\": \"3.5.0\",\n    \"16\": {\n        \"BLOCK")
    );
}
