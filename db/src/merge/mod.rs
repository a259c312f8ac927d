//! Merging tables of choices by the one rule: same problem, device and builds → the lower upper end of time over
//! baseline, then the newer, then key order ([`compare`]).
//!
//! The result depends on the set of rows alone: not on the order of the sources, nor on how they are grouped, and rows
//! that are merged again stay as they are. It is told per source how many rows came in, won, lost (and to which
//! source), or stood elsewhere already.
//!
//! Rows of other devices or other builds are no rivals: all are kept, since each serves where the others do not.
//!
//! Tables are read twice and never held: of each row a note of fixed size is kept, then the winners alone are read again,
//! in the order of the result. So a merge takes some hundred bytes a row, whatever its rows say.

pub(crate) mod identity;
mod order;
mod output;
#[cfg(test)]
pub(crate) mod sample;
mod source;
mod tally;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::atomic::WriteError;
use crate::choice::{Choice, Constraints};
use crate::device::Environment;
use crate::format::limits::WARNINGS_MAX;
use crate::format::{self, Format, ReadError, ReadOptions, Rejected, Warning};
use source::{Lines, Rows, Spot};
use tally::{Tally, Winner};

pub use order::{Standing, compare};

/// The most rows of one merge: their notes take some 2 GB.
pub const ROWS_MAX: usize = 1 << 24;

/// The most rejected rows of one source that its report names; all are counted.
pub const REJECTED_NAMED_MAX: usize = 1000;

/// Rows of the result that are read together.
const BATCH_ROWS: usize = 4096;

/// What a merge cannot do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// A source is no table of choices.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The system refused.
    #[error("{}: cannot be read: {source}", .path.display())]
    Io {
        /// The source.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A source is not what it was when the merge began.
    #[error("{}: changed while it was merged: merge again", .path.display())]
    Changed {
        /// The source.
        path: PathBuf,
    },
    /// A table turned into something else after its first lines.
    #[error(transparent)]
    Later(ReadError),
    /// Over [`ROWS_MAX`].
    #[error("more than {ROWS_MAX} rows: merge in parts, and then the results")]
    TooManyRows,
    /// The result cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// What is known of the environment of a row that comes with none: its device, the builds that it names, and as
/// variables what else tells it apart from others (AITER's tag; the library of a row without time).
pub fn environment_of(choice: &Choice) -> Environment {
    identity::Place::of(choice).environment(choice)
}

/// A choice, and what a database knows of how it was made; tables do not say.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The choice.
    pub choice: Choice,
    /// Where it was made.
    pub environment: Option<Arc<Environment>>,
    /// What was allowed.
    pub constraints: Option<Arc<Constraints>>,
}

impl Row {
    /// A choice of which no more is known.
    pub fn bare(choice: Choice) -> Row {
        Row { choice, environment: None, constraints: None }
    }
}

/// What became of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It is in the result.
    Won,
    /// A better one is, of this source.
    LostTo(usize),
    /// A row that says the same is.
    Identical,
}

/// What became of the rows of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceReport {
    /// The source, as it was named.
    pub name: String,
    /// Its format; `None` for rows that came from no file.
    pub format: Option<Format>,
    /// Rows that could be read.
    pub rows: u64,
    /// Rows of it in the result.
    pub won: u64,
    /// Rows that lost, with the number of the source to which, in ascending order of that.
    pub lost: Vec<(usize, u64)>,
    /// Rows whose like is in the result already.
    pub identical: u64,
    /// Rows that could not be read.
    pub rejected: u64,
    /// The first [`REJECTED_NAMED_MAX`] of them.
    pub rejections: Vec<Rejected>,
    /// What was assumed or passed over, at most [`WARNINGS_MAX`].
    pub warnings: Vec<Warning>,
}

impl SourceReport {
    /// All rows that lost.
    pub fn lost_total(&self) -> u64 {
        self.lost.iter().map(|(_, rows)| rows).sum()
    }

    fn reject(&mut self, rejected: Rejected) {
        self.rejected += 1;
        if self.rejections.len() < REJECTED_NAMED_MAX {
            self.rejections.push(rejected);
        }
    }

    /// A table that is read in parts says the same of each.
    fn warn(&mut self, warning: Warning) {
        if self.warnings.len() < WARNINGS_MAX && !self.warnings.iter().any(|known| known.what == warning.what) {
            self.warnings.push(warning);
        }
    }

    fn count(&mut self, fate: Fate) {
        match fate {
            Fate::Won => self.won += 1,
            Fate::Identical => self.identical += 1,
            Fate::LostTo(winner) => match self.lost.binary_search_by_key(&winner, |(source, _)| *source) {
                Ok(at) => self.lost[at].1 += 1,
                Err(at) => self.lost.insert(at, (winner, 1)),
            },
        }
    }
}

/// A merge that takes sources.
#[derive(Debug, Default)]
pub struct Merge {
    sources: Vec<Rows>,
    reports: Vec<SourceReport>,
    tally: Tally,
}

impl Merge {
    /// Nothing to merge yet.
    pub fn new() -> Merge {
        Merge::default()
    }

    /// Takes the rows of a file of choices, of any format but SQLite's; the file is not edited.
    ///
    /// # Errors
    /// It cannot be read, or holds something else: [`MergeError::Read`] then, and the merge is what it was. After any other
    /// the merge is not to be used. Rows that cannot be read are no error: they are in the report.
    pub fn add_file(&mut self, path: &Path, options: &ReadOptions) -> Result<(), MergeError> {
        let name = path.display().to_string();
        let Some(mut lines) = Lines::open(path, options)? else {
            let read = format::read_choices(path, &ReadOptions { keep_origin: true, ..options.clone() })?;
            self.add_read(name, read)?;
            return Ok(());
        };
        let mut report = SourceReport { name, format: Some(lines.format()), ..SourceReport::default() };
        let (tally, source) = (&mut self.tally, self.sources.len() as u32);
        let (mut rejected, mut warnings) = (Vec::new(), Vec::new());
        lines.scan(
            |choice, spot| {
                report.rows += 1;
                tally.note(choice, source, spot)
            },
            |row| rejected.push(row),
            |warning| warnings.push(warning),
        )?;
        warnings.into_iter().for_each(|warning| report.warn(warning));
        rejected.into_iter().for_each(|row| report.reject(row));
        self.reports.push(report);
        self.sources.push(Rows::Lines(lines));
        Ok(())
    }

    /// Takes the rows of a file that was read already.
    ///
    /// # Errors
    /// Too many rows.
    pub fn add_read(&mut self, name: impl Into<String>, read: format::Read<Choice>) -> Result<(), MergeError> {
        let mut report = SourceReport { name: name.into(), format: Some(read.format), ..SourceReport::default() };
        read.rejected.into_iter().for_each(|row| report.reject(row));
        report.warnings = read.warnings;
        let rows = read.rows.into_iter().map(|row| (row.line, Row::bare(row.value)));
        self.hold(report, rows)
    }

    /// Takes rows that come from no file of choices, such as a database's; `name` is what the report calls them. Of rows
    /// that say the same the one of the first name stays; the empty name is before all others.
    ///
    /// # Errors
    /// Too many rows.
    pub fn add_rows(&mut self, name: impl Into<String>, rows: impl IntoIterator<Item = Row>) -> Result<(), MergeError> {
        let report = SourceReport { name: name.into(), ..SourceReport::default() };
        self.hold(report, rows.into_iter().map(|row| (0, row)))
    }

    fn hold(&mut self, mut report: SourceReport, rows: impl Iterator<Item = (u64, Row)>) -> Result<(), MergeError> {
        let source = self.sources.len() as u32;
        let mut held = Vec::new();
        for (at, (line, row)) in (0..).zip(rows) {
            self.tally.note(&row.choice, source, Spot { at, bytes: 0, line })?;
            report.rows += 1;
            held.push(row);
        }
        self.reports.push(report);
        self.sources.push(Rows::Held(held));
        Ok(())
    }

    /// Decides.
    pub fn finish(self) -> Merged {
        let Merge { sources, mut reports, tally } = self;
        let mut by_name: Vec<usize> = (0..reports.len()).collect();
        by_name.sort_by(|&a, &b| reports[a].name.cmp(&reports[b].name));
        let mut names = vec![0; reports.len()];
        for (rank, source) in (0..).zip(by_name) {
            names[source] = rank;
        }
        let winners = tally.decide(&names, |source, fate| reports[source as usize].count(fate));
        Merged { sources, reports, winners }
    }
}

/// The result of a merge: the winners, by where they stand.
#[derive(Debug)]
pub struct Merged {
    sources: Vec<Rows>,
    reports: Vec<SourceReport>,
    winners: Vec<Winner>,
}

impl Merged {
    /// What became of each source's rows, in the order in which they were added.
    pub fn reports(&self) -> &[SourceReport] {
        &self.reports
    }

    /// Rows of the result.
    pub fn len(&self) -> usize {
        self.winners.len()
    }

    /// Is there no row?
    pub fn is_empty(&self) -> bool {
        self.winners.is_empty()
    }

    /// The rows of the result in their order (layers in theirs, each by ascending tokens, then by device, the better first),
    /// some at a time; each with the number of its source. After the last batch the sources are checked: one that
    /// changed meanwhile is an error.
    pub fn batches_with_source(&self) -> impl Iterator<Item = Result<Vec<(usize, Row)>, MergeError>> + use<'_> {
        let batches = self.winners.chunks(BATCH_ROWS).map(|winners| self.fetch(winners));
        let check = || self.check_unchanged().err();
        batches.chain(std::iter::once_with(check).flatten().map(Err))
    }

    /// [`Merged::batches_with_source`] without the sources.
    pub fn batches(&self) -> impl Iterator<Item = Result<Vec<Row>, MergeError>> + use<'_> {
        self.batches_with_source().map(|batch| Ok(batch?.into_iter().map(|(_, row)| row).collect()))
    }

    /// All choices of the result in memory.
    ///
    /// # Errors
    /// A source that cannot be read again or has changed.
    pub fn choices(&self) -> Result<Vec<Choice>, MergeError> {
        let mut choices = Vec::with_capacity(self.len());
        for batch in self.batches() {
            choices.extend(batch?.into_iter().map(|row| row.choice));
        }
        Ok(choices)
    }

    /// Reads `winners`: of each source its rows together, then put in order.
    fn fetch(&self, winners: &[Winner]) -> Result<Vec<(usize, Row)>, MergeError> {
        let rows = self.each_source(winners, Rows::fetch)?;
        let mut rows: Vec<_> = rows.into_iter().map(Vec::into_iter).collect();
        let mut in_order = Vec::with_capacity(winners.len());
        for winner in winners {
            let source = winner.source as usize;
            in_order.extend(rows[source].next().map(|row| (source, row)));
        }
        Ok(in_order)
    }

    /// `read` of each source and where its `winners` stand, in their order.
    fn each_source<T: Default>(
        &self,
        winners: &[Winner],
        read: impl Fn(&Rows, &[Spot]) -> Result<T, MergeError>,
    ) -> Result<Vec<T>, MergeError> {
        let mut by_source: Vec<Vec<Spot>> = vec![Vec::new(); self.sources.len()];
        for winner in winners {
            by_source[winner.source as usize].push(winner.spot);
        }
        let read = |(source, spots): (&Rows, &Vec<Spot>)| match spots.is_empty() {
            true => Ok(T::default()),
            false => read(source, spots),
        };
        self.sources.iter().zip(&by_source).map(read).collect()
    }

    fn check_unchanged(&self) -> Result<(), MergeError> {
        self.sources.iter().try_for_each(|source| match source {
            Rows::Lines(lines) => lines.check_unchanged(),
            Rows::Held(_) => Ok(()),
        })
    }
}

#[cfg(test)]
mod tests;
