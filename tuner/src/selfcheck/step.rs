//! One command of `tune` run as a child with a time limit: whatever it does, what it said is kept.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::worker::Interrupt;

/// The most that is kept of what a command writes, of each stream.
const OUTPUT_BYTES_MAX: u64 = 64 << 20;
/// How often a wait looks up.
const WAIT_SLICE: Duration = Duration::from_millis(20);
/// How long a command may take to end once it is asked to.
const END_MAX: Duration = Duration::from_secs(10);

/// What a command did.
#[derive(Debug)]
pub struct Ran {
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// `exit 0`, `signal 6`, `killed after 60.0 s`, `not started: …`.
    pub how: String,
    /// Its exit code, if it ended by itself.
    pub code: Option<i32>,
    /// How long it took, seconds.
    pub took_s: f64,
}

/// Runs `tune` with `args`, at most `limit`.
pub fn run(args: &[String], limit: Duration, interrupt: &Interrupt) -> Ran {
    let started = Instant::now();
    let mut ran = Ran { stdout: String::new(), stderr: String::new(), how: String::new(), code: None, took_s: 0.0 };
    match run_inner(args, limit, interrupt, &mut ran) {
        Ok(()) => {}
        Err(e) => ran.how = format!("not started: {e}"),
    }
    ran.took_s = started.elapsed().as_secs_f64();
    ran
}

fn run_inner(args: &[String], limit: Duration, interrupt: &Interrupt, ran: &mut Ran) -> std::io::Result<()> {
    let (mut stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let mut child = Command::new("/proc/self/exe")
        .args(args)
        .stdin(Stdio::null())
        .stdout(stdout.try_clone()?)
        .stderr(stderr.try_clone()?)
        // A Ctrl-C is this process's to hand on: what has been found so far still goes into the bundle.
        .process_group(0)
        .spawn()?;
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if started.elapsed() > limit || interrupt.is_set() {
            end(&mut child)?;
            break None;
        }
        std::thread::sleep(WAIT_SLICE);
    };
    ran.code = status.and_then(|status| status.code());
    ran.how = match status {
        Some(status) => in_words(status),
        None if interrupt.is_set() => "interrupted".into(),
        None => format!("killed after {:.1} s", limit.as_secs_f64()),
    };
    ran.stdout = contents(&mut stdout)?;
    ran.stderr = contents(&mut stderr)?;
    Ok(())
}

/// Asks it to end, so that a sweep keeps what it has; then makes it.
fn end(child: &mut Child) -> std::io::Result<()> {
    let group = rustix::process::Pid::from_raw(child.id() as i32);
    let signal = |signal| group.map(|group| rustix::process::kill_process_group(group, signal));
    let _ = signal(rustix::process::Signal::TERM);
    let asked = Instant::now();
    while asked.elapsed() < END_MAX {
        if child.try_wait()?.is_some() {
            return Ok(());
        }
        std::thread::sleep(WAIT_SLICE);
    }
    let _ = signal(rustix::process::Signal::KILL);
    // A process that is stuck in its driver is not waited for: the bundle matters more.
    std::thread::sleep(WAIT_SLICE);
    child.try_wait().map(|_| ())
}

fn in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}

fn contents(file: &mut File) -> std::io::Result<String> {
    file.seek(SeekFrom::Start(0))?;
    let mut bytes = Vec::new();
    file.by_ref().take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
