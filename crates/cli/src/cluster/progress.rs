//! A sign of life while the cluster is asked, on terminals only.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::ProgressBar;

/// How often it moves.
const TICK: Duration = Duration::from_millis(100);

/// Shows what is being done until it is cleared.
pub(crate) fn sign_of_life(what: &'static str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let progress = ProgressBar::new_spinner().with_message(what);
    progress.enable_steady_tick(TICK);
    progress
}
