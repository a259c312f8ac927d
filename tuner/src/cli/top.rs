//! `tune top`: what the shim counts in a process, while it runs.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tgemm_recorder::counters::{self, Counter, Reader, Snapshot, Writer};

use super::{Exit, Failure, input};
use crate::report::{self, table};

/// What `tune top` takes.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 shown until the process ended, or once; 1 the process had ended before; 2 it does not \
count, or its counters cannot be read."
)]
pub struct Args {
    /// Process with the shim in it
    #[arg(value_name = "PID")]
    pub pid: u32,
    /// Time between two looks, such as 1s or 0.2s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = input::duration)]
    pub interval: Duration,
    /// Look once
    #[arg(long)]
    pub once: bool,
    /// One JSON object a look
    #[arg(long)]
    pub json: bool,
    /// Folder of counter files; default: the process's own TGEMM_COUNTERS, else ours, else /dev/shm/tgemm-UID
    #[arg(long, value_name = "FOLDER")]
    pub counters: Option<PathBuf>,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<Exit, Failure> {
    let folder = args.counters.clone().or_else(|| folder_of(args.pid)).or_else(counters::folder_from_env);
    let folder = folder.context("there is no folder of counters: name one with --counters")?;
    let path = folder.join(args.pid.to_string());
    let mut reader = Reader::open(&path)?;
    let began = Instant::now();
    let mut before: Option<Look> = None;
    loop {
        let look = Look { at: Instant::now(), snapshot: reader.snapshot()? };
        let ended = look.snapshot.writer() == Writer::Ended;
        if ended && before.is_none() {
            eprintln!("tune: {}: its process has ended; this is what it left", path.display());
        }
        let text = if args.json { json(&look, before.as_ref(), began) } else { people(&look, before.as_ref()) };
        report::write_stdout(&text).context("cannot write")?;
        match (ended, args.once) {
            (true, _) if before.is_none() => return Ok(Exit::Partly),
            (true, _) | (_, true) => return Ok(Exit::Done),
            _ => {}
        }
        before = Some(look);
        std::thread::sleep(args.interval);
        // A program that starts another in its place begins a new file; one that ends removes its file, which is still read
        // to the end.
        if let Ok(newer) = Reader::open(&path) {
            reader = newer;
        }
    }
}

/// The counters at one moment.
struct Look {
    at: Instant,
    snapshot: Snapshot,
}

impl Look {
    /// What was added to each counter a second since `before`.
    fn rates(&self, before: &Look) -> BTreeMap<&str, f64> {
        let seconds = self.at.duration_since(before.at).as_secs_f64().max(f64::MIN_POSITIVE);
        let old: BTreeMap<&str, u64> =
            before.snapshot.counts.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let rate = |(name, value): &'_ (String, u64)| {
            value.saturating_sub(old.get(name.as_str()).copied().unwrap_or(0)) as f64 / seconds
        };
        self.snapshot.counts.iter().map(|count| (count.0.as_str(), rate(count))).collect()
    }
}

fn people(look: &Look, before: Option<&Look>) -> String {
    let rates = before.map(|before| look.rates(before)).unwrap_or_default();
    let mut shown = table::table(&["counter", "count", "a second"], 1);
    let is_shown = |(name, value): &&(String, u64)| *value > 0 || name == Counter::Seen.name();
    for (name, value) in look.snapshot.counts.iter().filter(is_shown) {
        let rate = rates.get(name.as_str()).map_or("-".into(), |rate| format!("{rate:.1}"));
        shown.add_row([name.clone(), value.to_string(), rate]);
    }
    format!("process {}\n{shown}\n\n", look.snapshot.pid)
}

fn json(look: &Look, before: Option<&Look>, began: Instant) -> String {
    let counts: BTreeMap<&str, u64> =
        look.snapshot.counts.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    let object = serde_json::json!({
        "pid": look.snapshot.pid, "time_s": look.at.duration_since(began).as_secs_f64(),
        "running": look.snapshot.writer() == Writer::Runs,
        "counters": counts, "per_second": before.map(|before| look.rates(before)),
    });
    format!("{object}\n")
}

/// The most bytes of a process's environment that are read.
const ENVIRON_BYTES_MAX: u64 = 4 << 20;

/// The folder that a process was told, proc_pid_environ(5). `None` if it was told none, or may not be asked.
fn folder_of(pid: u32) -> Option<PathBuf> {
    use std::io::Read as _;
    let mut environ = Vec::new();
    let file = std::fs::File::open(format!("/proc/{pid}/environ")).ok()?;
    file.take(ENVIRON_BYTES_MAX).read_to_end(&mut environ).ok()?;
    let folder = told(&environ)?;
    // Relative to where the process is.
    Some(if folder.is_absolute() { folder } else { Path::new(&format!("/proc/{pid}/cwd")).join(folder) })
}

fn told(environ: &[u8]) -> Option<PathBuf> {
    let name = counters::ENV_COUNTERS.as_bytes();
    let mut vars = environ.split(|&byte| byte == 0);
    let value = vars.find_map(|var| var.strip_prefix(name)?.strip_prefix(b"="))?;
    (!value.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_says_where_it_counts() {
        assert_eq!(told(b"A=1\0TGEMM_COUNTERS_KEEP=1\0TGEMM_COUNTERS=/x y\0B=\0"), Some("/x y".into()));
        assert_eq!(told(b"TGEMM_COUNTERS=\0"), None);
        assert_eq!(told(b"\xff\0=\0"), None);
    }

    #[test]
    fn rates_are_of_the_time_between_two_looks() {
        let at = Instant::now();
        let look = |seconds: f64, counts: &[(&str, u64)]| Look {
            at: at + Duration::from_secs_f64(seconds),
            snapshot: Snapshot {
                pid: 1,
                start_ticks: 1,
                counts: counts.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
            },
        };
        let (first, second) =
            (look(0.0, &[("seen", 10), ("applied", 7)]), look(2.0, &[("seen", 30), ("applied", 5), ("new", 4)]));
        // A counter that goes back is of a program that started anew.
        assert_eq!(second.rates(&first), BTreeMap::from([("seen", 10.0), ("applied", 0.0), ("new", 2.0)]));
        let text = people(&second, Some(&first));
        assert!(text.contains("seen") && text.contains("10.0"), "{text}");
    }
}
