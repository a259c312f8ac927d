//! Which family an AITER table is of: by its columns, then its file name, then its kernels' names.
//!
//! Headers alone do not tell: blockscale and its shuffled sibling share theirs, and so do all untuned `M,N,K` tables.

use super::family::{Family, LAYOUTS, Layout, RENAMED, RESULTS};
use crate::format::limits::excerpt;
use crate::format::sheet::{Sheet, Spec};
use crate::format::{ReadError, ReadOptions, Unreadable};

/// Rows whose kernel names are looked at.
const ROWS_LOOKED_AT: usize = 64;

/// Untuned columns that came later; a file without them is older.
const UNTUNED_LATER: &[&str] = &["outdtype", "scaleAB", "bpreshuffle", "q_dtype_w"];

/// Columns of tables that AITER keeps beside its GEMM tables, and what those are.
const FOREIGN: &[(&str, &str)] = &[
    ("knl_name", "AITER's catalogue of kernels, which holds no choices: leave it out"),
    ("is_varlen", "AITER's gated delta rule table, which has no matrix product of ours in it: leave it out"),
];

/// Finds columns under the names that they have today.
pub(super) const SPEC: Spec = Spec { required: &[], optional: &[], renamed: RENAMED };

/// A sheet whose family is known.
pub(super) struct Found<'b> {
    pub(super) sheet: Sheet<'b>,
    pub(super) layout: &'static Layout,
    pub(super) is_tuned: bool,
    /// What had to be assumed.
    pub(super) warnings: Vec<String>,
}

/// How well a header suits a family.
struct Fit {
    layout: &'static Layout,
    /// Columns that it lacks or has twice; none if the family's rows can be read.
    faults: Vec<String>,
    /// Columns that the family never had.
    unknown: Vec<String>,
    /// Key columns that the family has today and this header has not.
    absent: usize,
}

impl Fit {
    fn of(layout: &'static Layout, is_tuned: bool, names: &[String]) -> Fit {
        let (columns, required) = match is_tuned {
            true => (layout.tuned, layout.required),
            false => (layout.untuned, layout.untuned),
        };
        let have: Vec<&str> = names.iter().map(|name| SPEC.present_name(name)).collect();
        let needed = |name: &&&str| is_tuned || !UNTUNED_LATER.contains(name);
        let lacks = required.iter().filter(needed).map(|name| SPEC.present_name(name));
        let lacks = lacks.filter(|name| !have.contains(name)).map(|name| format!("lacks '{name}'"));
        let twice = have.iter().enumerate().filter(|(at, name)| have[..*at].contains(name));
        let twice = twice.map(|(_, name)| format!("'{}' stands twice", excerpt(name)));
        let known = |name: &&String| columns.contains(&name.as_str()) || layout.aged.contains(&name.as_str());
        let unknown = names.iter().filter(|name| !known(name)).cloned().collect();
        let absent = layout.untuned.iter().filter(|name| !have.contains(&SPEC.present_name(name))).count();
        Fit { layout, faults: lacks.chain(twice).collect(), unknown, absent }
    }

    /// How far the header is from the family's: columns too many count more than columns that came later.
    fn distance(&self) -> (usize, usize) {
        (self.unknown.len(), self.absent)
    }

    fn words(&self) -> String {
        let unknown = self.unknown.iter().map(|name| format!("does not know '{}'", excerpt(name)));
        self.faults.iter().cloned().chain(unknown).collect::<Vec<_>>().join(", ")
    }
}

/// Has the header a column that only a sweep can fill?
fn has_results(names: &[String]) -> bool {
    names.iter().any(|name| RESULTS.contains(&SPEC.present_name(name)))
}

/// Finds the family of `sheet`, the content of a file called `name`.
pub(super) fn find<'b>(sheet: Sheet<'b>, name: &str, options: &ReadOptions) -> Result<Found<'b>, ReadError> {
    if let Some((_, what)) = FOREIGN.iter().find(|(column, _)| sheet.names.iter().any(|have| have == column)) {
        return Err(sheet.header_error(Unreadable::Foreign(what)));
    }
    if let Some(layout) = headless(&sheet, name, options) {
        let warning = format!("no header line: read as today's columns of AITER's {} tables", layout.family);
        let sheet = sheet.headless(layout.tuned);
        return Ok(Found { sheet, layout, is_tuned: true, warnings: vec![warning] });
    }
    let is_tuned = has_results(&sheet.names);
    let layouts = LAYOUTS.iter().filter(|layout| is_tuned || !layout.untuned.is_empty());
    let fits: Vec<Fit> = layouts.map(|layout| Fit::of(layout, is_tuned, &sheet.names)).collect();
    let fit = choose(fits, is_tuned, &sheet, name, options).map_err(|unreadable| sheet.header_error(unreadable))?;
    let warnings = doubtful(&fit, is_tuned, &sheet.names);
    Ok(Found { layout: fit.layout, is_tuned, warnings, sheet })
}

fn choose(
    fits: Vec<Fit>,
    is_tuned: bool,
    sheet: &Sheet<'_>,
    name: &str,
    options: &ReadOptions,
) -> Result<Fit, Unreadable> {
    let header = || sheet.header_excerpt();
    if let Some(family) = options.family {
        return match fits.into_iter().find(|fit| fit.layout.family == family) {
            Some(fit) if fit.faults.is_empty() => Ok(fit),
            Some(fit) => Err(Unreadable::NotOfFamily { header: header(), family, why: fit.words() }),
            None => Err(Unreadable::NotOfFamily { header: header(), family, why: "it has no untuned table".into() }),
        };
    }
    let (mut good, bad): (Vec<Fit>, Vec<Fit>) = fits.into_iter().partition(|fit| fit.faults.is_empty());
    if let Some(at) = good.iter().position(|fit| is_named(fit.layout, is_tuned, name)) {
        return Ok(good.swap_remove(at));
    }
    let Some(least) = good.iter().map(Fit::distance).min() else {
        let nearest = bad.iter().min_by_key(|fit| fit.faults.len() + fit.unknown.len());
        let kind = if is_tuned { "tuned" } else { "untuned" };
        let why = nearest.map_or_else(String::new, |fit| {
            format!("nearest is an AITER {} {kind} table, but it {}", fit.layout.family, fit.words())
        });
        return Err(Unreadable::UnknownHeader { header: header(), why });
    };
    good.retain(|fit| fit.distance() == least);
    if good.len() > 1 && is_tuned {
        let families: Vec<Family> = good.iter().map(|fit| fit.layout.family).collect();
        if let Some(family) = by_kernel_names(&families, sheet) {
            good.retain(|fit| fit.layout.family == family);
        }
    }
    let families = good.iter().map(|fit| fit.layout.family.name()).collect::<Vec<_>>().join(" and ");
    match (good.pop(), good.is_empty()) {
        (Some(fit), true) => Ok(fit),
        _ => Err(Unreadable::AmbiguousFamily { header: header(), families }),
    }
}

fn is_named(layout: &Layout, is_tuned: bool, name: &str) -> bool {
    let stems = if is_tuned { layout.tuned_stems } else { layout.untuned_stems };
    stems.iter().any(|stem| name.contains(stem))
}

/// The one family among `families` of which the first rows name kernels.
fn by_kernel_names(families: &[Family], sheet: &Sheet<'_>) -> Option<Family> {
    let rows: Vec<String> =
        sheet.rows().take(ROWS_LOOKED_AT).map(|row| String::from_utf8_lossy(row).to_ascii_lowercase()).collect();
    let marked = |family: &&Family| {
        let marks = family.layout().kernel_marks;
        rows.iter().any(|row| marks.iter().any(|mark| row.contains(mark)))
    };
    let mut found = families.iter().filter(marked);
    found.next().copied().filter(|_| found.next().is_none())
}

/// The family of a table whose first line is a row: `gfx950,256,…`, one cell for each of today's columns.
fn headless(sheet: &Sheet<'_>, name: &str, options: &ReadOptions) -> Option<&'static Layout> {
    let [gfx, cu_num, ..] = sheet.names.as_slice() else { return None };
    if !gfx.starts_with("gfx") || cu_num.parse::<u32>().is_err() {
        return None;
    }
    let as_wide = |layout: &&Layout| layout.tuned.len() == sheet.names.len();
    let wide: Vec<&'static Layout> = LAYOUTS.iter().filter(as_wide).collect();
    let find = |family: Family| wide.iter().copied().find(|layout| layout.family == family);
    if let Some(family) = options.family {
        return find(family);
    }
    // A name that says one family over rows as wide as another's is a contradiction: then nothing is guessed.
    if let Some(named) = LAYOUTS.iter().find(|layout| is_named(layout, true, name)) {
        return find(named.family);
    }
    match wide.as_slice() {
        [only] => Some(*only),
        several => {
            by_kernel_names(&several.iter().map(|layout| layout.family).collect::<Vec<_>>(), sheet).and_then(find)
        }
    }
}

/// Unknown columns that may be a part of the key: in a tuned table those that stand before what a sweep fills.
fn doubtful(fit: &Fit, is_tuned: bool, names: &[String]) -> Vec<String> {
    let keys = names.iter().take_while(|name| !is_tuned || !RESULTS.contains(&SPEC.present_name(name)));
    keys.filter(|name| fit.unknown.contains(name))
        .map(|name| {
            format!(
                "AITER's {} tables have no column '{}', and it may be a key: rows that differ in it alone look alike",
                fit.layout.family,
                excerpt(name)
            )
        })
        .collect()
}
