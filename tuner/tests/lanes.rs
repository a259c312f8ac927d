//! Several devices at once: each problem is tuned once, whichever device is free takes the next, and one that is lost takes
//! nobody along.

mod common;

use std::collections::{BTreeMap, HashSet};

use common::{Scratch, code, problem, stderr, stdout, sweep};
use serde_json::{Value, json};
use tgemm_db::store::Store;

/// A script in a file of that name; real time, so that problems take long enough for others to be taken meanwhile.
fn device(scratch: &Scratch, name: &str, compute_units: u32, more: Value) -> String {
    let mut good = json!({ "name": "good", "time_us": 60 });
    good.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    let script = json!({
        "seed": 7, "real_time": true, "device": { "compute_units": compute_units },
        "solutions": [{ "name": "default", "time_us": 300, "baseline": "scripted gemm" }, good],
    });
    format!("scripted:{}", scratch.write(name, script.to_string()).display())
}

/// The devices that took each problem, from the events.
fn takers(events: &str) -> BTreeMap<String, Vec<String>> {
    let mut takers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in events.lines() {
        let event: Value = serde_json::from_str(line).expect("JSON lines");
        if event["event"] == "begun" {
            let text = |field: &str| event[field].as_str().unwrap_or_else(|| panic!("{event}")).to_owned();
            takers.entry(text("problem")).or_default().push(text("device"));
        }
    }
    takers
}

#[test]
fn devices_of_one_kind_share_the_problems() {
    let scratch = Scratch::new();
    let both = [device(&scratch, "a.json", 2, json!({})), device(&scratch, "b.json", 2, json!({}))];
    let ms: Vec<u32> = (1..=8).collect();
    let untuned = scratch.untuned(&ms);
    let output = sweep(&scratch, &both.join(","), &untuned, &["--sample", "0.2", "--json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let takers = takers(&stdout(&output));
    assert_eq!(takers.len(), 8);
    assert!(takers.values().all(|devices| devices.len() == 1), "each problem is taken once: {takers:?}");
    let used: HashSet<&String> = takers.values().flatten().collect();
    assert_eq!(used.len(), 2, "both devices worked: {takers:?}");
    let store = Store::open_read_only(&scratch.path("db.sqlite")).unwrap();
    assert_eq!((store.choices().unwrap().len(), store.environments().unwrap().len()), (8, 1));
    for &m in &ms {
        assert_eq!(store.trials(store.environments().unwrap()[0].0, &problem(m)).unwrap().len(), 2);
    }
    store.integrity_check().unwrap();
}

#[test]
fn devices_of_different_kinds_each_tune_everything() {
    let scratch = Scratch::new();
    let both = [device(&scratch, "a.json", 2, json!({})), device(&scratch, "b.json", 4, json!({}))];
    let output = sweep(&scratch, &both.join(","), &scratch.untuned(&[1, 2]), &["--sample", "0.2", "--json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(takers(&stdout(&output)).values().all(|devices| devices.len() == 2));
    let store = Store::open_read_only(&scratch.path("db.sqlite")).unwrap();
    assert_eq!((store.choices().unwrap().len(), store.environments().unwrap().len()), (4, 2));
}

#[test]
fn a_device_that_does_not_open_is_named_and_the_others_go_on() {
    let scratch = Scratch::new();
    let good = device(&scratch, "a.json", 2, json!({}));
    let missing = format!("scripted:{}", scratch.path("none.json").display());
    let output = sweep(&scratch, &format!("{good},{missing}"), &scratch.untuned(&[1, 2]), &["--sample", "0.2"]);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert!(stdout(&output).contains("without scripted:") && stdout(&output).contains("none.json"));
    assert_eq!(Store::open_read_only(&scratch.path("db.sqlite")).unwrap().choices().unwrap().len(), 2);
    let output = sweep(&scratch, &format!("{missing},hip:63"), &scratch.untuned(&[1]), &[]);
    assert_eq!(code(&output), 3, "no device is left: {}", stderr(&output));
    let output = sweep(&scratch, &format!("{good},{good}"), &scratch.untuned(&[1]), &[]);
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    assert!(stderr(&output).contains("named twice"));
}

#[test]
fn a_budget_is_the_time_of_all_devices_together() {
    let scratch = Scratch::new();
    let slow = json!({ "behaviours": [{ "kind": "hang" }] });
    let both = [device(&scratch, "a.json", 2, slow.clone()), device(&scratch, "b.json", 2, slow)];
    let started = std::time::Instant::now();
    let untuned = scratch.untuned(&(1..=20).collect::<Vec<_>>());
    let output = sweep(&scratch, &both.join(","), &untuned, &["--budget", "4s"]);
    assert!(started.elapsed().as_secs_f64() < 14.0, "took {:?}", started.elapsed());
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert!(stdout(&output).contains("problems not reached"), "{}", stdout(&output));
}
