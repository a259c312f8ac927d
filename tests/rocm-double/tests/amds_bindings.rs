//! A client that nobody here wrote the calls of: AMD's own Python bindings take the double for ROCm.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use tgemm_rocm_double::{SCRIPT_VAR, built, install};

#[path = "../../../kernels/vendor/tests/judges/python.rs"]
mod python;

#[test]
fn amds_own_bindings_take_it_for_rocm() {
    let Some(program) = python::python(Path::new(env!("CARGO_TARGET_TMPDIR"))) else { return };
    let rocm = tempfile::tempdir().unwrap();
    let libraries = rocm.path().join("lib");
    let files = install(&libraries, &built().unwrap(), 7).unwrap();
    // They open the names that a development package links.
    for file in &files {
        let soname = file.file_name().unwrap().to_str().unwrap();
        symlink(soname, libraries.join(soname.trim_end_matches(|c: char| c == '.' || c.is_ascii_digit()))).unwrap();
    }
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("../judges/rocm_client.py");
    let run = |scripted: &str| {
        let script = rocm.path().join("script.json");
        std::fs::write(&script, scripted).unwrap();
        let mut command = Command::new(&program);
        command.arg(&client).env(SCRIPT_VAR, script).env("ROCM_PATH", rocm.path()).env("LD_LIBRARY_PATH", &libraries);
        python::run(&mut command)
    };
    let told = run(r#"{"device": {"arch": "gfx950:sramecc+:xnack-", "cus": 256}}"#);
    let told = told.unwrap_or_else(|reason| panic!("{reason}"));
    assert!(told.starts_with("1 x gfx950:sramecc+:xnack- with 256 units: "), "{told}");
    println!("{told}");
    // The client does look at what was computed.
    let refused = run(r#"{"solutions": [{"index": 1, "fault": "wrong"}]}"#).unwrap_err();
    assert!(refused.contains("outputs are wrong"), "{refused}");
}
