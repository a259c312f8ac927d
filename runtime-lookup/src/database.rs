//! Choices made ready for lookup.

use std::fmt;

use tgemm_db::{Choice, Constraints, Environment, MoeSite, Problem, Site};

use crate::admit::{Refusal, Stretch};
use crate::builder::Builder;
use crate::index::{Index, Tuned};
use crate::interval::Ask;
use crate::ladder::{self, Ladder};
use crate::levels::Levels;
use crate::load::Origin;
use crate::moe::Spans;
use crate::predict::Nears;
use crate::site_key::SiteKey;

/// How a lookup answered, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum HitKind {
    /// This very problem was tuned.
    Exact,
    /// Borrowed from the M that AITER's padding names, or for fused MoE from the one nearest as vLLM has it.
    Padded,
    /// Between two tuned M of the site: what both chose, or the winner of one of them (see [`Levels`]).
    Interval,
    /// From a tuned site near this one, see [`crate::predict`].
    Predicted,
    /// Nothing fits: run what you would have run without us.
    Default,
}

impl fmt::Display for HitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            HitKind::Exact => "exact",
            HitKind::Padded => "padded",
            HitKind::Interval => "interval",
            HitKind::Predicted => "predicted",
            HitKind::Default => "default",
        })
    }
}

/// The answer to a lookup.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit<'a> {
    /// Which level answered.
    pub kind: HitKind,
    /// What to run; `None` only for [`HitKind::Default`].
    pub choice: Option<&'a Choice>,
    /// The M that the choice was tuned at; where it is predicted, its problem says the N and K too.
    pub tuned_m: Option<u32>,
}

impl<'a> Hit<'a> {
    /// Nothing fits.
    pub const DEFAULT: Hit<'static> = Hit { kind: HitKind::Default, choice: None, tuned_m: None };

    #[inline]
    fn of(kind: HitKind, database: &'a Database, place: usize) -> Hit<'a> {
        let row = database.index.entry(place).row as usize;
        Hit { kind, choice: Some(&database.choices[row]), tuned_m: Some(database.index.m(place)) }
    }
}

/// Tuned choices that hold in this environment; immutable, so shared between threads without a lock.
///
/// Rows come in layers (one a file, the first counts most). At one M the higher layer answers; an exact row of a lower
/// layer still beats a borrowed row of a higher one.
#[derive(Debug, Default)]
pub struct Database {
    pub(crate) index: Index,
    pub(crate) choices: Vec<Choice>,
    /// Where each choice came from, side by side with `choices`.
    pub(crate) origins: Vec<Origin>,
    /// Rows of other devices and builds, kept for [`Database::explain`] only.
    pub(crate) refused: Vec<(Choice, Refusal)>,
    /// How far from what was tuned it may answer.
    pub(crate) levels: Levels,
    /// This device in words, for messages.
    pub(crate) here: String,
    /// The files, in order of layers; [`Origin`] points into it.
    pub(crate) files: Vec<std::path::PathBuf>,
}

impl Database {
    /// Makes `choices` ready for `here`, all in one layer.
    ///
    /// Rows of other devices, and rows whose winner has a known build that differs from `here`, are not served; they
    /// are kept for [`Database::explain`].
    pub fn from_choices(choices: impl IntoIterator<Item = Choice>, here: &Environment) -> Database {
        let mut builder = Builder::new(here);
        for choice in choices {
            builder.push(choice, Origin::NONE);
        }
        builder.finish(Vec::new())
    }

    /// The same, answering on these levels; without this on [`Levels::default`].
    pub fn with_levels(self, levels: Levels) -> Database {
        Database { levels, ..self }
    }

    /// On which levels it may answer.
    pub fn levels(&self) -> Levels {
        self.levels
    }

    /// The table of one site: resolve it once a layer, ask it once a call.
    #[inline]
    pub fn site(&self, site: &Site) -> SiteTable<'_> {
        let tuned = self.index.tuned(&SiteKey::new(site));
        let ladder = match self.levels.predicted && tuned.span.is_empty() {
            true => Ladder::Predicted(Nears::of(&self.index, site)),
            false => Ladder::Gemm { tuned, n: site.n },
        };
        SiteTable { database: self, ladder }
    }

    /// The table of one fused MoE layer: AITER's rows for it, and vLLM's for what vLLM's file names say of it.
    pub fn moe_site(&self, site: &MoeSite) -> SiteTable<'_> {
        SiteTable { database: self, ladder: Ladder::Moe(Spans::new(&self.index, site)) }
    }

    /// The table of whatever `problem` is an instance of.
    #[inline]
    pub(crate) fn table(&self, problem: &Problem) -> SiteTable<'_> {
        match problem {
            Problem::Gemm(gemm) => self.site(&gemm.site),
            Problem::Moe(moe) => self.moe_site(&moe.site),
            // An operation that this crate does not know: nothing was tuned.
            _ => SiteTable { database: self, ladder: Ladder::Gemm { tuned: Tuned::default(), n: 0 } },
        }
    }

    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    /// What to run for `problem` under `constraints`. No lock, no allocation.
    #[inline]
    pub fn lookup(&self, problem: &Problem, constraints: &Constraints) -> Hit<'_> {
        if let (Problem::Gemm(gemm), false) = (problem, self.levels.predicted) {
            let tuned = self.index.tuned(&SiteKey::new(&gemm.site));
            return self.answer(&tuned, gemm.site.n, gemm.m, constraints);
        }
        self.table(problem).at(problem.m(), constraints)
    }

    /// What a tuned site of `n` out features answers at `m` tokens.
    #[inline]
    fn answer(&self, tuned: &Tuned, n: u32, m: u32, constraints: &Constraints) -> Hit<'_> {
        let ask = self.ask(m, constraints, Stretch::NONE);
        let first = self.index.first(tuned, m);
        match ask.best_at(tuned, first, m) {
            Some(place) => Hit::of(HitKind::Exact, self, place),
            None => self.near(&ask, tuned, n, first),
        }
    }

    /// What an M that was not tuned gets; `first` is the first place that is not below it.
    #[inline]
    fn near(&self, ask: &Ask<'_>, tuned: &Tuned, n: u32, first: usize) -> Hit<'_> {
        if tuned.span.is_empty() {
            return Hit::DEFAULT;
        }
        if self.levels.padded {
            let [finer, coarser] = ladder::padded(ask.m, n);
            for (padded, before) in [(finer, ask.m), (coarser, finer)] {
                if padded == before || padded == ask.m {
                    continue;
                }
                let first = self.index.first_beside(tuned, ask.m, first, padded);
                if let Some(place) = ask.best_at(tuned, first, padded) {
                    return Hit::of(HitKind::Padded, self, place);
                }
            }
        }
        if self.levels.interval
            && let Ok(between) = ask.between(tuned, first)
            && (self.levels.scored || ask.agree(&between))
        {
            return Hit::of(HitKind::Interval, self, between.best().place);
        }
        Hit::DEFAULT
    }

    #[inline]
    pub(crate) fn ask<'c>(&'c self, m: u32, constraints: &'c Constraints, stretch: Stretch) -> Ask<'c> {
        Ask { index: &self.index, choices: &self.choices, constraints, m, stretch }
    }

    /// Bytes that the index takes: what a lookup touches before it has found its choice.
    pub fn index_bytes(&self) -> usize {
        self.index.bytes()
    }

    /// Number of choices that can be served here.
    pub fn len(&self) -> usize {
        self.choices.len()
    }

    /// Is there nothing to serve?
    pub fn is_empty(&self) -> bool {
        self.choices.is_empty()
    }

    /// All choices that can be served here, in the order of loading; without their baselines, whose best
    /// [`Choice::baseline_us`] tells.
    pub fn choices(&self) -> &[Choice] {
        &self.choices
    }

    /// Number of rows that were refused because of their device or build.
    pub fn refused(&self) -> usize {
        self.refused.len()
    }
}

/// The choices of one site. Copy it, keep it beside the layer's weights.
#[derive(Clone, Copy, Debug)]
pub struct SiteTable<'a> {
    pub(crate) database: &'a Database,
    pub(crate) ladder: Ladder,
}

impl<'a> SiteTable<'a> {
    /// What to run at `m` tokens under `constraints`. No lock, no allocation.
    #[inline]
    pub fn at(&self, m: u32, constraints: &Constraints) -> Hit<'a> {
        match &self.ladder {
            Ladder::Gemm { tuned, n } => self.database.answer(tuned, *n, m, constraints),
            Ladder::Moe(spans) => spans.at(self.database, m, constraints),
            Ladder::Predicted(nears) => self.predicted(nears, m, constraints),
        }
    }

    /// What the nearest tuned sites say at this M or between two of theirs.
    fn predicted(&self, nears: &Nears, m: u32, constraints: &Constraints) -> Hit<'a> {
        for near in nears.iter() {
            let ask = self.database.ask(m, constraints, Stretch::other_site(near.times));
            if let Some(place) = ask.near_site(&near.tuned) {
                return Hit::of(HitKind::Predicted, self.database, place);
            }
        }
        Hit::DEFAULT
    }

    /// All tuned token counts, ascending.
    pub fn tuned_ms(&self) -> &'a [u32] {
        self.database.index.ms(match &self.ladder {
            Ladder::Gemm { tuned, .. } => tuned.span,
            Ladder::Moe(spans) => spans.told(),
            Ladder::Predicted(_) => Tuned::default().span,
        })
    }

    /// Has this site no choice at all?
    pub fn is_empty(&self) -> bool {
        self.tuned_ms().is_empty()
    }
}
