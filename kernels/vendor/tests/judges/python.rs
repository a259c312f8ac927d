//! A Python with AMD's own bindings, which come from PyPI and import without ROCm.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The release that the judges were written with.
const BINDINGS: [&str; 2] = ["rocm-bindings-hip==10.0.0.0.1.2", "rocm-bindings-libraries==10.0.0.0.1.2"];

/// Runs to the end; what it printed, or how it failed.
pub fn run(command: &mut Command) -> Result<String, String> {
    let shown = format!("{command:?}");
    let output = command.output().map_err(|error| format!("{shown}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(format!("{shown}: {}\n{}\n{}", output.status, text(&output.stdout), text(&output.stderr)))
    }
}

/// An environment below `folder` that has the bindings, made when it is first asked for.
fn with_bindings(folder: &Path) -> Result<PathBuf, String> {
    let (environment, python) = (folder.join("rocm-bindings"), folder.join("rocm-bindings/bin/python"));
    let io = |error: std::io::Error| format!("{}: {error}", folder.display());
    // Tests of several crates may ask at the same time.
    let lock = File::create(folder.join("rocm-bindings.lock")).map_err(io)?;
    lock.lock().map_err(io)?;
    let import = || run(Command::new(&python).args(["-c", "import rocm.bindings.hip, rocm.bindings.hipblaslt"]));
    if import().is_err() {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1"];
        run(Command::new(&python).args(install).args(BINDINGS))?;
        import()?;
    }
    Ok(python)
}

/// As said above. Without Python or PyPI, `None` and a word to whoever reads the log; with `TGEMM_JUDGES=required`, a panic.
pub fn python(folder: &Path) -> Option<PathBuf> {
    match with_bindings(folder) {
        Ok(python) => Some(python),
        Err(reason) if std::env::var_os("TGEMM_JUDGES").is_some_and(|wish| wish == "required") => panic!("{reason}"),
        Err(reason) => {
            eprintln!("skipped: AMD's Python bindings are not to be had here: {reason}");
            None
        }
    }
}
