//! The search for the highest rate that a target sustains. It makes no calls itself: it returns the rate of the next
//! trial, and receives the trial's result.
//!
//! The rate doubles until a trial fails. Then the search tries the geometric mean of the highest rate that succeeded
//! and the lowest rate that failed, until these two rates are within 5 % of each other. Geometric steps have the same
//! relative precision at every rate.

/// Lowest rate that is tried, in calls per second.
const LEAST_RATE: u32 = 10;
/// Highest rate that is tried, in calls per second.
const GREATEST_RATE: u32 = 1_000_000;
/// The search ends when the lowest rate that failed is at most this multiple of the highest rate that succeeded.
const PRECISION: f64 = 1.05;

/// A search in progress.
#[derive(Debug, Clone, Copy)]
pub(super) struct Search {
    first: u32,
    /// The highest rate that succeeded.
    passed: Option<u32>,
    /// The lowest rate that failed.
    failed: Option<u32>,
}

impl Search {
    /// A search that begins with this rate.
    pub(super) fn from(rate_per_s: u32) -> Self {
        Self { first: rate_per_s.clamp(LEAST_RATE, GREATEST_RATE), passed: None, failed: None }
    }

    /// The rate of the next trial; `None` if the search has ended.
    pub(super) fn next(&self) -> Option<u32> {
        match (self.passed, self.failed) {
            (None, None) => Some(self.first),
            (Some(passed), None) if passed < GREATEST_RATE => Some(passed.saturating_mul(2).min(GREATEST_RATE)),
            (None, Some(failed)) if failed > LEAST_RATE => Some((failed / 2).max(LEAST_RATE)),
            (Some(passed), Some(failed)) if f64::from(failed) > f64::from(passed) * PRECISION => {
                let middle = (f64::from(passed) * f64::from(failed)).sqrt().round() as u32;
                Some(middle).filter(|middle| (passed + 1..failed).contains(middle))
            }
            _ => None,
        }
    }

    /// Records whether the trial at the rate that [`Search::next`] returned has succeeded.
    pub(super) fn note(&mut self, rate_per_s: u32, passed: bool) {
        let place = if passed { &mut self.passed } else { &mut self.failed };
        *place = Some(rate_per_s);
    }

    /// The highest rate that succeeded, in calls per second; 0 if every trial failed.
    pub(super) fn found(&self) -> u32 {
        self.passed.unwrap_or_default()
    }
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
