//! The cluster's baseline. The balancer compares each endpoint with the baseline to find slow and failing endpoints.
//!
//! An endpoint is established if it is ready or slow and has a latency, or if it is warming and has enough answers. While
//! all its calls have failed, an endpoint has no latency.
//!
//! - Slow: an endpoint that is much slower than the median of the pool (see below). So at most half of the endpoints in
//!   the pool can be slow.
//! - Failing: an endpoint that fails more often than the other endpoints of the pool together, by more than chance can
//!   explain. The pool has the outcomes of all established endpoints. The more endpoints are failing already, the more
//!   often must a further endpoint fail: the others must carry its calls. So any number of endpoints can be failing if
//!   nearly all their calls fail, but not all of them for long: without another endpoint to compare with, the failing
//!   endpoints return.
//!
//! If calls fail equally often at all endpoints, the cause is the calls or something that all endpoints use. Then no
//! endpoint may be failing. Three properties of the pool matter for this:
//!
//! - It has the outcomes of many endpoints. The endpoint that fails least may do so by chance, or because it has just
//!   returned and has few calls. Compared with this endpoint alone, the others would look bad.
//! - It contains the endpoints that fail often. If all endpoints are overloaded, their rates differ by chance, and the
//!   calls of each failing endpoint raise the rates of the others. So the others must soon have an excuse.
//! - It is up to date after every failure. If a fault begins everywhere, each endpoint would be found before the next
//!   refresh shows that the others fail, too.

use std::time::{Duration, Instant};

use super::endpoints::Endpoint;
use super::estimate::Estimate;
use super::failure_rate::Outcomes;
use super::health::{Health, State};

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
/// The other endpoints can be too full for the calls of a failing endpoint if their latency exceeds this multiple of
/// `roomy`. The number is higher than for a slow endpoint: a longer queue is better than a failed call, and with few
/// calls, chance alone may raise the latency by half.
const FULL_FACTOR: f64 = 2.0;
/// An endpoint is failing only if its success rate is below the success rate of the others by more than this part. A
/// difference of rates would not do: among endpoints that nearly always fail, one that always fails must be found.
const FAILURE_MARGIN: f64 = 0.125;
/// If all other endpoints are failing, the margin is larger by this number. If a part of them is failing, it is larger
/// by this part of the number. The sum of both margins is below 1, so an endpoint whose calls all fail has no excuse.
const CROWD_MARGIN: f64 = 0.8;
/// An endpoint is failing only if [`Outcomes::contrast`] exceeds this number plus ln n, with n endpoints. The term ln n
/// is needed because n endpoints have n chances to look bad.
const FAILING_CONTRAST: f64 = 8.0;
/// An endpoint that has just recovered is failing again if the contrast exceeds this number. If calls fail equally
/// often everywhere, at most about 2 % of the recovered endpoints become failing again by chance.
const FAILING_AGAIN_CONTRAST: f64 = 4.0;
/// A failing endpoint is excused if the contrast is at most this number. The number is lower than
/// [`FAILING_AGAIN_CONTRAST`], so that an endpoint near the limit does not alternate between the two states.
const EXCUSED_CONTRAST: f64 = 3.0;

/// The cluster's baseline, as of the last refresh.
#[derive(Debug, Clone)]
pub(super) struct Baseline {
    /// The mean latency of the median endpoint; `None` before the first answers.
    pub(super) latency_ms: Option<f64>,
    /// The uncertainty of `latency_ms`: the [`Estimate::variance`] of the median endpoint.
    variance: f64,
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
    /// The outcomes of all established endpoints. The head of this file describes the pool.
    pool: Outcomes,
    /// Number of endpoints.
    endpoints: f64,
    /// ln n, with n endpoints.
    ln_endpoints: f64,
    /// Number of failing endpoints. An endpoint that recovers is subtracted only at the next refresh.
    failing: f64,
    /// Mean of the places in flight that the failed calls of a ready endpoint keep ([`Endpoint::load`]).
    pub(super) kept_places: f64,
    /// Buffer for finding medians, reused so that a refresh does not allocate.
    sorted: Vec<Estimate>,
}

impl Default for Baseline {
    fn default() -> Self {
        Self {
            latency_ms: None,
            variance: 1.0,
            surprise_ms: f64::INFINITY,
            roomy_ms: 0.0,
            first_refresh: None,
            refreshed: None,
            stream_ln_ms: 0.0,
            stream_calls: 0,
            spread: 1.0,
            pool: Outcomes::default(),
            endpoints: 1.0,
            ln_endpoints: 0.0,
            failing: 0.0,
            kept_places: 0.0,
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

    pub(super) fn refresh(&mut self, now: Instant, usual_ms: Option<f64>, endpoints: &mut [Endpoint]) {
        self.surprise_ms = usual_ms.map_or(f64::INFINITY, |usual_ms| usual_ms * SURPRISE_MAX);
        self.refresh_pool(now, endpoints);
        self.kept_places = self.mean_kept_places(now, endpoints);
        let mut sorted = std::mem::take(&mut self.sorted);
        let compared = endpoints.iter().map(|endpoint| &endpoint.health).filter(|health| self.is_compared(health));
        sorted.clear();
        sorted.extend(compared.filter_map(established));
        self.sorted = sorted;

        let spread = lower_median(&mut self.sorted, Estimate::spread);
        let (least, most) = SPREAD_RANGE;
        self.spread = spread.map_or(1.0, |estimate| estimate.spread().clamp(least, most));
        let latency = lower_median(&mut self.sorted, |estimate| estimate.mean_ms);
        self.latency_ms = latency.map(|estimate| estimate.mean_ms);
        self.variance = latency.map_or(1.0, |estimate| estimate.variance);
        self.remember_room(now);
    }

    fn refresh_pool(&mut self, now: Instant, endpoints: &mut [Endpoint]) {
        self.endpoints = endpoints.len().max(1) as f64;
        self.ln_endpoints = self.endpoints.ln();
        self.failing = endpoints.iter().filter(|endpoint| endpoint.health.is_failing()).count() as f64;
        self.pool = Outcomes::default();
        for endpoint in endpoints {
            endpoint.health.pooled = Outcomes::default();
            self.update_pool(now, endpoint);
        }
    }

    /// Replaces the part of one endpoint in the pool by its present outcomes.
    pub(super) fn update_pool(&mut self, now: Instant, endpoint: &mut Endpoint) {
        let present = self.established_outcomes(now, endpoint).unwrap_or_default();
        let others = self.pool.without(&endpoint.health.pooled).unwrap_or_default();
        self.pool = others.plus(&present);
        endpoint.health.pooled = present;
    }

    fn mean_kept_places(&self, now: Instant, endpoints: &[Endpoint]) -> f64 {
        let ready = endpoints.iter().filter(|endpoint| endpoint.health.state == State::Ready);
        let (kept, number) = ready.fold((0.0, 0.0), |(kept, number), endpoint| {
            (kept + endpoint.kept_places.number(now, self.latency_ms), number + 1.0)
        });
        if number > 0.0 { kept / number } else { 0.0 }
    }

    /// Returns whether the medians of latency and spread include an endpoint. They leave out an endpoint that succeeds
    /// less than half as often as the others, because fast failures would make the others look slow. If no endpoint has
    /// outcomes for the pool, they include all endpoints.
    fn is_compared(&self, health: &Health) -> bool {
        let fails_often = self.others(health).is_some_and(|others| {
            1.0 - health.pooled.rate() < (1.0 - others.rate()) / 2.0
                && exceeds(&health.pooled, &others, EXCUSED_CONTRAST)
        });
        self.pool.number == 0.0 || (health.pooled.number > 0.0 && !fails_often)
    }

    /// Records that an endpoint has become failing since the last refresh.
    pub(super) fn one_more_fails(&mut self) {
        self.failing += 1.0;
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

    /// Returns whether an endpoint fails so often that it is failing. For an endpoint that has just recovered, fewer
    /// failures suffice: an endpoint that fails only a part of its calls often passes the probes by chance.
    pub(super) fn calls_failing(&self, now: Instant, health: &Health) -> bool {
        // The success rate is high enough, whatever the others have. So a call without a failure costs no calculation.
        if health.failure_rate.mean <= FAILURE_MARGIN {
            return false;
        }
        let limit = match health.has_just_recovered() {
            true => FAILING_AGAIN_CONTRAST,
            false => FAILING_CONTRAST + self.ln_endpoints,
        };
        let outcomes = health.failure_rate.outcomes(now);
        let least_part = 1.0 - FAILURE_MARGIN - CROWD_MARGIN * (self.failing / self.endpoints).min(1.0);
        self.others(health).is_some_and(|others| {
            1.0 - outcomes.rate() < (1.0 - others.rate()) * least_part && exceeds(&outcomes, &others, limit)
        })
    }

    /// Returns the share of calls that a failing endpoint still gets, as a fraction of a full share, 0 to 1. It is above
    /// 0 while the other endpoints have long queues, and grows with these queues. An endpoint whose calls all fail gets
    /// no share.
    pub(super) fn relief_by_failing(&self, health: &Health) -> f64 {
        let Some(baseline_ms) = self.latency_ms.filter(|_| self.roomy_ms > 0.0) else { return 0.0 };
        ((1.0 - health.failure_rate.mean) * (baseline_ms / self.roomy_ms - FULL_FACTOR)).clamp(0.0, 1.0)
    }

    /// Returns whether chance can explain the failure rate of a failing endpoint.
    pub(super) fn excuses(&self, now: Instant, health: &Health) -> bool {
        let outcomes = health.failure_rate.outcomes(now);
        self.others(health).is_none_or(|others| !exceeds(&outcomes, &others, EXCUSED_CONTRAST))
    }

    /// Returns the failure rate of the pool, 0 to 1; 0 if the pool is empty.
    pub(super) fn usual_failure_rate(&self) -> f64 {
        self.pool.rate()
    }

    /// Returns the outcomes of an established endpoint; `None` for another endpoint, and for an endpoint that hangs.
    fn established_outcomes(&self, now: Instant, endpoint: &Endpoint) -> Option<Outcomes> {
        established(&endpoint.health).and_then(|_| endpoint.outcomes(now, self.latency_ms))
    }

    /// Returns the pool without the outcomes of this endpoint; `None` if the pool has no other endpoint. Without the
    /// subtraction, an endpoint among few would be compared with its own failures.
    fn others(&self, health: &Health) -> Option<Outcomes> {
        self.pool.without(&health.pooled)
    }
}

/// Returns whether `outcomes` have a higher failure rate than `others`, with a contrast above `limit`.
fn exceeds(outcomes: &Outcomes, others: &Outcomes, limit: f64) -> bool {
    outcomes.rate() > others.rate() && outcomes.contrast(others) > limit
}

/// Returns the latency of an endpoint that is established; otherwise `None`. A warming endpoint with few answers is too
/// uncertain. A failing endpoint must not make its fault the baseline.
fn established(health: &Health) -> Option<Estimate> {
    health.latency.filter(|estimate| match health.state {
        State::Ready | State::Slow(_) => true,
        State::Warming { .. } => estimate.variance <= ESTABLISHED_VARIANCE,
        State::Failing(_) => false,
    })
}

/// Returns the median; of two middle values, the lower. Therefore, if there are two endpoints, the faster one sets the
/// baseline.
fn lower_median(estimates: &mut [Estimate], by: impl Fn(&Estimate) -> f64) -> Option<Estimate> {
    let middle = estimates.len().checked_sub(1)? / 2;
    let (_, median, _) = estimates.select_nth_unstable_by(middle, |one, other| by(one).total_cmp(&by(other)));
    Some(*median)
}
