//! The pauses before a failed request is repeated.

use std::time::Duration;

/// Pauses that double from the shortest to the longest. A random part, up to half, is subtracted from each pause, so
/// that proxies that lost the control plane at the same moment return at different moments.
pub(super) struct Retry {
    shortest: Duration,
    longest: Duration,
    next: Duration,
}

impl Retry {
    pub(super) fn new(shortest: Duration, longest: Duration) -> Self {
        Self { shortest, longest, next: shortest }
    }

    /// The next pause.
    pub(super) fn pause(&mut self) -> Duration {
        let whole = self.next;
        self.next = (whole * 2).min(self.longest);
        whole / 2 + whole.mul_f64(0.5 * fastrand::f64())
    }

    /// Makes the next pause the shortest again. Call this after requests have succeeded for long enough.
    pub(super) fn reset(&mut self) {
        self.next = self.shortest;
    }
}

#[cfg(test)]
#[path = "retry_tests.rs"]
mod tests;
