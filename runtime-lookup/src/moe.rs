//! How a fused MoE layer is looked up: AITER's rows by AITER's rule, vLLM's by vLLM's.
//!
//! AITER (`get_2stage_cfgs` in its `fused_moe.py`) pads the tokens to a tier ([`moe_padded`]) and asks for the whole key;
//! if no row has it, for the key without the activation, where the first row in file order answers; then the same at the
//! smaller tier. Rows tagged `flydsl_fallback` stand in for FlyDSL's kernels in builds without them, and are no answers.
//! One thing is ours: a row at exactly the M asked for answers first. AITER never asks for an M between its tiers, so
//! its own tables' few rows there (M = 3, 5, 6, 7, 56) are dead in it.
//!
//! vLLM (`try_get_optimal_moe_config`) takes one file whole, the one named after experts, inner features, element types
//! and device, and in it the M nearest to the one asked for; of two as near, the one that stands first in the file.
//!
//! AITER's rows are asked first: they say the whole layer, and were timed.

use tgemm_db::format::{fmoe, vllm_moe};
use tgemm_db::{Choice, Constraints, MoeSite, Problem};

use crate::admit;
use crate::database::{Database, Hit, HitKind};
use crate::index::{Index, Span};
use crate::ladder::moe_padded;
use crate::site_key::SiteKey;

/// Where the rows of one layer lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spans {
    /// Rows of this very layer.
    own: Span,
    /// AITER's rows of this layer with any activation, at each M in file order.
    any_activation: Span,
    /// vLLM's rows for whatever its file names say of this layer.
    vllm: Span,
}

/// The key under which AITER's rows stand a second time; `None` for rows that only their own layer may use.
pub(crate) fn second_key(choice: &Choice) -> Option<SiteKey> {
    let moe = choice.problem.moe()?;
    (choice.solution.library() == fmoe::LIBRARY).then(|| SiteKey::moe_any_activation(&moe.site))
}

/// Is this a row that AITER takes only where another one's kernel is not built?
pub(crate) fn is_stand_in(choice: &Choice) -> bool {
    choice.problem.moe().is_some()
        && choice.solution.library() == fmoe::LIBRARY
        && choice.solution.params.get(fmoe::TAG) == Some(fmoe::FALLBACK_TAG)
}

/// The keys of all rows that could answer for `problem`.
pub(crate) fn keys(problem: &Problem) -> Vec<SiteKey> {
    let vllm = problem.moe().and_then(|moe| moe.site.as_vllm());
    std::iter::once(SiteKey::of(problem)).chain(vllm.map(|site| SiteKey::moe(&site))).collect()
}

/// What an answer from the M nearest to the one asked for is.
pub(crate) fn nearest_kind(tuned_m: u32, m: u32) -> HitKind {
    if tuned_m == m { HitKind::Exact } else { HitKind::Padded }
}

/// One place where a lookup looks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rung {
    pub(crate) kind: HitKind,
    pub(crate) span: Span,
    pub(crate) m: u32,
}

impl Spans {
    pub(crate) fn new(index: &Index, site: &MoeSite) -> Spans {
        let vllm = site.as_vllm().map(|site| index.span(&SiteKey::moe(&site))).unwrap_or_default();
        if site.is_vllm() {
            return Spans { vllm, ..Spans::default() };
        }
        let any_activation = index.span(&SiteKey::moe_any_activation(site));
        Spans { own: index.span(&SiteKey::moe(site)), any_activation, vllm }
    }

    /// The span whose token counts are the layer's: its own, or else those that it may borrow.
    pub(crate) fn told(&self) -> Span {
        let all = [self.own, self.any_activation, self.vllm];
        all.into_iter().find(|span| !span.is_empty()).unwrap_or_default()
    }

    /// Where AITER's rows are looked for, in order.
    pub(crate) fn rungs(&self, m: u32) -> [Rung; 5] {
        let [tier, smaller] = moe_padded(m);
        let padded = |span, m| Rung { kind: HitKind::Padded, span, m };
        [
            Rung { kind: HitKind::Exact, span: self.own, m },
            padded(self.own, tier),
            padded(self.any_activation, tier),
            padded(self.own, smaller),
            padded(self.any_activation, smaller),
        ]
    }

    /// What to run at `m` tokens under `constraints`. No lock, no allocation.
    pub(crate) fn at<'a>(&self, database: &'a Database, m: u32, constraints: &Constraints) -> Hit<'a> {
        let is_asked = |kind| kind == HitKind::Exact || database.levels().padded;
        for Rung { kind, span, m } in self.rungs(m).into_iter().filter(|rung| is_asked(rung.kind)) {
            let mut choices = database.index().at(span, m).map(|row| &database.choices[row]);
            if let Some(choice) = choices.find(|choice| admit::allows(constraints, choice)) {
                return Hit { kind, choice: Some(choice), tuned_m: Some(m) };
            }
        }
        match self.nearest(database, m, constraints).map(|row| &database.choices[row]) {
            Some(choice) => {
                let tuned_m = choice.problem.m();
                let kind = nearest_kind(tuned_m, m);
                if is_asked(kind) { Hit { kind, choice: Some(choice), tuned_m: Some(tuned_m) } } else { Hit::DEFAULT }
            }
            None => Hit::DEFAULT,
        }
    }

    /// The row that vLLM's rule takes.
    ///
    /// Rows of one layer, device and library are one of vLLM's files. The first layer's file answers alone; a file of
    /// exactly this board goes before one of any board of its arch and size, and Triton's before another backend's.
    pub(crate) fn nearest(&self, database: &Database, m: u32, constraints: &Constraints) -> Option<usize> {
        let order = |row: &usize| {
            let choice = &database.choices[*row];
            let library = choice.solution.library();
            let file = (database.origins[*row].layer, choice.device.chip_id.is_none(), library != vllm_moe::LIBRARY);
            (file, library, choice.problem.m().abs_diff(m), *row)
        };
        let rows = database.index().rows(self.vllm);
        rows.filter(|row| admit::allows(constraints, &database.choices[*row])).min_by_key(order)
    }
}

#[cfg(test)]
mod tests;
