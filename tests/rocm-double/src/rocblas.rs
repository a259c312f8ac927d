//! librocblas: `rocblas_gemm_ex`, its batched form and the lists of solutions, as in `rocblas-functions.h` and
//! `rocblas-beta.h`.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::abi::{Answer, Out, answer, exports, write_bytes};
use crate::element::Element;
use crate::gemm::{Activation, Factor, Gemm, Matrix, Scale};
use crate::host::{GemmWork, Refused};
use crate::state::Double;

/// `rocblas_status`.
pub const INVALID_HANDLE: i32 = 1;
pub const NOT_IMPLEMENTED: i32 = 2;
const INVALID_POINTER: i32 = 3;
const INVALID_SIZE: i32 = 4;
pub const INTERNAL_ERROR: i32 = 6;
const INVALID_VALUE: i32 = 11;

/// `rocblas_gemm_flags_check_solution_index`.
const FLAG_CHECK_SOLUTION_INDEX: u32 = 8;

/// What a handle holds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Handle {
    pub stream: usize,
    /// Factors on the device.
    pub is_device_mode: bool,
    atomics: i32,
    workspace: (usize, usize),
    /// The handle of the library behind it, in CUDA mode.
    pub behind: usize,
}

static HANDLES: LazyLock<Mutex<HashMap<usize, Handle>>> = LazyLock::new(Mutex::default);

/// Looks at a handle, or changes it.
pub fn with_handle<R>(handle: usize, body: impl FnOnce(&mut Handle) -> R) -> Result<R, i32> {
    let mut handles = HANDLES.lock().unwrap_or_else(PoisonError::into_inner);
    handles.get_mut(&handle).map(body).ok_or(INVALID_HANDLE)
}

/// A new handle.
pub fn create_handle(double: &Double) -> Result<usize, i32> {
    let behind = double.host().map_or_else(|cuda| cuda.blas_create(), |_| Ok(0))?;
    let mut handles = HANDLES.lock().unwrap_or_else(PoisonError::into_inner);
    let handle = 0x10 + handles.keys().max().copied().unwrap_or(0);
    // Atomics were allowed by default before ROCm 7.
    let atomics = i32::from(double.versions.generation < 7);
    handles.insert(handle, Handle { behind, atomics, ..Handle::default() });
    Ok(handle)
}

/// Ends one.
pub fn destroy_handle(double: &Double, handle: usize) -> Answer {
    let behind = with_handle(handle, |handle| handle.behind)?;
    if let Err(cuda) = double.host() {
        cuda.blas_destroy(behind)?;
    }
    HANDLES.lock().unwrap_or_else(PoisonError::into_inner).remove(&handle);
    Ok(())
}

/// The arguments of a product.
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    pub ops: [i32; 2],
    pub sizes: [i32; 3],
    pub alpha: usize,
    pub beta: usize,
    /// A, B, C, D: (address, type, ld, stride), types by their `hipDataType`.
    pub operands: [(usize, i32, i32, i64); 4],
    pub batch: i32,
    /// `hipDataType` of sums and factors.
    pub compute: i32,
}

impl Arguments {
    fn gemm(&self, double: &Double, is_device_mode: bool) -> Result<Gemm, i32> {
        let transposed = |op: i32| match op {
            111 => Ok(false),
            112 | 113 => Ok(true),
            _ => Err(INVALID_VALUE),
        };
        let [trans_a, trans_b] = [transposed(self.ops[0])?, transposed(self.ops[1])?];
        let [Ok(m), Ok(n), Ok(k)] = self.sizes.map(usize::try_from) else { return Err(INVALID_SIZE) };
        let shapes = [if trans_a { (k, m) } else { (m, k) }, if trans_b { (n, k) } else { (k, n) }, (m, n), (m, n)];
        let matrix = |at: usize| -> Result<Matrix, i32> {
            let (address, number, ld, stride) = self.operands[at];
            let element = Element::from_hip(number).ok_or(NOT_IMPLEMENTED)?;
            let (Ok(ld), Ok(stride)) = (usize::try_from(ld), usize::try_from(stride)) else { return Err(INVALID_SIZE) };
            Ok(Matrix { address, element, rows: shapes[at].0, cols: shapes[at].1, ld, stride })
        };
        let element = Element::from_hip(self.compute).ok_or(NOT_IMPLEMENTED)?;
        let factor = |address: usize, default: f64| match address {
            0 => Factor::of(default),
            _ if is_device_mode => Factor::At(address, element),
            _ => Factor::of(Factor::At(address, element).value()),
        };
        let gemm = Gemm {
            trans_a,
            trans_b,
            m,
            n,
            k,
            batch: usize::try_from(self.batch).map_err(|_| INVALID_SIZE)?,
            a: matrix(0)?,
            b: matrix(1)?,
            c: matrix(2)?,
            d: matrix(3)?,
            alpha: factor(self.alpha, 1.0),
            beta: factor(self.beta, 0.0),
            activation: Activation::None,
            bias: None,
            scale_a: Scale::None,
            scale_b: Scale::None,
            scale_d: None,
        };
        if !gemm.is_consistent() {
            return Err(INVALID_SIZE);
        }
        let sums = if gemm.a.element == Element::F64 { Element::F64 } else { Element::F32 };
        let typed = !gemm.a.element.is_fp8() && gemm.is_typed_for(&double.script.device.arch);
        if typed && element == sums { Ok(gemm) } else { Err(NOT_IMPLEMENTED) }
    }
}

/// Runs a product by `algo` (standard 0, by index 1) and `index`.
pub fn run(
    double: &Double,
    library: &'static str,
    handle: usize,
    arguments: &Arguments,
    algo: i32,
    index: i32,
    flags: u32,
) -> Answer {
    let state = with_handle(handle, |handle| *handle)?;
    if let Err(cuda) = double.host() {
        let known = algo == 0 || index == 0 || index == crate::cuda::ROCBLAS_INDEX;
        return match () {
            () if !known => Err(INVALID_VALUE),
            () if flags & FLAG_CHECK_SOLUTION_INDEX != 0 => Ok(()),
            () => cuda.gemm(state.behind, arguments),
        };
    }
    let gemm = arguments.gemm(double, state.is_device_mode)?;
    let index = if algo == 1 { index } else { 0 };
    let found = double.solutions.rocblas_of_index(&gemm, &double.script.device, index);
    let (index, solution) = found.ok_or(if index == 0 { NOT_IMPLEMENTED } else { INVALID_VALUE })?;
    if flags & FLAG_CHECK_SOLUTION_INDEX != 0 {
        return Ok(());
    }
    if [arguments.alpha, arguments.beta, gemm.a.address, gemm.b.address, gemm.d.address].contains(&0) {
        return Err(INVALID_POINTER);
    }
    let (workspace, bytes) = state.workspace;
    // rocBLAS has scratch memory of its own where the caller gave none.
    let workspace_bytes = if bytes == 0 { solution.workspace_bytes(&gemm) } else { bytes as u64 };
    if solution.workspace_bytes(&gemm) > workspace_bytes {
        return Err(INTERNAL_ERROR);
    }
    let work = GemmWork { library, index, solution, gemm, workspace };
    let Ok(mut host) = double.host() else { return Err(INTERNAL_ERROR) };
    host.enqueue_gemm(state.stream, work).map_err(|refused| match refused {
        Refused::Status(status) => status,
        Refused::Failed => INTERNAL_ERROR,
    })
}

/// Writes the list of indices, or only its length where there is no list.
fn list(double: &Double, handle: usize, arguments: &Arguments, list: &Out<i32>, size: &Out<i32>) -> Answer {
    with_handle(handle, |_| ())?;
    let room = size.get().ok_or(INVALID_POINTER)?;
    let indices: Vec<i32> = match double.host() {
        Ok(_) => {
            let gemm = arguments.gemm(double, false)?;
            double.solutions.rocblas_listed(&gemm).into_iter().map(|(index, _)| index).collect()
        }
        Err(_) => vec![crate::cuda::ROCBLAS_INDEX],
    };
    if list.is_null() {
        size.put(indices.len() as i32 + double.script.rocblas_overstates as i32);
        return Ok(());
    }
    for (at, index) in indices.iter().take(usize::try_from(room).unwrap_or(0)).enumerate() {
        list.put_at(at, *index);
    }
    Ok(())
}

fn hip_type(number: i32) -> i32 {
    Element::from_rocblas(number).map_or(255, Element::hip)
}

fn rocblas_call(body: impl FnOnce(&'static Double) -> Answer) -> i32 {
    answer(INTERNAL_ERROR, INVALID_HANDLE, body)
}

exports! { rocblas_call;
    fn rocblas_create_handle(place: Out<usize>) |double| {
        if place.is_null() {
            return Err(INVALID_HANDLE);
        }
        place.put(create_handle(double)?);
        Ok(())
    }

    fn rocblas_destroy_handle(handle: usize) |double| { destroy_handle(double, handle) }

    fn rocblas_set_stream(handle: usize, stream: usize) |double| {
        let behind = with_handle(handle, |handle| {
            handle.stream = stream;
            handle.behind
        })?;
        double.host().map_or_else(|cuda| cuda.blas_set_stream(behind, stream), |_| Ok(()))
    }

    fn rocblas_get_stream(handle: usize, place: Out<usize>) |_double| {
        let stream = with_handle(handle, |handle| handle.stream)?;
        if place.put(stream) { Ok(()) } else { Err(INVALID_POINTER) }
    }

    fn rocblas_set_workspace(handle: usize, workspace: usize, bytes: usize) |double| {
        let behind = with_handle(handle, |handle| {
            handle.workspace = (workspace, bytes);
            handle.behind
        })?;
        double.host().map_or_else(|cuda| cuda.blas_set_workspace(behind, workspace, bytes), |_| Ok(()))
    }

    fn rocblas_set_pointer_mode(handle: usize, mode: i32) |_double| {
        with_handle(handle, |handle| handle.is_device_mode = mode == 1)
    }

    fn rocblas_get_pointer_mode(handle: usize, place: Out<i32>) |_double| {
        let is_device_mode = with_handle(handle, |handle| handle.is_device_mode)?;
        if place.put(is_device_mode.into()) { Ok(()) } else { Err(INVALID_POINTER) }
    }

    fn rocblas_set_atomics_mode(handle: usize, mode: i32) |_double| {
        with_handle(handle, |handle| handle.atomics = mode)
    }

    fn rocblas_get_atomics_mode(handle: usize, place: Out<i32>) |_double| {
        let mode = with_handle(handle, |handle| handle.atomics)?;
        if place.put(mode) { Ok(()) } else { Err(INVALID_POINTER) }
    }

    fn rocblas_get_version_string_size(place: Out<usize>) |double| {
        if place.put(version(double).len() + 1) { Ok(()) } else { Err(INVALID_POINTER) }
    }

    fn rocblas_get_version_string(text: usize, bytes: usize) |double| {
        let version = version(double);
        if text == 0 || bytes <= version.len() {
            return Err(INVALID_SIZE);
        }
        write_bytes(text, format!("{version}\0").as_bytes());
        Ok(())
    }

    fn rocblas_gemm_ex(
        handle: usize, op_a: i32, op_b: i32, m: i32, n: i32, k: i32, alpha: usize, a: usize, a_type: i32, lda: i32,
        b: usize, b_type: i32, ldb: i32, beta: usize, c: usize, c_type: i32, ldc: i32, d: usize, d_type: i32, ldd: i32,
        compute: i32, algo: i32, index: i32, flags: u32,
    ) |double| {
        let operands = [(a, a_type, lda, 0), (b, b_type, ldb, 0), (c, c_type, ldc, 0), (d, d_type, ldd, 0)];
        let arguments = arguments([op_a, op_b], [m, n, k], [alpha, beta], operands, 1, compute);
        run(double, "rocblas", handle, &arguments, algo, index, flags)
    }

    fn rocblas_gemm_strided_batched_ex(
        handle: usize, op_a: i32, op_b: i32, m: i32, n: i32, k: i32, alpha: usize, a: usize, a_type: i32, lda: i32,
        stride_a: i64, b: usize, b_type: i32, ldb: i32, stride_b: i64, beta: usize, c: usize, c_type: i32, ldc: i32,
        stride_c: i64, d: usize, d_type: i32, ldd: i32, stride_d: i64, batch: i32, compute: i32, algo: i32, index: i32,
        flags: u32,
    ) |double| {
        let ab = [(a, a_type, lda, stride_a), (b, b_type, ldb, stride_b)];
        let operands = [ab[0], ab[1], (c, c_type, ldc, stride_c), (d, d_type, ldd, stride_d)];
        let arguments = arguments([op_a, op_b], [m, n, k], [alpha, beta], operands, batch, compute);
        run(double, "rocblas", handle, &arguments, algo, index, flags)
    }

    fn rocblas_gemm_ex_get_solutions(
        handle: usize, op_a: i32, op_b: i32, m: i32, n: i32, k: i32, alpha: usize, a: usize, a_type: i32, lda: i32,
        b: usize, b_type: i32, ldb: i32, beta: usize, c: usize, c_type: i32, ldc: i32, d: usize, d_type: i32, ldd: i32,
        compute: i32, _algo: i32, _flags: u32, indices: Out<i32>, size: Out<i32>,
    ) |double| {
        let operands = [(a, a_type, lda, 0), (b, b_type, ldb, 0), (c, c_type, ldc, 0), (d, d_type, ldd, 0)];
        let arguments = arguments([op_a, op_b], [m, n, k], [alpha, beta], operands, 1, compute);
        list(double, handle, &arguments, &indices, &size)
    }

    fn rocblas_gemm_strided_batched_ex_get_solutions(
        handle: usize, op_a: i32, op_b: i32, m: i32, n: i32, k: i32, alpha: usize, a: usize, a_type: i32, lda: i32,
        stride_a: i64, b: usize, b_type: i32, ldb: i32, stride_b: i64, beta: usize, c: usize, c_type: i32, ldc: i32,
        stride_c: i64, d: usize, d_type: i32, ldd: i32, stride_d: i64, batch: i32, compute: i32, _algo: i32, _flags: u32,
        indices: Out<i32>, size: Out<i32>,
    ) |double| {
        let ab = [(a, a_type, lda, stride_a), (b, b_type, ldb, stride_b)];
        let operands = [ab[0], ab[1], (c, c_type, ldc, stride_c), (d, d_type, ldd, stride_d)];
        let arguments = arguments([op_a, op_b], [m, n, k], [alpha, beta], operands, batch, compute);
        list(double, handle, &arguments, &indices, &size)
    }

    fn rocblas_gemm_ex_get_solutions_by_type(
        handle: usize, input: i32, output: i32, compute: i32, _flags: u32, indices: Out<i32>, size: Out<i32>,
    ) |double| {
        // A shape that no range of a script is meant to leave out.
        let (side, at) = (1024, |number: i32| (0, number, 1024, 0));
        let operands = [at(input), at(input), at(output), at(output)];
        let arguments = arguments([112, 111], [side, side, side], [0, 0], operands, 1, compute);
        list(double, handle, &arguments, &indices, &size)
    }
}

fn version(double: &Double) -> String {
    format!("{}.{}", double.versions.rocblas, double.revision)
}

fn arguments(
    ops: [i32; 2],
    sizes: [i32; 3],
    factors: [usize; 2],
    operands: [(usize, i32, i32, i64); 4],
    batch: i32,
    compute: i32,
) -> Arguments {
    let operands = operands.map(|(address, number, ld, stride)| (address, hip_type(number), ld, stride));
    let [alpha, beta] = factors;
    Arguments { ops, sizes, alpha, beta, operands, batch, compute: hip_type(compute) }
}
