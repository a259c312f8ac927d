//! What a lookup and a start cost: every kind of answer on 100,000 choices beside a hash map with TunableOp's string key in the
//! same run; loading 39,130 rows of AITER's and of ours, and 100,000 from SQLite (with the feature `sqlite`).
//!
//! 39,130 is what AITER ships for one family (its ten blockscale files); the rows here are synthetic, of that number,
//! with kernel names of its usual length.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use tgemm_db::format::{self, ReadOptions, aiter, tuned};
use tgemm_db::{Choice, Constraints, Device, Environment, Gemm, Problem, Site, Vendor};
use tgemm_lookup::{Database, HitKind, Levels, Tally};

const CHOICES: usize = 100_000;
const ROWS: usize = 39_130;
const SITES: u32 = 500;

fn here() -> Environment {
    let device = Device::named(Vendor::Amd, "gfx950", 256);
    Environment { device, builds: Vec::new(), driver: String::new(), vars: BTreeMap::new() }
}

/// AITER's table of `rows` rows over [`SITES`] sites, each at M = 8, 32, 56, …
fn aiter_text(rows: usize) -> String {
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

fn choices(rows: usize) -> Vec<Choice> {
    let text = aiter_text(rows);
    let read = format::parse_choices(Path::new("bench.csv"), text.as_bytes(), &ReadOptions::default());
    read.expect("the bench's own table").into_values().collect()
}

/// What PyTorch's TunableOp looks up by: the operator's signature and the shape, as texts put together at each call.
fn tunableop_key(gemm: &Gemm) -> String {
    let (m, n, k) = (gemm.site.n, gemm.m, gemm.site.k);
    format!("GemmTunableOp_BFloat16_TN,tn_{m}_{n}_{k}_ld_{k}_{k}_{m}")
}

/// The M nearest above `m` at which `database` answers `site` in this way.
fn m_of(database: &Database, site: Site, kind: HitKind, constraints: &Constraints) -> u32 {
    let found = (2..100_000).find(|&m| database.lookup(&site.at(m).into(), constraints).kind == kind);
    found.unwrap_or_else(|| panic!("no {kind} answer at {site}"))
}

fn lookup(c: &mut Criterion) {
    let choices = choices(CHOICES);
    // A walk over all rows that jumps between sites, as the layers of a model do.
    let problems: Vec<Problem> = (0..4096).map(|i| choices[i * 7919 % choices.len()].problem).collect();
    let by_text: HashMap<String, Choice> =
        choices.iter().filter_map(|choice| Some((tunableop_key(choice.problem.gemm()?), choice.clone()))).collect();
    let database = Database::from_choices(choices, &here());
    println!("{} choices: {} bytes of index", database.len(), database.index_bytes());
    let constraints = Constraints::default();
    let site = problems[17].gemm().map(|gemm| gemm.site).expect("a GEMM");
    let table = database.site(&site);
    let mut group = c.benchmark_group("100,000 choices");

    let gemm = *problems[17].gemm().expect("a GEMM");
    group.bench_function("TunableOp's key in a HashMap", |b| {
        b.iter(|| by_text.contains_key(&tunableop_key(black_box(&gemm))));
    });
    let kinds = [HitKind::Exact, HitKind::Padded, HitKind::Interval, HitKind::Default];
    for kind in kinds {
        let m = m_of(&database, site, kind, &constraints);
        group.bench_function(format!("site table, {kind} M={m}"), |b| {
            b.iter(|| table.at(black_box(m), black_box(&constraints)).kind);
        });
    }
    for kind in kinds {
        let problem = Problem::from(site.at(m_of(&database, site, kind, &constraints)));
        group.bench_function(format!("lookup, {kind}"), |b| {
            b.iter(|| database.lookup(black_box(&problem), black_box(&constraints)).kind);
        });
    }
    let unknown = Problem::from(Site { n: 77, ..site }.at(1));
    group.bench_function("lookup, unknown site", |b| {
        b.iter(|| database.lookup(black_box(&unknown), black_box(&constraints)).kind);
    });
    let mut at = 0;
    group.bench_function("lookup, 4096 problems in turn", |b| {
        b.iter(|| {
            at = (at + 1) % problems.len();
            database.lookup(black_box(&problems[at]), black_box(&constraints)).choice.is_some()
        });
    });
    let tally = Tally::default();
    group.bench_function("site table, exact, counted", |b| {
        let problem = Problem::from(gemm);
        b.iter(|| tally.count(&problem, table.at(black_box(gemm.m), black_box(&constraints))).kind);
    });
    let database = database.with_levels(Levels::ALL);
    group.bench_function("lookup, unknown site, predicted asked for", |b| {
        b.iter(|| database.lookup(black_box(&unknown), black_box(&constraints)).kind);
    });
    group.finish();
}

fn load(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let [theirs, ours] = ["aiter.csv", "tuned.csv"].map(|name| folder.path().join(name));
    std::fs::write(&theirs, aiter_text(ROWS)).expect("the scratch folder takes a file");
    tuned::write(&ours, &choices(ROWS)).expect("the scratch folder takes a file");
    let here = here();
    let mut group = c.benchmark_group("load");
    group.sample_size(20);
    let mut files = vec![("39,130 rows, AITER's CSV", theirs), ("39,130 rows, our CSV", ours)];
    #[cfg(feature = "sqlite")]
    files.push(("100,000 choices, SQLite", store(folder.path())));
    for (name, path) in files.drain(..) {
        let paths = [path];
        group.bench_function(name, |b| {
            b.iter_batched(|| (), |()| Database::open(&paths, &here), BatchSize::PerIteration);
        });
    }
    group.finish();
}

#[cfg(feature = "sqlite")]
fn store(folder: &Path) -> std::path::PathBuf {
    use tgemm_db::store::{RunInfo, Store};
    let path = folder.join("t.sqlite");
    let mut store = Store::open(&path).expect("a new store");
    let info = RunInfo { tool_version: "0".into(), command_line: String::new(), options: Default::default() };
    let run = store.begin_run(&info).expect("a run");
    let environment = store.environment(&here()).expect("an environment");
    let choices = choices(CHOICES);
    store.save_choices(run, environment, &Constraints::default(), &choices).expect("the store takes choices");
    store.close().expect("the store closes");
    path
}

criterion_group!(benches, lookup, load);
criterion_main!(benches);
