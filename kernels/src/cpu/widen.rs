//! An f32 library made to take f16 and bf16 problems: weights widened to f32 once, activations at every launch, sums in
//! f32, one rounding at the end. Every number that is multiplied is exact, so the result is as good as the library's.
//!
//! It costs twice the memory of the weights, and pays where the library's own 16-bit product is slow or does not exist.
//! One adapter over any [`Library`]: solutions keep their library, index and name, and carry the parameters
//! `weights=f32` and `form=` with the form in which the inner solution takes those f32 weights.

use std::ffi::c_void;

use tgemm_db::problem::Alignment;
use tgemm_db::{Build, DType, Problem, Site, Solution, WeightForm};

use super::convert::widen_all;
use super::finish::Finish;
use super::linear::{Linear, line_up};
use super::memory;
use super::threads::Team;
use crate::{
    Ask, BaselineSolution, Buffer, Effort, Error, Launch, Library, Operands, Packed, PackedForm, Prepared, Stream,
};

const WEIGHTS: &str = "weights";
const FORM: &str = "form";
const F32: &str = "f32";

/// A library that also takes 16-bit problems through its f32 solutions.
pub struct Widened {
    inner: Box<dyn Library>,
    is_baseline: bool,
}

impl Widened {
    /// Adds to `inner` the 16-bit problems that its f32 solutions can take.
    pub fn new(inner: Box<dyn Library>) -> Widened {
        Widened { inner, is_baseline: false }
    }

    /// The same, where engines on `inner` do so themselves for a type that it lacks: its f32 baselines over widened
    /// weights are then baselines, via `… f32 weights`.
    pub fn as_engines_do(inner: Box<dyn Library>) -> Widened {
        Widened { inner, is_baseline: true }
    }
}

/// The f32 problem at the heart of a 16-bit one; `None` for a problem that needs no widening or cannot have it.
fn at_heart(problem: &Problem) -> Option<(Linear, Problem)> {
    let linear = Linear::of(problem).ok().filter(|linear| linear.x != DType::F32)?;
    let gemm = problem.gemm()?;
    let site = &gemm.site;
    // Only an f32 output is the caller's own memory; everything else starts at a cache line.
    let align = if linear.out == DType::F32 { site.align } else { Alignment::B16 };
    let inner = Site { align, ..Site::linear(site.n, site.k, DType::F32) };
    Some((linear, inner.at(gemm.m).into()))
}

/// Names the f32 solution `inner` as a solution of the 16-bit problem `linear`.
fn outward(inner: &Solution, linear: &Linear, inner_workspace_bytes: usize) -> Solution {
    Solution {
        params: inner.params.clone().with(WEIGHTS, F32).with(FORM, inner.weight_form),
        weight_form: WeightForm::Prepacked,
        workspace_bytes: Workspace::of(linear, inner_workspace_bytes).total_bytes() as u64,
        ..inner.clone()
    }
}

/// The f32 solution that [`outward`] named; `None` if it named none.
fn inward(solution: &Solution) -> Option<Solution> {
    let weight_form = solution.params.parse::<WeightForm>(FORM)?;
    let params = solution.params.iter().filter(|(name, _)| ![WEIGHTS, FORM].contains(name));
    let params = params.fold(tgemm_db::Params::new(), |params, (name, value)| params.with(name, value));
    Some(Solution { params, weight_form, ..solution.clone() })
}

fn is_widened(solution: &Solution) -> bool {
    solution.params.get(WEIGHTS) == Some(F32)
}

impl Library for Widened {
    fn build(&self) -> &Build {
        self.inner.build()
    }

    fn baselines(&self, problem: &Problem, ask: &Ask) -> Vec<BaselineSolution> {
        let own = self.inner.baselines(problem, ask);
        let (true, true, Some((linear, heart))) = (own.is_empty(), self.is_baseline, at_heart(problem)) else {
            return own;
        };
        let widened =
            self.inner.baselines(&heart, ask).into_iter().map(|BaselineSolution { via, solution }| BaselineSolution {
                via: format!("{via} f32 weights"),
                solution: outward(&solution, &linear, solution.workspace_bytes as usize),
            });
        widened.collect()
    }

    fn candidates(&self, problem: &Problem, effort: Effort, ask: &Ask) -> Result<Vec<Solution>, Error> {
        let mut solutions = self.inner.candidates(problem, effort, ask)?;
        if let Some((linear, heart)) = at_heart(problem) {
            let inner = self.inner.candidates(&heart, effort, ask)?;
            solutions.extend(inner.iter().map(|inner| outward(inner, &linear, inner.workspace_bytes as usize)));
        }
        Ok(solutions)
    }

    fn prepare(&self, problem: &Problem, solution: &Solution) -> Result<Box<dyn Prepared>, Error> {
        if !is_widened(solution) {
            return self.inner.prepare(problem, solution);
        }
        let (linear, heart) = at_heart(problem)
            .ok_or_else(|| Error::unsupported("f32 weights are for plain linear layers over f16 or bf16"))?;
        let inner = inward(solution)
            .ok_or_else(|| Error::unsupported(format!("'{}' does not say its inner weight form", solution.key())))?;
        let inner = self.inner.prepare(&heart, &inner)?;
        let workspace = Workspace::of(&linear, inner.workspace_bytes());
        let ran = outward(inner.ran(), &linear, inner.workspace_bytes());
        if ran.key() != solution.key() {
            return Err(Error::unsupported(format!("'{}' is not '{}' of this build", solution.key(), ran.key())));
        }
        let threads = ran.params.parse("threads").unwrap_or(1);
        let pack_key = match inner.pack_key() {
            Some(key) => key.to_owned(),
            None => format!("f32 rows {}x{}", linear.n, linear.k),
        };
        Ok(Box::new(Ready { inner, ran, linear, workspace, team: Team::of(threads)?, pack_key }))
    }
}

/// The parts of a launch's workspace, in this order, each starting at a cache line.
struct Workspace {
    x_bytes: usize,
    finish: Finish,
    inner_bytes: usize,
}

impl Workspace {
    fn of(linear: &Linear, inner_bytes: usize) -> Workspace {
        Workspace { x_bytes: line_up(linear.m * linear.k * 4), finish: Finish::new(*linear, DType::F32), inner_bytes }
    }

    fn total_bytes(&self) -> usize {
        self.x_bytes.saturating_add(self.finish.workspace_bytes()).saturating_add(self.inner_bytes)
    }
}

/// An f32 solution made ready for a 16-bit problem.
struct Ready {
    inner: Box<dyn Prepared>,
    ran: Solution,
    linear: Linear,
    workspace: Workspace,
    team: Team,
    pack_key: String,
}

impl Prepared for Ready {
    fn ran(&self) -> &Solution {
        &self.ran
    }

    fn workspace_bytes(&self) -> usize {
        self.workspace.total_bytes()
    }

    fn pack_key(&self) -> Option<&str> {
        Some(&self.pack_key)
    }

    unsafe fn pack(&self, w: *const c_void) -> Result<Option<Packed>, Error> {
        let Linear { n, k, .. } = self.linear;
        if w.is_null() || !w.addr().is_multiple_of(2) {
            return Err(Error::unsupported(format!("weights at {w:p}; they must be set and a multiple of 2")));
        }
        let mut rows = memory::alloc(n * k * 4)?;
        // SAFETY: `w` holds N x K elements by the contract of this method, `rows` was made for as many f32.
        unsafe { widen_all(&self.team, self.linear.x, w, rows.as_mut_ptr(), n * k) };
        if self.inner.pack_key().is_none() {
            return Ok(Some(Box::new(Rows(rows))));
        }
        // SAFETY: `rows` now holds the weights as the inner problem describes them.
        unsafe { self.inner.pack(rows.as_ptr()) }
    }

    unsafe fn launch(&self, io: &Operands, stream: Stream) -> Result<(), Launch> {
        self.linear.check(io, true, self.workspace_bytes())?;
        let Workspace { x_bytes, finish, inner_bytes } = &self.workspace;
        let Linear { m, k, .. } = self.linear;
        let x = io.workspace;
        // SAFETY: the workspace was found to hold its three parts.
        let (product, inner) = unsafe { (x.byte_add(*x_bytes), x.byte_add(x_bytes + finish.workspace_bytes())) };
        let product = finish.product_at(io, product);
        // SAFETY: `io.x` holds M x K elements by the contract of this method, the workspace as many f32.
        unsafe { widen_all(&self.team, self.linear.x, io.x, x, m * k) };
        let inner = Operands {
            x,
            w: io.w,
            out: product,
            workspace: inner,
            workspace_bytes: *inner_bytes,
            ..Operands::default()
        };
        // SAFETY: the operands are those of the inner problem; `io.w` is a pack of the inner solution, or f32 rows.
        unsafe { self.inner.launch(&inner, stream)? };
        // SAFETY: the inner launch has written the product; a library of the CPU has finished when it returns.
        unsafe { finish.run(&self.team, io, product) };
        Ok(())
    }
}

/// Weights as f32, in the rows of the problem.
struct Rows(Buffer);

// SAFETY: written before it is made, only read from then on.
unsafe impl Sync for Rows {}

impl PackedForm for Rows {
    fn as_ptr(&self) -> *const c_void {
        self.0.as_ptr()
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn duplicate(&self) -> Option<Packed> {
        let mut copy = memory::alloc(self.0.bytes()).ok()?;
        // SAFETY: both buffers have that many bytes, and one is new.
        unsafe {
            std::ptr::copy_nonoverlapping(self.0.as_ptr().cast::<u8>(), copy.as_mut_ptr().cast(), self.0.bytes())
        };
        Some(Box::new(Rows(copy)))
    }
}
