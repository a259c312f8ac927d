//! Files that are replaced under readers: no torn read, no lost row.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tgemm_db::format::tuned;
use tgemm_db::{Build, Choice, Constraints, DType, Device, Environment, Problem, Site, Solution, Vendor};
use tgemm_lookup::{HitKind, Kept, Layers, Levels, Live, Refreshed};

const REPLACEMENTS: u64 = 1000;
const READERS: usize = 3;
/// Token counts of each of the two files.
const MS: u32 = 12;

fn here() -> Environment {
    let device = Device::named(Vendor::Cpu, "x86_64-v4", 2);
    Environment { device, builds: Vec::new(), driver: String::new(), vars: Default::default() }
}

fn problem(file: u32, m: u32) -> Problem {
    Site::linear(64 * (1 + file), 64, DType::F32).at(m).into()
}

/// The table of one file at one version; every row says which.
fn table(file: u32, version: u64) -> String {
    let row = |m: u32| {
        let solution = Solution::bare(Build::unknown("gemm"), version as i64, "gemm");
        Choice::uncompared(problem(file, m), here().device, solution, 1.0)
    };
    tuned::to_text(&(1..=MS).map(row).collect::<Vec<_>>())
}

/// As [`tgemm_db::atomic`] does it, without waiting for the disk.
fn replace(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    fs::write(&beside, text).unwrap();
    fs::rename(&beside, path).unwrap();
}

/// The version of each file as one reader sees it.
fn versions(live: &Live) -> [u64; 2] {
    let table = live.table();
    let constraints = Constraints::default();
    [0, 1].map(|file| {
        let seen: Vec<i64> = (1..=MS)
            .map(|m| {
                let hit = table.lookup(&problem(file, m), &constraints);
                assert_eq!(hit.kind, HitKind::Exact, "file {file} M={m}: a row was lost");
                hit.choice.unwrap().solution.index
            })
            .collect();
        assert!(seen.iter().all(|version| *version == seen[0]), "torn: {seen:?}");
        seen[0] as u64
    })
}

/// Ends the readers' loops, also where a check fails: else the scope would wait for them.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn files_replaced_a_thousand_times_under_readers_lose_and_tear_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let paths = [0, 1].map(|file| folder.path().join(format!("{file}.csv")));
    for (file, path) in (0..).zip(&paths) {
        replace(path, &table(file, 0));
    }
    let layers = Layers::default().with_site(paths.clone());
    let (live, report) = Live::open(layers, here(), Levels::default());
    assert!(report.is_clean(), "{report}");
    let (done, reads, swaps, kept) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                let mut last = [0; 2];
                while !done.load(Ordering::Relaxed) {
                    let now = versions(&live);
                    assert!(now[0] >= last[0] && now[1] >= last[1], "{last:?} came after {now:?}");
                    last = now;
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                match live.refresh() {
                    Refreshed::Replaced(_) => swaps.fetch_add(1, Ordering::Relaxed),
                    Refreshed::Kept(_) => kept.fetch_add(1, Ordering::Relaxed),
                    Refreshed::Unchanged => 0,
                };
            }
        });
        let _done = Done(&done);
        for version in 1..=REPLACEMENTS {
            let file = (version % 2) as u32;
            let (path, text) = (&paths[file as usize], table(file, version));
            match version % 10 {
                // In place: for a moment it is cut within a line.
                3 => {
                    fs::write(path, &text[..text.len() - 5 - version as usize % 40]).unwrap();
                    std::thread::yield_now();
                    replace(path, &text);
                }
                // For a moment it is gone.
                7 => {
                    fs::remove_file(path).unwrap();
                    std::thread::yield_now();
                    replace(path, &text);
                }
                _ => replace(path, &text),
            }
        }
        // The last version arrives without anybody's doing.
        while versions(&live) != [REPLACEMENTS, REPLACEMENTS - 1] {
            std::thread::yield_now();
        }
    });
    let [reads, swaps, kept] = [reads, swaps, kept].map(AtomicU64::into_inner);
    println!("{REPLACEMENTS} replacements: {reads} reads of all rows, {swaps} swaps, {kept} times kept");
    assert!(reads > 0 && swaps > 10);
}

fn kept(live: &Live) -> Kept {
    match live.refresh() {
        Refreshed::Kept(kept) => kept,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_not_whole_keeps_the_old_table_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let paths = [0, 1].map(|file| folder.path().join(format!("{file}.csv")));
    paths.iter().zip(0..).for_each(|(path, file)| replace(path, &table(file, 1)));
    let missing = folder.path().join("never.csv");
    let layers = Layers::default().with_site([paths[0].clone(), missing.clone(), paths[1].clone()]);
    let (live, report) = Live::open(layers, here(), Levels::default());
    assert!(!report.is_clean(), "one file never was there");
    let before = live.snapshot();

    let text = table(0, 2);
    let broken = [
        (text[..text.len() - 9].to_owned(), "0.csv: its last line has no end: is it still being written?"),
        (String::new(), "0.csv: is empty: a header line such as M,N,K,bias,dtype,outdtype is expected"),
        ("\0\x01\x02\n".to_owned(), "0.csv:1: is not text: a CSV file is expected"),
    ];
    for (text, why) in broken {
        fs::write(&paths[0], text).unwrap();
        for _ in 0..2 {
            let kept = kept(&live);
            assert!(kept.reasons.len() == 1 && kept.reasons[0].ends_with(why), "{kept}");
        }
        assert_eq!(versions(&live), [1, 1]);
    }
    fs::remove_file(&paths[0]).unwrap();
    let gone = kept(&live).to_string();
    assert!(
        gone.starts_with("the table that was loaded before serves on: ") && gone.contains("no such file"),
        "{gone}"
    );
    assert!(std::ptr::eq(&*before, &*live.snapshot()), "nothing was swapped");

    replace(&paths[0], &table(0, 3));
    let Refreshed::Replaced(report) = live.refresh() else { panic!("it is whole again") };
    assert_eq!(report.files.iter().filter(|file| file.is_clean()).count(), 2);
    assert_eq!(versions(&live), [3, 1]);
    // A file that comes late is taken in too.
    replace(&missing, &table(2, 4));
    assert!(matches!(live.refresh(), Refreshed::Replaced(report) if report.is_clean()));
    let hit_kind = live.table().lookup(&problem(2, 1), &Constraints::default()).kind;
    assert_eq!(hit_kind, HitKind::Exact);
    // Whoever kept the old one still has it.
    assert_eq!(before.lookup(&problem(2, 1), &Constraints::default()).kind, HitKind::Default);
}

#[test]
fn files_that_stay_are_not_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    replace(&path, &table(0, 1));
    // Older than a step of the clock, so that one more change would have shown.
    std::thread::sleep(std::time::Duration::from_millis(50));
    let (live, _) = Live::open(Layers::default().with_site([path.clone()]), here(), Levels::default());
    let before = live.snapshot();
    assert_eq!(live.refresh(), Refreshed::Unchanged);
    replace(&path, &table(0, 2));
    assert!(matches!(live.refresh(), Refreshed::Replaced(_)));
    assert!(!std::ptr::eq(&*before, &*live.snapshot()));
    // The same bytes, length and moment in another file are another file.
    replace(&path, &table(0, 2));
    assert!(matches!(live.refresh(), Refreshed::Replaced(_)));
}
