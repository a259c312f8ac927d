//! Sample words for the store's tests.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::BTreeMap;

use tgemm_db::choice::{Baseline, Ratio};
use tgemm_db::outcome::{ErrorFigures, OutcomeKind, Phase, Sample};
use tgemm_db::store::{EnvironmentId, RunId, RunInfo, Store};
use tgemm_db::{
    Build, Choice, DType, Device, Environment, Numerics, Outcome, Params, Problem, Site, Solution, Trial, Vendor,
    Verdict, WeightForm,
};

pub fn device() -> Device {
    Device {
        vendor: Vendor::Amd,
        arch: "gfx942".into(),
        compute_units: 304,
        memory_gib: Some(192),
        chip_id: Some(0x74a1),
        partition: Some("SPX/NPS1".into()),
        last_level_cache_bytes: 256 << 20,
    }
}

pub fn environment() -> Environment {
    Environment {
        device: device(),
        builds: vec![build("gemm"), build("hipblaslt")],
        driver: "6.8.5".into(),
        vars: BTreeMap::from([("HIPBLASLT_TENSILE_LIBPATH".into(), "/opt/a 'b' \"c\"".into())]),
    }
}

pub fn build(library: &str) -> Build {
    Build { library: library.into(), version: "1.2".into(), revision: "abc".into() }
}

pub fn problem(m: u32) -> Problem {
    Site::linear(4096, 1024, DType::Bf16).with_bias(DType::F32).at(m).into()
}

pub fn solution(library: &str, index: i64) -> Solution {
    Solution {
        build: build(library).into(),
        index,
        name: format!("Cijk_{index}").into(),
        params: Params::new().with("threads", 2).with("split_k", 4),
        weight_form: WeightForm::Prepacked,
        workspace_bytes: 32 << 20,
        numerics: Numerics::ReducedAccumulation,
        deterministic: Some(true),
        graph_safe: None,
    }
}

pub fn trial(index: i64, samples: u32) -> Trial {
    let sample = |block| Sample { phase: Phase::Race, block, time_us: 10.0 + f64::from(block) / 3.0 + index as f64 };
    Trial {
        solution: solution("hipblaslt", index),
        baseline_via: None,
        outcome: Outcome::ok(),
        finalist: index == 0,
        error: Some(ErrorFigures { max_over_bound: 0.25, max_relative: 1e-3, share_beyond: 0.0, checked: 4096 }),
        pack_us: Some(1234.5),
        samples: (0..samples).map(sample).collect(),
    }
}

pub fn failed(index: i64, kind: OutcomeKind) -> Trial {
    Trial {
        outcome: Outcome::new(kind, "signal 11"),
        error: None,
        pack_us: None,
        samples: Vec::new(),
        ..trial(index, 0)
    }
}

pub fn choice(m: u32) -> Choice {
    let baseline = |library: &str, time_us| Baseline { via: library.into(), solution: solution(library, -7), time_us };
    Choice {
        problem: problem(m),
        device: device().into(),
        solution: solution("hipblaslt", i64::from(m % 50)),
        time_us: 12.5,
        ratio: Ratio { estimate: 0.8, low: 0.78, high: 0.82 },
        verdict: Verdict::Faster,
        baselines: vec![baseline("hipblaslt", 15.6), baseline("gemm", 20.0)],
        error_over_bound: 0.5,
        err_ratio: 0.0,
        pack_us: None,
        count: 7,
        tuned_at: "2025-01-02T03:04:05Z".into(),
        origin: None,
    }
}

pub fn run_info() -> RunInfo {
    RunInfo {
        tool_version: "0.1.0".into(),
        command_line: "tune sweep a.csv --db t.sqlite".into(),
        options: serde_json::json!({"budget_s": 600, "min_gain": 0.005}),
    }
}

/// A run and an environment to refer to.
pub fn begin(store: &mut Store) -> (RunId, EnvironmentId) {
    let run = store.begin_run(&run_info()).unwrap();
    (run, store.environment(&environment()).unwrap())
}

/// Names of the files in a folder, sorted.
pub fn files(folder: &std::path::Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
