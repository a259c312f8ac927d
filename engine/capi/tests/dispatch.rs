//! `dispatch.c`: an engine in C that runs products on this host's processors. The table that it is given is made here, from
//! what oneDNN offers, so that a choice runs and not only baselines.

mod common;

use std::path::Path;
use std::process::{Command, Stdio};

use common::{Made, compiled, good, has};
use tgemm_db::choice::Ratio;
use tgemm_db::format::tuned;
use tgemm_db::{Choice, DType, Site, Solution, Verdict, WeightForm};
use tgemm_kernels::cpu::CpuContext;
use tgemm_kernels::{Ask, Backend, Effort};

/// What `dispatch.c` multiplies with.
fn site() -> Site {
    Site::linear(48, 32, DType::F32)
}

/// A choice at `m` of a solution of oneDNN's that takes weights in `form`; `None` where that is not here.
fn choice(context: &CpuContext, m: u32, form: WeightForm) -> Option<Choice> {
    let onednn = tgemm_kernels::library(context, "onednn")?;
    let problem = site().at(m).into();
    let offered = onednn.candidates(&problem, Effort::Full, &Ask::default()).expect("a list");
    let solution: Solution = offered.into_iter().rfind(|solution| solution.weight_form == form)?;
    let ratio = Ratio { estimate: 0.5, low: 0.4, high: 0.6 };
    let uncompared = Choice::uncompared(problem, context.environment().device.clone(), solution, 1.0);
    Some(Choice { ratio, verdict: Verdict::Faster, ..uncompared })
}

/// M = 4 of plain weights, M = 8 of packed ones; `false`, with a message, where oneDNN is not here.
fn table(path: &Path) -> bool {
    let context = CpuContext::open();
    let choices = [(4, WeightForm::Plain), (8, WeightForm::Prepacked)].map(|(m, form)| choice(&context, m, form));
    let [Some(plain), Some(packed)] = choices else {
        eprintln!("skipped: no oneDNN is here, and a C engine has no other library on a CPU");
        return false;
    };
    tuned::write(path, &[plain, packed]).unwrap();
    true
}

fn run(made: Made, runner: &[&str], is_tuned: bool) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tuned.csv");
    if !table(&path) {
        return;
    }
    if !is_tuned {
        // Of a device that is not this one.
        let text = std::fs::read_to_string(&path).unwrap().replace("x86_64-v", "riscv64-v");
        std::fs::write(&path, text).unwrap();
    }
    let client = compiled(folder.path(), "dispatch.c", made);
    let mut command = match runner {
        [] => Command::new(client),
        [program, arguments @ ..] => {
            let mut command = Command::new(program);
            command.args(arguments).arg(client);
            command
        }
    };
    command.arg(path).arg(if is_tuned { "tuned" } else { "foreign" }).stdin(Stdio::null());
    for name in ["TGEMM_DB", "LD_PRELOAD"] {
        command.env_remove(name);
    }
    let said = good(command.output().unwrap(), &format!("{made:?} {runner:?}"));
    assert!(said.ends_with(" checks\n"), "{said}");
}

#[test]
fn a_c_engine_runs_what_was_tuned_and_baselines_elsewhere() {
    if has("cc", "") {
        run(Made::Dynamic, &[], true);
        run(Made::Dynamic, &[], false);
        run(Made::Static, &[], true);
    }
}

#[test]
fn a_cpp_engine_does_so_too() {
    if has("c++", "") {
        run(Made::Cpp, &[], true);
    }
}

/// Valgrind's processor is not this one, so that nothing is tuned for it.
#[test]
fn valgrind_finds_nothing() {
    if has("cc", "") && has("valgrind", ": leaks and stray reads are not looked for") {
        let leaks = ["--leak-check=full", "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"];
        let [check, show, count] = leaks;
        run(Made::Dynamic, &["valgrind", "--quiet", "--error-exitcode=9", check, show, count], false);
    }
}
