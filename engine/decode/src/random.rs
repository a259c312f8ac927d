//! Seeded numbers for weights and tokens: the same on every machine and with any number of threads.

/// SplitMix64 (Steele, Lea and Flood 2014): one addition and a mix a draw, any seed is good.
pub(crate) struct Random(u64);

impl Random {
    /// The stream number `stream` of `seed`.
    pub fn new(seed: u64, stream: u64) -> Random {
        let mut random = Random(seed ^ stream.wrapping_mul(0xA24B_AED4_963E_E407));
        Random(random.bits())
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform values with the given standard deviation and mean zero.
    pub fn fill(&mut self, deviation: f32, values: &mut [f32]) {
        // A uniform variable on ±a has standard deviation a/√3; two 24-bit draws from each 64 bits.
        let unit = deviation * 3f32.sqrt() / (1u32 << 23) as f32;
        let draw = |bits: u64| ((bits & 0xFF_FFFF) as f32 - (1u32 << 23) as f32) * unit;
        for pair in values.chunks_mut(2) {
            let bits = self.bits();
            pair[0] = draw(bits);
            if let Some(second) = pair.get_mut(1) {
                *second = draw(bits >> 32);
            }
        }
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u32) -> u32 {
        (((self.bits() >> 32) * u64::from(end)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_as_asked_and_streams_differ() {
        let mut values = vec![0.0; 100_001];
        Random::new(7, 0).fill(0.5, &mut values);
        let mean = values.iter().sum::<f32>() / values.len() as f32;
        let square = values.iter().map(|v| v * v).sum::<f32>() / values.len() as f32;
        assert!(mean.abs() < 0.01 && (square.sqrt() - 0.5).abs() < 0.01, "{mean} {square}");
        assert_ne!(Random::new(7, 0).bits(), Random::new(7, 1).bits());
        assert_ne!(Random::new(7, 0).bits(), Random::new(8, 0).bits());
        let mut random = Random::new(1, 2);
        let draws: Vec<u32> = (0..100).map(|_| random.below(3)).collect();
        assert!((0..3).all(|value| draws.contains(&value)) && draws.iter().all(|&draw| draw < 3));
    }
}
