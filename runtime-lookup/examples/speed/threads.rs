//! Many threads over one table, and over one that is replaced under them.

use std::error::Error;
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tgemm_db::{Constraints, Problem};
use tgemm_lookup::{Database, Layers, Levels, Live, Refreshed};

use crate::cases::Bench;
use crate::scratch::Scratch;
use crate::table::{self, CHOICES};

const COUNTS: [usize; 5] = [1, 2, 4, 8, 16];
const SPAN: Duration = Duration::from_secs(1);
/// Lookups between two looks at the clock.
const STRETCH: usize = 512;

/// All threads together.
struct Rate {
    /// Lookups a second, millions.
    millions: f64,
    /// The longest that a thread took for [`STRETCH`] lookups, microseconds.
    longest_us: f64,
}

/// So many threads, each of which makes `each` lookup of the problems, from a place of its own on.
fn rate(threads: usize, problems: &[Problem], each: impl Fn(&Problem) -> bool + Sync) -> Rate {
    let (calls, longest_ns, begin) = (AtomicU64::new(0), AtomicU64::new(0), Barrier::new(threads));
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (calls, longest_ns, begin, each) = (&calls, &longest_ns, &begin, &each);
            scope.spawn(move || {
                let mut walk = problems.iter().cycle().skip(thread * problems.len() / threads);
                begin.wait();
                let (began, mut made, mut longest) = (Instant::now(), 0, Duration::ZERO);
                while began.elapsed() < SPAN {
                    let stretch = Instant::now();
                    walk.by_ref().take(STRETCH).for_each(|problem| {
                        black_box(each(black_box(problem)));
                    });
                    longest = longest.max(stretch.elapsed());
                    made += STRETCH as u64;
                }
                calls.fetch_add(made, Ordering::Relaxed);
                longest_ns.fetch_max(u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
            });
        }
    });
    Rate {
        millions: calls.into_inner() as f64 / SPAN.as_secs_f64() / 1e6,
        longest_us: longest_ns.into_inner() as f64 / 1e3,
    }
}

/// Replaces the file as often as it can and has the table follow, until it is told to stop; how often it did.
fn replace(live: &Live, path: &std::path::Path, beside: &std::path::Path, stop: &AtomicBool) -> Result<u64, String> {
    let text = table::aiter_text(CHOICES);
    let mut swaps = 0;
    while !stop.load(Ordering::Relaxed) {
        let written = std::fs::write(beside, &text).and_then(|()| std::fs::rename(beside, path));
        written.map_err(|error| error.to_string())?;
        swaps += u64::from(matches!(live.refresh(), Refreshed::Replaced(_)));
    }
    Ok(swaps)
}

pub fn print(bench: &Bench, scratch: &Scratch) -> Result<(), Box<dyn Error>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("\nthreads on {cores} cores, exact hits, {} problems in turn", bench.problems.len());
    println!("{:<8} {:>12} {:>9} {:>12} {:>9} {:>14}", "", "Database", "", "Live", "", "Live, replaced");
    println!(
        "{:<8} {:>12} {:>9} {:>12} {:>9} {:>12} {:>9} {:>9} {:>9}",
        "threads", "million/s", "ns each", "million/s", "ns each", "million/s", "ns each", "swaps", "worst us"
    );
    let path = scratch.path("live.csv");
    std::fs::write(&path, table::aiter_text(CHOICES))?;
    let (live, report) = Live::open(Layers::default().with_site([path.clone()]), table::here(), Levels::default());
    if !report.is_clean() {
        return Err(report.to_string().into());
    }
    let constraints = Constraints::default();
    let ask = |database: &Database, problem: &Problem| database.lookup(problem, &constraints).choice.is_some();
    for threads in COUNTS {
        let still = rate(threads, &bench.problems, |problem| ask(&bench.database, problem));
        let quiet = rate(threads, &bench.problems, |problem| ask(&live.table(), problem));
        let stop = AtomicBool::new(false);
        let (busy, swaps) = std::thread::scope(|scope| {
            let writer = scope.spawn(|| replace(&live, &path, &scratch.path("live.new"), &stop));
            let busy = rate(threads, &bench.problems, |problem| ask(&live.table(), problem));
            stop.store(true, Ordering::Relaxed);
            (busy, writer.join().unwrap_or_else(|_| Err("the writer died".into())))
        });
        let each = |rate: &Rate| threads as f64 * 1e3 / rate.millions;
        println!(
            "{threads:<8} {:>12.1} {:>9.1} {:>12.1} {:>9.1} {:>12.1} {:>9.1} {:>9} {:>9.0}",
            still.millions,
            each(&still),
            quiet.millions,
            each(&quiet),
            busy.millions,
            each(&busy),
            swaps?,
            busy.longest_us,
        );
    }
    Ok(())
}
