//! What is normal in this cluster: the measure that tells a slow or failing endpoint.
//!
//! Slow is relative to the median endpoint, so at most half of them can be slow; failing is relative to
//! the established endpoint that fails least, so that any number can be failing, but not all for long.

use super::endpoints::Endpoint;
use super::estimate::Estimate;
use super::health::State;

/// An endpoint is slow when its mean exceeds this multiple of the norm, plus what chance explains.
const SLOW_FACTOR: f64 = 1.2;
/// Standard deviations of an estimate that are put down to chance.
const CHANCE_DEVIATIONS: f64 = 3.0;
/// The same for the mean of a few probes; calls after them settle the matter.
const PROBE_DEVIATIONS: f64 = 2.0;
/// Bounds of the spread, which few answers show badly.
const SPREAD_RANGE: (f64, f64) = (0.5, 4.0);
/// Differences below this are noise of machines and schedulers, whatever the factor.
const FLOOR_MS: f64 = 0.5;
/// Standard deviations of the norm's failure rate that are put down to chance.
const FAILURE_DEVIATIONS: f64 = 3.0;
/// How much more often than the best endpoint one may fail, in calls per call.
const FAILURE_MARGIN: f64 = 0.1;

/// The cluster's norm, as of the last refresh.
#[derive(Debug, Default)]
pub(super) struct Norm {
    /// The median endpoint's latency; none before the first answers.
    pub(super) latency_ms: Option<f64>,
    /// How uncertain `latency_ms` is, as [`Estimate::variance`].
    variance: f64,
    /// The median endpoint's spread of latencies.
    pub(super) spread: f64,
    /// The failure rate of the established endpoint that fails least, 0 to 1.
    pub(super) failure_rate: f64,
    /// Room for finding medians without allocating.
    sorted: Vec<Estimate>,
}

impl Norm {
    /// Makes room for a cluster of `endpoints`.
    pub(super) fn reserve(&mut self, endpoints: usize) {
        self.sorted.clear();
        self.sorted.reserve_exact(endpoints);
    }

    pub(super) fn refresh(&mut self, endpoints: &[Endpoint]) {
        // Newcomers have too few answers to set a norm, and those that fail have none that count.
        let established = || {
            endpoints
                .iter()
                .map(|endpoint| &endpoint.health)
                .filter(|health| matches!(health.state, State::Ready | State::Slow(_)))
                .filter_map(|health| health.latency.map(|estimate| (estimate, health.failure_rate)))
        };
        self.failure_rate = established().map(|(_, failure_rate)| failure_rate).fold(1.0, f64::min);
        self.sorted.clear();
        self.sorted.extend(established().map(|(estimate, _)| estimate));

        let spread = lower_median(&mut self.sorted, Estimate::spread);
        let (least, most) = SPREAD_RANGE;
        self.spread = spread.map_or(1.0, |estimate| estimate.spread().clamp(least, most));
        let latency = lower_median(&mut self.sorted, |estimate| estimate.mean_ms);
        self.latency_ms = latency.map(|estimate| estimate.mean_ms);
        self.variance = latency.map_or(1.0, |estimate| estimate.variance);
    }

    /// The mean latency above which an endpoint is slow; none while there is no norm.
    pub(super) fn limit_ms(&self, estimate: &Estimate) -> Option<f64> {
        self.latency_ms.map(|norm_ms| norm_ms * self.limit_factor(estimate) + FLOOR_MS)
    }

    fn limit_factor(&self, estimate: &Estimate) -> f64 {
        let deviation = self.spread * (estimate.variance + self.variance).sqrt();
        SLOW_FACTOR + CHANCE_DEVIATIONS * deviation
    }

    pub(super) fn calls_slow(&self, estimate: &Estimate) -> bool {
        self.limit_ms(estimate).is_some_and(|limit_ms| estimate.mean_ms > limit_ms)
    }

    /// So fast, beyond chance, that the others must be overloaded if it is not simply better.
    pub(super) fn calls_fast(&self, estimate: &Estimate) -> bool {
        // Twice the margin of `calls_slow`: half of all endpoints are faster than the median.
        let factor = self.limit_factor(estimate).powi(2);
        self.latency_ms.is_some_and(|norm_ms| estimate.mean_ms * factor < norm_ms)
    }

    /// Narrower than `calls_slow`, so that nobody goes in and out at the limit.
    pub(super) fn welcomes_back(&self, estimate: &Estimate) -> bool {
        self.latency_ms.is_some_and(|norm_ms| estimate.mean_ms <= norm_ms * SLOW_FACTOR + FLOOR_MS)
    }

    /// Whether a recovered endpoint may well give so many `answers` of such a mean.
    pub(super) fn accepts_probes(&self, mean_ms: f64, answers: u32) -> bool {
        let chance = PROBE_DEVIATIONS * self.spread / f64::from(answers).sqrt();
        self.latency_ms.is_none_or(|norm_ms| mean_ms <= norm_ms * (SLOW_FACTOR + chance) + FLOOR_MS)
    }

    /// Judges a failure rate in which the latest outcome had `weight`.
    pub(super) fn calls_failing(&self, failure_rate: f64, weight: f64) -> bool {
        failure_rate > self.common_failure_rate(weight) + FAILURE_MARGIN
    }

    /// Whether the established endpoints may well fail as often; narrower than `calls_failing`.
    pub(super) fn excuses(&self, failure_rate: f64, weight: f64) -> bool {
        failure_rate <= self.common_failure_rate(weight)
    }

    /// The highest failure rate that chance makes of the norm's.
    fn common_failure_rate(&self, weight: f64) -> f64 {
        let rate = self.failure_rate;
        rate + FAILURE_DEVIATIONS * (rate * (1.0 - rate) * weight / 2.0).sqrt()
    }
}

/// The lower of two middle ones, so that of two endpoints the slow one is not the norm.
fn lower_median(estimates: &mut [Estimate], by: impl Fn(&Estimate) -> f64) -> Option<Estimate> {
    let middle = estimates.len().checked_sub(1)? / 2;
    let (_, median, _) = estimates.select_nth_unstable_by(middle, |one, other| by(one).total_cmp(&by(other)));
    Some(*median)
}
