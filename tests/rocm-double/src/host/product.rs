//! The arithmetic of a product on the host.

use super::memory::bytes_at;
use crate::element::Element;
use crate::gemm::{Activation, Gemm, Matrix, Scale};

/// A type that sums are made in.
trait Sum: Copy {
    fn from_f64(value: f64) -> Self;
    fn dot(x: &[Self], y: &[Self]) -> f64;
}

impl Sum for f32 {
    fn from_f64(value: f64) -> f32 {
        value as f32
    }

    fn dot(x: &[f32], y: &[f32]) -> f64 {
        // Independent lanes: vectorised, and a smaller error than one running sum.
        const LANES: usize = 16;
        let mut lanes = [0f32; LANES];
        let (xs, ys) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
        let rest: f32 = xs.remainder().iter().zip(ys.remainder()).map(|(x, y)| x * y).sum();
        for (x, y) in xs.zip(ys) {
            for lane in 0..LANES {
                lanes[lane] += x[lane] * y[lane];
            }
        }
        f64::from(lanes.iter().sum::<f32>() + rest)
    }
}

impl Sum for f64 {
    fn from_f64(value: f64) -> f64 {
        value
    }

    fn dot(x: &[f64], y: &[f64]) -> f64 {
        x.iter().zip(y).map(|(x, y)| x * y).sum()
    }
}

/// `vectors` of `k` numbers each: the rows of op(A), or the columns of op(B). `along` says whether a vector lies along the
/// columns of the matrix as stored.
fn packed<S: Sum>(matrix: &Matrix, batch: usize, vectors: usize, k: usize, along: bool) -> Vec<S> {
    let element = matrix.element;
    let size = element.bytes();
    let table: Vec<S> = match element.is_fp8() {
        true => (0..=255u8).map(|code| S::from_f64(element.decode(&[code]))).collect(),
        false => Vec::new(),
    };
    let bytes = bytes_at(matrix.address, matrix.span_bytes(batch + 1));
    let first = batch * matrix.stride;
    let mut packed = Vec::with_capacity(vectors * k);
    for vector in 0..vectors {
        for at in 0..k {
            let (row, col) = if along { (at, vector) } else { (vector, at) };
            let from = (first + col * matrix.ld + row) * size;
            let bytes = &bytes[from..from + size];
            packed.push(if table.is_empty() { S::from_f64(element.decode(bytes)) } else { table[bytes[0] as usize] });
        }
    }
    packed
}

fn activated(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::None => x,
        // Not `max`, which would make a number of NaN.
        Activation::Relu => {
            if x < 0.0 {
                0.0
            } else {
                x
            }
        }
        // The tanh form, as both vendors' libraries compute it.
        Activation::Gelu => 0.5 * x * (1.0 + (0.797_884_560_802_865_4 * (x + 0.044715 * x * x * x)).tanh()),
        Activation::Swish => x / (1.0 + (-x).exp()),
        Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
    }
}

fn scale(scale: Scale, at: usize) -> f64 {
    let read = |address: usize| Element::F32.decode(bytes_at(address, 4));
    match scale {
        Scale::None => 1.0,
        Scale::Tensor(address) => read(address),
        Scale::Outer(address) => read(address + 4 * at),
    }
}

/// Computes matrix `batch` of `gemm`, summing over the first `k` of its `gemm.k`; column by column.
fn compute_as<S: Sum>(gemm: &Gemm, batch: usize, k: usize) -> Vec<f64> {
    let a: Vec<S> = packed(&gemm.a, batch, gemm.m, k, gemm.trans_a);
    let b: Vec<S> = packed(&gemm.b, batch, gemm.n, k, !gemm.trans_b);
    let (alpha, beta) = (gemm.alpha.value(), gemm.beta.value());
    let c_size = gemm.c.element.bytes();
    let scale_d = gemm.scale_d.map_or(1.0, |address| scale(Scale::Tensor(address), 0));
    let mut values = Vec::with_capacity(gemm.m * gemm.n);
    for col in 0..gemm.n {
        let b_scale = scale(gemm.scale_b, col);
        for row in 0..gemm.m {
            let sum = S::dot(&a[row * k..row * k + k], &b[col * k..col * k + k]);
            let mut value = alpha * scale(gemm.scale_a, row) * b_scale * sum;
            // beta 0 does not read C: it may hold anything, NaN too.
            if beta != 0.0 {
                let at = (batch * gemm.c.stride + col * gemm.c.ld + row) * c_size;
                value += beta * gemm.c.element.decode(bytes_at(gemm.c.address + at, c_size));
            }
            if let Some((address, element)) = gemm.bias {
                value += element.decode(bytes_at(address + row * element.bytes(), element.bytes()));
            }
            values.push(scale_d * activated(gemm.activation, value));
        }
    }
    values
}

/// The values of matrix `batch` of D, column by column, packed; `k` may be less than `gemm.k`.
pub fn compute(gemm: &Gemm, batch: usize, k: usize) -> Vec<f64> {
    match gemm.a.element {
        Element::F64 => compute_as::<f64>(gemm, batch, k),
        _ => compute_as::<f32>(gemm, batch, k),
    }
}
