//! rocBLAS's product by cuBLAS.

use super::Cuda;
use super::table::table;
use crate::abi::{Answer, read_at};
use crate::element::Element;
use crate::rocblas::{Arguments, INTERNAL_ERROR, INVALID_HANDLE, NOT_IMPLEMENTED};

/// The one solution that is listed, under a number as Tensile's have them: cuBLAS's own choice.
pub const ROCBLAS_INDEX: i32 = -1_000_001;

/// `rocblas_status` of a `cublasStatus_t`.
fn rocblas_status(status: i32) -> i32 {
    match status {
        1 => INVALID_HANDLE,
        3 => 5,
        7 => 11,
        8 => 15,
        15 => NOT_IMPLEMENTED,
        _ => INTERNAL_ERROR,
    }
}

table! {
    /// libcublas (`cublas_api.h`).
    Blas, rocblas_status;
    fn create = "cublasCreate_v2" (place: usize);
    fn destroy = "cublasDestroy_v2" (handle: usize);
    fn set_stream = "cublasSetStream_v2" (handle: usize, stream: usize);
    fn get_stream = "cublasGetStream_v2" (handle: usize, place: usize);
    fn set_workspace = "cublasSetWorkspace_v2" (handle: usize, workspace: usize, bytes: usize);
    fn gemm_batched = "cublasGemmStridedBatchedEx" (
        handle: usize, op_a: i32, op_b: i32, m: i32, n: i32, k: i32, alpha: usize, a: usize, a_type: i32, lda: i32,
        stride_a: i64, b: usize, b_type: i32, ldb: i32, stride_b: i64, beta: usize, c: usize, c_type: i32, ldc: i32,
        stride_c: i64, batch: i32, compute: i32, algo: i32,
    );
    fn gemm = "cublasGemmEx" (
        handle: usize, op_a: i32, op_b: i32, m: i32, n: i32, k: i32, alpha: usize, a: usize, a_type: i32, lda: i32,
        b: usize, b_type: i32, ldb: i32, beta: usize, c: usize, c_type: i32, ldc: i32, compute: i32, algo: i32,
    );
}

/// `CUBLAS_GEMM_DEFAULT`.
const ALGO_DEFAULT: i32 = -1;

impl Cuda {
    fn blas(&self) -> Result<&Blas, i32> {
        self.enter().map_err(|_| INTERNAL_ERROR)?;
        self.blas.as_ref().map_err(|_| INTERNAL_ERROR)
    }

    pub fn blas_create(&self) -> Result<usize, i32> {
        let mut handle = 0usize;
        self.blas()?.create(&raw mut handle as usize)?;
        Ok(handle)
    }

    pub fn blas_destroy(&self, handle: usize) -> Answer {
        self.blas()?.destroy(handle)
    }

    pub fn blas_set_stream(&self, handle: usize, stream: usize) -> Answer {
        self.blas()?.set_stream(handle, stream)
    }

    pub fn blas_set_workspace(&self, handle: usize, workspace: usize, bytes: usize) -> Answer {
        self.blas()?.set_workspace(handle, workspace, bytes)
    }

    /// cuBLAS has no D: what C holds is copied there first, where it counts.
    pub fn gemm(&self, handle: usize, arguments: &Arguments) -> Answer {
        let blas = self.blas()?;
        let Arguments { ops, sizes: [m, n, k], alpha, beta, operands, batch, compute } = *arguments;
        let [(a, a_type, lda, stride_a), (b, b_type, ldb, stride_b), c, d] = operands;
        if c != d {
            self.copy_c(blas, handle, arguments)?;
        }
        let compute = match Element::from_hip(compute) {
            Some(Element::F32) => 68,
            Some(Element::F64) => 70,
            _ => return Err(NOT_IMPLEMENTED),
        };
        let [op_a, op_b] = ops.map(|op| op - 111);
        let (d, d_type, ldd, stride_d) = d;
        match batch {
            1 => blas.gemm(
                handle,
                op_a,
                op_b,
                m,
                n,
                k,
                alpha,
                a,
                a_type,
                lda,
                b,
                b_type,
                ldb,
                beta,
                d,
                d_type,
                ldd,
                compute,
                ALGO_DEFAULT,
            ),
            _ => blas.gemm_batched(
                handle,
                op_a,
                op_b,
                m,
                n,
                k,
                alpha,
                a,
                a_type,
                lda,
                stride_a,
                b,
                b_type,
                ldb,
                stride_b,
                beta,
                d,
                d_type,
                ldd,
                stride_d,
                batch,
                compute,
                ALGO_DEFAULT,
            ),
        }
    }

    fn copy_c(&self, blas: &Blas, handle: usize, arguments: &Arguments) -> Answer {
        let [_, _, (c, c_type, ldc, stride_c), (d, d_type, ldd, stride_d)] = arguments.operands;
        let element = Element::from_hip(d_type).ok_or(NOT_IMPLEMENTED)?;
        let beta: f64 = match Element::from_hip(arguments.compute) {
            Some(Element::F64) => read_at(arguments.beta).unwrap_or(0.0),
            _ => read_at::<f32>(arguments.beta).unwrap_or(0.0).into(),
        };
        if beta == 0.0 || c == d {
            return Ok(());
        }
        if (c_type, ldc, stride_c) != (d_type, ldd, stride_d) {
            return Err(NOT_IMPLEMENTED);
        }
        let [m, n, _] = arguments.sizes.map(i64::from);
        let elements = i64::from(arguments.batch - 1) * stride_c + (n - 1).max(0) * i64::from(ldc) + m;
        let bytes = usize::try_from(elements).map_err(|_| NOT_IMPLEMENTED)? * element.bytes();
        let mut stream = 0usize;
        blas.get_stream(handle, &raw mut stream as usize)?;
        let driver = self.enter().map_err(|_| INTERNAL_ERROR)?;
        driver.memcpy_async(d, c, bytes, stream).map_err(|_| INTERNAL_ERROR)
    }
}
