//! Choices for tests.

use crate::choice::{Baseline, Choice, Ratio, Verdict};
use crate::device::{Build, Device, Vendor};
use crate::dtype::DType;
use crate::problem::Site;
use crate::solution::Solution;

/// What tests vary of a choice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    pub(crate) m: u32,
    pub(crate) n: u32,
    pub(crate) arch: &'static str,
    pub(crate) version: &'static str,
    pub(crate) index: i64,
    pub(crate) verdict: Verdict,
    pub(crate) high: f64,
    pub(crate) time_us: f64,
    pub(crate) tuned_at: &'static str,
    pub(crate) count: u64,
}

impl Default for Figures {
    fn default() -> Figures {
        Figures {
            m: 1,
            n: 64,
            arch: "gfx942",
            version: "",
            index: 1,
            verdict: Verdict::Unknown,
            high: 1.0,
            time_us: 10.0,
            tuned_at: "",
            count: 0,
        }
    }
}

pub(crate) fn choice(f: Figures) -> Choice {
    let solution = Solution::bare(
        Build { library: "hipblaslt".into(), version: f.version.into(), revision: String::new() },
        f.index,
        format!("Cijk_{}", f.index),
    );
    let is_compared = !matches!(f.verdict, Verdict::Unknown | Verdict::NoBaseline);
    let baseline =
        Baseline { via: "hipblasLtMatmul".into(), solution: Solution { index: 0, ..solution.clone() }, time_us: 20.0 };
    Choice {
        problem: Site::linear(f.n, 128, DType::Bf16).at(f.m).into(),
        device: Device {
            vendor: Vendor::Amd,
            arch: f.arch.into(),
            compute_units: 304,
            memory_gib: None,
            chip_id: None,
            partition: None,
            last_level_cache_bytes: 0,
        }
        .into(),
        solution,
        time_us: f.time_us,
        ratio: Ratio { estimate: f.high, low: f.high, high: f.high },
        verdict: f.verdict,
        baselines: if is_compared { vec![baseline] } else { Vec::new() },
        error_over_bound: 0.0,
        err_ratio: 0.0,
        pack_us: None,
        count: f.count,
        tuned_at: f.tuned_at.into(),
        origin: None,
    }
}
