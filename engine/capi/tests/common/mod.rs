//! C clients: compiled as an engine would be, and linked in each way that there is.
#![allow(dead_code, reason = "each test uses a part of it")]

#[path = "../../../../tests/cdylib.rs"]
mod cdylib;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

pub const FOLDER: &str = env!("CARGO_MANIFEST_DIR");

/// The folder that cargo built both libraries into.
pub fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| cdylib::folder_of("tgemm-capi"))
}

pub fn good(output: Output, what: &str) -> String {
    let (said, complaint) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{what}: {}\n{said}\n{complaint}", output.status);
    said.into_owned()
}

/// Is there such a program? If not, says what is left out.
pub fn has(program: &str, without: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let found = found.is_ok_and(|status| status.success());
    if !found {
        eprintln!("skipped: no {program} is here{without}");
    }
    found
}

/// How a client is made.
#[derive(Clone, Copy, Debug)]
pub enum Made {
    Dynamic,
    Static,
    Cpp,
}

/// Compiles the client of `source` into `folder`.
pub fn compiled(folder: &Path, source: &str, made: Made) -> PathBuf {
    let client = folder.join("client");
    let (compiler, language): (&str, &[&str]) = match made {
        Made::Cpp => ("c++", &["-std=c++11", "-x", "c++"]),
        _ => ("cc", &["-std=c99"]),
    };
    let mut command = Command::new(compiler);
    command.args(language).args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-g", "-pthread"]);
    command.arg("-I").arg(format!("{FOLDER}/include")).arg(format!("{FOLDER}/tests/{source}"));
    command.args(["-x", "none", "-o"]).arg(&client);
    match made {
        Made::Static => {
            // What Rust's standard library needs on Linux: `cargo rustc -- --print native-static-libs`.
            command.arg(built().join("libtgemm.a")).args(["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"]);
        }
        _ => {
            command.arg("-L").arg(built()).arg("-ltgemm").arg(format!("-Wl,-rpath,{}", built().display()));
        }
    }
    good(command.output().unwrap(), &format!("{command:?}"));
    client
}
