//! Choices made ready for lookup.

use std::fmt;

use tgemm_db::{Choice, Constraints, Environment, MoeSite, Problem, Site};

use crate::admit::{self, Devices, Refusal};
use crate::index::{Index, Span};
use crate::ladder::{self, Ladder};
use crate::load::Origin;
use crate::moe::{self, Rung, Spans};
use crate::site_key::SiteKey;

/// How a lookup answered, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum HitKind {
    /// This very problem was tuned.
    Exact,
    /// Borrowed from the M that AITER's padding names, or for fused MoE from the one nearest as vLLM has it.
    Padded,
    /// Between two tuned M with one winner.
    Interval,
    /// By a model of the site.
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
    /// The M that the choice was tuned at.
    pub tuned_m: Option<u32>,
}

impl Hit<'_> {
    /// Nothing fits.
    pub const DEFAULT: Hit<'static> = Hit { kind: HitKind::Default, choice: None, tuned_m: None };
}

/// Tuned choices that hold in this environment; immutable, so shared between threads without a lock.
///
/// Rows come in layers (one a file, the first counts most). At one M the higher layer answers; an exact row of a lower
/// layer still beats a borrowed row of a higher one.
#[derive(Debug, Default)]
pub struct Database {
    index: Index,
    pub(crate) choices: Vec<Choice>,
    /// Where each choice came from, side by side with `choices`.
    pub(crate) origins: Vec<Origin>,
    /// Rows of other devices and builds, kept for [`Database::explain`] only.
    pub(crate) refused: Vec<(Choice, Refusal)>,
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

    /// The table of one site: resolve it once a layer, ask it once a call.
    #[inline]
    pub fn site(&self, site: &Site) -> SiteTable<'_> {
        let span = self.index.span(&SiteKey::new(site));
        SiteTable { database: self, ladder: Ladder::Gemm { span, n: site.n } }
    }

    /// The table of one fused MoE layer: AITER's rows for it, and vLLM's for what vLLM's file names say of it.
    pub fn moe_site(&self, site: &MoeSite) -> SiteTable<'_> {
        SiteTable { database: self, ladder: Ladder::Moe(Spans::new(&self.index, site)) }
    }

    /// The table of whatever `problem` is an instance of.
    pub(crate) fn table(&self, problem: &Problem) -> SiteTable<'_> {
        match problem {
            Problem::Moe(moe) => self.moe_site(&moe.site),
            problem => {
                let span = self.index.span(&SiteKey::of(problem));
                let n = problem.gemm().map_or(0, |gemm| gemm.site.n);
                SiteTable { database: self, ladder: Ladder::Gemm { span, n } }
            }
        }
    }

    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    /// What to run for `problem` under `constraints`. No lock, no allocation.
    #[inline]
    pub fn lookup(&self, problem: &Problem, constraints: &Constraints) -> Hit<'_> {
        self.table(problem).at(problem.m(), constraints)
    }

    /// Number of choices that can be served here.
    pub fn len(&self) -> usize {
        self.choices.len()
    }

    /// Is there nothing to serve?
    pub fn is_empty(&self) -> bool {
        self.choices.is_empty()
    }

    /// All choices that can be served here, in the order of loading.
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
    database: &'a Database,
    ladder: Ladder,
}

impl<'a> SiteTable<'a> {
    /// What to run at `m` tokens under `constraints`. No lock, no allocation.
    #[inline]
    pub fn at(&self, m: u32, constraints: &Constraints) -> Hit<'a> {
        let (span, n) = match self.ladder {
            Ladder::Gemm { span, n } => (span, n),
            Ladder::Moe(spans) => return spans.at(self.database, m, constraints),
        };
        if let Some(choice) = self.best(span, m, constraints) {
            return Hit { kind: HitKind::Exact, choice: Some(choice), tuned_m: Some(m) };
        }
        for padded in ladder::padded(m, n) {
            if let Some(choice) = self.best(span, padded, constraints) {
                return Hit { kind: HitKind::Padded, choice: Some(choice), tuned_m: Some(padded) };
            }
        }
        Hit::DEFAULT
    }

    #[inline]
    fn best(&self, span: Span, m: u32, constraints: &Constraints) -> Option<&'a Choice> {
        let rows = self.database.index.at(span, m);
        rows.map(|row| &self.database.choices[row]).find(|choice| admit::allows(constraints, choice))
    }

    /// Where [`SiteTable::at`] looks, in order, and the rows that it finds there, best first; for those who tell.
    pub(crate) fn places(&self, m: u32, constraints: &Constraints) -> Vec<(HitKind, u32, Vec<usize>)> {
        let rungs = match self.ladder {
            Ladder::Gemm { span, n } => {
                let [finer, coarser] = ladder::padded(m, n).map(|m| Rung { kind: HitKind::Padded, span, m });
                vec![Rung { kind: HitKind::Exact, span, m }, finer, coarser]
            }
            Ladder::Moe(spans) => spans.rungs(m).to_vec(),
        };
        let mut places: Vec<(HitKind, u32, Vec<usize>)> = Vec::new();
        for (at, rung) in rungs.iter().enumerate() {
            if !rungs[..at].iter().any(|before| (before.span, before.m) == (rung.span, rung.m)) {
                places.push((rung.kind, rung.m, self.database.index.at(rung.span, rung.m).collect()));
            }
        }
        if let Ladder::Moe(spans) = self.ladder
            && let Some(row) = spans.nearest(self.database, m, constraints)
        {
            let tuned_m = self.database.choices[row].problem.m();
            places.push((moe::nearest_kind(tuned_m, m), tuned_m, vec![row]));
        }
        places
    }

    /// All tuned token counts, ascending.
    pub fn tuned_ms(&self) -> &'a [u32] {
        self.database.index.ms(match self.ladder {
            Ladder::Gemm { span, .. } => span,
            Ladder::Moe(spans) => spans.told(),
        })
    }

    /// Has this site no choice at all?
    pub fn is_empty(&self) -> bool {
        self.tuned_ms().is_empty()
    }
}

/// Collects rows, then orders them once.
pub(crate) struct Builder<'h> {
    here: &'h Environment,
    devices: Devices,
    database: Database,
}

/// How many rows there were.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    kept: usize,
    refused: usize,
}

/// What became of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Kept,
    OtherDevice,
    OtherBuild,
}

impl<'h> Builder<'h> {
    pub(crate) fn new(here: &'h Environment) -> Builder<'h> {
        let database = Database { here: here.device.to_string(), ..Database::default() };
        Builder { here, devices: Devices::default(), database }
    }

    /// Where the rows end so far.
    pub(crate) fn mark(&self) -> Mark {
        Mark { kept: self.database.choices.len(), refused: self.database.refused.len() }
    }

    /// Forgets the rows that came after `mark`: their file turned out to be unreadable.
    pub(crate) fn back_to(&mut self, mark: Mark) {
        self.database.choices.truncate(mark.kept);
        self.database.origins.truncate(mark.kept);
        self.database.refused.truncate(mark.refused);
    }

    pub(crate) fn push(&mut self, choice: Choice, origin: Origin) -> Fate {
        match admit::admit(&choice, self.here, &mut self.devices) {
            Ok(()) => {
                self.database.choices.push(choice);
                self.database.origins.push(origin);
                Fate::Kept
            }
            Err(refusal) => {
                let fate = match refusal {
                    Refusal::Device(_) => Fate::OtherDevice,
                    Refusal::Build(_) => Fate::OtherBuild,
                };
                self.database.refused.push((choice, refusal));
                fate
            }
        }
    }

    pub(crate) fn finish(mut self, files: Vec<std::path::PathBuf>) -> Database {
        let origins = &self.database.origins;
        self.database.index = Index::new(&self.database.choices, |row| origins[row].layer);
        self.database.files = files;
        self.database
    }
}
