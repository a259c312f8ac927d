//! The one place that every linear layer goes through.

use std::collections::BTreeMap;

use rayon::prelude::*;
use tgemm_db::DType;
use tgemm_kernels::{Operands, Stream};
use tgemm_lookup::dispatch::{DispatchError, Plan, TunedGemm};

use crate::Error;
use crate::model::{Linear, Model};
use crate::tensor::Tensor;

/// Computes linear layers.
pub trait Product {
    /// The element type in which activations arrive and outputs leave, in a model of type `model`.
    fn activations(&self, model: DType) -> DType {
        model
    }

    /// `out[M,N] = x[M,K] · w[N,K]ᵀ + bias[N]`, all packed, `x` and `out` of type [`Product::activations`].
    fn multiply(&mut self, linear: &Linear, m: u32, x: &Tensor, out: &mut Tensor) -> Result<(), Error>;
}

/// Products as an engine runs them: through dispatch, which runs the baseline where nothing is tuned.
pub struct Dispatched {
    gemm: TunedGemm,
    /// One a linear layer, by [`Linear::id`].
    plans: BTreeMap<usize, Plan>,
}

impl Dispatched {
    /// Runs through `gemm`; a clone of it tells what ran.
    pub fn new(gemm: &TunedGemm) -> Dispatched {
        Dispatched { gemm: gemm.clone(), plans: BTreeMap::new() }
    }

    /// Makes every linear layer of `model` ready: its head at M = `batch`, the others at `batch` and at
    /// `batch` x `prompt`. Nothing is packed on the way of a token then.
    pub fn warm(&mut self, model: &Model, batch: u32, prompt: u32) -> Result<(), DispatchError> {
        for linear in model.linears() {
            let plan = self.plans.entry(linear.id).or_insert_with(|| self.gemm.plan(linear.site));
            let weights = linear.weights.bytes().as_ptr().cast();
            // SAFETY: the weights are N x K elements of the site's type; whoever runs the plan passes the same ones.
            unsafe { plan.warm(batch, weights, Stream::DEFAULT) }?;
            if linear.id != model.head {
                // SAFETY: as above.
                unsafe { plan.warm(batch.saturating_mul(prompt), weights, Stream::DEFAULT) }?;
            }
        }
        Ok(())
    }
}

impl Product for Dispatched {
    fn multiply(&mut self, linear: &Linear, m: u32, x: &Tensor, out: &mut Tensor) -> Result<(), Error> {
        let site = &linear.site;
        check(linear, m, x, out);
        assert!(x.dtype() == site.x && out.dtype() == site.out, "activations of {} into {}", x.dtype(), linear.name);
        let plan = self.plans.entry(linear.id).or_insert_with(|| self.gemm.plan(*site));
        let io = Operands {
            x: x.bytes().as_ptr().cast(),
            w: linear.weights.bytes().as_ptr().cast(),
            bias: linear.bias.as_ref().map_or(std::ptr::null(), |bias| bias.bytes().as_ptr().cast()),
            out: out.bytes_mut().as_mut_ptr().cast(),
            ..Operands::default()
        };
        // SAFETY: sizes and types are checked above; the tensors outlive the launch, which on a CPU is over on return.
        unsafe { plan.run(m, &io, Stream::DEFAULT) }.map_err(Error::from)
    }
}

/// Products without rounding to speak of: f32 activations, weights as stored, sums in f64. The truth of a comparison.
#[derive(Default)]
pub struct Exact;

impl Product for Exact {
    fn activations(&self, _: DType) -> DType {
        DType::F32
    }

    fn multiply(&mut self, linear: &Linear, m: u32, x: &Tensor, out: &mut Tensor) -> Result<(), Error> {
        check(linear, m, x, out);
        let (m, n, k) = (m as usize, linear.site.n as usize, linear.site.k as usize);
        let mut wide_x = vec![0.0; m * k];
        x.widen(0, &mut wide_x);
        let mut bias = vec![0.0; n];
        if let Some(tensor) = &linear.bias {
            tensor.widen(0, &mut bias);
        }
        // Transposed, so that one thread writes one stretch: column by column of `out`.
        let mut columns = vec![0.0f32; n * m];
        columns.par_chunks_mut(m).enumerate().for_each_init(
            || vec![0.0; k],
            |row, (column, sums)| {
                linear.weights.widen(column * k, row);
                for (sum, x) in sums.iter_mut().zip(wide_x.chunks(k)) {
                    *sum = (dot(x, row) + f64::from(bias[column])) as f32;
                }
            },
        );
        let mut rows = vec![0.0; n];
        for row in 0..m {
            rows.iter_mut().enumerate().for_each(|(column, value)| *value = columns[column * m + row]);
            out.narrow(row * n, &rows);
        }
        Ok(())
    }
}

/// Inner product in f64, in eight partial sums so that the compiler may use vector registers.
fn dot(a: &[f32], b: &[f32]) -> f64 {
    const LANES: usize = 8;
    let mut sums = [0.0f64; LANES];
    for (a, b) in a.chunks(LANES).zip(b.chunks(LANES)) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += f64::from(*a) * f64::from(*b);
        }
    }
    sums.iter().sum()
}

/// Every size is what the site says: a decoder that got this wrong would hand out wild pointers.
fn check(linear: &Linear, m: u32, x: &Tensor, out: &Tensor) {
    let (m, n, k) = (m as usize, linear.site.n as usize, linear.site.k as usize);
    let sizes = (x.elements(), out.elements(), linear.weights.elements());
    assert_eq!(sizes, (m * k, m * n, n * k), "operands of {} at M = {m}", linear.name);
    assert_eq!(linear.bias.as_ref().map(Tensor::elements), linear.site.bias.map(|_| n), "bias of {}", linear.name);
}
