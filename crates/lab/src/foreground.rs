//! The main thread: it waits for each step of a run. Ctrl-C, SIGTERM or SIGHUP interrupts the wait.

use std::io::{self, Write};

use indicatif::{ProgressBar, ProgressStyle};
use tokio::runtime::{Builder, Runtime};

use crate::error::{Error, Result, io as io_error};
use crate::signals::EndSignals;

const STYLE: &str = "  {spinner} {msg} {pos}/{len}";

/// The main thread's runtime, and its output on the terminal.
pub(crate) struct Foreground {
    runtime: Runtime,
    signals: EndSignals,
    bar: ProgressBar,
}

impl Foreground {
    /// Installs handlers, after which Ctrl-C, SIGTERM and SIGHUP end the current wait instead of the process. Under
    /// nohup, SIGHUP ends nothing.
    ///
    /// # Errors
    /// If the system rejects signal handlers.
    pub(crate) fn new() -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(io_error("starting the lab"))?;
        let signals = EndSignals::listen(&runtime).map_err(io_error("listening for signals"))?;
        Ok(Self { runtime, signals, bar: ProgressBar::hidden() })
    }

    /// Waits for `something`.
    ///
    /// # Errors
    /// The error of `something`, or [`Error::Interrupted`] after Ctrl-C, SIGTERM or SIGHUP.
    pub(crate) fn wait<T>(&mut self, something: impl Future<Output = Result<T>>) -> Result<T> {
        let Self { runtime, signals, .. } = self;
        runtime.block_on(async {
            tokio::select! {
                done = something => done,
                () = signals.recv() => Err(Error::Interrupted),
            }
        })
    }

    /// Forgets the signals that have arrived, so that only a later signal ends the next wait.
    pub(crate) fn forget_signals(&mut self) {
        let Self { runtime, signals, .. } = self;
        runtime.block_on(async {
            // The runtime notices a signal only when it polls the system. Yielding makes it poll once, so that the loop
            // finds the signals that arrived while the runtime did not run.
            tokio::task::yield_now().await;
            loop {
                tokio::select! {
                    biased;
                    () = signals.recv() => {}
                    () = std::future::ready(()) => return,
                }
            }
        });
    }

    /// Shows the current step, and its progress from 0 to `len`. The caller advances the returned bar.
    pub(crate) fn begin(&mut self, what: &str, len: u32) -> ProgressBar {
        self.bar.finish_and_clear();
        self.bar = ProgressBar::new(len.into()).with_message(what.to_owned());
        if let Ok(style) = ProgressStyle::with_template(STYLE) {
            self.bar.set_style(style);
        }
        self.bar.clone()
    }

    /// Writes a line above the progress bar.
    ///
    /// # Errors
    /// If standard output is closed.
    pub(crate) fn say(&self, line: &str) -> Result<()> {
        self.bar.suspend(|| writeln!(io::stdout(), "{line}")).map_err(io_error("writing to the terminal"))
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
#[path = "foreground_tests.rs"]
mod tests;
