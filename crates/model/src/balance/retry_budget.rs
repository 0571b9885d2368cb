//! The retry budget of a cluster. It limits the number of retries, so that they do not multiply the load on failing
//! endpoints (GEP-3388).
//!
//! The budget divides the latest interval into ten parts of equal length, and counts the calls and the retries in each
//! part. The retries may be at most a percentage of the calls. A token bucket would be less exact, because a token
//! could be used long after the call that earned it.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::settings::milliseconds;

/// Number of parts into which the interval is divided.
const PARTS: usize = 10;

/// The settings of a retry budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BudgetSettings {
    /// Number of retries that the budget allows for each 100 calls of the interval: 0 to 100.
    pub percent: u8,
    /// Length of the interval. The budget counts only the calls and retries within this time before the present.
    #[serde(rename = "interval_ms", serialize_with = "milliseconds")]
    pub interval: Duration,
    /// Number of retries per second that the budget always allows, even without calls.
    pub min_per_second: u32,
}

impl Default for BudgetSettings {
    /// The defaults of GEP-3388.
    fn default() -> Self {
        Self { percent: 20, interval: Duration::from_secs(10), min_per_second: 10 }
    }
}

/// A retry budget: its settings, and the counted calls and retries of the latest interval.
///
/// A retry is allowed if the interval's retries, including this retry, do not exceed the larger of two numbers:
/// `percent` % of the interval's calls, and the minimum that is always allowed.
#[derive(Clone, Debug)]
pub struct RetryBudget {
    settings: BudgetSettings,
    /// Number of budgets for the same cluster, one for each worker. Each of them allows an equal part of the minimum.
    sharers: u32,
    parts: [Part; PARTS],
    /// Index in `parts` of the part that contains the present. This part ends at `latest_ends`.
    latest: usize,
    latest_ends: Instant,
    /// The length of a part.
    length: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
struct Part {
    calls: u32,
    retries: u32,
}

impl RetryBudget {
    /// Creates a budget that has counted no calls. `sharers` budgets divide the minimum equally among themselves; 0
    /// means 1.
    pub fn new(settings: BudgetSettings, sharers: u32, now: Instant) -> Self {
        let length = length_of(&settings);
        let (parts, latest_ends) = (Default::default(), now + length);
        Self { settings, sharers: sharers.max(1), parts, latest: 0, latest_ends, length }
    }

    /// Changes the settings, and keeps the counts. If the length of the interval changes, the budget adds up parts of
    /// the old and of the new length, until new parts have replaced all old ones.
    pub fn set_settings(&mut self, settings: BudgetSettings) {
        if self.settings != settings {
            self.settings = settings;
            self.length = length_of(&settings);
        }
    }

    /// Counts a call. Do not count the call's retries here: [`Self::take`] counts them.
    pub fn note_call(&mut self, now: Instant) {
        self.pass_to(now).calls += 1;
    }

    /// Counts a retry if the budget allows one more. Returns whether it does.
    pub fn take(&mut self, now: Instant) -> bool {
        self.pass_to(now);
        let has_left = self.left() > 0;
        self.parts[self.latest].retries += u32::from(has_left);
        has_left
    }

    /// Returns the number of further retries that the budget allows at `now`.
    pub fn left_at(&self, now: Instant) -> u64 {
        let mut passed = self.clone();
        passed.pass_to(now);
        passed.left()
    }

    /// Returns the number of further retries that the budget allows, as of the latest call of [`Self::note_call`] or
    /// [`Self::take`].
    pub fn left(&self) -> u64 {
        let (mut calls, mut retries) = (0u64, 0u64);
        for part in &self.parts {
            calls += u64::from(part.calls);
            retries += u64::from(part.retries);
        }
        let share = calls * u64::from(self.settings.percent) / 100;
        share.max(self.minimum()).saturating_sub(retries)
    }

    /// The number of retries that this budget always allows in an interval, even without calls.
    fn minimum(&self) -> u64 {
        let per_interval = u128::from(self.settings.min_per_second) * self.settings.interval.as_millis() / 1000;
        u64::try_from(per_interval.div_ceil(u128::from(self.sharers))).unwrap_or(u64::MAX)
    }

    /// Returns the part of the interval that contains `now`. Clears the counts of parts that are now older than the
    /// interval.
    fn pass_to(&mut self, now: Instant) -> &mut Part {
        if now >= self.latest_ends {
            self.begin_part(now);
        }
        &mut self.parts[self.latest]
    }

    #[cold]
    fn begin_part(&mut self, now: Instant) {
        let (late, length) = (now.saturating_duration_since(self.latest_ends).as_nanos(), self.length.as_nanos());
        for _ in 0..(1 + late / length).min(PARTS as u128) {
            self.latest = (self.latest + 1) % PARTS;
            self.parts[self.latest] = Part::default();
        }
        let left = Duration::from_nanos((length - late % length) as u64);
        self.latest_ends = now + left;
    }
}

/// Returns the length of a part of the interval.
fn length_of(settings: &BudgetSettings) -> Duration {
    (settings.interval / PARTS as u32).max(Duration::from_millis(1))
}

#[cfg(test)]
#[path = "retry_budget_tests.rs"]
mod tests;
