//! Lookups: by problem, and by site once a layer was resolved.

use std::ffi::c_char;
use std::sync::Arc;

use tgemm_db::{Problem, Site};
use tgemm_lookup::{Hit, HitKind, SiteTable};

use crate::constraints::{self, TgemmConstraints};
use crate::database::{Shared, Table, TgemmDatabase};
use crate::handle;
use crate::problem::{self, TgemmProblem};
use crate::status::{Failure, TgemmStatus, guarded};
use crate::text::{Buffer, TgemmText};
use crate::versioned::{self, versioned};
use crate::words;

/// How a lookup answered.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TgemmKind {
    /// Nothing fits: run what would have run without tgemm. The rest of the answer is empty.
    Default = 0,
    /// This very problem was tuned.
    Exact = 1,
    /// Borrowed from the M that AITER's padding names.
    Padded = 2,
    /// Between two tuned M of the site: the winner of one of them.
    Interval = 3,
    /// From a tuned site near this one.
    Predicted = 4,
}

/// The answer to a lookup. Its texts belong to the database.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TgemmHit {
    /// sizeof(TgemmHit), set by the caller.
    pub size: usize,
    /// A TgemmKind.
    pub kind: u32,
    /// The M that the choice was tuned at.
    pub tuned_m: u32,
    /// The N that it was tuned at; the problem's own unless kind is Predicted.
    pub tuned_n: u32,
    /// The K that it was tuned at; the problem's own unless kind is Predicted.
    pub tuned_k: u32,
    /// A TgemmWeightForm.
    pub weight_form: u32,
    /// A TgemmNumerics.
    pub numerics: u32,
    /// A TgemmKnown: does it give the same bits every time?
    pub deterministic: u32,
    /// A TgemmKnown: may it be captured into a graph?
    pub graph_safe: u32,
    /// A TgemmVerdict.
    pub verdict: u32,
    /// 1: it is what would have run without tgemm.
    pub is_baseline: u32,
    /// Who computes: "hipblaslt", "cublaslt", "onednn".
    pub library: TgemmText,
    /// That library's version; empty if not known.
    pub version: TgemmText,
    /// That library's source revision or content hash; empty if not known.
    pub revision: TgemmText,
    /// The solution's name in the library.
    pub name: TgemmText,
    /// What else selects it: "split_k=4;threads=2".
    pub params: TgemmText,
    /// The library's own number for it; means nothing for another build.
    pub index: i64,
    /// Scratch memory of a launch at tuned_m. Where kind is not Exact, ask the library how much the real M takes.
    pub workspace_bytes: u64,
    /// Microseconds a call at tuned_m.
    pub time_us: f64,
    /// Time over the baseline's; below 1 is faster.
    pub ratio: f64,
    /// Lower end of its 95 % interval.
    pub ratio_low: f64,
    /// Upper end of its 95 % interval.
    pub ratio_high: f64,
}

versioned!(TgemmHit, least kind, [
    kind, tuned_m, tuned_n, tuned_k, weight_form, numerics, deterministic, graph_safe, verdict, is_baseline, library,
    version, revision, name, params, index, workspace_bytes, time_us, ratio, ratio_low, ratio_high,
]);

fn kind(kind: HitKind) -> TgemmKind {
    match kind {
        HitKind::Exact => TgemmKind::Exact,
        HitKind::Padded => TgemmKind::Padded,
        HitKind::Interval => TgemmKind::Interval,
        HitKind::Predicted => TgemmKind::Predicted,
        // Also a level that this interface has no word for: whoever does not know it leaves things as they are.
        _ => TgemmKind::Default,
    }
}

/// A hit of `table` in C's words. Allocates nothing.
#[inline]
fn told(table: &Table, hit: Hit<'_>) -> TgemmHit {
    let nothing = TgemmText::of("");
    let empty = TgemmHit {
        library: nothing,
        version: nothing,
        revision: nothing,
        name: nothing,
        params: nothing,
        ..versioned::zero()
    };
    let (kind, Some(choice)) = (kind(hit.kind), hit.choice) else { return empty };
    if kind == TgemmKind::Default {
        return empty;
    }
    let solution = &choice.solution;
    let (tuned_n, tuned_k) = choice.problem.gemm().map_or((0, 0), |gemm| (gemm.site.n, gemm.site.k));
    TgemmHit {
        size: 0,
        kind: kind as u32,
        tuned_m: hit.tuned_m.unwrap_or_default(),
        tuned_n,
        tuned_k,
        weight_form: words::weight_form(solution.weight_form),
        numerics: words::NUMERICS.code(solution.numerics),
        deterministic: words::known(solution.deterministic),
        graph_safe: words::known(solution.graph_safe),
        verdict: words::VERDICTS.code(choice.verdict),
        is_baseline: u32::from(choice.is_baseline()),
        library: TgemmText::of(solution.library()),
        version: TgemmText::of(&solution.build.version),
        revision: TgemmText::of(&solution.build.revision),
        name: TgemmText::of(&solution.name),
        params: TgemmText::of(table.params(choice)),
        index: solution.index,
        workspace_bytes: solution.workspace_bytes,
        time_us: choice.time_us,
        ratio: choice.ratio.estimate,
        ratio_low: choice.ratio.low,
        ratio_high: choice.ratio.high,
    }
}

/// What to run for a problem under constraints. Takes no lock and allocates nothing; no lookup fails but for a problem that
/// cannot be: the worst answer is TGEMM_KIND_DEFAULT.
///
/// What hit points to is valid until the database is closed, or trimmed after a reload.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgemm_lookup(
    database: *const TgemmDatabase,
    problem: *const TgemmProblem,
    constraints: *const TgemmConstraints,
    hit: *mut TgemmHit,
) -> TgemmStatus {
    guarded(|| {
        // SAFETY: the header's rules of pointers and handles.
        let (database, problem, constraints) =
            unsafe { (handle::get(database, "database")?, problem::given(problem)?, constraints::given(constraints)) };
        let table = database.shared.table();
        let answer = table.database.lookup(&problem, constraints);
        // SAFETY: the header's rules of pointers.
        unsafe { versioned::write(hit, &told(table, answer)) }?;
        database.shared.tally.count(&problem, answer);
        Ok(())
    })
}

/// Writes how a lookup is answered and why no better answer was given: some lines for a person. Not for the hit path, and
/// not counted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgemm_explain(
    database: *const TgemmDatabase,
    problem: *const TgemmProblem,
    constraints: *const TgemmConstraints,
    buffer: *mut c_char,
    bytes: usize,
    needed: *mut usize,
) -> TgemmStatus {
    guarded(|| {
        // SAFETY: the header's rules of pointers and handles.
        let (buffer, database, problem, constraints) = unsafe {
            (
                Buffer::new(buffer, bytes, needed)?,
                handle::get(database, "database")?,
                problem::given(problem)?,
                constraints::given(constraints),
            )
        };
        buffer.put(&database.shared.table().database.explain(&problem, constraints).to_string())
    })
}

/// A layer: a problem less its M, found in the database once.
pub struct TgemmSite {
    shared: Arc<Shared>,
    site: Site,
    /// Borrows from `table`, which is therefore held and never given out.
    resolved: SiteTable<'static>,
    table: Arc<Table>,
}

impl TgemmSite {
    fn new(database: &TgemmDatabase, site: Site) -> Result<TgemmSite, Failure> {
        let shared = Arc::clone(&database.shared);
        let Some(table) = shared.keep() else {
            return Err(Failure::value("the database has no table"));
        };
        let resolved = table.database.site(&site);
        // SAFETY: it borrows from a `Database` behind an `Arc` of `table`, which stays where it is for as long as this
        // struct holds it, and only `TgemmSite::at` uses it, for no longer than that.
        let resolved = unsafe { std::mem::transmute::<SiteTable<'_>, SiteTable<'static>>(resolved) };
        Ok(TgemmSite { shared, site, resolved, table })
    }

    /// The answer at `m`, and the table that it comes from. After a reload the site is looked for anew at each call.
    #[inline]
    fn at(&self, m: u32, constraints: &tgemm_db::Constraints) -> (&Table, Hit<'_>) {
        let current = self.shared.table();
        match current.generation == self.table.generation {
            true => (&self.table, self.resolved.at(m, constraints)),
            false => (current, current.database.site(&self.site).at(m, constraints)),
        }
    }
}

/// Finds the site of a problem, whose m may be 0: once a layer, so that a call costs less. Where x is stored transposed, its
/// row length depends on m and is best left 0.
///
/// A site shares the database: what its answers point to is valid until the site is closed or the database is trimmed after
/// a reload. After a reload it answers from the new table, somewhat slower; opening it again makes it fast again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgemm_site_open(
    database: *const TgemmDatabase,
    problem: *const TgemmProblem,
    site: *mut *mut TgemmSite,
) -> TgemmStatus {
    guarded(|| {
        // SAFETY: the header's rules of pointers and handles.
        let (out, database, problem) =
            unsafe { (handle::out(site, "site")?, handle::get(database, "database")?, versioned::read(problem)?) };
        out.put(TgemmSite::new(database, problem.site()?)?);
        Ok(())
    })
}

/// Closes a site; NULL is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgemm_site_close(site: *mut TgemmSite) {
    // SAFETY: the header's rules of handles.
    unsafe { handle::close(site) }
}

/// What to run at m tokens under constraints; as tgemm_lookup for everything else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgemm_site_lookup(
    site: *const TgemmSite,
    m: u32,
    constraints: *const TgemmConstraints,
    hit: *mut TgemmHit,
) -> TgemmStatus {
    guarded(|| {
        // SAFETY: the header's rules of pointers and handles.
        let (site, constraints) = unsafe { (handle::get(site, "site")?, constraints::given(constraints)) };
        let problem = site.site.at(m);
        problem.validate().map_err(|invalid| Failure::value(invalid.to_string()))?;
        let (table, answer) = site.at(m, constraints);
        // SAFETY: the header's rules of pointers.
        unsafe { versioned::write(hit, &told(table, answer)) }?;
        site.shared.tally.count(&Problem::Gemm(problem), answer);
        Ok(())
    })
}
