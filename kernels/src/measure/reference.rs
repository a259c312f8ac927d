//! What the outputs should be, in f64 on the host, and the norms that scale an error.
//!
//! Every product of two values of at most 24 significant bits is exact in f64, and summing K of them in f64 is wrong by
//! at most K · 2^-53 of the sum of magnitudes: nothing beside the 2^-24 of the best kernel.
//!
//! All outputs are computed where that takes at most [`MACS_MAX`] multiply-adds; else a grid of sampled rows and columns:
//! the first, the last, and one seeded pick in each of equal strips between. A wrong region of the output that is at
//! least two strips wide and high is always seen.

use tgemm_db::Problem;
use tgemm_db::problem::{Activation, Gemm, Site};

use super::data::{Data, Matrix};
use super::layout::Place;
use super::rng::Rng;
use super::scales::BLOCK;
use crate::Error;

/// Most multiply-adds of one reference; about a tenth of a second on one core.
pub const MACS_MAX: u64 = 1 << 26;

/// Most outputs of one reference, so that K = 1 does not fill the memory.
pub const OUTPUTS_MAX: u64 = 1 << 20;

/// Most products of a batch that are sampled.
pub const BATCHES_MAX: u32 = 16;

/// One output as it should be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// The exact output, not rounded to the output's type.
    pub value: f64,
    /// Scale of the summation's error: |alpha| · √Σ(x·w)² + |bias| + |beta · c|.
    pub norm: f64,
    /// Sum of the magnitudes of the result and of every stage before it that a kernel may round to the output's type on
    /// the way: the bare product where something is added to it, the sum where an activation follows.
    pub stages: f64,
}

/// The outputs that are checked: all of `batches` x `rows` x `cols`.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Products of the batch, ascending; 0 where there is no batch.
    pub batches: Vec<u32>,
    /// Rows of the output, ascending.
    pub rows: Vec<u32>,
    /// Columns of the output, ascending.
    pub cols: Vec<u32>,
    /// One for each of `batches`, `rows` and `cols`, row after row.
    pub cells: Vec<Cell>,
}

/// How many products, rows and columns to check: all, or as near to a square as the limits allow; always at least 2 of each.
pub fn sample_counts(batch: u32, m: u32, n: u32, k: u32) -> (u32, u32, u32) {
    let outputs = (MACS_MAX / u64::from(k.max(1))).clamp(8, OUTPUTS_MAX);
    if u64::from(m).saturating_mul(n.into()).saturating_mul(batch.into()) <= outputs {
        return (batch, m, n);
    }
    let batches = batch.min(BATCHES_MAX);
    let outputs = (outputs / u64::from(batches)).max(4);
    if u64::from(m) * u64::from(n) <= outputs {
        return (batches, m, n);
    }
    let share = |extent: u32, other: u32| (outputs / u64::from(other.max(1))).clamp(2, u64::from(extent.max(2))) as u32;
    let rows = m.min(outputs.isqrt() as u32);
    let cols = share(n, rows).min(n);
    // What the columns left over, where there are few of them, goes to the rows.
    (batches, share(m, cols).min(m), cols)
}

/// `count` of `0..extent`, ascending: the first, the last, and one in each of the equal strips between.
pub(crate) fn strata(extent: u32, count: u32, rng: &mut Rng) -> Vec<u32> {
    if count >= extent {
        return (0..extent).collect();
    }
    let (inner, strips) = (u64::from(extent).saturating_sub(2), u64::from(count).saturating_sub(2));
    let mut picks = vec![0];
    for strip in 0..strips {
        let (from, to) = (1 + inner * strip / strips, 1 + inner * (strip + 1) / strips);
        picks.push((from + rng.below(to - from)) as u32);
    }
    if count > 1 {
        picks.push(extent - 1);
    }
    picks
}

/// Σ x·w and Σ (x·w)². Sixteen sums side by side keep the vector units busy and the rounding small.
fn dot(x: &[f32], w: &[f32]) -> (f64, f64) {
    const LANES: usize = 8;
    let (mut sums, mut squares) = ([0.0f64; LANES], [0.0f64; LANES]);
    let (x_chunks, w_chunks) = (x.chunks_exact(LANES), w.chunks_exact(LANES));
    let tail = x_chunks.remainder().iter().zip(w_chunks.remainder());
    for (x, w) in x_chunks.zip(w_chunks) {
        for lane in 0..LANES {
            let product = f64::from(x[lane]) * f64::from(w[lane]);
            sums[lane] += product;
            squares[lane] += product * product;
        }
    }
    let (mut sum, mut square) = (sums.iter().sum::<f64>(), squares.iter().sum::<f64>());
    for (x, w) in tail {
        let product = f64::from(*x) * f64::from(*w);
        sum += product;
        square += product * product;
    }
    (sum, square)
}

/// Σ x·w and Σ (x·w)² of output (row, col), each product times its factor.
fn scaled_dot(data: &Data, (row, col): (u32, u32), x: &[f32], w: &[f32]) -> (f64, f64) {
    let Some(scales) = &data.scales else { return dot(x, w) };
    let factor = |block: usize| scales.factor(row as usize, col as usize, block);
    let scaled = |(sum, square): (f64, f64), factor: f64| (sum * factor, square * factor * factor);
    if !scales.is_blocked() {
        return scaled(dot(x, w), factor(0));
    }
    let blocks = x.chunks(BLOCK).zip(w.chunks(BLOCK)).enumerate();
    let parts = blocks.map(|(block, (x, w))| scaled(dot(x, w), factor(block)));
    parts.fold((0.0, 0.0), |total, part| (total.0 + part.0, total.1 + part.1))
}

/// A row or column of an operand, into a vector.
type Take<'a> = dyn Fn(u32, &mut Vec<f32>) + Sync + 'a;

/// A cell from the numbers and vectors of a held and of a passing side.
type Make<'a> = dyn Fn(usize, usize, &[f32], &[f32]) -> Cell + Sync + 'a;

/// The vectors of `picks`.
fn held(picks: &[u32], take: &Take<'_>) -> Vec<Vec<f32>> {
    let vector = |&pick| {
        let mut vector = Vec::new();
        take(pick, &mut vector);
        vector
    };
    picks.iter().map(vector).collect()
}

/// Most threads of one reference: enough that it takes no time beside the copies to the device.
const THREADS_MAX: usize = 8;

/// For each of `picks`, the cells that its vector makes with every one of `held`, on a few threads.
fn pass(held: &[Vec<f32>], picks: &[u32], take: &Take<'_>, make: &Make<'_>) -> Vec<Vec<Cell>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    let share = picks.len().div_ceil(threads).max(1);
    let work = |first: usize, picks: &[u32]| {
        let mut passing = Vec::new();
        let cells = picks.iter().enumerate().map(|(at, &pick)| {
            take(pick, &mut passing);
            held.iter().enumerate().map(|(i, vector)| make(i, first + at, vector, &passing)).collect()
        });
        cells.collect::<Vec<Vec<Cell>>>()
    };
    std::thread::scope(|scope| {
        let parts = picks.chunks(share).enumerate();
        let running: Vec<_> = parts.map(|(part, picks)| scope.spawn(move || work(part * share, picks))).collect();
        // A panic over there is one here.
        running
            .into_iter()
            .flat_map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// The activation in f64; the Gaussian one in the form with tanh, which vendor libraries compute.
pub fn activate(activation: Activation, v: f64) -> f64 {
    match activation {
        Activation::Relu => v.max(0.0),
        Activation::Silu => v / (1.0 + (-v).exp()),
        Activation::Gelu => 0.5 * v * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (v + 0.044715 * v * v * v)).tanh()),
        Activation::None => v,
        // No operands are made for any other: nothing equals this.
        _ => f64::NAN,
    }
}

impl Reference {
    /// The reference of `problem` on `data`; `seed` picks the sample. [`Error::Unsupported`] for what is no GEMM.
    pub fn new(problem: &Problem, data: &Data, seed: u64) -> Result<Reference, Error> {
        let Gemm { m, site } = crate::gemm_of(problem)?;
        let (batch_count, row_count, col_count) = sample_counts(site.batch.count, *m, site.n, site.k);
        let mut rng = Rng::new(seed, 5);
        let rows = strata(*m, row_count, &mut rng);
        let cols = strata(site.n, col_count, &mut rng);
        let batches = strata(site.batch.count, batch_count, &mut rng);
        let cells = batches.iter().flat_map(|&batch| cells(site, data, batch, (&rows, &cols))).collect();
        Ok(Reference { batches, rows, cols, cells })
    }

    /// Where cell `index` lies.
    pub(super) fn place(&self, index: usize) -> Place {
        let (row, col) = (index / self.cols.len(), index % self.cols.len());
        let batch = self.batches[row / self.rows.len()];
        // One product sampled is the only one: of a batch there are at least two.
        let matrix = (self.batches.len() > 1).then_some(batch);
        Place { matrix, row: self.rows[row % self.rows.len()], col: self.cols[col] }
    }
}

/// The outputs of product `batch` at `rows` x `cols`.
fn cells(site: &Site, data: &Data, batch: u32, (rows, cols): (&[u32], &[u32])) -> Vec<Cell> {
    let (of_x, of_w) = (data.x.of_batch(batch), data.w.of_batch(batch));
    let x = |row: u32, out: &mut Vec<f32>| match site.trans.x() {
        true => of_x.col(row as usize, out),
        false => of_x.row(row as usize, out),
    };
    let w = |col: u32, out: &mut Vec<f32>| match site.trans.w() {
        true => of_w.col(col as usize, out),
        false => of_w.row(col as usize, out),
    };
    let cell = |i: usize, j: usize, x: &[f32], w: &[f32]| {
        let product = scaled_dot(data, (rows[i], cols[j]), x, w);
        finish(site.activation, data, (batch, rows[i], cols[j]), product)
    };
    // The vectors of the shorter side are held, those of the longer are made one at a time.
    if rows.len() <= cols.len() {
        let columns = pass(&held(rows, &x), cols, &w, &|i, j, x, w| cell(i, j, x, w));
        (0..rows.len()).flat_map(|i| columns.iter().map(move |column| column[i])).collect()
    } else {
        pass(&held(cols, &w), rows, &x, &|j, i, w, x| cell(i, j, x, w)).concat()
    }
}

/// The output at (product of the batch, row, column) from its sum.
fn finish(activation: Activation, data: &Data, (batch, row, col): (u32, u32, u32), (sum, square): (f64, f64)) -> Cell {
    let (alpha, beta) = (f64::from(data.alpha), f64::from(data.beta));
    let product = alpha * sum;
    let bias = data.bias.as_ref().map_or(0.0, |bias| f64::from(bias.of_batch(0).value(0, col as usize)));
    let old = |c: &Matrix| beta * f64::from(c.of_batch(batch).value(row as usize, col as usize));
    let old = data.c.as_ref().map_or(0.0, old);
    let before = product + bias + old;
    let value = activate(activation, before);
    let mut stages = value.abs();
    if data.bias.is_some() || data.c.is_some() {
        stages += product.abs();
    }
    if data.bias.is_some() && data.c.is_some() {
        stages += (product + bias).abs().max((product + old).abs());
    }
    if activation != Activation::None {
        stages += before.abs();
    }
    Cell { value, norm: alpha.abs() * square.sqrt() + bias.abs() + old.abs(), stages }
}

#[cfg(test)]
#[path = "reference_tests.rs"]
mod tests;
