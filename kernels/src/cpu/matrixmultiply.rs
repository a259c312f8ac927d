//! The `matrixmultiply` crate: f32, one thread, no dependencies. Always there; rarely the winner.
//!
//! It can start threads of its own, but takes their number from an environment variable once in a process: nothing that
//! a solution could choose, so it is left switched off.

use std::sync::Arc;

use tgemm_db::{Build, DType, Numerics, WeightForm};

use super::linear::Linear;
use super::routine::{Crate, Offer, Product, Routine};
use super::threads::Team;
use crate::{Error, Library};

/// The version that is linked, from `Cargo.lock`.
pub const VERSION: &str = "0.3.11";

/// Opens the library, which is always there.
pub fn open() -> Box<dyn Library> {
    Box::new(Crate {
        build: Build { library: "matrixmultiply".into(), version: VERSION.into(), revision: String::new() },
        offers: vec![Offer {
            index: 0,
            name: "sgemm".into(),
            form: WeightForm::Plain,
            threaded: false,
            routine: Arc::new(Sgemm),
        }],
        via: None,
        cores: 1,
    })
}

struct Sgemm;

impl Routine for Sgemm {
    fn takes(&self, linear: &Linear) -> Result<Numerics, Error> {
        match linear.x {
            DType::F32 => Ok(Numerics::Exact),
            x => Err(Error::unsupported(format!("matrixmultiply has no {x}"))),
        }
    }

    fn product(&self, _: &Linear) -> DType {
        DType::F32
    }

    fn team(&self, _: &Linear, threads: usize) -> Result<Team, Error> {
        Team::of(threads)
    }

    unsafe fn multiply(&self, linear: &Linear, _: &Team, io: &Product) -> Result<(), Error> {
        let Linear { m, n, k, .. } = *linear;
        let (x_row, out_row) = (k as isize, n as isize);
        // SAFETY: the contract of this method. Strides (row, column) describe packed row-major `x[M,K]` and `out[M,N]`,
        // and `w[N,K]` seen as its transpose; with beta 0 the output is not read.
        unsafe {
            matrixmultiply::sgemm(
                m,
                k,
                n,
                1.0,
                io.x.cast(),
                x_row,
                1,
                io.w.cast(),
                1,
                x_row,
                0.0,
                io.out.cast(),
                out_row,
                1,
            );
        }
        Ok(())
    }
}
