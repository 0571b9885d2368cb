//! How many requests a client may make: a bucket of tokens that fills with time, which is an argument.

use std::time::{Duration, Instant};

use super::limits::{REQUESTS_BURST, REQUESTS_PER_SECOND};

/// The requests that a client may still make.
#[derive(Debug)]
pub(crate) struct RequestRate {
    tokens: f64,
    filled: Instant,
}

impl RequestRate {
    /// A full bucket.
    pub(crate) fn new(now: Instant) -> Self {
        Self { tokens: f64::from(REQUESTS_BURST), filled: now }
    }

    /// Whether one more request is within the limit; it counts then.
    pub(crate) fn takes(&mut self, now: Instant) -> bool {
        let passed = now.checked_duration_since(self.filled).unwrap_or(Duration::ZERO);
        self.filled = now;
        let fresh = passed.as_secs_f64() * f64::from(REQUESTS_PER_SECOND);
        self.tokens = (self.tokens + fresh).min(f64::from(REQUESTS_BURST));
        let is_within = self.tokens >= 1.0;
        if is_within {
            self.tokens -= 1.0;
        }
        is_within
    }
}

#[cfg(test)]
#[path = "rate_tests.rs"]
mod tests;
