//! Tracks one endpoint's latency and failures, and decides from them whether the endpoint should get calls.
//!
//! ```text
//! new --> warming --3 s--> ready      from both, beyond the cluster's limits: --> slow or failing
//!            ^                                                                      |
//!            +--------- probes show that it is well again (1.5 s of warming) -------+
//! ```
//!
//! A slow or failing endpoint is on probation: it gets no calls except probes. A probe is a single ordinary call. The
//! first probe is due after half a second. The wait then doubles with each probe, up to 2 to 2.5 s, or longer if calls
//! are rare ([`Health::next_turn`]). After a successful probe, the next probe follows without this wait.
//!
//! Four other events end or change a probation:
//!
//! - The other endpoints have become as slow as a slow endpoint: its probation ends.
//! - The other endpoints fail as often as a failing endpoint: its probation ends.
//! - The other endpoints are full: a slow endpoint also gets some of their calls.
//! - The other endpoints have long queues: a failing endpoint that answers a part of its calls well also gets some.

use std::time::{Duration, Instant};

use super::baseline::Baseline;
use super::estimate::Estimate;
use super::failure_rate::{FailureRate, Outcomes};
use super::probation::{PROBE_WAIT_MAX, PROBE_WAIT_MIN, Probation, Verdict};

/// Time in which a new endpoint's share grows from a tenth of a full share to a full share.
const WARM_UP: Duration = Duration::from_secs(3);
/// Like [`WARM_UP`], but for a recovered endpoint. It is shorter, because the endpoint's caches and connections are
/// already warm.
const WARM_UP_AGAIN: Duration = Duration::from_millis(1500);
/// An endpoint is failing only if it fails too often for this time. If all endpoints become overloaded or lose something
/// that they use, one of them fails first, and the others a moment later.
const FAILS_MIN: Duration = Duration::from_millis(50);
/// Share at the start of warming, as a fraction of a full share.
const WARM_UP_START: f64 = 0.1;
/// Until a failing endpoint gives a good answer, it gets at most one of this many calls of a fair share: each probe
/// probably fails a user's call. With a larger number, a recovery is noticed later if calls are rare.
const FAILING_TURNS: u64 = 4;
/// Maximum time for which a server's pushback puts off the next probe.
const PUSHBACK_MAX: Duration = Duration::from_secs(30);

/// The state of an endpoint, which determines its share of the calls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum State {
    /// New or just recovered: its share of the calls grows.
    Warming {
        since: Instant,
        /// Duration of the growth.
        takes: Duration,
    },
    Ready,
    /// Slower than the cluster's baseline allows.
    Slow(Probation),
    /// Fails more often than the cluster's baseline allows.
    Failing(Probation),
}

/// One endpoint's latency, failure rate and state.
#[derive(Debug, Clone)]
pub(super) struct Health {
    pub(super) latency: Option<Estimate>,
    pub(super) failure_rate: FailureRate,
    /// The endpoint's part of the baseline's pool of outcomes, as of the last refresh; no outcomes if the endpoint is
    /// not in the pool.
    pub(super) pooled: Outcomes,
    /// Since when the endpoint has failed too often; `None` if it does not, or if it is failing already.
    fails_since: Option<Instant>,
    pub(super) state: State,
    /// The time from which silence is measured: see [`Self::silence`].
    quiet_since: Instant,
    probe_wait: Duration,
    /// Random factor for the waits between probes, 1 to 1.25. Several proxies may notice a slow endpoint at the same
    /// moment. The factor spreads their probes over time.
    pace: f64,
}

impl Health {
    /// Creates the health of an endpoint that is ready at once, because the balancer had no endpoints before. `chance`
    /// is a random number from 0 to 1, which determines `pace`.
    pub(super) fn ready(now: Instant, chance: f64) -> Self {
        Self {
            latency: None,
            failure_rate: FailureRate::new(now),
            pooled: Outcomes::default(),
            fails_since: None,
            state: State::Ready,
            quiet_since: now,
            probe_wait: PROBE_WAIT_MIN,
            pace: 1.0 + chance / 4.0,
        }
    }

    /// Creates the health of an endpoint that joins other endpoints, so that its share of the calls must grow.
    pub(super) fn warming(now: Instant, chance: f64) -> Self {
        Self { state: State::Warming { since: now, takes: WARM_UP }, ..Self::ready(now, chance) }
    }

    /// Returns the endpoint's current share of the calls, as a fraction of a full share. On probation, the share is 0,
    /// unless the other endpoints are full.
    pub(super) fn weight(&self, now: Instant) -> f64 {
        match self.state {
            State::Ready => 1.0,
            State::Warming { since, takes } => {
                let grown = now.saturating_duration_since(since).as_secs_f64() / takes.as_secs_f64();
                WARM_UP_START + (1.0 - WARM_UP_START) * grown.min(1.0)
            }
            State::Slow(probation) | State::Failing(probation) => probation.relief,
        }
    }

    pub(super) fn probation(&self) -> Option<&Probation> {
        match &self.state {
            State::Slow(probation) | State::Failing(probation) => Some(probation),
            State::Warming { .. } | State::Ready => None,
        }
    }

    fn probation_mut(&mut self) -> Option<&mut Probation> {
        match &mut self.state {
            State::Slow(probation) | State::Failing(probation) => Some(probation),
            State::Warming { .. } | State::Ready => None,
        }
    }

    /// Restarts the measurement of silence. Call this after an answer, and when a call starts while the endpoint owes
    /// no answer ([`OpenCalls::owe_answer`](super::open_calls::OpenCalls::owe_answer)).
    pub(super) fn heard(&mut self, now: Instant) {
        self.quiet_since = now;
    }

    /// Records the start of a call, the pick with this serial number. If the endpoint is on probation, the call is a
    /// probe.
    pub(super) fn picked(&mut self, now: Instant, turn: u64) {
        if self.probation().is_none() {
            return;
        }
        let next_probe = now + self.paced_wait();
        let Some(probation) = self.probation_mut() else {
            return;
        };
        // This call need not be a due probe: other endpoints may be unusable. It does not end the server's pushback.
        probation.next_probe = next_probe.max(probation.closed_until);
        probation.turn = turn;
        if probation.good_answers == 0 {
            self.probe_wait = (self.probe_wait * 2).min(PROBE_WAIT_MAX);
        }
    }

    /// Returns the serial number of the first pick that may be a probe again. Otherwise, if calls are rare, the probes of
    /// many proxies would give the endpoint more than its share of the calls.
    pub(super) fn next_turn(&self, endpoints: usize) -> u64 {
        let turns = match &self.state {
            State::Failing(probation) if probation.good_answers == 0 => FAILING_TURNS,
            _ => 1,
        };
        let latest = self.probation().map_or(0, |probation| probation.turn);
        latest.saturating_add(turns.saturating_mul(endpoints as u64))
    }

    /// Records an answer after `latency_ms`. `most_ms` is the cap that [`Estimate::observe`] describes.
    pub(super) fn answered(&mut self, now: Instant, latency_ms: f64, most_ms: f64) {
        match &mut self.latency {
            Some(estimate) => estimate.observe(now, latency_ms, most_ms),
            None => self.latency = Some(Estimate::first(now, latency_ms)),
        }
    }

    /// Records a wait of `at_least_ms` without an answer. Ignores a wait that is not longer than the mean latency,
    /// because such a wait does not show that the endpoint is slow.
    pub(super) fn waited(&mut self, now: Instant, at_least_ms: f64, most_ms: f64) {
        if self.latency.is_none_or(|estimate| at_least_ms > estimate.full_mean_ms) {
            self.answered(now, at_least_ms, most_ms);
        }
    }

    /// Returns how long the endpoint has been silent: since its last answer or, if later, since the start of a call
    /// while the endpoint owed no answer.
    pub(super) fn silence(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.quiet_since)
    }

    /// Records evidence that a slow endpoint has recovered: it answered the call that began at `started`. Ignored in
    /// other states.
    pub(super) fn proved_fast(&mut self, now: Instant, started: Instant, latency_ms: f64, baseline: &Baseline) {
        if matches!(self.state, State::Slow(_)) {
            self.proved_well(now, started, latency_ms, baseline);
        }
    }

    /// Records a success. For a failing endpoint, the success of the call that began at `started` is evidence of a
    /// recovery.
    pub(super) fn succeeded(&mut self, now: Instant, started: Instant, latency_ms: f64, baseline: &Baseline) {
        self.failure_rate.observe(now, false);
        if self.is_failing() {
            self.proved_well(now, started, latency_ms, baseline);
        }
    }

    /// Records that a call with response headers is still open after a while. This is a success: a call that fails
    /// mostly fails soon. If the endpoint is failing, the call is a probe that began after the failures.
    pub(super) fn stayed_open(&mut self, now: Instant, baseline: &Baseline) {
        if let Some(estimate) = self.latency {
            self.succeeded(now, now, estimate.mean_ms, baseline);
        }
    }

    fn proved_well(&mut self, now: Instant, started: Instant, latency_ms: f64, baseline: &Baseline) {
        let slow_ms = match self.state {
            State::Slow(_) => self.latency.map(|estimate| estimate.mean_ms),
            _ => None,
        };
        let Some(probation) = self.probation_mut() else {
            return;
        };
        // Ignore a call that began before the probation: it is no evidence that the endpoint has recovered since.
        if started < probation.since {
            return;
        }
        match probation.good_answer(latency_ms, slow_ms, baseline) {
            Verdict::Undecided => probation.next_probe = now,
            Verdict::StillSlow => {}
            Verdict::Well { mean_ms, answers } => {
                self.latency = Some(Estimate::of_answers(now, mean_ms, answers, baseline.spread));
                self.failure_rate = FailureRate::of_outcomes(now, baseline.usual_failure_rate(), answers);
                self.state = State::Warming { since: now, takes: WARM_UP_AGAIN };
            }
        }
    }

    /// Records a failure. It is no evidence about a slow endpoint, because the application may fail calls everywhere.
    pub(super) fn failed(&mut self, now: Instant, baseline: &Baseline) {
        self.failure_rate.observe(now, true);
        if let State::Failing(probation) = &mut self.state {
            probation.failed_answer(baseline.usual_failure_rate());
        }
    }

    /// Records that a server sent pushback with a failed answer. If the endpoint is failing, puts off the next probe.
    /// Pushback alone does not make an endpoint failing. It applies to the retry of one call (gRFC A6), and the
    /// application may only limit one user.
    pub(super) fn pushed_back(&mut self, now: Instant, pushback: Duration) {
        if let State::Failing(probation) = &mut self.state {
            probation.put_off(now + pushback.min(PUSHBACK_MAX));
        }
    }

    /// Returns whether the endpoint was slow or failing until a short time ago.
    pub(super) fn has_just_recovered(&self) -> bool {
        matches!(self.state, State::Warming { takes, .. } if takes == WARM_UP_AGAIN)
    }

    pub(super) fn is_failing(&self) -> bool {
        matches!(self.state, State::Failing(_))
    }

    /// Changes the state if the latency or the failure rate, compared with the cluster's baseline, requires it.
    pub(super) fn judge(&mut self, now: Instant, baseline: &Baseline) {
        let has_become_failing = !self.is_failing() && self.has_failed_for_a_while(now, baseline);
        match self.state {
            State::Failing(probation) => {
                // The other endpoints now fail as often as this endpoint, so this endpoint may share the load.
                if now >= probation.closed_until && baseline.excuses(now, self) {
                    self.resume(now, &probation);
                }
            }
            _ if has_become_failing => {
                self.fails_since = None;
                self.failure_rate.weigh_next();
                self.state = State::Failing(self.probation_of(now));
            }
            State::Slow(probation) => {
                // The other endpoints have become as slow as this endpoint, perhaps because they got this endpoint's
                // calls. Send it calls again at once.
                if self.latency.is_some_and(|estimate| baseline.welcomes_back(&estimate)) {
                    self.resume(now, &probation);
                }
            }
            _ if self.latency.is_some_and(|estimate| baseline.calls_slow(&estimate)) => {
                let mut probation = self.probation_of(now);
                probation.relief = self.latency.map_or(0.0, |estimate| baseline.relief_by(&estimate));
                self.state = State::Slow(probation);
            }
            State::Warming { since, takes } => {
                let age = now.saturating_duration_since(since);
                let fast = self.latency.is_some_and(|estimate| baseline.calls_fast(&estimate, age));
                if age >= takes || fast {
                    self.make_ready();
                }
            }
            State::Ready => {}
        }
    }

    /// Returns whether the endpoint has failed too often for [`FAILS_MIN`].
    fn has_failed_for_a_while(&mut self, now: Instant, baseline: &Baseline) -> bool {
        if !baseline.calls_failing(now, self) {
            self.fails_since = None;
            return false;
        }
        now.saturating_duration_since(*self.fails_since.get_or_insert(now)) >= FAILS_MIN
    }

    /// Ends a probation because the other endpoints are no better. They need this endpoint's capacity at once.
    fn resume(&mut self, now: Instant, probation: &Probation) {
        if probation.was_ready {
            self.make_ready();
        } else {
            self.state = State::Warming { since: now, takes: WARM_UP_AGAIN };
        }
    }

    /// Updates the share of calls that a slow or failing endpoint gets because the other endpoints are full.
    pub(super) fn relieve(&mut self, baseline: &Baseline) {
        let relief = match (&self.state, &self.latency) {
            (State::Slow(_), Some(estimate)) => baseline.relief_by(estimate),
            (State::Failing(_), _) => baseline.relief_by_failing(self),
            _ => return,
        };
        if let Some(probation) = self.probation_mut() {
            probation.relief = relief;
        }
    }

    /// Returns the wait until the next probe, scaled by `pace` so that proxies do not all probe at the same moments.
    fn paced_wait(&self) -> Duration {
        self.probe_wait.mul_f64(self.pace)
    }

    fn probation_of(&self, now: Instant) -> Probation {
        Probation::new(now, self.paced_wait(), self.state == State::Ready)
    }

    /// Gives the endpoint a full share.
    pub(super) fn make_ready(&mut self) {
        self.state = State::Ready;
        self.probe_wait = PROBE_WAIT_MIN;
    }
}
