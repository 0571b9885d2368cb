//! How the supervisor hands its sockets over to the proxy: the proxy inherits them, and an environment variable lists
//! them.
//!
//! A message over a Unix socket (SCM_RIGHTS) could carry the sockets, too. But the kernel limits the number of sockets
//! in transit for each user id, and proxies of other Pods have the same user id: a neighbor could use up the limit.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;

use leno_relay::Door;
use rustix::process::{Pid, getpid, getppid};
use socket2::Socket;

use crate::worker::Bound;

/// Environment variable with the supervisor's process id, the number of restarts, and the worker, door (kind of
/// listener) and descriptor of each socket: `1 0 0:outbound:5 0:inbound:6`.
pub(super) const VARIABLE: &str = "LENO_SUPERVISED";
/// Descriptors up to this number are standard input, output and error.
const LAST_STANDARD: RawFd = 2;

/// The sockets and the state that a proxy gets from its supervisor.
#[derive(Debug, Default)]
pub(crate) struct Handover {
    /// The sockets of each worker.
    pub(crate) sockets: Vec<Vec<Bound>>,
    /// Number of times that the supervisor has started a proxy again, this start included.
    pub(crate) restarts: u64,
}

/// Why a proxy did not get its sockets.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandoverError {
    #[error("{0}")]
    System(#[from] io::Error),
    #[error("the environment variable {VARIABLE} does not name the sockets of a supervisor")]
    Unreadable,
    #[error("the supervisor has ended")]
    Orphaned,
}

/// Lets the supervisor's children inherit the sockets.
pub(super) fn lend(workers: &[Vec<Bound>]) -> io::Result<()> {
    workers.iter().flatten().try_for_each(|bound| bound.socket.set_cloexec(false))
}

/// Returns the value of [`VARIABLE`] for the next child.
pub(super) fn describe(workers: &[Vec<Bound>], restarts: u64) -> String {
    let mut text = format!("{} {restarts}", getpid().as_raw_pid());
    for (worker, sockets) in workers.iter().enumerate() {
        for Bound { door, socket, .. } in sockets {
            let _ = write!(text, " {worker}:{}:{}", door.name(), socket.as_raw_fd());
        }
    }
    text
}

/// Takes over the supervisor's sockets. Call this once, before the process opens anything.
pub(super) fn take() -> Result<Handover, HandoverError> {
    let text = env::var(VARIABLE).map_err(|_| HandoverError::Unreadable)?;
    let (supervisor, rest) = text.split_once(' ').ok_or(HandoverError::Unreadable)?;
    if getppid().map(Pid::as_raw_pid) != supervisor.parse().ok() {
        return Err(HandoverError::Orphaned);
    }
    read(rest)
}

fn read(text: &str) -> Result<Handover, HandoverError> {
    let mut words = text.split(' ');
    let restarts = words.next().and_then(|word| word.parse().ok()).ok_or(HandoverError::Unreadable)?;
    let mut sockets: Vec<Vec<Bound>> = Vec::new();
    for word in words {
        let (worker, door, fd) = entry(word).ok_or(HandoverError::Unreadable)?;
        // The list has all sockets of worker 0, then all of worker 1, and so on.
        if worker == sockets.len() {
            sockets.push(Vec::new());
        }
        let socket = adopt(fd)?;
        sockets.get_mut(worker).ok_or(HandoverError::Unreadable)?.push(Bound::new(door, socket)?);
    }
    if sockets.is_empty() { Err(HandoverError::Unreadable) } else { Ok(Handover { sockets, restarts }) }
}

fn entry(word: &str) -> Option<(usize, Door, RawFd)> {
    let (worker, rest) = word.split_once(':')?;
    let (door, fd) = rest.split_once(':')?;
    Some((worker.parse().ok()?, Door::of_name(door)?, fd.parse().ok()?))
}

/// Takes ownership of an inherited descriptor, which must be a socket.
#[allow(unsafe_code)]
fn adopt(fd: RawFd) -> Result<Socket, HandoverError> {
    let target = fs::read_link(format!("/proc/self/fd/{fd}")).map_err(|_| HandoverError::Unreadable)?;
    if fd <= LAST_STANDARD || !target.as_os_str().as_bytes().starts_with(b"socket:") {
        return Err(HandoverError::Unreadable);
    }
    // SAFETY: the descriptor is open, and no other object owns it: this process inherited it and has opened nothing
    // yet.
    let owned = unsafe { OwnedFd::from_raw_fd(fd) };
    let socket = Socket::from(owned);
    socket.set_cloexec(true)?;
    Ok(socket)
}

#[cfg(test)]
#[path = "handover_tests.rs"]
mod tests;
