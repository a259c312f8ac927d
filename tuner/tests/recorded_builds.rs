//! A sweep opens the very libraries that a recording names, or refuses; against the double of ROCm's libraries.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{Scratch, code, stderr, tune};
use serde_json::json;
use tgemm_db::format::untuned;
use tgemm_db::store::Store;
use tgemm_db::{DType, Recorded, Site};

/// What the double says that its hipBLASLt is, by generation of ROCm.
const VERSIONS: [(u32, &str); 2] = [(7, "1.2.1"), (6, "0.12.1")];

/// A machine on which "ROCm 7" is found and "ROCm 6" lies elsewhere.
struct Machine {
    scratch: Scratch,
}

impl Machine {
    fn new() -> Machine {
        let scratch = Scratch::new();
        let double = tgemm_rocm_double::built().expect("cargo builds the double with this test");
        for (generation, _) in VERSIONS {
            let folder = scratch.path(&format!("rocm-{generation}"));
            tgemm_rocm_double::install(&folder, &double, generation).expect("installed");
        }
        let script = json!({
            "mode": "host", "noise": { "sigma": 0.01, "seed": 1 },
            "device": { "arch": "gfx90a", "name": "AMD Instinct MI250X", "cus": 104, "l2_bytes": 8388608 },
        });
        scratch.write("double.json", script.to_string());
        Machine { scratch }
    }

    /// hipBLASLt of a generation.
    fn library(&self, generation: u32) -> PathBuf {
        let names = tgemm_rocm_double::sonames(generation).unwrap();
        self.scratch.path(&format!("rocm-{generation}")).join(names[1])
    }

    /// A recording that names these libraries.
    fn recorded(&self, libraries: &[(&Path, &str)]) -> PathBuf {
        let row = |(file, build): &(&Path, &str)| Recorded {
            count: 5,
            library_file: file.display().to_string(),
            library_build: (*build).to_owned(),
            ..Recorded::bare(Site::linear(64, 128, DType::Bf16).at(3).into())
        };
        let path = self.scratch.path("untuned.csv");
        untuned::write(&path, &libraries.iter().map(row).collect::<Vec<_>>()).unwrap();
        path
    }

    fn sweep(&self, untuned: &Path, db: &str) -> Command {
        let mut command = tune();
        command
            .env("LD_LIBRARY_PATH", self.scratch.path("rocm-7"))
            .env(tgemm_rocm_double::SCRIPT_VAR, self.scratch.path("double.json"))
            .arg("sweep")
            .arg(untuned)
            .args(["--device", "hip:0", "--effort", "minimal", "--db"])
            .arg(self.scratch.path(db));
        command
    }

    /// The build of hipBLASLt that a sweep ran with.
    fn swept_with(&self, db: &str) -> String {
        let store = Store::open_read_only(&self.scratch.path(db)).unwrap();
        let (_, environment) = store.environments().unwrap().remove(0);
        environment.build("hipblaslt").expect("opened").version.clone()
    }
}

fn done(output: &Output) {
    assert_eq!(code(output), 0, "{}", stderr(output));
}

#[test]
fn another_build_is_refused_and_may_be_allowed() {
    let machine = Machine::new();
    let gone = machine.scratch.path("gone/libhipblaslt.so.0");
    let untuned = machine.recorded(&[(&gone, "0.10.0")]);
    let output = machine.sweep(&untuned, "db.sqlite").output().unwrap();
    assert_eq!(code(&output), 2);
    let said = stderr(&output);
    let parts = ["hipblaslt 0.10.0", "gone/libhipblaslt.so.0", "1.2.1", "TGEMM_HIPBLASLT", "--any-build"];
    assert!(parts.iter().all(|part| said.contains(part)) && said.lines().count() == 1, "{said}");
    assert!(!machine.scratch.path("db.sqlite").exists(), "refused before anything is written");
    assert_eq!(code(&machine.sweep(&untuned, "db.sqlite").arg("--dry-run").output().unwrap()), 2);
    done(&machine.sweep(&untuned, "db.sqlite").arg("--any-build").output().unwrap());
    assert_eq!(machine.swept_with("db.sqlite"), "1.2.1");
    let same = machine.recorded(&[(&gone, "1.2.1")]);
    done(&machine.sweep(&same, "same.sqlite").output().unwrap());
}

#[test]
fn the_recorded_file_is_opened_where_it_lies() {
    let machine = Machine::new();
    let (seven, six) = (machine.library(7), machine.library(6));
    for (build, db) in [("0.12.1", "known.sqlite"), ("", "unknown.sqlite")] {
        let untuned = machine.recorded(&[(&six, build)]);
        done(&machine.sweep(&untuned, db).output().unwrap());
        assert_eq!(machine.swept_with(db), "0.12.1", "not the 1.2.1 that is found first");
    }
    let untuned = machine.recorded(&[(&six, "0.12.1")]);
    let output = machine.sweep(&untuned, "users.sqlite").env("TGEMM_HIPBLASLT", &seven).output().unwrap();
    assert_eq!(code(&output), 2, "the file that the user names is opened: {}", stderr(&output));
    let both = machine.recorded(&[(&six, "0.12.1"), (&seven, "1.2.1")]);
    let output = machine.sweep(&both, "both.sqlite").output().unwrap();
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("one by one"), "{}", stderr(&output));
}

#[test]
fn a_sweep_of_another_device_does_not_care() {
    let machine = Machine::new();
    let untuned = machine.recorded(&[(&machine.library(6), "0.10.0")]);
    let mut command = tune();
    command.arg("sweep").arg(&untuned).args(["--device", "cpu", "--dry-run", "--db", "none.sqlite"]);
    done(&command.output().unwrap());
}
