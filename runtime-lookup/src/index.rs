//! Where the choices of a site lie: built once, then only read.

use std::num::NonZeroU32;

use rustc_hash::FxHashMap;
use tgemm_db::{Choice, Constraints, Problem};

use crate::admit::{Stretch, Traits};
use crate::floor::{Floor, Rates};
use crate::gather::Gathered;
use crate::rank;
use crate::site_key::{Family, SiteKey};

/// A run of [`Index::ms`] and [`Index::rows`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    pub(crate) fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// What a lookup needs of a choice; the choice itself is touched only once it answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    traits: Traits,
    /// Not a number where the source has no time.
    pub(crate) time_us: f32,
    /// Position in the list of choices.
    pub(crate) row: u32,
    /// Of the solution, among those of the table.
    pub(crate) solution: u32,
}

impl Entry {
    pub(crate) fn of(choice: &Choice, row: u32, solution: u32) -> Entry {
        Entry { traits: Traits::of(choice), time_us: choice.time_us as f32, row, solution }
    }
}

/// A site's rows, and what it costs at least.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tuned {
    pub(crate) span: Span,
    pub(crate) floor: Floor,
    /// Where its part of [`Index::stairs`] begins, if it has enough rows for one.
    stairs: Option<NonZeroU32>,
}

/// So many rows of a site are searched by halving alone.
const HALVED_MAX: usize = 64;

/// Steps an octave of M.
const STEPS: u32 = 16;

/// The step that `m` is on: one a token count at first, then so many an octave.
#[inline]
fn step(m: u32) -> usize {
    match m {
        0..STEPS => m as usize,
        _ => {
            let octave = m.ilog2();
            ((octave - STEPS.ilog2() + 1) * STEPS + (m >> (octave - STEPS.ilog2())) % STEPS) as usize
        }
    }
}

/// A tuned site of a family.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub(crate) n: u32,
    pub(crate) k: u32,
}

/// Site → its tuned token counts in ascending order → the rows at each, best first.
#[derive(Debug, Default)]
pub(crate) struct Index {
    sites: FxHashMap<SiteKey, Tuned>,
    /// Sites that differ in N and K only.
    families: FxHashMap<Family, Vec<Member>>,
    /// Token counts; one entry a row, so a count repeats where it has several rows. Searched without touching rows.
    ms: Vec<u32>,
    /// Side by side with `ms`.
    entries: Vec<Entry>,
    /// For each larger site the first place on each step of M, so that few rows are left to be halved.
    stairs: Vec<u32>,
}

impl Index {
    /// Orders `choices`; `layer(i)` is the layer of choice `i`, the lower the more it counts.
    #[cfg(test)]
    pub(crate) fn new(choices: &[Choice], layer: impl Fn(usize) -> u32) -> Index {
        let mut gathered = Gathered::default();
        choices.iter().for_each(|choice| gathered.push(choice));
        Index::of(gathered, choices, layer)
    }

    /// Orders what was gathered from `choices`, all of them; `layer(i)` is the layer of choice `i`, the lower the more it
    /// counts.
    pub(crate) fn of(gathered: Gathered, choices: &[Choice], layer: impl Fn(usize) -> u32) -> Index {
        let Gathered { ids, in_file_order, mut order, entries, rates, .. } = gathered;
        order.sort_by(|&(place_a, a), &(place_b, b)| {
            let (a, b) = (a as usize, b as usize);
            place_a.cmp(&place_b).then_with(|| layer(a).cmp(&layer(b))).then_with(|| {
                match in_file_order[(place_a >> 32) as usize] {
                    true => a.cmp(&b),
                    false => rank::compare(&choices[a], &choices[b]),
                }
            })
        });
        let mut spans = vec![Span::default(); in_file_order.len()];
        for (at, (place, _)) in order.iter().enumerate() {
            let span = &mut spans[(place >> 32) as usize];
            if span.end == 0 {
                span.start = at as u32;
            }
            span.end = at as u32 + 1;
        }
        let mut index = Index {
            sites: ids
                .into_iter()
                .map(|(key, id)| (key, Tuned { span: spans[id as usize], ..Tuned::default() }))
                .collect(),
            families: FxHashMap::default(),
            ms: order.iter().map(|(place, _)| *place as u32).collect(),
            entries: order.iter().map(|(_, row)| entries[*row as usize]).collect(),
            // Nothing begins at 0, which means that there are none.
            stairs: vec![0],
        };
        index.build_stairs();
        index.measure(choices, &rates);
        index
    }

    /// Gives each GEMM site its floor and its family.
    fn measure(&mut self, choices: &[Choice], rates: &Rates) {
        for tuned in self.sites.values_mut() {
            let Some(entry) = self.entries.get(tuned.span.start as usize) else { continue };
            let Problem::Gemm(gemm) = &choices[entry.row as usize].problem else { continue };
            let site = &gemm.site;
            tuned.floor = Floor::of(site, rates);
            if let Some(family) = Family::of(site) {
                self.families.entry(family).or_default().push(Member { n: site.n, k: site.k });
            }
        }
        for members in self.families.values_mut() {
            // The order of a hash map is nobody's: of two sites as near, the same answers every time.
            members.sort_by_key(|member| (member.n, member.k));
            members.shrink_to_fit();
        }
    }

    /// The rows of a site; none if it was not tuned.
    #[inline]
    pub(crate) fn tuned(&self, site: &SiteKey) -> Tuned {
        self.sites.get(site).copied().unwrap_or_default()
    }

    /// The rows of a site; empty if it has none.
    pub(crate) fn span(&self, site: &SiteKey) -> Span {
        self.tuned(site).span
    }

    /// The tuned sites of a family, by N and K.
    pub(crate) fn family(&self, family: &Family) -> &[Member] {
        self.families.get(family).map_or(&[], Vec::as_slice)
    }

    fn build_stairs(&mut self) {
        for tuned in self.sites.values_mut() {
            let (start, end) = tuned.span.bounds();
            if end - start <= HALVED_MAX {
                continue;
            }
            tuned.stairs = u32::try_from(self.stairs.len()).ok().and_then(NonZeroU32::new);
            let mut place = start;
            // One more than the last step, so that every step has an end.
            for at in 0..=step(self.ms[end - 1]) + 1 {
                while place < end && step(self.ms[place]) < at {
                    place += 1;
                }
                self.stairs.push(place as u32);
            }
        }
        self.stairs.shrink_to_fit();
    }

    /// The first place of a site with `m` tokens or more.
    #[inline]
    pub(crate) fn first(&self, tuned: &Tuned, m: u32) -> usize {
        let (mut start, mut end) = tuned.span.bounds();
        if start == end || self.ms[end - 1] < m {
            return end;
        }
        if let Some(stairs) = tuned.stairs {
            let at = stairs.get() as usize + step(m);
            (start, end) = (self.stairs[at] as usize, self.stairs[at + 1] as usize);
        }
        start + self.ms[start..end].partition_point(|&have| have < m)
    }

    /// [`Index::first`] of `other`, where that of `m` is `first`: nearly always the row there says that nothing was tuned.
    #[inline]
    pub(crate) fn first_beside(&self, tuned: &Tuned, m: u32, first: usize, other: u32) -> usize {
        let (start, end) = tuned.span.bounds();
        match other > m {
            true if first == end || self.ms[first] >= other => first,
            false if first == start => start,
            _ => self.first(tuned, other),
        }
    }

    /// The places of `span` from `first` on that have `m` tokens, best first.
    #[inline]
    pub(crate) fn places(&self, span: Span, first: usize, m: u32) -> impl Iterator<Item = usize> {
        (first..span.end as usize).take_while(move |&place| self.ms[place] == m)
    }

    /// The M at a place.
    #[inline]
    pub(crate) fn m(&self, place: usize) -> u32 {
        self.ms[place]
    }

    /// What stands at a place.
    #[inline]
    pub(crate) fn entry(&self, place: usize) -> &Entry {
        &self.entries[place]
    }

    /// May what stands at `place` run after `stretch`?
    #[inline]
    pub(crate) fn allowed(
        &self,
        place: usize,
        choices: &[Choice],
        constraints: &Constraints,
        stretch: Stretch,
    ) -> bool {
        let entry = &self.entries[place];
        entry.traits.allowed(constraints, stretch, || choices[entry.row as usize].solution.library())
    }

    /// The rows of `span` at `m` tokens, best first.
    #[inline]
    pub(crate) fn at(&self, span: Span, m: u32) -> impl Iterator<Item = usize> {
        let first = self.first(&Tuned { span, ..Tuned::default() }, m);
        self.places(span, first, m).map(|place| self.entries[place].row as usize)
    }

    /// All rows of `span`.
    pub(crate) fn rows(&self, span: Span) -> impl Iterator<Item = usize> {
        self.entries[span.start as usize..span.end as usize].iter().map(|entry| entry.row as usize)
    }

    /// All tuned token counts of `span`, ascending, with repetitions.
    pub(crate) fn ms(&self, span: Span) -> &[u32] {
        &self.ms[span.start as usize..span.end as usize]
    }

    /// What the index takes on the heap, bytes.
    pub(crate) fn bytes(&self) -> usize {
        // A byte of control a place, and seven eighths of the places are filled at most: hashbrown's table.
        let buckets = |capacity: usize| (capacity * 8 / 7).next_power_of_two();
        let members: usize = self.families.values().map(|members| members.capacity() * size_of::<Member>()).sum();
        (self.ms.capacity() + self.stairs.capacity()) * size_of::<u32>()
            + self.entries.capacity() * size_of::<Entry>()
            + buckets(self.sites.capacity()) * (size_of::<(SiteKey, Tuned)>() + 1)
            + buckets(self.families.capacity()) * (size_of::<(Family, Vec<Member>)>() + 1)
            + members
    }
}

impl Span {
    /// Its first place and the one behind its last.
    #[inline]
    pub(crate) fn bounds(self) -> (usize, usize) {
        (self.start as usize, self.end as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::choice;
    use tgemm_db::{DType, Site};

    #[test]
    fn steps_ascend_and_leave_none_out() {
        let mut last = 0;
        for m in 1..=70_000 {
            let now = step(m);
            assert!(now == last || now == last + 1, "M={m}");
            last = now;
        }
        assert_eq!([15, 16, 31, 32, 34, u32::MAX].map(step), [15, 16, 31, 32, 33, 463]);
    }

    #[test]
    fn the_first_place_is_that_of_a_plain_search() {
        let site = Site::linear(64, 64, DType::Bf16);
        let other = Site::linear(128, 64, DType::Bf16);
        for (count, apart) in [(0, 1), (1, 1), (64, 3), (65, 3), (65, 40_000), (300, 1), (300, 24)] {
            let rows: Vec<Choice> =
                (0..count).flat_map(|at| [site, other].map(|site| choice(site.at(8 + at * apart).into()))).collect();
            let index = Index::new(&rows, |_| 0);
            for site in [site, other] {
                let tuned = index.tuned(&SiteKey::new(&site));
                assert_eq!(tuned.stairs.is_some(), count > 64);
                let (start, end) = tuned.span.bounds();
                let plain = |m| start + index.ms[start..end].partition_point(|&have| have < m);
                let asked = (0..400).chain((0..400).map(|at| at * apart + at % 7)).chain([u32::MAX]);
                for m in asked {
                    let first = index.first(&tuned, m);
                    assert_eq!(first, plain(m), "{count} rows {apart} apart, M={m}");
                    for beside in [m / 2, m.saturating_add(1), m.saturating_add(17), m.saturating_mul(2)] {
                        assert_eq!(index.first_beside(&tuned, m, first, beside), plain(beside));
                    }
                }
            }
        }
    }
}
