//! The two rules by golden values, by oracles written from the rules alone, and over AITER's published tables.

mod corpus;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::sample::{Index as Pick, select};
use tgemm_db::format::{self, ReadOptions};
use tgemm_db::moe::MoeQuant;
use tgemm_db::problem::Activation;
use tgemm_db::{Choice, Constraints, DType, Device, Environment, MoeSite, Vendor, WeightForm};

use crate::{Database, Hit, HitKind};

fn environment(arch: &str, compute_units: u32) -> Environment {
    let device = Device {
        vendor: Vendor::Amd,
        arch: arch.into(),
        compute_units,
        memory_gib: None,
        chip_id: None,
        partition: None,
        last_level_cache_bytes: 0,
    };
    Environment { device, builds: Vec::new(), driver: String::new(), vars: BTreeMap::new() }
}

/// AITER shuffles the weights of its fused MoE layers, so an engine that asks for its rows holds them so.
fn as_aiter() -> Constraints {
    let mut constraints = Constraints::default();
    constraints.weight_forms.insert(WeightForm::Preshuffled);
    constraints
}

const HEADER: &str = "gfx,cu_num,token,model_dim,inter_dim,expert,topk,act_type,dtype,q_dtype_a,q_dtype_w,q_type,use_g1u1,doweight_stage1,block_m,ksplit,us1,kernelName1,err1,us2,kernelName2,err2,us,run_1stage,xbf16,flat,tflops,bw,_tag";

/// The layer of all rows below.
fn site(activation: Activation) -> MoeSite {
    MoeSite {
        experts: 8,
        topk: 2,
        model_dim: 4096,
        inter_dim: 14336,
        x: Some(DType::Bf16),
        q_x: Some(DType::F8E4m3Fnuz),
        q_w: Some(DType::F8E4m3Fnuz),
        quant: MoeQuant::Per1x128,
        block: (0, 0),
        activation,
        gated: true,
        weight_in_stage1: false,
    }
}

/// A row of AITER's for that layer.
fn aiter_row(m: u32, activation: &str, kernel: &str, tag: &str) -> String {
    format!(
        "gfx942,304,{m},4096,14336,8,2,ActivationType.{activation},torch.bfloat16,torch.float8_e4m3fnuz,torch.float8_e4m3fnuz,QuantType.per_1x128,1,0,32,0,1.0,{kernel},0.0%,1.0,Null,0.0%,2.0,0,0,0,1.0,1.0,{tag}\n"
    )
}

fn aiter(rows: &[String]) -> Vec<Choice> {
    let text = format!("{HEADER}\n{}", rows.concat());
    let read = format::parse_choices(Path::new("tuned_fmoe.csv"), text.as_bytes(), &ReadOptions::default()).unwrap();
    assert_eq!(read.rejected, []);
    read.into_values().collect()
}

/// A file of vLLM's for that layer; the entry of M has `num_warps` M.
fn vllm(ms: &[u32], backend: &str) -> Vec<Choice> {
    let entries: Vec<String> = ms.iter().map(|m| format!("\"{m}\": {{\"num_warps\": {m}}}")).collect();
    let name =
        format!("E=8,N=14336,device_name=AMD_Instinct_MI300X,dtype=fp8_w8a8,block_shape=[128,128]{backend}.json");
    let text = format!("{{{}}}", entries.join(","));
    let read = format::parse_choices(Path::new(&name), text.as_bytes(), &ReadOptions::default()).unwrap();
    assert_eq!(read.rejected, []);
    read.into_values().collect()
}

fn database(choices: Vec<Choice>) -> Database {
    let rows = choices.len();
    let database = Database::from_choices(choices, &environment("gfx942", 304));
    assert_eq!(database.len(), rows, "all serve here");
    database
}

fn kernel<'a>(hit: &Hit<'a>) -> Option<&'a str> {
    hit.choice.map(|choice| choice.solution.name.as_str())
}

#[test]
fn aiters_rows_answer_by_tiers_and_then_for_any_activation() {
    let rows = [
        aiter_row(5, "Silu", "exact5", ""),
        aiter_row(1024, "Gelu", "gelu1024", ""),
        aiter_row(1024, "Swiglu", "swiglu1024", ""),
        aiter_row(1024, "Silu", "silu1024", ""),
        aiter_row(512, "Gelu", "gelu512", ""),
        aiter_row(32768, "Silu", "silu32768", ""),
        aiter_row(131072, "Gelu", "gelu131072", ""),
        aiter_row(2048, "Silu", "standin", "flydsl_fallback"),
    ];
    let database = database(aiter(&rows));
    let ask = |activation, m| {
        let hit = database.moe_site(&site(activation)).at(m, &as_aiter());
        (hit.kind, hit.tuned_m, kernel(&hit))
    };
    use HitKind::{Exact, Padded};
    assert_eq!(ask(Activation::Silu, 5), (Exact, Some(5), Some("exact5")));
    assert_eq!(ask(Activation::Silu, 1000), (Padded, Some(1024), Some("silu1024")));
    assert_eq!(ask(Activation::Silu, 1024), (Exact, Some(1024), Some("silu1024")));
    assert_eq!(ask(Activation::Swiglu, 513), (Padded, Some(1024), Some("swiglu1024")));
    // No row has the activation: the first in file order answers.
    assert_eq!(ask(Activation::Relu, 1024), (Padded, Some(1024), Some("gelu1024")));
    assert_eq!(ask(Activation::Silu, 500), (Padded, Some(512), Some("gelu512")));
    // The tier itself with any activation goes before the smaller tier with the right one.
    assert_eq!(ask(Activation::Silu, 200_000), (Padded, Some(131_072), Some("gelu131072")));
    assert_eq!(ask(Activation::Silu, 100_000), (Padded, Some(32_768), Some("silu32768")));
    assert_eq!(ask(Activation::Silu, 20_000), (Padded, Some(32_768), Some("silu32768")));
    assert_eq!(ask(Activation::Silu, 2048), (HitKind::Default, None, None));
    // Every other part of the key must be right.
    for other in [
        MoeSite { topk: 3, ..site(Activation::Silu) },
        MoeSite { gated: false, ..site(Activation::Silu) },
        MoeSite { quant: MoeQuant::PerToken, ..site(Activation::Silu) },
        MoeSite { q_w: Some(DType::F8E4m3Fn), ..site(Activation::Silu) },
    ] {
        assert_eq!(database.moe_site(&other).at(1024, &as_aiter()), Hit::DEFAULT);
    }
    assert_eq!(database.moe_site(&site(Activation::Silu)).at(1024, &Constraints::default()), Hit::DEFAULT);
}

#[test]
fn the_smaller_tier_answers_only_above_the_larger() {
    let database = database(aiter(&[aiter_row(32768, "Silu", "silu32768", "")]));
    let ask = |m| database.moe_site(&site(Activation::Silu)).at(m, &as_aiter()).tuned_m;
    assert_eq!(
        [ask(131_072), ask(u32::MAX), ask(16_384), ask(16_385)],
        [Some(32_768), Some(32_768), None, Some(32_768)]
    );
}

#[test]
fn vllms_rows_answer_by_the_nearest_m_and_ties_by_file_order() {
    let ask =
        |database: &Database, m| database.moe_site(&site(Activation::Silu)).at(m, &Constraints::default()).tuned_m;
    let ascending = database(vllm(&[1, 2, 16, 1024], ""));
    let golden = [(1, 1), (3, 2), (9, 2), (10, 16), (500, 16), (520, 16), (521, 1024), (90_000, 1024)];
    for (m, want) in golden {
        assert_eq!(ask(&ascending, m), Some(want), "M {m}");
    }
    let shuffled = database(vllm(&[3840, 1792, 3584, 512], ""));
    assert_eq!(
        [ask(&shuffled, 3712), ask(&shuffled, 3711), ask(&shuffled, 1152)],
        [Some(3840), Some(3584), Some(1792)]
    );
    let hit = ascending.moe_site(&site(Activation::Gelu)).at(16, &Constraints::default());
    assert_eq!(hit.kind, HitKind::Exact, "vLLM's names know no activation");
    // Asked for as it is named, a layer of vLLM's is not padded by AITER's tiers either.
    let named = site(Activation::Silu).as_vllm().unwrap();
    assert_eq!(ascending.moe_site(&named).at(600, &Constraints::default()).tuned_m, Some(1024));
    assert_eq!(ascending.moe_site(&named).at(500, &Constraints::default()).tuned_m, Some(16));
    assert_eq!(ascending.moe_site(&named).tuned_ms(), [1, 2, 16, 1024]);
    let other = MoeSite { quant: MoeQuant::PerToken, ..site(Activation::Silu) };
    assert!(ascending.moe_site(&other).is_empty(), "another block shape is another file");
}

#[test]
fn one_file_answers_alone_and_aiters_rows_go_first() {
    let both = [vllm(&[64], ",backend=flydsl"), vllm(&[1, 4096], ""), aiter(&[aiter_row(64, "Silu", "a64", "")])];
    let database = database(both.concat());
    let table = database.moe_site(&site(Activation::Silu));
    assert_eq!(kernel(&table.at(60, &as_aiter())), Some("a64"));
    assert_eq!(table.at(70, &as_aiter()).tuned_m, Some(1), "Triton's file, though FlyDSL's has a nearer M");
    let flydsl = Constraints { libraries: Some(["flydsl".to_owned()].into()), ..Constraints::default() };
    assert_eq!(table.at(4096, &flydsl).tuned_m, Some(64));
    let problem = site(Activation::Silu).at(70).into();
    let told = database.explain(&problem, &as_aiter());
    assert_eq!((told.kind, told.tuned_m), (HitKind::Padded, Some(1)));
    assert_eq!(
        told.steps.iter().map(|step| (step.m, step.answered)).collect::<Vec<_>>(),
        [(Some(70), false), (Some(128), false), (Some(1), true)]
    );
    assert_eq!(told.nearest_m, Some(64));
}

#[test]
fn files_of_both_are_opened_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("tuned_fmoe.csv");
    fs::write(&csv, format!("{HEADER}\n{}", aiter_row(64, "Silu", "a64", ""))).unwrap();
    let json =
        folder.path().join("E=8,N=14336,device_name=AMD_Instinct_MI300X,dtype=fp8_w8a8,block_shape=[128,128].json");
    fs::write(&json, "{\"1\": {\"num_warps\": 8}}").unwrap();
    let (database, report) = Database::open(&[csv, json], &environment("gfx942", 304));
    assert!(report.is_clean(), "{report}");
    let table = database.moe_site(&site(Activation::Silu));
    assert_eq!([table.at(64, &as_aiter()).tuned_m, table.at(65, &as_aiter()).tuned_m], [Some(64), Some(1)]);
}

#[test]
fn explain_names_vllms_rows_of_another_device() {
    let elsewhere = Database::from_choices(vllm(&[16], ""), &environment("gfx950", 256));
    let site = MoeSite { q_x: Some(DType::F8E4m3Fnuz), ..site(Activation::Silu) };
    let told = elsewhere.explain(&site.at(16).into(), &Constraints::default());
    assert_eq!(told.refused.len(), 1, "{told}");
    assert!(told.refused[0].contains("M=16 tuned on gfx942/304/192GiB"), "{told}");
}

/// AITER's rule as its lookup has it: two dictionaries by key, the first row of a key counts.
fn aiter_oracle<'t>(rows: &[(u32, &str, &'t str)], m: u32, activation: &str) -> Option<&'t str> {
    let tiers = [32_768, 131_072];
    let padded = if m < 32_768 { m.next_power_of_two() } else { *tiers.iter().rfind(|tier| **tier <= m).unwrap() };
    let mut asked = vec![padded];
    asked.extend(tiers.iter().rev().filter(|tier| padded > 32_768 && **tier < padded));
    asked.into_iter().find_map(|m| {
        let primary = rows.iter().find(|row| (row.0, row.1) == (m, activation));
        primary.or_else(|| rows.iter().find(|row| row.0 == m)).map(|row| row.2)
    })
}

const WORDS: [(&str, Activation); 3] =
    [("Silu", Activation::Silu), ("Gelu", Activation::Gelu), ("Swiglu", Activation::Swiglu)];

proptest! {
    #[test]
    fn aiters_tables_answer_as_its_rule_says(
        keys in proptest::collection::vec((0u32..18, 0usize..3), 1..12),
        asked in proptest::collection::vec((1u32..300_000, 0u32..18, 0usize..3), 16),
    ) {
        let tier = |exponent: u32| if exponent < 16 { 1 << exponent } else { 131_072 };
        let mut seen = BTreeSet::new();
        let keys: Vec<_> = keys.into_iter().map(|(e, a)| (tier(e), a)).filter(|key| seen.insert(*key)).collect();
        let names: Vec<String> = (0..keys.len()).map(|at| format!("k{at}")).collect();
        let rows: Vec<_> = keys.iter().zip(&names).map(|((m, a), name)| (*m, WORDS[*a].0, name.as_str())).collect();
        let database = database(aiter(&rows.iter().map(|(m, a, name)| aiter_row(*m, a, name, "")).collect::<Vec<_>>()));
        for (large, shift, a) in asked {
            let m = (large >> shift).max(1);
            let hit = database.moe_site(&site(WORDS[a].1)).at(m, &as_aiter());
            prop_assert_eq!(kernel(&hit), aiter_oracle(&rows, m, WORDS[a].0), "M {}", m);
        }
    }

    #[test]
    fn vllms_files_answer_as_its_rule_says(
        ms in proptest::collection::vec(1u32..400, 1..12),
        asked in proptest::collection::vec(1u32..450, 16),
    ) {
        let mut seen = BTreeSet::new();
        let ms: Vec<u32> = ms.into_iter().filter(|m| seen.insert(*m)).collect();
        let database = database(vllm(&ms, ""));
        for m in asked {
            // Python's `min` keeps the first of equals.
            let want = ms.iter().copied().reduce(|best, x| if x.abs_diff(m) < best.abs_diff(m) { x } else { best });
            let hit = database.moe_site(&site(Activation::Silu)).at(m, &Constraints::default());
            prop_assert_eq!(hit.tuned_m, want);
            prop_assert_eq!(hit.kind == HitKind::Exact, want == Some(m));
        }
    }

    #[test]
    fn an_explanation_ends_where_the_lookup_did(
        tiers in proptest::collection::vec((0u32..17, 0usize..3), 0..6),
        ms in proptest::collection::btree_set(1u32..5000, 0..4),
        m in 1u32..100_000,
        which in any::<Pick>(),
        constraints in select(vec![as_aiter(), Constraints::default()]),
    ) {
        let rows: Vec<_> = tiers.iter().map(|(e, a)| aiter_row(1 << e, WORDS[*a].0, "k", "")).collect();
        let ms: Vec<u32> = ms.into_iter().collect();
        let database = database([aiter(&rows), vllm(&ms, "")].concat());
        let problem = site(WORDS[which.index(3)].1).at(m).into();
        let (hit, told) = (database.lookup(&problem, &constraints), database.explain(&problem, &constraints));
        prop_assert_eq!((told.kind, told.tuned_m), (hit.kind, hit.tuned_m));
        prop_assert_eq!(told.steps.iter().filter(|step| step.answered).count(), usize::from(hit.choice.is_some()));
        prop_assert!(told.steps.iter().rev().skip(1).all(|step| !step.answered));
    }
}
