//! Where each library is looked for.
//!
//! Order: the file that the user names, and nothing else then; a copy that is in the process already, so that two runtimes
//! never meet; the runtime's own folder, so that one installation is used throughout; what the loader finds; the usual
//! folders; Python's packages, which hold the versioned names only. The newest generation comes first. Once the runtime is
//! known, its generation settles the names of the others: HIP 7 with ROCm 6's rocBLAS is never tried.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::Dialect;
use crate::load::Candidate;

/// One of the libraries of a dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// libamdhip64, or the CUDA driver.
    Runtime,
    /// hipBLASLt, cuBLASLt.
    BlasLt,
    /// rocBLAS, cuBLAS.
    Blas,
    /// hipRTC, NVRTC.
    Rtc,
}

impl Part {
    /// All, the runtime first: the others bind to the copy of it that is in the process.
    pub const ALL: [Part; 4] = [Part::Runtime, Part::BlasLt, Part::Blas, Part::Rtc];

    /// The library's name in this house.
    pub fn name(self, dialect: Dialect) -> &'static str {
        match self {
            Part::Runtime => dialect.pick("hip", "cuda"),
            Part::BlasLt => dialect.pick("hipblaslt", "cublaslt"),
            Part::Blas => dialect.pick("rocblas", "cublas"),
            Part::Rtc => dialect.pick("hiprtc", "nvrtc"),
        }
    }

    /// The environment variable that names the very file to open.
    pub fn file_var(self, dialect: Dialect) -> &'static str {
        match self {
            Part::Runtime => dialect.pick("TGEMM_HIP", "TGEMM_CUDA"),
            Part::BlasLt => dialect.pick("TGEMM_HIPBLASLT", "TGEMM_CUBLASLT"),
            Part::Blas => dialect.pick("TGEMM_ROCBLAS", "TGEMM_CUBLAS"),
            Part::Rtc => dialect.pick("TGEMM_HIPRTC", "TGEMM_NVRTC"),
        }
    }

    /// Its sonames by generation, newest first: (generation, soname). Those of a generation belong together.
    fn sonames(self, dialect: Dialect) -> &'static [(u32, &'static str)] {
        match (dialect, self) {
            // The last is there to be refused by name.
            (Dialect::Hip, Part::Runtime) => {
                &[(7, "libamdhip64.so.7"), (6, "libamdhip64.so.6"), (5, "libamdhip64.so.5")]
            }
            (Dialect::Hip, Part::BlasLt) => &[(7, "libhipblaslt.so.1"), (6, "libhipblaslt.so.0")],
            (Dialect::Hip, Part::Blas) => &[(7, "librocblas.so.5"), (6, "librocblas.so.4")],
            (Dialect::Hip, Part::Rtc) => &[(7, "libhiprtc.so.7"), (6, "libhiprtc.so.6")],
            // The driver's interface has one name for all versions.
            (Dialect::Cuda, Part::Runtime) => &[(0, "libcuda.so.1")],
            (Dialect::Cuda, Part::BlasLt) => &[(13, "libcublasLt.so.13"), (12, "libcublasLt.so.12")],
            (Dialect::Cuda, Part::Blas) => &[(13, "libcublas.so.13"), (12, "libcublas.so.12")],
            (Dialect::Cuda, Part::Rtc) => &[(13, "libnvrtc.so.13"), (12, "libnvrtc.so.12")],
        }
    }
}

/// What is settled by the libraries that are open already.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Installation {
    /// Only libraries of this generation; `None`: any.
    pub generation: Option<u32>,
    /// Folders of the libraries already open: looked into first.
    pub folders: Vec<PathBuf>,
}

impl Installation {
    /// Notes that a library was opened from `file`.
    pub fn opened(&mut self, part: Part, dialect: Dialect, file: &Path) {
        if let Some(folder) = file.parent()
            && !self.folders.iter().any(|have| have == folder)
        {
            self.folders.push(folder.to_owned());
        }
        if self.generation.is_none()
            && let Some(name) = file.file_name().and_then(|name| name.to_str())
        {
            let known = part.sonames(dialect).iter().filter(|(generation, _)| *generation != 0);
            self.generation = known.clone().find(|(_, soname)| name.starts_with(soname)).map(|found| found.0);
        }
    }

    /// Everything to try for `part`, in order.
    pub fn candidates(&self, dialect: Dialect, part: Part) -> Vec<Candidate> {
        match std::env::var_os(part.file_var(dialect)).filter(|file| !file.is_empty()) {
            Some(file) => vec![Candidate::File(file.into())],
            None => self.search(dialect, part, &usual_folders(dialect)),
        }
    }

    fn search(&self, dialect: Dialect, part: Part, usual: &[PathBuf]) -> Vec<Candidate> {
        let allowed = |generation: u32| self.generation.is_none_or(|own| generation == 0 || own == generation);
        let sonames: Vec<&str> =
            part.sonames(dialect).iter().filter(|(generation, _)| allowed(*generation)).map(|found| found.1).collect();
        let files = |folders: &[PathBuf]| -> Vec<Candidate> {
            let each = |soname: &&str| folders.iter().map(|folder| folder.join(soname)).collect::<Vec<_>>();
            sonames.iter().flat_map(each).filter(|file| file.exists()).map(Candidate::File).collect()
        };
        let mut candidates: Vec<Candidate> = sonames.iter().map(|name| Candidate::Resident((*name).into())).collect();
        candidates.extend(files(&self.folders));
        candidates.extend(sonames.iter().map(|name| Candidate::Soname((*name).into())));
        candidates.extend(files(usual));
        let mut seen = Vec::new();
        candidates.retain(|candidate| {
            let new = !seen.contains(candidate);
            seen.push(candidate.clone());
            new
        });
        candidates
    }
}

/// Most entries of a folder that are looked at when versions are searched.
const ENTRIES_MAX: usize = 4096;

/// The folders where installers put the libraries of `dialect`.
fn usual_folders(dialect: Dialect) -> Vec<PathBuf> {
    let from_var = |name: &str, under: &str| std::env::var_os(name).map(|root| Path::new(&root).join(under));
    let mut folders = Vec::new();
    match dialect {
        Dialect::Hip => {
            folders.extend(from_var("ROCM_PATH", "lib"));
            folders.push("/opt/rocm/lib".into());
            folders.extend(versions(Path::new("/opt"), &["rocm-"]).into_iter().map(|root| root.join("lib")));
            folders.extend(versions(Path::new("/opt/rocm"), &["core-"]).into_iter().map(|root| root.join("lib")));
        }
        Dialect::Cuda => {
            folders.extend(["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(|var| from_var(var, "lib64")));
            folders.push("/usr/local/cuda/lib64".into());
            folders.extend(versions(Path::new("/usr/local"), &["cuda-"]).into_iter().map(|root| root.join("lib64")));
        }
    }
    for site in site_packages() {
        match dialect {
            Dialect::Hip => {
                folders.extend(versions(&site, &["_rocm_sdk_"]).into_iter().map(|root| root.join("lib")));
            }
            Dialect::Cuda => {
                let nvidia = site.join("nvidia");
                folders.extend(["cu13", "cublas", "cuda_nvrtc"].map(|part| nvidia.join(part).join("lib")));
            }
        }
        folders.push(site.join("torch/lib"));
    }
    folders
}

/// The folders in `root` whose names start with one of `prefixes`, highest version first.
fn versions(root: &Path, prefixes: &[&str]) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(root) else { return Vec::new() };
    let names: BTreeSet<OsString> = entries.take(ENTRIES_MAX).flatten().map(|entry| entry.file_name()).collect();
    let wanted =
        |name: &&OsString| name.to_str().is_some_and(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)));
    let mut found: Vec<&OsString> = names.iter().filter(wanted).collect();
    found.sort_by_key(|name| std::cmp::Reverse(numbers(&name.to_string_lossy())));
    found.into_iter().map(|name| root.join(name)).collect()
}

/// The numbers in a name: `rocm-6.10.1` is [6, 10, 1], later than `rocm-6.9`.
fn numbers(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

/// Where Python's packages lie: the active environment's, those of every `python3` on the path, the system's.
fn site_packages() -> Vec<PathBuf> {
    let mut prefixes: Vec<PathBuf> = std::env::var_os("VIRTUAL_ENV").map(PathBuf::from).into_iter().collect();
    let path = std::env::var_os("PATH").unwrap_or_default();
    for folder in std::env::split_paths(&path).filter(|folder| folder.join("python3").exists()) {
        prefixes.extend(folder.parent().map(Path::to_owned));
    }
    prefixes.extend(["/usr/local".into(), "/usr".into()]);
    let mut sites = Vec::new();
    for prefix in prefixes {
        for python in versions(&prefix.join("lib"), &["python3"]) {
            for name in ["site-packages", "dist-packages"] {
                let site = python.join(name);
                if site.is_dir() && !sites.contains(&site) {
                    sites.push(site);
                }
            }
        }
    }
    sites
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(candidates: &[Candidate]) -> Vec<String> {
        candidates.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_resident_copy_comes_first_and_the_newest_generation_before_older_ones() {
        let found = Installation::default().search(Dialect::Hip, Part::BlasLt, &[]);
        let want = ["libhipblaslt.so.1 in this process", "libhipblaslt.so.0 in this process"];
        assert_eq!(names(&found)[..2], want);
        assert_eq!(names(&found)[2..], ["libhipblaslt.so.1", "libhipblaslt.so.0"]);
    }

    #[test]
    fn the_runtime_settles_generation_and_folder() {
        let folder = tempfile_folder("find");
        for name in ["libamdhip64.so.6.2.41134", "libhipblaslt.so.0", "libhipblaslt.so.1"] {
            std::fs::write(folder.join(name), b"").unwrap();
        }
        let mut installation = Installation::default();
        installation.opened(Part::Runtime, Dialect::Hip, &folder.join("libamdhip64.so.6.2.41134"));
        assert_eq!(installation.generation, Some(6));
        let found = names(&installation.search(Dialect::Hip, Part::BlasLt, &[]));
        let own = folder.join("libhipblaslt.so.0").display().to_string();
        assert_eq!(found, ["libhipblaslt.so.0 in this process", &own, "libhipblaslt.so.0"]);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn later_versions_come_before_earlier_ones_by_number() {
        let folder = tempfile_folder("versions");
        for name in ["rocm-6.9.0", "rocm-6.10.1", "rocm-7.0.0", "other-9"] {
            std::fs::create_dir(folder.join(name)).unwrap();
        }
        let found = versions(&folder, &["rocm-"]);
        let found: Vec<_> = found.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(found, ["rocm-7.0.0", "rocm-6.10.1", "rocm-6.9.0"]);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    fn tempfile_folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("tgemm-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }
}
