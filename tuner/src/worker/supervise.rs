//! The parent's side: starts a worker, asks it things within a time limit, and says how it was lost if it was.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::wire::{self, Reply, Request};

/// How often a wait looks up to see whether it was interrupted.
const WAIT_SLICE: Duration = Duration::from_millis(50);
/// How long a killed worker may take to disappear; after that its device counts as lost.
const REAP_MAX: Duration = Duration::from_secs(10);
/// How much of a dead worker's last words is kept.
const LAST_WORDS_BYTES_MAX: u64 = 400;
/// A worker that writes more than this to standard error has it thrown away.
const STDERR_BYTES_MAX: u64 = 1 << 20;

/// How long OpenMP threads spin for more work, unless the user says it: long enough to be found awake by the next of a
/// row of launches (some 0.5 ms), short enough that they leave the cores to another library's arm within its lead-in. By
/// default they spin for tens of milliseconds, and arms on other threads would be timed on what is left.
const SHORT_SPINS: [(&str, &str); 2] = [("GOMP_SPINCOUNT", "10000"), ("KMP_BLOCKTIME", "1")];

/// Set when the user wants to stop: every wait sees it within 50 ms.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(pub Arc<AtomicBool>);

impl Interrupt {
    /// Has the user asked to stop?
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How a worker was lost in the middle of a request. It is dead and reaped in every case.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Loss {
    /// It ended by itself.
    #[error("{0}")]
    Died(String),
    /// It did not answer in time and was killed.
    #[error("no answer within {0:.1?}")]
    Hung(Duration),
    /// It answered with something that is no message.
    #[error("its answer is no message: {0}")]
    Garbled(String),
    /// The user asked to stop; it was killed.
    #[error("interrupted")]
    Interrupted,
    /// It cannot be started.
    #[error("the worker process cannot be started: {0}")]
    NotStarted(String),
    /// It was killed and will not go away: its device is lost until it does.
    #[error("the worker process {0} cannot be killed: its device is lost")]
    Unkillable(u32),
}

/// A running worker process. Dropping it kills and reaps it.
pub struct Worker {
    child: Child,
    socket: UnixStream,
    last_words: File,
    interrupt: Interrupt,
}

impl Worker {
    /// Starts the worker of this very binary, with these variables naming library files.
    ///
    /// It dies with the thread that starts it (parent-death signals follow threads), so that must be one that lives as
    /// long as the sweep.
    pub fn spawn(interrupt: &Interrupt, files: &[(&'static str, PathBuf)]) -> Result<Worker, Loss> {
        Self::spawn_inner(interrupt, files).map_err(|e| Loss::NotStarted(e.to_string()))
    }

    fn spawn_inner(interrupt: &Interrupt, files: &[(&'static str, PathBuf)]) -> std::io::Result<Worker> {
        let (socket, theirs) = UnixStream::pair()?;
        let memory = rustix::fs::memfd_create("tgemm-worker-stderr", rustix::fs::MemfdFlags::CLOEXEC)?;
        let last_words = File::from(memory);
        let mut command = Command::new("/proc/self/exe");
        for (name, value) in SHORT_SPINS {
            if std::env::var_os(name).is_none() && std::env::var_os("OMP_WAIT_POLICY").is_none() {
                command.env(name, value);
            }
        }
        let child = command
            .arg("worker")
            .envs(files.iter().map(|(name, file)| (name, file)))
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::from(last_words.try_clone()?))
            // Its own group: a Ctrl-C on the terminal is the parent's to handle, and a kill reaches grandchildren too.
            .process_group(0)
            .spawn()?;
        socket.set_read_timeout(Some(WAIT_SLICE))?;
        Ok(Worker { child, socket, last_words, interrupt: interrupt.clone() })
    }

    /// Sends `request` and waits for the answer, at most `limit`.
    pub fn ask(mut self, request: &Request, limit: Duration) -> Result<(Worker, Reply), Loss> {
        let started = Instant::now();
        let answer = match wire::send(&mut self.socket, request) {
            Ok(()) => self.answer(started, limit),
            Err(_) => Err(Wait::Closed),
        };
        match answer {
            Ok(reply) => {
                self.trim_last_words();
                Ok((self, reply))
            }
            Err(wait) => Err(self.lose(wait, started)),
        }
    }

    fn answer(&mut self, started: Instant, limit: Duration) -> Result<Reply, Wait> {
        let mut head = [0u8; 4];
        self.fill(&mut head, started, limit)?;
        let bytes = wire::body_bytes(head).map_err(|e| Wait::Garbled(e.to_string()))?;
        let mut body = vec![0; bytes];
        self.fill(&mut body, started, limit)?;
        serde_json::from_slice(&body).map_err(|e| Wait::Garbled(e.to_string()))
    }

    /// Reads exactly `into`, looking up between slices of waiting.
    fn fill(&mut self, into: &mut [u8], started: Instant, limit: Duration) -> Result<(), Wait> {
        let mut have = 0;
        while have < into.len() {
            match self.socket.read(&mut into[have..]) {
                Ok(0) => return Err(Wait::Closed),
                Ok(n) => have += n,
                Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Wait::Closed),
            }
            if self.interrupt.is_set() {
                return Err(Wait::Interrupted);
            }
            if have < into.len() && started.elapsed() > limit {
                return Err(Wait::TooLong);
            }
        }
        Ok(())
    }

    /// Kills, reaps and says what happened.
    fn lose(mut self, wait: Wait, started: Instant) -> Loss {
        if matches!(wait, Wait::Closed) {
            // It closed its socket: it is ending, and its own status says more than a kill would.
            self.reap(Duration::from_millis(500));
        }
        self.kill();
        let Some(status) = self.reap(REAP_MAX) else { return Loss::Unkillable(self.child.id()) };
        match wait {
            Wait::Closed => Loss::Died(self.obituary(status)),
            Wait::TooLong => Loss::Hung(started.elapsed()),
            Wait::Garbled(why) => Loss::Garbled(why),
            Wait::Interrupted => Loss::Interrupted,
        }
    }

    fn kill(&mut self) {
        // The group first; the child itself in case it has not yet made its group.
        if let Some(pid) = rustix::process::Pid::from_raw(self.child.id() as i32) {
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
        let _ = self.child.kill();
    }

    fn reap(&mut self, limit: Duration) -> Option<ExitStatus> {
        let started = Instant::now();
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            if started.elapsed() > limit {
                return None;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn obituary(&mut self, status: ExitStatus) -> String {
        use std::os::unix::process::ExitStatusExt;
        let how = match (status.signal(), status.code()) {
            (Some(signal), _) => format!("killed by signal {signal}{}", signal_name(signal)),
            (None, Some(code)) => format!("ended by itself with exit code {code}"),
            (None, None) => "ended".into(),
        };
        let words = self.read_last_words();
        if words.is_empty() { how } else { format!("{how}: {words}") }
    }

    fn read_last_words(&mut self) -> String {
        let mut tail = Vec::new();
        let end = self.last_words.seek(SeekFrom::End(0)).unwrap_or(0);
        let from = end.saturating_sub(LAST_WORDS_BYTES_MAX);
        if self.last_words.seek(SeekFrom::Start(from)).is_ok() {
            let _ = (&self.last_words).take(LAST_WORDS_BYTES_MAX).read_to_end(&mut tail);
        }
        let text = String::from_utf8_lossy(&tail);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines.iter().rev().take(2).rev().copied().collect::<Vec<_>>().join(" / ")
    }

    fn trim_last_words(&mut self) {
        if self.last_words.metadata().is_ok_and(|meta| meta.len() > STDERR_BYTES_MAX) {
            let _ = self.last_words.set_len(0);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
        self.reap(REAP_MAX);
    }
}

/// Why a wait for an answer ended without one.
enum Wait {
    Closed,
    TooLong,
    Garbled(String),
    Interrupted,
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        4 => " (illegal instruction)",
        6 => " (abort)",
        7 => " (bus error)",
        8 => " (arithmetic exception)",
        9 => " (kill; out of memory?)",
        11 => " (segmentation fault)",
        _ => "",
    }
}
