//! What one endpoint's answers say of it: how slow, how often failing, and whether calls should go there.
//!
//! ```text
//! new --> warming --3 s--> ready      from both, beyond the cluster's limits: --> slow or failing
//!            ^                                                                      |
//!            +----------------- 5 good answers in a row, to probes -----------------+
//! ```
//!
//! Shorter ways back: when the others have become as slow or fail as often, nothing speaks against it.
//!
//! A slow or failing endpoint gets no calls but probes: single calls, first after half a second, then
//! more seldom, at last every 2 s; while they go well, one after another.

use std::time::{Duration, Instant};

use super::estimate::Estimate;
use super::norm::Norm;

/// How long a newcomer's share grows from a tenth of a full one to a full one.
const WARM_UP: Duration = Duration::from_secs(3);
/// The share of a full one that a newcomer starts with.
const WARM_UP_START: f64 = 0.1;
/// The wait before the first probe; each probe without a good answer doubles it.
const PROBE_WAIT_MIN: Duration = Duration::from_millis(500);
/// Bounds both the calls that probing spends on a slow endpoint and the time to notice its recovery.
const PROBE_WAIT_MAX: Duration = Duration::from_secs(2);
/// Good answers to probes, one after another, that end a probation.
const PROBE_ANSWERS: u32 = 5;
/// The longest time that a server's pushback keeps calls away.
const PUSHBACK_MAX: Duration = Duration::from_secs(30);
/// The least weight of one outcome in the failure rate: 14 failures in a row make 10 %.
const OUTCOME_WEIGHT_MIN: f64 = 1.0 / 128.0;

/// Whether calls should go to an endpoint.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum State {
    /// New or just recovered: its share of the calls is growing.
    Warming {
        since: Instant,
    },
    Ready,
    /// Slower than the cluster's norm allows.
    Slow(Probation),
    /// Fails more often than the cluster's norm allows, or asked to be left alone.
    Failing(Probation),
}

/// The way back of a slow or failing endpoint.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Probation {
    since: Instant,
    /// No return before this, however badly the others do.
    closed_until: Instant,
    pub(super) next_probe: Instant,
    pub(super) good_answers: u32,
    sum_ms: f64,
    /// It had a full share when it became slow or failing.
    was_ready: bool,
}

/// One endpoint's latency, failure rate and state.
#[derive(Debug)]
pub(super) struct Health {
    pub(super) latency: Option<Estimate>,
    /// Of recent calls, 0 to 1.
    pub(super) failure_rate: f64,
    pub(super) state: State,
    /// When it last answered, or when the first of the calls began that it has not answered.
    quiet_since: Instant,
    probe_wait: Duration,
}

impl Health {
    pub(super) fn ready(now: Instant) -> Self {
        Self { latency: None, failure_rate: 0.0, state: State::Ready, quiet_since: now, probe_wait: PROBE_WAIT_MIN }
    }

    pub(super) fn warming(now: Instant) -> Self {
        Self { state: State::Warming { since: now }, ..Self::ready(now) }
    }

    /// The part of a full share that it should get now: 1 when ready, 0 on probation.
    pub(super) fn weight(&self, now: Instant) -> f64 {
        match self.state {
            State::Ready => 1.0,
            State::Warming { since } => {
                let grown = now.saturating_duration_since(since).as_secs_f64() / WARM_UP.as_secs_f64();
                WARM_UP_START + (1.0 - WARM_UP_START) * grown.min(1.0)
            }
            State::Slow(_) | State::Failing(_) => 0.0,
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

    /// Something came from the endpoint, or there was nothing to wait for until now.
    pub(super) fn heard(&mut self, now: Instant) {
        self.quiet_since = now;
    }

    /// A call is on its way to it; on probation, that is the probe.
    pub(super) fn picked(&mut self, now: Instant) {
        let wait = self.probe_wait;
        let Some(probation) = self.probation_mut() else {
            return;
        };
        probation.next_probe = now + wait;
        if probation.good_answers == 0 {
            self.probe_wait = (wait * 2).min(PROBE_WAIT_MAX);
        }
    }

    /// A call took `latency` to be answered.
    pub(super) fn answered(&mut self, now: Instant, latency: Duration) {
        let latency_ms = as_ms(latency);
        match &mut self.latency {
            Some(estimate) => estimate.observe(now, latency_ms),
            None => self.latency = Some(Estimate::first(now, latency_ms)),
        }
    }

    /// A call waited for `at_least` without an answer: that says something only if it is long.
    pub(super) fn waited(&mut self, now: Instant, at_least: Duration) {
        if self.latency.is_none_or(|estimate| as_ms(at_least) > estimate.mean_ms) {
            self.answered(now, at_least);
        }
    }

    /// With calls unanswered, takes the time without any answer as a lower bound of the latency.
    pub(super) fn notice_silence(&mut self, now: Instant) {
        self.waited(now, now.saturating_duration_since(self.quiet_since));
    }

    /// A call that began at `started` ended well.
    pub(super) fn succeeded(&mut self, now: Instant, started: Instant, latency: Duration, norm: &Norm) {
        self.note_outcome(0.0);
        let Some(probation) = self.probation_mut() else {
            return;
        };
        // Calls from before say how it was, not how it is.
        if started < probation.since {
            return;
        }
        probation.good_answers += 1;
        probation.sum_ms += as_ms(latency);
        let mean_ms = probation.sum_ms / f64::from(probation.good_answers);
        if !norm.accepts_probes(mean_ms, probation.good_answers) {
            probation.good_answers = 0;
            probation.sum_ms = 0.0;
        } else if probation.good_answers < PROBE_ANSWERS {
            probation.next_probe = now;
        } else {
            self.latency = Some(Estimate::of_answers(now, mean_ms, PROBE_ANSWERS, norm.spread));
            self.failure_rate = norm.failure_rate;
            self.state = State::Warming { since: now };
        }
    }

    /// A call failed; with `pushback`, the server asked to be left alone for so long.
    pub(super) fn failed(&mut self, now: Instant, pushback: Option<Duration>) {
        self.note_outcome(1.0);
        if let Some(probation) = self.probation_mut() {
            probation.good_answers = 0;
            probation.sum_ms = 0.0;
        }
        if let Some(pushback) = pushback {
            self.state = State::Failing(Probation::new(now, pushback.min(PUSHBACK_MAX), &self.state));
        }
    }

    fn note_outcome(&mut self, failed: f64) {
        self.failure_rate += self.outcome_weight() * (failed - self.failure_rate);
    }

    /// The weight of one outcome in the failure rate.
    fn outcome_weight(&self) -> f64 {
        let weight = self.latency.map_or(1.0, |estimate| estimate.variance);
        weight.max(OUTCOME_WEIGHT_MIN)
    }

    /// Moves to the state that the evidence asks for, measured against the cluster's norm.
    pub(super) fn judge(&mut self, now: Instant, norm: &Norm) {
        let weight = self.outcome_weight();
        match self.state {
            State::Failing(probation) => {
                // The others have come to fail as often: then it may as well share the load.
                if now >= probation.closed_until && norm.excuses(self.failure_rate, weight) {
                    self.state = State::Warming { since: now };
                }
            }
            _ if norm.calls_failing(self.failure_rate, weight) => {
                self.state = State::Failing(Probation::new(now, self.probe_wait, &self.state));
            }
            State::Slow(probation) => {
                // The others have become as slow, perhaps by taking its calls: help them at once.
                if self.latency.is_some_and(|estimate| norm.welcomes_back(&estimate)) {
                    if probation.was_ready {
                        self.make_ready();
                    } else {
                        self.state = State::Warming { since: now };
                    }
                }
            }
            _ if self.latency.is_some_and(|estimate| norm.calls_slow(&estimate)) => {
                self.state = State::Slow(Probation::new(now, self.probe_wait, &self.state));
            }
            State::Warming { since } => {
                let warm = now.saturating_duration_since(since) >= WARM_UP;
                if warm || self.latency.is_some_and(|estimate| norm.calls_fast(&estimate)) {
                    self.make_ready();
                }
            }
            State::Ready => {}
        }
    }

    /// Gives it a full share.
    pub(super) fn make_ready(&mut self) {
        self.state = State::Ready;
        self.probe_wait = PROBE_WAIT_MIN;
    }
}

impl Probation {
    fn new(now: Instant, wait: Duration, state: &State) -> Self {
        Self {
            since: now,
            closed_until: now + wait,
            next_probe: now + wait,
            good_answers: 0,
            sum_ms: 0.0,
            was_ready: *state == State::Ready,
        }
    }
}

fn as_ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
