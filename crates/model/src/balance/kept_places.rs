//! The places in flight that failed calls keep for a while.
//!
//! Without them, an endpoint that fails fast has the fewest calls in flight, so it attracts calls. An overloaded endpoint
//! that rejects calls at once would then reject most of them. If the cause is one client's calls, these calls would go to
//! one endpoint after the other, and each endpoint would look worse than the others.

use std::time::Instant;

/// A failed call keeps its place in flight for about this multiple of the usual latency, or for [`KEPT_MIN_MS`]. With a
/// larger number, an endpoint that fails a part of its calls gets fewer calls.
const KEPT_FACTOR: f64 = 4.0;
const KEPT_MIN_MS: f64 = 0.4;
/// After this multiple of that time, less than a hundredth of a thousand kept places is left.
const KEPT_AGE_MAX: f64 = 12.0;

/// The places that one endpoint's failed calls keep. Their number decreases exponentially.
#[derive(Debug, Clone, Default)]
pub(super) struct KeptPlaces {
    /// As of `at`.
    number: f64,
    at: Option<Instant>,
}

impl KeptPlaces {
    /// Records that a call has failed.
    pub(super) fn add(&mut self, now: Instant, usual_ms: Option<f64>) {
        self.set(now, self.number(now, usual_ms) + 1.0);
    }

    pub(super) fn raise_to(&mut self, least: f64, now: Instant, usual_ms: Option<f64>) {
        self.set(now, self.number(now, usual_ms).max(least));
    }

    fn set(&mut self, now: Instant, number: f64) {
        self.number = number;
        self.at = Some(now);
    }

    /// Returns the number of kept places at `now`.
    #[inline]
    pub(super) fn number(&self, now: Instant, usual_ms: Option<f64>) -> f64 {
        // Each pick needs this number of each endpoint that it compares. Without failures, it must cost nothing.
        if self.number == 0.0 { 0.0 } else { self.decreased(now, usual_ms) }
    }

    fn decreased(&self, now: Instant, usual_ms: Option<f64>) -> f64 {
        let (Some(at), Some(usual_ms)) = (self.at, usual_ms) else { return 0.0 };
        let constant_ms = (KEPT_FACTOR * usual_ms).max(KEPT_MIN_MS);
        let age_ms = now.saturating_duration_since(at).as_secs_f64() * 1e3;
        // After a failure, most picks come later than this. They need no exponential function.
        if age_ms > KEPT_AGE_MAX * constant_ms {
            return 0.0;
        }
        self.number * (-age_ms / constant_ms).exp()
    }
}
