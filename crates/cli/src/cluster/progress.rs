//! A sign of life while the cluster is asked: it moves on terminals, and is one line or nothing elsewhere.

use std::borrow::Cow;
use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::ProgressBar;

/// How often it moves.
const TICK: Duration = Duration::from_millis(100);

/// Shows what is being done until it is cleared.
pub(crate) fn sign_of_life(what: impl Into<Cow<'static, str>>) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let progress = ProgressBar::new_spinner().with_message(what);
    progress.enable_steady_tick(TICK);
    progress
}

/// The same for what takes long: where standard error is no terminal, one line says what is being waited for.
pub(crate) fn sign_of_life_or_line(what: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        eprintln!("leno: {what}");
    }
    sign_of_life(what.to_owned())
}
