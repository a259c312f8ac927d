//! The store's figures, printed: `cargo test --release -p tgemm-db --features sqlite --test store_figures -- --ignored --nocapture`.
#![cfg(feature = "sqlite")]

mod store_words;

use std::time::Instant;

use store_words::{begin, choice, problem, trial};
use tgemm_db::Constraints;
use tgemm_db::store::Store;

const TRIALS: u32 = 5_000;
const CHOICES: u32 = 100_000;
const SYNCED_CHOICES: u32 = 200;

/// Milliseconds that this thread was on a processor: what remains of a figure on a machine that does other things.
fn busy_ms() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).map_or(f64::NAN, |ns| ns / 1e6)
}

#[test]
#[ignore = "measures; means something in release builds only"]
fn figures() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.sqlite");
    let mut store = Store::open(&path).unwrap();
    let (run, env) = begin(&mut store);

    let (start, busy) = (Instant::now(), busy_ms());
    for number in 0..TRIALS {
        store.save_trial(run, env, &problem(1 + number / 50), &trial(i64::from(number % 50), 30)).unwrap();
    }
    let seconds = start.elapsed().as_secs_f64();
    let busy = (busy_ms() - busy) * 1e3 / f64::from(TRIALS);
    println!("save_trial, 30 timings: {:.0}/s, {busy:.0} us busy each", f64::from(TRIALS) / seconds);

    let constraints = Constraints::default();
    let start = Instant::now();
    for number in 1..=SYNCED_CHOICES {
        store.save_choice(run, env, &constraints, &choice(number)).unwrap();
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("save_choice, synced: {:.0}/s", f64::from(SYNCED_CHOICES) / seconds);

    let start = Instant::now();
    let has = (1..=10_000).filter(|&m| store.has_choice(env, &constraints, &problem(m)).unwrap()).count();
    println!("has_choice: {:.1} us ({has} of 10000 there)", start.elapsed().as_secs_f64() * 100.0);

    let start = Instant::now();
    let found = store.trials(env, &problem(1)).unwrap();
    println!("trials, 50 of 30 timings: {:.2} ms", start.elapsed().as_secs_f64() * 1e3);
    assert_eq!(found.len(), 50);
    store.close().unwrap();
    let bytes = std::fs::metadata(&path).unwrap().len();
    println!("file: {:.1} bytes a timing", bytes as f64 / f64::from(TRIALS * 30));

    let mut store = Store::open(&path).unwrap();
    let many: Vec<_> = (1..=CHOICES).map(choice).collect();
    let (start, busy) = (Instant::now(), busy_ms());
    store.save_choices(run, env, &constraints, &many).unwrap();
    let (seconds, busy) = (start.elapsed().as_secs_f64(), (busy_ms() - busy) / 1e3);
    println!("save_choices, {CHOICES} in one: {seconds:.2} s, {busy:.2} of them busy");
    store.close().unwrap();

    let (start, busy) = (Instant::now(), busy_ms());
    let store = Store::open_read_only(&path).unwrap();
    let found = store.choices().unwrap();
    let (milliseconds, busy) = (start.elapsed().as_secs_f64() * 1e3, busy_ms() - busy);
    println!(
        "choices, {CHOICES} with two baselines each, opening included: {milliseconds:.0} ms, {busy:.0} of them busy"
    );
    assert_eq!(found.len(), CHOICES as usize);
    assert_eq!(found[found.len() - 1], choice(CHOICES));
}
