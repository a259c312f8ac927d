//! Inputs that are not what they should be: one clear line that names file and line, the right exit code, nothing
//! half-written.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{Scratch, code, run, stderr, stdout, sweep, tune};
use serde_json::json;

const HEADER: &str = "M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle";
const GOOD: &str = "2,24,32,False,torch.float32,torch.float32,False,False";

fn device(scratch: &Scratch) -> String {
    scratch.script(json!([{ "name": "default", "time_us": 100, "baseline": "scripted gemm" }]))
}

/// Sweeps `content` and returns (exit code, standard error).
fn try_untuned(content: impl AsRef<[u8]>) -> (i32, String) {
    let scratch = Scratch::new();
    let device = device(&scratch);
    let untuned = scratch.write("in.csv", content);
    let output = sweep(&scratch, &device, &untuned, &[]);
    (code(&output), stderr(&output))
}

/// The lines on standard error that come from errors and warnings.
fn complaints(stderr: &str) -> Vec<&str> {
    stderr.lines().filter(|line| line.starts_with("tune:")).collect()
}

#[test]
fn files_that_are_no_untuned_csv_end_with_one_line_and_code_2() {
    let scratch = Scratch::new();
    let device = device(&scratch);
    let folder = scratch.path("folder.csv");
    fs::create_dir(&folder).unwrap();
    let binary: Vec<u8> = (0..4096u32).map(|i| (i.wrapping_mul(2654435761) >> 13) as u8).collect();
    let cases = [
        ("missing", scratch.path("missing.csv")),
        ("a directory", folder),
        ("binary junk", scratch.write("junk.csv", &binary)),
        ("another header", scratch.write("other.csv", "a,b,c\n1,2,3\n")),
        ("empty", scratch.write("empty.csv", "")),
        ("header only", scratch.write("header.csv", format!("{HEADER}\n"))),
        ("a tuned table", scratch.write("tuned.csv", "gfx,cu_num,M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle,libtype,solidx,splitK,us,kernelName,err_ratio,tflops,bw\n")),
    ];
    for (what, path) in cases {
        let output = sweep(&scratch, &device, &path, &[]);
        assert_eq!(code(&output), 2, "{what}: {}", stderr(&output));
        let text = stderr(&output);
        assert_eq!(complaints(&text).len(), 1, "{what}: {text}");
        assert!(text.contains(&path.display().to_string()), "{what} names the file: {text}");
        assert!(!scratch.path("db.sqlite").exists(), "{what}: no database is made for input that cannot be used");
    }
}

#[test]
fn bad_rows_are_named_by_line_and_the_good_ones_are_tuned() {
    let rows = [
        ("letters", "x,24,32,False,torch.float32,torch.float32,False,False"),
        ("M = 0", "0,24,32,False,torch.float32,torch.float32,False,False"),
        ("2^63", "9223372036854775808,24,32,False,torch.float32,torch.float32,False,False"),
        ("negative", "-1,24,32,False,torch.float32,torch.float32,False,False"),
        ("inf", "inf,24,32,False,torch.float32,torch.float32,False,False"),
        ("short", "2,24,32,False"),
        ("long", "2,24,32,False,torch.float32,torch.float32,False,False,False,False"),
        ("no type", "2,24,32,False,torch.float31,torch.float32,False,False"),
        ("no bool", "2,24,32,maybe,torch.float32,torch.float32,False,False"),
    ];
    for (what, row) in rows {
        let (code, text) = try_untuned(format!("{HEADER}\n{GOOD}\n{row}\n"));
        assert_eq!(code, 0, "{what}: {text}");
        let lines = complaints(&text);
        assert_eq!(lines.len(), 1, "{what}: {text}");
        assert!(lines[0].contains("in.csv:3:"), "{what}: {}", lines[0]);
    }
}

#[test]
fn odd_but_readable_files_are_read() {
    let variants = [
        ("CRLF", format!("{HEADER}\r\n{GOOD}\r\n")),
        ("BOM", format!("\u{feff}{HEADER}\n{GOOD}\n")),
        ("no final newline", format!("{HEADER}\n{GOOD}")),
        ("blank lines", format!("{HEADER}\n\n{GOOD}\n\n")),
        ("spaces", format!("{}\n{}\n", HEADER.replace(',', ", "), GOOD.replace(',', ", "))),
    ];
    for (what, text) in variants {
        let (code, errors) = try_untuned(text);
        assert_eq!((code, complaints(&errors).len()), (0, 0), "{what}: {errors}");
    }
}

#[test]
fn databases_that_are_not_ours_are_refused_and_left_alone() {
    let scratch = Scratch::new();
    let device = device(&scratch);
    let untuned = scratch.untuned(&[2]);
    let newer = {
        let output = sweep(&scratch, &device, &untuned, &[]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let mut bytes = fs::read(scratch.path("db.sqlite")).unwrap();
        // SQLite's header keeps user_version, big-endian, at byte 60.
        bytes[60..64].copy_from_slice(&99u32.to_be_bytes());
        bytes
    };
    let mut foreign = newer.clone();
    foreign[60..64].copy_from_slice(&0u32.to_be_bytes());
    foreign[68..72].copy_from_slice(&0u32.to_be_bytes());
    let cases =
        [("newer schema", newer, "99"), ("foreign SQLite", foreign, ""), ("no SQLite", b"hello world".repeat(99), "")];
    for (what, content, says) in cases {
        let path = scratch.write("other.sqlite", &content);
        let mut command = tune();
        command.arg("sweep").arg(&untuned).arg("--db").arg(&path).args(["--device", &device]);
        let output = command.output().unwrap();
        assert_eq!(code(&output), 2, "{what}: {}", stderr(&output));
        let text = stderr(&output);
        assert!(text.contains("other.sqlite") && text.contains(says), "{what}: {text}");
        assert_eq!(fs::read(&path).unwrap(), content, "{what}: untouched");
    }
}

#[test]
fn lookups_report_bad_tuned_rows_and_answer_from_the_rest() {
    let scratch = Scratch::new();
    let header = "gfx,cu_num,M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle,libtype,solidx,splitK,us,kernelName,err_ratio,tflops,bw";
    let row = |m: &str, us: &str| {
        format!(
            "gfx942,304,{m},24,32,False,torch.bfloat16,torch.bfloat16,False,False,hipblaslt,7,0,{us},Cijk,0.0,1,1\n"
        )
    };
    let table = format!("{header}\n{}{}{}{}", row("1", "5.5"), row("2", "0"), row("4", "inf"), row("8", "-1"));
    let path = scratch.write("aiter.csv", table);
    let look = |m: &str| {
        let path = path.display().to_string();
        run(["lookup", "--db", &path, "-m", m, "-n", "24", "-k", "32", "--assume-device", "gfx942/304"])
    };
    let hit = look("1");
    assert_eq!(code(&hit), 0, "{}", stderr(&hit));
    assert!(stdout(&hit).contains("hipblaslt"));
    for m in ["2", "4", "8"] {
        let miss = look(m);
        assert_eq!(code(&miss), 1, "M={m}: us of a placeholder is no time\n{}", stdout(&miss));
    }
    assert!(stderr(&hit).contains("aiter.csv:3:"), "{}", stderr(&hit));
    let missing = run(["lookup", "--db", "/nonexistent/x.csv", "-m", "1", "-n", "24", "-k", "32"]);
    assert_eq!(code(&missing), 2);
}

#[test]
fn devices_that_are_not_there_end_with_code_3() {
    let scratch = Scratch::new();
    let untuned = scratch.untuned(&[1]);
    for device in ["hip:77", "cuda:77", "cuda:x", "tpu", "scripted:/nonexistent.json"] {
        let output = sweep(&scratch, device, &untuned, &[]);
        assert_eq!(code(&output), 3, "{device}: {}", stderr(&output));
        assert!(stderr(&output).contains(device), "{}", stderr(&output));
    }
}

#[test]
fn arguments_that_make_no_sense_end_with_code_2() {
    let scratch = Scratch::new();
    let untuned = scratch.untuned(&[1]).display().to_string();
    let db = scratch.path("db.sqlite").display().to_string();
    let cases: [&[&str]; 7] = [
        &["sweep", &untuned],
        &["sweep", &untuned, "--db", &db, "--budget", "soon"],
        &["sweep", &untuned, "--db", &db, "--where", "m <"],
        &["sweep", &untuned, "--db", &db, "--where", "m > 99"],
        &["sweep", &untuned, "--db", &db, "--min-gain", "200"],
        &["lookup", "--db", &untuned],
        &["shapes", "--model", "/nonexistent/config.json"],
    ];
    for args in cases {
        let output = run(args);
        assert_eq!(code(&output), 2, "{args:?}: {}", stderr(&output));
        assert!(!stderr(&output).is_empty());
    }
    let worker = run(["worker"]);
    assert_eq!(code(&worker), 2, "the worker is not for people: {}", stderr(&worker));
}

/// Runs `tune` in a mount namespace of its own with `folder` mounted as `options` say; `None` where that is not allowed.
fn in_mount(folder: &Path, mount: &str, args: &[&str]) -> Option<std::process::Output> {
    let script = format!("{mount} && exec \"$0\" \"$@\"");
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", &script, env!("CARGO_BIN_EXE_tune")])
        .args(args)
        .env("FOLDER", folder)
        .output()
        .ok()?;
    let text = stderr(&output);
    let refused = text.contains("unshare") || text.contains("mount:");
    if refused {
        eprintln!("skipped: mounting is not allowed here: {text}");
    }
    (!refused).then_some(output)
}

#[test]
fn a_full_disk_is_one_line_and_loses_nothing() {
    let scratch = Scratch::new();
    let device = device(&scratch);
    let untuned = scratch.untuned(&[1, 2, 3]);
    let disk = scratch.path("disk");
    fs::create_dir(&disk).unwrap();
    let db = disk.join("db.sqlite");
    let args = ["sweep", &untuned.display().to_string(), "--db", &db.display().to_string(), "--device", &device];
    let mount = "mount -t tmpfs -o size=64k tmpfs \"$FOLDER\"";
    let Some(output) = in_mount(&disk, mount, &args) else { return };
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    let text = stderr(&output);
    let lines = complaints(&text);
    assert!(lines.len() == 1 && lines[0].contains("db.sqlite"), "{text}");
}

#[test]
fn a_read_only_folder_is_read_from_but_not_written_to() {
    let scratch = Scratch::new();
    let device = device(&scratch);
    let untuned = scratch.untuned(&[2]);
    let folder = scratch.path("ro");
    fs::create_dir(&folder).unwrap();
    let db = folder.join("db.sqlite").display().to_string();
    let untuned = untuned.display().to_string();
    let args = ["sweep", &untuned, "--db", &db, "--device", &device];
    assert_eq!(code(&run(args)), 0);
    let mount = "mount --bind \"$FOLDER\" \"$FOLDER\" && mount -o remount,ro,bind \"$FOLDER\"";
    let Some(output) = in_mount(&folder, mount, &[&args[..], &["--again"]].concat()) else { return };
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    assert!(stderr(&output).contains("db.sqlite"));
    let export = in_mount(&folder, mount, &["db", "export", "--db", &db]).expect("as before");
    assert_eq!(code(&export), 0, "{}", stderr(&export));
    assert!(stdout(&export).lines().count() == 2, "header and one choice");
}
