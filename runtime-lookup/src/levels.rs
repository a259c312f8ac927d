//! How far from what was tuned a lookup may answer.

/// Which levels of the ladder may answer, besides the exact one and the default.
///
/// The further down a level stands, the less was measured, and an answer must not be slower than what ran before. Two sweeps of
/// 270 problems on H200s were held against their own times, each M left out in turn (docs/results/lookup.md): where both tuned
/// neighbours chose the same solution, it was more than 1 % slower than the baseline in 1 of 57, by 1.1 %; where they chose
/// differently too and the better score decided, in 51 of 290, by up to 46 %. So the first answers, and the second is off until it is
/// asked for, as is a prediction for a site that nobody tuned. Padding is AITER's rule, whose users expect it. Whoever wants
/// never to leave measured ground takes [`Levels::EXACT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Levels {
    /// The M that AITER's padding names.
    pub padded: bool,
    /// An M between two tuned ones of the same site that chose the same solution.
    pub interval: bool,
    /// Where these chose differently: that of the better score by the site's costs. Part of `interval`.
    pub scored: bool,
    /// A site that was not tuned, beside one that was.
    pub predicted: bool,
}

impl Levels {
    /// Nothing but what was tuned.
    pub const EXACT: Levels = Levels { padded: false, interval: false, scored: false, predicted: false };
    /// As AITER answers from the same table.
    pub const AITER: Levels = Levels { padded: true, ..Levels::EXACT };
    /// Every level.
    pub const ALL: Levels = Levels { padded: true, interval: true, scored: true, predicted: true };
}

impl Default for Levels {
    /// Exact, padded, and interval where the neighbours agree.
    fn default() -> Levels {
        Levels { interval: true, ..Levels::AITER }
    }
}
