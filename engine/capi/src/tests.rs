//! What C cannot see: that lookups allocate nothing, and that answers outlive reloads.

#[path = "../../../runtime-lookup/tests/counting/mod.rs"]
mod counting;

use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};

use tgemm_db::choice::Ratio;
use tgemm_db::format::tuned;
use tgemm_db::{Build, Choice, DType, Device, Numerics, Params, Site, Solution, Vendor, Verdict, WeightForm};

use crate::constraints::*;
use crate::database::*;
use crate::device::TgemmDevice;
use crate::lookup::*;
use crate::problem::TgemmProblem;
use crate::recorder::*;
use crate::status::{TgemmStatus, tgemm_last_error};
use crate::tally::{TgemmTally, tgemm_tally};
use crate::text::TgemmText;
use crate::versioned::zero;
use counting::allocations;

fn choice(n: u32, m: u32, threads: u32) -> Choice {
    let solution = Solution {
        build: Build::unknown("gemm").into(),
        index: -3,
        name: "gemm".into(),
        params: Params::new().with("threads", threads),
        weight_form: WeightForm::Plain,
        workspace_bytes: 8,
        numerics: Numerics::Exact,
        deterministic: None,
        graph_safe: Some(true),
    };
    let device = Device::named(Vendor::Cpu, "x86_64-v4", 2);
    let ratio = Ratio { estimate: 0.5, low: 0.4, high: 0.6 };
    let problem = Site::linear(n, 64, DType::F32).at(m).into();
    Choice { ratio, verdict: Verdict::Faster, ..Choice::uncompared(problem, device, solution, 1.5) }
}

fn write(path: &Path, threads: u32) {
    let rows = [(64, 4), (64, 16), (64, 40), (64, 512), (80, 8)].map(|(n, m)| choice(n, m, threads));
    tuned::write(path, &rows).unwrap();
}

struct Folder {
    _folder: tempfile::TempDir,
    table: PathBuf,
}

fn folder() -> Folder {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("tuned.csv");
    write(&table, 2);
    Folder { table, _folder: folder }
}

fn c(path: &Path) -> CString {
    CString::new(path.to_str().unwrap()).unwrap()
}

fn open(table: &Path, options: *const TgemmOptions) -> *mut TgemmDatabase {
    let path = c(table);
    let device = TgemmDevice {
        size: size_of::<TgemmDevice>(),
        arch: c"x86_64-v4".as_ptr(),
        vendor: 3,
        compute_units: 2,
        ..zero()
    };
    let mut database = null_mut();
    // SAFETY: all of it is there.
    let status = unsafe { tgemm_database_open(&path.as_ptr(), 1, &device, options, &mut database) };
    // SAFETY: never NULL.
    let error = unsafe { CStr::from_ptr(tgemm_last_error()) };
    assert_eq!(status, TgemmStatus::Ok, "{error:?}");
    database
}

fn problem(m: u32, n: u32) -> TgemmProblem {
    TgemmProblem { size: size_of::<TgemmProblem>(), m, n, k: 64, x: 2, ..zero() }
}

fn empty() -> TgemmHit {
    TgemmHit { size: size_of::<TgemmHit>(), ..zero() }
}

fn told(text: TgemmText) -> String {
    // SAFETY: a text of a database that is open.
    let bytes = unsafe { std::slice::from_raw_parts(text.data.cast::<u8>(), text.bytes) };
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn every_kind_of_answer_and_a_known_problem_allocate_nothing() {
    let folder = folder();
    let options = TgemmOptions { size: size_of::<TgemmOptions>(), levels: 15, misses_max: 8, ..zero() };
    let database = open(&folder.table, &options);
    let recorded = c(&folder.table.with_file_name("untuned.csv"));
    let (mut constraints, mut site, mut recorder) = (null_mut(), null_mut(), null_mut());
    let names = [c"gemm".as_ptr()];
    let limits = TgemmLimits { size: size_of::<TgemmLimits>(), libraries: names.as_ptr(), library_count: 1, ..zero() };
    // SAFETY: handles and structures are there until they are closed below.
    unsafe {
        assert_eq!(tgemm_constraints_open(&limits, &mut constraints), TgemmStatus::Ok);
        assert_eq!(tgemm_site_open(database, &problem(0, 64), &mut site), TgemmStatus::Ok);
        assert_eq!(tgemm_recorder_open(recorded.as_ptr(), &mut recorder), TgemmStatus::Ok);
        // The first sight of a problem writes a line.
        assert_eq!(tgemm_record(recorder, &problem(4, 64), null()), TgemmStatus::Ok);
        assert_eq!(tgemm_record(recorder, &problem(4, 64), null()), TgemmStatus::Ok);
        let mut hits = [empty(); 9];
        let before = allocations();
        let mut statuses = [TgemmStatus::Panic; 10];
        for (at, (m, n)) in [(4, 64), (9, 64), (33, 64), (8, 96), (8, 4096)].into_iter().enumerate() {
            statuses[at] = tgemm_lookup(database, &problem(m, n), constraints, &mut hits[at]);
        }
        for (at, m) in [4, 9, 33, 100_000].into_iter().enumerate() {
            statuses[at + 5] = tgemm_site_lookup(site, m, null(), &mut hits[at + 5]);
        }
        statuses[9] = tgemm_record(recorder, &problem(4, 64), null());
        let after = allocations();
        assert_eq!(statuses, [TgemmStatus::Ok; 10]);
        assert_eq!(hits.map(|hit| hit.kind), [1, 2, 3, 4, 0, 1, 2, 3, 0]);
        assert_eq!((hits[3].tuned_m, hits[3].tuned_n, hits[3].tuned_k), (8, 80, 64));
        assert_eq!(after - before, 0);
        assert!(before > 0, "the counter counts nothing");
        assert_eq!(told(hits[1].params), "threads=2");
        assert_eq!((hits[1].tuned_m, hits[1].index, hits[1].ratio, hits[1].graph_safe), (16, -3, 0.5, 2));
        let mut tally = TgemmTally { size: size_of::<TgemmTally>(), ..zero() };
        assert_eq!(tgemm_tally(database, &mut tally), TgemmStatus::Ok);
        let counts = [tally.exact, tally.padded, tally.interval, tally.predicted, tally.missed, tally.untold];
        assert_eq!(counts, [2, 2, 2, 1, 2, 0]);
        tgemm_recorder_close(recorder);
        tgemm_constraints_close(constraints);
        tgemm_site_close(site);
        tgemm_database_close(database);
    }
}

#[test]
fn answers_outlive_reloads_and_sites_follow_them() {
    let folder = folder();
    let database = open(&folder.table, null());
    let (mut site, mut changed) = (null_mut(), 7);
    // SAFETY: as above; answers are looked at while something holds their table.
    unsafe {
        assert_eq!(tgemm_site_open(database, &problem(0, 64), &mut site), TgemmStatus::Ok);
        let ask = |site| {
            let mut hit = empty();
            assert_eq!(tgemm_site_lookup(site, 4, null(), &mut hit), TgemmStatus::Ok);
            hit
        };
        let old = ask(site);
        for threads in [30, 400] {
            write(&folder.table, threads);
            assert_eq!(tgemm_database_reload(database, &mut changed), TgemmStatus::Ok);
            assert_eq!((changed, told(ask(site).params)), (1, format!("threads={threads}")));
            assert_eq!(told(old.params), "threads=2");
        }
        assert_eq!((*database).shared.generations(), [0, 1, 2]);
        assert_eq!(tgemm_database_trim(database), TgemmStatus::Ok);
        assert_eq!((*database).shared.generations(), [2]);
        // A site that was opened before the reloads still has no table but the current one to answer from.
        assert_eq!(told(ask(site).params), "threads=400");
        std::fs::remove_file(&folder.table).unwrap();
        assert_eq!(tgemm_database_reload(database, &mut changed), TgemmStatus::Io);
        assert_eq!((changed, told(ask(site).params)), (0, "threads=400".into()));
        tgemm_database_close(database);
        assert_eq!(told(ask(site).params), "threads=400");
        tgemm_site_close(site);
    }
}

#[test]
fn threads_ask_while_another_reloads() {
    let folder = folder();
    let database = open(&folder.table, null()).expose_provenance();
    let shared = |address: usize| std::ptr::with_exposed_provenance_mut::<TgemmDatabase>(address);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..3000 {
                    let mut hit = empty();
                    // SAFETY: closed only after the threads are done.
                    let status = unsafe { tgemm_lookup(shared(database), &problem(4, 64), null(), &mut hit) };
                    assert_eq!((status, hit.kind), (TgemmStatus::Ok, 1));
                    assert!(told(hit.params).starts_with("threads="), "a text of a table that is gone");
                }
            });
        }
        for threads in 0..20 {
            write(&folder.table, threads);
            // SAFETY: as above.
            assert_eq!(unsafe { tgemm_database_reload(shared(database), null_mut()) }, TgemmStatus::Ok);
        }
    });
    // SAFETY: nobody uses it any more.
    unsafe { tgemm_database_close(shared(database)) };
}
