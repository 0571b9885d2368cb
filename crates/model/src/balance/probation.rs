//! The probation of a slow or failing endpoint: the waits between probes, and the test that ends the probation.
//!
//! A sequential probability ratio test (Wald 1945) on the logarithms of the probes' latencies decides whether the
//! endpoint has recovered. Each answer is evidence for one of two results: "well" (as fast as the other endpoints) or
//! "still slow". Probing continues until one result is far more likely than the other. A clearly slow endpoint needs
//! one probe, and a recovered endpoint needs a few. Only borderline cases need many probes.
//!
//! For a failing endpoint, a second test of the same kind compares two failure rates: "well" (the usual rate of the
//! other endpoints) and "still failing" (a rate halfway between the usual rate and 1). If the other endpoints do not
//! fail, one failed probe suffices for "still failing".

use std::f64::consts::LN_2;
use std::time::{Duration, Instant};

use super::baseline::Baseline;

/// Wait before the first probe. The wait doubles with each probe, until the endpoint gives a good answer to a probe.
pub(super) const PROBE_WAIT_MIN: Duration = Duration::from_millis(500);
/// Maximum wait between probes, unless calls are rare (`Health::next_turn`). It is a compromise: with a longer wait,
/// fewer calls go to a slow endpoint; with a shorter wait, a recovery is noticed sooner.
pub(super) const PROBE_WAIT_MAX: Duration = Duration::from_secs(2);
/// Minimum number of good answers before a probation can end.
const GOOD_ANSWERS_MIN: u32 = 5;
/// Log-likelihood ratio at which a round of probes ends with "still slow". With this value, about 1 in 30 recovered
/// endpoints gets this result by chance, and must wait for another round.
const STILL_SLOW_EVIDENCE: f64 = 3.4;
/// Log-likelihood ratio at which the probation ends with "well". With this value, about 1 in 200 slow endpoints gets
/// this result by chance. It then gets calls until it is found slow again.
const WELL_EVIDENCE: f64 = -5.3;
/// Log-likelihood ratio at which failed probes end a round with "still failing": ln 10.
const STILL_FAILING_EVIDENCE: f64 = 2.3;
/// Log-likelihood ratio of the failures at which the probation may end with "well". The evidence of a good answer is
/// -ln 2, so that [`GOOD_ANSWERS_MIN`] good answers suffice without a failure. Half an answer allows for rounding.
const NOT_FAILING_EVIDENCE: f64 = (0.5 - GOOD_ANSWERS_MIN as f64) * LN_2;
/// Smallest usual failure rate that the test assumes, so that its logarithm is finite.
const USUAL_RATE_MIN: f64 = 1e-6;
/// Limits of the slowness that the test expects of a slow endpoint. The slowness is the logarithm of a ratio: the
/// endpoint's mean latency divided by the latency of the other endpoints.
const SHIFT_RANGE: (f64, f64) = (0.25, 0.7);

/// The state of a probation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Probation {
    pub(super) since: Instant,
    /// Before this time, only successful probes end the probation of a failing endpoint. From then on, it also ends if
    /// the other endpoints fail as often.
    pub(super) closed_until: Instant,
    pub(super) next_probe: Instant,
    /// Serial number of the latest probe, or 0.
    pub(super) turn: u64,
    pub(super) good_answers: u32,
    sum_ms: f64,
    /// Log-likelihood ratio so far: positive for "still slow", negative for "well".
    evidence: f64,
    /// Log-likelihood ratio of the failures so far: positive for "still failing", negative for "well".
    failure_evidence: f64,
    /// Whether the endpoint was ready before the probation.
    pub(super) was_ready: bool,
    /// The share of calls that the endpoint gets because the other endpoints are full, as a fraction of a full share, 0
    /// to 1.
    pub(super) relief: f64,
}

/// The test's result so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Verdict {
    Undecided,
    StillSlow,
    /// The endpoint has recovered. `mean_ms` is the mean latency of its good answers, and `answers` is their number.
    Well {
        mean_ms: f64,
        answers: u32,
    },
}

impl Probation {
    pub(super) fn new(now: Instant, wait: Duration, was_ready: bool) -> Self {
        Self {
            since: now,
            closed_until: now + wait,
            next_probe: now + wait,
            turn: 0,
            good_answers: 0,
            sum_ms: 0.0,
            evidence: 0.0,
            failure_evidence: 0.0,
            was_ready,
            relief: 0.0,
        }
    }

    /// Records an endpoint's good answer to a probe, and returns the result so far. `slow_ms` is the mean latency of a
    /// slow endpoint; `None` for a failing endpoint.
    pub(super) fn good_answer(&mut self, latency_ms: f64, slow_ms: Option<f64>, baseline: &Baseline) -> Verdict {
        self.good_answers += 1;
        // The rate of "still failing" is (1 + r) / 2, with the usual rate r. So a success is half as likely as usual.
        self.failure_evidence -= LN_2;
        self.sum_ms += latency_ms;
        if let Some((usual_ln_ms, deviation)) = baseline.usual() {
            let was = slow_ms.map_or(f64::INFINITY, |slow_ms| slow_ms.ln() - usual_ln_ms);
            let shift = was.clamp(SHIFT_RANGE.0, SHIFT_RANGE.1);
            let excess = baseline.without_noise(latency_ms).ln() - usual_ln_ms;
            self.evidence += shift * (excess - shift / 2.0) / (deviation * deviation);
        }
        if self.evidence >= STILL_SLOW_EVIDENCE {
            self.start_again();
            return Verdict::StillSlow;
        }
        let may_be_slow = self.evidence > WELL_EVIDENCE && baseline.usual().is_some();
        let may_be_failing = self.failure_evidence > NOT_FAILING_EVIDENCE;
        if self.good_answers < GOOD_ANSWERS_MIN || may_be_slow || may_be_failing {
            return Verdict::Undecided;
        }
        Verdict::Well { mean_ms: self.sum_ms / f64::from(self.good_answers), answers: self.good_answers }
    }

    /// Records that a probe of a failing endpoint has failed. `usual_rate` is the failure rate of the other endpoints.
    pub(super) fn failed_answer(&mut self, usual_rate: f64) {
        let usual_rate = usual_rate.clamp(USUAL_RATE_MIN, 1.0);
        self.failure_evidence += ((1.0 + usual_rate) / (2.0 * usual_rate)).ln();
        if self.failure_evidence >= STILL_FAILING_EVIDENCE {
            self.start_again();
        }
    }

    /// Puts off the next probe to `until`, and keeps the probation until then.
    pub(super) fn put_off(&mut self, until: Instant) {
        self.closed_until = self.closed_until.max(until);
        self.next_probe = self.next_probe.max(until);
    }

    /// Starts a new round of probes, which ignores earlier good answers.
    fn start_again(&mut self) {
        self.good_answers = 0;
        self.sum_ms = 0.0;
        self.evidence = 0.0;
        self.failure_evidence = 0.0;
    }
}

#[cfg(test)]
#[path = "probation_tests.rs"]
mod tests;
