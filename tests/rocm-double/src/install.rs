//! Puts the double where a loader finds it by ROCm's names.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The environment variable that names the built double, for tests that run elsewhere.
pub const LIBRARY_VAR: &str = "TGEMM_DOUBLE_LIBRARY";

/// The environment variable that names the script.
pub const SCRIPT_VAR: &str = "TGEMM_DOUBLE";

/// The sonames of a generation of ROCm, the runtime first.
pub fn sonames(generation: u32) -> Option<[&'static str; 5]> {
    Some(match generation {
        7 => ["libamdhip64.so.7", "libhipblaslt.so.1", "librocblas.so.5", "libhiprtc.so.7", "libhipblas.so.3"],
        6 => ["libamdhip64.so.6", "libhipblaslt.so.0", "librocblas.so.4", "libhiprtc.so.6", "libhipblas.so.2"],
        5 => ["libamdhip64.so.5", "libhipblaslt.so.0", "librocblas.so.3", "libhiprtc.so.5", "libhipblas.so.1"],
        _ => return None,
    })
}

/// Copies `cdylib` to `dir` under the runtime's soname of `generation` and links the other sonames to it; all paths, the
/// runtime first.
///
/// The loader tells files by inode, so the five names are one copy in a process, with one state: a stream of "libamdhip64"
/// is known to "libhipblaslt". The name of the copy also tells the double which generation it plays.
pub fn install(dir: &Path, cdylib: &Path, generation: u32) -> io::Result<Vec<PathBuf>> {
    let Some(names) = sonames(generation) else {
        let reason = format!("generation {generation} of ROCm: 5, 6 or 7 can be played");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    };
    fs::create_dir_all(dir)?;
    let paths: Vec<PathBuf> = names.iter().map(|name| dir.join(name)).collect();
    for path in &paths {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::copy(cdylib, &paths[0])?;
    for path in &paths[1..] {
        symlink(names[0], path)?;
    }
    Ok(paths)
}

/// The built double: the file that [`LIBRARY_VAR`] names, else the one that cargo put beside this program.
///
/// Cargo builds it with every test or example of a crate that has this crate among its (dev-)dependencies.
pub fn built() -> io::Result<PathBuf> {
    if let Some(file) = env::var_os(LIBRARY_VAR).filter(|file| !file.is_empty()) {
        return Ok(file.into());
    }
    let program = env::current_exe()?;
    let near = program.ancestors().skip(1).take(2).flat_map(|folder| [folder.to_owned(), folder.join("deps")]);
    let found = near.map(|folder| folder.join("libtgemm_rocm_double.so")).find(|file| file.is_file());
    found.ok_or_else(|| {
        let reason =
            format!("no libtgemm_rocm_double.so beside {}: cargo build -p tgemm-rocm-double", program.display());
        io::Error::new(io::ErrorKind::NotFound, reason)
    })
}
