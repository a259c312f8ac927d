//! hipBLASLt and cuBLASLt: what a product is stands in its descriptors, which are read back from the library at each call.
//!
//! Descriptors are opaque, and hosts make and free them as they please, so nothing is kept about them but the one thing that
//! hipBLASLt does not tell: the type of the sums that a descriptor was made with.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use tgemm_db::Via;
use tgemm_vendor::gpu::blaslt::Table;
use tgemm_vendor::gpu::blaslt::read::Arguments;
use tgemm_vendor::gpu::{Dialect, Handle};
use tgemm_vendor::load::{self, Candidate};

use super::gpu::capture_of;
use super::{cublas, hook};
use crate::captures;
use crate::real::{self, Real};
use crate::seen::{self, Seen};
use crate::shadow::Shadow;
use crate::state::Shim;

/// `hipblasComputeType_t` by hipBLASLt descriptor.
static COMPUTE_TYPES: Shadow = Shadow::new();

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

fn look(
    shim: &'static Shim,
    real: &Real,
    (dialect, handle): (Dialect, Handle),
    on: &Arguments,
    workspace_bytes: usize,
    stream: usize,
) -> Option<Seen> {
    let table = table(dialect, real)?;
    // SAFETY: the caller's own descriptors and factors, as the library takes them.
    let asked = unsafe { table.read(dialect, on) };
    let library = real.library(|at| match dialect {
        Dialect::Cuda => cublas::version(at, c"cublasLtGetProperty"),
        Dialect::Hip => hip_version(at, handle),
    });
    let capture = if captures::any() { capture_of(dialect, stream) } else { None };
    let call = asked.ok().map(|asked| asked.call);
    seen::look(shim, call, Via::LtMatmul, Some(workspace_bytes as u64), library, capture)
}

macro_rules! matmul {
    ($($name:ident, $dialect:ident, $compute:expr;)*) => {
        hook! {$(
            fn $name(
                handle: Handle, desc: Handle, alpha: *const c_void, a: *const c_void, a_layout: Handle,
                b: *const c_void, b_layout: Handle, beta: *const c_void, c: *const c_void, c_layout: Handle,
                d: *mut c_void, d_layout: Handle, algo: *const c_void, workspace: *mut c_void, workspace_bytes: usize,
                stream: Handle,
            ) -> i32, |shim, real| {
                let on = Arguments {
                    desc,
                    layouts: [a_layout, b_layout, c_layout, d_layout],
                    matrices: [a, b, c, d],
                    alpha,
                    beta,
                    compute: $compute(desc),
                };
                look(shim, real, (Dialect::$dialect, handle), &on, workspace_bytes, stream as usize)
            };
        )*}
    };
}

matmul! {
    cublasLtMatmul, Cuda, |_: Handle| None;
    hipblasLtMatmul, Hip, |desc: Handle| COMPUTE_TYPES.get(desc as usize).map(|number| number as i32);
}

super::watch! {
    fn hipblasLtMatmulDescCreate(desc: *mut Handle, compute: i32, scale: i32) -> i32, || {
        // SAFETY: the library has just written it.
        COMPUTE_TYPES.set(unsafe { *desc } as usize, compute as u32);
    };
    fn hipblasLtMatmulDescDestroy(desc: Handle) -> i32, || COMPUTE_TYPES.forget(desc as usize);
}
