//! What holds for the lookup as a whole.

mod corpus;
mod cut;
mod explain;
mod files;
mod ladder;
mod layers;
mod oracle;

use std::collections::BTreeMap;

use tgemm_db::choice::Ratio;
use tgemm_db::{Build, Choice, Device, Environment, Problem, Solution, Vendor, Verdict};

/// An MI300X with a known build of hipBLASLt.
pub(crate) fn here() -> Environment {
    Environment {
        device: device("gfx942", 304),
        builds: vec![build("hipblaslt", "1.0")],
        driver: String::new(),
        vars: BTreeMap::new(),
    }
}

pub(crate) fn device(arch: &str, compute_units: u32) -> Device {
    Device {
        vendor: Vendor::Amd,
        arch: arch.into(),
        compute_units,
        memory_gib: None,
        chip_id: None,
        partition: None,
        last_level_cache_bytes: 0,
    }
}

pub(crate) fn build(library: &str, version: &str) -> Build {
    Build { library: library.into(), version: version.into(), revision: String::new() }
}

/// A choice that serves [`here`].
pub(crate) fn choice(problem: Problem) -> Choice {
    Choice {
        problem,
        device: device("gfx942", 304).into(),
        solution: Solution::bare(build("hipblaslt", "1.0"), 7, "Cijk"),
        time_us: 12.5,
        ratio: Ratio { estimate: 0.8, low: 0.75, high: 0.85 },
        verdict: Verdict::Faster,
        baselines: Vec::new(),
        error_over_bound: 0.1,
        err_ratio: 0.0,
        pack_us: None,
        count: 1,
        tuned_at: "2026-01-01T00:00:00Z".into(),
        origin: None,
    }
}
