//! What was found of a dialect, and everything that was tried, for a person.

use std::path::PathBuf;

use super::blaslt::BlasLt;
use super::cublas::CuBlas;
use super::find::{Installation, Part};
use super::rocblas::RocBlas;
use super::rtc::Rtc;
use super::{Dialect, Runtime};
use crate::load::{Absent, Attempt};

/// One library of a dialect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryReport {
    /// Its name in this house: `hipblaslt`.
    pub library: &'static str,
    /// The file it was loaded from, if it was.
    pub file: Option<PathBuf>,
    /// Its version, with the revision where it has one.
    pub version: Option<String>,
    /// What was tried in vain. Empty where it was found: what was passed over on the way does not matter then.
    pub tried: Vec<Attempt>,
    /// Symbols that it lacks.
    pub missing: Vec<&'static str>,
}

impl LibraryReport {
    fn found(library: &'static str, file: PathBuf, version: String, missing: Vec<&'static str>) -> LibraryReport {
        LibraryReport { library, file: Some(file), version: Some(version), tried: Vec::new(), missing }
    }

    fn absent(library: &'static str, absent: Absent) -> LibraryReport {
        LibraryReport { library, file: None, version: None, tried: absent.tried, missing: Vec::new() }
    }
}

/// Everything about a dialect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doctor {
    /// Which.
    pub dialect: Dialect,
    /// How many devices; `None` without a runtime.
    pub devices: Option<u32>,
    /// The kernel driver's version of the interface; `None` without a runtime.
    pub driver: Option<String>,
    /// Each library, the runtime first.
    pub libraries: Vec<LibraryReport>,
}

/// Opens everything of `dialect` that can be opened, on its first device.
pub fn doctor(dialect: Dialect) -> Doctor {
    let mut installation = Installation::default();
    let name = Part::Runtime.name(dialect);
    let runtime = match Runtime::open(dialect, &mut installation) {
        Ok(runtime) => runtime,
        Err(absent) => {
            let libraries = vec![LibraryReport::absent(name, absent)];
            return Doctor { dialect, devices: None, driver: None, libraries };
        }
    };
    let missing = runtime.table().missing();
    let mut libraries = vec![LibraryReport::found(name, runtime.file().to_owned(), runtime.version(), missing)];
    let devices = runtime.device_count().unwrap_or(0);
    // Without a current device the libraries below refuse with a reason of their own.
    let _ = runtime.make_current(0);
    libraries.extend([
        blaslt(dialect, &mut installation),
        blas(dialect, &mut installation),
        rtc(dialect, &mut installation),
    ]);
    Doctor { dialect, devices: Some(devices), driver: Some(runtime.driver_version()), libraries }
}

fn blaslt(dialect: Dialect, installation: &mut Installation) -> LibraryReport {
    let name = Part::BlasLt.name(dialect);
    match BlasLt::open(dialect, installation) {
        Ok(library) => {
            let version = format!("{} {}", library.version(), library.revision()).trim().to_owned();
            LibraryReport::found(name, library.file().to_owned(), version, library.missing())
        }
        Err(absent) => LibraryReport::absent(name, absent),
    }
}

fn blas(dialect: Dialect, installation: &mut Installation) -> LibraryReport {
    let name = Part::Blas.name(dialect);
    let found = match dialect {
        Dialect::Hip => RocBlas::open(installation)
            .map(|library| (library.file().to_owned(), library.version().to_owned(), library.missing())),
        Dialect::Cuda => {
            CuBlas::open(installation).map(|library| (library.file().to_owned(), library.version(), library.missing()))
        }
    };
    match found {
        Ok((file, version, missing)) => LibraryReport::found(name, file, version, missing),
        Err(absent) => LibraryReport::absent(name, absent),
    }
}

fn rtc(dialect: Dialect, installation: &mut Installation) -> LibraryReport {
    let name = Part::Rtc.name(dialect);
    match Rtc::open(dialect, installation) {
        Ok(library) => LibraryReport::found(name, library.file().to_owned(), library.version(), library.missing()),
        Err(absent) => LibraryReport::absent(name, absent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dialect_says_what_it_tried_or_what_it_found() {
        for dialect in Dialect::ALL {
            let report = doctor(dialect);
            let runtime = &report.libraries[0];
            assert_eq!(runtime.library, dialect.name());
            assert_eq!(runtime.file.is_some(), report.devices.is_some());
            assert!(runtime.file.is_some() || !runtime.tried.is_empty());
        }
    }
}
