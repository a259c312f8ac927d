use super::*;
use crate::measure::{Bench, BenchOptions, BlockEntry};
use crate::{Mode, library};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use tgemm_db::{DType, Site};

/// Figures of the only solution of a script, one a block.
fn figures(json: &str, m: u32, blocks: usize) -> Vec<f64> {
    let mut context = ScriptedContext::from_json(json).unwrap();
    let problem = Problem::from(Site::linear(8, 8, DType::F32).at(m));
    let mut bench = Bench::new(&context, &problem, &BenchOptions::default()).unwrap();
    let solution = context.libraries()[0].candidates(&problem, Effort::Full, &Ask::default()).unwrap().remove(0);
    let prepared = context.libraries()[0].prepare(&problem, &solution).unwrap();
    let id = bench.load(&context, prepared).unwrap().id;
    let block = [BlockEntry { id, calls: 4 }];
    (0..blocks).map(|_| bench.measure(&mut context, &block, Mode::Rotated).unwrap()[0]).collect()
}

#[test]
fn noise_is_log_normal_and_the_same_every_time() {
    let json = r#"{"seed": 5, "solutions": [{"name": "a", "time_us": 100, "noise": 0.1}]}"#;
    let times = figures(json, 1, 2000);
    assert_eq!(times, figures(json, 1, 2000));
    assert_ne!(times, figures(&json.replace("5", "6"), 1, 2000));
    let logs: Vec<f64> = times.iter().map(|us| (us / 100.0).ln()).collect();
    let mean = logs.iter().sum::<f64>() / 2000.0;
    let deviation = (logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / 2000.0).sqrt();
    assert!(mean.abs() < 0.01 && (deviation - 0.1).abs() < 0.01, "{mean} {deviation}");
}

#[test]
fn costs_follow_m_and_drift() {
    let json = r#"{"solutions": [{"name": "a", "time_us": {"4": 10, "16": 20}, "drift": 0.5}]}"#;
    assert_eq!(figures(json, 1, 3), [10.0, 15.0, 22.5]);
    assert_eq!(figures(json, 15, 1), [10.0]);
    assert_eq!(figures(json, 16, 1), [20.0]);
}

#[test]
fn real_time_takes_its_time() {
    let json = r#"{"real_time": true, "solutions": [{"name": "a", "time_us": 2000}]}"#;
    let us = figures(json, 1, 1)[0];
    assert!((2000.0..200_000.0).contains(&us), "{us}");
}

#[test]
fn libraries_baselines_efforts_and_parameters_are_as_scripted() {
    let context = ScriptedContext::from_json(
        r#"{"version": "2.1", "solutions": [
            {"name": "a", "library": "one", "time_us": 1, "baseline": "call", "params": {"threads": 2, "mode": "x"}},
            {"name": "a", "library": "one", "time_us": 1, "params": {"threads": 1}, "effort": "Full",
             "numerics": "partial16", "weight_form": "prepacked", "workspace_bytes": 7},
            {"name": "a", "library": "two", "time_us": 1}]}"#,
    )
    .unwrap();
    let problem = Problem::from(Site::linear(8, 8, DType::F32).at(1));
    assert_eq!(context.environment().builds.len(), 2);
    let one = library(&context, "one").unwrap();
    assert_eq!(one.candidates(&problem, Effort::Balanced, &Ask::default()).unwrap().len(), 1);
    let all = one.candidates(&problem, Effort::Full, &Ask::default()).unwrap();
    assert_eq!(all[0].key(), "one|2.1||0|a|mode=x;threads=2|plain");
    assert_eq!(all[1].to_string(), "one a prepacked threads=1");
    assert_eq!((all[1].numerics, all[1].workspace_bytes), (tgemm_db::Numerics::Partial16, 7));
    let baselines = one.baselines(&problem, &Ask::default());
    assert_eq!((baselines.len(), &*baselines[0].via, &baselines[0].solution), (1, "call", &all[0]));
    let two = library(&context, "two").unwrap();
    assert!(matches!(two.prepare(&problem, &all[0]), Err(Error::Unsupported(_))));
    assert!(two.baselines(&problem, &Ask::default()).is_empty());
}

#[test]
fn neighbours_are_on_no_list() {
    let json = |near: &str| {
        format!(r#"{{"solutions": [{{"name": "a", "time_us": 2}}, {{"name": "b", "time_us": 1, "near": "{near}"}}]}}"#)
    };
    let context = ScriptedContext::from_json(&json("a")).unwrap();
    let (problem, ask) = (Problem::from(Site::linear(8, 8, DType::F32).at(1)), Ask::default());
    let library = &context.libraries()[0];
    let listed = library.candidates(&problem, Effort::Full, &ask).unwrap();
    assert_eq!(listed.iter().map(|s| &*s.name).collect::<Vec<_>>(), ["a"]);
    let near = library.neighbours(&problem, &listed[0], &ask).unwrap();
    assert_eq!(near.iter().map(|s| &*s.name).collect::<Vec<_>>(), ["b"]);
    assert!(library.prepare(&problem, &near[0]).is_ok());
    assert!(library.neighbours(&problem, &near[0], &ask).unwrap().is_empty());
    assert!(ScriptedContext::from_json(&json("b")).is_err() && ScriptedContext::from_json(&json("c")).is_err());
}

#[test]
fn a_disturbed_block_is_no_failure_of_its_solution() {
    let json = r#"{"solutions": [{"name": "a", "time_us": 1,
        "behaviours": [{"kind": "disturbed", "when": "measure", "every": 2}]}]}"#;
    let mut context = ScriptedContext::from_json(json).unwrap();
    let problem = Problem::from(Site::linear(8, 8, DType::F32).at(1));
    let mut bench = Bench::new(&context, &problem, &BenchOptions::default()).unwrap();
    let solution = context.libraries()[0].candidates(&problem, Effort::Full, &Ask::default()).unwrap().remove(0);
    let id = bench.load(&context, context.libraries()[0].prepare(&problem, &solution).unwrap()).unwrap().id;
    let block = [BlockEntry { id, calls: 1 }];
    let timed: Vec<_> = (0..4).map(|_| bench.measure(&mut context, &block, Mode::Rotated)).collect();
    assert!(timed.iter().filter(|t| t.is_ok()).count() == 2, "{timed:?}");
    assert!(timed.iter().filter(|t| matches!(t, Err(Error::Disturbed(_)))).count() == 2, "{timed:?}");
}

#[test]
fn preparing_and_packing_fail_as_scripted() {
    let problem = Problem::from(Site::linear(8, 8, DType::F32).at(1));
    let error = |behaviour: &str| {
        let context = ScriptedContext::from_json(&format!(
            r#"{{"solutions": [{{"name": "a", "time_us": 1, "weight_form": "prepacked", "behaviours": [{behaviour}]}}]}}"#
        ))
        .unwrap();
        let library = &context.libraries()[0];
        let solution = library.candidates(&problem, Effort::Full, &Ask::default()).unwrap().remove(0);
        let mut bench = Bench::new(&context, &problem, &BenchOptions::default()).unwrap();
        library.prepare(&problem, &solution).and_then(|prepared| bench.load(&context, prepared)).unwrap_err()
    };
    assert!(matches!(error(r#"{"kind": "unsupported", "when": "prepare"}"#), Error::Unsupported(_)));
    assert!(matches!(error(r#"{"kind": "out_of_memory", "when": "pack"}"#), Error::OutOfMemory { .. }));
    assert!(matches!(error(r#"{"kind": "error", "when": "pack"}"#), Error::Failed { .. }));
}

#[test]
fn memory_is_counted() {
    let json = r#"{"memory_bytes": 1000, "solutions": [{"name": "a", "time_us": 1}]}"#;
    let context = ScriptedContext::from_json(json).unwrap();
    let mut buffer = context.alloc(900).unwrap();
    assert_eq!((buffer.as_ptr() as usize % ALIGN, context.available_bytes()), (0, 100));
    assert!(matches!(context.alloc(101), Err(Error::OutOfMemory { bytes: 101, .. })));
    context.write(&mut buffer, 897, b"abc").unwrap();
    assert!(context.write(&mut buffer, 898, b"abc").is_err());
    let mut seen = [0; 3];
    context.read(&buffer, 897, &mut seen).unwrap();
    assert_eq!(&seen, b"abc");
    assert!(context.read(&buffer, usize::MAX, &mut seen).is_err());
    drop(buffer);
    assert_eq!(context.available_bytes(), 1000);
}

#[test]
fn scripts_that_cannot_be_played_say_why() {
    let error = |text: &str| ScriptedContext::from_json(text).err().expect("must be refused").to_string();
    let one = |rest: &str| error(&format!(r#"{{"solutions": [{{"name": "a", {rest}}}]}}"#));
    assert_eq!(error(r#"{"solutions": []}"#), "a script with 0 solutions; it must have between 1 and 4096");
    assert_eq!(one(r#""time_us": 0"#), "script: solution 'a': time_us must be above 0");
    assert!(one(r#""time_us": {}"#).contains("above 0"));
    assert!(one(r#""time_us": {"x": 1}"#).contains("'x' is no number of tokens"));
    assert!(one(r#""time_us": "fast""#).contains("neither a number nor an object"));
    assert!(one(r#""time_us": 1, "speed": 2"#).contains("unknown field `speed`"));
    assert!(one(r#""time_us": 1, "noise": -1"#).contains("noise must be"));
    assert!(one(r#""time_us": 1, "weight_form": "boxed""#).contains("unknown weight form 'boxed'"));
    assert!(one(r#""time_us": 1, "numerics": "good""#).contains("unknown numerics class 'good'"));
    assert!(one(r#""time_us": 1, "behaviours": [{"kind": "nan", "when": "pack"}]"#).contains("only happen at"));
    assert!(one(r#""time_us": 1, "behaviours": [{"kind": "nan", "every": 0}]"#).contains("at least 1"));
    assert!(one(r#""time_us": 1, "behaviours": [{"kind": "over_workspace"}]"#).contains("needs workspace_bytes"));
    let twice = r#"{"solutions": [{"name": "a", "time_us": 1}, {"name": "a", "time_us": 2}]}"#;
    assert_eq!(error(twice), "script: solution 'a': stands twice with the same parameters");
    let absent = ScriptedContext::open(Path::new("no/such/script.json")).err().expect("must be refused");
    assert!(absent.to_string().starts_with("no/such/script.json: "));
}

/// Set for a child: the behaviour that it should show.
const CHILD: &str = "TGEMM_TEST_SCRIPTED_CHILD";

/// Run in a child process only: verifies, then measures, a solution that never lets it come to the end.
#[test]
fn child() {
    let Ok(behaviour) = std::env::var(CHILD) else { return };
    let json = format!(r#"{{"solutions": [{{"name": "a", "time_us": 1, "behaviours": [{behaviour}]}}]}}"#);
    let mut context = ScriptedContext::from_json(&json).unwrap();
    let problem = Problem::from(Site::linear(8, 8, DType::F32).at(1));
    let mut bench = Bench::new(&context, &problem, &BenchOptions::default()).unwrap();
    let solution = context.libraries()[0].candidates(&problem, Effort::Full, &Ask::default()).unwrap().remove(0);
    let prepared = context.libraries()[0].prepare(&problem, &solution).unwrap();
    let id = bench.load(&context, prepared).unwrap().id;
    assert_eq!(bench.verify(&mut context, id, f64::INFINITY).unwrap().outcome, tgemm_db::Outcome::ok());
    eprintln!("verified");
    bench.measure(&mut context, &[BlockEntry { id, calls: 1 }], Mode::Warm).unwrap();
    eprintln!("measured");
}

fn command(behaviour: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "scripted::tests::child", "--nocapture"]).env(CHILD, behaviour);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn shows(output: &Output, verified: bool, measured: bool) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!((stderr.contains("verified"), stderr.contains("measured")), (verified, measured), "{stderr}");
}

#[test]
fn processes_die_when_the_script_says_so() {
    use std::os::unix::process::ExitStatusExt;
    for (when, verified) in [("verify", false), ("measure", true)] {
        let behaviour = |kind: &str| format!(r#"{{"kind": "{kind}", "when": "{when}"}}"#);
        let aborted = command(&behaviour("abort")).output().unwrap();
        assert_eq!(aborted.status.signal(), Some(libc::SIGABRT));
        shows(&aborted, verified, false);
        let exited = command(&behaviour("exit0")).output().unwrap();
        assert_eq!(exited.status.code(), Some(0));
        shows(&exited, verified, false);
        let printed = command(&behaviour("garbage")).output().unwrap();
        assert!(printed.status.success() && printed.stdout.windows(2).any(|pair| pair == [0xFF, 0xFE]));
        shows(&printed, true, true);
    }
}

#[test]
fn a_hang_hangs() {
    let mut child = command(r#"{"kind": "hang", "when": "measure"}"#).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let state = child.try_wait().unwrap();
    child.kill().unwrap();
    assert_eq!(state, None);
    shows(&child.wait_with_output().unwrap(), true, false);
}
