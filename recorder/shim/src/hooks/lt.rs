//! hipBLASLt and cuBLASLt: what a product is stands in its descriptors, which are read back from the library at each call.
//!
//! Descriptors are opaque, and hosts make and free them as they please, so nothing is kept about them but the one thing that
//! hipBLASLt does not tell: the type of the sums that a descriptor was made with.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use tgemm_db::{Compute, Via};
use tgemm_kernels::Operands;
use tgemm_vendor::gpu::blaslt::Table;
use tgemm_vendor::gpu::blaslt::read::{Arguments, Asked};
use tgemm_vendor::gpu::{Dialect, Handle};
use tgemm_vendor::load::{self, Candidate};

use super::arguments::{CUDA_EXECUTION_FAILED, HIP_EXECUTION_FAILED};
use super::{ArgumentList, cublas, hook};
use crate::apply::{Launch, factors};
use crate::captures;
use crate::real::{self, Real};
use crate::seen::{self, How, InPlace, Seen};
use crate::shadow::Shadow;
use crate::state::Shim;
use crate::stream::capture_of;

/// `hipblasComputeType_t` by hipBLASLt descriptor.
pub(super) static COMPUTE_TYPES: Shadow = Shadow::new();

/// The functions of the library that the host calls; one of each dialect in a process.
static TABLES: [OnceLock<Option<Table>>; 2] = [const { OnceLock::new() }; 2];

fn table(dialect: Dialect, real: &Real) -> Option<&'static Table> {
    let open = || {
        let file = real::file_of(real.address()?)?;
        // SAFETY: the library is loaded already, and is the one whose function this is.
        unsafe {
            load::open(dialect.pick("hipblaslt", "cublaslt"), &[Candidate::File(file)], |library| {
                Ok(Table::fill(library, dialect))
            })
        }
        .ok()
    };
    TABLES[dialect.pick(0, 1)].get_or_init(open).as_ref()
}

/// `hipblasLtGetVersion`: major · 100000 + minor · 100 + patch.
fn hip_version(address: usize, handle: Handle) -> Option<String> {
    type Version = unsafe extern "C" fn(Handle, *mut c_int) -> i32;
    let mut number: c_int = 0;
    // SAFETY: the function has this type (`hipblaslt.h`); the handle is the caller's.
    let status = unsafe {
        let ask = std::mem::transmute::<usize, Version>(real::beside(address, c"hipblasLtGetVersion")?);
        ask(handle, &raw mut number)
    };
    (status == 0).then(|| format!("{}.{}.{}", number / 100_000, number / 100 % 1000, number % 100))
}

/// A call of `?LtMatmul`.
struct Matmul {
    dialect: Dialect,
    handle: Handle,
    on: Arguments,
    workspace: *mut c_void,
    workspace_bytes: usize,
    stream: Handle,
}

impl ArgumentList for Matmul {
    type Int = i32;

    fn look(&self, shim: &'static Shim, real: &Real, in_place: &mut InPlace) -> Option<Seen> {
        let Matmul { dialect, handle, on, workspace, workspace_bytes, stream } = *self;
        let compute = match dialect {
            Dialect::Cuda => None,
            Dialect::Hip => COMPUTE_TYPES.get(on.desc as usize).map(|[number, _]| number as i32),
        };
        let on = &Arguments { compute, ..on };
        let table = table(dialect, real)?;
        // SAFETY: the caller's own descriptors and factors, as the library takes them.
        let asked = unsafe { table.read(dialect, on) }.ok();
        let library = real.library(|at| match dialect {
            Dialect::Cuda => cublas::version(at, c"cublasLtGetProperty"),
            Dialect::Hip => hip_version(at, handle),
        });
        let capture = if captures::any() { capture_of(dialect, stream as usize) } else { None };
        let workspace_bytes_max = Some(workspace_bytes as u64);
        let how = How { via: Via::LtMatmul, workspace_bytes_max, library, capture };
        let seen = seen::look(shim, asked.map(|asked| asked.call), how)?;
        if shim.applier.is_some() {
            // SAFETY: as above.
            let launch = asked.and_then(|asked| unsafe { operands(on, &asked, workspace, workspace_bytes) });
            let failed_status = dialect.pick(HIP_EXECUTION_FAILED, CUDA_EXECUTION_FAILED);
            *in_place = launch.map(|io| (dialect, Launch { io, stream, failed_status }));
        }
        Some(seen)
    }
}

/// The operands of `on`; `None` where its factors are elsewhere, or of another type.
///
/// # Safety
/// Factors are readable if they are on the host.
unsafe fn operands(on: &Arguments, asked: &Asked, workspace: *mut c_void, workspace_bytes: usize) -> Option<Operands> {
    if !asked.factors_on_host || !matches!(asked.call.compute, Compute::F32 | Compute::Tf32) {
        return None;
    }
    // SAFETY: factors of these sums are 32-bit numbers, and on the host.
    let [alpha, beta] = unsafe { factors(on.alpha, on.beta) }?;
    let [a, b, c, d] = on.matrices;
    Some(Operands {
        x: b,
        w: a,
        bias: asked.bias,
        w_scale: asked.scales[0],
        x_scale: asked.scales[1],
        c,
        out: d.cast_mut(),
        alpha,
        beta,
        workspace,
        workspace_bytes,
    })
}

macro_rules! matmul {
    ($($name:ident, $dialect:ident;)*) => {
        hook! {$(
            fn $name(
                handle: Handle, desc: Handle, alpha: *const c_void, a: *const c_void, a_layout: Handle,
                b: *const c_void, b_layout: Handle, beta: *const c_void, c: *const c_void, c_layout: Handle,
                d: *mut c_void, d_layout: Handle, algo: *const c_void, workspace: *mut c_void, workspace_bytes: usize,
                stream: Handle,
            ) -> i32, Matmul {
                dialect: Dialect::$dialect,
                handle,
                on: Arguments {
                    desc,
                    layouts: [a_layout, b_layout, c_layout, d_layout],
                    matrices: [a, b, c, d],
                    alpha,
                    beta,
                    compute: None,
                },
                workspace,
                workspace_bytes,
                stream,
            };
        )*}
    };
}

matmul! {
    cublasLtMatmul, Cuda;
    hipblasLtMatmul, Hip;
}

super::watch! {
    fn hipblasLtMatmulDescCreate(desc: *mut Handle, compute: i32, scale: i32) -> i32, || {
        // SAFETY: the library has just written it.
        COMPUTE_TYPES.set(unsafe { *desc } as usize, [compute as u64, 0]);
    };
    fn hipblasLtMatmulDescDestroy(desc: Handle) -> i32, || COMPUTE_TYPES.forget(desc as usize);
}
