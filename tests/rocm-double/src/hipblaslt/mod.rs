//! libhipblaslt: C calls as in `hipblaslt.h`, and the calls of `hipblaslt-ext.hpp` that plain pointers can cross.

mod ext;
mod matmul;
pub mod object;

use crate::abi::{Answer, answer};
use crate::element::Element;
use crate::gemm::{Activation, Factor, Gemm, Matrix, Scale};
use crate::state::Double;
use object::{Object, desc, layout};

/// `hipblasStatus_t`.
pub const NOT_INITIALIZED: i32 = 1;
pub const ALLOC_FAILED: i32 = 2;
pub const INVALID_VALUE: i32 = 3;
pub const EXECUTION_FAILED: i32 = 5;
pub const INTERNAL_ERROR: i32 = 6;
pub const NOT_SUPPORTED: i32 = 7;

pub fn blas_call(body: impl FnOnce(&'static Double) -> Answer) -> i32 {
    answer(INTERNAL_ERROR, NOT_INITIALIZED, body)
}

/// `hipblasLtMatmulAlgo_t` as the library sees it: the index, a fallback flag at byte 8, the workspace from byte 9 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Algo {
    pub index: i32,
    pub workspace_bytes: u64,
}

impl Algo {
    pub fn bytes(self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..4].copy_from_slice(&self.index.to_ne_bytes());
        bytes[9..17].copy_from_slice(&self.workspace_bytes.to_ne_bytes());
        bytes
    }
}

/// `hipblasLtMatmulHeuristicResult_t`: the algorithm, the workspace at 24, the state at 32, waves at 36.
pub fn result_bytes(algo: Algo, workspace_bytes: u64, waves: f32) -> [u8; 56] {
    let mut bytes = [0; 56];
    bytes[..24].copy_from_slice(&algo.bytes());
    bytes[24..32].copy_from_slice(&workspace_bytes.to_ne_bytes());
    bytes[36..40].copy_from_slice(&waves.to_ne_bytes());
    bytes
}

/// A product as the call describes it.
#[derive(Clone, Debug)]
pub struct Description {
    pub desc: Object,
    /// A, B, C, D.
    pub layouts: [Object; 4],
    /// Their addresses; 0 where only a description is asked about.
    pub addresses: [usize; 4],
    /// Addresses of the factors; 0: 1 and 0.
    pub alpha: usize,
    pub beta: usize,
}

impl Description {
    /// What the library makes of it on the host.
    pub fn gemm(&self, double: &Double) -> Result<Gemm, i32> {
        let compute = self.compute_element()?;
        let layout = |at: usize| -> Result<Matrix, i32> {
            let layout = &self.layouts[at];
            if layout.get(layout::ORDER) != 0 {
                return Err(NOT_SUPPORTED);
            }
            let positive = |attribute: i32| usize::try_from(layout.get(attribute)).map_err(|_| INVALID_VALUE);
            Ok(Matrix {
                address: self.addresses[at],
                element: Element::from_hip(layout.get(layout::TYPE) as i32).ok_or(NOT_SUPPORTED)?,
                rows: positive(layout::ROWS)?,
                cols: positive(layout::COLS)?,
                ld: positive(layout::LD)?,
                stride: positive(layout::STRIDED_BATCH_OFFSET)?,
            })
        };
        let [a, b, c, d] = [layout(0)?, layout(1)?, layout(2)?, layout(3)?];
        let [batch, others @ ..] = [3, 0, 1, 2].map(|at| self.layouts[at].get(layout::BATCH_COUNT));
        let (trans_a, trans_b) = (self.is_transposed(desc::TRANSA)?, self.is_transposed(desc::TRANSB)?);
        let (activation, has_bias) = self.epilogue()?;
        let gemm = Gemm {
            trans_a,
            trans_b,
            m: d.rows,
            n: d.cols,
            k: if trans_a { a.rows } else { a.cols },
            batch: usize::try_from(batch).map_err(|_| INVALID_VALUE)?,
            alpha: self.factor(self.alpha, 1.0, compute)?,
            beta: self.factor(self.beta, 0.0, compute)?,
            activation,
            bias: if has_bias { Some(self.bias(d.element)?) } else { None },
            scale_a: self.scale(double, desc::A_SCALE_POINTER, desc::A_SCALE_MODE, desc::EXT_102)?,
            scale_b: self.scale(double, desc::B_SCALE_POINTER, desc::B_SCALE_MODE, desc::EXT_103)?,
            scale_d: Some(self.desc.get(desc::D_SCALE_POINTER) as usize).filter(|address| *address != 0),
            a,
            b,
            c,
            d,
        };
        if others.into_iter().any(|other| other != batch) || !gemm.is_consistent() {
            return Err(INVALID_VALUE);
        }
        let is_double = gemm.a.element == Element::F64;
        if !gemm.is_typed_for(&double.script.device.arch) || is_double != (compute == Element::F64) {
            return Err(NOT_SUPPORTED);
        }
        Ok(gemm)
    }

    /// The type of sums and factors. 32F 2, pedantic 3, fast 4–6; 64F 7, pedantic 8 (`hipblasComputeType_t`).
    fn compute_element(&self) -> Result<Element, i32> {
        let element = match self.desc.get(desc::COMPUTE) {
            2..=6 => Element::F32,
            7 | 8 => Element::F64,
            _ => return Err(NOT_SUPPORTED),
        };
        if Element::from_hip(self.desc.get(desc::SCALE_TYPE) as i32) != Some(element) {
            return Err(NOT_SUPPORTED);
        }
        Ok(element)
    }

    /// `hipblasOperation_t`.
    fn is_transposed(&self, attribute: i32) -> Result<bool, i32> {
        match self.desc.get(attribute) {
            111 => Ok(false),
            112 | 113 => Ok(true),
            _ => Err(INVALID_VALUE),
        }
    }

    /// `hipblasLtEpilogue_t`: an activation, and 4 for a bias.
    fn epilogue(&self) -> Result<(Activation, bool), i32> {
        let epilogue = self.desc.get(desc::EPILOGUE);
        let activation = match epilogue & !4 {
            // DEFAULT is 1, a bias alone 4.
            1 if epilogue == 1 => Activation::None,
            0 if epilogue == 4 => Activation::None,
            2 => Activation::Relu,
            32 => Activation::Gelu,
            1024 => Activation::Sigmoid,
            65536 => Activation::Swish,
            _ => return Err(NOT_SUPPORTED),
        };
        Ok((activation, epilogue & 4 != 0))
    }

    fn bias(&self, output: Element) -> Result<(usize, Element), i32> {
        let address = self.desc.get(desc::BIAS_POINTER) as usize;
        let element = match self.desc.find(desc::BIAS_DATA_TYPE) {
            Some(number) => Element::from_hip(number as i32).ok_or(NOT_SUPPORTED)?,
            None if output.is_fp8() => Element::F16,
            None => output,
        };
        Ok((address, element))
    }

    /// `hipblasLtPointerMode_t`: factors on the host 0, on the device 1.
    fn factor(&self, address: usize, default: f64, element: Element) -> Result<Factor, i32> {
        match self.desc.get(desc::POINTER_MODE) {
            _ if address == 0 => Ok(Factor::of(default)),
            0 => Ok(Factor::of(Factor::At(address, element).value())),
            1 => Ok(Factor::At(address, element)),
            _ => Err(NOT_SUPPORTED),
        }
    }

    fn scale(&self, double: &Double, pointer: i32, mode: i32, ext: i32) -> Result<Scale, i32> {
        let (address, mode) = (self.desc.get(pointer) as usize, self.desc.get(mode));
        let vector = self.desc.get(ext) as usize;
        // Before ROCm 7 the number that is an activation's argument today was a vector of scales.
        if double.versions.generation < 7 && vector != 0 {
            return Ok(Scale::Outer(vector));
        }
        match (mode, address) {
            (_, 0) => Ok(Scale::None),
            (0, _) => Ok(Scale::Tensor(address)),
            (3, _) => Ok(Scale::Outer(address)),
            _ => Err(NOT_SUPPORTED),
        }
    }
}
