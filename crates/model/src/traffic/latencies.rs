//! The latencies of a cluster's latest calls, by method: where a hedge's delay that is a percentile comes from.
//!
//! A call that was hedged counts with the time that it had waited, if the further attempt answered first. That time is above
//! the delay, so the percentile at the delay stays what it would be without hedging.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustc_hash::FxHashMap;

use crate::balance::Method;

/// Most methods of a cluster whose latencies are known. The calls of further methods are not hedged after a percentile.
const METHODS_MAX: usize = 64;
/// The latencies of this period and of the one before count.
const PERIOD: Duration = Duration::from_secs(30);
/// How long a percentile is used before it is computed again.
const FRESH: Duration = Duration::from_millis(100);
/// Number of calls slower than a percentile that it takes to know the percentile: 100 calls for p95, 5,000 for p99.9.
const ENOUGH_SLOWER: u64 = 5;
/// The largest latency that is told apart from larger ones, in microseconds.
const LONGEST_US: u64 = 60_000_000;
/// Significant digits of a latency; the error of a percentile is at most 7 %.
const DIGITS: u8 = 1;

/// The latencies of the methods of one cluster on one worker.
#[derive(Debug, Default)]
pub struct MethodLatencies {
    methods: FxHashMap<Method, Latencies>,
}

/// The latencies of one method in microseconds.
#[derive(Debug)]
struct Latencies {
    /// The latencies of this period.
    recent: Histogram<u32>,
    /// The latencies of this period and of the period before.
    all: Histogram<u32>,
    began: Instant,
    /// The latest percentile in tenths of a percent, its value, and when it was computed.
    known: Option<(u16, Option<Duration>, Instant)>,
}

impl MethodLatencies {
    /// Adds the time until the response headers of a call, or the time that the call has waited for them.
    pub fn add(&mut self, method: Method, latency: Duration, now: Instant) {
        if !self.methods.contains_key(&method) {
            if self.methods.len() >= METHODS_MAX {
                self.methods.retain(|_, latencies| now.saturating_duration_since(latencies.began) < 2 * PERIOD);
            }
            if self.methods.len() >= METHODS_MAX {
                return;
            }
            let Some(latencies) = Latencies::new(now) else { return };
            self.methods.insert(method, latencies);
        }
        if let Some(latencies) = self.methods.get_mut(&method) {
            latencies.pass_to(now);
            let us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
            latencies.recent.saturating_record(us);
            latencies.all.saturating_record(us);
        }
    }

    /// Returns a percentile, in tenths of a percent, of the latencies of a method; `None` if too few calls were made.
    pub fn percentile(&mut self, method: Method, permille: u16, now: Instant) -> Option<Duration> {
        let latencies = self.methods.get_mut(&method)?;
        match latencies.known {
            Some((of, value, at)) if of == permille && now.saturating_duration_since(at) < FRESH => return value,
            _ => latencies.pass_to(now),
        }
        let value = latencies.percentile(permille);
        latencies.known = Some((permille, value, now));
        value
    }
}

impl Latencies {
    /// `None` never happens: the bounds are constants that a histogram can have.
    fn new(now: Instant) -> Option<Self> {
        let empty = || Histogram::new_with_bounds(1, LONGEST_US, DIGITS).ok();
        Some(Self { recent: empty()?, all: empty()?, began: now, known: None })
    }

    /// Begins the period of `now`, if it has not begun.
    fn pass_to(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.began);
        if elapsed < PERIOD {
            return;
        }
        std::mem::swap(&mut self.recent, &mut self.all);
        self.recent.reset();
        // Two periods without a call leave nothing of them.
        if elapsed >= 2 * PERIOD {
            self.all.reset();
        }
        self.began = now;
    }

    fn percentile(&self, permille: u16) -> Option<Duration> {
        let slower = self.all.len() * u64::from(1_000u16.saturating_sub(permille)) / 1_000;
        let us = self.all.value_at_quantile(f64::from(permille) / 1_000.0);
        (slower >= ENOUGH_SLOWER).then(|| Duration::from_micros(us))
    }
}

#[cfg(test)]
#[path = "latencies_tests.rs"]
mod tests;
