//! The shim: the shared library that stands before the vendors' in a program that preloads it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The environment variable that names the shim.
pub const ENV_SHIM: &str = "TGEMM_SHIM";
/// The loader's list of libraries that come first, ld.so(8).
pub const ENV_PRELOAD: &str = "LD_PRELOAD";

const NAME: &str = "libtgemm_shim.so";
/// Where it is beside the folder of the running binary: a build folder, then installations.
const BESIDE: [&str; 3] = ["", "../lib/tgemm", "../lib"];

/// Why there is no shim to preload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShimError {
    /// The variable names something else.
    #[error("{ENV_SHIM} names {}, which is no file", .0.display())]
    NotAFile(PathBuf),
    /// It is nowhere.
    #[error(
        "{NAME} is not found (looked for {}): build it with cargo build --release -p tgemm-shim, or name it in {ENV_SHIM}",
        .0.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    )]
    Missing(Vec<PathBuf>),
    /// The loader takes colons and blanks for separators.
    #[error("{}: cannot be preloaded, because the path has a colon or a blank in it: copy it elsewhere and name that in {ENV_SHIM}", .0.display())]
    Separator(PathBuf),
}

/// The shim of this installation.
///
/// # Errors
/// There is none, or none that can be preloaded.
pub fn find() -> Result<PathBuf, ShimError> {
    let binary = env::current_exe().unwrap_or_default();
    find_beside(env::var_os(ENV_SHIM).filter(|path| !path.is_empty()), binary.parent().unwrap_or(Path::new("/")))
}

fn find_beside(named: Option<OsString>, folder: &Path) -> Result<PathBuf, ShimError> {
    let found = match named.map(PathBuf::from) {
        Some(path) if path.is_file() => path,
        Some(path) => return Err(ShimError::NotAFile(path)),
        None => {
            let tried: Vec<PathBuf> = BESIDE.iter().map(|below| folder.join(below).join(NAME)).collect();
            match tried.iter().find(|path| path.is_file()) {
                Some(path) => path.clone(),
                None => return Err(ShimError::Missing(tried)),
            }
        }
    };
    // The program may change its folder before it starts others; and a link may be replaced meanwhile.
    let found = found.canonicalize().unwrap_or(found);
    let separates = |byte: &u8| *byte == b':' || byte.is_ascii_whitespace();
    if found.as_os_str().as_bytes().iter().any(separates) { Err(ShimError::Separator(found)) } else { Ok(found) }
}

/// The loader's list with `shim` in front of what stands there.
pub fn preload(shim: &Path, present: Option<&OsStr>) -> OsString {
    let mut list = shim.as_os_str().to_owned();
    if let Some(rest) = present.filter(|rest| !rest.is_empty()) {
        list.push(":");
        list.push(rest);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_is_looked_at_and_the_variable_settles_it() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().canonicalize().unwrap();
        let bin = root.join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::create_dir_all(root.join("lib/tgemm")).unwrap();
        let missing = find_beside(None, &bin).unwrap_err();
        assert!(missing.to_string().contains("cargo build --release -p tgemm-shim"), "{missing}");
        for place in ["lib", "lib/tgemm", "bin"] {
            let file = root.join(place).join(NAME);
            std::fs::write(&file, "").unwrap();
            assert_eq!(find_beside(None, &bin).unwrap(), file, "later places are nearer");
        }
        let other = root.join("other.so");
        assert_eq!(find_beside(Some(other.clone().into()), &bin), Err(ShimError::NotAFile(other.clone())));
        std::fs::write(&other, "").unwrap();
        assert_eq!(find_beside(Some(other.clone().into()), &bin).unwrap(), other);
        let blank = root.join("a b.so");
        std::fs::write(&blank, "").unwrap();
        assert_eq!(find_beside(Some(blank.clone().into()), &bin), Err(ShimError::Separator(blank)));
    }

    #[test]
    fn what_is_preloaded_already_stays_behind_it() {
        let list = |present: Option<&str>| preload(Path::new("/s.so"), present.map(OsStr::new));
        assert_eq!(list(None), "/s.so");
        assert_eq!(list(Some("")), "/s.so");
        assert_eq!(list(Some("/a.so:/b.so")), "/s.so:/a.so:/b.so");
    }
}
