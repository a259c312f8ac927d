//! rocBLAS as a library: by its own choice, or by the signed index of one of its solutions.
//!
//! A positive index is hipBLASLt's index + 1 where rocBLAS forwards to it (ROCm 7): those are offered by hipBLASLt already
//! and left out here.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tgemm_db::blas::{Call, Op};
use tgemm_db::problem::{Activation, Scalar, ScaleMode};
use tgemm_db::recording::Via;
use tgemm_db::{Build, Problem, Solution};
use tgemm_vendor::Absent;
use tgemm_vendor::gpu::rocblas::{self, ALGO_SOLUTION_INDEX, ALGO_STANDARD, FLAG_CHECK_SOLUTION_INDEX, RocBlas};
use tgemm_vendor::gpu::{CallError, Installation};

use super::bound::Bound;
use super::lt::Lt;
use super::{failed, workspace_bytes};
use crate::{Ask, BaselineSolution, Effort, Error, Launch, Library, Operands, Packed, Prepared, Stream};

/// rocBLAS on one device.
struct Gemms {
    bound: Arc<Mutex<Bound<RocBlas>>>,
    build: Arc<Build>,
    hipblaslt: Option<Arc<Lt>>,
}

/// The library's own choice.
const DEFAULT: i32 = 0;

/// Most solutions of one list.
const SOLUTIONS_MAX: usize = 1 << 16;

/// Opens rocBLAS on the current device; what `hipblaslt` offers too is left out.
pub(super) fn open(installation: &mut Installation, hipblaslt: Option<Arc<Lt>>) -> Result<Box<dyn Library>, Absent> {
    let library = RocBlas::open(installation)?;
    let version = match library.atomics() {
        // Atomics change both speed and bits, so builds that differ in their default are two.
        Some(true) => format!("{} atomics", library.version()),
        _ => library.version().to_owned(),
    };
    let build = Build { version, ..Build::unknown("rocblas") };
    Ok(Box::new(Gemms { bound: Arc::new(Mutex::new(Bound::new(library))), build: Arc::new(build), hipblaslt }))
}

/// A call as `rocblas_gemm_ex` takes it.
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
    ] {
        if has {
            return Err(Error::unsupported(format!("rocblas_gemm_ex takes no problem with {what}")));
        }
    }
    let data_type =
        |dtype| rocblas::data_type(dtype).ok_or_else(|| Error::unsupported(format!("rocBLAS has no type {dtype}")));
    let compute = rocblas::compute_type(call.compute)
        .ok_or_else(|| Error::unsupported(format!("rocBLAS has no sums in {}", call.compute)))?;
    Ok(Arguments { call, a_type: data_type(call.a)?, b_type: data_type(call.b)?, c_type: data_type(call.c)?, compute })
}

impl Gemms {
    fn solution(&self, index: i32, workspace_bytes: u64) -> Solution {
        Solution { workspace_bytes, ..Solution::bare(Arc::clone(&self.build), index.into(), "") }
    }

    fn lock(&self) -> MutexGuard<'_, Bound<RocBlas>> {
        // Nothing in here can panic half-way; a poisoned lock holds a whole handle.
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The indices that rocBLAS lists for a call, each once.
    fn listed(&self, arguments: &Arguments) -> Result<Vec<i32>, CallError> {
        let bound = self.lock();
        let mut size = 0;
        // SAFETY: without room for a list its length is written; no matrix is looked at.
        unsafe { arguments.list(&bound.library, std::ptr::null_mut(), &raw mut size) }?;
        let room = usize::try_from(size).unwrap_or(0).min(SOLUTIONS_MAX);
        let mut list = vec![DEFAULT; room];
        let mut size = room as i32;
        if room > 0 {
            // SAFETY: the list has room for the number told.
            unsafe { arguments.list(&bound.library, list.as_mut_ptr(), &raw mut size) }?;
        }
        // It may have filled in fewer, or say that there are more.
        list.truncate(usize::try_from(size).unwrap_or(0).min(room));
        list.sort_unstable();
        list.dedup();
        list.retain(|&index| index != DEFAULT);
        Ok(list)
    }
}

impl Library for Gemms {
    fn build(&self) -> &Build {
        &self.build
    }

    fn baselines(&self, problem: &Problem, ask: &Ask) -> Vec<BaselineSolution> {
        if ask.via == Via::LtMatmul || arguments(problem).is_err() {
            return Vec::new();
        }
        // hipBLAS hands its call on to rocBLAS.
        let via = if ask.via == Via::RocblasGemmEx { "rocblas_gemm_ex" } else { "hipblasGemmEx" };
        vec![BaselineSolution { via: via.into(), solution: self.solution(DEFAULT, workspace_bytes(ask)) }]
    }

    fn candidates(&self, problem: &Problem, effort: Effort, ask: &Ask) -> Result<Vec<Solution>, Error> {
        let Ok(arguments) = arguments(problem) else { return Ok(Vec::new()) };
        let workspace_bytes = workspace_bytes(ask);
        let mut solutions = vec![self.solution(DEFAULT, workspace_bytes)];
        if effort > Effort::Minimal {
            let listed = self.listed(&arguments).map_err(failed)?;
            let known = self.hipblaslt.as_ref().map(|lt| lt.indices(problem, ask)).unwrap_or_default();
            let new = listed.into_iter().filter(|&index| index < 0 || !known.contains(&(i64::from(index) - 1)));
            solutions.extend(new.map(|index| self.solution(index, workspace_bytes)));
        }
        Ok(solutions)
    }

    fn prepare(&self, problem: &Problem, solution: &Solution) -> Result<Box<dyn Prepared>, Error> {
        if let Some(difference) = solution.build.difference(&self.build) {
            return Err(Error::unsupported(difference.to_string()));
        }
        let arguments = arguments(problem)?;
        let index = i32::try_from(solution.index)
            .map_err(|_| Error::unsupported(format!("{} is no solution index of rocBLAS", solution.index)))?;
        if index != DEFAULT {
            // Addresses that are never looked at: the flag makes the call say whether the solution fits, and run nothing.
            let nowhere = 256 as *mut c_void;
            let io = Operands { w: nowhere, x: nowhere, c: nowhere, out: nowhere, ..Operands::default() };
            // SAFETY: see above.
            unsafe { arguments.run(&self.lock().library, &io, index, FLAG_CHECK_SOLUTION_INDEX) }.map_err(|e| {
                Error::unsupported(format!("this build does not support solution {index} for this problem ({e})"))
            })?;
        }
        let ran = self.solution(index, solution.workspace_bytes);
        Ok(Box::new(Ready { bound: Arc::clone(&self.bound), arguments, index, ran }))
    }
}

/// The stride arguments of a batched call.
struct Strides {
    a: i64,
    b: i64,
    c: i64,
}

impl Arguments {
    fn extents(&self) -> [i32; 6] {
        let Call { m, n, k, lda, ldb, ldc, .. } = self.call;
        [m, n, k, lda, ldb, ldc].map(|extent| extent as i32)
    }

    fn operations(&self) -> (i32, i32) {
        (rocblas::operation(self.call.op_a == Op::T), rocblas::operation(self.call.op_b == Op::T))
    }

    fn strides(&self) -> Strides {
        Strides { a: self.call.stride_a as i64, b: self.call.stride_b as i64, c: self.call.stride_c as i64 }
    }

    /// # Safety
    /// `list` has room for `*size` numbers, or is null.
    unsafe fn list(&self, library: &RocBlas, list: *mut i32, size: *mut i32) -> Result<(), CallError> {
        let (table, handle) = (library.table(), library.handle());
        let ([m, n, k, lda, ldb, ldc], (op_a, op_b)) = (self.extents(), self.operations());
        let Arguments { call, a_type, b_type, c_type, compute } = *self;
        let (alpha, beta) = (1.0f32, if call.beta == Scalar::Zero { 0.0f32 } else { 1.0 });
        let (alpha, beta) = ((&raw const alpha).cast(), (&raw const beta).cast());
        let nowhere = 256 as *mut c_void;
        if call.batch_count == 1 {
            // SAFETY: the contract of this method; matrices are not looked at.
            return unsafe {
                table.solutions(
                    handle,
                    op_a,
                    op_b,
                    m,
                    n,
                    k,
                    alpha,
                    nowhere,
                    a_type,
                    lda,
                    nowhere,
                    b_type,
                    ldb,
                    beta,
                    nowhere,
                    c_type,
                    ldc,
                    nowhere,
                    c_type,
                    ldc,
                    compute,
                    ALGO_STANDARD,
                    0,
                    list,
                    size,
                )
            };
        }
        let Strides { a, b, c } = self.strides();
        // SAFETY: as above.
        unsafe {
            table.solutions_batched(
                handle,
                op_a,
                op_b,
                m,
                n,
                k,
                alpha,
                nowhere,
                a_type,
                lda,
                a,
                nowhere,
                b_type,
                ldb,
                b,
                beta,
                nowhere,
                c_type,
                ldc,
                c,
                nowhere,
                c_type,
                ldc,
                c,
                call.batch_count as i32,
                compute,
                ALGO_STANDARD,
                0,
                list,
                size,
            )
        }
    }

    /// # Safety
    /// As [`Prepared::launch`], and the handle is bound to its stream and workspace.
    unsafe fn run(&self, library: &RocBlas, io: &Operands, index: i32, flags: u32) -> Result<(), CallError> {
        let (table, handle) = (library.table(), library.handle());
        let ([m, n, k, lda, ldb, ldc], (op_a, op_b)) = (self.extents(), self.operations());
        let Arguments { call, a_type, b_type, c_type, compute } = *self;
        let (alpha, beta) = ((&raw const io.alpha).cast(), (&raw const io.beta).cast());
        let old = if call.beta == Scalar::Zero || call.in_place { io.out.cast_const() } else { io.c };
        let algo = if index == DEFAULT { ALGO_STANDARD } else { ALGO_SOLUTION_INDEX };
        if call.batch_count == 1 {
            // SAFETY: the contract of this method: A is the weights, B the activations; the factors are f32 as the compute
            // type wants them, and read before the call returns.
            return unsafe {
                table.gemm(
                    handle, op_a, op_b, m, n, k, alpha, io.w, a_type, lda, io.x, b_type, ldb, beta, old, c_type, ldc,
                    io.out, c_type, ldc, compute, algo, index, flags,
                )
            };
        }
        let Strides { a, b, c } = self.strides();
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
                a_type,
                lda,
                a,
                io.x,
                b_type,
                ldb,
                b,
                beta,
                old,
                c_type,
                ldc,
                c,
                io.out,
                c_type,
                ldc,
                c,
                call.batch_count as i32,
                compute,
                algo,
                index,
                flags,
            )
        }
    }
}

/// A failure: was anything enqueued? `rocblas_status`: invalid handle 1, not implemented 2, invalid pointer 3, invalid size
/// 4, invalid value 11, excluded 14, architecture mismatch 15 come from looking at the arguments.
fn refused(error: CallError) -> Launch {
    match error.status() {
        None | Some(1..=4 | 11 | 14 | 15) => Launch::NotEnqueued(failed(error)),
        Some(_) => Launch::MayHaveRun(failed(error)),
    }
}

struct Ready {
    bound: Arc<Mutex<Bound<RocBlas>>>,
    arguments: Arguments,
    index: i32,
    ran: Solution,
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
        unsafe { self.arguments.run(&bound.library, io, self.index, 0) }.map_err(refused)
    }
}
