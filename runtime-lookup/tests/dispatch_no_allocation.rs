//! A run of a plan that is warm allocates nothing. With `--release` and `--nocapture` it also says what one costs.
#![cfg(feature = "dispatch")]

mod counting;

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Instant;

use counting::allocations;
use tgemm_db::choice::Ratio;
use tgemm_db::{Build, Choice, DType, Device, Environment, Problem, Site, Solution, Vendor, Verdict};
use tgemm_kernels::{
    Ask, Backend, BaselineSolution, Buffer, Effort, Error, Launch, Library, Operands, Packed, Prepared, Stream,
};
use tgemm_lookup::Database;
use tgemm_lookup::dispatch::{DispatchOptions, TunedGemm};

/// A library whose products do nothing: what is left is dispatch.
struct Idle(Build);

struct Nothing(Solution);

struct Machine {
    environment: Environment,
    libraries: Vec<Box<dyn Library>>,
}

fn solution(index: i64) -> Solution {
    Solution { workspace_bytes: 4096, ..Solution::bare(Build::unknown("idle"), index, "idle") }
}

impl Library for Idle {
    fn build(&self) -> &Build {
        &self.0
    }
    fn baselines(&self, _: &Problem, _: &Ask) -> Vec<BaselineSolution> {
        vec![BaselineSolution { via: "idle".into(), solution: solution(0) }]
    }
    fn candidates(&self, _: &Problem, _: Effort, _: &Ask) -> Result<Vec<Solution>, Error> {
        Ok(vec![solution(0), solution(1)])
    }
    fn prepare(&self, _: &Problem, wanted: &Solution) -> Result<Box<dyn Prepared>, Error> {
        Ok(Box::new(Nothing(wanted.clone())))
    }
}

impl Prepared for Nothing {
    fn ran(&self) -> &Solution {
        &self.0
    }
    fn workspace_bytes(&self) -> usize {
        4096
    }
    fn pack_key(&self) -> Option<&str> {
        None
    }
    unsafe fn pack(&self, _: *const c_void) -> Result<Option<Packed>, Error> {
        Ok(None)
    }
    unsafe fn launch(&self, io: &Operands, _: Stream) -> Result<(), Launch> {
        std::hint::black_box(io);
        match io.workspace.is_null() {
            false => Ok(()),
            true => Err(Launch::NotEnqueued(Error::unsupported("no workspace"))),
        }
    }
}

impl Backend for Machine {
    fn environment(&self) -> &Environment {
        &self.environment
    }
    fn libraries(&self) -> &[Box<dyn Library>] {
        &self.libraries
    }
    fn alloc(&self, bytes: usize) -> Result<Buffer, Error> {
        let start = Box::leak(vec![0u64; bytes.div_ceil(8)].into_boxed_slice()).as_mut_ptr();
        // SAFETY: the memory is nobody else's, and never given back.
        Ok(unsafe { Buffer::from_raw(start.cast(), bytes, Box::new(|_, _| ())) })
    }
    fn synchronize(&self) -> Result<(), Error> {
        Ok(())
    }
}

fn machine() -> Machine {
    let device = Device::named(Vendor::Cpu, "idle", 1);
    let builds = vec![Build::unknown("idle")];
    let environment = Environment { device, builds, driver: String::new(), vars: BTreeMap::new() };
    Machine { environment, libraries: vec![Box::new(Idle(Build::unknown("idle")))] }
}

fn choice(m: u32, machine: &Machine) -> Choice {
    let problem = Site::linear(64, 32, DType::F32).at(m).into();
    let ratio = Ratio { estimate: 0.5, low: 0.4, high: 0.6 };
    let uncompared = Choice::uncompared(problem, machine.environment.device.clone(), solution(1), 1.0);
    Choice { ratio, verdict: Verdict::Faster, ..uncompared }
}

#[test]
fn a_warm_run_allocates_nothing_by_choice_or_baseline() {
    const RUNS: u32 = 200_000;
    let machine = machine();
    let database = Database::from_choices([1, 16].map(|m| choice(m, &machine)), &machine.environment);
    let gemm = TunedGemm::new(Arc::new(machine), Arc::new(database), DispatchOptions::default());
    let mut plan = gemm.plan(Site::linear(64, 32, DType::F32));
    let stream = Stream(std::ptr::without_provenance_mut(64));
    let (x, w, mut out) = ([0.0f32; 32], [0.0f32; 32], [0.0f32; 64]);
    let io =
        Operands { x: x.as_ptr().cast(), w: w.as_ptr().cast(), out: out.as_mut_ptr().cast(), ..Operands::default() };
    for m in [1, 16, 999] {
        // SAFETY: the weights are not looked at.
        unsafe { plan.warm(m, io.w, stream) }.unwrap();
    }
    for (name, ms) in [("hits", [1, 1]), ("hits at two M in turn", [1, 16]), ("baselines", [999, 999])] {
        let before = allocations();
        let started = Instant::now();
        for run in 0..RUNS {
            // SAFETY: no operand is looked at.
            unsafe { plan.run(ms[(run % 2) as usize], &io, stream) }.unwrap();
        }
        let ns = started.elapsed().as_secs_f64() * 1e9 / f64::from(RUNS);
        assert_eq!(allocations() - before, 0, "{name}");
        eprintln!("{name}: {ns:.1} ns a run");
    }
    let counters = gemm.counters();
    assert_eq!((counters.applied.values().sum::<u64>(), counters.missed), (2 * u64::from(RUNS), u64::from(RUNS)));
}
