//! What a lookup and a start cost: every kind of answer on 100,000 choices beside a hash map with TunableOp's string key and a
//! Python dictionary with AITER's, in the same run; loading 39,130 rows of AITER's and of ours, and 100,000 from SQLite (with
//! the feature `sqlite`).
//!
//! `examples/speed` tells the same without criterion, and threads and instructions besides.

use std::collections::HashMap;
use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use table::{CHOICES, ROWS, aiter_text, choices, here, tunableop_key};
use tgemm_db::format::tuned;
use tgemm_db::{Choice, Constraints, Problem, Site};
use tgemm_lookup::{Database, HitKind, Levels, Tally};

// Each of them is used by the example in full.
#[allow(dead_code)]
#[path = "../examples/speed/clock.rs"]
mod clock;
#[allow(dead_code)]
#[path = "../examples/speed/peers.rs"]
mod peers;
#[allow(dead_code)]
#[path = "../examples/speed/table.rs"]
mod table;

/// The M nearest above `m` at which `database` answers `site` in this way.
fn m_of(database: &Database, site: Site, kind: HitKind, constraints: &Constraints) -> u32 {
    let found = (2..100_000).find(|&m| database.lookup(&site.at(m).into(), constraints).kind == kind);
    found.unwrap_or_else(|| panic!("no {kind} answer at {site}"))
}

fn lookup(c: &mut Criterion) {
    match peers::aiter() {
        Ok(lines) => println!("ns a call, median and least, timed inside Python:\n{lines}"),
        Err(error) => println!("no figures of a Python dictionary: {error}"),
    }
    let choices = choices(CHOICES).expect("the bench's own table");
    // A walk over all rows that jumps between sites, as the layers of a model do.
    let problems: Vec<Problem> = (0..4096).map(|i| choices[i * 7919 % choices.len()].problem).collect();
    let by_text: HashMap<String, Choice> =
        choices.iter().filter_map(|choice| Some((tunableop_key(choice.problem.gemm()?), choice.clone()))).collect();
    let mut levels = Levels::default();
    levels.scored = true;
    let database = Database::from_choices(choices, &here()).with_levels(levels);
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
    tuned::write(&ours, &choices(ROWS).expect("the bench's own table")).expect("the scratch folder takes a file");
    let here = here();
    let mut group = c.benchmark_group("load");
    group.sample_size(20);
    #[allow(unused_mut)] // Without SQLite these are all.
    let mut files = vec![("39,130 rows, AITER's CSV", theirs), ("39,130 rows, our CSV", ours)];
    #[cfg(feature = "sqlite")]
    {
        let store = folder.path().join("t.sqlite");
        table::write_store(&store).expect("a new store takes choices");
        files.push(("100,000 choices, SQLite", store));
    }
    for (name, path) in files {
        let paths = [path];
        group.bench_function(name, |b| {
            b.iter_batched(|| (), |()| Database::open(&paths, &here), BatchSize::PerIteration);
        });
    }
    group.finish();
}

criterion_group!(benches, lookup, load);
criterion_main!(benches);
