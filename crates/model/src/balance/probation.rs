//! The way back of an endpoint that was found slow or failing: probes, and when they have shown enough.
//!
//! Whether it is well again is decided by a sequential probability ratio test (Wald 1945) on the logarithms of
//! the probes' latencies: each answer is evidence for "as the others" or for "still slow", and probing goes on
//! until one of them is far more likely. What is clearly slow is found so by one probe, what is
//! clearly well by a few, and only what lies between takes many.

use std::time::{Duration, Instant};

use super::norm::Norm;

/// The wait before the first probe; each probe without a good answer doubles it.
pub(super) const PROBE_WAIT_MIN: Duration = Duration::from_millis(500);
/// Bounds both the calls that probing spends on a slow endpoint and the time to notice its recovery.
pub(super) const PROBE_WAIT_MAX: Duration = Duration::from_secs(2);
/// The fewest good answers that end a probation.
const GOOD_ANSWERS_MIN: u32 = 5;
/// Being slow must be so many times as likely as being well to end a round of probes: 1 in 30 that are well
/// must wait for another round.
const STILL_SLOW_EVIDENCE: f64 = 3.4;
/// Being well must be so many times as likely: 1 in 200 that are slow are taken for well, until found out.
const WELL_EVIDENCE: f64 = -5.3;
/// How much slower than the others "still slow" is, as a logarithm: what it was, within these bounds.
const SHIFT_RANGE: (f64, f64) = (0.25, 0.7);

/// The state of an endpoint's way back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Probation {
    pub(super) since: Instant,
    /// No return before this, however badly the others do.
    pub(super) closed_until: Instant,
    pub(super) next_probe: Instant,
    pub(super) good_answers: u32,
    sum_ms: f64,
    /// The logarithm of how many times as likely it is that it is still slow as that it is well.
    evidence: f64,
    /// It had a full share when it became slow or failing.
    pub(super) was_ready: bool,
    /// The part of a full share that it gets because the others are full, 0 to 1.
    pub(super) relief: f64,
}

/// What the probes say so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Verdict {
    Undecided,
    StillSlow,
    /// Well again, with the mean of so many answers.
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
            good_answers: 0,
            sum_ms: 0.0,
            evidence: 0.0,
            was_ready,
            relief: 0.0,
        }
    }

    /// Takes the answer to a probe into account. `slow_ms` is what the endpoint was known to take.
    pub(super) fn good_answer(&mut self, latency_ms: f64, slow_ms: Option<f64>, norm: &Norm) -> Verdict {
        self.good_answers += 1;
        self.sum_ms += latency_ms;
        if let Some((usual_ln_ms, deviation)) = norm.usual() {
            let was = slow_ms.map_or(f64::INFINITY, |slow_ms| slow_ms.ln() - usual_ln_ms);
            let shift = was.clamp(SHIFT_RANGE.0, SHIFT_RANGE.1);
            let excess = norm.without_noise(latency_ms).ln() - usual_ln_ms;
            self.evidence += shift * (excess - shift / 2.0) / (deviation * deviation);
        }
        if self.evidence >= STILL_SLOW_EVIDENCE {
            self.start_again();
            return Verdict::StillSlow;
        }
        if self.good_answers < GOOD_ANSWERS_MIN || (self.evidence > WELL_EVIDENCE && norm.usual().is_some()) {
            return Verdict::Undecided;
        }
        Verdict::Well { mean_ms: self.sum_ms / f64::from(self.good_answers), answers: self.good_answers }
    }

    /// A probe that failed, or that was slow beyond doubt, makes worthless what went well before.
    pub(super) fn start_again(&mut self) {
        self.good_answers = 0;
        self.sum_ms = 0.0;
        self.evidence = 0.0;
    }
}

#[cfg(test)]
#[path = "probation_tests.rs"]
mod tests;
