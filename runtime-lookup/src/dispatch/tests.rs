//! Dispatch over a library whose every fault can be chosen.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tgemm_db::choice::{Ratio, Verdict};
use tgemm_db::device::{Build, Device, Environment, Vendor};
use tgemm_db::{Choice, DType, Gemm, Numerics, Params, WeightForm};
use tgemm_kernels::{Arm, Ask, BaselineSolution, Effort, Launch, Library, Operands, Packed, PackedForm, Prepared};

use super::*;

/// What the solution with index 1 of a [`Toy`] does.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    Prepare,
    OtherName,
    Pack,
    NotEnqueued,
    MayHaveRun,
}

/// Counts what was asked of a library.
#[derive(Default)]
struct Calls {
    prepared: AtomicU32,
    packed: AtomicU32,
    launched: AtomicU32,
}

/// Index 0 is the plain baseline, which adds nothing; index 1 the prepacked choice, which adds 0.25 to every output, so
/// that a test sees which one ran.
struct Toy {
    build: Build,
    fault: Fault,
    calls: Arc<Calls>,
}

const MARK: f32 = 0.25;

fn solution(build: &Build, index: i64) -> Solution {
    Solution {
        build: build.clone().into(),
        index,
        name: format!("toy{index}").into(),
        params: Params::new(),
        weight_form: if index == 0 { WeightForm::Plain } else { WeightForm::Prepacked },
        workspace_bytes: 0,
        numerics: Numerics::Exact,
        deterministic: Some(true),
        graph_safe: Some(true),
    }
}

impl Library for Toy {
    fn build(&self) -> &Build {
        &self.build
    }
    fn baselines(&self, _: &Problem, _: &Ask) -> Vec<BaselineSolution> {
        vec![BaselineSolution { via: "toy".into(), solution: solution(&self.build, 0) }]
    }
    fn candidates(&self, _: &Problem, _: Effort, _: &Ask) -> Result<Vec<Solution>, Error> {
        Ok(vec![solution(&self.build, 0), solution(&self.build, 1)])
    }
    fn prepare(&self, problem: &Problem, wanted: &Solution) -> Result<Box<dyn Prepared>, Error> {
        let fault = if wanted.index == 1 { self.fault } else { Fault::None };
        if fault == Fault::Prepare {
            return Err(Error::unsupported("not on this day"));
        }
        self.calls.prepared.fetch_add(1, Ordering::Relaxed);
        let mut ran = solution(&self.build, wanted.index);
        if fault == Fault::OtherName {
            ran.name = "renamed".into();
        }
        Ok(Box::new(Ready { gemm: *problem.gemm().unwrap(), ran, fault, calls: Arc::clone(&self.calls) }))
    }
}

struct Ready {
    gemm: Gemm,
    ran: Solution,
    fault: Fault,
    calls: Arc<Calls>,
}

struct Copied(Vec<f32>);

impl PackedForm for Copied {
    fn as_ptr(&self) -> *const c_void {
        self.0.as_ptr().cast()
    }
    fn bytes(&self) -> usize {
        self.0.len() * 4
    }
    fn duplicate(&self) -> Option<Packed> {
        Some(Box::new(Copied(self.0.clone())))
    }
}

impl Prepared for Ready {
    fn ran(&self) -> &Solution {
        &self.ran
    }
    fn workspace_bytes(&self) -> usize {
        64
    }
    fn pack_key(&self) -> Option<&str> {
        (self.ran.index == 1).then_some("toy")
    }
    unsafe fn pack(&self, w: *const c_void) -> Result<Option<Packed>, Error> {
        if self.fault == Fault::Pack {
            return Err(Error::OutOfMemory { bytes: 1, what: "packing" });
        }
        self.calls.packed.fetch_add(1, Ordering::Relaxed);
        let elements = (self.gemm.site.n * self.gemm.site.k) as usize;
        // SAFETY: the caller's promise.
        let plain = unsafe { std::slice::from_raw_parts(w.cast::<f32>(), elements) };
        Ok(Some(Box::new(Copied(plain.to_vec()))))
    }
    unsafe fn launch(&self, io: &Operands, _: Stream) -> Result<(), Launch> {
        assert!(io.workspace_bytes >= 64 && !io.workspace.is_null());
        match self.fault {
            Fault::NotEnqueued => return Err(Launch::NotEnqueued(Error::unsupported("busy"))),
            Fault::MayHaveRun => return Err(Launch::MayHaveRun(Error::unsupported("lost"))),
            _ => {}
        }
        self.calls.launched.fetch_add(1, Ordering::Relaxed);
        let (m, n, k) = (self.gemm.m as usize, self.gemm.site.n as usize, self.gemm.site.k as usize);
        // SAFETY: the caller's promise.
        let (x, w, out) = unsafe {
            (
                std::slice::from_raw_parts(io.x.cast::<f32>(), m * k),
                std::slice::from_raw_parts(io.w.cast::<f32>(), n * k),
                std::slice::from_raw_parts_mut(io.out.cast::<f32>(), m * n),
            )
        };
        let mark = if self.ran.index == 1 { MARK } else { 0.0 };
        for (row, out) in out.chunks_mut(n).enumerate() {
            for (column, out) in out.iter_mut().enumerate() {
                let (x, w) = (&x[row * k..][..k], &w[column * k..][..k]);
                *out = mark + x.iter().zip(w).map(|(x, w)| x * w).sum::<f32>();
            }
        }
        Ok(())
    }
}

/// A device that is plain host memory.
struct Host {
    environment: Environment,
    libraries: Vec<Box<dyn Library>>,
}

impl Context for Host {
    fn environment(&self) -> &Environment {
        &self.environment
    }
    fn libraries(&self) -> &[Box<dyn Library>] {
        &self.libraries
    }
    fn alloc(&self, bytes: usize) -> Result<Buffer, Error> {
        let memory = Box::into_raw(vec![0u64; bytes.div_ceil(8)].into_boxed_slice());
        let words = bytes.div_ceil(8);
        let release = Box::new(move |ptr: *mut c_void, _| {
            let slice = std::ptr::slice_from_raw_parts_mut(ptr.cast::<u64>(), words);
            // SAFETY: the box made above, given back once.
            drop(unsafe { Box::from_raw(slice) });
        });
        // SAFETY: the memory is the buffer's until `release`.
        Ok(unsafe { Buffer::from_raw(memory.cast(), bytes, release) })
    }
    fn write(&self, _: &mut Buffer, _: usize, _: &[u8]) -> Result<(), Error> {
        Err(Error::unsupported("not needed here"))
    }
    fn read(&self, _: &Buffer, _: usize, _: &mut [u8]) -> Result<(), Error> {
        Err(Error::unsupported("not needed here"))
    }
    fn synchronize(&self) -> Result<(), Error> {
        Ok(())
    }
    fn available_bytes(&self) -> u64 {
        u64::MAX
    }
    unsafe fn time(&mut self, _: &[Arm<'_>]) -> Result<Vec<f64>, Error> {
        Err(Error::unsupported("not needed here"))
    }
}

fn build(revision: &str) -> Build {
    Build { library: "toy".into(), version: "1".into(), revision: revision.into() }
}

fn host(fault: Fault) -> (Host, Arc<Calls>) {
    let device = Device {
        vendor: Vendor::Cpu,
        arch: "toy".into(),
        compute_units: 1,
        memory_gib: None,
        chip_id: None,
        partition: None,
        last_level_cache_bytes: 0,
    };
    let environment = Environment { device, builds: vec![build("a")], driver: String::new(), vars: BTreeMap::new() };
    let calls = Arc::new(Calls::default());
    let toy = Toy { build: build("a"), fault, calls: Arc::clone(&calls) };
    (Host { environment, libraries: vec![Box::new(toy)] }, calls)
}

fn site() -> Site {
    Site::linear(3, 2, DType::F32)
}

fn choice(m: u32, host: &Host, solution: Solution) -> Choice {
    Choice {
        problem: site().at(m).into(),
        device: host.environment.device.clone().into(),
        solution,
        time_us: 1.0,
        ratio: Ratio { estimate: 0.5, low: 0.4, high: 0.6 },
        verdict: Verdict::Faster,
        baselines: vec![],
        error_over_bound: 0.0,
        err_ratio: 0.0,
        pack_us: None,
        count: 1,
        tuned_at: String::new(),
        origin: None,
    }
}

static W: [f32; 6] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];

/// Runs `plan` at `m` with all-ones activations; the outputs less the true product: 0 from the baseline, else the mark.
fn run(plan: &mut Plan<'_>, m: u32, w: &[f32; 6]) -> Result<f32, DispatchError> {
    let x = vec![1.0f32; 2 * m as usize];
    let mut out = vec![f32::NAN; 3 * m as usize];
    let io =
        Operands { x: x.as_ptr().cast(), w: w.as_ptr().cast(), out: out.as_mut_ptr().cast(), ..Operands::default() };
    // SAFETY: all arrays are as large as the site at `m` says and outlive the call.
    unsafe { plan.run(m, &io) }?;
    let off = out[0] - (w[0] + w[1]);
    let truth = |column: usize| w[2 * column] + w[2 * column + 1];
    assert!(out.iter().enumerate().all(|(i, out)| *out == truth(i % 3) + off), "{out:?}");
    Ok(off)
}

#[test]
fn a_hit_runs_the_choice_and_packs_once_for_all_m() {
    let (host, calls) = host(Fault::None);
    let chosen = solution(&build("a"), 1);
    let rows = [choice(1, &host, chosen.clone()), choice(4, &host, chosen)];
    let database = Database::from_choices(rows, &host.environment);
    let gemm = TunedGemm::new(&host, &database, DispatchOptions::default());
    let mut plan = gemm.plan(site());
    let mut other_layer = gemm.plan(site());
    for _ in 0..3 {
        assert_eq!(run(&mut plan, 1, &W), Ok(MARK));
        assert_eq!(run(&mut plan, 3, &W), Ok(MARK), "M = 3 borrows from M = 4");
        assert_eq!(run(&mut plan, 7, &W), Ok(0.0), "nothing is tuned for M = 7");
        assert_eq!(run(&mut other_layer, 1, &[9.0; 6]), Ok(MARK));
    }
    assert_eq!(calls.packed.load(Ordering::Relaxed), 2, "once a weight matrix");
    assert_eq!(calls.prepared.load(Ordering::Relaxed), 3, "once a problem, shared by layers; M = 1, 3 and 7");
    assert_eq!((plan.packed_bytes(), gemm.packed_bytes()), (24, 48));
    let applied = BTreeMap::from([(HitKind::Exact, 6), (HitKind::Padded, 3)]);
    assert_eq!(gemm.counters(), Counters { applied, missed: 3, fallen_back: BTreeMap::new() });
    let report: Vec<_> = gemm.report().iter().map(|line| (line.problem.m(), line.kind, line.tuned_m)).collect();
    assert_eq!(report, [(1, HitKind::Exact, Some(1)), (3, HitKind::Padded, Some(4)), (7, HitKind::Default, None)]);
    drop(other_layer);
    assert_eq!(gemm.packed_bytes(), 24);
}

#[test]
fn a_plan_is_not_used_with_other_weights_than_it_packed() {
    let (host, _) = host(Fault::None);
    let database = Database::from_choices([choice(1, &host, solution(&build("a"), 1))], &host.environment);
    let gemm = TunedGemm::new(&host, &database, DispatchOptions::default());
    let mut plan = gemm.plan(site());
    assert_eq!(run(&mut plan, 1, &W), Ok(MARK));
    let other = W;
    assert!(matches!(run(&mut plan, 1, &other), Err(DispatchError::OtherWeights { .. })));
}

#[test]
fn every_failure_before_a_launch_runs_the_baseline_and_is_remembered() {
    let cases = [
        (Fault::Prepare, "not_prepared"),
        (Fault::OtherName, "other_solution"),
        (Fault::Pack, "not_packed"),
        (Fault::NotEnqueued, "not_started"),
    ];
    for (fault, name) in cases {
        let (host, calls) = host(fault);
        let database = Database::from_choices([choice(1, &host, solution(&build("a"), 1))], &host.environment);
        let gemm = TunedGemm::new(&host, &database, DispatchOptions::default());
        let mut plan = gemm.plan(site());
        for _ in 0..5 {
            assert_eq!(run(&mut plan, 1, &W), Ok(0.0), "{name}");
        }
        assert_eq!(gemm.counters().fallen_back, BTreeMap::from([(name, 5)]));
        assert_eq!(calls.launched.load(Ordering::Relaxed), 5, "{name}");
        let line = &gemm.report()[0];
        assert_eq!(line.fallback.as_ref().map(Fallback::name), Some(name));
        assert_eq!(line.solution.as_ref().map(|solution| solution.index), Some(0));
    }
}

#[test]
fn a_launch_that_may_have_run_is_the_callers_to_know() {
    let (host, calls) = host(Fault::MayHaveRun);
    let database = Database::from_choices([choice(1, &host, solution(&build("a"), 1))], &host.environment);
    let gemm = TunedGemm::new(&host, &database, DispatchOptions::default());
    let mut plan = gemm.plan(site());
    assert!(matches!(run(&mut plan, 1, &W), Err(DispatchError::MayHaveRun { .. })));
    assert_eq!(calls.launched.load(Ordering::Relaxed), 0, "nothing runs after it");
}

#[test]
fn another_build_in_this_process_falls_back_even_where_the_table_was_admitted() {
    let (host, _) = host(Fault::None);
    let mut elsewhere = host.environment.clone();
    elsewhere.builds = vec![build("b")];
    let database = Database::from_choices([choice(1, &host, solution(&build("b"), 1))], &elsewhere);
    assert_eq!(database.len(), 1);
    let gemm = TunedGemm::new(&host, &database, DispatchOptions::default());
    let mut plan = gemm.plan(site());
    assert_eq!(run(&mut plan, 1, &W), Ok(0.0));
    assert_eq!(gemm.counters().fallen_back, BTreeMap::from([("build_differs", 1)]));
    assert_eq!(
        gemm.report()[0].fallback.as_ref().map(ToString::to_string).as_deref(),
        Some("toy revision was b when tuned, is a here")
    );
}

#[test]
fn constraints_hold_and_no_library_is_an_error_with_a_reason() {
    let (mut host, _) = host(Fault::None);
    let database = Database::from_choices([choice(1, &host, solution(&build("a"), 1))], &host.environment);
    let plain_only = Constraints { weight_forms: [WeightForm::Plain].into(), ..Constraints::default() };
    let options = DispatchOptions { constraints: plain_only, ..DispatchOptions::default() };
    let gemm = TunedGemm::new(&host, &database, options);
    assert_eq!(run(&mut gemm.plan(site()), 1, &W), Ok(0.0));
    assert_eq!(gemm.counters().missed, 1);

    host.libraries.clear();
    let gemm = TunedGemm::new(&host, &database, DispatchOptions::default());
    let error = run(&mut gemm.plan(site()), 1, &W).unwrap_err();
    assert!(matches!(error, DispatchError::NoBaseline { .. }));
    assert_eq!(gemm.report()[0].fallback, Some(Fallback::LibraryAbsent("toy".into())));
}

#[test]
fn warming_prepares_and_packs_without_running() {
    let (host, calls) = host(Fault::None);
    let database = Database::from_choices([choice(1, &host, solution(&build("a"), 1))], &host.environment);
    let gemm = TunedGemm::new(&host, &database, DispatchOptions::default());
    let mut plan = gemm.plan(site());
    // SAFETY: the weights are as the site says and outlive the plan.
    unsafe { plan.warm(1, W.as_ptr().cast()) }.unwrap();
    assert_eq!((calls.packed.load(Ordering::Relaxed), calls.launched.load(Ordering::Relaxed)), (1, 0));
    assert_eq!(plan.packed_bytes(), 24);
}
