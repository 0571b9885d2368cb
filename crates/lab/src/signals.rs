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
    /// Starts to listen. From then on, the signals no longer end the process. If the process ignores SIGHUP, for
    /// example because nohup started it, SIGHUP stays ignored.
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

/// Whether this process ignores a signal. Check this before you install a signal handler, because the handler would
/// replace the setting. A program inherits the setting from its parent: nohup, for example, makes its program ignore
/// SIGHUP.
pub fn is_ignored(signal: SignalKind) -> bool {
    // If /proc cannot be read, assume the kernel's default: the process does not ignore the signal.
    fs::read_to_string("/proc/self/status").is_ok_and(|status| ignores(&status, signal))
}

/// Whether a process ignores a signal, according to its /proc/PID/status.
fn ignores(status: &str, signal: SignalKind) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // Signals are numbered from 1, so signal 1 is the lowest bit of the mask.
    let bit = u32::try_from(signal.as_raw_value() - 1).ok().and_then(|shift| 1_u64.checked_shl(shift));
    mask.zip(bit).is_some_and(|(mask, bit)| mask & bit != 0)
}

#[cfg(test)]
#[path = "signals_tests.rs"]
mod tests;
