//! The factors of a scaled problem.
//!
//! | mode | factors of `x` | factors of `w` |
//! |---|---|---|
//! | tensor | one | one |
//! | token_channel | one a token | one an out feature |
//! | block128 | one a token and 128 of K | one for 128 out features and 128 of K |
//!
//! In memory all are f32. Block factors of `x` lie with the tokens together (M fastest), those of `w` with K together, whose
//! count is padded to a multiple of [`BLOCK_PADDING`]: the layouts that cuBLASLt documents for its 1x128 and 128x128 modes.

use tgemm_db::DType;
use tgemm_db::problem::{Gemm, ScaleMode};

use super::rng::Rng;
use crate::Error;

/// Elements of K, and out features, that share a block's factor.
pub const BLOCK: usize = 128;

/// What the count of K's blocks of `w` is padded to.
pub const BLOCK_PADDING: usize = 4;

/// The size of factors: operands of 8-bit problems are [`super::data::SCALE_8_BIT`] times those of others.
const MAGNITUDE: f64 = 1.0 / super::data::SCALE_8_BIT;

/// The factors of one problem.
#[derive(Clone, Debug)]
pub struct Scales {
    mode: ScaleMode,
    rows: usize,
    k_blocks: usize,
    k_blocks_padded: usize,
    x: Vec<f32>,
    w: Vec<f32>,
}

/// Factors between one half and two times [`MAGNITUDE`], no two alike, exact in f32.
fn draw(rng: &mut Rng, count: usize) -> Vec<f32> {
    let unit = |rng: &mut Rng| rng.below(1 << 20) as f64 / f64::from(1 << 20);
    (0..count).map(|_| (MAGNITUDE * (0.5 + 1.5 * unit(rng))) as f32).collect()
}

impl Scales {
    /// The factors of `gemm`; `None` where it has none.
    pub(super) fn new(gemm: &Gemm, seed: u64) -> Result<Option<Scales>, Error> {
        let Gemm { m, site } = gemm;
        if site.scale == ScaleMode::None {
            return Ok(None);
        }
        if site.scale_dtype != DType::F32 {
            return Err(Error::unsupported(format!("scales of type {} cannot be made yet", site.scale_dtype)));
        }
        if site.batch.count > 1 && site.scale != ScaleMode::Tensor {
            // Whether each matrix has factors of its own, and how far apart they lie, is not part of a problem.
            return Err(Error::unsupported(format!("batches with scales by {} cannot be checked", site.scale)));
        }
        let (m, n, k_blocks) = (*m as usize, site.n as usize, (site.k as usize).div_ceil(BLOCK));
        let k_blocks_padded = k_blocks.next_multiple_of(BLOCK_PADDING);
        let (of_x, of_w) = match site.scale {
            ScaleMode::Tensor => (1, 1),
            ScaleMode::TokenChannel => (m, n),
            ScaleMode::Block128 => (k_blocks * m, n.div_ceil(BLOCK) * k_blocks_padded),
            other => return Err(Error::unsupported(format!("scales by {other} cannot be made yet"))),
        };
        let (mut for_x, mut for_w) = (Rng::new(seed, 6), Rng::new(seed, 7));
        let (x, w) = (draw(&mut for_x, of_x), draw(&mut for_w, of_w));
        Ok(Some(Scales { mode: site.scale, rows: m, k_blocks, k_blocks_padded, x, w }))
    }

    /// The factors of `x` as they lie in memory.
    pub fn x(&self) -> &[f32] {
        &self.x
    }

    /// The factors of `w` as they lie in memory.
    pub fn w(&self) -> &[f32] {
        &self.w
    }

    /// Are there several factors along K?
    pub fn is_blocked(&self) -> bool {
        self.mode == ScaleMode::Block128
    }

    /// What the products of block `block` of K are multiplied with in output (row, col).
    pub fn factor(&self, row: usize, col: usize, block: usize) -> f64 {
        let (x, w) = match self.mode {
            ScaleMode::TokenChannel => (self.x[row], self.w[col]),
            ScaleMode::Block128 => {
                debug_assert!(block < self.k_blocks);
                (self.x[block * self.rows + row], self.w[col / BLOCK * self.k_blocks_padded + block])
            }
            _ => (self.x[0], self.w[0]),
        };
        f64::from(x) * f64::from(w)
    }
}
