//! A simulated server: workers, a queue before them, and what is wrong with it.

use std::collections::VecDeque;

use super::balancers::Report;

/// How long a failing call takes to fail.
pub(super) const FAILS_AFTER_MS: f64 = 0.2;
/// Answers of which a server reports the median latency to probes.
const REPORTED_ANSWERS: usize = 9;
/// Answers older than this say nothing to probes.
const REPORTED_AGE_NS: u64 = 5_000_000_000;

/// What a server does with calls. May be changed while the simulation stands still.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Behaviour {
    /// Calls that it works on at a time; the others wait in a queue.
    pub(super) workers: usize,
    /// Time added to every answer after the worker is done, as a slow link or disk does.
    pub(super) added_ms: f64,
    /// Time added to every call while it occupies its worker, as a slow processor does.
    pub(super) occupying_ms: f64,
    /// The part of the calls that fail at once, 0 to 1.
    pub(super) failing: f64,
    /// How long its failures ask not to be called.
    pub(super) pushback_ms: Option<f64>,
}

impl Behaviour {
    pub(super) fn healthy(workers: usize) -> Self {
        Self { workers, added_ms: 0.0, occupying_ms: 0.0, failing: 0.0, pushback_ms: None }
    }
}

/// A server and the calls that are with it.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) behaviour: Behaviour,
    busy: usize,
    queue: VecDeque<u32>,
    /// Calls and streams sent to it that have not ended.
    pub(super) open: u32,
    /// When its latest answers were given, and how long they took; the oldest is overwritten.
    answers: [(u64, f64); REPORTED_ANSWERS],
    answered: usize,
}

impl Server {
    pub(super) fn new(behaviour: Behaviour) -> Self {
        Self { behaviour, busy: 0, queue: VecDeque::new(), open: 0, answers: Default::default(), answered: 0 }
    }

    /// A worker for `call`, or a place in the queue.
    pub(super) fn take(&mut self, call: u32) -> bool {
        let free = self.busy < self.behaviour.workers;
        if free {
            self.busy += 1;
        } else {
            self.queue.push_back(call);
        }
        free
    }

    /// A worker is free; returns the call that it goes on with.
    pub(super) fn work_done(&mut self) -> Option<u32> {
        let next = self.queue.pop_front();
        if next.is_none() {
            self.busy -= 1;
        }
        next
    }

    pub(super) fn note_answer(&mut self, now_ns: u64, latency_ms: f64) {
        self.answers[self.answered % REPORTED_ANSWERS] = (now_ns, latency_ms);
        self.answered += 1;
    }

    /// What it tells a probe about itself.
    pub(super) fn report(&self, now_ns: u64) -> Report {
        let known = self.answered.min(REPORTED_ANSWERS);
        let mut recent = [0.0; REPORTED_ANSWERS];
        let mut count = 0;
        for (at_ns, latency_ms) in &self.answers[..known] {
            if now_ns - at_ns <= REPORTED_AGE_NS {
                recent[count] = *latency_ms;
                count += 1;
            }
        }
        let recent = &mut recent[..count];
        recent.sort_unstable_by(f64::total_cmp);
        Report { in_flight: self.open, latency_ms: recent.get(count / 2).copied() }
    }
}
