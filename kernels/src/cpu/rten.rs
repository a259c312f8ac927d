//! The `rten-gemm` crate: f32, weights plain or packed once.
//!
//! It computes on as many threads as the rayon pool around it has, so even one thread means a pool of one, and the
//! hand-over to it (some microseconds) is part of what is timed, as it would be in use.

use std::ffi::c_void;
use std::slice;
use std::sync::Arc;

use rten_gemm::{GemmExecutor, GemmInputA, GemmInputB, GemmOptions, PackedBMatrix};
use rten_tensor::Matrix;
use tgemm_db::{Build, DType, Numerics, WeightForm};

use super::linear::Linear;
use super::memory::check_available;
use super::routine::{Crate, Offer, Product, Routine};
use super::threads::Team;
use crate::{Error, Library, Packed, PackedForm};

/// The version that is linked, from `Cargo.lock`.
pub const VERSION: &str = "0.27.0";

/// Opens the library, which is always there. Solutions carry the name of the kernel that it chose for this processor.
pub fn open() -> Box<dyn Library> {
    let kernel = executor().kernel_name().to_owned();
    let panel_columns = panel_columns();
    let offer = |index, form| Offer {
        index,
        name: kernel.clone(),
        form,
        threaded: true,
        routine: Arc::new(Rten { kernel: kernel.clone(), packs: form == WeightForm::Prepacked, panel_columns }),
    };
    Box::new(Crate {
        build: Build { library: "rten".into(), version: VERSION.into(), revision: String::new() },
        offers: vec![offer(0, WeightForm::Plain), offer(1, WeightForm::Prepacked)],
        via: None,
        cores: super::device::cores() as usize,
    })
}

struct Rten {
    kernel: String,
    packs: bool,
    panel_columns: usize,
}

/// The crate's executor may not move between threads, but holds nothing: making one is a look at the processor's
/// features, which are known, and a box without content.
fn executor() -> GemmExecutor<f32> {
    GemmExecutor::new()
}

/// Columns that the crate packs side by side; the last panel is filled up to it. Found by packing a single element.
fn panel_columns() -> usize {
    let one = [0f32];
    view([1, 1], &one, [1, 1]).map_or(1, |one| executor().prepack_b(one).into_vec().len())
}

/// A matrix over `elements`, strides in elements.
fn view(shape: [usize; 2], elements: &[f32], strides: [usize; 2]) -> Result<Matrix<'_, f32>, Error> {
    Matrix::from_slice_with_strides(shape, elements, strides)
        .map_err(|error| Error::Failed { call: "a matrix view".into(), reason: error.to_string() })
}

/// `w[N,K]` as the right-hand side of the product, `[K,N]`.
///
/// # Safety
/// `w` holds N x K f32, which nobody changes while the view lives.
unsafe fn weights<'a>(linear: &Linear, w: *const c_void) -> Result<Matrix<'a, f32>, Error> {
    let Linear { n, k, .. } = *linear;
    // SAFETY: the contract.
    view([k, n], unsafe { slice::from_raw_parts(w.cast(), n * k) }, [1, k])
}

impl Routine for Rten {
    fn takes(&self, linear: &Linear) -> Result<Numerics, Error> {
        match linear.x {
            DType::F32 => Ok(Numerics::Exact),
            x => Err(Error::unsupported(format!("rten-gemm has no {x}"))),
        }
    }

    fn product(&self, _: &Linear) -> DType {
        DType::F32
    }

    fn team(&self, _: &Linear, threads: usize) -> Result<Team, Error> {
        Team::pooled(threads)
    }

    /// Blocking depends on K alone and panels on the kernel, so a pack serves every M and thread count.
    fn pack_key(&self, linear: &Linear) -> Option<String> {
        self.packs.then(|| format!("rten {VERSION} {} f32 {}x{}", self.kernel, linear.n, linear.k))
    }

    unsafe fn pack(&self, linear: &Linear, w: *const c_void) -> Result<Option<Packed>, Error> {
        if !self.packs {
            return Ok(None);
        }
        let bytes = linear.n.next_multiple_of(self.panel_columns) * linear.k * 4;
        check_available(bytes as u64, "packed weights")?;
        // SAFETY: the contract of this method.
        let matrix = executor().prepack_b(unsafe { weights(linear, w) }?);
        Ok(Some(Box::new(Panels { matrix, bytes })))
    }

    unsafe fn multiply(&self, linear: &Linear, _: &Team, io: &Product) -> Result<(), Error> {
        let Linear { m, n, k, .. } = *linear;
        // SAFETY: the contract of this method: M x K elements to read, M x N to write, apart from each other.
        let (x, out) = unsafe {
            (slice::from_raw_parts(io.x.cast::<f32>(), m * k), slice::from_raw_parts_mut(io.out.cast::<f32>(), m * n))
        };
        let w = if self.packs {
            // SAFETY: `io.w` is `Panels::as_ptr` of a pack that outlives the launch.
            GemmInputB::Packed(unsafe { &*io.w.cast::<PackedBMatrix<f32>>() })
        } else {
            // SAFETY: the contract of this method.
            GemmInputB::Unpacked(unsafe { weights(linear, io.w) }?)
        };
        let x = GemmInputA::Unpacked(view([m, k], x, [k, 1])?);
        executor()
            .gemm(out, x, w, GemmOptions::default())
            .map_err(|error| Error::Failed { call: "GemmExecutor::gemm".into(), reason: error.to_string() })
    }
}

/// Weights in the crate's panels.
struct Panels {
    matrix: PackedBMatrix<f32>,
    bytes: usize,
}

impl PackedForm for Panels {
    fn as_ptr(&self) -> *const c_void {
        (&raw const self.matrix).cast()
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn duplicate(&self) -> Option<Packed> {
        check_available(self.bytes as u64, "packed weights").ok()?;
        Some(Box::new(Panels { matrix: self.matrix.clone(), bytes: self.bytes }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tgemm_db::Site;

    #[test]
    fn packs_have_the_size_they_say() {
        let rten = Rten { kernel: String::new(), packs: true, panel_columns: panel_columns() };
        for (n, k) in [(1, 1), (33, 65), (64, 256), (31, 513)] {
            let linear = Linear::of(&Site::linear(n, k, DType::F32).at(1).into()).unwrap();
            let w = vec![0f32; (n * k) as usize];
            // SAFETY: `w` holds N x K elements.
            let packed = unsafe { rten.pack(&linear, w.as_ptr().cast()) }.unwrap().unwrap();
            // SAFETY: the pointer is to the matrix that was just packed.
            let matrix = unsafe { &*packed.as_ptr().cast::<PackedBMatrix<f32>>() };
            assert_eq!(packed.bytes(), matrix.clone().into_vec().len() * 4, "{n}x{k}");
        }
    }
}
