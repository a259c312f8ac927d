//! Whether to record, and where to.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The folder that is written to where `TGEMM_UNTUNED` is not set, below the working directory.
pub const FOLDER_DEFAULT: &str = "tgemm-untuned";

/// Where recorded problems go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Nowhere: only [`crate::Recorder::recorded`] shows them.
    Memory,
    /// A folder, made if absent, with a file `host-pid-start.csv` for each process.
    Folder(PathBuf),
    /// One file, made if absent, appended to by any number of processes.
    File(PathBuf),
}

impl Target {
    /// A path that ends in `.csv` is a file, any other a folder. Relative paths are taken from the working directory
    /// as it is now: an engine may change it later.
    pub fn from_path(path: &Path) -> Target {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        match path.extension() {
            Some(extension) if extension.eq_ignore_ascii_case("csv") => Target::File(absolute),
            _ => Target::Folder(absolute),
        }
    }
}

/// How to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecorderOptions {
    /// Where to.
    pub target: Target,
}

impl RecorderOptions {
    /// Records in memory only.
    pub fn in_memory() -> RecorderOptions {
        RecorderOptions { target: Target::Memory }
    }

    /// Records into `path`: a `.csv` file or a folder.
    pub fn to(path: impl AsRef<Path>) -> RecorderOptions {
        RecorderOptions { target: Target::from_path(path.as_ref()) }
    }

    /// What the process's environment says; `None` if recording is off.
    pub fn from_env() -> Option<RecorderOptions> {
        RecorderOptions::from_vars(|name| std::env::var_os(name))
    }

    /// As [`RecorderOptions::from_env`], with the variables given.
    fn from_vars(var: impl Fn(&str) -> Option<OsString>) -> Option<RecorderOptions> {
        let on = |name: &str| {
            var(name).is_some_and(|value| !matches!(value.to_str(), Some("" | "0" | "false" | "off" | "no")))
        };
        if !on("TGEMM_TUNE") && !on("AITER_TUNE_GEMM") {
            return None;
        }
        let path = var("TGEMM_UNTUNED").filter(|path| !path.is_empty()).unwrap_or_else(|| FOLDER_DEFAULT.into());
        Some(RecorderOptions::to(PathBuf::from(path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(vars: &[(&str, &str)]) -> Option<RecorderOptions> {
        let find = |name: &str| vars.iter().find(|var| var.0 == name).map(|var| OsString::from(var.1));
        RecorderOptions::from_vars(find)
    }

    #[test]
    fn either_switch_turns_it_on_and_zero_is_off() {
        assert_eq!(with(&[]), None);
        assert_eq!(with(&[("TGEMM_TUNE", "0"), ("TGEMM_UNTUNED", "/x")]), None);
        assert_eq!(with(&[("TGEMM_TUNE", "")]), None);
        assert!(with(&[("TGEMM_TUNE", "1")]).is_some());
        assert!(with(&[("AITER_TUNE_GEMM", "1")]).is_some());
    }

    #[test]
    fn the_suffix_tells_a_file_from_a_folder_and_both_become_absolute() {
        let target = |path| with(&[("TGEMM_TUNE", "1"), ("TGEMM_UNTUNED", path)]).unwrap().target;
        assert_eq!(target("/a/shapes.csv"), Target::File("/a/shapes.csv".into()));
        assert_eq!(target("/a/shapes.CSV"), Target::File("/a/shapes.CSV".into()));
        assert_eq!(target("/a/shapes"), Target::Folder("/a/shapes".into()));
        let here = std::env::current_dir().unwrap();
        assert_eq!(target("sub/x.csv"), Target::File(here.join("sub/x.csv")));
        assert_eq!(with(&[("TGEMM_TUNE", "1")]).unwrap().target, Target::Folder(here.join(FOLDER_DEFAULT)));
    }
}
