//! Repeats writes of Kubernetes objects that failed or were undone: when to write again, and when to log a failure.

mod namespaces;
mod writes;

use std::future::pending;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

pub(crate) use namespaces::{is_refusal, is_usual};
pub(crate) use writes::Writes;

/// Shortest and longest delay after failed writes; each further failure doubles the delay.
const MIN: Duration = Duration::from_secs(1);
const MAX: Duration = Duration::from_secs(60);

/// A series of failed attempts, which may be empty. A success ends the series: replace it with an empty one.
#[derive(Debug, Default)]
pub(crate) struct Retry {
    /// The time of the next attempt, and the delay before it; `None` if the series is empty.
    next: Option<(Instant, Duration)>,
    /// Whether the series was logged.
    is_logged: bool,
}

impl Retry {
    /// Adds a failed attempt. `log` logs the failure, and returns whether it did. Calls `log` until the series is
    /// logged, and then no more.
    pub(crate) fn failed(&mut self, log: impl FnOnce() -> bool) {
        self.is_logged = self.is_logged || log();
        let now = Instant::now();
        let delay = match self.next {
            None => MIN,
            // An attempt before its time, for example after a change, must not delay the next one.
            Some((at, _)) if now < at => return,
            Some((_, delay)) => (delay * 2).min(MAX),
        };
        self.next = Some((now + delay, delay));
    }

    /// Makes the delay after the next attempt the shortest one. The series stays logged.
    fn shorten(&mut self) {
        self.next = None;
    }

    /// Makes the next attempt due now. If that attempt fails, the delay after it is the same as the last delay.
    fn hasten(&mut self) {
        let now = Instant::now();
        if let Some((at, delay)) = &mut self.next
            && now < *at
        {
            // Halve the delay, because `failed` doubles it: early attempts must not delay the next one.
            (*at, *delay) = (now, *delay / 2);
        }
    }

    /// Whether the next attempt is due; true if the series is empty.
    fn is_due(&self) -> bool {
        self.next.is_none_or(|(at, _)| at <= Instant::now())
    }

    /// Waits until the next attempt is due; for ever if the series is empty.
    pub(crate) async fn due(&self) {
        match self.next {
            Some((at, _)) => sleep_until(at).await,
            None => pending().await,
        }
    }
}

#[cfg(test)]
#[path = "retry_tests.rs"]
mod tests;
