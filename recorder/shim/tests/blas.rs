//! Programs that call a BLAS: what they did is what is recorded, and they compute what they compute without us.

mod common;

use std::process::Output;

use common::{Bench, counts, counts_by_m, expected, files, rows, run, said};
use tgemm_recorder::counters::{Counter, Counters};

const NO_ARGUMENTS: &[&str] = &[];

/// What `calls.c` does, as keys.
const CALLS: &str = "
    3 blas gemm,m=4,n=96,k=64,x=f32,w=f32,out=f32,compute=f32,trans=w
    7 blas gemm,m=4,n=96,k=64,x=f32,w=f32,out=f32,compute=f32
    1 blas gemm,m=4,n=96,k=64,x=f32,w=f32,out=f32,compute=f32,trans=xw
    2 blas gemm,m=4,n=96,k=64,x=f32,w=f32,out=f32,compute=f32,trans=x
    4 blas gemm,m=1,n=96,k=64,x=f32,w=f32,out=f32,compute=f32
    1 blas gemm,m=4,n=96,k=64,x=f32,w=f32,out=f32,compute=f32,ldx=80,ldw=72,ldo=112
    1 blas gemm,m=4,n=96,k=64,x=f32,w=f32,out=f32,compute=f32,alpha=other,beta=other
    1 blas gemm,m=4,n=96,k=64,x=f32,w=f32,out=f32,compute=f32,beta=1
    1 blas gemm,m=4,n=96,k=64,x=f32,w=f32,out=f32,compute=f32,align=4
    2 blas gemm,m=8,n=48,k=32,x=f32,w=f32,out=f32,compute=f32
    2 blas gemm,m=3,n=40,k=24,x=f64,w=f64,out=f64,compute=f64";

#[test]
fn every_call_is_recorded_as_what_it_is_and_computes_what_it_did() {
    let Some(bench) = Bench::new() else { return };
    let library = bench.tinyblas("tinyblas", &[]);
    let client = bench.build("calls", "calls.c", &["-ltinyblas"]);
    let alone = said(&run(bench.alone(&client), NO_ARGUMENTS));
    assert!(alone.lines().count() > 12 && alone.contains("linear"), "{alone}");
    assert_eq!(said(&run(bench.off(&client), NO_ARGUMENTS)), alone);
    let mut recording = bench.recording(&client, "recorded");
    recording.env("TGEMM_COUNTERS_KEEP", "1");
    assert_eq!(said(&run(recording, NO_ARGUMENTS)), alone);
    let place = bench.path("recorded");
    assert_eq!(counts(&place), expected(CALLS));
    assert_eq!(files(&place).len(), 1);
    // Products of nothing are no calls that could not be said.
    let [counters] = &files(&bench.path("counters"))[..] else { panic!("one process, one file of counters") };
    let counters = Counters::read(counters).unwrap();
    let figures = [Counter::Seen, Counter::Unrepresentable, Counter::Captured].map(|counter| counters.get(counter));
    assert_eq!(figures, [25, 0, 0]);
    let file = library.canonicalize().unwrap();
    assert!(rows(&place).iter().all(|row| row.library_file == file.to_string_lossy() && !row.captured));
}

#[test]
fn a_library_that_calls_itself_is_counted_once() {
    let Some(bench) = Bench::new() else { return };
    bench.tinyblas("tinyblas", &["-DCHAINED"]);
    let client = bench.build("calls", "calls.c", &["-ltinyblas"]);
    let alone = said(&run(bench.alone(&client), NO_ARGUMENTS));
    assert_eq!(said(&run(bench.recording(&client, "recorded"), NO_ARGUMENTS)), alone);
    assert_eq!(counts(&bench.path("recorded")), expected(CALLS));
}

/// A library opened by plugins, each linked to a BLAS of its own that multiplies by `factor`.
fn plugins(bench: &Bench, factors: &[u32]) -> Vec<String> {
    let plugin = |factor: &u32| {
        let (blas, name) = (format!("tinyblas{factor}"), format!("plugin{factor}.so"));
        bench.tinyblas(&blas, &[&format!("-DFACTOR={factor}")]);
        let plugin = bench.build(&name, "plugin.c", &["-shared", "-fPIC", &format!("-l{blas}")]);
        plugin.to_string_lossy().into_owned()
    };
    factors.iter().map(plugin).collect()
}

fn open(bench: &Bench, rounds: &str, factors: &[u32]) -> (Output, Output) {
    let client = bench.build("opener", "opener.c", &["-ldl"]);
    let arguments = [vec![rounds.to_owned()], plugins(bench, factors)].concat();
    (run(bench.alone(&client), &arguments), run(bench.recording(&client, "recorded"), &arguments))
}

#[test]
fn a_library_with_a_scope_of_its_own_is_reached() {
    let Some(bench) = Bench::new() else { return };
    let (alone, recorded) = open(&bench, "3", &[2]);
    assert_eq!(said(&alone), "2: 64\n".repeat(3));
    assert_eq!(said(&recorded), said(&alone));
    assert_eq!(counts_by_m(&bench.path("recorded")), [(3, 3)].into());
}

#[test]
fn of_two_libraries_each_caller_reaches_its_own() {
    let Some(bench) = Bench::new() else { return };
    let (alone, recorded) = open(&bench, "4", &[1, 2, 3]);
    assert_eq!(said(&alone), "2: 32\n3: 64\n4: 96\n".repeat(4));
    assert_eq!(said(&recorded), said(&alone), "each plugin gets its own library's product");
    assert_eq!(counts_by_m(&bench.path("recorded")), [(3, 12)].into());
}

#[test]
fn a_caller_that_only_jumps_reaches_the_library() {
    let Some(bench) = Bench::new() else { return };
    let (alone, recorded) = open(&bench, "-4", &[2]);
    assert_eq!(said(&alone), "2: 8\n".repeat(4));
    assert_eq!(said(&recorded), said(&alone));
    assert_eq!(counts_by_m(&bench.path("recorded")), [(2, 4)].into());
}
