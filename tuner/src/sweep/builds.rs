//! The libraries that a recording names: a sweep is to open those very files, since a choice holds for one build alone.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use tgemm_db::{Environment, Recorded};
use tgemm_vendor::gpu::Dialect;
use tgemm_vendor::gpu::find::Part;

use super::session::{Halt, Session};
use super::{Settings, device};
use crate::worker::Interrupt;

/// The libraries whose builds are compared, by what their files' names start with. hipBLAS hands everything on to the other
/// two, and CPU libraries are not chosen by file.
const LIBRARIES: [(&str, Dialect, Part); 4] = [
    ("libcublasLt.so", Dialect::Cuda, Part::BlasLt),
    ("libcublas.so", Dialect::Cuda, Part::Blas),
    ("libhipblaslt.so", Dialect::Hip, Part::BlasLt),
    ("librocblas.so", Dialect::Hip, Part::Blas),
];

/// HIP's runtime comes with its libraries: one of another installation would be a second runtime in the process.
const HIP_RUNTIME: &str = "libamdhip64.so";
/// Most entries of a folder that are looked at for it.
const ENTRIES_MAX: usize = 4096;

/// A library file of a worker: the variable that names it, and the file.
pub type FileVar = (&'static str, PathBuf);

/// One library as one recording names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    dialect: Dialect,
    part: Part,
    /// The file; never empty.
    file: PathBuf,
    /// Its version; empty if not said.
    version: String,
    calls: u64,
}

impl Named {
    fn name(&self) -> &'static str {
        self.part.name(self.dialect)
    }

    fn var(&self) -> &'static str {
        self.part.file_var(self.dialect)
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({})", self.name(), self.version, self.file.display())
    }
}

/// Why a recording cannot be tuned for with what is opened here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Another build is opened.
    #[error(
        "recorded with {0}, but {1} opens {2} {3}: set {4} to the recorded file, or tune for what is opened with --any-build",
        .recorded, .device, .recorded.name(), .opened, .recorded.var()
    )]
    Differs {
        /// The library.
        recorded: Box<Named>,
        /// The device.
        device: String,
        /// The version that it opens.
        opened: String,
    },
    /// Several were recorded: one sweep opens one.
    #[error(
        "recorded with {one} and with {other}: sweep these recordings one by one, or tune for what is opened with --any-build"
    )]
    Several {
        /// One.
        one: Box<Named>,
        /// And another of the same name.
        other: Box<Named>,
    },
    /// The device cannot be opened.
    #[error("{0}")]
    Device(String),
}

/// The GPU libraries that `rows` name, those with the most calls first.
pub fn named(rows: &[Recorded]) -> Vec<Named> {
    let mut found: BTreeMap<(&str, &str), Named> = BTreeMap::new();
    for row in rows {
        let file = Path::new(&row.library_file);
        let name = file.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let Some((_, dialect, part)) = LIBRARIES.into_iter().find(|(start, ..)| name.starts_with(start)) else {
            continue;
        };
        let version = row.library_build.clone();
        let new = Named { dialect, part, file: file.into(), version, calls: 0 };
        let named = found.entry((&row.library_file, &row.library_build)).or_insert(new);
        named.calls = named.calls.saturating_add(row.count.max(1));
    }
    let mut found: Vec<Named> = found.into_values().collect();
    found.sort_by_key(|named| std::cmp::Reverse(named.calls));
    found
}

/// What workers are to open: the recorded files that are on this machine, by the variable that names each. Nothing for a
/// dialect of which `is_set` says that the user names a file already: one installation is not mixed with another.
pub fn files(named: &[Named], is_set: impl Fn(&str) -> bool) -> Vec<FileVar> {
    let mut files: Vec<FileVar> = Vec::new();
    let users = |dialect: Dialect| Part::ALL.iter().any(|part| is_set(part.file_var(dialect)));
    for library in named.iter().filter(|library| !users(library.dialect) && library.file.is_file()) {
        let mut add = |var: &'static str, file: PathBuf| {
            if files.iter().all(|(have, _)| *have != var) {
                files.push((var, file));
            }
        };
        add(library.var(), library.file.clone());
        if library.dialect == Dialect::Hip
            && let Some(runtime) = library.file.parent().and_then(hip_runtime)
        {
            add(Part::Runtime.file_var(Dialect::Hip), runtime);
        }
    }
    files
}

/// HIP's runtime in `folder`, by its shortest versioned name (the soname), else without version.
fn hip_runtime(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.take(ENTRIES_MAX).flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let runtimes = names.filter(|name| name.starts_with(HIP_RUNTIME));
    let best = runtimes.min_by_key(|name| (name.as_str() == HIP_RUNTIME, name.len(), name.clone()))?;
    Some(folder.join(best))
}

/// Opens each device of `settings` as the sweep will, and compares its builds with what was recorded.
///
/// # Errors
/// A build differs, several were recorded, or a device cannot be opened.
pub fn check(named: &[Named], settings: &Settings, interrupt: &Interrupt) -> Result<(), BuildError> {
    let devices = device::names(&settings.device).map_err(|e| BuildError::Device(e.to_string()))?;
    for name in devices {
        let of_this = |library: &&Named| name.starts_with(library.dialect.name());
        let named: Vec<&Named> = named.iter().filter(of_this).collect();
        if named.is_empty() {
            continue;
        }
        several(&named)?;
        let mut session = Session::new(&name, settings.bench.clone(), settings.sample_us, interrupt.clone());
        session.set_library_files(settings.library_files.clone());
        match session.open() {
            Ok((environment, _)) => compare(&named, &name, &environment)?,
            // The sweep itself sees to that.
            Err(Halt::Interrupted) => return Ok(()),
            Err(halt) => return Err(BuildError::Device(halt.to_string())),
        }
    }
    Ok(())
}

/// Is there one version of each library?
fn several(named: &[&Named]) -> Result<(), BuildError> {
    let known: Vec<&&Named> = named.iter().filter(|library| !library.version.is_empty()).collect();
    for (at, one) in known.iter().enumerate() {
        let differs = |other: &&&&Named| other.name() == one.name() && other.version != one.version;
        if let Some(other) = known[at..].iter().find(differs) {
            let boxed = |library: &Named| Box::new(library.clone());
            return Err(BuildError::Several { one: boxed(one), other: boxed(other) });
        }
    }
    Ok(())
}

/// A library that is not opened at all is not compared: the sweep says which those are, and chooses nothing of theirs.
fn compare(named: &[&Named], device: &str, here: &Environment) -> Result<(), BuildError> {
    for library in named {
        let Some(build) = here.build(library.name()) else { continue };
        if library.version.is_empty() || library.version == build.version {
            continue;
        }
        let (device, opened) = (device.to_owned(), build.version.clone());
        return Err(BuildError::Differs { recorded: Box::new((*library).clone()), device, opened });
    }
    Ok(())
}

/// Recorded files that are not here and whose version is not said: nothing can be compared. One line each.
pub fn doubts(named: &[Named]) -> Vec<String> {
    let unknown = named.iter().filter(|library| library.version.is_empty() && !library.file.is_file());
    unknown
        .map(|library| {
            let file = library.file.display();
            format!(
                "recorded with {file}, which is not here; its build is not recorded: tuning for the {} here",
                library.name()
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tgemm_db::device::{Build, Device, Vendor};
    use tgemm_db::{DType, Site};

    fn row(file: &str, build: &str, count: u64) -> Recorded {
        let bare = Recorded::bare(Site::linear(64, 128, DType::Bf16).at(3).into());
        Recorded { count, library_file: file.into(), library_build: build.into(), ..bare }
    }

    fn here(library: &str, version: &str) -> Environment {
        let build = Build { version: version.into(), ..Build::unknown(library) };
        let device = Device::named(Vendor::Nvidia, "sm_90", 132);
        Environment { device, builds: vec![build], driver: String::new(), vars: BTreeMap::new() }
    }

    fn libraries(rows: &[Recorded]) -> Vec<Named> {
        named(rows)
    }

    #[test]
    fn gpu_libraries_are_told_by_their_files() {
        let rows = [
            row("/a/libcublas.so.13", "13.1.0", 1),
            row("/a/libcublasLt.so.13", "13.1.0", 2),
            row("/a/libcublasLt.so.13", "13.1.0", 3),
            row("/a/libopenblas.so.0", "0.3", 9),
            row("/a/libhipblas.so.3", "3.0", 9),
            row("", "13", 9),
        ];
        let found: Vec<_> =
            libraries(&rows).iter().map(|library| (library.name(), library.var(), library.calls)).collect();
        assert_eq!(found, [("cublaslt", "TGEMM_CUBLASLT", 5), ("cublas", "TGEMM_CUBLAS", 1)]);
    }

    #[test]
    fn a_build_that_differs_is_refused_with_both_and_the_remedy() {
        let compared = |version: &str, library: &str, opened: &str| {
            let found = libraries(&[row("/a/libcublasLt.so.13", version, 1)]);
            compare(&found.iter().collect::<Vec<_>>(), "cuda:0", &here(library, opened))
        };
        assert_eq!(compared("13.1.0", "cublaslt", "13.1.0"), Ok(()));
        assert_eq!(compared("", "cublaslt", "13.1.0"), Ok(()));
        assert_eq!(compared("13.1.0", "cublas", "12.8.4"), Ok(()), "not opened, not compared");
        let said = compared("13.1.0", "cublaslt", "12.8.4").unwrap_err().to_string();
        let parts =
            ["cublaslt 13.1.0", "/a/libcublasLt.so.13", "cuda:0", "12.8.4", "set TGEMM_CUBLASLT", "--any-build"];
        assert!(parts.iter().all(|part| said.contains(part)) && !said.contains('\n'), "{said}");
    }

    #[test]
    fn two_recorded_builds_of_one_library_are_refused() {
        let found = libraries(&[
            row("/a/libcublasLt.so.13", "13.1.0", 1),
            row("/b/libcublasLt.so.12", "12.8.4", 2),
            row("/a/libcublas.so.13", "13.1.9", 1),
        ]);
        let said = several(&found.iter().collect::<Vec<_>>()).unwrap_err().to_string();
        assert!(said.contains("12.8.4 (/b/libcublasLt.so.12) and with cublaslt 13.1.0 (/a/"), "{said}");
        assert_eq!(several(&[&found[0], &found[1]]), Ok(()), "another library may have another version");
    }

    #[test]
    fn recorded_files_that_are_here_are_opened_unless_the_user_names_some() {
        let scratch = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = scratch.path().join(name);
            std::fs::write(&path, "").unwrap();
            path
        };
        let lt = file("libhipblaslt.so.1");
        let runtime = file("libamdhip64.so.7");
        file("libamdhip64.so.7.2.26015");
        file("libamdhip64.so");
        let gone = scratch.path().join("gone/libcublasLt.so.13");
        let found = libraries(&[row(lt.to_str().unwrap(), "1.2.1", 1), row(gone.to_str().unwrap(), "", 1)]);
        assert_eq!(files(&found, |_| false), [("TGEMM_HIPBLASLT", lt), ("TGEMM_HIP", runtime)]);
        assert_eq!(files(&found, |var| var == "TGEMM_ROCBLAS"), []);
        assert!(matches!(&doubts(&found)[..], [one] if one.contains("gone/libcublasLt.so.13")));
    }
}
