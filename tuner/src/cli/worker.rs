//! `tune worker`: the hidden child process of a sweep.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use anyhow::Context as _;

use super::{Exit, Failure};
use crate::worker::serve;

/// Serves requests that come over standard input, a socket, until it closes.
pub fn run() -> Result<Exit, Failure> {
    // A parent that dies takes its worker along, whatever the worker is stuck in.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .context("cannot tie the worker to its parent")?;
    let socket = std::io::stdin().as_fd().try_clone_to_owned().context("cannot take over standard input")?;
    let socket = UnixStream::from(socket);
    socket.peer_addr().context("`tune worker` is started by `tune sweep`, not by hand")?;
    serve::serve(socket).context("the worker ends")?;
    Ok(Exit::Done)
}
