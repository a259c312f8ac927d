//! Our own kernels for few tokens: decoding reads every weight once for a handful of activations, so what counts is
//! how fast weights come out of memory. 16-bit weights are read as they are and widened in registers: half the bytes of
//! weights widened once, and no second copy of them in memory.
//!
//! Sums are f32 in an order that depends on K and the kernel alone: threads share out rows of the weights.

mod lanes;

use std::ffi::c_void;
use std::slice;
use std::sync::Arc;

use tgemm_db::{Build, DType, Numerics, WeightForm};

use self::lanes::{Kernel, TOKENS_MAX};
use super::convert::widen;
use super::linear::{Linear, Shared, line_up};
use super::routine::{Crate, Offer, Product, Routine};
use super::threads::Team;
use crate::{Error, Library};

/// Rows of the weights that a thread takes at a time, at least: enough to be worth a turn at the queue.
const ROWS_MIN: usize = 32;

/// Turns that each thread takes, so that one which is held up leaves its rows to the others.
const TURNS: usize = 4;

/// Opens the library: the widest kernel that this processor runs.
pub fn open() -> Box<dyn Library> {
    let kernel = Kernel::widest();
    Box::new(Crate {
        build: Build { library: "tgemm".into(), version: env!("CARGO_PKG_VERSION").into(), revision: revision() },
        offers: vec![Offer {
            index: 0,
            name: format!("skinny-{}", kernel.name()),
            form: WeightForm::Plain,
            threaded: true,
            routine: Arc::new(Skinny { kernel }),
        }],
        via: None,
        cores: super::device::cores() as usize,
    })
}

/// Hash of the kernels' source: a solution is not the same once they changed.
fn revision() -> String {
    // FNV-1a, 64 bits: told apart are revisions of one file, nobody attacks it.
    let hash = include_bytes!("lanes.rs")
        .iter()
        .chain(include_bytes!("mod.rs"))
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    format!("{hash:016x}")
}

struct Skinny {
    kernel: Kernel,
}

impl Routine for Skinny {
    fn takes(&self, linear: &Linear) -> Result<Numerics, Error> {
        match linear.m {
            1..=TOKENS_MAX => Ok(Numerics::Exact),
            m => Err(Error::unsupported(format!("{m} tokens; this kernel takes {TOKENS_MAX} at most"))),
        }
    }

    fn product(&self, _: &Linear) -> DType {
        DType::F32
    }

    fn team(&self, _: &Linear, threads: usize) -> Result<Team, Error> {
        Team::of(threads)
    }

    fn scratch_bytes(&self, linear: &Linear) -> usize {
        if linear.x == DType::F32 { 0 } else { line_up(linear.m * linear.k * 4) }
    }

    unsafe fn multiply(&self, linear: &Linear, team: &Team, io: &Product) -> Result<(), Error> {
        let Linear { m, n, k, x: dtype, .. } = *linear;
        let x: *const f32 = if dtype == DType::F32 {
            io.x.cast()
        } else {
            // SAFETY: the scratch memory holds M x K f32, `io.x` as many elements.
            unsafe { widen(dtype, io.x, slice::from_raw_parts_mut(io.scratch.cast(), m * k)) };
            io.scratch.cast_const().cast()
        };
        // SAFETY: the contract of this method; ranges of rows do not meet, and each writes its own columns.
        let shared = unsafe { Shared::new((x, io.w, io.out)) };
        let rows = n.div_ceil(team.threads() * TURNS).max(ROWS_MIN);
        team.for_ranges(n, rows, |rows| {
            let (x, w, out): (*const f32, *const c_void, *mut c_void) = shared.get();
            // SAFETY: as said above, and `takes` has admitted M.
            unsafe { self.kernel.run(linear, rows, x, w, out.cast()) };
        });
        Ok(())
    }
}
