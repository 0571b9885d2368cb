//! What came of the calls: latencies of each server, and failures.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// Latencies above this are counted as this.
const MAX_LATENCY_US: u64 = 60_000_000;
/// Keeps every latency to 0.1 %.
const SIGNIFICANT_DIGITS: u8 = 3;

/// The numbers, while calls run.
#[derive(Debug)]
pub(super) struct Stats {
    names: Vec<String>,
    servers: Vec<Histogram<u64>>,
    total: Histogram<u64>,
    failed: u64,
    first_failure: Option<String>,
    held_up: Duration,
    window: Option<(Instant, Instant)>,
}

/// The numbers at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Time measured so far; zero while warming up.
    pub measured: Duration,
    /// Of all answered calls.
    pub total: Latency,
    /// Of each server, in the plan's order.
    pub servers: Vec<Latency>,
    /// Calls that were not answered with OK.
    pub failed: u64,
    /// Why the first of them failed.
    pub first_failure: Option<String>,
    /// The longest time in which the load itself could not run, and so sent nothing; zero as a rule.
    pub held_up: Duration,
}

/// How many calls were answered, and how fast.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Latency {
    /// Answered calls.
    pub calls: u64,
    /// Half of them took at most this.
    pub p50_ms: f64,
    /// 99 of 100 took at most this.
    pub p99_ms: f64,
    /// 999 of 1000 took at most this.
    pub p999_ms: f64,
}

impl Snapshot {
    /// Answered calls per second.
    pub fn calls_per_second(&self) -> f64 {
        match self.measured.as_secs_f64() {
            0.0 => 0.0,
            seconds => self.total.calls as f64 / seconds,
        }
    }

    /// The part of the answered calls that each server answered, 0 to 1.
    pub fn shares(&self) -> Vec<f64> {
        let all = self.total.calls.max(1) as f64;
        self.servers.iter().map(|server| server.calls as f64 / all).collect()
    }
}

impl Stats {
    /// Nothing is counted until [`Stats::measure`].
    pub(super) fn new(names: &[String]) -> Self {
        Self {
            names: names.to_vec(),
            servers: names.iter().map(|_| histogram()).collect(),
            total: histogram(),
            failed: 0,
            first_failure: None,
            held_up: Duration::ZERO,
            window: None,
        }
    }

    /// Counts the calls sent from `from` until `until`.
    pub(super) fn measure(&mut self, from: Instant, until: Instant) {
        self.window = Some((from, until));
    }

    /// Counts an answered call.
    pub(super) fn record(&mut self, sent: Instant, server: &str, latency: Duration) {
        if !self.counts(sent) {
            return;
        }
        let us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        match self.names.iter().position(|name| name == server) {
            Some(index) => self.servers[index].saturating_record(us),
            None => return self.fail(&format!("an unknown server answered: {server:?}")),
        }
        self.total.saturating_record(us);
    }

    /// Counts a call that failed, also before measuring began: a failure is never warm-up.
    pub(super) fn fail(&mut self, why: &str) {
        self.failed += 1;
        self.first_failure.get_or_insert_with(|| why.to_owned());
    }

    /// Notes a call that was not sent, because the load was held up until `late` after it was due.
    pub(super) fn miss(&mut self, late: Duration) {
        self.held_up = self.held_up.max(late);
    }

    /// Counts calls that had no answer when the load ended.
    pub(super) fn fail_unanswered(&mut self, calls: u64, waited: Duration) {
        self.failed += calls;
        let why = || format!("no answer within {} s", waited.as_secs());
        self.first_failure.get_or_insert_with(why);
    }

    /// The numbers at `now`.
    pub(super) fn snapshot(&self, now: Instant) -> Snapshot {
        let measured =
            self.window.map_or(Duration::ZERO, |(from, until)| now.min(until).saturating_duration_since(from));
        Snapshot {
            measured,
            total: latency(&self.total),
            servers: self.servers.iter().map(latency).collect(),
            failed: self.failed,
            first_failure: self.first_failure.clone(),
            held_up: self.held_up,
        }
    }

    fn counts(&self, sent: Instant) -> bool {
        self.window.is_some_and(|(from, until)| (from..until).contains(&sent))
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, MAX_LATENCY_US, SIGNIFICANT_DIGITS)
        .expect("the bounds are constants that hdrhistogram takes")
}

fn latency(histogram: &Histogram<u64>) -> Latency {
    let ms = |quantile| histogram.value_at_quantile(quantile) as f64 / 1000.0;
    Latency { calls: histogram.len(), p50_ms: ms(0.5), p99_ms: ms(0.99), p999_ms: ms(0.999) }
}

#[cfg(test)]
#[path = "stats_tests.rs"]
mod tests;
