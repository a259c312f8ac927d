//! AITER's published tables against its rule, read a second time by nothing but a comma.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use tgemm_db::format::{self, ReadOptions};
use tgemm_db::moe::MoeQuant;
use tgemm_db::{Choice, DType, MoeSite};

use super::{WORDS, as_aiter, environment, kernel};
use crate::Database;

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data/aiter/aiter/configs");

fn corpus() -> Vec<PathBuf> {
    let folders = [PathBuf::from(CORPUS), Path::new(CORPUS).join("model_configs")];
    let entries = folders.iter().flat_map(fs::read_dir).flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    let is_tuned = |name: &str| name.contains("tuned_fmoe") && !name.contains("untuned");
    files.retain(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_tuned));
    files.sort();
    files
}

/// A row of a published table as text: what AITER's lookup compares and gives, cut at commas by the header.
struct Raw {
    device: (String, u32),
    m: u32,
    activation: String,
    /// The ten other columns of the key.
    rest: String,
    us: f64,
    answer: String,
}

fn raw_rows(text: &str) -> Vec<Raw> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let rest = "model_dim,inter_dim,expert,topk,dtype,q_dtype_a,q_dtype_w,q_type,use_g1u1,doweight_stage1";
    let rows = lines.map(|line| line.split(',').collect::<Vec<_>>());
    let rows = rows.map(|cells| names.iter().copied().zip(cells).collect::<BTreeMap<_, _>>());
    let is_answer = |row: &BTreeMap<&str, &str>| {
        row.get("_tag").is_none_or(|tag| *tag != "flydsl_fallback") && row["us"].parse::<f64>().unwrap() > 0.0
    };
    let raw = |row: BTreeMap<&str, &str>| {
        let cu: u32 = row["cu_num"].parse().unwrap();
        let gfx = row.get("gfx").copied().unwrap_or(if cu == 256 { "gfx950" } else { "gfx942" });
        let second = Some(row["kernelName2"]).filter(|name| !matches!(*name, "" | "Null"));
        Raw {
            device: (gfx.to_owned(), cu),
            m: row["token"].parse().unwrap(),
            activation: row["act_type"].to_owned(),
            rest: rest.split(',').map(|name| row[name]).collect::<Vec<_>>().join(","),
            us: row["us"].parse().unwrap(),
            answer: format!("{}{}", row["kernelName1"], second.map_or(String::new(), |name| format!(";{name}"))),
        }
    };
    rows.filter(|row| row.contains_key("us") && is_answer(row)).map(raw).collect()
}

/// The answer that AITER's rule gives over raw rows. Where rows agree in the whole key AITER's merge keeps the fastest;
/// a row at exactly M goes first, as the module says.
fn raw_oracle<'r>(rows: &[&'r Raw], m: u32, activation: &str) -> Option<&'r str> {
    let own = |m: u32| {
        let same = rows.iter().filter(|row| (row.m, row.activation.as_str()) == (m, activation));
        same.min_by(|a, b| a.us.total_cmp(&b.us))
    };
    let first = |m: u32| rows.iter().find(|row| row.m == m);
    let tier = |m: u32| own(m).or_else(|| first(m));
    let found = match m {
        0..32_768 => own(m).or_else(|| tier(m.next_power_of_two())),
        32_768..131_072 => own(m).or_else(|| tier(32_768)),
        _ => own(m).or_else(|| tier(131_072)).or_else(|| tier(32_768)),
    };
    found.map(|row| row.answer.as_str())
}

#[test]
fn ten_thousand_lookups_in_aiters_tables_answer_as_its_rule_says() {
    let mut by_device: BTreeMap<(String, u32), (Vec<Choice>, Vec<Raw>)> = BTreeMap::new();
    for path in corpus() {
        let text = fs::read_to_string(&path).unwrap();
        let read = format::parse_choices(&path, text.as_bytes(), &ReadOptions::default()).unwrap();
        let rejected: BTreeSet<u64> = read.rejected.iter().map(|row| row.line).collect();
        let kept: Vec<&str> =
            text.lines().zip(1..).filter(|(_, line)| !rejected.contains(line)).map(|(text, _)| text).collect();
        for choice in read.into_values() {
            let key = (choice.device.arch.clone(), choice.device.compute_units);
            by_device.entry(key).or_default().0.push(choice);
        }
        for raw in raw_rows(&kept.join("\n")) {
            by_device.entry(raw.device.clone()).or_default().1.push(raw);
        }
    }
    if by_device.is_empty() {
        println!("skipped: no AITER files at {CORPUS}");
        return;
    }
    // A fixed sequence (Knuth's MMIX constants), so that a failure repeats.
    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let (mut asked, mut answered) = (0, 0);
    for ((arch, compute_units), (choices, raw)) in &by_device {
        let database = Database::from_choices(choices.iter().cloned(), &environment(arch, *compute_units));
        for _ in 0..10_000 / by_device.len() + 1 {
            let choice = &choices[random(choices.len())];
            let (word, activation) = WORDS[random(WORDS.len())];
            let scale = random(18);
            let anywhere = 1 + random((200_000 >> scale).max(1)) as u32;
            let m = if random(2) == 0 { choice.problem.m() } else { anywhere };
            let site = MoeSite { activation, ..choice.problem.moe().unwrap().site };
            let hit = database.moe_site(&site).at(m, &as_aiter());
            let rest = rest_of(&site);
            let rows: Vec<&Raw> = raw.iter().filter(|row| row.rest == rest).collect();
            assert!(!rows.is_empty(), "{rest}");
            let want = raw_oracle(&rows, m, &format!("ActivationType.{word}"));
            assert_eq!(kernel(&hit), want, "{rest} M {m} {word} on {arch}/{compute_units}");
            asked += 1;
            answered += usize::from(want.is_some());
        }
    }
    println!("{asked} lookups on {} devices, {answered} answered, all as AITER's rule says", by_device.len());
    assert!(answered > asked / 4, "the lookups ask for what is there");
}

/// The key's other columns as AITER spells them.
fn rest_of(s: &MoeSite) -> String {
    let dtype = |dtype: Option<DType>| dtype.unwrap().torch_name();
    let quant = match s.quant {
        MoeQuant::None => "No",
        MoeQuant::PerTensor => "per_Tensor",
        MoeQuant::PerToken => "per_Token",
        MoeQuant::Per1x32 => "per_1x32",
        MoeQuant::Per1x128 => "per_1x128",
        other => panic!("{other}"),
    };
    format!(
        "{},{},{},{},{},{},{},QuantType.{quant},{},{}",
        s.model_dim,
        s.inter_dim,
        s.experts,
        s.topk,
        dtype(s.x),
        dtype(s.q_x),
        dtype(s.q_w),
        u8::from(s.gated),
        u8::from(s.weight_in_stage1)
    )
}
