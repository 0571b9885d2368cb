//! Records the load's numbers, without waiting for the threads that read them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use super::call::Answer;
use super::failure::Failure;
use super::stats::Stats;

/// Collects the numbers that the load writes and other threads read.
#[derive(Debug)]
pub(super) struct Recorder {
    servers: Vec<String>,
    shared: Arc<Mutex<Stats>>,
    /// Events that are not included in `shared` yet.
    kept: Vec<Event>,
}

#[derive(Debug)]
enum Event {
    Sent { due: Instant, lateness: Duration },
    Answered { since: Instant, server: usize, latency: Duration },
    Failed { since: Instant, failure: Failure },
}

impl Recorder {
    /// A recorder that counts the answers of servers with these names in `shared`.
    pub(super) fn new(servers: &[String], shared: &Arc<Mutex<Stats>>) -> Self {
        Self { servers: servers.to_vec(), shared: Arc::clone(shared), kept: Vec::new() }
    }

    /// Records that the load sends a call, or queues it for the first free client, at the time `now`. The call was due
    /// at the time `due`.
    pub(super) fn sent(&mut self, due: Instant, now: Instant) {
        self.kept.push(Event::Sent { due, lateness: now.saturating_duration_since(due) });
    }

    /// Records the result of a call that ended at the time `now`. The latency counts from the time `since`.
    pub(super) fn ended(&mut self, since: Instant, now: Instant, answer: Answer) {
        let by = |name: &[u8]| {
            let known = self.servers.iter().position(|server| server.as_bytes() == name);
            known.ok_or_else(|| {
                Failure::protocol(format!("an unknown server answered: {:?}", String::from_utf8_lossy(name)))
            })
        };
        match answer.and_then(|name| by(&name)) {
            Ok(server) => {
                let latency = now.saturating_duration_since(since);
                self.kept.push(Event::Answered { since, server, latency });
            }
            Err(failure) => self.failed(since, failure),
        }
    }

    /// Records a failed call, sent or not.
    pub(super) fn failed(&mut self, since: Instant, failure: Failure) {
        self.kept.push(Event::Failed { since, failure });
    }

    /// Adds all kept events to `shared`. If a reader holds the lock, keeps the events until the next call of this
    /// function.
    pub(super) fn hand_over(&mut self) {
        if self.kept.is_empty() {
            return;
        }
        match self.shared.try_lock() {
            Ok(mut stats) => hand_over_to(&mut stats, &mut self.kept),
            Err(TryLockError::Poisoned(poisoned)) => hand_over_to(&mut poisoned.into_inner(), &mut self.kept),
            Err(TryLockError::WouldBlock) => {}
        }
    }

    /// Adds the remaining events to `shared`. Waits for the lock.
    pub(super) fn finish(mut self) {
        hand_over_to(&mut lock(&self.shared), &mut self.kept);
    }
}

/// Locks the numbers. They are consistent even if a thread panicked while holding the lock: each change is one
/// assignment.
pub(super) fn lock(stats: &Mutex<Stats>) -> MutexGuard<'_, Stats> {
    stats.lock().unwrap_or_else(PoisonError::into_inner)
}

fn hand_over_to(stats: &mut Stats, events: &mut Vec<Event>) {
    for event in events.drain(..) {
        match event {
            Event::Sent { due, lateness } => stats.sent(due, lateness),
            Event::Answered { since, server, latency } => stats.answer(since, server, latency),
            Event::Failed { since, failure } => stats.fail(since, failure),
        }
    }
}

#[cfg(test)]
#[path = "recorder_tests.rs"]
mod tests;
