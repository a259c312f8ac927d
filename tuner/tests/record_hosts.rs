//! `tune record` with the real shim: programs that it sees, and programs that it cannot see.

mod common;

#[path = "../../recorder/shim/tests/common/shim.rs"]
mod shim;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{Scratch, code, stderr, stdout, tune};
use tgemm_db::Recorded;
use tgemm_db::format::read_untuned;

/// Names a Python whose NumPy is to be recorded too.
const PYTHON: &str = "TGEMM_TEST_PYTHON_NUMPY";

fn clear(command: &mut Command) {
    for name in ["LD_PRELOAD", "TGEMM_TUNE", "TGEMM_UNTUNED", "TGEMM_COUNTERS", "TGEMM_COUNTERS_KEEP", "TGEMM_APPLY"] {
        command.env_remove(name);
    }
}

/// `program` alone, and under `tune record -o recorded.csv`.
fn both(scratch: &Scratch, program: &Path, arguments: &[&Path]) -> (Output, Output) {
    let mut alone = Command::new(program);
    alone.args(arguments).current_dir(scratch.path(""));
    clear(&mut alone);
    let mut recording = tune();
    clear(&mut recording);
    recording.current_dir(scratch.path("")).env("TGEMM_SHIM", shim::shim());
    recording.args(["record", "-o", "recorded.csv", "--"]).arg(program).args(arguments);
    (alone.output().unwrap(), recording.output().unwrap())
}

fn recorded(scratch: &Scratch) -> Vec<Recorded> {
    let sheet = read_untuned(&scratch.path("recorded.csv")).unwrap();
    assert!(sheet.rejected.is_empty(), "{:?}", sheet.rejected);
    sheet.into_values().collect()
}

/// Builds a client of the shim's tests; `None`, with a message, without a C compiler.
fn build(scratch: &Scratch, name: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../recorder/shim/tests/clients").join(source);
    let built = Command::new("cc")
        .args(["-Wall", "-Werror", "-O2", "-o"])
        .arg(scratch.path(name))
        .arg(source)
        .args(flags)
        .output();
    match built {
        Ok(output) => {
            assert!(output.status.success(), "{}", stderr(&output));
            Some(scratch.path(name))
        }
        Err(error) => {
            eprintln!("skipped: cc: {error}");
            None
        }
    }
}

#[test]
fn what_is_found_at_run_time_is_not_seen_and_that_is_said() {
    let scratch = Scratch::new();
    let Some(library) = build(&scratch, "libtinyblas.so", "tinyblas.c", &["-shared", "-fPIC"]) else { return };
    let Some(client) = build(&scratch, "finder", "finder.c", &["-ldl"]) else { return };
    let (alone, recording) = both(&scratch, &client, &[&library]);
    assert_eq!((code(&alone), stdout(&alone)), (6, "20\n".to_owned()));
    assert_eq!((code(&recording), stdout(&recording)), (6, stdout(&alone)));
    assert!(!scratch.path("recorded.csv").exists());
    let said = stderr(&recording);
    let parts = [
        "no GEMM call was seen, nothing is written",
        "does the program look functions up at run time",
        "libraries whose functions are looked up at run time (ctypes, cudarc, AMD's Python bindings)",
        "tune record --from-log",
        "PYTORCH_TUNABLEOP_RECORD_UNTUNED=1",
        "HIPBLASLT_LOG_MASK=32",
        "or link the crate tgemm-recorder",
    ];
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    // The one that is linked is seen by the very same command.
    let folder = scratch.path("");
    let flags = [format!("-L{}", folder.display()), format!("-Wl,-rpath,{}", folder.display())];
    let client = build(&scratch, "calls", "calls.c", &[&flags[0], &flags[1], "-ltinyblas"]).unwrap();
    let (alone, recording) = both(&scratch, &client, &[]);
    assert_eq!((code(&recording), stdout(&recording)), (0, stdout(&alone)));
    assert_eq!(recorded(&scratch).iter().map(|row| row.count).sum::<u64>(), 25);
    assert!(stderr(&recording).contains("recorded in 1 processes: 11 problems, 25 calls"), "{}", stderr(&recording));
}

const SCRIPT: &str = r#"
import os, sys
import numpy as np

def ones(*shape, t=np.float32):
    return np.ones(shape, t) * 0.5

x, w, v = ones(4, 64), ones(64, 96), ones(96, 64)
told = [sum(float((x @ w).sum()) for _ in range(3)), sum(float((x @ v.T).sum()) for _ in range(5))]
told.append(float((ones(64, 8).T @ w).sum()))
told.append(float(np.dot(ones(16, 64), w).sum()))
told.append(float((ones(3, 24, t=np.float64) @ ones(24, 40, t=np.float64)).sum()))
# A batch is a loop of products.
told.append(float(np.matmul(ones(5, 6, 64), ones(5, 64, 96)).sum()))
# These are other functions of a BLAS: syrk, gemv, dot; and integers are none of its.
told += [float((x @ x.T).sum()), float((x @ ones(64)).sum()), float((ones(64) @ w).sum()), float(ones(64) @ ones(64))]
told.append(int((np.ones((4, 4), np.int64) @ np.ones((4, 4), np.int64)).sum()))
# Children of every kind.
if os.fork() == 0:
    ones(7, 64) @ w
    sys.exit(0)
os.wait()
print(told)
sys.exit(5)
"#;

/// What the script does.
const PRODUCTS: [(&str, u64); 7] = [
    ("gemm,m=4,n=96,k=64,x=f32,w=f32,out=f32,compute=f32,trans=w", 3),
    ("gemm,m=4,n=96,k=64,x=f32,w=f32,out=f32,compute=f32", 5),
    ("gemm,m=8,n=96,k=64,x=f32,w=f32,out=f32,compute=f32,trans=xw", 1),
    ("gemm,m=16,n=96,k=64,x=f32,w=f32,out=f32,compute=f32,trans=w", 1),
    ("gemm,m=3,n=40,k=24,x=f64,w=f64,out=f64,compute=f64,trans=w", 1),
    ("gemm,m=6,n=96,k=64,x=f32,w=f32,out=f32,compute=f32,trans=w", 5),
    ("gemm,m=7,n=96,k=64,x=f32,w=f32,out=f32,compute=f32,trans=w", 1),
];

/// Records NumPy under `python`; `false`, with a message, if it has none. `library` is in the name of its BLAS.
fn numpy(python: &Path, library: &str) -> bool {
    let found = Command::new(python).args(["-c", "import numpy"]).output();
    if !found.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: {} has no NumPy", python.display());
        return false;
    }
    let scratch = Scratch::new();
    let script = scratch.write("script.py", SCRIPT);
    let (alone, recording) = both(&scratch, python, &[&script]);
    assert_eq!(code(&alone), 5, "{}", stderr(&alone));
    assert_eq!((code(&recording), stdout(&recording)), (5, stdout(&alone)), "{}", stderr(&recording));
    let rows = recorded(&scratch);
    let mut counts = BTreeMap::new();
    for row in &rows {
        assert!(row.library_file.contains(library), "{}", row.library_file);
        // Where a buffer lies is NumPy's affair: 16 bytes and more, or 8 where Python's own allocator gave it.
        let key = row.problem.to_string();
        *counts.entry(key.split(",align=").next().unwrap().to_owned()).or_insert(0) += row.count;
    }
    assert_eq!(counts, PRODUCTS.map(|(key, count)| (key.to_owned(), count)).into(), "{}", stderr(&recording));
    true
}

#[test]
fn the_systems_numpy() {
    numpy(Path::new("/usr/bin/python3"), "blas");
}

#[test]
fn the_numpy_of_a_wheel() {
    match std::env::var_os(PYTHON) {
        Some(python) => {
            assert!(numpy(Path::new(&python), "libscipy_openblas64_"), "{PYTHON} names a Python with NumPy")
        }
        None => eprintln!("skipped: {PYTHON} names no Python whose NumPy is PyPI's"),
    }
}
