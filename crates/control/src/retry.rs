//! Repeats failed writes of Kubernetes objects: when to write again, and when to log a failure.

use std::future::pending;
use std::time::Duration;

use tokio::time::sleep;

/// Shortest and longest delay after failed writes; each further failure doubles the delay.
const MIN: Duration = Duration::from_secs(1);
const MAX: Duration = Duration::from_secs(60);

/// A series of failed attempts, which may be empty.
#[derive(Debug)]
pub(crate) struct Retry {
    /// The delay after the next failure.
    delay: Duration,
    is_failing: bool,
    /// Whether the series was logged.
    is_logged: bool,
}

impl Retry {
    pub(crate) fn new() -> Self {
        Self { delay: MIN, is_failing: false, is_logged: false }
    }

    /// Adds an attempt. A success ends the series. `log` logs a failure, and returns whether it did; it is called until
    /// the series is logged, and then no more.
    pub(crate) fn attempted<F>(&mut self, failed: Option<&F>, log: impl FnOnce(&F) -> bool) {
        match failed {
            None => *self = Self::new(),
            Some(failed) => {
                self.is_failing = true;
                self.is_logged = self.is_logged || log(failed);
            }
        }
    }

    /// Waits until the next attempt is due; for ever if the last attempt succeeded.
    pub(crate) async fn due(&mut self) {
        if !self.is_failing {
            return pending().await;
        }
        sleep(self.delay).await;
        self.delay = (self.delay * 2).min(MAX);
    }
}

#[cfg(test)]
#[path = "retry_tests.rs"]
mod tests;
