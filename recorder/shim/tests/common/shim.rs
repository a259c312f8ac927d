//! The built shim.

#[path = "../../../../tests/cdylib.rs"]
mod cdylib;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The environment variable that names another one.
const NAMED: &str = "TGEMM_SHIM";

/// The shim as it is in the sources, built like this test is.
pub fn shim() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| std::env::var_os(NAMED).filter(|file| !file.is_empty()).map_or_else(build, PathBuf::from))
}

fn build() -> PathBuf {
    let file = cdylib::folder_of("tgemm-shim").join("libtgemm_shim.so");
    assert!(file.is_file(), "{} was not built", file.display());
    file
}
