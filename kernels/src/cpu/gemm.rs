//! The `gemm` crate: f32, and f16 with f32 sums. What candle and other Rust engines call, hence a baseline.
//!
//! The crate has no bf16: engines on it refuse bf16 products, and their users load bf16 weights as f32.
//! [`super::widen`] offers that, and names it `gemm f32 weights`.

use std::sync::Arc;

use half::f16;
use tgemm_db::{Build, DType, Numerics, WeightForm};

use super::linear::Linear;
use super::routine::{Crate, Offer, Product, Routine};
use super::threads::Team;
use crate::{Error, Library};

/// The version that is linked, from `Cargo.lock`.
pub const VERSION: &str = "0.19.0";

/// K up to which the crate keeps an f16 product in f32 until the end; it cuts longer sums into blocks of at least this
/// (`kernel_params` in `gemm-common`), and adds the blocks in the f16 output.
const F16_BLOCK_K_MIN: usize = 512;

/// Opens the library, which is always there.
pub fn open() -> Box<dyn Library> {
    Box::new(Crate {
        build: Build { library: "gemm".into(), version: VERSION.into(), revision: String::new() },
        offers: vec![Offer {
            index: 0,
            name: "gemm".into(),
            form: WeightForm::Plain,
            threaded: true,
            routine: Arc::new(Gemm),
        }],
        via: Some("gemm"),
        cores: super::device::cores() as usize,
    })
}

struct Gemm;

/// Products with one row or column go to the crate's vector routines, which are serial and sum in f32 throughout.
fn is_vector(linear: &Linear) -> bool {
    linear.m == 1 || linear.n == 1
}

impl Routine for Gemm {
    fn takes(&self, linear: &Linear) -> Result<Numerics, Error> {
        match (linear.x, linear.out) {
            (DType::F32, _) => Ok(Numerics::Exact),
            // K of 1 and 2 go to an outer-product routine that rounds to f16 after each step.
            (DType::F16, DType::F16) if linear.k == 1 => Ok(Numerics::Exact),
            (DType::F16, DType::F16) if linear.k > 2 && (is_vector(linear) || linear.k <= F16_BLOCK_K_MIN) => {
                Ok(Numerics::Exact)
            }
            (DType::F16, DType::F16) => Ok(Numerics::Partial16),
            (DType::F16, out) => Err(Error::unsupported(format!("an f16 product cannot become {out} unrounded"))),
            (x, _) => Err(Error::unsupported(format!("the gemm crate has no {x}"))),
        }
    }

    fn product(&self, linear: &Linear) -> DType {
        linear.x
    }

    fn team(&self, linear: &Linear, threads: usize) -> Result<Team, Error> {
        // Handing a serial product to a pool would only add the hand-over.
        Team::of(if is_vector(linear) { 1 } else { threads })
    }

    unsafe fn multiply(&self, linear: &Linear, team: &Team, io: &Product) -> Result<(), Error> {
        let parallelism = match team.threads() {
            1 => gemm::Parallelism::None,
            threads => gemm::Parallelism::Rayon(threads),
        };
        // SAFETY: the contract of this method, and the product is of the type of `x`.
        unsafe {
            match linear.x {
                DType::F16 => product::<f16>(linear, io, (f16::ZERO, f16::ONE), parallelism),
                _ => product::<f32>(linear, io, (0.0, 1.0), parallelism),
            }
        }
        Ok(())
    }
}

/// # Safety
/// As [`Routine::multiply`], all in elements of type `T`: f32 or f16.
unsafe fn product<T: 'static>(linear: &Linear, io: &Product, (zero, one): (T, T), parallelism: gemm::Parallelism) {
    let Linear { m, n, k, .. } = *linear;
    let row = |columns: usize| columns as isize;
    // SAFETY: the contract. Strides (column, row) describe packed row-major `out[M,N]` and `x[M,K]`, and `w[N,K]` seen
    // as its transpose; `out` is not read.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            io.out.cast::<T>(),
            1,
            row(n),
            false,
            io.x.cast::<T>(),
            1,
            row(k),
            io.w.cast::<T>(),
            row(k),
            1,
            zero,
            one,
            false,
            false,
            false,
            parallelism,
        );
    }
}
