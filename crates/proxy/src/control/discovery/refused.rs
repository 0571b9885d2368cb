//! Decides when the proxy asks again for names that the control plane refuses because of a limit on subscriptions.
//! Until the control plane accepts a name, it sends no updates of the name.

use std::time::{Duration, Instant};

use tokio::time::sleep_until;

use super::super::retry::Retry;

/// Shortest and longest pause before the proxy asks again for refused names. Each attempt makes the control plane look
/// up all of these names again.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Shortest pause between two warnings.
const WARNING_PAUSE: Duration = Duration::from_secs(60);
/// Idle time after which a subject may be forgotten to make room for refused names. Without this time, subjects that
/// calls use by turns would displace each other.
pub(super) const UNUSED: Duration = Duration::from_secs(30);

/// Schedules, for one stream, when the proxy asks again for refused names.
pub(super) struct AskAgain {
    retry: Retry,
    at: Option<Instant>,
}

impl AskAgain {
    /// No names are refused.
    pub(super) fn new() -> Self {
        Self { retry: Retry::new(PAUSE_MIN, PAUSE_MAX), at: None }
    }

    /// Waits until it is time to ask again; for ever if no names are refused.
    pub(super) async fn due(&self) {
        match self.at {
            Some(at) => sleep_until(at.into()).await,
            None => std::future::pending().await,
        }
    }

    /// Plans the next attempt, unless an attempt is planned already or no name is refused.
    pub(super) fn plan(&mut self, refused: usize, now: Instant) {
        if refused > 0 && self.at.is_none() {
            self.at = Some(now + self.retry.pause());
        }
    }

    /// Called when the planned time has come: returns whether to ask for the refused names now, and plans the next
    /// attempt. If `refused` is 0, the control plane has accepted all names meanwhile: returns `false`, and plans no
    /// attempt.
    pub(super) fn is_over(&mut self, refused: usize, now: Instant) -> bool {
        if refused == 0 {
            self.at = None;
            self.retry.reset();
            return false;
        }
        self.at = Some(now + self.retry.pause());
        true
    }
}

/// Limits the warnings about refused names.
#[derive(Default)]
pub(super) struct Warnings(Option<Instant>);

impl Warnings {
    /// Logs that the control plane refuses names, at most once per [`WARNING_PAUSE`]. `why` is the control plane's
    /// message, which names the limit and the remedy.
    pub(super) fn warn(&mut self, refused: usize, why: &str, now: Instant) {
        if self.0.is_some_and(|at| now.saturating_duration_since(at) < WARNING_PAUSE) {
            return;
        }
        self.0 = Some(now);
        let why = why.escape_debug();
        tracing::warn!(
            refused,
            "the control plane sends no updates of names above its limit: {why}; what is known of them holds, calls \
             to other names of them fail, and we ask again"
        );
    }
}

#[cfg(test)]
#[path = "refused_tests.rs"]
mod tests;
