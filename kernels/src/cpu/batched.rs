//! A library of single products made to take strided batches: one launch an item, one after the other, as engines on it do.
//!
//! One adapter over any [`Library`]: solutions keep their library, index and name, and carry the parameter `batch=each`.
//! Weights are packed item by item, once if all items share them.

use std::ffi::c_void;

use tgemm_db::problem::Batch;
use tgemm_db::{Build, Gemm, Params, Problem, Site, Solution};

use crate::{Ask, BaselineSolution, Effort, Error, Launch, Library, Operands, Packed, PackedForm, Prepared, Stream};

const BATCH: &str = "batch";
const EACH: &str = "each";

/// A library that also takes strided batches, item by item.
pub struct Batched {
    inner: Box<dyn Library>,
    is_baseline: bool,
}

impl Batched {
    /// Adds to `inner` the batches whose items it can take.
    pub fn new(inner: Box<dyn Library>) -> Batched {
        Batched { inner, is_baseline: false }
    }

    /// The same, where engines on `inner` compute batches so: its baselines, item by item, are then baselines of the batch.
    pub fn as_engines_do(inner: Box<dyn Library>) -> Batched {
        Batched { inner, is_baseline: true }
    }
}

/// From one item's matrices to the next one's, bytes.
#[derive(Clone, Copy, Debug)]
struct Strides {
    x: usize,
    w: usize,
    out: usize,
}

/// A batch as its items.
struct Items {
    count: usize,
    strides: Strides,
    item: Problem,
}

/// The items of a batch; `None` for what is none.
fn items(problem: &Problem) -> Option<Result<Items, Error>> {
    let gemm = problem.gemm().filter(|gemm| gemm.site.batch.count > 1)?;
    Some(items_of(gemm))
}

fn items_of(gemm: &Gemm) -> Result<Items, Error> {
    let Gemm { m, site } = gemm;
    let Batch { count, stride_x, stride_w, stride_out } = site.batch;
    if stride_out < u64::from(*m) * u64::from(site.n) {
        return Err(Error::unsupported("outputs of a batch overlap or lie within each other's rows"));
    }
    let bytes = |name: &str, dtype: tgemm_db::DType, stride: u64| {
        let bytes = stride.checked_mul(dtype.bits().div_ceil(8).into());
        let reach = bytes.and_then(|bytes| bytes.checked_mul(count.into())).filter(|&bytes| bytes <= isize::MAX as u64);
        match (bytes, reach) {
            (Some(bytes), Some(_)) => Ok(bytes as usize),
            _ => Err(Error::unsupported(format!("a batch of {name} does not fit the address space"))),
        }
    };
    let strides = Strides {
        x: bytes("x", site.x, stride_x)?,
        w: bytes("w", site.w, stride_w)?,
        out: bytes("outputs", site.out, stride_out)?,
    };
    let item = Site { batch: Batch::default(), ..*site }.at(*m).into();
    Ok(Items { count: count as usize, strides, item })
}

/// Names an item's solution as one of the batch.
fn outward(inner: Solution) -> Solution {
    Solution { params: inner.params.clone().with(BATCH, EACH), ..inner }
}

/// The item's solution that [`outward`] named.
fn inward(solution: &Solution) -> Result<Solution, Error> {
    if solution.params.get(BATCH) != Some(EACH) {
        return Err(Error::unsupported(format!("'{}' computes no batches", solution.key())));
    }
    let params = solution.params.iter().filter(|(name, _)| *name != BATCH);
    let params = params.fold(Params::new(), |params, (name, value)| params.with(name, value));
    Ok(Solution { params, ..solution.clone() })
}

impl Library for Batched {
    fn build(&self) -> &Build {
        self.inner.build()
    }

    fn baselines(&self, problem: &Problem, ask: &Ask) -> Vec<BaselineSolution> {
        match items(problem) {
            None => self.inner.baselines(problem, ask),
            Some(Ok(items)) if self.is_baseline => {
                let baselines = self.inner.baselines(&items.item, ask).into_iter();
                let each = |BaselineSolution { via, solution }| BaselineSolution { via, solution: outward(solution) };
                baselines.map(each).collect()
            }
            Some(_) => Vec::new(),
        }
    }

    fn candidates(&self, problem: &Problem, effort: Effort, ask: &Ask) -> Result<Vec<Solution>, Error> {
        match items(problem) {
            None => self.inner.candidates(problem, effort, ask),
            // A batch that cannot be taken apart is no failure of the library.
            Some(Err(_)) => Ok(Vec::new()),
            Some(Ok(items)) => Ok(self.inner.candidates(&items.item, effort, ask)?.into_iter().map(outward).collect()),
        }
    }

    fn neighbours(&self, problem: &Problem, solution: &Solution, ask: &Ask) -> Result<Vec<Solution>, Error> {
        match items(problem) {
            None => self.inner.neighbours(problem, solution, ask),
            Some(items) => {
                let near = self.inner.neighbours(&items?.item, &inward(solution)?, ask)?;
                Ok(near.into_iter().map(outward).collect())
            }
        }
    }

    fn prepare(&self, problem: &Problem, solution: &Solution) -> Result<Box<dyn Prepared>, Error> {
        let Some(items) = items(problem) else { return self.inner.prepare(problem, solution) };
        let Items { count, strides, item } = items?;
        let inner = self.inner.prepare(&item, &inward(solution)?)?;
        let ran = outward(inner.ran().clone());
        let matrices = if strides.w == 0 { 1 } else { count };
        let pack_key = inner.pack_key().map(|key| format!("{matrices} at {} of {key}", strides.w));
        Ok(Box::new(Ready { inner, ran, count, matrices, strides, pack_key }))
    }
}

/// An item's solution made ready for all items.
struct Ready {
    inner: Box<dyn Prepared>,
    ran: Solution,
    count: usize,
    /// How many matrices of weights there are.
    matrices: usize,
    strides: Strides,
    pack_key: Option<String>,
}

impl Ready {
    /// The operands of item `at`; `packed` has the places of its packed weights, if they are packed.
    fn item(&self, io: &Operands, at: usize, packed: Option<&[usize]>) -> Operands {
        let w = match packed {
            Some(places) => std::ptr::with_exposed_provenance(places[at.min(self.matrices - 1)]),
            None => io.w.wrapping_byte_add(at * self.strides.w),
        };
        Operands {
            x: io.x.wrapping_byte_add(at * self.strides.x),
            w,
            out: io.out.wrapping_byte_add(at * self.strides.out),
            ..*io
        }
    }
}

impl Prepared for Ready {
    fn ran(&self) -> &Solution {
        &self.ran
    }

    fn workspace_bytes(&self) -> usize {
        self.inner.workspace_bytes()
    }

    fn pack_key(&self) -> Option<&str> {
        self.pack_key.as_deref()
    }

    unsafe fn pack(&self, w: *const c_void) -> Result<Option<Packed>, Error> {
        let mut items = Vec::with_capacity(self.matrices);
        for at in 0..self.matrices {
            let w = if w.is_null() { w } else { w.wrapping_byte_add(at * self.strides.w) };
            // SAFETY: the weights of an item lie at its stride, by the contract of this method.
            match unsafe { self.inner.pack(w) }? {
                Some(packed) => items.push(packed),
                None => return Ok(None),
            }
        }
        Ok(Some(Box::new(Packs::new(items))))
    }

    unsafe fn launch(&self, io: &Operands, stream: Stream) -> Result<(), Launch> {
        for (name, pointer) in [("x", io.x), ("w", io.w), ("out", io.out.cast_const())] {
            if pointer.is_null() {
                return Err(Launch::NotEnqueued(Error::unsupported(format!("{name} is not set"))));
            }
        }
        // SAFETY: `io.w` is `Packs::as_ptr` of a pack of these weights, which holds a place for each matrix.
        let packed =
            self.pack_key.is_some().then(|| unsafe { std::slice::from_raw_parts(io.w.cast::<usize>(), self.matrices) });
        for at in 0..self.count {
            // SAFETY: the operands of an item lie at their strides, by the contract of this method; items use the workspace
            // one after the other, as a launch on the host has finished when it returns.
            let launched = unsafe { self.inner.launch(&self.item(io, at, packed), stream) };
            launched.map_err(|failed| match failed {
                // The items before it have run.
                Launch::NotEnqueued(error) if at > 0 => Launch::MayHaveRun(error),
                failed => failed,
            })?;
        }
        Ok(())
    }
}

/// The packed weights of all items.
struct Packs {
    items: Vec<Packed>,
    /// Where each lies: pointers as numbers, so that this may go to other threads.
    places: Vec<usize>,
}

impl Packs {
    fn new(items: Vec<Packed>) -> Packs {
        let places = items.iter().map(|item| item.as_ptr().expose_provenance()).collect();
        Packs { items, places }
    }
}

impl PackedForm for Packs {
    fn as_ptr(&self) -> *const c_void {
        self.places.as_ptr().cast()
    }

    fn bytes(&self) -> usize {
        self.items.iter().map(|item| item.bytes()).sum()
    }

    fn duplicate(&self) -> Option<Packed> {
        let items = self.items.iter().map(|item| item.duplicate()).collect::<Option<Vec<Packed>>>()?;
        Some(Box::new(Packs::new(items)))
    }
}

#[cfg(all(test, feature = "cpu-crates", feature = "measure"))]
#[path = "batched_tests.rs"]
mod tests;
