//! The table that is measured: synthetic rows of AITER's, as many as it is asked for, with kernel names of its usual length.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

use tgemm_db::format::{self, ReadOptions, aiter};
use tgemm_db::{Choice, Device, Environment, Gemm, Vendor, Verdict};

/// Choices that lookups are measured on.
pub const CHOICES: usize = 100_000;
/// What AITER ships for one family: its ten blockscale files.
pub const ROWS: usize = 39_130;
const SITES: u32 = 500;

pub fn here() -> Environment {
    let device = Device::named(Vendor::Amd, "gfx950", 256);
    Environment { device, builds: Vec::new(), driver: String::new(), vars: BTreeMap::new() }
}

/// AITER's table of `rows` rows over [`SITES`] sites, each at M = 8, 32, 56, …
pub fn aiter_text(rows: usize) -> String {
    let mut text = aiter::COLUMNS.join(",");
    text.push('\n');
    for row in 0..rows as u32 {
        let (site, at) = (row % SITES, row / SITES);
        let (m, n, k) = (8 + at * 24, 256 + 64 * site, 1024 + 128 * (site % 31));
        let _ = writeln!(
            text,
            "gfx950,256,{m},{n},{k},False,torch.bfloat16,torch.bfloat16,False,False,asm,{},{},{}.{:04},\
             _ZN5aiter39bf16gemm_fp32bf16_tn_{}x64_splitk_cleanE,0.0,21.19,417.92",
            row % 42,
            row % 2,
            5 + row % 900,
            row % 10_000,
            32 * (1 + row % 42)
        );
    }
    text
}

/// The same as choices; as if each had been raced and found faster, without which nothing is predicted from it.
pub fn choices(rows: usize) -> Result<Vec<Choice>, Box<dyn Error>> {
    let text = aiter_text(rows);
    let read = format::parse_choices(Path::new("speed.csv"), text.as_bytes(), &ReadOptions::default())?;
    let faster = |choice| Choice { verdict: Verdict::Faster, ..choice };
    Ok(read.into_values().map(faster).collect())
}

/// What PyTorch's TunableOp looks up by: the operator's signature and the shape, as texts put together at each call.
pub fn tunableop_key(gemm: &Gemm) -> String {
    let (m, n, k) = (gemm.site.n, gemm.m, gemm.site.k);
    format!("GemmTunableOp_BFloat16_TN,tn_{m}_{n}_{k}_ld_{k}_{k}_{m}")
}

/// A database of a sweep with [`CHOICES`] choices.
#[cfg(feature = "sqlite")]
pub fn write_store(path: &Path) -> Result<(), Box<dyn Error>> {
    use tgemm_db::Constraints;
    use tgemm_db::store::{RunInfo, Store};
    let mut store = Store::open(path)?;
    let info = RunInfo { tool_version: "0".into(), command_line: String::new(), options: Default::default() };
    let run = store.begin_run(&info)?;
    let environment = store.environment(&here())?;
    store.save_choices(run, environment, &Constraints::default(), &choices(CHOICES)?)?;
    Ok(store.close()?)
}
