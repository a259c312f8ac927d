//! What several subcommands take: untuned files, sizes, durations, constraints.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tgemm_db::format;
use tgemm_db::recording;
use tgemm_db::{Constraints, Numerics, Recorded, WeightForm};

use crate::filter::Filter;
use crate::worker::Interrupt;

/// Rejected rows that are named one by one; the rest is counted.
const REJECTS_NAMED_MAX: usize = 20;

/// Which of the problems in the files are meant.
#[derive(Debug, clap::Args)]
pub struct Selection {
    /// Only problems with at most this many tokens (M)
    #[arg(long, value_name = "M")]
    pub max_m: Option<u32>,
    /// Only problems for which this holds, such as 'n >= 1024 and dtype == bf16 and not m in (1, 2)'
    #[arg(long = "where", value_name = "EXPR")]
    pub filter: Option<String>,
}

/// What may be chosen.
#[derive(Debug, clap::Args)]
pub struct ConstraintArgs {
    /// Only these libraries (comma separated); baselines run in any case
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub libraries: Option<Vec<String>>,
    /// Only solutions that take the weights as they are: nothing is packed
    #[arg(long)]
    pub plain_weights: bool,
    /// Most scratch memory a solution may use, such as 32M
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub workspace_max: Option<u64>,
    /// Least faithful arithmetic that will do
    #[arg(long, value_name = "CLASS", default_value = "exact", value_parser = |s: &str| s.parse::<Numerics>())]
    pub numerics: Numerics,
    /// Only solutions known to give the same bits every time
    #[arg(long)]
    pub deterministic: bool,
}

impl ConstraintArgs {
    /// The constraints as the rest of the house takes them.
    pub fn constraints(&self) -> Constraints {
        let mut forms = BTreeSet::from([WeightForm::Plain]);
        if !self.plain_weights {
            forms.insert(WeightForm::Prepacked);
        }
        Constraints {
            libraries: self.libraries.as_ref().map(|list| list.iter().map(|name| name.trim().to_owned()).collect()),
            weight_forms: forms,
            workspace_bytes_max: self.workspace_max,
            numerics: self.numerics,
            deterministic: self.deterministic,
            graph_safe: false,
        }
    }
}

/// The problems of one file.
#[derive(Debug)]
pub struct Source {
    /// The file.
    pub path: PathBuf,
    /// Its selected problems, equal ones summed.
    pub rows: Vec<Recorded>,
}

/// Reads untuned CSVs (ours or AITER's) and selects; rejected rows are reported on standard error.
///
/// # Errors
/// A file that cannot be read at all, or nothing left to do.
pub fn read_sources(paths: &[PathBuf], selection: &Selection) -> anyhow::Result<Vec<Source>> {
    let filter = selection.filter.as_deref().map(Filter::parse).transpose()?;
    let (mut sources, mut found) = (Vec::new(), 0);
    for path in paths {
        let sheet = format::read_untuned(path)?;
        report_rejected(path, &sheet.rejected);
        found += sheet.rows.len();
        let mut rows = recording::merge(sheet.into_values());
        rows.retain(|row| selection.max_m.is_none_or(|max| row.problem.m() <= max));
        rows.retain(|row| filter.as_ref().is_none_or(|filter| filter.matches(row)));
        sources.push(Source { path: path.clone(), rows });
    }
    if sources.iter().all(|source| source.rows.is_empty()) {
        let names: Vec<_> = paths.iter().map(|p| p.display().to_string()).collect();
        bail!("{}: no problem to tune ({found} usable rows, none selected)", names.join(", "));
    }
    Ok(sources)
}

/// The problems of all sources, equal ones summed.
pub fn merged(sources: &[Source]) -> Vec<Recorded> {
    recording::merge(sources.iter().flat_map(|source| source.rows.iter().cloned()))
}

/// Names rejected rows, one line each.
pub fn report_rejected(path: &Path, rejected: &[format::Rejected]) {
    for reject in rejected.iter().take(REJECTS_NAMED_MAX) {
        eprintln!("tune: warning: {reject}");
    }
    if rejected.len() > REJECTS_NAMED_MAX {
        eprintln!("tune: warning: {}: {} more rows rejected", path.display(), rejected.len() - REJECTS_NAMED_MAX);
    }
}

/// Reads a size such as `4096`, `64K`, `32M`, `2G` (binary multiples).
pub fn bytes(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 1u64 << 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 1 << 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    let number: u64 = digits.parse().map_err(|_| format!("'{text}' is no size; write 4096, 64K, 32M or 2G"))?;
    number.checked_mul(factor).ok_or_else(|| format!("'{text}' is too large"))
}

/// Reads a duration such as `90s`, `10m`, `1.5h`; a bare number is seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("'{text}' is no duration; write 90s, 10m or 1.5h");
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let number: f64 = text[..unit_at].trim().parse().map_err(|_| bad())?;
    let seconds = match text[unit_at..].trim() {
        "" | "s" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(bad()),
    };
    // A year is more than anyone means, and far from overflowing an Instant.
    if seconds.is_finite() && seconds > 0.0 && seconds <= 366.0 * 86400.0 {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(bad())
    }
}

/// Sets a flag on Ctrl-C or a termination request; a second Ctrl-C ends at once, as usual.
pub fn catch_interrupt() -> anyhow::Result<Interrupt> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, super::Exit::Interrupted as i32, flag.clone())
            .and_then(|_| signal_hook::flag::register(signal, flag.clone()))
            .context("cannot watch for Ctrl-C")?;
    }
    Ok(Interrupt(flag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations_read_or_say_how() {
        assert_eq!(bytes("32M"), Ok(32 << 20));
        assert_eq!(bytes("7"), Ok(7));
        assert!(bytes("99999999999G").unwrap_err().contains("too large"));
        assert!(bytes("x").unwrap_err().contains("64K"));
        assert!(bytes("").is_err());
        assert_eq!(duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("1.5h"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("10m"), Ok(Duration::from_secs(600)));
        for bad in ["", "-1", "0", "nan", "inf", "1e300h", "3 weeks", "é"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
