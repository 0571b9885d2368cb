//! The cluster's baseline. The balancer compares each endpoint with the baseline to find slow and failing endpoints.
//!
//! An endpoint is slow if it is much slower than the median endpoint. So at most half of the endpoints can be slow. An
//! endpoint is established if it is ready or slow, or if it is warming and has enough answers. An endpoint is failing
//! if it fails much more often than the established endpoint that fails least. So any number of endpoints can be
//! failing, but not all of them for long: if no established endpoint is left to compare with, the failing endpoints
//! return.

use std::time::{Duration, Instant};

use super::endpoints::Endpoint;
use super::estimate::Estimate;
use super::health::State;

/// An endpoint is slow if its mean latency exceeds this multiple of the baseline, plus a margin for chance.
const SLOW_FACTOR: f64 = 1.2;
/// The margin for chance, in standard deviations of the estimate.
const CHANCE_DEVIATIONS: f64 = 3.0;
/// Bounds of the spread (standard deviation of latencies, divided by their mean). A few answers are not enough to
/// estimate the spread well.
const SPREAD_RANGE: (f64, f64) = (0.5, 4.0);
/// A latency difference below this is noise of machines and schedulers, even if it exceeds [`SLOW_FACTOR`].
const FLOOR_MS: f64 = 0.5;
/// A call's further time is the time from the headers of the call's answer to the end of the call. The balancer also
/// ignores a latency difference below this fraction of the usual further time. A stream that lasts a second gains
/// nothing from headers that come 10 ms sooner. If the balancer avoided an endpoint because of so small a difference,
/// the other endpoints would get too many streams, at a high cost for each stream.
const FLOOR_OF_STREAMS: f64 = 0.02;
/// Upper limit, in ms, of the difference that [`FLOOR_OF_STREAMS`] ignores.
const FLOOR_OF_STREAMS_MAX_MS: f64 = 25.0;
/// Number of calls over which the usual further time is averaged.
const STREAM_MEMORY: u32 = 256;
/// The first answers are biased, because the fastest of many calls are answered first. So the balancer does not treat
/// an endpoint as fast until the endpoint has been warming for this time, and for [`FAST_AFTER_BASELINES`] times the
/// baseline.
const FAST_AFTER_MS: f64 = 500.0;
const FAST_AFTER_BASELINES: f64 = 10.0;
/// The first answers are biased. So at first, the latency with spare capacity (`roomy_ms`) simply equals the current
/// baseline. This ends when the time since the first baseline exceeds the current baseline times this number.
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
/// A warming endpoint contributes to the baseline once its variance is at most this number, which is the variance after
/// 5 simultaneous answers.
const ESTABLISHED_VARIANCE: f64 = 0.2;
/// The margin for chance in the baseline's failure rate, in standard deviations.
const FAILURE_DEVIATIONS: f64 = 3.0;
/// An endpoint is failing if its failure rate exceeds the sum of two rates: the highest failure rate that chance can
/// explain, and this margin, which is a fraction of the endpoint's calls.
const FAILURE_MARGIN: f64 = 0.1;

/// The cluster's baseline, as of the last refresh.
#[derive(Debug, Clone)]
pub(super) struct Baseline {
    /// The median endpoint's latency; `None` before the first answers.
    pub(super) latency_ms: Option<f64>,
    /// The uncertainty of `latency_ms`, in the unit of [`Estimate::variance`].
    variance: f64,
    /// Interval between calls to one endpoint if all endpoints have equal shares. Probes to one endpoint are at least
    /// this far apart. Otherwise the probes of many proxies would be a greater load than the calls.
    pub(super) fair_interval: Duration,
    /// Limit, in ms, at which the latency of one answer is capped.
    pub(super) surprise_ms: f64,
    /// The latency with spare capacity: the lowest recent baseline.
    roomy_ms: f64,
    first_refresh: Option<Instant>,
    refreshed: Option<Instant>,
    /// Running mean of ln(1 + t), where t is the time from the headers of a call's answer to the end of the call, in
    /// ms. Rare streams among many short calls hardly change this mean.
    stream_ln_ms: f64,
    /// Number of calls in `stream_ln_ms`, at most [`STREAM_MEMORY`].
    stream_calls: u32,
    /// The median endpoint's spread of latencies.
    pub(super) spread: f64,
    /// The failure rate of the established endpoint that fails least, 0 to 1.
    pub(super) failure_rate: f64,
    /// Buffer that is reused to find medians without allocating.
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
    /// Reserves space for this number of `endpoints`.
    pub(super) fn reserve(&mut self, endpoints: usize) {
        self.sorted.clear();
        self.sorted.reserve_exact(endpoints);
    }

    pub(super) fn refresh(&mut self, now: Instant, usual_ms: Option<f64>, endpoints: &[Endpoint]) {
        self.surprise_ms = usual_ms.map_or(f64::INFINITY, |usual_ms| usual_ms * SURPRISE_MAX);
        // New endpoints have too few answers to set a baseline, and the answers of failing endpoints are ignored.
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

    /// Returns the share of calls that a slow endpoint should take from the other endpoints, as a fraction of a full
    /// share, 0 to 1. The share is 0 while the other endpoints have spare capacity. It grows as their latency
    /// approaches the slow endpoint's latency.
    ///
    /// It is best to use a slow server only when the load exceeds a threshold (Lin and Kumar 1984, "Optimal control of
    /// a queueing system with two heterogeneous servers"). Above the threshold, the share grows gradually, to avoid
    /// oscillation.
    pub(super) fn relief_by(&self, slow: &Estimate) -> f64 {
        let Some(baseline_ms) = self.latency_ms else { return 0.0 };
        let way = (slow.full_mean_ms - self.roomy_ms) * RELIEF_START;
        let start_ms = self.roomy_ms + way.max(self.roomy_ms * RELIEF_START_MIN);
        let part = (baseline_ms - start_ms) / (slow.full_mean_ms - start_ms);
        if slow.full_mean_ms > start_ms { part.clamp(0.0, 1.0) } else { f64::from(baseline_ms > start_ms) }
    }

    /// Returns the mean and standard deviation of the logarithms of the usual latencies in ms, assuming a lognormal
    /// distribution; `None` without a baseline.
    pub(super) fn usual(&self) -> Option<(f64, f64)> {
        let variance = (1.0 + self.spread * self.spread).ln();
        self.latency_ms.map(|baseline_ms| (baseline_ms.ln() - variance / 2.0, variance.sqrt()))
    }

    /// Records the time, in ms, from the headers of a call's answer to the call's end.
    pub(super) fn note_stream(&mut self, further_ms: f64) {
        self.stream_calls = (self.stream_calls + 1).min(STREAM_MEMORY);
        self.stream_ln_ms += (further_ms.max(0.0).ln_1p() - self.stream_ln_ms) / f64::from(self.stream_calls);
    }

    /// Returns the largest latency difference from the baseline, in ms, that the balancer always ignores.
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

    /// Returns the mean latency above which an endpoint is slow; `None` without a baseline.
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

    /// Returns whether the endpoint is faster than chance can explain: either the other endpoints are overloaded, or
    /// this endpoint is simply better. `age` is the time since its warming began.
    pub(super) fn calls_fast(&self, estimate: &Estimate, age: Duration) -> bool {
        // Square the factor of `calls_slow`: half of all endpoints are faster than the median, and this function must
        // find only clearly faster endpoints.
        let factor = self.limit_factor(estimate).powi(2);
        let age_ms = age.as_secs_f64() * 1e3;
        self.latency_ms.is_some_and(|baseline_ms| {
            age_ms > FAST_AFTER_MS.max(baseline_ms * FAST_AFTER_BASELINES) && estimate.mean_ms * factor < baseline_ms
        })
    }

    /// Returns whether a slow endpoint is fast enough again. The limit is lower than in `calls_slow`, so that an
    /// endpoint near the limit does not change between both states all the time.
    pub(super) fn welcomes_back(&self, estimate: &Estimate) -> bool {
        self.latency_ms.is_some_and(|baseline_ms| estimate.mean_ms <= baseline_ms * SLOW_FACTOR + self.floor_ms())
    }

    /// Returns whether a failure rate, in which the latest outcome has `weight`, is too high.
    pub(super) fn calls_failing(&self, failure_rate: f64, weight: f64) -> bool {
        failure_rate > self.common_failure_rate(weight) + FAILURE_MARGIN
    }

    /// Returns whether a failure rate is so low that an established endpoint could have it by chance. The limit is
    /// lower than in `calls_failing`.
    pub(super) fn excuses(&self, failure_rate: f64, weight: f64) -> bool {
        failure_rate <= self.common_failure_rate(weight)
    }

    /// Returns the highest failure rate that chance can explain in endpoints with the baseline's failure rate.
    fn common_failure_rate(&self, weight: f64) -> f64 {
        let rate = self.failure_rate;
        rate + FAILURE_DEVIATIONS * (rate * (1.0 - rate) * weight / 2.0).sqrt()
    }
}

/// Returns the median. If there are two middle values, returns the lower value: so with two endpoints, the slow
/// endpoint does not set the baseline.
fn lower_median(estimates: &mut [Estimate], by: impl Fn(&Estimate) -> f64) -> Option<Estimate> {
    let middle = estimates.len().checked_sub(1)? / 2;
    let (_, median, _) = estimates.select_nth_unstable_by(middle, |one, other| by(one).total_cmp(&by(other)));
    Some(*median)
}
