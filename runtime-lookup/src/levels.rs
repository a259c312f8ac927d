//! How far from what was tuned a lookup may answer.

/// Which levels of the ladder may answer, besides the exact one and the default.
///
/// The further down a level stands, the less was measured. A row at another M of the same site, as AITER pads or between two
/// tuned M, was raced on these very weights; what was right and fast at both ends is at worst a little off between them. A
/// prediction for a site that nobody tuned is a guess, however guarded: it may be slower than what ran before. So it is off
/// until it is asked for, and whoever wants never to leave measured ground takes [`Levels::EXACT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Levels {
    /// The M that AITER's padding names.
    pub padded: bool,
    /// An M between two tuned ones of the same site.
    pub interval: bool,
    /// A site that was not tuned, beside one that was.
    pub predicted: bool,
}

impl Levels {
    /// Nothing but what was tuned.
    pub const EXACT: Levels = Levels { padded: false, interval: false, predicted: false };
    /// As AITER answers from the same table.
    pub const AITER: Levels = Levels { padded: true, interval: false, predicted: false };
    /// Every level.
    pub const ALL: Levels = Levels { padded: true, interval: true, predicted: true };
}

impl Default for Levels {
    /// Exact, padded and interval: all that rests on rows of the site itself.
    fn default() -> Levels {
        Levels { padded: true, interval: true, predicted: false }
    }
}
