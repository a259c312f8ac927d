//! `client.c` is compiled as an engine would be, linked in each way that there is, and run; under valgrind where that is.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{FOLDER, Made, built, compiled, good, has};
use tgemm_db::choice::Ratio;
use tgemm_db::format::{read_untuned, tuned};
use tgemm_db::{Build, Choice, DType, Device, Params, Problem, Recorded, Site, Solution, Vendor, Verdict, Via};

fn choice(m: u32, params: Params) -> Choice {
    Choice {
        problem: Site::linear(64, 64, DType::Bf16).at(m).into(),
        device: Device { memory_gib: Some(192), ..Device::named(Vendor::Amd, "gfx942", 304) }.into(),
        solution: Solution {
            params,
            workspace_bytes: 4096,
            deterministic: Some(true),
            ..Solution::bare(
                Build { library: "hipblaslt".into(), version: "1.0".into(), revision: "abc".into() },
                -123_456_789_012,
                "Cijk_Alik_Bljk",
            )
        },
        time_us: 12.5,
        ratio: Ratio { estimate: 0.5, low: 0.25, high: 0.75 },
        verdict: Verdict::Faster,
        baselines: Vec::new(),
        error_over_bound: 0.0,
        err_ratio: 0.0,
        pack_us: None,
        count: 0,
        tuned_at: String::new(),
        origin: None,
    }
}

/// Runs a client in a folder of its own by `runner` (a program before it, with arguments), and looks at what it wrote.
fn run(made: Made, runner: &[&str], has_environment: bool) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let params = Params::new().with("split_k", 4).with("wave", 2);
    tuned::write(&path("tuned.csv"), &[choice(4, params), choice(16, Params::new())]).unwrap();
    fs::write(path("broken"), "this is no table\n").unwrap();
    let client = compiled(folder.path(), "client.c", made);
    let mut command = match runner {
        [] => Command::new(client),
        [program, arguments @ ..] => {
            let mut command = Command::new(program);
            command.args(arguments).arg(client);
            command
        }
    };
    command.arg(folder.path()).arg(path("tuned.csv")).arg(path("broken")).arg(env!("CARGO_PKG_VERSION"));
    command.arg(if has_environment { "on" } else { "off" }).current_dir(folder.path()).stdin(Stdio::null());
    for name in ["TGEMM_TUNE", "AITER_TUNE_GEMM", "TGEMM_UNTUNED", "TGEMM_DB", "LD_PRELOAD"] {
        command.env_remove(name);
    }
    if has_environment {
        command.env("TGEMM_TUNE", "1").env("TGEMM_UNTUNED", path("global.csv")).env("TGEMM_DB", path("tuned.csv"));
    }
    let said = good(command.output().unwrap(), &format!("{made:?} {runner:?}"));
    assert!(said.ends_with(" checks\n"), "{said}");
    look_at_recordings(folder.path(), has_environment);
}

fn rows(path: &Path) -> Vec<Recorded> {
    let sheet = read_untuned(path).unwrap();
    assert!(sheet.rejected.is_empty(), "{:?}", sheet.rejected);
    tgemm_db::recording::merge(sheet.into_values())
}

fn look_at_recordings(folder: &Path, records: bool) {
    let problem = |n: u32, m: u32| Problem::from(Site::linear(n, 64, DType::Bf16).at(m));
    let bare = |n, m, count| Recorded { count, ..Recorded::bare(problem(n, m)) };
    let captured =
        Recorded { via: Via::LtMatmul, captured: true, workspace_bytes_max: Some(1 << 20), ..bare(64, 4, 5) };
    assert_eq!(rows(&folder.join("untuned.csv")), [bare(64, 4, 2), captured]);
    let mut misses = rows(&folder.join("misses.csv"));
    misses.sort_by_key(|row| row.problem);
    assert_eq!(misses, [bare(64, 4, 1), bare(65, 9, 1)]);
    assert_eq!(folder.join("global.csv").exists(), records);
    if records {
        assert_eq!(rows(&folder.join("global.csv")), [bare(64, 77, 3)]);
    }
}

#[test]
fn exactly_what_the_header_declares_is_exported() {
    if !has("nm", "") {
        return;
    }
    let listed = Command::new("nm").args(["-D", "--defined-only"]).arg(built().join("libtgemm.so")).output().unwrap();
    let listed = good(listed, "nm");
    let exported: BTreeSet<&str> = listed.lines().filter_map(|line| line.split_whitespace().last()).collect();
    let header = fs::read_to_string(format!("{FOLDER}/include/tgemm.h")).unwrap();
    let code = header.lines().filter(|line| !line.starts_with([' ', '/']));
    let declared: BTreeSet<&str> = code
        .filter_map(|line| line.split_once('('))
        .filter_map(|(before, _)| before.rsplit([' ', '*']).next())
        .filter(|name| name.starts_with("tgemm_"))
        .collect();
    assert_eq!(exported, declared);
}

#[test]
fn a_c_engine_links_the_shared_library() {
    if has("cc", "") {
        run(Made::Dynamic, &[], false);
        run(Made::Dynamic, &[], true);
    }
}

#[test]
fn a_c_engine_links_the_static_library() {
    if has("cc", "") {
        run(Made::Static, &[], true);
    }
}

#[test]
fn a_cpp_engine_includes_the_same_header() {
    if has("c++", "") {
        run(Made::Cpp, &[], false);
    }
}

#[test]
fn valgrind_finds_nothing() {
    if has("cc", "") && has("valgrind", ": leaks and stray reads are not looked for") {
        run(Made::Dynamic, &["valgrind", "--quiet", "--error-exitcode=9", "--leak-check=full"], true);
    }
}
