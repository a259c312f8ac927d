//! Where the choices of a site lie: built once, then only read.

use rustc_hash::FxHashMap;
use tgemm_db::Choice;

use crate::site_key::SiteKey;
use crate::{moe, rank};

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

/// Site → its tuned token counts in ascending order → the rows at each, best first.
#[derive(Debug, Default)]
pub(crate) struct Index {
    sites: FxHashMap<SiteKey, Span>,
    /// Token counts; one entry a row, so a count repeats where it has several rows. Searched without touching rows.
    ms: Vec<u32>,
    /// Position of the row in the list of choices, side by side with `ms`.
    rows: Vec<u32>,
}

/// The most rows that an index holds: positions are 32-bit.
pub(crate) const ROWS_MAX: usize = u32::MAX as usize;

impl Index {
    /// Orders `choices`; `layer(i)` is the layer of choice `i`, the lower the more it counts.
    ///
    /// Rows beyond [`ROWS_MAX`] are not indexed; the readers stop long before.
    pub(crate) fn new(choices: &[Choice], layer: impl Fn(usize) -> u32) -> Index {
        let mut ids: FxHashMap<SiteKey, u32> = FxHashMap::default();
        // By id: rows that meet under a second key are of several problems, among which the order of the file decides.
        let mut in_file_order: Vec<bool> = Vec::new();
        let mut order: Vec<(u64, u32)> = Vec::with_capacity(choices.len());
        for (row, choice) in choices.iter().take(ROWS_MAX).enumerate() {
            if moe::is_stand_in(choice) {
                continue;
            }
            let first = (SiteKey::of(&choice.problem), false);
            for (key, is_second) in std::iter::once(first).chain(moe::second_key(choice).map(|key| (key, true))) {
                let id = *ids.entry(key).or_insert_with(|| {
                    in_file_order.push(is_second);
                    in_file_order.len() as u32 - 1
                });
                order.push((u64::from(id) << 32 | u64::from(choice.problem.m()), row as u32));
            }
        }
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
        Index {
            sites: ids.into_iter().map(|(key, id)| (key, spans[id as usize])).collect(),
            ms: order.iter().map(|(place, _)| *place as u32).collect(),
            rows: order.iter().map(|(_, row)| *row).collect(),
        }
    }

    /// The rows of a site; empty if it has none.
    #[inline]
    pub(crate) fn span(&self, site: &SiteKey) -> Span {
        self.sites.get(site).copied().unwrap_or_default()
    }

    /// The rows of `span` at `m` tokens, best first.
    #[inline]
    pub(crate) fn at(&self, span: Span, m: u32) -> impl Iterator<Item = usize> {
        let (start, end) = (span.start as usize, span.end as usize);
        let (ms, rows) = (&self.ms[start..end], &self.rows[start..end]);
        let first = ms.partition_point(|&have| have < m);
        let from_first = ms[first..].iter().zip(&rows[first..]);
        from_first.take_while(move |&(&have, _)| have == m).map(|(_, &row)| row as usize)
    }

    /// All rows of `span`.
    pub(crate) fn rows(&self, span: Span) -> impl Iterator<Item = usize> {
        self.rows[span.start as usize..span.end as usize].iter().map(|&row| row as usize)
    }

    /// All tuned token counts of `span`, ascending, with repetitions.
    pub(crate) fn ms(&self, span: Span) -> &[u32] {
        &self.ms[span.start as usize..span.end as usize]
    }
}
