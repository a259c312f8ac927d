//! Products on the host's processors: small ones, whose operands are there to the last element and no further.

use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use tgemm::backend::{TgemmBackend, tgemm_backend_close, tgemm_backend_open, tgemm_backend_report};
use tgemm::constraints::TgemmConstraints;
use tgemm::database::{TgemmDatabase, tgemm_database_open_for};
use tgemm::dispatch::{
    TgemmCounters, TgemmDispatch, TgemmDispatchOptions, tgemm_dispatch_close, tgemm_dispatch_counters,
    tgemm_dispatch_open, tgemm_dispatch_report,
};
use tgemm::plan::{TgemmOperands, TgemmPlan, tgemm_plan_close, tgemm_plan_open, tgemm_plan_run, tgemm_plan_warm};
use tgemm::problem::TgemmProblem;

use super::calls::{opened, slot, some_constraints, written};
use super::memory::{Memory, at, structure, text};
use super::model::{Model, pick};
use super::{checked, values};
use crate::feed::Feed;
use crate::scratch;

/// In features of every product.
const K: usize = 64;
/// Token counts that are run; the others cannot be.
const MS: [u32; 9] = [1, 4, 9, 16, 33, 40, 0, 1 << 31, u32::MAX];
/// Those of them that can.
const M_MAX: u32 = 40;

/// A dispatch that is open, and how often its plans were told to run.
pub(super) struct Dispatch {
    handle: *mut TgemmDispatch,
    number: usize,
}

/// A plan that is open, with the weights that it was given.
pub(super) struct Plan {
    handle: *mut TgemmPlan,
    /// Of the dispatch that it is of, which may be closed.
    dispatch: usize,
    weights: Memory,
    n: usize,
}

/// The handles, and how many runs of each dispatch succeeded and were tried.
#[derive(Default)]
pub(super) struct Products {
    dispatches: Vec<Dispatch>,
    plans: Vec<Plan>,
    runs: Vec<(u64, u64)>,
}

/// The one that programs share: to look for libraries takes longer than all else.
fn shared() -> *const TgemmBackend {
    static SHARED: OnceLock<usize> = OnceLock::new();
    let address = SHARED.get_or_init(|| {
        let mut backend = null_mut();
        // SAFETY: it is there to be written to.
        assert!(checked(unsafe { tgemm_backend_open(1, 0, &mut backend) }));
        backend.expose_provenance()
    });
    std::ptr::with_exposed_provenance(*address)
}

/// One of ours, rarely none.
fn backend(feed: &mut Feed<'_>) -> *const TgemmBackend {
    if feed.rarely(32) { null() } else { shared() }
}

/// The next call of the program.
pub(super) fn any(model: &mut Model, feed: &mut Feed<'_>) {
    match feed.below(16) {
        0 => open_backend(feed),
        1 => open_database(model, feed),
        2 | 3 => open_dispatch(model, feed),
        4..7 => open_plan(model, feed),
        7 => warm(model, feed),
        8..12 => run(model, feed),
        12 => report(model, feed),
        13 => counters(model, feed),
        _ => close(model, feed),
    }
}

fn open_backend(feed: &mut Feed<'_>) {
    // Any other platform looks for its libraries in the file system, each time.
    let (platform, ordinal) = (feed.one(&[1, 1, 1, 0, 4, u32::MAX]), feed.one(&[0, -1, 1, i32::MIN]));
    let mut out = null_mut();
    let to = slot(&mut out, feed);
    // SAFETY: it is there to be written to.
    if let Some(handle) = opened(unsafe { tgemm_backend_open(platform, ordinal, to) }, to, out) {
        // SAFETY: just opened.
        unsafe { tgemm_backend_close(handle) };
    }
}

fn open_database(model: &mut Model, feed: &mut Feed<'_>) {
    if Model::is_full(&model.databases) {
        model.close_database(0);
    }
    let path = scratch::folder().join("t.csv").display().to_string();
    let (paths, count, _behind) = values::texts(&[&path], feed);
    let options = values::options(feed);
    let mut out: *mut TgemmDatabase = null_mut();
    let to = slot(&mut out, feed);
    // SAFETY: all of it is there.
    let status = unsafe { tgemm_database_open_for(backend(feed), paths, count, options.pointer(), to) };
    if let Some(handle) = opened(status, to, out) {
        model.add_database(handle);
    }
}

fn open_dispatch(model: &mut Model, feed: &mut Feed<'_>) {
    if Model::is_full(&model.products.dispatches) {
        close_dispatch(model, 0);
    }
    let baseline = text(&["openblas", "onednn", "skinny", "gemm"], feed);
    let constraints: *const TgemmConstraints = some_constraints(model, feed);
    let value = TgemmDispatchOptions { size: 0, baseline: at(&baseline), constraints };
    let options = (!feed.rarely(4)).then(|| structure(&value, feed));
    let database = pick(&model.databases, feed).map_or(null(), |database| database.handle.cast_const());
    let mut out = null_mut();
    let to = slot(&mut out, feed);
    let options = options.as_ref().map_or(null(), |options| options.pointer::<TgemmDispatchOptions>().cast_const());
    // SAFETY: handles are open, and the rest is there.
    let status = unsafe { tgemm_dispatch_open(backend(feed), database, options, to) };
    if let Some(handle) = opened(status, to, out) {
        let number = model.products.runs.len();
        model.products.dispatches.push(Dispatch { handle, number });
        model.products.runs.push((0, 0));
    }
}

fn open_plan(model: &mut Model, feed: &mut Feed<'_>) {
    if Model::is_full(&model.products.plans) {
        close_plan(model, 0);
    }
    let Some(dispatch) = pick(&model.products.dispatches, feed) else { return };
    let (handle, number) = (dispatch.handle, dispatch.number);
    let mut out = null_mut();
    let to = slot(&mut out, feed);
    if feed.rarely(4) {
        // Of a problem that may be anything: its operands are not known here, so it is only opened.
        let problem = values::problem(feed);
        // SAFETY: all of it is there.
        if let Some(plan) = opened(unsafe { tgemm_plan_open(handle, problem.pointer(), to) }, to, out) {
            // SAFETY: just opened.
            unsafe { tgemm_plan_close(plan) };
        }
        return;
    }
    let n = feed.one(&[64usize, 80, 1, 7]);
    // SAFETY: any bytes are one.
    let zero: TgemmProblem = unsafe { std::mem::zeroed() };
    let problem = TgemmProblem { size: size_of::<TgemmProblem>(), n: n as u32, k: K as u32, x: 2, ..zero };
    // SAFETY: all of it is there.
    if let Some(handle) = opened(unsafe { tgemm_plan_open(handle, &problem, to) }, to, out) {
        let weights = Memory::of_ones(n * K);
        model.products.plans.push(Plan { handle, dispatch: number, weights, n });
    }
}

fn warm(model: &mut Model, feed: &mut Feed<'_>) {
    let Some(plan) = pick(&model.products.plans, feed) else { return };
    let w = if feed.rarely(8) { null() } else { plan.weights.pointer::<f32>().cast_const() };
    // SAFETY: the plan is open, and those are its weights.
    checked(unsafe { tgemm_plan_warm(plan.handle, feed.one(&MS), w.cast(), null_mut()) });
}

fn run(model: &mut Model, feed: &mut Feed<'_>) {
    let Some(plan) = pick(&model.products.plans, feed) else { return };
    let m = feed.one(&MS);
    let tokens = if m > M_MAX { 0 } else { m as usize };
    let (x, out) = (Memory::of_ones(tokens * K), Memory::of_ones(tokens * plan.n));
    let workspace = Memory::of_ones(feed.below(64) * 16);
    let mut given = TgemmOperands {
        size: 0,
        x: x.pointer(),
        w: plan.weights.pointer(),
        out: out.pointer(),
        bias: null(),
        x_scale: null(),
        w_scale: null(),
        c: null(),
        workspace: workspace.pointer(),
        workspace_bytes: workspace.bytes().len(),
        alpha: f32::NAN,
        beta: f32::NAN,
    };
    match feed.below(16) {
        0 => given.x = null(),
        1 => given.w = null(),
        2 => given.out = null_mut(),
        // Other weights than those that the plan may have packed.
        3 => given.w = x.pointer(),
        4 => given.workspace = null_mut(),
        5 => (given.workspace, given.workspace_bytes) = (null_mut(), usize::MAX),
        _ => {}
    }
    let has_own_weights = given.w == plan.weights.pointer();
    if !has_own_weights && !given.w.is_null() && tokens < plan.n {
        // A plan that has seen none yet would take them.
        given.w = null();
    }
    let operands = structure(&given, feed);
    // SAFETY: the plan is open, and the operands are as its problem says.
    let is_done = checked(unsafe { tgemm_plan_run(plan.handle, m, operands.pointer(), null_mut()) });
    let (done, tried) = &mut model.products.runs[plan.dispatch];
    (*done, *tried) = (*done + u64::from(is_done), *tried + 1);
    if is_done {
        assert!((1..=M_MAX).contains(&m), "M={m} was run");
        assert!(out.floats().all(|sum| sum == K as f32), "a product of ones");
    }
}

fn report(model: &mut Model, feed: &mut Feed<'_>) {
    if feed.rarely(2) {
        let backend = backend(feed);
        // SAFETY: it is open.
        return written(feed, |data, bytes, needed| unsafe { tgemm_backend_report(backend, data, bytes, needed) });
    }
    let dispatch = pick(&model.products.dispatches, feed).map_or(null(), |dispatch| dispatch.handle.cast_const());
    // SAFETY: it is open.
    written(feed, |data, bytes, needed| unsafe { tgemm_dispatch_report(dispatch, data, bytes, needed) });
}

fn counters(model: &mut Model, feed: &mut Feed<'_>) {
    // SAFETY: any bytes are one.
    let memory = structure(&unsafe { std::mem::zeroed::<TgemmCounters>() }, feed);
    let Some(dispatch) = pick(&model.products.dispatches, feed) else { return };
    // SAFETY: it is open.
    let is_done = checked(unsafe { tgemm_dispatch_counters(dispatch.handle, memory.pointer()) });
    if is_done && memory.bytes().len() >= size_of::<TgemmCounters>() {
        // SAFETY: as large as that.
        let told = unsafe { memory.pointer::<TgemmCounters>().read_unaligned() };
        let all = told.exact + told.padded + told.interval + told.predicted + told.missed + told.fallen_back;
        let (done, tried) = model.products.runs[dispatch.number];
        assert!((done..=tried).contains(&all), "{told:?}: {done} runs of {tried} were done");
    }
}

fn close_dispatch(model: &mut Model, at: usize) {
    // SAFETY: open until now; its plans go on.
    unsafe { tgemm_dispatch_close(model.products.dispatches.remove(at).handle) };
}

fn close_plan(model: &mut Model, at: usize) {
    // SAFETY: open until now.
    unsafe { tgemm_plan_close(model.products.plans.remove(at).handle) };
}

fn close(model: &mut Model, feed: &mut Feed<'_>) {
    match feed.below(4) {
        0 if !model.products.dispatches.is_empty() => close_dispatch(model, 0),
        1 if !model.products.plans.is_empty() => close_plan(model, 0),
        // SAFETY: NULL is none.
        _ => unsafe {
            tgemm_dispatch_close(null_mut());
            tgemm_plan_close(null_mut());
            tgemm_backend_close(null_mut());
        },
    }
}

/// Closes all of them, plans last: they outlive their dispatch.
pub(super) fn close_all(model: &mut Model) {
    while !model.products.dispatches.is_empty() {
        close_dispatch(model, 0);
    }
    while !model.products.plans.is_empty() {
        close_plan(model, 0);
    }
}
