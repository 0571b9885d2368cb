//! `leno-proxy supervise`: runs the proxy as a child process, and starts another proxy at once if the proxy ends
//! unexpectedly.
//!
//! The supervisor binds the sockets at which connections arrive, and keeps these sockets open. So the kernel accepts
//! connections even while there is no proxy: the connections wait, and the next proxy serves them. The old proxy's open
//! calls and connections are lost. Without a supervisor, the kubelet starts the container again after some seconds, and
//! after minutes if the proxy ends repeatedly.

mod handover;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::ffi::{CStr, OsString};
use std::future::pending;
use std::io;
use std::net::Shutdown;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use leno_admin::logging;
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use rustix::thread::set_name;
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

use crate::args::{Args, Exit};
use crate::control::raise_open_files_limit;
use crate::worker::{BindError, Bound, bind_workers, memory};
pub(crate) use handover::{Handover, HandoverError};

/// First word of the command line that selects this mode.
pub(crate) const WORD: &str = "supervise";
/// The option that the supervisor adds to the child's command line.
const SUPERVISED: &str = "--supervised";
/// The child's name, as tools show it.
const NAME: &CStr = c"leno-proxy";
/// Path of the supervisor's own program. It stays valid after the program's file was replaced.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// Longest time for which the kernel keeps new connections waiting for a restarted proxy that has no identity yet.
/// After this time, new connections are refused.
pub(crate) const REFUSE_AFTER: Duration = Duration::from_secs(2);
/// Maximum number of restarts within [`RESTARTS_WITHIN`]. After the next unexpected end, the supervisor exits, so that
/// the kubelet reports the failure.
const RESTARTS_MAX: usize = 5;
const RESTARTS_WITHIN: Duration = Duration::from_secs(60);

/// Why the supervisor failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SuperviseError {
    #[error(transparent)]
    Listen(#[from] BindError),
    #[error("the proxy could not be started: {0}")]
    Start(#[source] io::Error),
    #[error("the supervisor could not start: {0}")]
    System(#[from] io::Error),
    #[error("the log could not start: {0}")]
    Log(#[from] logging::StartError),
}

/// Runs a proxy until the proxy ends in an orderly way, or must not be started again. Returns the exit code. The first
/// of `args` is the program's name; `own` are the arguments that select the proxy in this program.
pub(crate) fn run(own: &[&str], args: &[OsString]) -> Result<Result<u8, SuperviseError>, Exit> {
    let (read, _) = Args::read(args.iter().cloned())?;
    let words = own.iter().map(OsString::from).chain(args.iter().skip(1).cloned()).collect::<Vec<_>>();
    let ended = supervise(&read, &words);
    logging::flush();
    Ok(ended)
}

fn supervise(args: &Args, words: &[OsString]) -> Result<u8, SuperviseError> {
    logging::start(args.log.clone(), args.log_format)?;
    raise_open_files_limit();
    let sockets = bind_workers(&args.listen(), args.workers.into())?;
    handover::lend(&sockets)?;
    let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(keep_running(words, sockets))
}

async fn keep_running(words: &[OsString], sockets: Vec<Vec<Bound>>) -> Result<u8, SuperviseError> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut child_ended = signal(SignalKind::child())?;
    let mut pace = Pace::default();
    let mut child = start(words, &sockets, pace.restarts)?;
    let mut sockets = Some(sockets);
    loop {
        let signal = tokio::select! {
            _ = child_ended.recv() => None,
            _ = terminate.recv() => Some(Signal::TERM),
            _ = interrupt.recv() => Some(Signal::INT),
        };
        if let Some(signal) = signal {
            // Close the supervisor's copies of the listening sockets. Otherwise, the kernel would still accept new
            // connections after the proxy has closed its own copies.
            sockets = None;
            let _ = kill_process(Pid::from_child(&child), signal);
        }
        let Some(status) = child.try_wait()? else { continue };
        let Some(lent) = &sockets else { return Ok(exit_code(status)) };
        match pace.after(status, has_served(lent), Instant::now()) {
            Next::Start => {
                tracing::warn!(
                    restarts = pace.restarts,
                    "the proxy ended unexpectedly ({status}) and is started again; its open calls and connections are lost; its log \
                     lines before this one, or the kernel's log, say why"
                );
                child = start(words, lent, pace.restarts)?;
            }
            Next::GiveUp => {
                tracing::error!(
                    "the proxy ended unexpectedly ({status}) for the {}th time within {} s, so it is not started again; its log \
                     lines say why",
                    RESTARTS_MAX + 1,
                    RESTARTS_WITHIN.as_secs()
                );
                return Ok(1);
            }
            Next::End(code) => return Ok(code),
        }
    }
}

/// Starts a proxy that inherits the sockets.
fn start(words: &[OsString], sockets: &[Vec<Bound>], restarts: u64) -> Result<Child, SuperviseError> {
    let mut command = Command::new(OWN_PROGRAM);
    command.arg0(NAME.to_string_lossy().as_ref()).args(words).arg(SUPERVISED).stdin(Stdio::null());
    command.env(handover::VARIABLE, handover::describe(sockets, restarts));
    // Use another process group, or else Ctrl-C would signal the child twice.
    let child = command.process_group(0).spawn().map_err(SuperviseError::Start)?;
    // Return unused memory to the system: from here on, the supervisor only waits.
    memory::trim();
    Ok(child)
}

/// Returns whether the sockets listen, which shows that a proxy has begun to serve.
fn has_served(sockets: &[Vec<Bound>]) -> bool {
    sockets.iter().flatten().any(|bound| bound.socket.is_listener().unwrap_or(false))
}

/// The supervisor's reaction to the end of a proxy.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Start,
    GiveUp,
    /// End the supervisor with this exit code.
    End(u8),
}

/// Counts the restarts of the proxy.
#[derive(Debug, Default)]
struct Pace {
    restarts: u64,
    /// Whether any proxy has served so far. If one has, a later proxy is started again even if it ends before it
    /// serves, for example while it waits for its identity.
    has_served: bool,
    /// The times of the restarts within the last [`RESTARTS_WITHIN`].
    latest: VecDeque<Instant>,
}

impl Pace {
    /// Decides what to do after a proxy has ended at `now` without a signal from the supervisor. If no proxy has served
    /// yet, ends the supervisor, because the command line or the environment is wrong.
    fn after(&mut self, status: ExitStatus, has_served: bool, now: Instant) -> Next {
        // Do not start the proxy again after these codes: it ends with code 0 if a user or a program sent SIGTERM to
        // it, and with code 2 if its command line is invalid.
        let is_meant = matches!(status.code(), Some(0 | 2));
        self.has_served |= has_served;
        if is_meant || !self.has_served {
            return Next::End(exit_code(status));
        }
        while self.latest.front().is_some_and(|at| now.saturating_duration_since(*at) >= RESTARTS_WITHIN) {
            self.latest.pop_front();
        }
        if self.latest.len() >= RESTARTS_MAX {
            return Next::GiveUp;
        }
        self.latest.push_back(now);
        self.restarts += 1;
        Next::Start
    }
}

/// Returns the exit code as shells report it: 128 plus the signal's number if a signal ended the process.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

/// Takes over the supervisor's sockets, and makes the kernel end this process when the supervisor ends. The child calls
/// this before it opens anything.
pub(crate) fn take_over() -> Result<Handover, HandoverError> {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from)?;
    // Set the name that tools show for this process. Otherwise they show the name of the executed file.
    set_name(NAME).map_err(io::Error::from)?;
    handover::take()
}

/// Waits for the time `wait`, and then refuses connections, so that callers can use another endpoint. Never returns. A
/// proxy that replaces a crashed proxy calls this function: while the control plane is unavailable, the proxy waits for
/// its identity, and connections would wait in vain.
pub(crate) async fn refuse_connections_after(wait: Duration, sockets: &[Vec<Bound>]) -> Infallible {
    sleep(wait).await;
    // Leave out sockets that do not listen yet: they refuse connections anyway. After a shutdown of such a socket, the
    // kernel would end every connection that the socket accepts later.
    let listens = |bound: &&Bound| bound.socket.is_listener().unwrap_or(false);
    for bound in sockets.iter().flatten().filter(listens) {
        // When the worker starts, it makes the socket listen again.
        let _ = bound.socket.shutdown(Shutdown::Read);
    }
    pending().await
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
