//! hipBLASLt and cuBLASLt as a library: what they share. How a solution is named is the business of [`super::lt_cuda`] and
//! [`super::lt_hip`].

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

use tgemm_db::blas::Call;
use tgemm_db::problem::{Alignment, Scalar};
use tgemm_db::recording::Via;
use tgemm_db::{Build, Problem, Solution};
use tgemm_vendor::gpu::Dialect;
use tgemm_vendor::gpu::blaslt::BlasLt;
use tgemm_vendor::gpu::blaslt::algo::{Algo, Offer, Preference};
use tgemm_vendor::gpu::blaslt::product::{Matrices, Pointers, Product, Undescribable};

use super::lists::Lists;
use super::{failed, launch_failed, lt_cuda, lt_hip, workspace_bytes};
use crate::{Ask, BaselineSolution, Effort, Error, Launch, Library, Operands, Packed, Prepared, Stream};

/// hipBLASLt or cuBLASLt on one device.
pub(super) struct Lt {
    pub(super) library: Arc<BlasLt>,
    pub(super) build: Arc<Build>,
    lists: Lists,
}

impl Lt {
    pub(super) fn new(library: Arc<BlasLt>) -> Lt {
        let name = library.dialect().pick("hipblaslt", "cublaslt");
        let build = Build { version: library.version(), revision: library.revision().into(), ..Build::unknown(name) };
        Lt { library, build: Arc::new(build), lists: Lists::default() }
    }

    /// `problem` described to the library; what cannot be described is unsupported.
    pub(super) fn product(&self, problem: &Problem) -> Result<Product, Error> {
        let gemm = crate::gemm_of(problem)?;
        if gemm.site.preshuffled {
            return Err(Error::unsupported("shuffled weights are not this library's"));
        }
        Product::new(&self.library, &Call::from_gemm(gemm)).map_err(|error| match error {
            Undescribable::NoWord { .. } => Error::unsupported(error.to_string()),
            Undescribable::Call(error) => failed(error),
        })
    }

    /// What every list is asked for, as `ask` has it.
    pub(super) fn preference(&self, problem: &Problem, ask: &Ask) -> Preference {
        let align = problem.gemm().map_or(Alignment::B16, |gemm| gemm.site.align);
        let align_bytes = match align {
            Alignment::B16 => 16,
            Alignment::B8 => 8,
            Alignment::B4 => 4,
            _ => 1,
        };
        Preference { workspace_bytes_max: workspace_bytes(ask), reductions: None, align_bytes }
    }

    pub(super) fn solution(&self, product: &Product, offer: &Offer) -> Result<Solution, Error> {
        match self.library.dialect() {
            Dialect::Cuda => lt_cuda::solution(self, product, offer),
            Dialect::Hip => Ok(lt_hip::solution(self, offer)),
        }
    }

    /// The library's list; an empty one where it does not take the problem.
    ///
    /// hipBLASLt's is kept: it has thousands of entries, and is asked for to offer, to find again and to leave out.
    pub(super) fn offers(&self, product: &Product, preference: &Preference, count: usize) -> Result<Vec<Offer>, Error> {
        let list = || {
            let offers = self.library.offers(product, preference, count).map_err(failed)?;
            // The library's word is not enough: lists with more workspace than allowed were seen.
            let fits = |offer: &Offer| offer.workspace_bytes as u64 <= preference.workspace_bytes_max;
            Ok(offers.into_iter().filter(fits).collect())
        };
        match self.library.dialect() {
            Dialect::Cuda => list(),
            Dialect::Hip => Ok(self.lists.get((*product.call(), *preference, count), list)?.to_vec()),
        }
    }

    /// The indices of all that hipBLASLt lists for `problem`; none where it does not take it.
    pub(super) fn indices(&self, problem: &Problem, ask: &Ask) -> BTreeSet<i64> {
        let product = self.product(problem);
        let listed = product.and_then(|product| lt_hip::listed(self, &product, &self.preference(problem, ask)));
        listed.unwrap_or_default().iter().map(|offer| self.library.index_of(&offer.algo).into()).collect()
    }
}

/// Does a call by `via` end in this library? PyTorch's linear layers do where they have a bias or scales (and on AMD cards
/// anyway), else they go to the older one.
fn is_asked(dialect: Dialect, via: Via, has_epilogue: bool) -> bool {
    match via {
        Via::GemmEx | Via::RocblasGemmEx | Via::Blas => false,
        Via::Linear => has_epilogue || dialect == Dialect::Hip,
        _ => true,
    }
}

impl Library for Arc<Lt> {
    fn build(&self) -> &Build {
        &self.build
    }

    fn baselines(&self, problem: &Problem, ask: &Ask) -> Vec<BaselineSolution> {
        let Some(gemm) = problem.gemm() else { return Vec::new() };
        let has_epilogue = gemm.site.bias.is_some() || gemm.site.scale != tgemm_db::problem::ScaleMode::None;
        if !is_asked(self.library.dialect(), ask.via, has_epilogue) {
            return Vec::new();
        }
        let top = || -> Result<Option<Solution>, Error> {
            let product = self.product(problem)?;
            let first = self.offers(&product, &self.preference(problem, ask), 1)?.into_iter().next();
            first.map(|offer| self.solution(&product, &offer)).transpose()
        };
        let via = self.library.dialect().pick("hipblasLtMatmul", "cublasLtMatmul");
        // A problem that the library does not take has no baseline here.
        let solution = top().ok().flatten();
        solution.into_iter().map(|solution| BaselineSolution { via: via.into(), solution }).collect()
    }

    fn candidates(&self, problem: &Problem, effort: Effort, ask: &Ask) -> Result<Vec<Solution>, Error> {
        let product = match self.product(problem) {
            Ok(product) => product,
            Err(Error::Unsupported(_)) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let preference = self.preference(problem, ask);
        match self.library.dialect() {
            Dialect::Cuda => lt_cuda::candidates(self, &product, &preference, effort),
            Dialect::Hip => lt_hip::candidates(self, &product, &preference, effort),
        }
    }

    fn neighbours(&self, problem: &Problem, solution: &Solution, ask: &Ask) -> Result<Vec<Solution>, Error> {
        if self.library.dialect() == Dialect::Hip || solution.build != self.build {
            return Ok(Vec::new());
        }
        lt_cuda::neighbours(self, &self.product(problem)?, solution, &self.preference(problem, ask))
    }

    fn prepare(&self, problem: &Problem, solution: &Solution) -> Result<Box<dyn Prepared>, Error> {
        if let Some(difference) = solution.build.difference(&self.build) {
            return Err(Error::unsupported(difference.to_string()));
        }
        let product = self.product(problem)?;
        let offer = match self.library.dialect() {
            Dialect::Cuda => lt_cuda::find(self, &product, solution)?,
            Dialect::Hip => lt_hip::find(self, problem, &product, solution)?,
        };
        let ran = self.solution(&product, &offer)?;
        Ok(Box::new(Ready {
            library: Arc::clone(&self.library),
            has_pointers: product.call().bias.is_some() || product.call().scale != tgemm_db::problem::ScaleMode::None,
            beta_is_zero: product.call().beta == Scalar::Zero,
            in_place: product.call().in_place,
            product: Mutex::new(product),
            algo: offer.algo,
            workspace_bytes: offer.workspace_bytes,
            ran,
        }))
    }
}

/// An algorithm made ready for one problem.
struct Ready {
    library: Arc<BlasLt>,
    /// Bias and scales are set in the descriptor before each launch.
    product: Mutex<Product>,
    has_pointers: bool,
    beta_is_zero: bool,
    in_place: bool,
    algo: Algo,
    workspace_bytes: usize,
    ran: Solution,
}

impl Prepared for Ready {
    fn ran(&self) -> &Solution {
        &self.ran
    }

    fn workspace_bytes(&self) -> usize {
        self.workspace_bytes
    }

    fn pack_key(&self) -> Option<&str> {
        None
    }

    unsafe fn pack(&self, _: *const c_void) -> Result<Option<Packed>, Error> {
        Ok(None)
    }

    unsafe fn launch(&self, io: &Operands, stream: Stream) -> Result<(), Launch> {
        let dialect = self.library.dialect();
        // Nothing in here can panic half-way; a poisoned lock holds a whole descriptor.
        let mut product = self.product.lock().unwrap_or_else(PoisonError::into_inner);
        if self.has_pointers {
            let pointers = Pointers { bias: io.bias, a_scale: io.w_scale, b_scale: io.x_scale };
            let set = product.set_pointers(&self.library, pointers);
            set.map_err(|error| Launch::NotEnqueued(failed(error)))?;
        }
        let on = Matrices {
            a: io.w,
            b: io.x,
            c: if self.beta_is_zero || self.in_place { io.out.cast_const() } else { io.c },
            d: io.out,
            alpha: io.alpha,
            beta: io.beta,
            workspace: io.workspace,
            workspace_bytes: io.workspace_bytes.min(self.workspace_bytes),
        };
        // SAFETY: the contract of `Prepared::launch`, in the library's words: A is the weights, B the activations.
        let launched = unsafe { self.library.matmul(&product, &self.algo, &on, stream.0) };
        launched.map_err(|error| launch_failed(dialect, error))
    }
}
