//! A library whose every fault can be chosen, on a device that is host memory, for tests of dispatch.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use tgemm_db::choice::{Ratio, Verdict};
use tgemm_db::device::{Build, Device, Environment, Vendor};
use tgemm_db::{Choice, DType, Gemm, Numerics, Params, Problem, Site, Solution, WeightForm};
use tgemm_kernels::{
    Ask, Backend, BaselineSolution, Buffer, Effort, Error, Launch, Library, Operands, Packed, PackedForm, Prepared,
    Queue, Stream,
};

use crate::Database;
use crate::dispatch::{DispatchError, DispatchOptions, Plan, TunedGemm};

/// What the solution with index 1 of a [`Toy`] does.
#[derive(Clone, Copy, PartialEq)]
pub enum Fault {
    None,
    Prepare,
    OtherName,
    Pack,
    NotEnqueued,
    MayHaveRun,
}

/// Counts what was asked of a library.
#[derive(Default)]
pub struct Calls {
    pub prepared: AtomicU32,
    pub packed: AtomicU32,
    pub launched: AtomicU32,
    /// The workspace of each launch.
    pub scratch: Mutex<Vec<usize>>,
}

/// Index 0 is the plain baseline, which adds nothing; index 1 the prepacked choice, which adds 0.25 to every output, so
/// that a test sees which one ran.
pub struct Toy {
    build: Build,
    fault: Fault,
    calls: Arc<Calls>,
}

pub const MARK: f32 = 0.25;

pub fn solution(build: &Build, index: i64) -> Solution {
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
        64 * self.gemm.m as usize
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
        assert!(io.workspace_bytes >= self.workspace_bytes() && !io.workspace.is_null());
        self.calls.scratch.lock().unwrap().push(io.workspace.addr());
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
pub struct Host {
    pub environment: Environment,
    pub libraries: Vec<Box<dyn Library>>,
    /// Are its streams being captured?
    pub is_captured: AtomicBool,
    pub allocated: AtomicU32,
    /// Does every thread have a queue of its own behind the default stream?
    pub by_thread: bool,
}

impl Backend for Host {
    fn environment(&self) -> &Environment {
        &self.environment
    }
    fn libraries(&self) -> &[Box<dyn Library>] {
        &self.libraries
    }
    fn alloc(&self, bytes: usize) -> Result<Buffer, Error> {
        assert!(!self.is_captured.load(Ordering::Relaxed), "nothing is allocated under a capture");
        self.allocated.fetch_add(1, Ordering::Relaxed);
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
    fn synchronize(&self) -> Result<(), Error> {
        Ok(())
    }
    fn queue(&self, stream: Stream) -> Queue {
        if self.by_thread { Queue::of_this_thread() } else { Queue::of(stream) }
    }
    fn is_capturing(&self, _: Stream) -> bool {
        self.is_captured.load(Ordering::Relaxed)
    }
}

pub fn build(revision: &str) -> Build {
    Build { library: "toy".into(), version: "1".into(), revision: revision.into() }
}

/// A device with one library that has `fault`.
pub fn host(fault: Fault) -> (Arc<Host>, Arc<Calls>) {
    let (host, calls) = host_with(fault);
    (Arc::new(host), calls)
}

/// The same, to be changed yet.
pub fn host_with(fault: Fault) -> (Host, Arc<Calls>) {
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
    let (is_captured, allocated) = Default::default();
    (Host { environment, libraries: vec![Box::new(toy)], is_captured, allocated, by_thread: false }, calls)
}

pub fn site() -> Site {
    Site::linear(3, 2, DType::F32)
}

pub fn choice(m: u32, host: &Host, solution: Solution) -> Choice {
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

pub static W: [f32; 6] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];

/// What `database` chose, on `host`.
pub fn tuned(host: &Arc<Host>, database: Database) -> TunedGemm {
    TunedGemm::new(Arc::clone(host) as Arc<dyn Backend>, Arc::new(database), DispatchOptions::default())
}

/// Runs `plan` at `m` with all-ones activations; the outputs less the true product: 0 from the baseline, else the mark.
pub fn run(plan: &mut Plan, m: u32, w: &[f32; 6]) -> Result<f32, DispatchError> {
    run_on(plan, m, w, Stream::DEFAULT)
}

/// The same into `stream`.
pub fn run_on(plan: &mut Plan, m: u32, w: &[f32; 6], stream: Stream) -> Result<f32, DispatchError> {
    let x = vec![1.0f32; 2 * m as usize];
    let mut out = vec![f32::NAN; 3 * m as usize];
    let io =
        Operands { x: x.as_ptr().cast(), w: w.as_ptr().cast(), out: out.as_mut_ptr().cast(), ..Operands::default() };
    // SAFETY: all arrays are as large as the site at `m` says and outlive the call.
    unsafe { plan.run(m, &io, stream) }?;
    let off = out[0] - (w[0] + w[1]);
    let truth = |column: usize| w[2 * column] + w[2 * column + 1];
    assert!(out.iter().enumerate().all(|(i, out)| *out == truth(i % 3) + off), "{out:?}");
    Ok(off)
}
