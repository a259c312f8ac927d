//! Operands of a problem, made from a seed.
//!
//! - **N(0,1)-like**: constant or small-integer data draws less power and runs faster than real data.
//! - **Asymmetric**: no two rows and no two columns are alike, nor two matrices of a batch, so a transposition, a shifted tile
//!   or a stride that was ignored is seen.
//! - **Exact**: every value is representable in its type, so the host reference sees the very numbers of the device; none is
//!   zero or small enough for its products to be flushed, so every element matters.
//! - **Fast and without a host copy**: a matrix of more than a million elements is a pool of [`POOL_LEN`] numbers, laid out
//!   row after row, each row starting elsewhere. Any row can be made again at any time, so nothing is kept but the pool.
//!
//! Bias and old output are scaled by √K, the size of the product itself: left out or shifted, they cannot hide in rounding.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use tgemm_db::Problem;
use tgemm_db::problem::{Activation, Scalar};

use super::float::Float;
use super::layout::{Layout, Layouts, Span};
use super::rng::Rng;
use super::scales::Scales;
use crate::Error;

/// Length of a pool: the largest prime below 2^20. As it is prime, `row · step` meets every start before it repeats one.
pub const POOL_LEN: usize = 1_048_573;

/// From one row's start in the pool to the next: about 0.618 of the pool, so that near rows start far apart.
const POOL_STEP: usize = 648_055;

/// Least magnitude of a value: far above the subnormals of every type, so that flushing them changes nothing.
pub const MAGNITUDE_MIN: f64 = 1.0 / 1024.0;

/// 8-bit operands are drawn this much larger, and their scales this much smaller: the least magnitude of a value is then
/// normal in every 8-bit type (2^-6), and 9 deviations, more than are ever drawn, below the largest of each (240).
pub const SCALE_8_BIT: f64 = 16.0;

/// What stands for alpha of class "other"; exact in every type.
pub const ALPHA_OTHER: f32 = 0.75;

/// What stands for beta of class "other"; exact in every type, below 1 so that repeated launches in place stay finite.
pub const BETA_OTHER: f32 = -0.5;

/// Fills the gaps between rows: not a number in any floating-point type, so that reading them is seen.
pub const GAP_BYTE: u8 = 0xFF;

/// A matrix as it is stored, or those of a batch, no two rows of which are alike.
#[derive(Clone, Debug)]
pub struct Matrix {
    layout: Layout,
    float: Float,
    step: usize,
    pool: Arc<Pool>,
}

/// One matrix of a batch.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    matrix: &'a Matrix,
    /// Rows of the matrices before it.
    first: usize,
}

/// Numbers and their bytes, from which matrices are laid out.
#[derive(Debug)]
struct Pool {
    values: Vec<f32>,
    bytes: Vec<u8>,
}

/// What decides the content of a pool.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PoolKey {
    len: usize,
    float: Float,
    seed: u64,
    stream: u64,
    scale: u64,
    away: bool,
}

/// Whole pools that are kept: a sweep draws the same ones for every problem. 8 MB each.
const POOLS_KEPT_MAX: usize = 12;

static POOLS: Mutex<VecDeque<(PoolKey, Arc<Pool>)>> = Mutex::new(VecDeque::new());

impl Pool {
    /// The pool of `key`: kept from before if it is a whole one.
    fn of(key: PoolKey) -> Arc<Pool> {
        if key.len < POOL_LEN {
            return Arc::new(Pool::draw(key));
        }
        // A poisoned lock holds a whole list: nothing in here panics half-way.
        let mut kept = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, pool)) = kept.iter().find(|(have, _)| *have == key) {
            return Arc::clone(pool);
        }
        let pool = Arc::new(Pool::draw(key));
        kept.push_back((key, Arc::clone(&pool)));
        if kept.len() > POOLS_KEPT_MAX {
            kept.pop_front();
        }
        pool
    }

    fn draw(PoolKey { len, float, seed, stream, scale, away }: PoolKey) -> Pool {
        let scale = f64::from_bits(scale);
        let least = if float.is_8_bit() { MAGNITUDE_MIN * SCALE_8_BIT } else { MAGNITUDE_MIN };
        let mut rng = Rng::new(seed, stream);
        let mut values = Vec::with_capacity(len + 1);
        let mut bytes = Vec::with_capacity((len + 1) * float.bytes());
        while values.len() < len {
            let pair = rng.normals();
            for normal in [pair.0, pair.1] {
                let magnitude = if away { normal.abs() + 0.5 } else { normal.abs() };
                let value = (magnitude * scale).max(least).copysign(normal);
                float.encode(value, &mut bytes);
                values.push(float.round(value));
            }
        }
        values.truncate(len);
        bytes.truncate(len * float.bytes());
        Pool { values, bytes }
    }
}

impl Matrix {
    /// Matrices in `layout` of normal numbers with standard deviation `scale`; `away` keeps them half a deviation from zero.
    /// `stream` tells the operands of one seed apart.
    ///
    /// [`Error::Unsupported`] if a matrix too large to be drawn singly has an extent over [`POOL_LEN`]: rows would repeat.
    fn random(
        layout: Layout,
        float: Float,
        (seed, stream): (u64, u64),
        scale: f64,
        away: bool,
    ) -> Result<Matrix, Error> {
        let (rows, cols) = (layout.rows(), layout.cols());
        let elements = rows.saturating_mul(cols).saturating_mul(layout.matrices());
        let (len, step) = if elements <= POOL_LEN { (elements, cols) } else { (POOL_LEN, POOL_STEP) };
        if elements > POOL_LEN && rows.max(cols) > POOL_LEN {
            let why = format!("a matrix of {rows}x{cols} would repeat itself; extents up to {POOL_LEN} can be filled");
            return Err(Error::Unsupported(why));
        }
        let pool = Pool::of(PoolKey { len, float, seed, stream, scale: scale.to_bits(), away });
        Ok(Matrix { layout, float, step, pool })
    }

    /// Where its rows lie.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Bytes of one element.
    pub fn element_bytes(&self) -> usize {
        self.float.bytes()
    }

    /// All matrices as stored, bytes.
    pub fn stored_bytes(&self) -> usize {
        self.layout.elements() * self.float.bytes()
    }

    /// The matrix that product `batch` of a batch takes.
    pub fn of_batch(&self, batch: u32) -> View<'_> {
        let matrix = if self.layout.matrices() == 1 { 0 } else { batch as usize };
        View { matrix: self, first: matrix * self.layout.rows() }
    }

    /// Where row `row` of all matrices, one after the other, starts in the pool.
    fn start(&self, row: usize) -> usize {
        // Below 2^53 (rows in memory) and 2^20, so the product fits once the first is reduced.
        let len = self.pool.values.len();
        (row % len * self.step) % len
    }

    /// Writes the stored rows `stored` into `out`, which is as long as they are with their gaps, which are filled with
    /// [`GAP_BYTE`].
    pub(super) fn fill(&self, stored: Range<usize>, out: &mut [u8]) {
        let size = self.float.bytes();
        for Span { stored, cells, gap } in self.layout.spans(stored, size) {
            let (matrix, row) = self.layout.matrix_and_row(stored);
            let mut at = self.start(matrix * self.layout.rows() + row) * size;
            let mut cells = &mut out[cells];
            while !cells.is_empty() {
                let take = cells.len().min(self.pool.bytes.len() - at);
                let (now, rest) = cells.split_at_mut(take);
                now.copy_from_slice(&self.pool.bytes[at..at + take]);
                (cells, at) = (rest, 0);
            }
            out[gap].fill(GAP_BYTE);
        }
    }
}

impl View<'_> {
    /// The element at a stored place.
    pub fn value(&self, row: usize, col: usize) -> f32 {
        let values = &self.matrix.pool.values;
        values[(self.matrix.start(self.first + row) + col) % values.len()]
    }

    /// The stored row `row`, into `out`.
    pub fn row(&self, row: usize, out: &mut Vec<f32>) {
        let (values, cols) = (&self.matrix.pool.values, self.matrix.layout.cols());
        out.clear();
        let mut at = self.matrix.start(self.first + row);
        while out.len() < cols {
            let take = (cols - out.len()).min(values.len() - at);
            out.extend_from_slice(&values[at..at + take]);
            at = 0;
        }
    }

    /// The stored column `col`, into `out`.
    pub fn col(&self, col: usize, out: &mut Vec<f32>) {
        out.clear();
        out.extend((0..self.matrix.layout.rows()).map(|row| self.value(row, col)));
    }
}

/// The operands of one problem.
#[derive(Clone, Debug)]
pub struct Data {
    /// Activations as stored.
    pub x: Matrix,
    /// Weights as stored.
    pub w: Matrix,
    /// Bias, one row of N, added to every matrix of a batch.
    pub bias: Option<Matrix>,
    /// The old output, where beta is not zero.
    pub c: Option<Matrix>,
    /// Factors of a scaled problem.
    pub scales: Option<Scales>,
    /// Factor of the product, of the problem's class.
    pub alpha: f32,
    /// Factor of the old output, of the problem's class.
    pub beta: f32,
}

fn factor(class: Scalar, other: f32) -> f32 {
    match class {
        Scalar::Zero => 0.0,
        Scalar::One => 1.0,
        _ => other,
    }
}

/// The activations that the reference defines.
pub(super) const CHECKED: &[Activation] = &[Activation::None, Activation::Relu, Activation::Gelu, Activation::Silu];

impl Data {
    /// The operands of `problem` for `seed`.
    ///
    /// [`Error::Unsupported`] for batches that overlap, shuffled weights, and types and scales that the host cannot make.
    pub fn new(problem: &Problem, seed: u64) -> Result<Data, Error> {
        let gemm = crate::gemm_of(problem)?;
        let site = &gemm.site;
        gemm.validate().map_err(|e| Error::Unsupported(e.to_string()))?;
        for (has, what) in [
            (site.preshuffled, "shuffled weights"),
            (!CHECKED.contains(&site.activation), "an activation that has no reference"),
        ] {
            if has {
                return Err(Error::unsupported(format!("problems with {what} cannot be checked yet")));
            }
        }
        let layouts = Layouts::of(gemm)?;
        let scale = f64::from(site.k).sqrt();
        // Every product of a batch adds the same bias.
        let bias = |dtype| Matrix::random(Layout::one([1, site.n, site.n])?, Float::of(dtype)?, (seed, 3), scale, true);
        let out = Float::of_output(site.out)?;
        let c = || Matrix::random(layouts.out, out, (seed, 4), scale, true);
        let operand = |layout, dtype, stream| {
            let float = Float::of(dtype)?;
            let size = if float.is_8_bit() { SCALE_8_BIT } else { 1.0 };
            Matrix::random(layout, float, (seed, stream), size, false)
        };
        Ok(Data {
            x: operand(layouts.x, site.x, 1)?,
            w: operand(layouts.w, site.w, 2)?,
            bias: site.bias.map(bias).transpose()?,
            c: (site.beta != Scalar::Zero).then(c).transpose()?,
            scales: Scales::new(gemm, seed)?,
            alpha: factor(site.alpha, ALPHA_OTHER),
            beta: factor(site.beta, BETA_OTHER),
        })
    }
}

#[cfg(test)]
#[path = "data_tests.rs"]
mod tests;
