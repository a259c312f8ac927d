//! What the shim adds to a call: a program that calls an empty `cblas_sgemm` runs without it, with it switched off, and
//! recording, in turn. `cargo bench -p tgemm-shim`.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Bench, counts, run, said};

/// Times that each kind of process is started, rounds of each, and calls a round.
const STARTS: u32 = 15;
const ROUNDS: u64 = 40;
const CALLS: u64 = 20_000;

fn main() {
    let Some(bench) = Bench::new() else { return };
    bench.tinyblas("tinyblas", &["-DIDLE"]);
    let client = bench.build("timed", "timed.c", &["-ltinyblas"]);
    let kinds = ["without", "off", "recording"];
    let mut least = [f64::INFINITY; 3];
    for start in 0..STARTS {
        for at in 0..kinds.len() {
            // Another one first each time.
            let at = (at + start as usize) % kinds.len();
            let command = match kinds[at] {
                "without" => bench.alone(&client),
                "off" => bench.off(&client),
                _ => bench.recording(&client, "recorded"),
            };
            let output = run(command, &[ROUNDS.to_string(), CALLS.to_string()]);
            least[at] = least[at].min(said(&output).trim().parse().expect("a number"));
        }
    }
    let recorded: u64 = counts(&bench.path("recorded")).values().sum();
    assert_eq!(recorded, u64::from(STARTS) * ROUNDS * CALLS, "it did record");
    println!("ns per call of an empty cblas_sgemm, the least of {} rounds", u64::from(STARTS) * ROUNDS);
    for (kind, ns) in kinds.iter().zip(least) {
        println!("{kind:>10} {ns:8.2}   added {:8.2}", ns - least[0]);
    }
}
