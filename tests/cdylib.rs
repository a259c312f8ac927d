//! Libraries of the workspace for tests that link or preload them. Cargo builds no cdylib for the tests of its own crate, so
//! it is asked to. Included by path: it is no crate, so that nobody depends on it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Builds the libraries of `package` as this test is built; the folder that they are in.
pub fn folder_of(package: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    // target/debug/deps/this-0123: the folder of a profile is named after it, but for one.
    let folder = test.parent().and_then(Path::parent).expect("a build folder");
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        Some(name) => name,
        None => panic!("{}: no build folder", folder.display()),
    };
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--locked", "-p", package, "--lib", "--profile", profile, "--target-dir"]);
    cargo.arg(folder.parent().unwrap()).current_dir(env!("CARGO_MANIFEST_DIR")).stdin(Stdio::null());
    let output = cargo.output().expect("cargo starts");
    assert!(output.status.success(), "cargo build: {}", String::from_utf8_lossy(&output.stderr));
    folder.to_owned()
}
