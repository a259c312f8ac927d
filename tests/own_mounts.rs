//! Tests that need a disk of their own: a body runs in a mount name space whose mounts vanish with it. Included by path: it is no
//! crate, so that nobody depends on it.

use std::path::Path;
use std::process::Command;

/// The environment variable that names the folder of a body; without it a body was started by hand and does nothing.
pub const FOLDER: &str = "TGEMM_TEST_FOLDER";

/// Mounts by `mount`, a script in which `$D` is `folder`, and runs the ignored test `body` of this binary there. False, and said,
/// if this machine does not let us.
pub fn run(folder: &Path, body: &str, mount: &str) -> bool {
    let run = |script: &str| {
        Command::new("unshare")
            .args(["--mount", "--map-root-user", "sh", "-ec", script])
            .env("D", folder)
            .env(FOLDER, folder)
            .env("EXE", std::env::current_exe().unwrap())
            .env("BODY", body)
            .output()
    };
    if !run(mount).is_ok_and(|output| output.status.success()) {
        println!("skipped: this machine does not allow mounts in a name space (unshare --mount --map-root-user)");
        return false;
    }
    let output = run(&format!("{mount}\nexec \"$EXE\" --exact \"$BODY\" --ignored --nocapture")).unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    print!("{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("test result: ok. 1 passed"), "the body failed");
    true
}
