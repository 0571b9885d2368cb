//! Requests that their callers must not retry: to answer such a request, the application has called another service,
//! and all retries of that call are used up.
//!
//! The application's own answer to such a request usually is a failure too. If the callers retried the request, the
//! retries along a chain of services would multiply. So the proxy beside the application must know which request caused
//! the failed call. It finds the request by the trace of the call: many applications copy the trace from an inbound
//! request to their outbound requests. Few applications copy fields from a response to their own response, so the proxy
//! cannot rely on fields.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Number of requests that a proxy remembers. A later request may take the slot of an earlier request. The proxy then
/// forgets the earlier request, so callers may retry it.
const SLOTS: usize = 4_096;
/// The unit of the times that the slots store.
const TICK: Duration = Duration::from_millis(100);
/// How long a proxy remembers a request after the failure of its call: 10 s.
const MEMORY_TICKS: u16 = 100;
/// Maximum time by which another worker's time may be ahead: 1 s. Each worker reads the clock only once in a turn of
/// its event loop, so their times differ.
const AHEAD_TICKS: u16 = 10;
/// Number of lower bits of a slot, which hold the time. The other bits of the slot are the upper bits of the request's
/// id.
const TIME_BITS: u32 = u16::BITS;

/// The requests to one proxy that callers must not retry. All workers share them without locks.
#[derive(Debug)]
pub struct SpentChains {
    /// When the first request was remembered.
    since: OnceLock<Instant>,
    slots: Box<[AtomicU64]>,
}

impl Default for SpentChains {
    fn default() -> Self {
        Self { since: OnceLock::new(), slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect() }
    }
}

/// Identifies a request, and the calls that an application makes because of it, by their trace. If two requests get the
/// same number, callers may omit an allowed retry of one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChainId(u64);

impl ChainId {
    pub(crate) fn of_trace(trace: u128) -> Self {
        // Some trace ids are times, or small numbers, so spread them over all bits with a product (Fibonacci hashing).
        // Set the highest bit, because a slot with the value 0 is empty.
        Self(((trace >> 64) as u64 ^ trace as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 << 63)
    }
}

impl SpentChains {
    /// Records that a call has no retry left. The application made this call to answer the request with this id.
    pub(crate) fn note(&self, ChainId(id): ChainId, now: Instant) {
        let since = *self.since.get_or_init(|| now);
        if let Some(slot) = self.slot(id) {
            slot.store(id >> TIME_BITS << TIME_BITS | u64::from(ticks(since, now)), Ordering::Relaxed);
        }
    }

    /// Returns whether [`Self::note`] was called for a request since the request began (`begun`). Ignores an earlier
    /// call of [`Self::note`], which was for an earlier request of the same trace.
    pub(crate) fn has(&self, ChainId(id): ChainId, begun: Instant, now: Instant) -> bool {
        let (Some(since), Some(slot)) = (self.since.get(), self.slot(id)) else { return false };
        let slot = slot.load(Ordering::Relaxed);
        let noted = slot as u16;
        let is_recent = |age: u16| age <= MEMORY_TICKS || age >= u16::MAX - AHEAD_TICKS;
        slot != 0
            && slot >> TIME_BITS == id >> TIME_BITS
            && is_recent(ticks(*since, now).wrapping_sub(noted))
            && noted.wrapping_sub(ticks(*since, begun)).cast_signed() >= 0
    }

    /// Returns the slot for an id. The lower bits of the id choose the slot, so the slot needs to hold only the upper
    /// bits.
    fn slot(&self, id: u64) -> Option<&AtomicU64> {
        self.slots.get(id as usize % SLOTS)
    }
}

/// Returns the time from `since` to `now` in [`TICK`]s. The number begins again at 0 after 109 minutes.
fn ticks(since: Instant, now: Instant) -> u16 {
    (now.saturating_duration_since(since).as_millis() / TICK.as_millis()) as u16
}

#[cfg(test)]
#[path = "spent_chains_tests.rs"]
mod tests;
