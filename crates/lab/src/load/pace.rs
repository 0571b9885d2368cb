//! The schedule of calls.

use std::time::{Duration, Instant};

use super::traffic::{Arrivals, Traffic, WarmUpRate};

/// The schedule of an open loop: the time of each call, evenly spaced or random. The rate may differ in the warm-up.
#[derive(Debug)]
pub(super) struct Pace {
    stages: Vec<Stage>,
    /// Index of the stage that the next call belongs to.
    stage: usize,
    /// Position of the next call in its stage, in units of calls since the stage's beginning. With random arrivals, it
    /// may be a fraction.
    calls: f64,
    /// Random gaps; `None` if calls are evenly spaced.
    random: Option<fastrand::Rng>,
    next: Option<Instant>,
}

/// A period of the schedule in which the rate changes linearly or stays the same.
#[derive(Debug)]
struct Stage {
    start: Instant,
    length: Duration,
    /// Calls per second at the beginning; at least 0.
    from: f64,
    /// Calls per second at the end; above 0.
    to: f64,
}

impl Pace {
    /// Creates a schedule of `rate_per_s` calls per second (at least one) from `measured_from` until `end`. From
    /// `start` until `measured_from`, the traffic's warm-up rate applies. The seed determines the random gaps.
    pub(super) fn new(
        (start, measured_from, end): (Instant, Instant, Instant),
        rate_per_s: u32,
        traffic: &Traffic,
        seed: u64,
    ) -> Self {
        let rate = f64::from(rate_per_s.max(1));
        let stage = |start: Instant, end: Instant, from| Stage { start, length: end - start, from, to: rate };
        let stages = match traffic.warm_up_rate {
            WarmUpRate::Full => vec![stage(start, end, rate)],
            WarmUpRate::Ramp => vec![stage(start, measured_from, 0.0), stage(measured_from, end, rate)],
            WarmUpRate::Half => {
                let half = Stage { to: rate / 2.0, ..stage(start, measured_from, rate / 2.0) };
                vec![half, stage(measured_from, end, rate)]
            }
        };
        let random = (traffic.arrivals == Arrivals::Poisson).then(|| fastrand::Rng::with_seed(seed));
        let mut pace = Self { stages, stage: 0, calls: 0.0, random, next: None };
        pace.calls = pace.first_gap();
        pace.find_next();
        pace
    }

    /// Time of the next call; `None` after the last.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.next
    }

    /// Takes the next call if it is due by `now`.
    pub(super) fn take(&mut self, now: Instant) -> Option<Instant> {
        let due = self.next.filter(|&due| due <= now)?;
        self.calls += self.random.as_mut().map_or(1.0, exponential);
        self.find_next();
        Some(due)
    }

    /// Returns the gap between the beginning of a stage and its first call, in units of the mean gap between calls.
    /// Random arrivals have no memory, so the first gap is like any other.
    fn first_gap(&mut self) -> f64 {
        self.random.as_mut().map_or(0.0, exponential)
    }

    fn find_next(&mut self) {
        self.next = None;
        while let Some(stage) = self.stages.get(self.stage) {
            let after = stage.time_until(self.calls);
            if after < stage.length {
                self.next = Some(stage.start + after);
                return;
            }
            self.stage += 1;
            self.calls = self.first_gap();
        }
    }
}

impl Stage {
    /// The time from the stage's beginning within which `calls` calls are due.
    ///
    /// It is the solution `t` of `calls = from * t + (to - from) / length * t^2 / 2`. The time is always computed from
    /// the stage's beginning, so that no rounding error accumulates from call to call.
    fn time_until(&self, calls: f64) -> Duration {
        if calls <= 0.0 || self.length.is_zero() {
            return Duration::ZERO;
        }
        let climb_per_s = (self.to - self.from) / self.length.as_secs_f64();
        let seconds = 2.0 * calls / (self.from + (self.from.powi(2) + 2.0 * climb_per_s * calls).max(0.0).sqrt());
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }
}

/// A random gap with the mean 1.
fn exponential(random: &mut fastrand::Rng) -> f64 {
    -(1.0 - random.f64()).ln()
}

#[cfg(test)]
#[path = "pace_tests.rs"]
mod tests;
