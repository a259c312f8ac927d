//! Untuned tables: problems that an engine ran, and how often.
//!
//! AITER's eight columns come first under its own names, so that AITER reads our file, then ours. `problem`, the
//! canonical key, says everything; a row whose other columns contradict it is rejected. AITER's own untuned files are
//! read by [`super::aiter`].

use std::borrow::Cow;
use std::path::Path;

use super::cells::{Cells, LineWriter};
use super::error::{Read, ReadError};
use super::linear::{Linear, LinearColumns};
use super::sheet::{Column, Header, Reason, Sheet, Spec};
use super::{Format, column};
use crate::atomic::{self, WriteError};
use crate::recording::{Follows, Recorded};

pub(super) const SPEC: Spec = Spec {
    required: &["M", "N", "K", "bias", "dtype", "outdtype", "scaleAB", "bpreshuffle", "problem"],
    optional: &[
        "count",
        "via",
        "captured",
        "workspace_bytes_max",
        "library_file",
        "library_build",
        "follows",
        "nodes_between",
    ],
    renamed: &[],
};

/// The header line of an untuned table, with its line end.
pub fn header() -> &'static str {
    "M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle,problem,count,via,captured,workspace_bytes_max,library_file,\
     library_build,follows,nodes_between\n"
}

/// Appends one row with its line end to `out`; a recorder appends the result to a file with one write.
pub fn write_row(out: &mut String, recorded: &Recorded) {
    let mut line = LineWriter::new(out);
    Linear::of(&recorded.problem).write(&mut line);
    line.cell(recorded.problem).cell(recorded.count).cell(recorded.via);
    line.cell(column::flag_text(recorded.captured)).optional(recorded.workspace_bytes_max);
    line.text(&recorded.library_file).text(&recorded.library_build);
    line.optional(recorded.follows.map(|follows| follows.problem));
    line.optional(recorded.follows.and_then(|follows| follows.nodes_between)).end();
}

/// The whole table as text.
pub fn to_text<'a>(rows: impl IntoIterator<Item = &'a Recorded>) -> String {
    let mut text = header().to_owned();
    for row in rows {
        write_row(&mut text, row);
    }
    text
}

/// Replaces `path` by a table of `rows`, atomically.
pub fn write<'a>(path: &Path, rows: impl IntoIterator<Item = &'a Recorded>) -> Result<(), WriteError> {
    atomic::write(path, to_text(rows).as_bytes())
}

/// Our columns beside AITER's; a file that a person wrote may leave them out.
struct Ours {
    problem: Column,
    count: Option<Column>,
    via: Option<Column>,
    captured: Option<Column>,
    workspace_bytes_max: Option<Column>,
    library_file: Option<Column>,
    library_build: Option<Column>,
    follows: Option<Column>,
    nodes_between: Option<Column>,
}

impl Ours {
    fn read(&self, linear: &LinearColumns, row: &Cells) -> Result<Recorded, Reason> {
        let text = |column: Option<Column>| {
            column.map_or(Ok(String::new()), |column| column.unescaped(row).map(Cow::into_owned))
        };
        let bare = Recorded::bare(linear.read_beside(self.problem, row)?);
        Ok(Recorded {
            count: self.count.map_or(Ok(0), |column| column.whole_or_default(row))?,
            via: self.via.map_or(Ok(bare.via), |column| column.parsed(row))?,
            captured: match self.captured {
                Some(column) if !column.text(row).is_empty() => column.flag(row)?,
                _ => false,
            },
            workspace_bytes_max: self.workspace_bytes_max.map_or(Ok(None), |column| column.whole_or_none(row))?,
            library_file: text(self.library_file)?,
            library_build: text(self.library_build)?,
            follows: self.follows(row)?,
            ..bare
        })
    }

    fn follows(&self, row: &Cells) -> Result<Option<Follows>, Reason> {
        let nodes_between = self.nodes_between.map_or(Ok(None), |column| column.whole_or_none(row))?;
        let said = self.follows.filter(|column| !column.text(row).is_empty());
        said.map(|column| Ok(Follows { problem: column.parsed(row)?, nodes_between })).transpose()
    }
}

pub(super) fn read(sheet: &Sheet<'_>, header: &Header<'_>) -> Result<Read<Recorded>, ReadError> {
    let linear = LinearColumns::of(header);
    let ours = Ours {
        problem: header.get("problem"),
        count: header.find("count"),
        via: header.find("via"),
        captured: header.find("captured"),
        workspace_bytes_max: header.find("workspace_bytes_max"),
        library_file: header.find("library_file"),
        library_build: header.find("library_build"),
        follows: header.find("follows"),
        nodes_between: header.find("nodes_between"),
    };
    sheet.read(Format::Untuned, |_, row| ours.read(&linear, row))
}
