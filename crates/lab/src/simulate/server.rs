//! A simulated server: its workers, the queue in front of them, and its fault.

use std::collections::VecDeque;

use super::balancers::Report;

/// The gRPC statuses of error answers.
pub(super) const UNAVAILABLE: u8 = 14;
pub(super) const UNKNOWN: u8 = 2;
/// Time from the arrival of a failing call until its error answer, in ms.
pub(super) const FAILS_AFTER_MS: f64 = 0.2;
/// Number of latest answers that a server records for its reports to probes.
const REMEMBERED_ANSWERS: usize = 32;
/// Maximum number of recorded answers whose median latency a report to a probe contains.
///
/// The report uses the latest answers to calls that arrived when about as many calls were open as now. Without such
/// answers, it uses the latest answers to any calls.
const REPORTED_ANSWERS: usize = 9;
/// Largest age, in ns, of an answer that a report to a probe may use.
const REPORTED_AGE_NS: u64 = 5_000_000_000;

/// The speed and the failures of a server. A scenario may change them while the simulation is paused.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Behaviour {
    /// Maximum number of calls that the server processes at the same time; other calls wait in a queue.
    pub(super) workers: usize,
    /// Time added to every answer, in ms, after the worker has finished: like a slow link.
    pub(super) added_ms: f64,
    /// Time added to every call, in ms, during which the call occupies its worker: like a slow processor.
    pub(super) occupying_ms: f64,
    /// Fraction of the calls that fail at once, 0 to 1.
    pub(super) failing: f64,
    /// The gRPC status of each error answer.
    pub(super) error: u8,
    /// Value of `grpc-retry-pushback-ms` in each error answer; `None` omits the header.
    pub(super) pushback_ms: Option<f64>,
}

impl Behaviour {
    pub(super) fn healthy(workers: usize) -> Self {
        Self { workers, added_ms: 0.0, occupying_ms: 0.0, failing: 0.0, error: UNAVAILABLE, pushback_ms: None }
    }
}

/// A server and its calls.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) behaviour: Behaviour,
    busy: usize,
    queue: VecDeque<u32>,
    /// Open calls and streams.
    pub(super) open: u32,
    /// The latest answers, as a ring buffer: a new answer overwrites the oldest answer.
    answers: [Answer; REMEMBERED_ANSWERS],
    answered: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Answer {
    at_ns: u64,
    latency_ms: f64,
    /// Number of calls that were already open at the server when this call arrived.
    found_open: u32,
}

impl Server {
    pub(super) fn new(behaviour: Behaviour) -> Self {
        Self {
            behaviour,
            busy: 0,
            queue: VecDeque::new(),
            open: 0,
            answers: [Answer::default(); REMEMBERED_ANSWERS],
            answered: 0,
        }
    }

    /// Gives `call` a worker, or queues it. Returns whether it got a worker.
    pub(super) fn take(&mut self, call: u32) -> bool {
        let free = self.busy < self.behaviour.workers;
        if free {
            self.busy += 1;
        } else {
            self.queue.push_back(call);
        }
        free
    }

    /// Ends the work on a call. Returns the queued call that the worker takes next; `None` frees the worker.
    pub(super) fn work_done(&mut self) -> Option<u32> {
        let next = self.queue.pop_front();
        if next.is_none() {
            self.busy -= 1;
        }
        next
    }

    /// Records the answer to a call. When the call arrived, `found_open` other calls were open.
    pub(super) fn note_answer(&mut self, at_ns: u64, latency_ms: f64, found_open: u32) {
        self.answers[self.answered % REMEMBERED_ANSWERS] = Answer { at_ns, latency_ms, found_open };
        self.answered += 1;
    }

    /// Returns the server's report to a probe.
    pub(super) fn report(&self, now_ns: u64) -> Report {
        let alike = (self.open / 4).max(1);
        let latency_ms = self
            .median_ms(now_ns, |answer| answer.found_open.abs_diff(self.open) <= alike)
            .or_else(|| self.median_ms(now_ns, |_| true));
        Report { in_flight: self.open, latency_ms }
    }

    /// The median latency of the latest answers for which `count` returns true. `None` if there are none.
    fn median_ms(&self, now_ns: u64, count: impl Fn(&Answer) -> bool) -> Option<f64> {
        let latest_first = (0..self.answered).rev().take(REMEMBERED_ANSWERS);
        let answers = latest_first
            .map(|number| &self.answers[number % REMEMBERED_ANSWERS])
            .take_while(|answer| now_ns - answer.at_ns <= REPORTED_AGE_NS)
            .filter(|answer| count(answer));
        let mut latencies = [0.0; REPORTED_ANSWERS];
        let mut found = 0;
        for (place, answer) in latencies.iter_mut().zip(answers) {
            *place = answer.latency_ms;
            found += 1;
        }
        let latencies = &mut latencies[..found];
        latencies.sort_unstable_by(f64::total_cmp);
        latencies.get(found / 2).copied()
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
