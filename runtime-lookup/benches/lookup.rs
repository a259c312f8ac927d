//! What a lookup and a start cost: an exact hit on 40,000 choices, loading 39,130 rows of AITER's and of ours.
//!
//! 39,130 is what AITER ships for one family (its ten blockscale files); the rows here are synthetic, of that number,
//! with kernel names of its usual length.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use tgemm_db::format::{self, ReadOptions, aiter, tuned};
use tgemm_db::{Choice, Constraints, Device, Environment, Problem, Vendor};
use tgemm_lookup::Database;

const ROWS: usize = 39_130;
const SITES: u32 = 200;

fn here() -> Environment {
    let device = Device {
        vendor: Vendor::Amd,
        arch: "gfx950".into(),
        compute_units: 256,
        memory_gib: None,
        chip_id: None,
        partition: None,
        last_level_cache_bytes: 0,
    };
    Environment { device, builds: Vec::new(), driver: String::new(), vars: BTreeMap::new() }
}

/// AITER's table of `rows` rows over [`SITES`] sites.
fn aiter_text(rows: usize) -> String {
    let mut text = aiter::COLUMNS.join(",");
    text.push('\n');
    for row in 0..rows as u32 {
        let (site, at) = (row % SITES, row / SITES);
        let (m, n, k) = (1 + at * 16, 256 + 64 * site, 1024 + 128 * (site % 31));
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

fn choices(rows: usize) -> Vec<Choice> {
    let text = aiter_text(rows);
    let read = format::parse_choices(Path::new("bench.csv"), text.as_bytes(), &ReadOptions::default());
    read.expect("the bench's own table").into_values().collect()
}

fn lookup(c: &mut Criterion) {
    let choices = choices(40_000);
    // A walk over all rows that jumps between sites, as the layers of a model do.
    let problems: Vec<Problem> = (0..4096).map(|i| choices[i * 7919 % choices.len()].problem).collect();
    let database = Database::from_choices(choices, &here());
    let constraints = Constraints { numerics: tgemm_db::Numerics::Partial16, ..Constraints::default() };
    let mut group = c.benchmark_group("40,000 choices");
    group.bench_function("lookup, one problem", |b| {
        b.iter(|| database.lookup(black_box(&problems[17]), black_box(&constraints)).choice.is_some());
    });
    let mut at = 0;
    group.bench_function("lookup, 4096 problems in turn", |b| {
        b.iter(|| {
            at = (at + 1) % problems.len();
            database.lookup(black_box(&problems[at]), black_box(&constraints)).choice.is_some()
        });
    });
    let gemm = problems[17].gemm().unwrap();
    let table = database.site(&gemm.site);
    group.bench_function("site table, one M", |b| {
        b.iter(|| table.at(black_box(gemm.m), black_box(&constraints)).choice.is_some());
    });
    group.bench_function("site table, borrowed M", |b| {
        b.iter(|| table.at(black_box(gemm.m + 5), black_box(&constraints)).choice.is_some());
    });
    group.finish();
}

fn load(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let [theirs, ours] = ["aiter.csv", "tuned.csv"].map(|name| folder.path().join(name));
    std::fs::write(&theirs, aiter_text(ROWS)).expect("the scratch folder takes a file");
    tuned::write(&ours, &choices(ROWS)).expect("the scratch folder takes a file");
    let here = here();
    let mut group = c.benchmark_group("load 39,130 rows");
    group.sample_size(20);
    for (name, path) in [("AITER's CSV", theirs), ("our CSV", ours)] {
        let paths = [path];
        group.bench_function(name, |b| {
            b.iter_batched(|| (), |()| Database::open(&paths, &here), BatchSize::PerIteration);
        });
    }
    group.finish();
}

criterion_group!(benches, lookup, load);
criterion_main!(benches);
