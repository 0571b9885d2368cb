//! Shows progress while a command waits for the cluster: a spinner on a terminal, otherwise one line or nothing.

use std::borrow::Cow;
use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::ProgressBar;

/// Interval between two frames of the spinner.
const TICK: Duration = Duration::from_millis(100);

/// Shows a spinner until the caller clears the returned bar. Shows nothing if standard error is not a terminal.
pub(crate) fn sign_of_life(what: impl Into<Cow<'static, str>>) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let progress = ProgressBar::new_spinner().with_message(what);
    progress.enable_steady_tick(TICK);
    progress
}

/// Does the same as [`sign_of_life`] on a terminal. Otherwise prints one line, because the wait is long.
pub(crate) fn sign_of_life_or_line(what: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        eprintln!("leno: {what}");
    }
    sign_of_life(what.to_owned())
}
