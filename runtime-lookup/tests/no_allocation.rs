//! The hit path allocates nothing, whatever it finds.

mod counting;

use std::collections::BTreeMap;

use counting::allocations;
use tgemm_db::choice::Ratio;
use tgemm_db::{
    Build, Choice, Constraints, DType, Device, Environment, Numerics, Params, Site, Solution, Vendor, Verdict,
    WeightForm,
};
use tgemm_lookup::{Database, HitKind};

fn choice(site: Site, m: u32) -> Choice {
    Choice {
        problem: site.at(m).into(),
        device: here().device.into(),
        solution: Solution {
            build: Build::unknown("gemm").into(),
            index: 0,
            name: "gemm".into(),
            params: Params::new().with("threads", 2),
            weight_form: WeightForm::Plain,
            workspace_bytes: 8,
            numerics: Numerics::Exact,
            deterministic: None,
            graph_safe: None,
        },
        time_us: 1.0,
        ratio: Ratio::ONE,
        verdict: Verdict::Same,
        baselines: Vec::new(),
        error_over_bound: 0.0,
        err_ratio: 0.0,
        pack_us: None,
        count: 0,
        tuned_at: String::new(),
        origin: None,
    }
}

fn here() -> Environment {
    let device = Device {
        vendor: Vendor::Cpu,
        arch: "x86_64-v4".into(),
        compute_units: 2,
        memory_gib: None,
        chip_id: None,
        partition: None,
        last_level_cache_bytes: 0,
    };
    Environment { device, builds: Vec::new(), driver: String::new(), vars: BTreeMap::new() }
}

#[test]
fn hits_borrowed_rows_refusals_and_misses_allocate_nothing() {
    let site = Site::linear(64, 64, DType::F32);
    let database = Database::from_choices([4, 16, 512].map(|m| choice(site, m)), &here());
    let allowed = Constraints { libraries: Some(["gemm".to_owned()].into()), ..Constraints::default() };
    let refused = Constraints { workspace_bytes_max: Some(0), ..Constraints::default() };
    let other = Site::linear(65, 64, DType::F32);
    let table = database.site(&site);
    let before = allocations();
    let kinds = [
        database.lookup(&site.at(4).into(), &allowed).kind,
        table.at(9, &allowed).kind,
        table.at(16, &refused).kind,
        table.at(300, &allowed).kind,
        database.lookup(&other.at(4).into(), &allowed).kind,
    ];
    let after = allocations();
    use HitKind::{Default, Exact, Padded};
    assert_eq!(kinds, [Exact, Padded, Default, Padded, Default]);
    assert_eq!(after - before, 0);
    assert!(before > 0, "the counter counts nothing");
}
