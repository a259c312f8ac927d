//! Problems become AITER's untuned tables.

use std::path::Path;

use super::write::{key_cell, shown_again};
use super::{Family, NotExported, detect};
use crate::format::cells::LineWriter;
use crate::format::pieces::Pieces;
use crate::format::{self, AssumedDevice, Content, Format, ReadOptions};
use crate::problem::Problem;
use crate::recording::Recorded;

/// AITER's untuned table of `rows` under the columns `names` (today's where there are none), and the problems that the
/// family cannot say, with reasons.
pub fn untuned_text<'a>(
    family: Family,
    names: Option<&[&str]>,
    rows: impl IntoIterator<Item = &'a Recorded>,
) -> (String, Vec<NotExported>) {
    let names = names.unwrap_or(family.layout().untuned);
    let mut text = names.join(",");
    text.push('\n');
    let mut left_out = Vec::new();
    for Recorded { problem, .. } in rows {
        match is_said(family, problem) {
            true => untuned_row(&mut text, names, problem),
            false => left_out.push(not_said(problem)),
        }
    }
    (text, left_out)
}

/// Can the family's columns say all of `problem`, whatever device it is read for?
fn is_said(family: Family, problem: &Problem) -> bool {
    ["gfx942", "gfx950"].iter().any(|arch| shown_again(family.layout(), problem, arch) == Some(*problem))
}

fn not_said(problem: &Problem) -> NotExported {
    NotExported { problem: *problem, reason: "AITER's columns cannot say all of this problem".to_owned() }
}

fn untuned_row(text: &mut String, names: &[&str], problem: &Problem) {
    let mut line = LineWriter::new(text);
    let mut cell = String::new();
    for name in names {
        cell.clear();
        key_cell(detect::SPEC.present_name(name), problem, &mut cell);
        line.cell(&cell);
    }
    line.end();
}

/// AITER's untuned table of `rows` as the file had them that the first of them was imported from: its header, its order of
/// columns, and every row that still says the same in its spelling. Rows of one whole file give that file again.
pub fn untuned_text_like_origin<'a>(rows: impl IntoIterator<Item = &'a Recorded>) -> (String, Vec<NotExported>) {
    let rows: Vec<&Recorded> = rows.into_iter().collect();
    let mut models = rows.iter().filter_map(|row| row.origin.as_deref());
    let Some((family, model)) = models.find_map(|origin| {
        let of = |family: &Family| Pieces::of(origin, Format::AiterUntuned(*family));
        Family::ALL.iter().find_map(|family| Some((*family, of(family)?)))
    }) else {
        let reason = "it was not imported from an untuned table of AITER's: say which family to write";
        let left_out = rows.iter().map(|row| NotExported { problem: row.problem, reason: reason.into() });
        return (String::new(), left_out.collect());
    };
    let names: Vec<&str> = model.head.lines().last().unwrap_or_default().split(',').map(str::trim).collect();
    let (mut text, mut left_out) = (model.head.to_owned(), Vec::new());
    for (at, row) in rows.iter().enumerate() {
        let pieces = row.origin.as_deref().and_then(|origin| Pieces::of(origin, Format::AiterUntuned(family)));
        if !text.ends_with('\n') {
            text.push('\n');
        }
        match pieces.filter(|pieces| pieces.head == model.head && says(family, pieces, &row.problem)) {
            Some(Pieces { gap, row, tail, .. }) => {
                text += gap;
                text += row;
                if at + 1 == rows.len() {
                    text += tail;
                }
            }
            None if is_said(family, &row.problem) => untuned_row(&mut text, &names, &row.problem),
            None => left_out.push(not_said(&row.problem)),
        }
    }
    (text, left_out)
}

/// Does the row, read again, still give this problem? The file may have been read for any device.
fn says(family: Family, pieces: &Pieces<'_>, problem: &Problem) -> bool {
    let text = [pieces.head, pieces.row].concat();
    let weight_dtype = problem.gemm().map(|gemm| gemm.site.w);
    let devices = [None, Some("gfx942"), Some("gfx950")];
    devices.into_iter().any(|arch| {
        let device = arch.map(|arch| AssumedDevice { arch: arch.into(), compute_units: 0 });
        let options = ReadOptions { device, family: Some(family), weight_dtype, ..ReadOptions::default() };
        match format::parse(Path::new(""), text.as_bytes(), &options) {
            Ok(Content::Problems(read)) => read.rows.first().is_some_and(|row| row.value.problem == *problem),
            _ => false,
        }
    })
}
