//! Where the rows of a merge come from: tables that are read twice in batches of lines, or rows that are held.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::{MergeError, Row};
use crate::choice::Choice;
use crate::format::limits::LINE_BYTES_MAX;
use crate::format::{self, Content, Format, Read, ReadOptions, Rejected, Warning};
use crate::origin::{Origin, Shared, Source};

/// Lines that are parsed together: enough to forget the cost of the header, which is parsed with them.
const BATCH_LINES: usize = 2048;

/// Bytes after which a batch ends early.
const BATCH_BYTES: usize = 4 << 20;

/// Where a row stands in its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    /// Of a file: the byte at which its line starts. Of held rows: its position.
    pub(super) at: u64,
    /// Bytes of its line; 0 for held rows.
    pub(super) bytes: u32,
    /// Its line, from 1; 0 where there are none.
    pub(super) line: u64,
}

/// The rows of one source.
#[derive(Debug)]
pub(super) enum Rows {
    /// In memory: rows of a database, and of formats that are not lines under a header.
    Held(Vec<Row>),
    /// In a table of lines.
    Lines(Lines),
}

impl Rows {
    /// The rows at `spots`, in their order.
    pub(super) fn fetch(&self, spots: &[Spot]) -> Result<Vec<Row>, MergeError> {
        match self {
            Rows::Held(rows) => Ok(spots.iter().map(|spot| rows[spot.at as usize].clone()).collect()),
            Rows::Lines(lines) => lines.fetch(spots),
        }
    }
}

/// A table whose lines are read as they are needed.
#[derive(Debug)]
pub(super) struct Lines {
    path: PathBuf,
    file: File,
    /// The header line with its end.
    header: Vec<u8>,
    header_line: u64,
    /// Where the header ends.
    start: u64,
    format: Format,
    options: ReadOptions,
    /// Size and age when it was opened: a file that changes meanwhile is noticed.
    stamp: (u64, Option<SystemTime>),
    /// BLAKE3 of all its bytes, once it was read through.
    hash: String,
}

/// Some lines under their header, as a file of their own.
struct Batch {
    bytes: Vec<u8>,
    spots: Vec<Spot>,
}

/// Lines, and where each ends.
#[derive(Debug, Default)]
pub(super) struct Text {
    pub(super) bytes: Vec<u8>,
    pub(super) ends: Vec<usize>,
    /// The line that had no end in its file, where there is one.
    unended: Option<usize>,
}

/// What a line was.
enum Line {
    Whole,
    /// Over [`LINE_BYTES_MAX`]: not kept.
    TooLong,
    End,
}

/// Reads one line with its end into `out` in bounded memory; says what it was, and its bytes.
fn read_line(reader: &mut impl BufRead, out: &mut Vec<u8>) -> io::Result<(Line, u64)> {
    let (start, mut bytes) = (out.len(), 0u64);
    loop {
        let have = reader.fill_buf()?;
        if have.is_empty() {
            break;
        }
        let end = have.iter().position(|&byte| byte == b'\n').map(|at| at + 1);
        let taken = end.unwrap_or(have.len());
        if bytes <= LINE_BYTES_MAX as u64 {
            out.extend_from_slice(&have[..taken]);
        }
        bytes += taken as u64;
        reader.consume(taken);
        if end.is_some() {
            break;
        }
    }
    if bytes > LINE_BYTES_MAX as u64 {
        out.truncate(start);
        return Ok((Line::TooLong, bytes));
    }
    Ok((if bytes == 0 { Line::End } else { Line::Whole }, bytes))
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
}

impl Lines {
    /// Opens `path` if it is a table of choices, one a line under a header; `None` if it is something else.
    pub(super) fn open(path: &Path, options: &ReadOptions) -> Result<Option<Lines>, MergeError> {
        let failed = |source| MergeError::Io { path: path.to_owned(), source };
        let Ok(file) = File::open(path) else { return Ok(None) };
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Ok(None);
        }
        let mut reader = BufReader::new(&file);
        let (mut header, mut header_line, mut start) = (Vec::new(), 0, 0);
        while is_blank(&header) {
            header.clear();
            let (line, bytes) = read_line(&mut reader, &mut header).map_err(failed)?;
            if !matches!(line, Line::Whole) {
                return Ok(None);
            }
            header_line += 1;
            start += bytes;
        }
        let mut lines = Lines {
            path: path.to_owned(),
            header,
            header_line,
            start,
            format: Format::Tuned,
            options: options.clone(),
            stamp: (metadata.len(), metadata.modified().ok()),
            hash: String::new(),
            file,
        };
        let first = lines.batches()?.next().transpose()?;
        let sample = first.map_or_else(|| lines.header.clone(), |(batch, _)| batch.bytes);
        match format::parse(path, &sample, options) {
            Ok(Content::Choices(Read { format, .. })) => {
                if !matches!(format, Format::Tuned | Format::AiterTuned(_) | Format::FmoeTuned) {
                    return Ok(None);
                }
                // What the first lines tell is the family of them all.
                if let Format::AiterTuned(family) = format {
                    lines.options.family = Some(family);
                }
                lines.format = format;
                Ok(Some(lines))
            }
            // A reader that sees the whole file says best what it is.
            _ => Ok(None),
        }
    }

    /// What kind of table it is.
    pub(super) fn format(&self) -> Format {
        self.format
    }

    /// From the first line under the header on, some lines at a time, with what had to be left out.
    fn batches(
        &self,
    ) -> Result<impl Iterator<Item = Result<(Batch, Vec<Rejected>), MergeError>> + use<'_>, MergeError> {
        let failed = |source| MergeError::Io { path: self.path.clone(), source };
        let mut file = &self.file;
        file.seek(SeekFrom::Start(self.start)).map_err(failed)?;
        let mut reader = BufReader::with_capacity(1 << 16, file);
        let (mut at, mut number, mut ended) = (self.start, self.header_line, false);
        Ok(std::iter::from_fn(move || {
            if ended {
                return None;
            }
            let mut batch = Batch { bytes: self.header.clone(), spots: Vec::with_capacity(BATCH_LINES) };
            let mut rejected = Vec::new();
            while batch.spots.len() < BATCH_LINES && batch.bytes.len() < BATCH_BYTES {
                let (line, bytes) = match read_line(&mut reader, &mut batch.bytes) {
                    Ok(read) => read,
                    Err(source) => {
                        ended = true;
                        return Some(Err(MergeError::Io { path: self.path.clone(), source }));
                    }
                };
                number += 1;
                match line {
                    Line::Whole => batch.spots.push(Spot { at, bytes: bytes as u32, line: number }),
                    Line::TooLong => rejected.push(Rejected {
                        file: self.path.as_path().into(),
                        line: number,
                        reason: format!("line of {bytes} bytes; at most {LINE_BYTES_MAX} are read"),
                    }),
                    Line::End => {
                        ended = true;
                        break;
                    }
                }
                at += bytes;
            }
            let is_empty = batch.spots.is_empty() && rejected.is_empty();
            (!is_empty).then_some(Ok((batch, rejected)))
        }))
    }

    /// `each` of all rows, and the rejected ones.
    pub(super) fn scan(
        &mut self,
        mut each: impl FnMut(&Choice, Spot) -> Result<(), MergeError>,
        mut reject: impl FnMut(Rejected),
        mut warn: impl FnMut(Warning),
    ) -> Result<(), MergeError> {
        let mut hasher = blake3::Hasher::new();
        let plain = ReadOptions { keep_origin: false, ..self.options.clone() };
        for batch in self.batches()? {
            let (batch, too_long) = batch?;
            too_long.into_iter().for_each(&mut reject);
            let read = format::parse_choices(&self.path, &batch.bytes, &plain).map_err(MergeError::Later)?;
            let Read { rows, rejected, warnings, .. } = read;
            for warning in warnings {
                warn(Warning { line: warning.line.map(|line| batch.spot(line).line), ..warning });
            }
            for row in rows {
                each(&row.value, batch.spot(row.line))?;
            }
            for row in rejected {
                reject(Rejected { line: batch.spot(row.line).line, ..row });
            }
        }
        let mut file = &self.file;
        let failed = |source| MergeError::Io { path: self.path.clone(), source };
        file.rewind().map_err(failed)?;
        hasher.update_reader(file).map_err(failed)?;
        self.hash = hasher.finalize().to_hex().to_string();
        Ok(())
    }

    /// The rows at `spots`, in their order.
    pub(super) fn fetch(&self, spots: &[Spot]) -> Result<Vec<Row>, MergeError> {
        let text = self.text(spots)?;
        let bytes = [&self.header, &text.bytes[..]].concat();
        let options = ReadOptions { keep_origin: true, ..self.options.clone() };
        let Read { mut rows, rejected, .. } = format::parse_choices(&self.path, &bytes, &options)?;
        // Both passes read the same bytes by the same rules, unless the file changed.
        if !rejected.is_empty() || rows.len() != spots.len() {
            return Err(MergeError::Changed { path: self.path.clone() });
        }
        // The reader saw some lines of the file and took them for all of it.
        let mut seen_hashes = vec![blake3::hash(&bytes).to_hex()];
        if let Some(at) = text.unended {
            // Its origin is to say so: read by itself it is the last line again.
            let start = at.checked_sub(1).map_or(0, |before| text.ends[before]);
            let last = [&self.header, &text.bytes[start..text.ends[at] - 1]].concat();
            let Read { rows: alone, .. } = format::parse_choices(&self.path, &last, &options)?;
            rows.splice(at..=at, alone);
            seen_hashes.push(blake3::hash(&last).to_hex());
        }
        let shared = Shared::default();
        let row = |(mut choice, spot): (Choice, &Spot)| {
            let is_seen = |origin: &Origin| seen_hashes.iter().any(|hash| origin.source.file_hash == hash.as_str());
            if let Some(origin) = choice.origin.as_mut().filter(|origin| is_seen(origin)) {
                let whole = || Source { file_hash: self.hash.clone(), ..(*origin.source).clone() };
                let is_it = |have: &Source| have.file_hash == self.hash && have.columns == origin.source.columns;
                let source = shared.source(is_it, whole);
                *origin = Arc::new(Origin::clone(origin).moved(source, spot.line));
            }
            Row::bare(choice)
        };
        Ok(rows.into_iter().map(|row| row.value).zip(spots).map(row).collect())
    }

    /// Are its lines as our writer writes them under this header, so that they may be copied?
    pub(super) fn has_header(&self, header: &[u8]) -> bool {
        self.format == Format::Tuned && self.header.trim_ascii_end() == header.trim_ascii_end()
    }

    /// The lines at `spots`, each with its end.
    pub(super) fn text(&self, spots: &[Spot]) -> Result<Text, MergeError> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::UnexpectedEof => MergeError::Changed { path: self.path.clone() },
            _ => MergeError::Io { path: self.path.clone(), source },
        };
        let mut text = Text::default();
        let mut file = &self.file;
        // Neighbours in the result are mostly neighbours in the file: each run is one read.
        for run in spots.chunk_by(|a, b| a.at + u64::from(a.bytes) == b.at) {
            let want: usize = run.iter().map(|spot| spot.bytes as usize).sum();
            let mut end = text.bytes.len();
            text.bytes.resize(end + want, 0);
            file.seek(SeekFrom::Start(run[0].at)).map_err(failed)?;
            file.read_exact(&mut text.bytes[end..]).map_err(failed)?;
            for spot in run {
                end += spot.bytes as usize;
                text.ends.push(end);
            }
            // Only the last line of a file may lack its end, and it is the last of its run.
            if text.bytes.last().is_some_and(|&last| last != b'\n') {
                text.bytes.push(b'\n');
                text.unended = Some(text.ends.len() - 1);
                if let Some(end) = text.ends.last_mut() {
                    *end += 1;
                }
            }
        }
        Ok(text)
    }

    /// Is the file what it was when it was opened?
    pub(super) fn check_unchanged(&self) -> Result<(), MergeError> {
        let metadata = self.file.metadata().map_err(|source| MergeError::Io { path: self.path.clone(), source })?;
        match self.stamp == (metadata.len(), metadata.modified().ok()) {
            true => Ok(()),
            false => Err(MergeError::Changed { path: self.path.clone() }),
        }
    }
}

impl Batch {
    /// Where the row stands that a reader of this batch saw on line `seen`: the header is its line 1.
    fn spot(&self, seen: u64) -> Spot {
        let at = usize::try_from(seen).unwrap_or(usize::MAX).saturating_sub(2);
        self.spots.get(at).copied().unwrap_or(Spot { at: 0, bytes: 0, line: 0 })
    }
}
