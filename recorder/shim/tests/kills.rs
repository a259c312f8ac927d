//! SIGKILL at any moment: whole lines, and every problem whose call had returned.

mod common;

use std::io::Read as _;
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::{Bench, counts_by_m};

/// Takes a seed back.
const SEED: &str = "TGEMM_KILL_SEED";

#[test]
fn a_kill_loses_no_problem_and_at_most_half_of_a_count() {
    const KILLS: u32 = 50;
    let Some(bench) = Bench::new() else { return };
    let host = bench.host();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok()).unwrap_or(now | 1);
    eprintln!("{SEED}={seed}");
    let mut state: u64 = seed;
    let mut told_most = 0;
    for kill in 0..KILLS {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let place = if kill % 2 == 0 { format!("kill-{kill}") } else { format!("kill-{kill}.csv") };
        let mut child = bench
            .recording(&host, &place)
            .arg("progress")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut pipe = child.stdout.take().unwrap();
        let mut bytes = vec![0; 4];
        // Most kills come while it records, some while it starts.
        if kill % 10 != 9 {
            pipe.read_exact(&mut bytes).unwrap();
        } else {
            bytes.clear();
        }
        std::thread::spawn({
            let (pid, pause) = (child.id() as i32, Duration::from_micros(state % 40_000));
            move || {
                std::thread::sleep(pause);
                // SAFETY: our own child, which nobody has waited for.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
        });
        pipe.read_to_end(&mut bytes).unwrap();
        assert!(!child.wait().unwrap().success());
        let counts = counts_by_m(&bench.path(&place));
        let mut told = std::collections::BTreeMap::<u32, u64>::new();
        for m in bytes.chunks_exact(4).map(|m| u32::from_ne_bytes(m.try_into().unwrap())) {
            *told.entry(m).or_default() += 1;
        }
        told_most = told_most.max(told.len());
        for (m, times) in &told {
            let count = counts.get(m).copied().unwrap_or(0);
            // The call under way may be counted and not told.
            assert!(count * 2 >= *times && count <= times + 1, "kill {kill}: M={m}: {count} of {times}");
        }
        assert!(counts.len() <= told.len() + 1, "kill {kill}: {} of {}", counts.len(), told.len());
    }
    assert!(told_most > 100, "hosts were killed before they did anything");
}
