//! Problems, from keywords and from their key.

use pyo3::prelude::*;
use tgemm_db::blas::Call;
use tgemm_db::problem::{Activation, Alignment, Batch, Gemm, Leading, Scalar, ScaleMode, Trans};
use tgemm_db::{Compute, Problem as Words, Site, key};

use crate::errors::ProblemError;
use crate::words::{Element, Word};

/// What is to be computed: `out[M,N] = act(alpha * x[M,K] @ w[N,K].T * scales + bias[N] + beta * c[M,N])`.
///
/// `m` counts tokens, `n` out features, `k` in features, each 1 to 2147483647; all matrices are row-major. What is left out
/// means a packed linear layer of one element type, summed in f32. Problems are values: equal, ordered and hashed by what
/// they say. Raises `tgemm.ProblemError`.
#[pyclass(frozen, eq, ord, hash, from_py_object, module = "tgemm")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Problem {
    pub(crate) words: Words,
}

impl From<Words> for Problem {
    fn from(words: Words) -> Problem {
        Problem { words }
    }
}

impl Problem {
    fn gemm(&self) -> PyResult<&Gemm> {
        let other = || ProblemError::new_err(format!("only GEMMs have this field, and this is {}", self.words));
        self.words.gemm().ok_or_else(other)
    }
}

/// With what means nothing at rest, as recorders write it: equal problems must be equal.
fn at_rest(gemm: Gemm) -> Gemm {
    match Call::from_gemm(&gemm).at_rest().to_problem() {
        // An argument list of BLAS does not say how weights were shuffled.
        Words::Gemm(rest) => Gemm { site: Site { preshuffled: gemm.site.preshuffled, ..rest.site }, ..rest },
        _ => gemm,
    }
}

#[pymethods]
impl Problem {
    #[new]
    #[pyo3(signature = (m, n, k, dtype = None, *, w_dtype = None, out_dtype = None, compute = None, bias = None,
        scale = None, scale_dtype = None, activation = None, alpha = None, beta = None, in_place = true,
        fast_accumulation = false, preshuffled = false, trans = None, ldx = 0, ldw = 0, ldo = 0, batch_count = 1,
        stride_x = 0, stride_w = 0, stride_out = 0, align = None))]
    #[allow(clippy::too_many_arguments, reason = "they are keywords")]
    fn new(
        m: u32,
        n: u32,
        k: u32,
        dtype: Option<Element>,
        w_dtype: Option<Element>,
        out_dtype: Option<Element>,
        compute: Option<Word<Compute>>,
        bias: Option<Element>,
        scale: Option<Word<ScaleMode>>,
        scale_dtype: Option<Element>,
        activation: Option<Word<Activation>>,
        alpha: Option<Word<Scalar>>,
        beta: Option<Word<Scalar>>,
        in_place: bool,
        fast_accumulation: bool,
        preshuffled: bool,
        trans: Option<Word<Trans>>,
        ldx: u32,
        ldw: u32,
        ldo: u32,
        batch_count: u32,
        stride_x: u64,
        stride_w: u64,
        stride_out: u64,
        align: Option<u32>,
    ) -> PyResult<Problem> {
        let x = dtype.map_or(tgemm_db::DType::Bf16, |dtype| dtype.0);
        let plain = Site::linear(n, k, x);
        let align = align.map(|bytes| bytes.to_string().parse()).transpose();
        let align: Option<Alignment> =
            align.map_err(|unknown: tgemm_db::dtype::UnknownName| ProblemError::new_err(unknown.to_string()))?;
        let site = Site {
            w: w_dtype.map_or(x, |dtype| dtype.0),
            out: out_dtype.map_or(plain.out, |dtype| dtype.0),
            compute: compute.map_or(plain.compute, |word| word.0),
            bias: bias.map(|dtype| dtype.0),
            scale: scale.map_or(plain.scale, |word| word.0),
            scale_dtype: scale_dtype.map_or(plain.scale_dtype, |dtype| dtype.0),
            activation: activation.map_or(plain.activation, |word| word.0),
            alpha: alpha.map_or(plain.alpha, |word| word.0),
            beta: beta.map_or(plain.beta, |word| word.0),
            in_place,
            fast_accumulation,
            preshuffled,
            trans: trans.map_or(plain.trans, |word| word.0),
            ld: Leading { x: ldx, w: ldw, out: ldo },
            batch: Batch { count: batch_count, stride_x, stride_w, stride_out },
            align: align.unwrap_or(plain.align),
            ..plain
        };
        let gemm = site.at(m);
        // Before anything is computed from the sizes, and again with those that mean nothing left out.
        gemm.validate().map_err(|invalid| ProblemError::new_err(invalid.to_string()))?;
        let gemm = at_rest(gemm);
        gemm.validate().map_err(|invalid| ProblemError::new_err(invalid.to_string()))?;
        Ok(Problem { words: gemm.into() })
    }

    /// Reads a key, such as "gemm,m=4,n=1024,k=3072,x=bf16,w=bf16,out=bf16,compute=f32".
    #[staticmethod]
    fn parse(key: &str) -> PyResult<Problem> {
        key.parse().map(|words| Problem { words }).map_err(|error| ProblemError::new_err(format!("{error}")))
    }

    /// The one text of this problem: two problems are equal if and only if their keys are.
    #[getter]
    fn key(&self) -> String {
        self.words.to_string()
    }

    #[getter]
    fn short(&self) -> String {
        key::short(&self.words)
    }

    #[getter]
    fn m(&self) -> u32 {
        self.words.m()
    }

    #[getter]
    fn n(&self) -> PyResult<u32> {
        Ok(self.gemm()?.site.n)
    }

    #[getter]
    fn k(&self) -> PyResult<u32> {
        Ok(self.gemm()?.site.k)
    }

    #[getter]
    fn dtype(&self) -> PyResult<&'static str> {
        Ok(self.gemm()?.site.x.name())
    }

    #[getter]
    fn w_dtype(&self) -> PyResult<&'static str> {
        Ok(self.gemm()?.site.w.name())
    }

    #[getter]
    fn out_dtype(&self) -> PyResult<&'static str> {
        Ok(self.gemm()?.site.out.name())
    }

    #[getter]
    fn bias(&self) -> PyResult<Option<&'static str>> {
        Ok(self.gemm()?.site.bias.map(|dtype| dtype.name()))
    }

    /// The same layer at another number of tokens.
    fn with_m(&self, m: u32) -> PyResult<Problem> {
        let gemm = Gemm { m, ..*self.gemm()? };
        gemm.validate().map_err(|invalid| ProblemError::new_err(invalid.to_string()))?;
        Ok(Problem { words: gemm.into() })
    }

    fn __str__(&self) -> String {
        self.key()
    }

    fn __repr__(&self) -> String {
        format!("tgemm.Problem.parse('{}')", self.words)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((py.get_type::<Problem>().getattr("parse")?, (self.key(),)))
    }
}
