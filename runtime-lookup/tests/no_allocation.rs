//! The hit path allocates nothing, whatever it finds.

mod counting;

use std::collections::BTreeMap;

use counting::allocations;
use tgemm_db::choice::Ratio;
use tgemm_db::{Build, Choice, Constraints, DType, Device, Environment, Params, Site, Solution, Vendor, Verdict};
use tgemm_lookup::{Database, HitKind, Layers, Levels, Live, Tally};

fn choice(site: Site, m: u32) -> Choice {
    Choice {
        problem: site.at(m).into(),
        device: here().device.into(),
        solution: Solution {
            params: Params::new().with("threads", 2),
            workspace_bytes: 8,
            ..Solution::bare(Build::unknown("gemm"), 0, "gemm")
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
fn every_kind_of_answer_allocates_nothing() {
    let site = Site::linear(64, 64, DType::F32);
    let rows = || [4, 16, 40, 512].map(|m| choice(site, m));
    let database = Database::from_choices(rows(), &here());
    let faster = |m| Choice { verdict: Verdict::Faster, ..choice(Site::linear(80, 64, DType::F32), m) };
    let predicting = Database::from_choices([8, 64].map(faster), &here()).with_levels(Levels::ALL);
    let allowed = Constraints { libraries: Some(["gemm".to_owned()].into()), ..Constraints::default() };
    let refused = Constraints { workspace_bytes_max: Some(0), ..Constraints::default() };
    let other = Site::linear(65, 64, DType::F32);
    let near = Site::linear(96, 64, DType::F32);
    let table = database.site(&site);
    let tally = Tally::default();
    let (live, _) = Live::open(Layers::default(), here(), Levels::default());
    // A thread's first look at a table that may be replaced gives it a place of its own, once.
    drop(live.table());
    let before = allocations();
    let hits = [
        database.lookup(&site.at(4).into(), &allowed),
        table.at(9, &allowed),
        table.at(16, &refused),
        table.at(300, &allowed),
        table.at(33, &allowed),
        table.at(33, &refused),
        database.lookup(&other.at(4).into(), &allowed),
        predicting.lookup(&near.at(8).into(), &allowed),
        predicting.lookup(&near.at(20).into(), &allowed),
        predicting.lookup(&near.at(20).into(), &refused),
        predicting.lookup(&other.at(20).into(), &refused),
    ];
    let kinds = hits.map(|hit| tally.count(&site.at(7).into(), hit).kind);
    let of_live = live.table().lookup(&site.at(4).into(), &allowed).kind;
    let after = allocations();
    use HitKind::{Default, Exact, Interval, Padded, Predicted};
    let want = [Exact, Padded, Default, Padded, Interval, Default, Default, Predicted, Predicted, Default, Default];
    assert_eq!(kinds, want);
    assert_eq!((of_live, after - before), (Default, 0));
    assert!(before > 0, "the counter counts nothing");
}
