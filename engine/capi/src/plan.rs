//! One weight matrix, ready to be multiplied with.

use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tgemm_db::Site;
use tgemm_db::problem::Scalar;
use tgemm_kernels::{Operands, Stream};
use tgemm_lookup::dispatch::{DispatchError, Plan};

use crate::dispatch::TgemmDispatch;
use crate::handle;
use crate::problem::TgemmProblem;
use crate::status::{Failure, TgemmStatus, guarded};
use crate::versioned::{self, versioned};

/// The operands of one product, by raw pointers into the device's memory, as its problem describes them. What a problem does
/// not have may stay NULL.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TgemmOperands {
    /// sizeof(TgemmOperands).
    pub size: usize,
    /// Activations.
    pub x: *const c_void,
    /// Weights as the engine holds them: the same pointer at every run of a plan.
    pub w: *const c_void,
    /// The output.
    pub out: *mut c_void,
    /// Bias of N elements.
    pub bias: *const c_void,
    /// Scales of x.
    pub x_scale: *const c_void,
    /// Scales of w.
    pub w_scale: *const c_void,
    /// The old output, where the problem's beta is not zero and it is out of place.
    pub c: *const c_void,
    /// Scratch memory for this run, aligned to 64 bytes; NULL, or less than is needed: that of the stream is used.
    pub workspace: *mut c_void,
    /// How much that is.
    pub workspace_bytes: usize,
    /// Factor of the product, where the problem's alpha is TGEMM_SCALAR_OTHER; else it is not looked at.
    pub alpha: f32,
    /// Factor of the old output, where the problem's beta is TGEMM_SCALAR_OTHER; else it is not looked at.
    pub beta: f32,
}

versioned!(TgemmOperands, least out, [
    x, w, out, bias, x_scale, w_scale, c, workspace, workspace_bytes, alpha, beta,
]);

/// One weight matrix, ready to be multiplied with at any M. Of several threads that run it at once, one waits for the other:
/// give each its own plan.
pub struct TgemmPlan {
    plan: Mutex<Plan>,
    site: Site,
}

impl TgemmPlan {
    fn plan(&self) -> MutexGuard<'_, Plan> {
        // A panic half-way leaves entries that are whole or not there.
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn operands(&self, given: &TgemmOperands) -> Result<Operands, Failure> {
        let site = &self.site;
        let has_scales = site.scale != tgemm_db::problem::ScaleMode::None;
        for (is_null, what) in [
            (given.x.is_null(), "TgemmOperands.x"),
            (given.w.is_null(), "TgemmOperands.w"),
            (given.out.is_null(), "TgemmOperands.out"),
            (site.bias.is_some() && given.bias.is_null(), "TgemmOperands.bias"),
            (has_scales && given.x_scale.is_null(), "TgemmOperands.x_scale"),
            (has_scales && given.w_scale.is_null(), "TgemmOperands.w_scale"),
            (site.beta != Scalar::Zero && !site.in_place && given.c.is_null(), "TgemmOperands.c"),
        ] {
            if is_null {
                return Err(Failure::null(what));
            }
        }
        Ok(Operands {
            x: given.x,
            w: given.w,
            bias: given.bias,
            x_scale: given.x_scale,
            w_scale: given.w_scale,
            c: given.c,
            out: given.out,
            workspace: given.workspace,
            workspace_bytes: given.workspace_bytes,
            alpha: factor(site.alpha, given.alpha),
            beta: factor(site.beta, given.beta),
        })
    }
}

/// The factor that a problem says, or the caller where it says "other".
#[inline]
fn factor(class: Scalar, given: f32) -> f32 {
    match class {
        Scalar::Zero => 0.0,
        Scalar::One => 1.0,
        _ => given,
    }
}

fn failure(error: DispatchError) -> Failure {
    let status = match &error {
        DispatchError::NoBaseline { .. } => TgemmStatus::Unsupported,
        DispatchError::MayHaveRun { .. } => TgemmStatus::MayHaveRun,
        DispatchError::NotWarm { .. } => TgemmStatus::NotWarm,
        DispatchError::OtherWeights { .. } | DispatchError::Invalid { .. } => TgemmStatus::Value,
        _ => TgemmStatus::Device,
    };
    Failure::new(status, error.to_string())
}

/// Opens the plan of one weight matrix for a problem, whose m may be 0. Cheap: what it takes is looked up, prepared and packed
/// when an M is first warmed or run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgemm_plan_open(
    dispatch: *const TgemmDispatch,
    problem: *const TgemmProblem,
    plan: *mut *mut TgemmPlan,
) -> TgemmStatus {
    guarded(|| {
        // SAFETY: the header's rules of pointers and handles.
        let (out, dispatch, problem) =
            unsafe { (handle::out(plan, "plan")?, handle::get(dispatch, "dispatch")?, versioned::read(problem)?) };
        let site = problem.site()?;
        out.put(TgemmPlan { plan: Mutex::new(dispatch.gemm.plan(site)), site });
        Ok(())
    })
}

/// Closes a plan; NULL is none. Launches of packed weights must have finished.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgemm_plan_close(plan: *mut TgemmPlan) {
    // SAFETY: the header's rules of handles.
    unsafe { handle::close(plan) }
}

/// Makes a plan ready for m tokens on a stream: looks the problem up, prepares what runs, packs the weights w if that may be
/// and pays, and sees to the stream's workspace. After it, runs at that m into that stream allocate nothing and may be captured
/// into a graph. The device must be current on this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgemm_plan_warm(
    plan: *mut TgemmPlan,
    m: u32,
    w: *const c_void,
    stream: *mut c_void,
) -> TgemmStatus {
    guarded(|| {
        // SAFETY: the header's rules of handles.
        let plan = unsafe { handle::get(plan, "plan") }?;
        if w.is_null() {
            return Err(Failure::null("w"));
        }
        // SAFETY: w points to the plan's weights, as the header asks for.
        unsafe { plan.plan().warm(m, w, Stream(stream)) }.map_err(failure)
    })
}

/// Enqueues one product of m tokens on a stream (a hipStream_t, cudaStream_t or CUstream of any binding; on a CPU NULL, and it
/// is over on return): by the tuned choice, or by the baseline where there is none or it refuses. After the first run at an m
/// it allocates nothing.
///
/// The device must be current on this thread, and the operands valid until the product has finished. Products on one stream
/// share its workspace: replay a graph that was captured on it while nothing else of it is under way, or give the runs of a
/// graph a workspace of their own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgemm_plan_run(
    plan: *mut TgemmPlan,
    m: u32,
    operands: *const TgemmOperands,
    stream: *mut c_void,
) -> TgemmStatus {
    guarded(|| {
        // SAFETY: the header's rules of pointers and handles.
        let (plan, given) = unsafe { (handle::get(plan, "plan")?, versioned::read(operands)?) };
        let io = plan.operands(&given)?;
        // SAFETY: the operands are what the problem says, as the header asks for.
        unsafe { plan.plan().run(m, &io, Stream(stream)) }.map_err(failure)
    })
}
