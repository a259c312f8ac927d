//! What the Rust crates that compute have in common: a library is a list of routines, and a routine multiplies two
//! matrices of one type. Everything else (which problems, which thread counts, bias, output type) is done here, once.

use std::ffi::c_void;
use std::sync::Arc;

use tgemm_db::{Build, DType, Numerics, Params, Problem, Solution, WeightForm};

use super::finish::Finish;
use super::guard::guard;
use super::linear::{Linear, Shared};
use super::threads::Team;
use crate::{Ask, BaselineSolution, Effort, Error, Launch, Library, Operands, Packed, Prepared, Stream};

/// The parameter that says how many threads a solution computes on.
pub(crate) const THREADS: &str = "threads";

/// One routine of a crate: `x[M,K] · w[N,K]ᵀ`, nothing added, in elements of one type.
pub(crate) trait Routine: Send + Sync {
    /// How faithful the product of `linear` is, or why this routine does not take it.
    fn takes(&self, linear: &Linear) -> Result<Numerics, Error>;

    /// The element type of the products of `linear`.
    fn product(&self, linear: &Linear) -> DType;

    /// The threads to compute on; a routine that would leave them idle for `linear` asks for the caller only.
    fn team(&self, linear: &Linear, threads: usize) -> Result<Team, Error>;

    /// Memory that each product needs beside operands and output, from a cache line on.
    fn scratch_bytes(&self, linear: &Linear) -> usize {
        let _ = linear;
        0
    }

    /// Names the packed form of `linear`'s weights, for routines that pack.
    fn pack_key(&self, linear: &Linear) -> Option<String> {
        let _ = linear;
        None
    }

    /// Packs the weights, for routines that pack.
    ///
    /// # Safety
    /// As [`Prepared::pack`].
    unsafe fn pack(&self, linear: &Linear, w: *const c_void) -> Result<Option<Packed>, Error> {
        let _ = (linear, w);
        Ok(None)
    }

    /// Writes all M x N elements of the product to `io.out`. Called within `team`.
    ///
    /// # Safety
    /// `io.x` and `io.w` are as [`Prepared::launch`] has them, `io.out` has room for the product, `io.scratch` has
    /// [`Routine::scratch_bytes`], and nobody else uses these two.
    unsafe fn multiply(&self, linear: &Linear, team: &Team, io: &Product) -> Result<(), Error>;
}

/// The operands of one product.
#[derive(Clone, Copy)]
pub(crate) struct Product {
    /// Activations.
    pub x: *const c_void,
    /// Weights, plain or packed.
    pub w: *const c_void,
    /// Where the product goes.
    pub out: *mut c_void,
    /// Scratch memory.
    pub scratch: *mut c_void,
}

/// A routine as its library offers it.
#[derive(Clone)]
pub(crate) struct Offer {
    /// Index of its solutions.
    pub index: i64,
    /// Name of its solutions.
    pub name: String,
    /// How it takes the weights.
    pub form: WeightForm,
    /// Can it compute on more than one thread?
    pub threaded: bool,
    /// The routine.
    pub routine: Arc<dyn Routine>,
}

/// A library of routines.
pub(crate) struct Crate {
    /// Its build.
    pub build: Build,
    /// What it offers.
    pub offers: Vec<Offer>,
    /// The call that its first offer on all threads is the baseline of, if engines make it.
    pub via: Option<&'static str>,
    /// Threads that there are.
    pub cores: usize,
}

impl Crate {
    fn solution(&self, offer: &Offer, linear: &Linear, threads: usize) -> Result<Solution, Error> {
        let numerics = offer.routine.takes(linear)?;
        Ok(Solution {
            build: self.build.clone().into(),
            index: offer.index,
            name: offer.name.as_str().into(),
            params: Params::new().with(THREADS, threads),
            weight_form: offer.form,
            workspace_bytes: Workspace::of(&*offer.routine, linear).total_bytes() as u64,
            numerics,
            // Work is split over elements of the output, and sums run along K in an order that the sizes decide.
            deterministic: Some(true),
            // Computed before the launch returns: there is nothing that a graph could replay.
            graph_safe: Some(false),
        })
    }
}

/// 1 and all threads; with more effort the powers of two between them.
fn thread_counts(cores: usize, effort: Effort) -> Vec<usize> {
    let mut counts = vec![1];
    if effort >= Effort::Extensive {
        counts.extend(std::iter::successors(Some(2), |count| Some(count * 2)).take_while(|count| *count < cores));
    }
    if cores > 1 {
        counts.push(cores);
    }
    counts
}

impl Library for Crate {
    fn build(&self) -> &Build {
        &self.build
    }

    fn baselines(&self, problem: &Problem, _: &Ask) -> Vec<BaselineSolution> {
        let (Some(via), Some(offer), Ok(linear)) = (self.via, self.offers.first(), Linear::of(problem)) else {
            return Vec::new();
        };
        let solution = self.solution(offer, &linear, self.cores);
        solution.map(|solution| BaselineSolution { via: via.to_owned(), solution }).into_iter().collect()
    }

    fn candidates(&self, problem: &Problem, effort: Effort, _: &Ask) -> Result<Vec<Solution>, Error> {
        let Ok(linear) = Linear::of(problem) else { return Ok(Vec::new()) };
        let mut solutions = Vec::new();
        for offer in &self.offers {
            for threads in if offer.threaded { thread_counts(self.cores, effort) } else { vec![1] } {
                // A routine that does not take the problem is no failure of the library.
                solutions.extend(self.solution(offer, &linear, threads));
            }
        }
        Ok(solutions)
    }

    fn prepare(&self, problem: &Problem, solution: &Solution) -> Result<Box<dyn Prepared>, Error> {
        let linear = Linear::of(problem)?;
        let threads: usize = solution.params.parse(THREADS).unwrap_or(0);
        let offer = self.offers.iter().find(|offer| offer.index == solution.index);
        let offer =
            offer.ok_or_else(|| Error::unsupported(format!("{} has no solution {}", self.build, solution.index)))?;
        let ran = self.solution(offer, &linear, threads)?;
        if ran.key() != solution.key() {
            return Err(Error::unsupported(format!("'{}' is not '{}' of this build", solution.key(), ran.key())));
        }
        if threads > if offer.threaded { self.cores } else { 1 } {
            return Err(Error::unsupported(format!("{threads} threads, where there are {}", self.cores)));
        }
        Ok(Box::new(Ready {
            workspace: Workspace::of(&*offer.routine, &linear),
            team: offer.routine.team(&linear, threads)?,
            pack_key: offer.routine.pack_key(&linear),
            routine: Arc::clone(&offer.routine),
            linear,
            ran,
        }))
    }
}

/// The two parts of a launch's workspace, in this order, each starting at a cache line.
struct Workspace {
    finish: Finish,
    scratch_bytes: usize,
}

impl Workspace {
    fn of(routine: &dyn Routine, linear: &Linear) -> Workspace {
        Workspace {
            finish: Finish::new(*linear, routine.product(linear)),
            scratch_bytes: routine.scratch_bytes(linear),
        }
    }

    fn total_bytes(&self) -> usize {
        self.finish.workspace_bytes().saturating_add(self.scratch_bytes)
    }
}

/// A routine made ready for one problem.
struct Ready {
    ran: Solution,
    linear: Linear,
    workspace: Workspace,
    team: Team,
    pack_key: Option<String>,
    routine: Arc<dyn Routine>,
}

impl Prepared for Ready {
    fn ran(&self) -> &Solution {
        &self.ran
    }

    fn workspace_bytes(&self) -> usize {
        self.workspace.total_bytes()
    }

    fn pack_key(&self) -> Option<&str> {
        self.pack_key.as_deref()
    }

    unsafe fn pack(&self, w: *const c_void) -> Result<Option<Packed>, Error> {
        // SAFETY: the contract of this method.
        guard(self.ran.library(), || unsafe { self.routine.pack(&self.linear, w) })
    }

    unsafe fn launch(&self, io: &Operands, _: Stream) -> Result<(), Launch> {
        self.linear.check(io, self.pack_key.is_some(), self.workspace_bytes())?;
        // SAFETY: the contract of this method, and the launch ends before this returns.
        let shared = unsafe { Shared::new(*io) };
        let body = || {
            let io = shared.get();
            let finish = &self.workspace.finish;
            let out = finish.product_at(&io, io.workspace);
            // SAFETY: the contract of this method; the workspace was found to hold its two parts.
            unsafe {
                let scratch = io.workspace.wrapping_byte_add(finish.workspace_bytes());
                self.routine.multiply(&self.linear, &self.team, &Product { x: io.x, w: io.w, out, scratch })?;
                finish.run(&self.team, &io, out);
            }
            Ok(())
        };
        guard(self.ran.library(), || self.team.run(body)).map_err(Launch::MayHaveRun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_counts_grow_with_effort() {
        assert_eq!(thread_counts(1, Effort::Full), [1]);
        assert_eq!(thread_counts(2, Effort::Full), [1, 2]);
        assert_eq!(thread_counts(12, Effort::Balanced), [1, 12]);
        assert_eq!(thread_counts(12, Effort::Extensive), [1, 2, 4, 8, 12]);
        assert_eq!(thread_counts(16, Effort::Full), [1, 2, 4, 8, 16]);
    }
}
