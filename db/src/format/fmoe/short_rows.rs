//! Rows that are one cell short. AITER's own tables have nineteen, of two kinds that pandas takes without a word.
//!
//! - The last comma is missing, the one before an empty `_tag`. All values stand where they belong and none is lost, so
//!   the comma is put back and the line is warned about.
//! - One of the flags (`run_1stage`, `xbf16`, `flat`) is missing, since the header was widened and the row was not. What
//!   follows stands one column to the left; pandas reads the TFLOPS as a flag. Which flag it was, and what it said, cannot
//!   be known, so the row is rejected with that cause.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::format::cells::{Cells, is_blank_line};
use crate::format::error::Read;
use crate::format::limits::{LINE_BYTES_MAX, excerpt};
use crate::format::sheet::all_lines;

const FLAGS: [&str; 3] = ["run_1stage", "xbf16", "flat"];

/// What is known of a row that is one cell short.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Short {
    LastComma,
    Flag { cause: String },
}

/// A file whose lost commas are back.
pub(super) struct Mended<'b> {
    pub(super) bytes: Cow<'b, [u8]>,
    /// By line.
    short: BTreeMap<u64, Short>,
}

/// Puts back what can be put back.
pub(super) fn mend(bytes: &[u8]) -> Mended<'_> {
    let mut lines = all_lines(bytes).filter(|line| !is_blank_line(line.text));
    let names = lines.next().map(|line| split(line.text)).unwrap_or_default();
    if names.last().is_none_or(|last| last != "_tag") {
        return Mended { bytes: bytes.into(), short: BTreeMap::new() };
    }
    let short: BTreeMap<u64, Short> =
        lines.filter_map(|line| Some((line.number, diagnose(&names, &split(line.text))?))).collect();
    if !short.values().any(|short| *short == Short::LastComma) {
        return Mended { bytes: bytes.into(), short };
    }
    let mut whole = Vec::with_capacity(bytes.len() + short.len());
    for line in all_lines(bytes) {
        whole.extend_from_slice(line.text);
        if short.get(&line.number) == Some(&Short::LastComma) {
            whole.push(b',');
        }
        whole.extend_from_slice(line.end);
    }
    Mended { bytes: whole.into(), short }
}

impl Mended<'_> {
    /// Says of each short row what was done, or why nothing could be.
    pub(super) fn tell<T>(&self, read: &mut Read<T>) {
        for rejected in &mut read.rejected {
            if let Some(Short::Flag { cause }) = self.short.get(&rejected.line) {
                rejected.reason.clone_from(cause);
            }
        }
        for (line, _) in self.short.iter().filter(|(_, short)| **short == Short::LastComma) {
            read.warn(Some(*line), "the last comma is missing, before an empty _tag: it was put back");
        }
    }
}

/// The cells of a line; none where the reader proper will refuse it.
fn split(line: &[u8]) -> Vec<String> {
    let mut cells = Cells::default();
    let text = std::str::from_utf8(line).ok().filter(|text| text.len() <= LINE_BYTES_MAX);
    match text.map(|text| cells.split(text)) {
        Some(Ok(())) => (0..cells.len()).map(|at| cells.get(at).to_owned()).collect(),
        _ => Vec::new(),
    }
}

fn diagnose(names: &[String], row: &[String]) -> Option<Short> {
    if row.len() + 1 != names.len() {
        return None;
    }
    let under = |name: &str| names.iter().position(|have| have == name).and_then(|at| row.get(at)).map(String::as_str);
    let is_number = |text: &str| text.parse::<f64>().is_ok_and(f64::is_finite);
    let flags: Vec<(&str, &str)> = FLAGS.iter().filter_map(|name| Some((*name, under(name)?))).collect();
    let is_flag = |text: &str| matches!(text, "0" | "1");
    let last = row.last().map_or("", String::as_str);
    let values_in_place = flags.iter().all(|(_, text)| is_flag(text))
        && ["tflops", "bw"].iter().all(|name| under(name).is_some_and(is_number));
    if values_in_place && is_number(last) {
        return Some(Short::LastComma);
    }
    let (name, shifted) = flags.last().filter(|(_, text)| is_number(text))?;
    // Shifted to the left by one: the tag stands last, and the bandwidth where the TFLOPS should.
    if is_number(last) || !under("tflops").is_some_and(is_number) || under("bw") != Some(last) {
        return None;
    }
    let all: Vec<&str> = flags.iter().map(|(name, _)| *name).collect();
    let cause = format!(
        "{} cells where the header has {}: one of the flags {} is missing, so that {} stands under {name}; put the flag in",
        row.len(),
        names.len(),
        all.join(", "),
        excerpt(shifted),
    );
    Some(Short::Flag { cause })
}
