//! Clients in C, built by the test and run with the shim before their libraries, and what was recorded of them.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod shim;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tgemm_db::Recorded;
use tgemm_db::format::read_untuned;

pub use shim::shim;

/// A C compiler, and a folder for what it makes.
pub struct Bench {
    folder: tempfile::TempDir,
}

/// What `host.c` is built with.
pub const HOST_PARTS: [&str; 4] = [
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/host_threads.c"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/host_children.c"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/host_limits.c"),
    "-pthread",
];

/// Variables that would change what a client does.
const OURS: [&str; 8] = [
    "LD_PRELOAD",
    "TGEMM_TUNE",
    "AITER_TUNE_GEMM",
    "TGEMM_UNTUNED",
    "TGEMM_APPLY",
    "TGEMM_DB",
    "TGEMM_COUNTERS",
    "TGEMM_COUNTERS_KEEP",
];

impl Bench {
    /// `None`, with a message, where there is no C compiler.
    pub fn new() -> Option<Bench> {
        let found = Command::new("cc").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !found.is_ok_and(|status| status.success()) {
            eprintln!("skipped: no C compiler (cc) is here");
            return None;
        }
        Some(Bench { folder: tempfile::tempdir().unwrap() })
    }

    /// A name in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Builds `source`, a file of `clients`, into `name`.
    pub fn build(&self, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        let output = self.try_build(name, source, flags);
        assert!(output.status.success(), "{source}: {}", String::from_utf8_lossy(&output.stderr));
        self.path(name)
    }

    /// As [`Bench::build`], where that may fail.
    pub fn try_build(&self, name: &str, source: &str, flags: &[&str]) -> Output {
        let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
        let mut cc = Command::new("cc");
        cc.args(["-std=gnu11", "-O2", "-Wall", "-Werror", "-o"]).arg(self.path(name)).arg(clients.join(source));
        // The folder's libraries are found where they lie.
        cc.arg("-L").arg(self.folder.path()).arg(format!("-Wl,-rpath,{}", self.folder.path().display()));
        cc.args(flags).output().unwrap()
    }

    /// The small BLAS as `libNAME.so`, under that soname.
    pub fn tinyblas(&self, name: &str, flags: &[&str]) -> PathBuf {
        let file = format!("lib{name}.so");
        let soname = format!("-Wl,-soname,{file}");
        self.build(&file, "tinyblas.c", &[&["-shared", "-fPIC", &soname], flags].concat())
    }

    /// The host of many modes, linked to the small BLAS.
    pub fn host(&self) -> PathBuf {
        self.tinyblas("tinyblas", &[]);
        self.build("host", "host.c", &[&HOST_PARTS[..], &["-ltinyblas"]].concat())
    }

    /// `client` with nothing of ours in it.
    pub fn alone(&self, client: &Path) -> Command {
        let mut command = Command::new(client);
        OURS.iter().for_each(|name| {
            command.env_remove(name);
        });
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// `client` with the shim before its libraries, switched off.
    pub fn off(&self, client: &Path) -> Command {
        let mut command = self.alone(client);
        command.env("LD_PRELOAD", shim()).env("TGEMM_COUNTERS", self.path("counters"));
        command
    }

    /// `client` with the shim before its libraries, recording to `to`: a name in the folder, or a whole path.
    pub fn recording(&self, client: &Path, to: impl AsRef<Path>) -> Command {
        let mut command = self.off(client);
        command.env("TGEMM_TUNE", "1").env("TGEMM_UNTUNED", self.folder.path().join(to));
        command
    }
}

/// Adds arguments, runs to the end, and expects success.
pub fn run(mut command: Command, arguments: &[impl AsRef<OsStr>]) -> Output {
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{command:?}: {:?}\n{}\n{}", output.status, said(&output), complaint(&output));
    output
}

/// What was printed.
pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What was complained of.
pub fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Every file of a recording; none where there is no folder.
pub fn files(place: &Path) -> Vec<PathBuf> {
    if place.is_file() {
        return vec![place.to_owned()];
    }
    let Ok(entries) = fs::read_dir(place) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Every line of a recording, after checking that there are only whole and readable ones.
pub fn rows(place: &Path) -> Vec<Recorded> {
    let read = |file: &PathBuf| {
        let text = fs::read_to_string(file).unwrap();
        assert!(text.ends_with('\n'), "{}: half a line: {text:?}", file.display());
        let sheet = read_untuned(file).unwrap();
        assert!(sheet.rejected.is_empty(), "{}: {:?}\n{text}", file.display(), sheet.rejected);
        sheet.into_values().collect::<Vec<_>>()
    };
    files(place).iter().flat_map(read).collect()
}

/// How often each problem was asked for, by API and key.
pub fn counts(place: &Path) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for row in rows(place) {
        *counts.entry(format!("{} {}", row.via, row.problem)).or_default() += row.count;
    }
    counts
}

/// As [`counts`], of what the text says: a count, an API and a key a line.
pub fn expected(text: &str) -> BTreeMap<String, u64> {
    let line = |line: &str| {
        let (count, rest) = line.trim().split_once(' ').unwrap();
        (rest.to_owned(), count.parse().unwrap())
    };
    text.trim().lines().map(line).collect()
}

/// How often each M was asked for.
pub fn counts_by_m(place: &Path) -> BTreeMap<u32, u64> {
    let mut counts = BTreeMap::new();
    for row in rows(place) {
        *counts.entry(row.problem.m()).or_default() += row.count;
    }
    counts
}
