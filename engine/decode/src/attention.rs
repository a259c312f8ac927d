//! Grouped-query attention of a batch of sequences over a cache of keys and values, in f32.

use rayon::prelude::*;

use crate::config::ModelConfig;
use crate::math::{dot, rms_norm_in_place, softmax};
use crate::model::Layer;

/// Below this many multiplications one thread is faster than several.
const PARALLEL_WORK_MIN: usize = 1 << 20;

/// Keys and values of every layer, sequence and position.
pub(crate) struct Cache {
    /// By layer: [sequence][position][kv head][head width].
    keys: Vec<Vec<f32>>,
    values: Vec<Vec<f32>>,
    positions_max: usize,
    row: usize,
}

impl Cache {
    pub fn new(config: &ModelConfig, batch: usize, positions_max: usize) -> Cache {
        let row = (config.kv_heads * config.head_dim) as usize;
        let side = || (0..config.layers).map(|_| vec![0.0; batch * positions_max * row]).collect();
        Cache { keys: side(), values: side(), positions_max, row }
    }

    fn start(&self, sequence: usize, position: usize) -> usize {
        (sequence * self.positions_max + position) * self.row
    }
}

/// Sines and cosines of the rotary embedding, computed once for all positions.
pub(crate) struct Rope {
    /// [position][head width / 2] of (sine, cosine).
    table: Vec<(f32, f32)>,
    half: usize,
}

impl Rope {
    pub fn new(config: &ModelConfig, positions_max: usize) -> Rope {
        let half = (config.head_dim / 2) as usize;
        let frequency = |i: usize| config.rope_theta.powf(-(i as f64) / half as f64);
        let angles = (0..positions_max).flat_map(|position| (0..half).map(move |i| (position, i)));
        let table = angles.map(|(position, i)| (position as f64 * frequency(i)).sin_cos());
        Rope { table: table.map(|(sin, cos)| (sin as f32, cos as f32)).collect(), half }
    }

    /// Rotates one head: element i with element i + half, as in Llama and Qwen.
    fn rotate(&self, position: usize, head: &mut [f32]) {
        let (low, high) = head.split_at_mut(self.half);
        let turns = &self.table[position * self.half..][..self.half];
        for ((a, b), (sin, cos)) in low.iter_mut().zip(high).zip(turns) {
            (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
        }
    }
}

/// Which rows of a forward pass are which tokens: row `sequence * steps + step` is position `first + step`.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub batch: usize,
    pub first: usize,
    pub steps: usize,
}

/// Attention of one layer. `qkv` holds a row a token (q, then k, then v), and is normalised and rotated in place;
/// `out` gets heads x head width a token.
pub(crate) fn attend(
    config: &ModelConfig,
    (layer, index): (&Layer, usize),
    rope: &Rope,
    cache: &mut Cache,
    span: Span,
    qkv: &mut [f32],
    out: &mut [f32],
) {
    let (width, q_width) = (config.qkv_width() as usize, config.attention_width() as usize);
    for (token, row) in qkv.chunks_mut(width).enumerate() {
        let (sequence, position) = (token / span.steps, span.first + token % span.steps);
        let (q, kv) = row.split_at_mut(q_width);
        let (k, v) = kv.split_at_mut(cache.row);
        place(config, layer.qk_norm.as_ref().map(|norms| norms.0.as_slice()), rope, position, q);
        place(config, layer.qk_norm.as_ref().map(|norms| norms.1.as_slice()), rope, position, k);
        let start = cache.start(sequence, position);
        cache.keys[index][start..start + k.len()].copy_from_slice(k);
        cache.values[index][start..start + v.len()].copy_from_slice(v);
    }
    let (qkv, cache) = (&*qkv, &*cache);
    let one = |scores: &mut Vec<f32>, (token, out): (usize, &mut [f32])| {
        let (sequence, position) = (token / span.steps, span.first + token % span.steps);
        let q = &qkv[token * width..][..q_width];
        attend_token(config, cache, (index, sequence), position, q, scores, out);
    };
    let work = span.batch * span.steps * (span.first + span.steps) * q_width * 2;
    if work >= PARALLEL_WORK_MIN {
        out.par_chunks_mut(q_width).enumerate().for_each_init(Vec::new, one);
    } else {
        let mut scores = Vec::new();
        out.chunks_mut(q_width).enumerate().for_each(|token| one(&mut scores, token));
    }
}

/// Normalises (Qwen3) and rotates every head of a q or k row.
fn place(config: &ModelConfig, norm: Option<&[f32]>, rope: &Rope, position: usize, row: &mut [f32]) {
    for head in row.chunks_mut(config.head_dim as usize) {
        if let Some(factors) = norm {
            rms_norm_in_place(head, factors, config.norm_eps);
        }
        rope.rotate(position, head);
    }
}

fn attend_token(
    config: &ModelConfig,
    cache: &Cache,
    (layer, sequence): (usize, usize),
    position: usize,
    q: &[f32],
    scores: &mut Vec<f32>,
    out: &mut [f32],
) {
    let dim = config.head_dim as usize;
    let group = (config.heads / config.kv_heads) as usize;
    let scale = (dim as f32).sqrt().recip();
    let start = cache.start(sequence, 0);
    for (head, (q, out)) in q.chunks(dim).zip(out.chunks_mut(dim)).enumerate() {
        let at = |position: usize| start + position * cache.row + (head / group) * dim;
        scores.clear();
        scores.extend((0..=position).map(|past| scale * dot(q, &cache.keys[layer][at(past)..][..dim])));
        softmax(scores);
        out.fill(0.0);
        for (past, weight) in scores.iter().enumerate() {
            for (out, value) in out.iter_mut().zip(&cache.values[layer][at(past)..][..dim]) {
                *out += weight * value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotation_keeps_lengths_and_makes_scores_depend_on_distance() {
        let config = ModelConfig::from_json(tgemm_configs::model("tiny").unwrap()).unwrap();
        let rope = Rope::new(&config, 32);
        let head = |seed: f32| -> Vec<f32> { (0..64).map(|i| (i as f32 * seed).sin()).collect() };
        let score = |q_at: usize, k_at: usize| {
            let (mut q, mut k) = (head(0.7), head(1.3));
            rope.rotate(q_at, &mut q);
            rope.rotate(k_at, &mut k);
            assert!((dot(&q, &q) - dot(&head(0.7), &head(0.7))).abs() < 1e-4);
            dot(&q, &k)
        };
        assert!((score(9, 4) - score(25, 20)).abs() < 1e-4);
        assert!((score(9, 4) - score(9, 5)).abs() > 1e-3);
    }
}
