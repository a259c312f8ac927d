//! The whole loop on a program of ROCm's libraries, which the double plays: what was stored is what runs in its place, and
//! nothing where the build is another.

mod common;

#[path = "../../recorder/shim/tests/common/shim.rs"]
mod shim;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{Scratch, code, stderr, stdout, tune};
use serde_json::{Value, json};
use tgemm_db::recording::Via;
use tgemm_db::store::Store;
use tgemm_db::{Choice, DType, Recorded, Site, Verdict};

/// "ROCm 7" and a client that is linked to it.
struct Rocm {
    scratch: Scratch,
    client: PathBuf,
}

impl Rocm {
    /// `None`, with a message, without a C compiler.
    fn new() -> Option<Rocm> {
        let scratch = Scratch::new();
        let folder = scratch.path("rocm");
        let double = tgemm_rocm_double::built().expect("cargo builds the double with this test");
        tgemm_rocm_double::install(&folder, &double, 7).expect("installed");
        let client = scratch.path("client");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../recorder/shim/tests/clients/rocm.c");
        let mut cc = Command::new("cc");
        cc.args(["-Wall", "-Werror", "-O1", "-o"]).arg(&client).arg(source).arg(format!("-L{}", folder.display()));
        cc.args(tgemm_rocm_double::sonames(7).expect("played").map(|name| format!("-l:{name}")));
        match cc.output() {
            Ok(output) => assert!(output.status.success(), "{}", stderr(&output)),
            Err(error) => {
                eprintln!("skipped: cc: {error}");
                return None;
            }
        }
        Some(Rocm { scratch, client })
    }

    /// Where libraries of `revision` are; launches are traced.
    fn on<'a>(&self, command: &'a mut Command, revision: &str) -> &'a mut Command {
        let script = json!({
            "mode": "host", "noise": { "sigma": 0.01, "seed": 1 }, "revision": revision,
            "trace": self.scratch.path("trace.jsonl"),
            "device": { "arch": "gfx90a:sramecc+:xnack-", "name": "AMD Instinct MI250X", "cus": 104, "l2_bytes": 8388608 },
        });
        for name in ["LD_PRELOAD", "TGEMM_TUNE", "TGEMM_DB", "TGEMM_COUNTERS"] {
            command.env_remove(name);
        }
        command
            .env("LD_LIBRARY_PATH", self.scratch.path("rocm"))
            .env("TGEMM_SHIM", shim::shim())
            .env(tgemm_rocm_double::SCRIPT_VAR, self.scratch.write("double.json", script.to_string()))
    }

    /// The choice for what the client asks three times for, by sweeping on "revision a".
    fn choice(&self, db: &Path) -> Choice {
        let asked =
            Recorded { count: 3, via: Via::GemmEx, ..Recorded::bare(Site::linear(96, 64, DType::Bf16).at(4).into()) };
        let untuned = self.scratch.path("untuned.csv");
        tgemm_db::format::untuned::write(&untuned, [&asked]).expect("written");
        let mut sweep = tune();
        self.on(&mut sweep, "a").arg("sweep").arg(&untuned).args(["--device", "hip:0", "--effort", "minimal", "--db"]);
        let output = sweep.arg(db).output().expect("tune runs");
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        Store::open_read_only(db).unwrap().choices().unwrap().remove(0)
    }

    /// The client under `tune apply`, and the launches of that problem.
    fn apply(&self, db: &Path, revision: &str, more: &[&str], mode: &str) -> (Output, Vec<Value>) {
        let trace = self.scratch.path("trace.jsonl");
        let _ = std::fs::remove_file(&trace);
        let mut apply = tune();
        self.on(&mut apply, revision).arg("apply").args(more).arg("--db").arg(db).arg("--").arg(&self.client).arg(mode);
        let output = apply.output().expect("tune runs");
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let launches = std::fs::read_to_string(&trace).unwrap();
        let launches = launches.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let of_ours = |line: &Value| (line["m"].as_u64(), line["n"].as_u64()) == (Some(96), Some(4));
        (output, launches.filter(|line| of_ours(line) && line["batch"] == 1).collect())
    }

    fn alone(&self, mode: &str) -> String {
        let mut command = Command::new(&self.client);
        stdout(&self.on(&mut command, "a").arg(mode).output().unwrap())
    }
}

#[test]
fn what_was_stored_runs_in_the_place_of_the_call_and_computes_the_same() {
    let Some(rocm) = Rocm::new() else { return };
    let db = rocm.scratch.path("tuned.sqlite");
    let choice = rocm.choice(&db);
    assert_eq!((choice.verdict, choice.solution.library()), (Verdict::Faster, "hipblaslt"), "the double has it so");

    let (output, launches) = rocm.apply(&db, "a", &[], "eager");
    assert_eq!(stdout(&output), rocm.alone("eager"), "the same bits");
    // Three of alpha 1; the fourth, of alpha 2, is another problem.
    let ran: Vec<i64> = launches
        .iter()
        .filter(|launch| launch["library"] == "hipblaslt")
        .map(|launch| launch["index"].as_i64().expect("an index"))
        .collect();
    assert_eq!(ran, [choice.solution.index; 3], "{launches:?}");
    assert_eq!(launches.iter().filter(|launch| launch["library"] == "hipblas").count(), 1);
    assert!(stderr(&output).contains(" 3 ran a choice"), "{}", stderr(&output));
}

#[test]
fn a_dry_run_counts_and_changes_nothing() {
    let Some(rocm) = Rocm::new() else { return };
    let db = rocm.scratch.path("tuned.sqlite");
    rocm.choice(&db);
    let (output, launches) = rocm.apply(&db, "a", &["--dry-run"], "eager");
    assert!(launches.iter().all(|launch| launch["library"] == "hipblas"), "{launches:?}");
    assert!(stderr(&output).contains(" 3 would have run a choice"), "{}", stderr(&output));
}

#[test]
fn another_build_runs_what_it_would_have_run() {
    let Some(rocm) = Rocm::new() else { return };
    let db = rocm.scratch.path("tuned.sqlite");
    rocm.choice(&db);
    let (output, launches) = rocm.apply(&db, "b", &[], "eager");
    assert_eq!(stdout(&output), rocm.alone("eager"));
    assert!(launches.iter().all(|launch| launch["library"] == "hipblas"), "{launches:?}");
    assert!(stderr(&output).contains(" 0 ran a choice"), "{}", stderr(&output));
    assert!(stderr(&output).contains("1 of other builds"), "it is said why: {}", stderr(&output));
}
