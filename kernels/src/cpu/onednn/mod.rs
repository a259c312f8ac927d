//! oneDNN's matrix products, opened at run time: every implementation that it names is a solution.
//!
//! A solution's index is the implementation's place in oneDNN's own order for its weight form and thread count, its
//! name is what oneDNN calls it (`brg:avx512_core_bf16`, `gemm:jit`, `ref:any`). Prepacked, oneDNN chooses the layout of
//! the weights, as engines that hold weights for it let it do.
//!
//! Which types are taken is oneDNN's to say, on this CPU: it is asked for each problem. f32 and bf16 are taken by 2.6
//! and by 3.x, f16 by 3.x on CPUs with AVX512-FP16.

mod prepared;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;

use tgemm_db::{Build, DType, Numerics, Params, Problem, Solution, WeightForm};
use tgemm_vendor::Absent;
use tgemm_vendor::onednn::{CallError, DataType, MatmulDescs, MemoryDesc, OneDnn, PrimitiveDesc};

use super::device::cores;
use super::linear::Linear;
use crate::{Ask, BaselineSolution, Effort, Error, Library, Prepared};
use prepared::Ready;

/// The environment variables that change which implementation runs, or on which threads: oneDNN's own under both of its
/// prefixes, and those of the OpenMP runtime under it. `*_DEFAULT_FPMATH_MODE` is not among them: every product here is
/// described as strict.
pub const ENVIRONMENT_VARS: &[&str] = &[
    "DNNL_CPU_ISA_HINTS",
    "DNNL_MAX_CPU_ISA",
    "GOMP_CPU_AFFINITY",
    "KMP_AFFINITY",
    "OMP_DYNAMIC",
    "OMP_NUM_THREADS",
    "OMP_PLACES",
    "OMP_PROC_BIND",
    "OMP_THREAD_LIMIT",
    "OMP_WAIT_POLICY",
    "ONEDNN_CPU_ISA_HINTS",
    "ONEDNN_MAX_CPU_ISA",
];

/// The call that engines make: weights reordered once into the layout that oneDNN likes best (vLLM on CPUs).
const VIA_PREPACKED: &str = "onednn prepacked";

/// The parameter that says how many threads a solution computes on.
const THREADS: &str = "threads";

/// Opens oneDNN: the file that `TGEMM_ONEDNN` names, or `libdnnl.so.3`, or `libdnnl.so.2`. It need not be there.
pub fn open() -> Result<Box<dyn Library>, Absent> {
    OneDnn::open().map(|library| Box::new(Matmuls::new(library)) as Box<dyn Library>)
}

/// oneDNN as a library of matrix products.
struct Matmuls {
    library: OneDnn,
    build: Build,
    cores: u32,
}

impl Matmuls {
    fn new(library: OneDnn) -> Matmuls {
        let version = library.version();
        let build = Build { library: "onednn".into(), version: version.to_string(), revision: version.hash.clone() };
        let cores = if library.is_parallel() { cores().max(1) } else { 1 };
        Matmuls { library, build, cores }
    }

    /// One thread and all of them; with more effort the powers of two between.
    fn thread_counts(&self, effort: Effort) -> Vec<u32> {
        let between = std::iter::successors(Some(2u32), |count| count.checked_mul(2));
        let between = between.take_while(|count| *count < self.cores && effort >= Effort::Extensive);
        let all = (self.cores > 1).then_some(self.cores);
        std::iter::once(1).chain(between).chain(all).collect()
    }

    /// The weights of `linear` as the problem has them: `w[N,K]` row-major is oneDNN's weights[K,N] with K fastest.
    fn plain_weights(&self, linear: &Linear) -> Result<MemoryDesc, Error> {
        let (n, k) = (extent(linear.n)?, extent(linear.k)?);
        MemoryDesc::strided(&self.library, data_type(linear.x)?, [k, n], [1, k]).map_err(call_failed)
    }

    fn descs(&self, linear: &Linear, form: WeightForm) -> Result<MatmulDescs, Error> {
        let (m, n, k) = (extent(linear.m)?, extent(linear.n)?, extent(linear.k)?);
        let row_major = |dtype: DType, rows: i64, columns: i64| {
            MemoryDesc::strided(&self.library, data_type(dtype)?, [rows, columns], [columns, 1]).map_err(call_failed)
        };
        let weights = match form {
            WeightForm::Plain => self.plain_weights(linear)?,
            WeightForm::Prepacked => {
                MemoryDesc::any(&self.library, data_type(linear.x)?, [k, n]).map_err(call_failed)?
            }
            other => return Err(Error::unsupported(format!("oneDNN takes no {other} weights"))),
        };
        Ok(MatmulDescs {
            src: row_major(linear.x, m, k)?,
            weights,
            bias: linear.bias.map(|dtype| row_major(dtype, 1, n)).transpose()?,
            dst: row_major(linear.out, m, n)?,
        })
    }

    /// Walks over the implementations for one weight form and thread count, in oneDNN's order, until `want` has seen
    /// enough; none where oneDNN does not take the types. Those that would take packed weights plain are left out: they
    /// are the plain solutions.
    fn walk(
        &self,
        linear: &Linear,
        form: WeightForm,
        threads: u32,
        mut want: impl FnMut(Solution, PrimitiveDesc<'_>) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        let descs = self.descs(linear, form)?;
        let plain = self.plain_weights(linear)?;
        let walked = self.library.implementations(&descs, threads, |implementations| {
            for (index, desc) in (0i64..).zip(implementations) {
                let desc = desc.map_err(call_failed)?;
                if form == WeightForm::Prepacked && desc.weights().map_err(call_failed)? == plain {
                    continue;
                }
                let solution = self.solution(index, &desc, form, threads)?;
                if want(solution, desc)?.is_break() {
                    break;
                }
            }
            Ok(())
        });
        match walked {
            Ok(outcome) => outcome,
            Err(error) if error.is_refused() => Ok(()),
            Err(error) => Err(call_failed(error)),
        }
    }

    fn solution(
        &self,
        index: i64,
        desc: &PrimitiveDesc<'_>,
        weight_form: WeightForm,
        threads: u32,
    ) -> Result<Solution, Error> {
        Ok(Solution {
            build: self.build.clone().into(),
            index,
            name: desc.name().map_err(call_failed)?.into(),
            params: Params::new().with(THREADS, threads),
            weight_form,
            workspace_bytes: desc.scratchpad_bytes() as u64,
            // 16-bit products are summed in f32, and f32 ones are described as strict.
            numerics: Numerics::Exact,
            deterministic: None,
            graph_safe: None,
        })
    }

    /// The first implementation of this form on all threads, unless that is a reference.
    fn first(&self, linear: &Linear, form: WeightForm) -> Result<Option<Solution>, Error> {
        let mut first = None;
        self.walk(linear, form, self.cores, |solution, _| {
            first = (!is_reference(&solution.name)).then_some(solution);
            Ok(ControlFlow::Break(()))
        })?;
        Ok(first)
    }

    /// Makes what stands at `asked.index`, if that is what `asked` says.
    fn make(
        &self,
        linear: Linear,
        threads: u32,
        asked: &Solution,
        here: Solution,
        desc: PrimitiveDesc<'_>,
    ) -> Result<Ready, Error> {
        if here.key() != asked.key() {
            return Err(Error::unsupported(format!("'{}' is '{}' here", asked.key(), here.key())));
        }
        let matmul = desc.make(self.descs(&linear, here.weight_form)?).map_err(call_failed)?;
        let name = matmul.name().map_err(call_failed)?;
        if name != here.name {
            return Err(Error::unsupported(format!("'{}' was made as '{name}'", here.name)));
        }
        Ready::new(self.library.clone(), linear, threads, here, matmul, self.plain_weights(&linear)?)
    }
}

impl Library for Matmuls {
    fn build(&self) -> &Build {
        &self.build
    }

    /// Weights in the layout that oneDNN likes best, all threads. Where that layout is the plain one, so is the
    /// baseline; where only a reference takes the types, no engine calls it.
    fn baselines(&self, problem: &Problem, _: &Ask) -> Vec<BaselineSolution> {
        let Ok(linear) = Linear::of(problem) else { return Vec::new() };
        let first = |form| self.first(&linear, form).ok().flatten();
        let solution = first(WeightForm::Prepacked).or_else(|| first(WeightForm::Plain));
        solution.map(|solution| BaselineSolution { via: VIA_PREPACKED.into(), solution }).into_iter().collect()
    }

    fn candidates(&self, problem: &Problem, effort: Effort, _: &Ask) -> Result<Vec<Solution>, Error> {
        let Ok(linear) = Linear::of(problem) else { return Ok(Vec::new()) };
        let mut solutions = Vec::new();
        for threads in self.thread_counts(effort) {
            for form in [WeightForm::Plain, WeightForm::Prepacked] {
                self.walk(&linear, form, threads, |solution, _| {
                    if effort < Effort::Full && is_reference(&solution.name) {
                        return Ok(ControlFlow::Continue(()));
                    }
                    solutions.push(solution);
                    Ok(if effort == Effort::Minimal { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
                })?;
            }
        }
        Ok(solutions)
    }

    fn prepare(&self, problem: &Problem, solution: &Solution) -> Result<Box<dyn Prepared>, Error> {
        let linear = Linear::of(problem)?;
        if *solution.build != self.build {
            return Err(Error::unsupported(format!("it is of {}, this is {}", solution.build, self.build)));
        }
        let threads = solution.params.parse(THREADS).filter(|threads| (1..=self.cores).contains(threads));
        let threads = threads.ok_or_else(|| {
            Error::unsupported(format!("parameters '{}': threads must be 1 to {}", solution.params, self.cores))
        })?;
        let mut ready = None;
        self.walk(&linear, solution.weight_form, threads, |here, desc| {
            if here.index != solution.index {
                return Ok(ControlFlow::Continue(()));
            }
            ready = Some(self.make(linear, threads, solution, here, desc)?);
            Ok(ControlFlow::Break(()))
        })?;
        let ready = ready.ok_or_else(|| {
            let (form, index) = (solution.weight_form, solution.index);
            Error::unsupported(format!("{} has no {form} implementation {index} of this problem", self.build))
        })?;
        Ok(Box::new(ready))
    }
}

/// Is this one of the implementations that exist to be compared with? They are some hundred times slower.
fn is_reference(name: &str) -> bool {
    name.starts_with("ref")
}

fn data_type(dtype: DType) -> Result<DataType, Error> {
    match dtype {
        DType::F16 => Ok(DataType::F16),
        DType::Bf16 => Ok(DataType::Bf16),
        DType::F32 => Ok(DataType::F32),
        other => Err(Error::unsupported(format!("oneDNN is not asked for {other}"))),
    }
}

/// A size as oneDNN takes it.
fn extent(size: usize) -> Result<i64, Error> {
    i64::try_from(size).map_err(|_| Error::unsupported(format!("{size} does not fit oneDNN's sizes")))
}

fn call_failed(error: CallError) -> Error {
    match error.is_unimplemented() {
        true => Error::unsupported(error.to_string()),
        false => Error::Failed { call: error.call.into(), reason: error.reason() },
    }
}
