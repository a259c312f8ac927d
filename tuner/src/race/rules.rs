//! The numbers of the race, each with its reason.

/// The numbers of the race.
#[derive(Clone, Debug)]
pub struct Rules {
    /// A contender whose probe is this many times the best probe is dropped at once. Twice leaves room for the noise of
    /// a single sample: two samples of one solution differ by up to 1.5x on a busy host.
    pub prune_factor: f64,
    /// Contenders that meet the baselines in the final.
    pub finalists_max: usize,
    /// Rounds over the field before the first halving; doubled after each.
    pub rounds_first: u32,
    /// A win is a ratio whose whole interval lies below 1 − this.
    pub min_gain: f64,
    /// Confidence that no decision of the final is wrong; its complement is divided among the contenders and the looks
    /// (Bonferroni), since every further look at growing data is another chance to be fooled.
    pub confidence: f64,
    /// After how many blocks the final looks at its data; it ends with the last. The first look must carry the divided
    /// confidence: 10 pairs carry 99.8 %.
    pub looks: Vec<usize>,
    /// A ratio known to this half-width is known well enough.
    pub half_width: f64,
    /// Blocks of the confirmation: the least that carries 95 % is 6; as many again for samples that go astray.
    pub confirm_blocks: usize,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            prune_factor: 2.0,
            finalists_max: 3,
            rounds_first: 2,
            min_gain: 0.005,
            confidence: 0.95,
            looks: vec![10, 16, 24, 32],
            half_width: 0.005,
            confirm_blocks: 12,
        }
    }
}
