//! A small seeded generator. Not for secrets: for data and noise that are the same everywhere and every time.

/// SplitMix64 (Steele, Lea, Flood 2014): one addition and two multiplications a number, any seed is good.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// A stream of its own for every (seed, stream).
    pub(crate) fn new(seed: u64, stream: u64) -> Rng {
        let mut rng = Rng(seed ^ stream.wrapping_mul(0xD1B5_4A32_D192_ED03));
        Rng(rng.bits())
    }

    /// 64 random bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in (0, 1]: safe under a logarithm.
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 * 2f64.powi(-53)
    }

    /// Uniform in `0..end`; 0 for an empty range.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        // The high half of a product: the bias is end / 2^64.
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    /// Two independent normal numbers, mean 0, variance 1 (Box-Muller).
    pub(crate) fn normals(&mut self) -> (f64, f64) {
        let radius = (-2.0 * self.unit().ln()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * self.unit()).sin_cos();
        (radius * cos, radius * sin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_and_repeat() {
        let take = |seed, stream| -> Vec<u64> {
            let mut rng = Rng::new(seed, stream);
            (0..4).map(|_| rng.bits()).collect()
        };
        assert_eq!(take(1, 2), take(1, 2));
        assert_ne!(take(1, 2), take(1, 3));
        assert_ne!(take(1, 2), take(2, 2));
    }

    #[test]
    fn ranges_hold() {
        let mut rng = Rng::new(7, 0);
        for end in 1..200 {
            assert!(rng.below(end) < end);
            let unit = rng.unit();
            assert!(unit > 0.0 && unit <= 1.0);
        }
    }
}
