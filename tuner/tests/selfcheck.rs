//! `tune selfcheck`: the bundle says what works, and not who ran it where.

mod common;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::Output;

use common::{Scratch, code, stderr, stdout, tune};
use serde_json::{Value, json};
use tgemm_db::store::Store;

/// The files of a bundle by name.
fn files(bundle: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut tar = tar::Archive::new(std::fs::File::open(bundle).expect("the bundle is there"));
    let mut files = BTreeMap::new();
    for entry in tar.entries().expect("a tar file") {
        let mut entry = entry.expect("a whole entry");
        let name = entry.path().expect("a name").file_name().expect("a file").to_string_lossy().into_owned();
        assert_eq!((entry.header().uid().unwrap(), entry.header().gid().unwrap()), (0, 0), "no owner");
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("whole");
        files.insert(name, bytes);
    }
    files
}

fn text(files: &BTreeMap<String, Vec<u8>>, name: &str) -> String {
    let bytes = files.get(name).unwrap_or_else(|| panic!("{name} is in the bundle"));
    String::from_utf8(bytes.clone()).expect("text")
}

/// Checks `device` on one small problem, as user `zebediah` of host `planted-host` with a home of its own.
fn check(scratch: &Scratch, device: &str) -> Output {
    let home = scratch.path("people/zebediah");
    std::fs::create_dir_all(&home).unwrap();
    let mut command = tune();
    command.env("HOME", &home).env("USER", "zebediah").env("LOGNAME", "zebediah").env("HOSTNAME", "planted-host.lab");
    command.args(["selfcheck", "--device", device, "--budget", "20s", "--bundle"]).arg(scratch.path("bundle.tar"));
    command.arg("--untuned").arg(scratch.untuned(&[3]));
    command.output().expect("tune runs")
}

#[test]
fn a_device_that_works_passes_and_everything_is_there() {
    let scratch = Scratch::new();
    let device = scratch.script(json!([
        { "name": "default", "time_us": 100, "noise": 0.01, "baseline": "scripted gemm" },
        { "name": "good", "time_us": 60, "noise": 0.01 },
        { "name": "reference", "time_us": 80, "noise": 0.01, "effort": "Full" },
    ]));
    let output = check(&scratch, &device);
    assert_eq!(code(&output), 0, "{}\n{}", stdout(&output), stderr(&output));
    let files = files(&scratch.path("bundle.tar"));
    for name in
        text(&files, "README.txt").lines().filter(|line| line.contains("  ")).map(|l| l.split(' ').next().unwrap())
    {
        let stem = name.trim_end_matches('*');
        assert!(files.keys().any(|file| file.starts_with(stem)), "{name} is promised");
    }
    // Balanced lists leave the reference out, full ones hold it.
    let lists = text(&files, "lists.csv");
    assert!(lists.contains(",balanced,scripted,1,1,") && lists.contains(",full,scripted,1,2,"), "{lists}");
    let routes = text(&files, "routes.csv");
    assert_eq!(routes.matches(",stored,ok,true,").count(), 2, "{routes}");
    assert_eq!(routes.matches(",other build,unsupported,true,").count(), 1, "{routes}");
    assert!(text(&files, "report.md").contains("| faster |"));
    let doctor: Value = serde_json::from_str(&text(&files, "doctor.json")).expect("JSON");
    assert_eq!(doctor.as_array().map(Vec::len), Some(3), "two dialects and the CPU");
    for line in text(&files, "sweep.jsonl").lines() {
        serde_json::from_str::<Value>(line).expect("JSON lines");
    }
    let db = scratch.path("copy.sqlite");
    std::fs::write(&db, &files["sweep.sqlite"]).unwrap();
    let store = Store::open_read_only(&db).expect("the copy opens");
    store.integrity_check().expect("and is sound");
    assert_eq!(store.choices().unwrap()[0].solution.name.as_str(), "good");
}

/// Every place from which a name could come: a solution's name, a script in a home folder, the command line, the paths of
/// databases and CSVs, a crash's last words.
#[test]
fn nothing_in_the_bundle_says_who_or_where() {
    let scratch = Scratch::new();
    let secrets = ["zebediah", "planted-host", "10.11.12.13", "/home/somebody", "fe80::dead:beef"];
    let name = format!("kernel of {}", secrets.join(" "));
    let folder = scratch.path("people/zebediah");
    std::fs::create_dir_all(&folder).unwrap();
    let script = json!({ "seed": 7, "version": "1 built by zebediah on planted-host.lab", "solutions": [
        { "name": "default", "time_us": 100, "noise": 0.01, "baseline": "call of zebediah" },
        { "name": name, "time_us": 60, "noise": 0.01, "params": { "path": "/home/somebody/x", "host": "10.11.12.13" } },
        { "name": "zebediah's crash", "time_us": 60, "behaviours": [{ "kind": "abort" }] },
    ] });
    let path = folder.join("script.json");
    std::fs::write(&path, script.to_string()).unwrap();
    let output = check(&scratch, &format!("scripted:{}", path.display()));
    assert!(matches!(code(&output), 0 | 1), "{}\n{}", stdout(&output), stderr(&output));
    let files = files(&scratch.path("bundle.tar"));
    for (file, bytes) in &files {
        let text = String::from_utf8_lossy(bytes).to_lowercase();
        for secret in secrets {
            assert!(!text.contains(secret), "{file} holds '{secret}'");
        }
    }
    // It went everywhere, so it was taken out everywhere.
    for file in ["routes.csv", "solutions.csv", "sweep.jsonl", "sweep.txt", "report.md", "choices.csv", "sweep.sqlite"]
    {
        let text = String::from_utf8_lossy(&files[file]);
        assert!(text.contains("<user>") && text.contains("<host>") && text.contains("<address>"), "{file}");
    }
}

#[test]
fn without_a_device_the_bundle_still_says_what_was_tried() {
    let scratch = Scratch::new();
    let output = check(&scratch, &format!("scripted:{}", scratch.path("none.json").display()));
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    let files = files(&scratch.path("bundle.tar"));
    assert!(text(&files, "README.txt").contains("no device: "));
    assert!(text(&files, "doctor.txt").contains("hip"));
}

/// Whoever gets a bundle can measure its choices again, and sees when a solution is no longer what it was.
#[test]
fn the_choices_of_a_bundle_can_be_verified_elsewhere() {
    let scratch = Scratch::new();
    let device = scratch.script(json!([
        { "name": "default", "time_us": 100, "noise": 0.01, "baseline": "scripted gemm" },
        { "name": "good", "time_us": 60, "noise": 0.01 },
    ]));
    let output = check(&scratch, &device);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let db = scratch.write("from-bundle.sqlite", &files(&scratch.path("bundle.tar"))["sweep.sqlite"]);
    let verify = || tune().args(["verify", "--device", &device, "--db"]).arg(&db).output().unwrap();
    assert_eq!(code(&verify()), 0, "{}", stdout(&verify()));
    let script = scratch.path("script.json");
    std::fs::write(&script, std::fs::read_to_string(&script).unwrap().replace("good", "other")).unwrap();
    let output = verify();
    assert_eq!(code(&output), 1, "{}", stdout(&output));
    assert!(stdout(&output).contains("refused"), "{}", stdout(&output));
}
