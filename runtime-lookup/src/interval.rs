//! An M between two tuned ones of a site: which neighbour's winner to run.
//!
//! Where both chose the same solution there is nothing to ask. Where they did not, and [`crate::Levels::scored`] allows it, both
//! winners are scored at the real M by what the site must cost: its operations and bytes ([`tgemm_db::cost`]) at the best rates
//! that any row of the table reached. Each is scored in the way that flatters it least. A larger problem takes the lower
//! neighbour's winner in proportion: what it wasted of the device, it goes on wasting.
//! A smaller one saves the upper neighbour's winner only what the device itself must do less: a tile that is half empty takes
//! as long. So the lower one is taken as long as it is quicker even so, and the upper one from there on, which is also what a
//! doubt gets: padding up is what AITER does.
//!
//! Nothing is said outside the tuned span, where there is only one neighbour.

use tgemm_db::{Choice, Constraints};

use crate::admit::Stretch;
use crate::floor::Floor;
use crate::index::{Index, Tuned};

/// The most rows that are looked at on either side for one that may run, so that a refusal of all costs no more.
pub const NEIGHBOURS_MAX: usize = 8;

/// A neighbour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Side {
    /// Of the index.
    pub(crate) place: usize,
    /// Where it was tuned.
    pub(crate) m: u32,
    /// What it is thought to take at the M asked for, microseconds; not a number where its source has no time.
    pub(crate) score_us: f32,
}

/// The two neighbours that may run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Between {
    pub(crate) low: Side,
    pub(crate) high: Side,
}

impl Between {
    /// The one to run.
    #[inline]
    pub(crate) fn best(&self) -> &Side {
        if self.low.score_us < self.high.score_us { &self.low } else { &self.high }
    }
}

/// Why there are no two neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lone {
    /// The site has no rows.
    NotTuned,
    /// All rows are above; the lowest M.
    Below(u32),
    /// All rows are below; the highest M.
    Above(u32),
    /// No row below may run, of those that were looked at.
    LowRefused,
    /// No row above may.
    HighRefused,
}

/// What a lookup goes by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) index: &'a Index,
    pub(crate) choices: &'a [Choice],
    pub(crate) constraints: &'a Constraints,
    /// The M asked for.
    pub(crate) m: u32,
    /// But for the tokens.
    pub(crate) stretch: Stretch,
}

impl Ask<'_> {
    /// May what stands at `place`, tuned at `tuned_m`, run?
    #[inline]
    pub(crate) fn allows(&self, place: usize, tuned_m: u32) -> bool {
        self.index.allowed(place, self.choices, self.constraints, self.stretch.tokens(tuned_m, self.m))
    }

    /// The best row of `tuned` at `tuned_m` that may run, searched from place `first` on.
    #[inline]
    pub(crate) fn best_at(&self, tuned: &Tuned, first: usize, tuned_m: u32) -> Option<usize> {
        self.index.places(tuned.span, first, tuned_m).find(|&place| self.allows(place, tuned_m))
    }

    /// What a tuned site says for one near it, at this M or between two of its own.
    pub(crate) fn near_site(&self, tuned: &Tuned) -> Option<usize> {
        let first = self.index.first(tuned, self.m);
        let exact = self.best_at(tuned, first, self.m);
        exact.or_else(|| self.between(tuned, first).ok().map(|between| between.best().place))
    }

    /// Did both neighbours choose the same solution?
    #[inline]
    pub(crate) fn agree(&self, between: &Between) -> bool {
        self.index.entry(between.low.place).solution == self.index.entry(between.high.place).solution
    }

    /// The neighbours of the M asked for; `first` is the first place of `tuned` that is not below it.
    #[inline]
    pub(crate) fn between(&self, tuned: &Tuned, first: usize) -> Result<Between, Lone> {
        let (start, end) = tuned.span.bounds();
        if start == end {
            return Err(Lone::NotTuned);
        }
        let (lowest, highest) = (self.index.m(start), self.index.m(end - 1));
        if lowest >= self.m {
            return Err(Lone::Below(lowest));
        }
        if highest <= self.m {
            return Err(Lone::Above(highest));
        }
        let low = self.below(start, first).ok_or(Lone::LowRefused)?;
        let high = self.above(first, end).ok_or(Lone::HighRefused)?;
        Ok(self.score(&tuned.floor, low, high))
    }

    /// The best row that may run at the nearest M below.
    #[inline]
    fn below(&self, start: usize, first: usize) -> Option<usize> {
        let (mut end, mut looked) = (first, 0);
        while end > start && looked < NEIGHBOURS_MAX {
            let m = self.index.m(end - 1);
            let mut begin = end - 1;
            while begin > start && self.index.m(begin - 1) == m {
                begin -= 1;
            }
            if let Some(place) = (begin..end).find(|&place| self.allows(place, m)) {
                return Some(place);
            }
            looked += end - begin;
            end = begin;
        }
        None
    }

    /// The best row that may run at the nearest M above.
    #[inline]
    fn above(&self, first: usize, end: usize) -> Option<usize> {
        let above = (first..end).skip_while(|&place| self.index.m(place) == self.m);
        above.take(NEIGHBOURS_MAX).find(|&place| self.allows(place, self.index.m(place)))
    }

    #[inline]
    fn score(&self, floor: &Floor, low: usize, high: usize) -> Between {
        let (low_m, high_m) = (self.index.m(low), self.index.m(high));
        let (low_us, high_us) = (self.index.entry(low).time_us, self.index.entry(high).time_us);
        let here_us = floor.at(self.m);
        Between {
            low: Side { place: low, m: low_m, score_us: low_us * (here_us / floor.at(low_m)) },
            high: Side { place: high, m: high_m, score_us: high_us - (floor.at(high_m) - here_us) },
        }
    }
}
