//! The paths that an engine pays for on every call or at every start. `cargo bench -p tgemm-tests`.
//!
//! The peers' figures stand beside ours in the same run: a hash map with a formatted string key is what TunableOp looks
//! up, and the other figures (AITER's dictionary, its recorder) are quoted in `docs/results/cpu.md`.

use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use tgemm_db::choice::Choice;
use tgemm_db::device::{Build, Device, Environment, Vendor};
use tgemm_db::{Constraints, DType, Gemm, Problem, Site, Solution, Via};
use tgemm_lookup::{Database, HitKind};
use tgemm_recorder::{Recorder, RecorderOptions};

fn here() -> Environment {
    let device = Device {
        vendor: Vendor::Amd,
        arch: "gfx942".into(),
        compute_units: 304,
        memory_gib: None,
        chip_id: None,
        partition: None,
        last_level_cache_bytes: 0,
    };
    Environment { device, builds: Vec::new(), driver: String::new(), vars: BTreeMap::new() }
}

/// `count` problems over 400 sites: sizes as models have them, M as a capture list has them.
fn problems(count: usize) -> Vec<Gemm> {
    let per_site = count.div_ceil(400);
    (0..count)
        .map(|i| {
            let (site, m) = (i / per_site, i % per_site);
            let n = 256 * (1 + (site % 20) as u32);
            let k = 512 * (1 + (site / 20) as u32);
            Site::linear(n, k, DType::Bf16).at(1 + m as u32)
        })
        .collect()
}

fn choice(gemm: Gemm, device: &Device) -> Choice {
    let solution = Solution::bare(
        Build::unknown("hipblaslt"),
        i64::from(gemm.m) * 31 + i64::from(gemm.site.n),
        "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x64",
    );
    Choice::uncompared(gemm.into(), device.clone(), solution, 10.0)
}

/// A fixed order that jumps about, so that no table row is the neighbour of the one before.
fn scattered(problems: &[Gemm]) -> Vec<Problem> {
    let n = problems.len();
    (0..n).map(|i| problems[(i * 7919) % n].into()).collect()
}

fn lookup(c: &mut Criterion) {
    let here = here();
    let all = problems(40_000);
    let database = Database::from_choices(all.iter().map(|&g| choice(g, &here.device)), &here);
    assert_eq!(database.len(), 40_000);
    let constraints = Constraints::default();
    let order = scattered(&all);
    let hot = &order[..256];
    let mut group = c.benchmark_group("lookup");
    for (name, list) in [("exact, 256 hot problems of 40,000", hot), ("exact, all 40,000 at random", &order[..])] {
        group.throughput(Throughput::Elements(list.len() as u64));
        group.bench_function(name, |b| {
            b.iter(|| {
                list.iter().filter(|p| database.lookup(black_box(p), &constraints).kind == HitKind::Exact).count()
            });
        });
    }
    let tables: Vec<_> = hot.iter().map(|p| (database.site(&p.gemm().unwrap().site), p.gemm().unwrap().m)).collect();
    group.throughput(Throughput::Elements(tables.len() as u64));
    group.bench_function("exact, site resolved once", |b| {
        b.iter(|| tables.iter().filter(|(t, m)| t.at(black_box(*m), &constraints).kind == HitKind::Exact).count());
    });
    let missing: Vec<Problem> =
        hot.iter().map(|p| Site { n: p.gemm().unwrap().site.n + 1, ..p.gemm().unwrap().site }.at(1).into()).collect();
    group.bench_function("miss", |b| {
        b.iter(|| {
            missing.iter().filter(|p| database.lookup(black_box(p), &constraints).kind == HitKind::Default).count()
        });
    });
    // TunableOp's way: three strings a call (operation, parameters, then the found solution), one string-keyed map.
    let key = |p: &Problem| {
        let Gemm { m, site } = p.gemm().unwrap();
        format!("tn_{}_{}_{}_ld_{}_{}_{}", site.n, m, site.k, site.k, site.k, site.n)
    };
    let strings: HashMap<String, i64> = all.iter().map(|&g| (key(&g.into()), i64::from(g.m))).collect();
    group.throughput(Throughput::Elements(hot.len() as u64));
    group.bench_function("peer: string-keyed map, key formatted a call", |b| {
        b.iter(|| hot.iter().filter_map(|p| strings.get(&key(black_box(p)))).count());
    });
    group.finish();
}

fn recorder(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let recorder = Recorder::open(RecorderOptions::to(folder.path()));
    let all: Vec<Problem> = problems(400).into_iter().map(Into::into).collect();
    for problem in &all {
        recorder.record(problem, Via::Dispatch, false);
    }
    let mut group = c.benchmark_group("recorder");
    group.throughput(Throughput::Elements(all.len() as u64));
    group.bench_function("seen problem, 400 in turn", |b| {
        b.iter(|| all.iter().for_each(|p| recorder.record(black_box(p), Via::Dispatch, false)));
    });
    group.finish();
}

/// `rows` rows of AITER's published block-scaled tables, over again where they end; none where the tables are not there.
fn published(rows: usize) -> Option<String> {
    const TABLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data/aiter/aiter/configs");
    let folders = [TABLES.to_owned(), format!("{TABLES}/model_configs")];
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten());
    let mut paths: Vec<_> = files.map(|file| file.path()).collect();
    paths.retain(|path| path.to_string_lossy().contains("a8w8_blockscale_tuned_gemm"));
    paths.sort();
    let texts: Vec<String> = paths.iter().filter_map(|path| std::fs::read_to_string(path).ok()).collect();
    let header = texts.first()?.lines().next()?;
    let all = texts.iter().filter(|text| text.starts_with(header)).flat_map(|text| text.lines().skip(1));
    let all: Vec<&str> = all.filter(|line| !line.trim().is_empty()).collect();
    let taken = all.iter().cycle().take(rows).map(|line| format!("{line}\n"));
    Some(std::iter::once(format!("{header}\n")).chain(taken).collect())
}

fn load(c: &mut Criterion) {
    let here = here();
    let folder = tempfile::tempdir().expect("a scratch folder");
    let choices: Vec<Choice> = problems(39_130).iter().map(|&g| choice(g, &here.device)).collect();
    let mut group = c.benchmark_group("load");
    group.sample_size(20);
    group.throughput(Throughput::Elements(choices.len() as u64));
    let aiter = folder.path().join("aiter.csv");
    tgemm_db::format::aiter::write(&aiter, &choices).expect("written");
    group.bench_function("39,130 AITER rows", |b| {
        b.iter_batched(
            || [aiter.clone()],
            |paths| assert_eq!(Database::open(&paths, &here).0.len(), 39_130),
            BatchSize::PerIteration,
        );
    });
    if let Some(text) = published(39_130) {
        let real = folder.path().join("a8w8_blockscale_tuned_gemm.csv");
        std::fs::write(&real, text).expect("written");
        let (database, _) = Database::open(std::slice::from_ref(&real), &here);
        assert_eq!(database.len() + database.refused(), 39_130);
        println!("{} rows serve, {} are of other devices", database.len(), database.refused());
        group.bench_function("39,130 published AITER rows", |b| {
            b.iter_batched(|| [real.clone()], |paths| Database::open(&paths, &here), BatchSize::PerIteration);
        });
    }
    let native = folder.path().join("tuned.csv");
    tgemm_db::format::tuned::write(&native, &choices).expect("written");
    group.bench_function("39,130 rows of our tuned CSV", |b| {
        b.iter_batched(
            || [native.clone()],
            |paths| assert_eq!(Database::open(&paths, &here).0.len(), 39_130),
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, lookup, recorder, load);
criterion_main!(benches);
