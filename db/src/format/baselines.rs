//! The cell `baselines` of a tuned table: all baselines of a choice in one text.
//!
//! Baselines are separated by `#`, their parts by `|`, free text is escaped:
//! `via|library|version|revision|index|name|params|weight_form|workspace_bytes|numerics|deterministic|graph_safe|us`.

use std::fmt::Display;
use std::str::FromStr;

use std::borrow::Cow;

use super::cells::{escape, unescape};
use super::column::flag;
use super::limits::excerpt;
use super::sheet::Reason;
use crate::choice::Baseline;
use crate::device::Build;
use crate::solution::Solution;

/// Parts of one baseline.
const PARTS: usize = 13;

/// The most baselines of one choice that are read.
const BASELINES_MAX: usize = 256;

/// What is known of a property: `true`, `false`, or nothing.
pub(super) fn known_text(known: Option<bool>) -> &'static str {
    known.map_or("", |known| if known { "true" } else { "false" })
}

/// Undoes [`known_text`].
pub(super) fn known(text: &str) -> Option<Option<bool>> {
    if text.is_empty() { Some(None) } else { flag(text).map(Some) }
}

pub(super) fn to_text(baselines: &[Baseline]) -> String {
    let mut out = String::new();
    for (at, Baseline { via, solution, time_us }) in baselines.iter().enumerate() {
        if at > 0 {
            out.push('#');
        }
        let build = &solution.build;
        let parts: [&dyn Display; PARTS - 1] = [
            via,
            &build.library,
            &build.version,
            &build.revision,
            &solution.index,
            &solution.name,
            &solution.params,
            &solution.weight_form,
            &solution.workspace_bytes,
            &solution.numerics,
            &known_text(solution.deterministic),
            &known_text(solution.graph_safe),
        ];
        for part in parts {
            escape(&part.to_string(), &mut out);
            out.push('|');
        }
        out.push_str(&time_us.to_string());
    }
    out
}

fn part<T: FromStr>(name: &str, text: &str) -> Result<T, Reason> {
    text.parse().map_err(|_| format!("baselines: {name} is '{}'", excerpt(text)))
}

fn read_one(text: &str) -> Result<Baseline, Reason> {
    let parts: Vec<String> =
        text.split('|').take(PARTS + 1).map(|part| unescape(part).map(Cow::into_owned)).collect::<Result<_, _>>()?;
    let parts: [String; PARTS] =
        parts.try_into().map_err(|_| format!("baselines: '{}' has not {PARTS} parts", excerpt(text)))?;
    let [via, library, version, revision, index, name, params, form, workspace, numerics, same_bits, graph, us] = parts;
    let property = |name: &str, text: &str| {
        known(text).ok_or_else(|| format!("baselines: {name} is '{}', not true, false or empty", excerpt(text)))
    };
    let time_us: f64 = part("us", &us)?;
    if !(time_us.is_finite() && time_us > 0.0) {
        return Err(format!("baselines: us is '{}': a finite number above 0 is expected", excerpt(&us)));
    }
    let solution = Solution {
        build: Build { library, version, revision }.into(),
        index: part("index", &index)?,
        name: name.into(),
        params: part("params", &params)?,
        weight_form: part("weight_form", &form)?,
        workspace_bytes: part("workspace_bytes", &workspace)?,
        numerics: part("numerics", &numerics)?,
        deterministic: property("deterministic", &same_bits)?,
        graph_safe: property("graph_safe", &graph)?,
    };
    Ok(Baseline { via, solution, time_us })
}

pub(super) fn from_text(text: &str) -> Result<Vec<Baseline>, Reason> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    if text.split('#').nth(BASELINES_MAX).is_some() {
        return Err(format!("baselines: more than {BASELINES_MAX}"));
    }
    text.split('#').map(read_one).collect()
}
