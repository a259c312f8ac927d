//! The binary from end to end: record, choose, run what was chosen.

use std::path::Path;
use std::process::{Command, Output};

use tgemm_db::choice::{Ratio, Verdict};
use tgemm_db::format::{read_untuned, tuned};
use tgemm_db::{Choice, Recorded, recording};
use tgemm_kernels::cpu::CpuContext;
use tgemm_kernels::{Ask, Backend, Effort};

const CONFIG: &str = r#"{"model_type": "qwen3", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 256, "rms_norm_eps": 1e-6}"#;

fn decode(folder: &Path, arguments: &[&str], vars: &[(&str, &Path)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_decode"));
    command.args(arguments).current_dir(folder);
    for name in ["TGEMM_TUNE", "AITER_TUNE_GEMM", "TGEMM_UNTUNED", "TGEMM_DB"] {
        command.env_remove(name);
    }
    command.envs(vars.iter().copied()).output().unwrap()
}

/// For every recorded problem the first solution that rten offers.
fn choices(context: &CpuContext, rows: Vec<Recorded>) -> Vec<Choice> {
    let library = tgemm_kernels::library(context, "rten").unwrap();
    let choice = |row: Recorded| Choice {
        problem: row.problem,
        device: context.environment().device.clone().into(),
        solution: library.candidates(&row.problem, Effort::Minimal, &Ask::default()).unwrap().remove(0),
        time_us: 1.0,
        ratio: Ratio { estimate: 0.5, low: 0.4, high: 0.6 },
        verdict: Verdict::Faster,
        baselines: vec![],
        error_over_bound: 0.1,
        err_ratio: 0.0,
        pack_us: None,
        count: row.count,
        tuned_at: String::new(),
        origin: None,
    };
    rows.into_iter().map(choice).collect()
}

#[test]
fn what_one_run_records_the_next_one_hits() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("config.json"), CONFIG).unwrap();
    let (untuned, table) = (folder.path().join("untuned.csv"), folder.path().join("tuned.csv"));
    let arguments = ["--config", "config.json", "--dtype", "f16", "--batch", "2", "--prompt", "3", "--tokens", "4"];
    let first = decode(folder.path(), &arguments, &[("TGEMM_TUNE", Path::new("1")), ("TGEMM_UNTUNED", &untuned)]);
    assert!(first.status.success(), "{first:?}");
    assert!(String::from_utf8_lossy(&first.stderr).contains("9 problems recorded"), "{first:?}");

    let rows = recording::merge(read_untuned(&untuned).unwrap().into_values());
    assert_eq!(rows.len(), 9);
    // Two layers of four, and the head, in one prompt and four steps.
    assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), 5 * (2 * 4 + 1));
    tuned::write(&table, &choices(&CpuContext::open(), rows)).unwrap();

    let second = decode(folder.path(), &arguments, &[("TGEMM_DB", &table)]);
    assert!(second.status.success(), "{second:?}");
    let text = String::from_utf8(second.stdout).unwrap();
    assert_eq!(text.matches(" exact ").count(), 9, "{text}");
    assert_eq!(text.matches(" default ").count(), 0, "{text}");
    assert!(text.contains("rten") && text.trim_end().ends_with("passed"), "{text}");
}

#[test]
fn bad_input_is_one_line_and_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bad.json"), "{\"model_type\": 3}").unwrap();
    for (arguments, why) in [
        (vec!["--model", "none"], "known: tiny"),
        (vec!["--config", "absent.json"], "absent.json"),
        (vec!["--config", "bad.json"], "bad.json"),
        (vec!["--config", "."], "cannot read ."),
    ] {
        let output = decode(folder.path(), &arguments, &[]);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.lines().count() == 1 && stderr.contains(why), "{stderr}");
    }
}
