//! Deadlines of calls: a hashed timing wheel of one-millisecond slots.
//!
//! Setting and cancelling cost the same few nanoseconds however many calls are in flight; entries of one slot form a
//! list through the slab. Invariant: bit `s` of `occupied` is set while the list of slot `s` is not empty.

use std::time::{Duration, Instant};

use slab::Slab;

/// Slots of one millisecond each; a power of two. Later deadlines stay in their slot for further turns of the wheel.
const SLOTS: usize = 1024;
const WORDS: usize = SLOTS / 64;
const NONE: u32 = u32::MAX;

/// Names a timer that is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TimerKey(u32);

#[derive(Debug)]
struct Entry<T> {
    due_ms: u64,
    previous: u32,
    next: u32,
    value: T,
}

/// Timers with a value each, given back when due.
#[derive(Debug)]
pub(super) struct Timers<T> {
    start: Instant,
    /// Every slot before this millisecond has been looked at.
    done_ms: u64,
    heads: Vec<u32>,
    occupied: [u64; WORDS],
    entries: Slab<Entry<T>>,
}

impl<T: Copy> Timers<T> {
    pub(super) fn new(now: Instant) -> Self {
        Self { start: now, done_ms: 0, heads: vec![NONE; SLOTS], occupied: [0; WORDS], entries: Slab::new() }
    }

    /// Sets a timer. One in the past is due at the next [`Timers::expire`].
    pub(super) fn set(&mut self, due: Instant, value: T) -> TimerKey {
        // Rounded up: a deadline never fires early.
        let since_start = due.saturating_duration_since(self.start);
        let due_ms = (since_start.as_nanos().div_ceil(1_000_000) as u64).max(self.done_ms);
        let slot = slot_of(due_ms);
        let next = self.heads[slot];
        let key = self.entries.insert(Entry { due_ms, previous: NONE, next, value }) as u32;
        if let Some(next) = self.entries.get_mut(next as usize) {
            next.previous = key;
        }
        self.heads[slot] = key;
        self.occupied[slot / 64] |= 1 << (slot % 64);
        TimerKey(key)
    }

    /// Cancels a timer that has not been given back.
    pub(super) fn cancel(&mut self, key: TimerKey) {
        let Some(entry) = self.entries.try_remove(key.0 as usize) else { return };
        let slot = slot_of(entry.due_ms);
        match self.entries.get_mut(entry.previous as usize) {
            Some(previous) => previous.next = entry.next,
            None => self.heads[slot] = entry.next,
        }
        if let Some(next) = self.entries.get_mut(entry.next as usize) {
            next.previous = entry.previous;
        }
        if self.heads[slot] == NONE {
            self.occupied[slot / 64] &= !(1 << (slot % 64));
        }
    }

    /// Removes the timers due at `now` and appends their values to `due`.
    pub(super) fn expire(&mut self, now: Instant, due: &mut Vec<T>) {
        let now_ms = now.saturating_duration_since(self.start).as_millis() as u64;
        if self.entries.is_empty() {
            self.done_ms = self.done_ms.max(now_ms + 1);
            return;
        }
        // After a long sleep one turn of the wheel sees every slot.
        let first = self.done_ms.max((now_ms + 1).saturating_sub(SLOTS as u64));
        for ms in first..=now_ms {
            let mut key = self.heads[slot_of(ms)];
            while let Some(entry) = self.entries.get(key as usize) {
                let (next, is_due, value) = (entry.next, entry.due_ms <= now_ms, entry.value);
                if is_due {
                    self.cancel(TimerKey(key));
                    due.push(value);
                }
                key = next;
            }
        }
        self.done_ms = self.done_ms.max(now_ms + 1);
    }

    /// How long until a timer may be due; `None` without timers. Never too long, sometimes too short.
    pub(super) fn next_in(&self, now: Instant) -> Option<Duration> {
        if self.entries.is_empty() {
            return None;
        }
        let first = slot_of(self.done_ms);
        for step in 0..=WORDS {
            let index = (first / 64 + step) % WORDS;
            let mut word = self.occupied[index];
            if step == 0 {
                word &= u64::MAX << (first % 64);
            }
            if word != 0 {
                let slot = index * 64 + word.trailing_zeros() as usize;
                let ahead = (slot + SLOTS - first) % SLOTS;
                let at = self.start + Duration::from_millis(self.done_ms + ahead as u64);
                return Some(at.saturating_duration_since(now));
            }
        }
        None
    }
}

fn slot_of(ms: u64) -> usize {
    ms as usize % SLOTS
}

#[cfg(test)]
#[path = "timers_tests.rs"]
mod tests;
