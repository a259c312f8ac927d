//! The built shim. Cargo builds no cdylib for the tests of its crate, so it is asked to.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The environment variable that names another one.
const NAMED: &str = "TGEMM_SHIM";

/// The shim as it is in the sources, built like this test is.
pub fn shim() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| std::env::var_os(NAMED).filter(|file| !file.is_empty()).map_or_else(build, PathBuf::from))
}

fn build() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    // target/debug/deps/this-0123: the folder of a profile is named after it, but for one.
    let folder = test.parent().and_then(Path::parent).expect("a build folder");
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        Some(name) => name,
        None => panic!("{}: no build folder", folder.display()),
    };
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--locked", "-p", "tgemm-shim", "--lib", "--profile", profile, "--target-dir"]);
    cargo.arg(folder.parent().unwrap()).current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).stdin(Stdio::null());
    let output = cargo.output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let file = folder.join("libtgemm_shim.so");
    assert!(file.is_file(), "{} was not built", file.display());
    file
}
