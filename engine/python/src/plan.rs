//! Products of one layer by their tuned choices, from addresses: what `tgemm.mm` stands on.
//!
//! A plan runs a choice or nothing. Where there is none, or it is in the way of something, the caller is told so and runs
//! what it would have run: torch's own product. Weights are taken plain, as they lie at the very call: a packed copy would
//! go stale when a weight is written to, or when its memory becomes another weight's.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use tgemm_db::problem::{Alignment, Gemm, Site};
use tgemm_db::{Constraints, DType, Problem as Words, Via, WeightForm};
use tgemm_kernels::cpu::CpuContext;
use tgemm_kernels::gpu::attach::Attached;
use tgemm_kernels::{Backend, Launch, Operands, Prepared, Stream};
use tgemm_lookup::dispatch;
use tgemm_recorder::Recorder;
use tgemm_vendor::gpu::Dialect;

use crate::database::{Database, Shared};
use crate::errors::{DeviceError, LaunchError, ProblemError};
use crate::problem::Problem;

/// The most (M, alignment) that a plan keeps ready; further ones run as if nothing were tuned.
const READY_MAX: usize = 1 << 14;

/// What [`Plan::run`] says where it is done.
const DONE: i64 = 0;
/// What it says where the caller is to run its own product: nothing was enqueued.
const NOT_HERE: i64 = -1;

/// What became of the calls of all plans of a database.
#[derive(Default)]
pub(crate) struct Counters {
    /// A choice ran.
    applied: AtomicU64,
    /// Nothing was tuned that may run.
    not_tuned: AtomicU64,
    /// The choice is what the baseline runs.
    left_as_is: AtomicU64,
    /// The choice's library refused it, when it was made ready or launched.
    refused: AtomicU64,
    /// A choice was not ready when its stream was captured.
    under_capture: AtomicU64,
}

impl Counters {
    pub(crate) fn told(&self) -> HashMap<&'static str, u64> {
        let all = [
            ("applied", &self.applied),
            ("not_tuned", &self.not_tuned),
            ("left_as_is", &self.left_as_is),
            ("refused", &self.refused),
            ("under_capture", &self.under_capture),
        ];
        all.into_iter().map(|(name, count)| (name, count.load(Ordering::Relaxed))).collect()
    }
}

/// One (M, alignment) of a plan.
enum Ready {
    Choice { prepared: Box<dyn Prepared>, gave_up: AtomicBool },
    NotTuned,
    LeftAsIs,
    Refused,
}

/// Products of one layer on one device.
#[pyclass(frozen, module = "tgemm")]
pub(crate) struct Plan {
    shared: Arc<Shared>,
    backend: Arc<dyn Backend>,
    gemm: Gemm,
    allowed: Constraints,
    /// Row lengths in bytes: part of the alignment.
    row_bytes: u64,
    ready: Mutex<Known>,
}

/// What is ready, of one state of the database.
#[derive(Default)]
struct Known {
    generation: u64,
    entries: HashMap<(u32, Alignment), Arc<Ready>>,
}

/// The devices that plans run on, each opened once in a process.
type Backends = HashMap<(Option<Dialect>, u32), Arc<dyn Backend>>;

static BACKENDS: Mutex<Option<Backends>> = Mutex::new(None);

/// The device that torch calls `kind` and `ordinal`.
fn backend(kind: &str, ordinal: u32) -> PyResult<Arc<dyn Backend>> {
    let dialect = Dialect::ALL.into_iter().find(|dialect| dialect.name() == kind);
    if dialect.is_none() && kind != "cpu" {
        return Err(DeviceError::new_err(format!("no products run on '{kind}' (known: cpu, cuda, hip)")));
    }
    let mut all = BACKENDS.lock().unwrap_or_else(PoisonError::into_inner);
    let all = all.get_or_insert_default();
    if let Some(opened) = all.get(&(dialect, ordinal)) {
        return Ok(Arc::clone(opened));
    }
    let opened: Arc<dyn Backend> = match dialect {
        None => Arc::new(CpuContext::open()),
        Some(dialect) => {
            let attached = Attached::to_device(dialect, ordinal);
            Arc::new(attached.map_err(|error| DeviceError::new_err(error.to_string()))?)
        }
    };
    all.insert((dialect, ordinal), Arc::clone(&opened));
    Ok(opened)
}

/// Bytes from row to row of a matrix, and of the outputs: what alignment depends on besides addresses.
fn row_bytes(gemm: &Gemm) -> u64 {
    let row = |dtype: DType, elements: u32| dtype.bytes(elements.into());
    let site = &gemm.site;
    row(site.x, site.ldx(gemm.m)) | row(site.w, site.ldw()) | row(site.out, site.ldo())
}

#[pymethods]
impl Plan {
    /// The plan of a layer, described by `problem` at any M and aligned to 16 bytes, on torch's device `kind`:`ordinal`.
    #[new]
    fn new(py: Python<'_>, database: &Database, problem: &Problem, kind: &str, ordinal: u32) -> PyResult<Plan> {
        let gemm = *problem.words.gemm().ok_or_else(|| ProblemError::new_err("only GEMMs run here"))?;
        let backend = py.detach(|| backend(kind, ordinal))?;
        let shared = Arc::clone(&database.shared);
        let opened_for = &shared.device.environment.device;
        if let Some(difference) = opened_for.difference(&backend.environment().device) {
            let field = &difference.field;
            let text = format!(
                "the database was opened for {opened_for}, and the tensors are on {}",
                backend.environment().device
            );
            return Err(DeviceError::new_err(format!("{text}: another {field}")));
        }
        let allowed = Constraints { weight_forms: [WeightForm::Plain].into(), ..shared.allowed.words.clone() };
        Ok(Plan { row_bytes: row_bytes(&gemm), shared, backend, gemm, allowed, ready: Mutex::default() })
    }

    /// Enqueues the product at `m` tokens on `stream`: 0 if it is enqueued (on a CPU: computed), -1 if nothing was and the
    /// caller is to run its own, else how many bytes of workspace it takes to be called again with.
    ///
    /// Addresses are of what the problem says, 0 for what it has not; all is the caller's promise, as with any launch.
    #[allow(clippy::too_many_arguments, reason = "one call of Python's, and it is to cost little")]
    fn run(
        &self,
        py: Python<'_>,
        m: u64,
        x: usize,
        w: usize,
        bias: usize,
        x_scale: usize,
        w_scale: usize,
        out: usize,
        stream: usize,
        workspace: usize,
        workspace_bytes: usize,
    ) -> PyResult<i64> {
        let Ok(m) = u32::try_from(m) else { return Ok(NOT_HERE) };
        if m == 0 || x == 0 || w == 0 || out == 0 {
            return Ok(NOT_HERE);
        }
        let counters = &self.shared.counters;
        let stream = Stream(std::ptr::without_provenance_mut::<c_void>(stream));
        let align = Alignment::of([x as u64, w as u64, bias as u64, out as u64, self.row_bytes]);
        // A second call, with workspace, is the same product.
        if workspace_bytes == 0
            && let Some(recorder) = Recorder::global()
        {
            recorder.record(&self.at(m, align).into(), Via::Unknown, self.backend.is_capturing(stream));
        }
        let Some(ready) = self.ready(py, m, align, stream) else {
            counters.under_capture.fetch_add(1, Ordering::Relaxed);
            return Ok(NOT_HERE);
        };
        let missed = |counter: &AtomicU64| {
            counter.fetch_add(1, Ordering::Relaxed);
            Ok(NOT_HERE)
        };
        let (prepared, gave_up) = match &*ready {
            Ready::Choice { prepared, gave_up } if !gave_up.load(Ordering::Relaxed) => (prepared, gave_up),
            Ready::Choice { .. } | Ready::Refused => return missed(&counters.refused),
            Ready::NotTuned => return missed(&counters.not_tuned),
            Ready::LeftAsIs => return missed(&counters.left_as_is),
        };
        let needed = prepared.workspace_bytes();
        if needed > workspace_bytes {
            return Ok(i64::try_from(needed).unwrap_or(NOT_HERE));
        }
        let at = std::ptr::with_exposed_provenance::<c_void>;
        let io = Operands {
            x: at(x),
            w: at(w),
            bias: at(bias),
            x_scale: at(x_scale),
            w_scale: at(w_scale),
            out: std::ptr::with_exposed_provenance_mut(out),
            workspace: std::ptr::with_exposed_provenance_mut(workspace),
            workspace_bytes,
            ..Operands::default()
        };
        let io = Unshared { io, stream };
        // SAFETY: the caller's promise; the workspace is as large as asked for, and the choice takes plain weights.
        match py.detach(|| unsafe { io.launch(&**prepared) }) {
            Ok(()) => {
                counters.applied.fetch_add(1, Ordering::Relaxed);
                Ok(DONE)
            }
            Err(Launch::NotEnqueued(_)) => {
                gave_up.store(true, Ordering::Relaxed);
                missed(&counters.refused)
            }
            Err(Launch::MayHaveRun(error)) => {
                let problem: Words = Gemm { m, ..self.gemm }.into();
                Err(LaunchError::new_err(format!("{problem} may have run in part: {error}")))
            }
        }
    }

    #[getter]
    fn problem(&self) -> Problem {
        Words::from(self.gemm).into()
    }
}

/// A launch that goes through a closure which has to be `Send`, and stays on its thread.
struct Unshared {
    io: Operands,
    stream: Stream,
}

// SAFETY: addresses and a handle; the closure that takes them runs on the thread that made them.
unsafe impl Send for Unshared {}
// SAFETY: as above.
unsafe impl Sync for Unshared {}

impl Unshared {
    /// # Safety
    /// As [`Prepared::launch`].
    unsafe fn launch(&self, prepared: &dyn Prepared) -> Result<(), Launch> {
        // SAFETY: the contract of this function.
        unsafe { prepared.launch(&self.io, self.stream) }
    }
}

impl Plan {
    fn at(&self, m: u32, align: Alignment) -> Gemm {
        Gemm { m, site: Site { align, ..self.gemm.site } }
    }

    /// What is ready at `m`, made where it may be: nothing is while the stream is captured, as that allocates.
    fn ready(&self, py: Python<'_>, m: u32, align: Alignment, stream: Stream) -> Option<Arc<Ready>> {
        let generation = self.shared.generation.load(Ordering::Acquire);
        let known = || self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let known = known();
            if known.generation == generation
                && let Some(ready) = known.entries.get(&(m, align))
            {
                return Some(Arc::clone(ready));
            }
        }
        let stream = stream.0.expose_provenance();
        py.detach(|| {
            let stream = Stream(std::ptr::with_exposed_provenance_mut(stream));
            if self.backend.is_capturing(stream) {
                return None;
            }
            let ready = Arc::new(self.made(m, align));
            let mut known = known();
            if known.generation != generation {
                *known = Known { generation, ..Known::default() };
            }
            if known.entries.len() < READY_MAX {
                known.entries.insert((m, align), Arc::clone(&ready));
            }
            Some(ready)
        })
    }

    fn made(&self, m: u32, align: Alignment) -> Ready {
        let gemm = self.at(m, align);
        if gemm.validate().is_err() {
            return Ready::NotTuned;
        }
        let problem = gemm.into();
        let table = self.shared.live.snapshot();
        let Some(choice) = table.lookup(&problem, &self.allowed).choice else { return Ready::NotTuned };
        if choice.is_baseline() {
            return Ready::LeftAsIs;
        }
        // The same call may be captured later, and what is captured must be what was checked.
        if choice.solution.graph_safe == Some(false) {
            return Ready::NotTuned;
        }
        match dispatch::prepare(self.backend.libraries(), &problem, &choice.solution) {
            // What wants another form than it says cannot have it here.
            Ok(prepared) if prepared.pack_key().is_none() => {
                Ready::Choice { prepared, gave_up: AtomicBool::new(false) }
            }
            _ => Ready::Refused,
        }
    }
}
