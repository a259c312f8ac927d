//! Reading what subcommands take as tables: databases of sweeps, and files of every format.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use tgemm_db::Choice;
use tgemm_db::device::{Device, Environment, Vendor};
use tgemm_db::format::aiter::Family;
use tgemm_db::format::{self, AssumedDevice, ReadOptions, Rejected, SQLITE_MAGIC};
use tgemm_db::merge::{Merge, Row, SourceReport};
use tgemm_db::store::Store;

use crate::cli::input;

/// What files that are too old or too short to say it are to mean.
#[derive(Debug, Default, clap::Args)]
pub struct Assumptions {
    /// The device of rows that name none
    #[arg(long, value_name = "ARCH/UNITS", value_parser = assumed_device)]
    pub device: Option<AssumedDevice>,
    /// The family of AITER tables that neither their names nor their headers tell
    #[arg(long, value_name = "FAMILY", value_parser = |s: &str| s.parse::<Family>())]
    pub family: Option<Family>,
}

impl Assumptions {
    /// As readers take them.
    pub fn options(&self) -> ReadOptions {
        ReadOptions { device: self.device.clone(), family: self.family, ..ReadOptions::default() }
    }
}

/// Reads `gfx942/304`.
pub fn assumed_device(text: &str) -> Result<AssumedDevice, String> {
    let bad = || format!("'{text}' is no device; write arch/compute-units, such as gfx942/304");
    let (arch, units) = text.split_once('/').ok_or_else(bad)?;
    let compute_units = units.parse().map_err(|_| bad())?;
    if arch.is_empty() {
        return Err(bad());
    }
    Ok(AssumedDevice { arch: arch.into(), compute_units })
}

/// An environment of which nothing but the device is known.
pub fn environment(assumed: &AssumedDevice) -> Environment {
    let device = Device::named(Vendor::of_arch(&assumed.arch), assumed.arch.clone(), assumed.compute_units);
    Environment { device, builds: Vec::new(), driver: String::new(), vars: BTreeMap::new() }
}

/// Does the file start as SQLite's do? Errors are left to the reader that comes next, which words them.
pub fn is_sqlite(path: &Path) -> bool {
    let mut start = [0; SQLITE_MAGIC.len()];
    path.is_file()
        && File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok()
        && start == *SQLITE_MAGIC
}

/// All choices of a database, with how they were made.
pub fn stored_rows(path: &Path) -> anyhow::Result<Vec<Row>> {
    let store = Store::open_read_only(path)?;
    let stored = store.choices_with_environment()?;
    store.close()?;
    let row = |stored: tgemm_db::store::StoredChoice| Row {
        choice: stored.choice,
        environment: Some(stored.environment),
        constraints: Some(stored.constraints),
    };
    Ok(stored.into_iter().map(row).collect())
}

/// Brings a database or a file into a merge.
pub fn add(merge: &mut Merge, path: &Path, options: &ReadOptions) -> anyhow::Result<()> {
    if is_sqlite(path) {
        merge.add_rows(path.display().to_string(), stored_rows(path)?)?;
    } else {
        merge.add_file(path, options)?;
    }
    Ok(())
}

/// Every choice of a database or a file goes to `take`; rejected rows are named on standard error.
pub fn each_choice(path: &Path, options: &ReadOptions, mut take: impl FnMut(Choice)) -> anyhow::Result<()> {
    if is_sqlite(path) {
        let store = Store::open_read_only(path)?;
        store.each_choice(take)?;
        store.close()?;
        return Ok(());
    }
    let options = ReadOptions { keep_origin: true, ..options.clone() };
    let read = format::each_choice(path, &options, |_, choice| take(choice))?;
    input::report_rejected(path, &read.rejected);
    Ok(())
}

/// All choices of a database or a file; rejected rows are named on standard error.
pub fn choices(path: &Path, options: &ReadOptions) -> anyhow::Result<Vec<Choice>> {
    if is_sqlite(path) {
        let store = Store::open_read_only(path)?;
        let choices = store.choices()?;
        store.close()?;
        return Ok(choices);
    }
    let read = format::read_choices(path, &ReadOptions { keep_origin: true, ..options.clone() })?;
    input::report_rejected(path, &read.rejected);
    Ok(read.into_values().collect())
}

/// Names the rejected rows of a source, as far as its report does.
pub fn tell_rejected(path: &Path, report: &SourceReport) {
    input::report_rejected(path, &report.rejections);
    let unnamed = report.rejected - report.rejections.len() as u64;
    if unnamed > 0 {
        eprintln!("tune: warning: {}: {unnamed} more rows rejected", path.display());
    }
}

/// Rejected rows for JSON.
pub fn rejected_json(rejected: &[Rejected]) -> serde_json::Value {
    rejected.iter().map(|row| serde_json::json!({ "line": row.line, "reason": row.reason })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_read_or_say_how() {
        let device = assumed_device("gfx942/304").unwrap();
        assert_eq!((device.arch.as_str(), device.compute_units), ("gfx942", 304));
        for bad in ["gfx942", "gfx942/many", "/304", ""] {
            assert!(assumed_device(bad).unwrap_err().contains("gfx942/304"), "{bad}");
        }
    }
}
