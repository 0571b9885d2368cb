//! Outbox: traced calls that have ended and wait for the exporter.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};

use super::FinishedCall;

/// Maximum memory of the calls that wait, in bytes.
const MAX_WAITING_BYTES: usize = 1 << 20;

/// Reason why the spans of a call are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// More calls were sampled in a second than `max_traced_calls_per_second`.
    Rate,
    /// The outbox was full, or another thread was using it.
    QueueFull,
    /// The collector cannot be reached, or rejects spans.
    Collector,
}

/// Calls that wait for the exporter. All workers of a proxy share an outbox with the control thread.
#[derive(Debug, Default)]
pub struct Outbox {
    waiting: Mutex<Waiting>,
    exported: AtomicU64,
    dropped: [AtomicU64; Dropped::ALL.len()],
}

#[derive(Debug, Default)]
struct Waiting {
    calls: Vec<FinishedCall>,
    bytes: usize,
}

impl Dropped {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Rate, Self::QueueFull, Self::Collector];

    /// Returns the reason's name in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::QueueFull => "queue-full",
            Self::Collector => "collector",
        }
    }
}

impl Outbox {
    /// Removes and returns all calls that wait for the exporter.
    pub fn take(&self) -> Vec<FinishedCall> {
        std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner)).calls
    }

    /// Counts calls whose spans the collector has accepted.
    pub fn count_exported(&self, calls: usize) {
        self.exported.fetch_add(calls as u64, Ordering::Relaxed);
    }

    /// Counts calls whose spans the collector has not accepted.
    pub fn count_rejected(&self, calls: usize) {
        self.count(Dropped::Collector, calls as u64);
    }

    /// Returns how many calls were exported.
    pub fn exported(&self) -> u64 {
        self.exported.load(Ordering::Relaxed)
    }

    /// Returns how many calls were dropped for this reason.
    pub fn dropped(&self, why: Dropped) -> u64 {
        self.dropped.get(why as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Offers a call that has ended. A worker never waits: it drops the call if another thread is using the outbox.
    /// Returns whether the call now waits for the exporter.
    pub(crate) fn offer(&self, call: FinishedCall) -> bool {
        let mut waiting = match self.waiting.try_lock() {
            Ok(waiting) => waiting,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                self.drop_call(Dropped::QueueFull);
                return false;
            }
        };
        let bytes = call.memory_bytes();
        if waiting.bytes + bytes > MAX_WAITING_BYTES {
            self.drop_call(Dropped::QueueFull);
            return false;
        }
        waiting.bytes += bytes;
        waiting.calls.push(call);
        true
    }

    pub(crate) fn drop_call(&self, why: Dropped) {
        self.count(why, 1);
    }

    fn count(&self, why: Dropped, calls: u64) {
        if let Some(count) = self.dropped.get(why as usize) {
            count.fetch_add(calls, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
#[path = "outbox_tests.rs"]
mod tests;
