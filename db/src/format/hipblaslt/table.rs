//! Bench tables of hipBLASLt and rocBLAS: a header line, then value lines, between whatever else the programs print.
//!
//! ```text
//! Git Version: ab12cd-dirty
//! [0]:transA,transB,grouped_gemm,batch_count,m,n,k,…,us,solution_index
//!     T,N,0,1,64,3,32,…,9.5,523
//!     --Solution index: 523
//!     --kernel name:    Custom_Cijk_…
//! ```
//! Columns are found by name: there are a dozen header forms, and some stand before every value line. What the program
//! says of itself and of the device before a value line holds for it.

use super::said::Said;
use super::words::{decoded_version, is_elided};
use crate::device::Build;
use crate::format::limits::{LINE_BYTES_MAX, excerpt};
use crate::format::sheet::Reason;

/// The first cells of every header.
const HEADER: &str = "transA,transB,";

/// What the lines above say.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Context<'a> {
    version: Option<&'a str>,
    revision: Option<&'a str>,
    pub(crate) arch: Option<&'a str>,
}

impl<'a> Context<'a> {
    /// Takes `line` if it tells something.
    fn take(&mut self, line: &'a str) -> bool {
        let version = ["hipBLASLt version: ", "rocBLAS version: "];
        if let Some(version) = version.iter().find_map(|name| line.strip_prefix(name)) {
            self.version = Some(version.trim());
        } else if let Some(revision) =
            ["Git Version: ", "hipBLASLt git version: "].iter().find_map(|name| line.strip_prefix(name))
        {
            self.revision = Some(revision.trim());
        } else if line.starts_with("Device ID ") {
            self.arch = line.split_whitespace().find(|word| word.starts_with("gfx")).map(arch_of);
        } else {
            return false;
        }
        true
    }

    /// The build of hipBLASLt that printed.
    pub(crate) fn hipblaslt(&self) -> Build {
        let version = self.version.unwrap_or_default();
        Build {
            library: "hipblaslt".into(),
            version: version.parse().map_or_else(|_| version.to_owned(), decoded_version),
            revision: self.revision.unwrap_or_default().to_owned(),
        }
    }
}

/// `gfx950` of `gfx950:sramecc+:xnack-`.
pub(crate) fn arch_of(name: &str) -> &str {
    name.split(':').next().unwrap_or(name)
}

/// One value line under its header.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) line: u64,
    pub(crate) context: Context<'a>,
    /// Cells by the columns' names; what stands in lines below is added.
    pub(crate) cells: Vec<(&'a str, &'a str)>,
}

impl<'a> Entry<'a> {
    /// The cells by one name for all spellings.
    pub(crate) fn said(&self) -> Result<Said<'a>, Reason> {
        Said::of(self.cells.iter().copied())
    }
}

/// What a table is made of.
#[derive(Debug, Default)]
pub(crate) struct Entries<'a> {
    pub(crate) entries: Vec<Entry<'a>>,
    pub(crate) rejected: Vec<(u64, Reason)>,
    /// Lines that are none of the table.
    pub(crate) other: u64,
}

/// Is `text` a header: its columns, without the number of the bench's run in front?
fn header(text: &str) -> Option<Vec<&str>> {
    let text = text.split_once("]:").filter(|(front, _)| front.starts_with('[')).map_or(text, |(_, rest)| rest);
    text.starts_with(HEADER).then(|| text.split(',').map(str::trim).collect())
}

/// Has `text` a header of this kind in any line?
pub(crate) fn has_header(text: &[u8], column: &str) -> bool {
    let lines = text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    lines
        .filter(|line| line.starts_with(HEADER.as_bytes()) || line.starts_with(b"["))
        .filter_map(|line| std::str::from_utf8(line).ok())
        .filter_map(header)
        .any(|names| names.contains(&column))
}

/// Does the line start as values do, with two transpositions?
fn looks_like_values(text: &str) -> bool {
    let mut cells = text.split(',').map(str::trim);
    [cells.next(), cells.next()].iter().all(|cell| matches!(cell, Some("N" | "T" | "C")))
}

/// Cuts `bytes` into entries; at most `entries_max`, then `None`.
pub(crate) fn cut(bytes: &[u8], entries_max: usize) -> Option<Entries<'_>> {
    let mut found = Entries::default();
    let mut names: Vec<&str> = Vec::new();
    let mut context = Context::default();
    for (line, bytes) in (1u64..).zip(bytes.split(|&byte| byte == b'\n')) {
        let bytes = bytes.trim_ascii();
        if bytes.is_empty() {
            continue;
        }
        if found.entries.len() + found.rejected.len() == entries_max {
            return None;
        }
        let text = match std::str::from_utf8(bytes) {
            Ok(text) if text.len() <= LINE_BYTES_MAX => text,
            Ok(text) => {
                found.rejected.push((line, format!("line of {} bytes; at most {LINE_BYTES_MAX} are read", text.len())));
                continue;
            }
            Err(_) => {
                found.other += 1;
                continue;
            }
        };
        if let Some(columns) = header(text) {
            names = columns;
        } else if looks_like_values(text) {
            match values(text, &names) {
                Ok(cells) => found.entries.push(Entry { line, context, cells }),
                Err(reason) => found.rejected.push((line, reason)),
            }
        } else if !context.take(text) && !below(text, found.entries.last_mut()) {
            found.other += 1;
        }
    }
    Some(found)
}

fn values<'a>(text: &'a str, names: &[&'a str]) -> Result<Vec<(&'a str, &'a str)>, Reason> {
    if names.is_empty() {
        return Err("values without a header line above them".into());
    }
    let cells: Vec<&str> = text.split(',').map(str::trim).collect();
    if cells.len() != names.len() {
        let how = if cells.len() < names.len() { "short" } else { "long" };
        return Err(format!("{} cells where the header has {}: row is too {how}", cells.len(), names.len()));
    }
    Ok(names.iter().copied().zip(cells).collect())
}

/// A line below a value line that says more of its solution.
fn below<'a>(text: &'a str, entry: Option<&mut Entry<'a>>) -> bool {
    let Some((name, value)) = text.strip_prefix("--").and_then(|text| text.split_once(':')) else { return false };
    let name = match name.trim() {
        "Solution index" => "solution_index",
        "Solution name" => "solution_name",
        "kernel name" => "kernel_name",
        _ => return false,
    };
    if let Some(entry) = entry {
        entry.cells.push((name, value.trim()));
    }
    true
}

/// A time in microseconds.
pub(crate) fn time_us(said: &Said<'_>) -> Result<f64, Reason> {
    let text = said.need("us")?;
    let value = text.parse().ok().filter(|us: &f64| us.is_finite() && *us > 0.0);
    value.ok_or_else(|| format!("us is '{}': finite microseconds above 0 are expected", excerpt(text)))
}

/// The kernel's name, or else the solution's. A page that shows where names stand shows `<…>`.
pub(crate) fn kernel_name<'a>(said: &Said<'a>) -> &'a str {
    let names = ["kernel_name", "solution_name"].into_iter().filter_map(|name| said.get(name));
    names.into_iter().find(|name| !name.is_empty() && !name.starts_with('<') && !is_elided(name)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "hipBLASLt version: 100200\nhipBLASLt git version: ab12-dirty\nDevice ID 0 : AMD gfx950:sramecc+:xnack-\nnoise\n\n\
        [0]:transA,transB,m,us\n\n    T,N,5, 7.5 \n    --Solution index: 12\n    --kernel name:    K1\nT,N,5\ntransA,transB,m,n,us\nN,N,1,2,3\n";

    #[test]
    fn values_belong_to_the_header_above_and_lines_below_to_them() {
        let found = cut(TEXT.as_bytes(), 9).unwrap();
        assert_eq!(found.other, 1);
        assert_eq!(found.rejected, [(11, "3 cells where the header has 4: row is too short".to_owned())]);
        let [first, second] = &found.entries[..] else { panic!("{found:?}") };
        assert_eq!(first.context.hipblaslt().to_string(), "hipblaslt 1.2.0 (ab12-dirty)");
        assert_eq!((first.line, first.context.arch), (8, Some("gfx950")));
        let said = first.said().unwrap();
        assert_eq!((said.get("m"), said.get("solution_index"), kernel_name(&said)), (Some("5"), Some("12"), "K1"));
        assert_eq!(time_us(&said), Ok(7.5));
        assert_eq!(second.cells, [("transA", "N"), ("transB", "N"), ("m", "1"), ("n", "2"), ("us", "3")]);
    }

    #[test]
    fn headers_are_known_by_a_column_and_values_without_one_are_told() {
        assert!(has_header(TEXT.as_bytes(), "n"));
        assert!(!has_header(TEXT.as_bytes(), "grouped_gemm"));
        let bare = cut(b"N,T,4,4\n", 9).unwrap();
        assert_eq!(bare.rejected, [(1, "values without a header line above them".to_owned())]);
        assert!(cut(TEXT.as_bytes(), 1).is_none());
    }
}
