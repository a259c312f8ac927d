//! What an engine allows decides what is tuned, and when it is tuned again.

mod common;

use common::{Scratch, code, problem, stderr, sweep};
use serde_json::json;
use tgemm_db::Recorded;
use tgemm_db::store::Store;

/// A later recording may allow less workspace than the one that was tuned for.
#[test]
fn a_choice_that_needs_too_much_workspace_is_made_again() {
    let scratch = Scratch::new();
    let device = scratch.script(json!([
        { "name": "default", "time_us": 100, "noise": 0.001, "baseline": "scripted gemm" },
        { "name": "hungry", "time_us": 50, "noise": 0.001, "workspace_bytes": 4096 },
        { "name": "modest", "time_us": 70, "noise": 0.001 },
    ]));
    let chosen = |workspace_bytes_max| {
        let row = Recorded { workspace_bytes_max, ..Recorded::bare(problem(2)) };
        let path = scratch.path("capped.csv");
        tgemm_db::format::untuned::write(&path, [&row]).unwrap();
        let output = sweep(&scratch, &device, &path, &["--sample", "0.2"]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let name =
            Store::open_read_only(&scratch.path("db.sqlite")).unwrap().choices().unwrap()[0].solution.name.clone();
        (name.to_string(), stderr(&output).contains("0 problems to tune"))
    };
    assert_eq!(chosen(None), ("hungry".into(), false));
    assert_eq!(chosen(Some(8192)), ("hungry".into(), true));
    assert_eq!(chosen(Some(1024)), ("modest".into(), false));
    assert_eq!(chosen(Some(512)), ("modest".into(), true));
}
