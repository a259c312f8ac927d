//! cuBLAS as a library: the call that engines make for a plain product, which picks its kernel itself.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tgemm_db::blas::{Call, Op};
use tgemm_db::problem::{Activation, Scalar, ScaleMode};
use tgemm_db::recording::Via;
use tgemm_db::{Build, Problem, Solution};
use tgemm_vendor::Absent;
use tgemm_vendor::gpu::cublas::{AUTOTUNE_SINCE, CuBlas, GEMM_AUTOTUNE, GEMM_DEFAULT};
use tgemm_vendor::gpu::{CallError, Dialect, Installation, numbers};

use super::bound::Bound;
use super::{failed, launch_failed, workspace_bytes};
use crate::{Ask, BaselineSolution, Effort, Error, Launch, Library, Operands, Packed, Prepared, Stream};

/// cuBLAS on one device.
struct Gemms {
    bound: Arc<Mutex<Bound<CuBlas>>>,
    build: Arc<Build>,
    has_autotune: bool,
}

/// Opens cuBLAS on the current device.
pub(super) fn open(installation: &mut Installation) -> Result<Box<dyn Library>, Absent> {
    let library = CuBlas::open(installation)?;
    let build = Build { version: library.version(), ..Build::unknown("cublas") };
    let has_autotune = library.version_numbers() >= AUTOTUNE_SINCE;
    Ok(Box::new(Gemms { bound: Arc::new(Mutex::new(Bound::new(library))), build: Arc::new(build), has_autotune }))
}

/// A call as `cublasGemmEx` takes it.
#[derive(Clone, Copy)]
struct Arguments {
    call: Call,
    a_type: i32,
    b_type: i32,
    c_type: i32,
    compute: i32,
}

fn arguments(problem: &Problem) -> Result<Arguments, Error> {
    let gemm = crate::gemm_of(problem)?;
    let call = Call::from_gemm(gemm);
    for (has, what) in [
        (call.bias.is_some(), "a bias"),
        (call.activation != Activation::None, "an activation"),
        (call.scale != ScaleMode::None, "scales"),
        (gemm.site.preshuffled, "shuffled weights"),
        (call.beta != Scalar::Zero && !call.in_place, "an old output in other memory"),
    ] {
        if has {
            return Err(Error::unsupported(format!("cublasGemmEx takes no problem with {what}")));
        }
    }
    let data_type = |dtype| {
        numbers::data_type(Dialect::Cuda, dtype)
            .ok_or_else(|| Error::unsupported(format!("cuBLAS has no type {dtype}")))
    };
    let (compute, _) = numbers::compute_type(Dialect::Cuda, call.compute)
        .ok_or_else(|| Error::unsupported(format!("cuBLAS has no sums in {}", call.compute)))?;
    Ok(Arguments { call, a_type: data_type(call.a)?, b_type: data_type(call.b)?, c_type: data_type(call.c)?, compute })
}

impl Gemms {
    fn solution(&self, algo: i32, workspace_bytes: u64) -> Solution {
        let name = if algo == GEMM_AUTOTUNE { "CUBLAS_GEMM_AUTOTUNE" } else { "CUBLAS_GEMM_DEFAULT" };
        Solution { workspace_bytes, ..Solution::bare(Arc::clone(&self.build), algo.into(), name) }
    }
}

impl Library for Gemms {
    fn build(&self) -> &Build {
        &self.build
    }

    fn baselines(&self, problem: &Problem, ask: &Ask) -> Vec<BaselineSolution> {
        // Calls that go to cuBLASLt, and PyTorch's linear layers with bias or scales, which `arguments` refuses.
        if ask.via == Via::LtMatmul || ask.via == Via::RocblasGemmEx || arguments(problem).is_err() {
            return Vec::new();
        }
        let solution = self.solution(GEMM_DEFAULT, workspace_bytes(ask));
        vec![BaselineSolution { via: "cublasGemmEx".into(), solution }]
    }

    fn candidates(&self, problem: &Problem, effort: Effort, ask: &Ask) -> Result<Vec<Solution>, Error> {
        if arguments(problem).is_err() {
            return Ok(Vec::new());
        }
        let mut solutions = vec![self.solution(GEMM_DEFAULT, workspace_bytes(ask))];
        if self.has_autotune && effort > Effort::Minimal {
            solutions.push(self.solution(GEMM_AUTOTUNE, workspace_bytes(ask)));
        }
        Ok(solutions)
    }

    fn prepare(&self, problem: &Problem, solution: &Solution) -> Result<Box<dyn Prepared>, Error> {
        if let Some(difference) = solution.build.difference(&self.build) {
            return Err(Error::unsupported(difference.to_string()));
        }
        let algo = match i32::try_from(solution.index) {
            Ok(GEMM_DEFAULT) => GEMM_DEFAULT,
            Ok(GEMM_AUTOTUNE) if self.has_autotune => GEMM_AUTOTUNE,
            _ => return Err(Error::unsupported(format!("cuBLAS has no algorithm {} here", solution.index))),
        };
        let arguments = arguments(problem)?;
        let ran = self.solution(algo, solution.workspace_bytes);
        Ok(Box::new(Ready { bound: Arc::clone(&self.bound), arguments, algo, ran }))
    }
}

struct Ready {
    bound: Arc<Mutex<Bound<CuBlas>>>,
    arguments: Arguments,
    algo: i32,
    ran: Solution,
}

impl Ready {
    /// # Safety
    /// As [`Prepared::launch`], and the handle is bound to its stream and workspace.
    unsafe fn call(&self, bound: &MutexGuard<'_, Bound<CuBlas>>, io: &Operands) -> Result<(), CallError> {
        let Arguments { call, a_type, b_type, c_type, compute } = &self.arguments;
        let (table, handle) = (bound.library.table(), bound.library.handle());
        let op = |op: Op| numbers::operation(Dialect::Cuda, op == Op::T);
        let [m, n, k, lda, ldb, ldc] =
            [call.m, call.n, call.k, call.lda, call.ldb, call.ldc].map(|extent| extent as i32);
        let (alpha, beta) = ((&raw const io.alpha).cast(), (&raw const io.beta).cast());
        let (op_a, op_b) = (op(call.op_a), op(call.op_b));
        if call.batch_count == 1 {
            // SAFETY: the contract of this method: A is the weights, B the activations; the factors are f32 as the compute
            // type wants them, and read before the call returns.
            return unsafe {
                table.gemm(
                    handle, op_a, op_b, m, n, k, alpha, io.w, *a_type, lda, io.x, *b_type, ldb, beta, io.out, *c_type,
                    ldc, *compute, self.algo,
                )
            };
        }
        let [stride_a, stride_b, stride_c] = [call.stride_a, call.stride_b, call.stride_c].map(|stride| stride as i64);
        // SAFETY: as above, for each matrix of the batch.
        unsafe {
            table.gemm_batched(
                handle,
                op_a,
                op_b,
                m,
                n,
                k,
                alpha,
                io.w,
                *a_type,
                lda,
                stride_a,
                io.x,
                *b_type,
                ldb,
                stride_b,
                beta,
                io.out,
                *c_type,
                ldc,
                stride_c,
                call.batch_count as i32,
                *compute,
                self.algo,
            )
        }
    }
}

impl Prepared for Ready {
    fn ran(&self) -> &Solution {
        &self.ran
    }

    fn workspace_bytes(&self) -> usize {
        usize::try_from(self.ran.workspace_bytes).unwrap_or(usize::MAX)
    }

    fn pack_key(&self) -> Option<&str> {
        None
    }

    unsafe fn pack(&self, _: *const c_void) -> Result<Option<Packed>, Error> {
        Ok(None)
    }

    unsafe fn launch(&self, io: &Operands, stream: Stream) -> Result<(), Launch> {
        // Nothing in here can panic half-way; a poisoned lock holds a whole handle.
        let mut bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        let workspace_bytes = io.workspace_bytes.min(self.workspace_bytes());
        // SAFETY: the contract of this method: the launch's stream and workspace.
        let to = unsafe { bound.bind(stream.0, io.workspace, workspace_bytes) };
        to.map_err(|error| Launch::NotEnqueued(failed(error)))?;
        // SAFETY: the contract of this method.
        let launched = unsafe { self.call(&bound, io) };
        launched.map_err(|error| launch_failed(Dialect::Cuda, error))
    }
}
