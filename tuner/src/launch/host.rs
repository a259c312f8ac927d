//! The program that we start: in our terminal and process group, with our standard streams, and our end is its end.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::shim;
use super::signals::Forwarding;

/// A program that could not be started.
#[derive(Debug, thiserror::Error)]
#[error("{}: cannot be started: {source}", .program.display())]
pub struct NotStarted {
    program: OsString,
    source: io::Error,
}

impl NotStarted {
    /// As shells end: 127 where there is no such program, 126 where there is one that cannot be run.
    pub fn code(&self) -> u8 {
        if self.source.kind() == io::ErrorKind::NotFound { 127 } else { 126 }
    }
}

/// A program with the shim in it, not yet started.
pub struct Host {
    command: Command,
    program: OsString,
}

impl Host {
    /// `command` (program and arguments) with `shim` preloaded before all others.
    pub fn new(command: &[OsString], shim: &std::path::Path) -> Host {
        let program = command.first().cloned().unwrap_or_default();
        let mut ready = Command::new(&program);
        ready.args(command.iter().skip(1));
        ready.env(shim::ENV_PRELOAD, shim::preload(shim, std::env::var_os(shim::ENV_PRELOAD).as_deref()));
        Host { command: ready, program }
    }

    /// With this variable.
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Host {
        self.command.env(name, value.into());
        self
    }

    /// Runs it to its end. Gives its exit code, or 128 and the number of the signal that ended it.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn run(mut self) -> Result<u8, NotStarted> {
        let forwarding = Forwarding::begin();
        let not_started = |source| NotStarted { program: self.program.clone(), source };
        let mut child = self.command.spawn().map_err(not_started)?;
        forwarding.to(child.id());
        // Its end is waited for without taking it: until nothing is sent any more, its number must stay its own.
        while let Some(pid) = Pid::from_raw(child.id() as i32) {
            match waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
                Err(rustix::io::Errno::INTR) => {}
                _ => break,
            }
        }
        forwarding.stop();
        Ok(code(child.wait().map_err(not_started)?))
    }
}

fn code(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
