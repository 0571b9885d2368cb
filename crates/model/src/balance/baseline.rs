//! The cluster's baseline. The balancer compares each endpoint with the baseline to find slow and failing endpoints.
//!
//! An endpoint is established if it is ready or slow, or if it is warming and has enough answers.
//!
//! - Slow: an endpoint that is much slower than the median of the established endpoints. At most half of the
//!   established endpoints can be slow.
//! - Failing: an endpoint that fails much more often than the established endpoint that fails least. Any number of
//!   endpoints can be failing, but not all of them for long: without an established endpoint to compare with, the
//!   failing endpoints return.

use std::time::{Duration, Instant};

use super::endpoints::Endpoint;
use super::estimate::Estimate;
use super::health::State;

/// An endpoint is slow if its mean latency exceeds this multiple of the baseline, plus margins for chance and noise.
const SLOW_FACTOR: f64 = 1.2;
/// The margin for chance, in standard deviations of the difference between the endpoint's mean and the baseline.
const CHANCE_DEVIATIONS: f64 = 3.0;
/// Limits to which the estimated spread is clamped, because a spread that rests on a few answers may be far off. The
/// spread is the standard deviation of latencies, divided by their mean.
const SPREAD_RANGE: (f64, f64) = (0.5, 4.0);
/// A latency difference below this is noise of machines and schedulers, even if it exceeds [`SLOW_FACTOR`].
const FLOOR_MS: f64 = 0.5;
/// The balancer also ignores a latency difference below this fraction of the usual further time. The further time of a
/// call is the time from its response headers to its end.
///
/// For example, a stream that lasts a second gains nothing from headers that come 10 ms sooner. If the balancer avoided
/// an endpoint because of such a small difference, the other endpoints would get too many streams. That would cost more
/// than the headers gain.
const FLOOR_OF_STREAMS: f64 = 0.02;
/// Upper limit, in ms, of the latency difference that the balancer ignores because of [`FLOOR_OF_STREAMS`].
const FLOOR_OF_STREAMS_MAX_MS: f64 = 25.0;
/// Number of calls over which the running mean of the further time is taken.
const STREAM_MEMORY: u32 = 256;
/// A warming endpoint is not treated as fast before this age, nor before [`FAST_AFTER_BASELINES`] times the baseline.
/// Earlier answers are biased, because the fastest of many calls are answered first.
const FAST_AFTER_MS: f64 = 500.0;
const FAST_AFTER_BASELINES: f64 = 10.0;
/// For some time after the first baseline, `roomy_ms` equals the current baseline. That time is the current baseline
/// times this number. The first answers are biased, so a minimum over them would be too low.
const ROOMY_AFTER_BASELINES: f64 = 5.0;
/// The latency of one answer is capped at this multiple of the usual latency.
const SURPRISE_MAX: f64 = 16.0;
/// The other endpoints are full if their latency exceeds `roomy + RELIEF_START * (slow - roomy)`. `roomy` is their
/// latency with spare capacity, and `slow` is the slow endpoint's latency. Above this limit, calls that queue at the
/// other endpoints would finish sooner at the slow endpoint.
const RELIEF_START: f64 = 0.25;
/// Lower bound of `RELIEF_START * (slow - roomy)`, as a fraction of `roomy`. It is needed because `roomy` is not known
/// exactly.
const RELIEF_START_MIN: f64 = 0.3;
/// Growth of `roomy_ms`, as a fraction per second, while the baseline is above `roomy_ms`.
const ROOMY_GROWTH_PER_S: f64 = 0.005;
/// A warming endpoint is established, and contributes to the baseline, once its variance is at most this number. 0.2 is
/// the variance after 5 simultaneous answers.
const ESTABLISHED_VARIANCE: f64 = 0.2;
/// The highest failure rate that chance can explain lies this many standard deviations above the baseline's failure
/// rate.
const FAILURE_DEVIATIONS: f64 = 3.0;
/// An endpoint is failing if its failure rate exceeds the highest rate that chance can explain by more than this
/// margin. Rates and margin are fractions of the endpoint's calls.
const FAILURE_MARGIN: f64 = 0.1;

/// The cluster's baseline, as of the last refresh.
#[derive(Debug, Clone)]
pub(super) struct Baseline {
    /// The mean latency of the median endpoint; `None` before the first answers.
    pub(super) latency_ms: Option<f64>,
    /// The uncertainty of `latency_ms`: the [`Estimate::variance`] of the median endpoint.
    variance: f64,
    /// The mean interval at which an endpoint gets calls if all endpoints have equal shares. Probes to an endpoint are
    /// at least this far apart. Otherwise, the probes of many proxies would give the endpoint more than its share of
    /// the calls.
    pub(super) fair_interval: Duration,
    /// The latency, in ms, at which each answer is capped before it enters a mean.
    pub(super) surprise_ms: f64,
    /// The latency of endpoints with spare capacity: approximately the lowest recent baseline.
    roomy_ms: f64,
    first_refresh: Option<Instant>,
    refreshed: Option<Instant>,
    /// Running mean of ln(1 + t), where t is the further time of a call: the time in ms from its response headers to
    /// its end. Because of the logarithm, rare streams among many short calls hardly change this mean.
    stream_ln_ms: f64,
    /// Number of calls in the mean `stream_ln_ms`. It stops at [`STREAM_MEMORY`], so that new calls keep their weight.
    stream_calls: u32,
    /// The spread of latencies: the median over the established endpoints.
    pub(super) spread: f64,
    /// The failure rate of the established endpoint that fails least, 0 to 1.
    pub(super) failure_rate: f64,
    /// Buffer for finding medians, reused so that a refresh does not allocate.
    sorted: Vec<Estimate>,
}

impl Default for Baseline {
    fn default() -> Self {
        Self {
            latency_ms: None,
            variance: 1.0,
            fair_interval: Duration::ZERO,
            surprise_ms: f64::INFINITY,
            roomy_ms: 0.0,
            first_refresh: None,
            refreshed: None,
            stream_ln_ms: 0.0,
            stream_calls: 0,
            spread: 1.0,
            failure_rate: 1.0,
            sorted: Vec::new(),
        }
    }
}

impl Baseline {
    /// Reserves space for `endpoints` endpoints.
    pub(super) fn reserve(&mut self, endpoints: usize) {
        self.sorted.clear();
        self.sorted.reserve_exact(endpoints);
    }

    pub(super) fn refresh(&mut self, now: Instant, usual_ms: Option<f64>, endpoints: &[Endpoint]) {
        self.surprise_ms = usual_ms.map_or(f64::INFINITY, |usual_ms| usual_ms * SURPRISE_MAX);
        // Exclude warming endpoints with few answers, because they are too uncertain. Exclude failing endpoints,
        // because a fault must not become the baseline.
        let established = || {
            endpoints
                .iter()
                .map(|endpoint| &endpoint.health)
                .filter_map(|health| health.latency.map(|estimate| (health, estimate)))
                .filter(|(health, estimate)| match health.state {
                    State::Ready | State::Slow(_) => true,
                    State::Warming { .. } => estimate.variance <= ESTABLISHED_VARIANCE,
                    State::Failing(_) => false,
                })
                .map(|(health, estimate)| (estimate, health.failure_rate))
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
        self.remember_room(now);
    }

    fn remember_room(&mut self, now: Instant) {
        let Some(baseline_ms) = self.latency_ms else { return };
        let first_refresh = *self.first_refresh.get_or_insert(now);
        let age_ms = now.saturating_duration_since(first_refresh).as_secs_f64() * 1e3;
        let since_last = now.saturating_duration_since(self.refreshed.replace(now).unwrap_or(now));
        self.roomy_ms = if age_ms > baseline_ms * ROOMY_AFTER_BASELINES && self.roomy_ms > 0.0 {
            (self.roomy_ms * (1.0 + ROOMY_GROWTH_PER_S * since_last.as_secs_f64())).min(baseline_ms)
        } else {
            baseline_ms
        };
    }

    /// Returns the share of calls that a slow endpoint should receive to relieve the other endpoints, as a fraction of
    /// a full share, 0 to 1. The share is 0 while the other endpoints have spare capacity. It grows as their latency
    /// approaches the slow endpoint's latency.
    ///
    /// Theory: it is best to use a slow server only when the load exceeds a threshold (Lin and Kumar 1984, "Optimal
    /// control of a queueing system with two heterogeneous servers"). Here, the share grows gradually above the
    /// threshold, to avoid oscillation.
    pub(super) fn relief_by(&self, slow: &Estimate) -> f64 {
        let Some(baseline_ms) = self.latency_ms else { return 0.0 };
        let way = (slow.full_mean_ms - self.roomy_ms) * RELIEF_START;
        let start_ms = self.roomy_ms + way.max(self.roomy_ms * RELIEF_START_MIN);
        let part = (baseline_ms - start_ms) / (slow.full_mean_ms - start_ms);
        if slow.full_mean_ms > start_ms { part.clamp(0.0, 1.0) } else { f64::from(baseline_ms > start_ms) }
    }

    /// Returns the mean and the standard deviation of ln(latency in ms) for calls to the median endpoint. Assumes that
    /// latencies are lognormal. `None` without a baseline.
    pub(super) fn usual(&self) -> Option<(f64, f64)> {
        let variance = (1.0 + self.spread * self.spread).ln();
        self.latency_ms.map(|baseline_ms| (baseline_ms.ln() - variance / 2.0, variance.sqrt()))
    }

    /// Records the further time of a call: the time, in ms, from its response headers to its end.
    pub(super) fn note_stream(&mut self, further_ms: f64) {
        self.stream_calls = (self.stream_calls + 1).min(STREAM_MEMORY);
        self.stream_ln_ms += (further_ms.max(0.0).ln_1p() - self.stream_ln_ms) / f64::from(self.stream_calls);
    }

    /// Returns the largest difference from the baseline, in ms, that the balancer ignores as noise.
    pub(super) fn floor_ms(&self) -> f64 {
        let of_streams = FLOOR_OF_STREAMS * self.stream_ln_ms.exp_m1();
        of_streams.clamp(FLOOR_MS, FLOOR_OF_STREAMS_MAX_MS)
    }

    /// Returns `latency_ms` minus [`Self::floor_ms`], but not less than the baseline. Returns a latency below the
    /// baseline unchanged.
    pub(super) fn without_noise(&self, latency_ms: f64) -> f64 {
        self.latency_ms
            .map_or(latency_ms, |baseline_ms| (latency_ms - self.floor_ms()).max(baseline_ms.min(latency_ms)))
    }

    /// Returns the mean latency, in ms, above which an endpoint with this estimate is slow; `None` without a baseline.
    pub(super) fn limit_ms(&self, estimate: &Estimate) -> Option<f64> {
        self.latency_ms.map(|baseline_ms| baseline_ms * self.limit_factor(estimate) + self.floor_ms())
    }

    fn limit_factor(&self, estimate: &Estimate) -> f64 {
        let deviation = self.spread * (estimate.variance + self.variance).sqrt();
        SLOW_FACTOR + CHANCE_DEVIATIONS * deviation
    }

    pub(super) fn calls_slow(&self, estimate: &Estimate) -> bool {
        self.limit_ms(estimate).is_some_and(|limit_ms| estimate.mean_ms > limit_ms)
    }

    /// Returns whether the endpoint is so much faster than the baseline that chance cannot explain it. The other
    /// endpoints may be overloaded, or this endpoint may be better. `age` is the time since its warming began.
    pub(super) fn calls_fast(&self, estimate: &Estimate, age: Duration) -> bool {
        // Half of all endpoints are faster than the median. Square the factor of `calls_slow`, so that only a clearly
        // faster endpoint is treated as fast.
        let factor = self.limit_factor(estimate).powi(2);
        let age_ms = age.as_secs_f64() * 1e3;
        self.latency_ms.is_some_and(|baseline_ms| {
            age_ms > FAST_AFTER_MS.max(baseline_ms * FAST_AFTER_BASELINES) && estimate.mean_ms * factor < baseline_ms
        })
    }

    /// Returns whether a slow endpoint is fast enough to end its probation. The limit is lower than in `calls_slow`, so
    /// that an endpoint near the limit does not alternate between the two states.
    pub(super) fn welcomes_back(&self, estimate: &Estimate) -> bool {
        self.latency_ms.is_some_and(|baseline_ms| estimate.mean_ms <= baseline_ms * SLOW_FACTOR + self.floor_ms())
    }

    /// Returns whether a failure rate is so high that the endpoint is failing. `weight` is the weight that the latest
    /// outcome has in the rate.
    pub(super) fn calls_failing(&self, failure_rate: f64, weight: f64) -> bool {
        failure_rate > self.common_failure_rate(weight) + FAILURE_MARGIN
    }

    /// Returns whether chance can explain this failure rate of an endpoint, given the baseline's failure rate. The
    /// limit is lower than in `calls_failing`, so that an endpoint near the limit does not alternate between the two
    /// states.
    pub(super) fn excuses(&self, failure_rate: f64, weight: f64) -> bool {
        failure_rate <= self.common_failure_rate(weight)
    }

    /// Returns the highest failure rate that chance can explain, given the baseline's failure rate.
    fn common_failure_rate(&self, weight: f64) -> f64 {
        let rate = self.failure_rate;
        rate + FAILURE_DEVIATIONS * (rate * (1.0 - rate) * weight / 2.0).sqrt()
    }
}

/// Returns the median; of two middle values, the lower. Therefore, if there are two endpoints, the faster one sets the
/// baseline.
fn lower_median(estimates: &mut [Estimate], by: impl Fn(&Estimate) -> f64) -> Option<Estimate> {
    let middle = estimates.len().checked_sub(1)? / 2;
    let (_, median, _) = estimates.select_nth_unstable_by(middle, |one, other| by(one).total_cmp(&by(other)));
    Some(*median)
}
