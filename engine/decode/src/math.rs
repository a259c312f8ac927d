//! The arithmetic between matrix products, in f32.

/// `out = x / √(mean(x²) + eps) · factors`.
pub(crate) fn rms_norm(x: &[f32], factors: &[f32], eps: f32, out: &mut [f32]) {
    let scale = (dot(x, x) / x.len() as f32 + eps).sqrt().recip();
    for ((out, x), factor) in out.iter_mut().zip(x).zip(factors) {
        *out = x * scale * factor;
    }
}

/// [`rms_norm`] of a vector in its own place.
pub(crate) fn rms_norm_in_place(x: &mut [f32], factors: &[f32], eps: f32) {
    let scale = (dot(x, x) / x.len() as f32 + eps).sqrt().recip();
    for (x, factor) in x.iter_mut().zip(factors) {
        *x *= scale * factor;
    }
}

/// Inner product, in eight partial sums so that the compiler may use vector registers.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 8;
    let mut sums = [0.0f32; LANES];
    let (a_chunks, b_chunks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let tail: f32 = a_chunks.remainder().iter().zip(b_chunks.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a_chunks.zip(b_chunks) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum::<f32>() + tail
}

/// Turns scores into weights that sum to 1.
pub(crate) fn softmax(scores: &mut [f32]) {
    let max = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        *score = (*score - max).exp();
        sum += *score;
    }
    scores.iter_mut().for_each(|score| *score /= sum);
}

/// SwiGLU: a row holds `gate` and then `up`; `out = gate · sigmoid(gate) · up`.
pub(crate) fn swiglu(row: &[f32], out: &mut [f32]) {
    let (gate, up) = row.split_at(row.len() / 2);
    for ((out, gate), up) in out.iter_mut().zip(gate).zip(up) {
        *out = gate / (1.0 + (-gate).exp()) * up;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn norms_softmax_and_swiglu_by_hand() {
        let mut out = [0.0; 2];
        rms_norm(&[3.0, 4.0], &[1.0, 2.0], 0.0, &mut out);
        let root = 12.5f32.sqrt();
        assert!((out[0] - 3.0 / root).abs() < 1e-6 && (out[1] - 8.0 / root).abs() < 1e-6);
        let mut same = [3.0, 4.0];
        rms_norm_in_place(&mut same, &[1.0, 2.0], 0.0);
        assert!((same[0] - out[0]).abs() < 1e-6 && (same[1] - out[1]).abs() < 1e-6);

        let mut scores = [1000.0, 1000.0, f32::NEG_INFINITY];
        softmax(&mut scores);
        assert_eq!(scores, [0.5, 0.5, 0.0]);

        swiglu(&[0.0, 1.0, 5.0, 2.0], &mut out);
        assert!(out[0] == 0.0 && (out[1] - 2.0 / (1.0 + (-1f32).exp())).abs() < 1e-6);
        let ones: Vec<f32> = (0..19).map(|i| i as f32).collect();
        assert_eq!(dot(&ones, &ones), (0..19).map(|i| (i * i) as f32).sum::<f32>());
    }
}
