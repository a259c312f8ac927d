//! An engine in C that links tgemm and runs products on a HIP device, which the double plays: the solution that a sweep stored
//! runs, captured or not; with libraries of another build the baseline does.

mod common;

#[path = "../../engine/capi/tests/common/mod.rs"]
mod capi;

use std::path::Path;
use std::process::Command;

use common::{Scratch, code, stderr, stdout, tune};
use serde_json::{Value, json};
use tgemm_db::recording::Via;
use tgemm_db::store::Store;
use tgemm_db::{Choice, DType, Recorded, Site};

/// "ROCm 7", and the engine that is linked to it.
struct Engine(Scratch);

impl Engine {
    /// `None`, with a message, without a C compiler.
    fn new() -> Option<Engine> {
        if !capi::has("cc", "") {
            return None;
        }
        let scratch = Scratch::new();
        let rocm = scratch.path("rocm");
        let double = tgemm_rocm_double::built().expect("cargo builds the double with this test");
        tgemm_rocm_double::install(&rocm, &double, 7).expect("installed");
        let capi = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/capi");
        let mut cc = Command::new("cc");
        cc.args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-o"]).arg(scratch.path("engine"));
        cc.arg("-I").arg(capi.join("include")).arg(capi.join("tests/dispatch_hip.c"));
        cc.arg("-L").arg(capi::built()).arg("-ltgemm").arg(format!("-Wl,-rpath,{}", capi::built().display()));
        cc.arg("-L").arg(&rocm).arg("-l:libamdhip64.so.7");
        capi::good(cc.output().expect("cc starts"), "cc");
        Some(Engine(scratch))
    }

    /// Where libraries of `revision` are; launches are traced.
    fn on(&self, mut command: Command, revision: &str) -> Command {
        let script = json!({
            "mode": "host", "noise": { "sigma": 0.01, "seed": 1 }, "revision": revision,
            "trace": self.0.path("trace.jsonl"),
            "device": { "arch": "gfx90a:sramecc+:xnack-", "name": "AMD Instinct MI250X", "cus": 104, "l2_bytes": 8388608 },
        });
        for name in ["LD_PRELOAD", "TGEMM_TUNE", "TGEMM_DB"] {
            command.env_remove(name);
        }
        command
            .env("LD_LIBRARY_PATH", self.0.path("rocm"))
            .env(tgemm_rocm_double::SCRIPT_VAR, self.0.write("double.json", script.to_string()));
        command
    }

    /// The choice for the engine's layer at M = 4, by sweeping on "revision a"; it is in `tuned.csv` then.
    fn choice(&self) -> Choice {
        let asked = Recorded { via: Via::GemmEx, ..Recorded::bare(Site::linear(96, 64, DType::Bf16).at(4).into()) };
        let (untuned, db) = (self.0.path("untuned.csv"), self.0.path("tuned.sqlite"));
        tgemm_db::format::untuned::write(&untuned, [&asked]).expect("written");
        let mut sweep = self.on(tune(), "a");
        sweep.arg("sweep").arg(&untuned).args(["--device", "hip:0", "--effort", "minimal", "--db"]).arg(&db);
        let output = sweep.output().expect("tune runs");
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let choice = Store::open_read_only(&db).unwrap().choices().unwrap().remove(0);
        tgemm_db::format::tuned::write(&self.0.path("tuned.csv"), std::slice::from_ref(&choice)).expect("written");
        choice
    }

    /// What the engine printed, and its launches: library, and index where it has one.
    fn run(&self, revision: &str, mode: &str) -> (String, Vec<(String, Option<i64>)>) {
        let trace = self.0.path("trace.jsonl");
        let _ = std::fs::remove_file(&trace);
        let mut engine = self.on(Command::new(self.0.path("engine")), revision);
        let output = engine.arg(self.0.path("tuned.csv")).arg(mode).output().expect("the engine starts");
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let launches = std::fs::read_to_string(&trace).unwrap();
        let launches = launches.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let launches = launches.map(|line| (line["library"].as_str().unwrap_or("").to_owned(), line["index"].as_i64()));
        (stdout(&output), launches.collect())
    }
}

#[test]
fn the_stored_solution_runs_on_the_engines_device() {
    let Some(engine) = Engine::new() else { return };
    let choice = engine.choice();
    assert!(!choice.is_baseline(), "or the test shows nothing");
    let (said, launches) = engine.run("a", "eager");
    assert!(said.starts_with("exact 3 missed 0 fallen back 0\n"), "{said}");
    let stored = (choice.solution.library().to_owned(), Some(choice.solution.index));
    assert_eq!(launches, vec![stored; 3]);
}

#[test]
fn a_warmed_plan_is_captured_and_what_is_not_warm_breaks_nothing() {
    let Some(engine) = Engine::new() else { return };
    let choice = engine.choice();
    let (said, launches) = engine.run("a", "captured");
    assert!(said.starts_with("exact 1 missed 0 fallen back 0\n"), "{said}");
    assert!(
        !launches.is_empty() && launches.iter().all(|(_, index)| *index == Some(choice.solution.index)),
        "{launches:?}"
    );
}

#[test]
fn another_build_runs_the_baseline() {
    let Some(engine) = Engine::new() else { return };
    let choice = engine.choice();
    let (said, launches) = engine.run("b", "eager");
    assert!(said.starts_with("exact 0 missed 3 fallen back 0\n"), "{said}");
    assert_eq!(launches.len(), 3);
    assert!(launches.iter().all(|(_, index)| *index != Some(choice.solution.index)), "{launches:?}");
}
