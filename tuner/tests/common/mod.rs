//! What the tests of the `tune` command share: running it, scripts, files.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tgemm_db::store::Store;
use tgemm_db::{DType, Problem, Recorded, Site, Trial};

/// The command under test, with an environment that says nothing.
pub fn tune() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tune"));
    for name in ["TGEMM_DB", "TGEMM_TUNE", "TGEMM_UNTUNED"] {
        command.env_remove(name);
    }
    command
}

/// Runs `tune` and returns what it said.
pub fn run<I: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = I>) -> Output {
    tune().args(args).output().expect("tune runs")
}

/// Its exit code; a death by signal fails the test.
pub fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("{:?}\n{}", output.status, stderr(output)))
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A scratch folder with files by name.
pub struct Scratch(tempfile::TempDir);

impl Scratch {
    pub fn new() -> Scratch {
        Scratch(tempfile::tempdir().expect("a scratch folder"))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).expect("written");
        path
    }

    /// An untuned CSV of small f32 problems: one for each M.
    pub fn untuned(&self, ms: &[u32]) -> PathBuf {
        let rows: Vec<Recorded> = ms.iter().map(|&m| Recorded { count: 10, ..Recorded::bare(problem(m)) }).collect();
        let path = self.path("untuned.csv");
        tgemm_db::format::untuned::write(&path, &rows).expect("written");
        path
    }

    /// A script file; returns the name of the device that plays it.
    pub fn script(&self, solutions: Value) -> String {
        let path = self.write("script.json", json!({ "seed": 7, "solutions": solutions }).to_string());
        format!("scripted:{}", path.display())
    }
}

/// The problem that the tests tune at `m` tokens.
pub fn problem(m: u32) -> Problem {
    Site::linear(24, 32, DType::F32).at(m).into()
}

/// All trials of the problem at `m` in the database.
pub fn trials(db: &Path, m: u32) -> Vec<Trial> {
    let store = Store::open_read_only(db).expect("opens");
    let environments = store.environments().expect("reads");
    assert_eq!(environments.len(), 1, "one device, one environment");
    store.trials(environments[0].0, &problem(m)).expect("reads")
}

/// `tune sweep` over `untuned` on a scripted device.
pub fn sweep(scratch: &Scratch, device: &str, untuned: &Path, more: &[&str]) -> Output {
    let mut command = tune();
    command.arg("sweep").arg(untuned).arg("--db").arg(scratch.path("db.sqlite")).args(["--device", device]).args(more);
    command.output().expect("tune runs")
}
