//! Aligned memory of one element type, and its way from and to f32.

use bytemuck::{Pod, Zeroable};
use half::slice::HalfFloatSliceExt as _;
use half::{bf16, f16};
use tgemm_db::DType;

use crate::Error;

/// One cache line: vector kernels want their operands to start at one.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Elements of f32, f16 or bf16, packed, from a cache line on.
#[derive(Clone)]
pub struct Tensor {
    dtype: DType,
    elements: usize,
    lines: Vec<Line>,
}

impl Tensor {
    /// `elements` zeros.
    pub fn zeros(dtype: DType, elements: usize) -> Result<Tensor, Error> {
        if !matches!(dtype, DType::F32 | DType::F16 | DType::Bf16) {
            return Err(Error::DType(dtype));
        }
        let mut tensor = Tensor { dtype, elements: 0, lines: Vec::new() };
        tensor.resize(elements);
        Ok(tensor)
    }

    /// Changes the number of elements; what they hold is not said. Memory is kept when it shrinks.
    pub fn resize(&mut self, elements: usize) {
        self.elements = elements;
        let bytes = elements * self.element_bytes();
        self.lines.resize(bytes.div_ceil(64), Line([0; 64]));
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.elements
    }

    fn element_bytes(&self) -> usize {
        if self.dtype == DType::F32 { 4 } else { 2 }
    }

    /// The elements' bytes.
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.elements * self.element_bytes()]
    }

    /// The elements' bytes, to write to.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = self.elements * self.element_bytes();
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..bytes]
    }

    /// Copies `wide.len()` elements from `offset` on into f32.
    pub fn widen(&self, offset: usize, wide: &mut [f32]) {
        widen(self.dtype, &self.bytes()[offset * self.element_bytes()..], wide);
    }

    /// Rounds `wide` to the element type, to nearest, ties to even, and stores it from `offset` on.
    pub fn narrow(&mut self, offset: usize, wide: &[f32]) {
        let (dtype, start) = (self.dtype, offset * self.element_bytes());
        narrow(dtype, &mut self.bytes_mut()[start..], wide);
    }
}

/// Reads `wide.len()` elements from the start of `bytes`.
fn widen(dtype: DType, bytes: &[u8], wide: &mut [f32]) {
    match dtype {
        DType::F16 => bytemuck::cast_slice::<u8, f16>(&bytes[..2 * wide.len()]).convert_to_f32_slice(wide),
        DType::Bf16 => bytemuck::cast_slice::<u8, bf16>(&bytes[..2 * wide.len()]).convert_to_f32_slice(wide),
        // `Tensor::zeros` lets no fourth type in.
        _ => wide.copy_from_slice(bytemuck::cast_slice(&bytes[..4 * wide.len()])),
    }
}

/// Writes `wide` to the start of `bytes`, rounded.
pub(crate) fn narrow(dtype: DType, bytes: &mut [u8], wide: &[f32]) {
    match dtype {
        DType::F16 => bytemuck::cast_slice_mut::<u8, f16>(&mut bytes[..2 * wide.len()]).convert_from_f32_slice(wide),
        DType::Bf16 => bytemuck::cast_slice_mut::<u8, bf16>(&mut bytes[..2 * wide.len()]).convert_from_f32_slice(wide),
        // `Tensor::zeros` lets no fourth type in.
        _ => bytemuck::cast_slice_mut(&mut bytes[..4 * wide.len()]).copy_from_slice(wide),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_round_once_and_come_back() {
        let values: Vec<f32> = (0..37).map(|i| (i as f32 - 18.0) * 0.123).collect();
        for (dtype, roundoff) in [(DType::F32, 0.0), (DType::F16, 2f32.powi(-11)), (DType::Bf16, 2f32.powi(-8))] {
            let mut tensor = Tensor::zeros(dtype, 40).unwrap();
            assert_eq!(tensor.bytes().as_ptr().align_offset(64), 0);
            tensor.narrow(3, &values);
            let mut back = vec![0.0; 37];
            tensor.widen(3, &mut back);
            for (have, want) in back.iter().zip(&values) {
                assert!((have - want).abs() <= roundoff * want.abs(), "{dtype}: {have} for {want}");
            }
            tensor.resize(1);
            assert_eq!(tensor.bytes().len() as u64, dtype.bytes(1));
        }
        assert!(matches!(Tensor::zeros(DType::I8, 1), Err(Error::DType(DType::I8))));
    }
}
