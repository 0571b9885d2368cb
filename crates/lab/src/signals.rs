//! The signals that end a command.

use std::fs;
use std::future::poll_fn;
use std::io;
use std::task::Poll;

use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A listener for Ctrl-C, SIGTERM and SIGHUP.
pub(crate) struct EndSignals(Vec<Signal>);

impl EndSignals {
    /// Starts to listen. From then on, the signals no longer end the process. If the process ignores SIGHUP, because
    /// nohup started it, it continues to ignore SIGHUP.
    ///
    /// # Errors
    /// If the system rejects signal handlers.
    pub(crate) fn listen(runtime: &Runtime) -> io::Result<Self> {
        let _context = runtime.enter();
        let hang_up = SignalKind::hangup();
        let hang_up = (!is_ignored(hang_up)).then_some(hang_up);
        let kinds = [SignalKind::interrupt(), SignalKind::terminate()].into_iter().chain(hang_up);
        kinds.map(signal).collect::<io::Result<_>>().map(Self)
    }

    /// Waits until one of the signals arrives.
    pub(crate) async fn recv(&mut self) {
        poll_fn(|context| {
            let has_arrived = self.0.iter_mut().any(|signal| signal.poll_recv(context).is_ready());
            if has_arrived { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Whether this process ignores a signal. A program inherits the ignored signals of the program that starts it: nohup
/// makes a program ignore SIGHUP. A signal handler would replace this setting, so a command must check it before it
/// installs a handler.
pub fn is_ignored(signal: SignalKind) -> bool {
    // Without /proc, assume the kernel's default.
    fs::read_to_string("/proc/self/status").is_ok_and(|status| ignores(&status, signal))
}

/// Whether a process with this /proc/PID/status ignores a signal.
fn ignores(status: &str, signal: SignalKind) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // Signals are numbered from 1. Signal 1 is the lowest bit.
    let bit = u32::try_from(signal.as_raw_value() - 1).ok().and_then(|shift| 1_u64.checked_shl(shift));
    mask.zip(bit).is_some_and(|(mask, bit)| mask & bit != 0)
}

#[cfg(test)]
#[path = "signals_tests.rs"]
mod tests;
