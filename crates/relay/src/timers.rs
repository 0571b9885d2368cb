//! Timers: a timing wheel of two levels.
//!
//! Time is divided into turns of [`NEAR`] milliseconds. The near wheel has a slot for each millisecond of the current
//! turn, the far wheel has a slot for each later turn. A deadline in a later turn costs nothing until that turn begins.
//! Setting or cancelling a timer takes a few nanoseconds, independent of the number of calls in flight. The entries of
//! one slot form a linked list in the slab.
//!
//! Invariants:
//! - The near wheel holds exactly the timers that are due in the turn of `done_ms`.
//! - Bit `s` of `occupied` is set while the list of slot `s` is not empty.

use std::time::{Duration, Instant};

use slab::Slab;

/// Length of a turn in milliseconds, and number of slots of the near wheel; a multiple of 64.
const NEAR: usize = 1024;
/// Number of slots of the far wheel, one for each turn. A timer that is due in an even later turn shares one of these
/// slots, and waits there for further rounds of the wheel.
const FAR: usize = 64;
const WORDS: usize = (NEAR + FAR) / 64;
const NONE: u32 = u32::MAX;

/// Number of nanoseconds in a second, and in a millisecond.
const SECOND_NS: u64 = 1_000_000_000;
const MS_NS: u64 = 1_000_000;

/// A time in the unit of a timing wheel: the number of milliseconds since the wheel's start, rounded up, so that a
/// timer never fires early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tick(u64);

impl Tick {
    /// A tick that is later than every time that occurs.
    pub(crate) const NEVER: Self = Self(u64::MAX);

    #[inline]
    fn of_ns(since_start_ns: u64) -> Self {
        Self(since_start_ns.div_ceil(MS_NS))
    }
}

/// Identifies a timer that is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimerKey(u32);

#[derive(Debug)]
struct Entry<T> {
    due_ms: u64,
    /// The slot that holds this timer: a slot of the near wheel, or [`NEAR`] plus a slot of the far wheel.
    slot: u32,
    previous: u32,
    next: u32,
    value: T,
}

/// Timers, each with a value that is returned when the timer is due.
#[derive(Debug)]
pub(crate) struct Timers<T> {
    start: Instant,
    /// The latest time that was converted by [`Timers::tick_after`], and how long after `start` it was, in nanoseconds.
    latest: (Instant, u64),
    /// All timers that are due before this millisecond have expired.
    done_ms: u64,
    heads: Vec<u32>,
    occupied: [u64; WORDS],
    entries: Slab<Entry<T>>,
}

impl<T: Copy> Timers<T> {
    pub(crate) fn new(now: Instant) -> Self {
        let (heads, occupied) = (vec![NONE; NEAR + FAR], [0; WORDS]);
        Self { start: now, latest: (now, 0), done_ms: 0, heads, occupied, entries: Slab::new() }
    }

    /// Returns the tick of the time that is `after` later than `since`. Keeps the conversion of the latest `since`: in
    /// most turns of the event loop, all calls of this function have the same `since`.
    #[inline]
    pub(crate) fn tick_after(&mut self, since: Instant, after: Duration) -> Tick {
        if self.latest.0 != since {
            self.convert(since);
        }
        Tick::of_ns(self.latest.1.saturating_add(ns(after)))
    }

    #[cold]
    fn convert(&mut self, time: Instant) {
        self.latest = (time, ns(time.saturating_duration_since(self.start)));
    }

    /// Returns the time of a tick.
    pub(crate) fn time_of(&self, tick: Tick) -> Instant {
        self.start + Duration::from_millis(tick.0)
    }

    /// Returns whether a tick has passed, so that a timer that was set for this tick has expired.
    #[inline]
    pub(crate) fn has_passed(&self, tick: Tick) -> bool {
        tick.0 < self.done_ms
    }

    /// Sets a timer. A timer in the past is due at the next [`Timers::expire`].
    pub(crate) fn set(&mut self, due: Tick, value: T) -> TimerKey {
        let entry = Entry { due_ms: due.0.max(self.done_ms), slot: NONE, previous: NONE, next: NONE, value };
        let key = self.entries.insert(entry) as u32;
        self.link(key);
        TimerKey(key)
    }

    /// Cancels a timer that has not expired.
    pub(crate) fn cancel(&mut self, key: TimerKey) {
        self.unlink(key.0);
        self.entries.try_remove(key.0 as usize);
    }

    /// Removes the timers due at `now` and appends their values to `due`.
    pub(crate) fn expire(&mut self, now: Instant, due: &mut Vec<T>) {
        let now_ms = now.saturating_duration_since(self.start).as_millis() as u64;
        while self.done_ms <= now_ms && !self.entries.is_empty() {
            match self.next_occupied(slot_in_turn(self.done_ms)..NEAR) {
                Some(slot) if turn_start(self.done_ms) + slot as u64 <= now_ms => {
                    self.done_ms = turn_start(self.done_ms) + slot as u64;
                    self.give_back(slot, due);
                    self.advance_to(self.done_ms + 1);
                }
                _ => self.advance_to((turn_start(self.done_ms) + NEAR as u64).min(now_ms + 1)),
            }
        }
        self.done_ms = self.done_ms.max(now_ms + 1);
    }

    /// Returns the time until a timer may be due; `None` without timers. No timer is due earlier. If no timer is due in
    /// the rest of the wheel's current turn, the returned time may be too short by one or more turns of the wheel.
    pub(crate) fn next_in(&self, now: Instant) -> Option<Duration> {
        if self.entries.is_empty() {
            return None;
        }
        let at_ms = match self.next_occupied(slot_in_turn(self.done_ms)..NEAR) {
            Some(slot) => turn_start(self.done_ms) + slot as u64,
            None => self.next_far_turn_ms()?,
        };
        Some(self.time_of(Tick(at_ms)).saturating_duration_since(now))
    }

    /// Returns how many timers are set.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Frees memory that is no longer needed after a burst.
    pub(crate) fn shrink(&mut self) {
        self.entries.shrink_to_fit();
    }

    /// Returns the first millisecond of the next turn whose slot in the far wheel has timers.
    fn next_far_turn_ms(&self) -> Option<u64> {
        let next_turn = self.done_ms / NEAR as u64 + 1;
        let first = far_slot(next_turn);
        let slot = self.next_occupied(first..NEAR + FAR).or_else(|| self.next_occupied(NEAR..first))?;
        let ahead = (slot + FAR - first) % FAR;
        Some((next_turn + ahead as u64) * NEAR as u64)
    }

    /// Moves the current time to `ms`. If a turn begins, its timers move to the near wheel.
    fn advance_to(&mut self, ms: u64) {
        let begins = turn_start(ms) > turn_start(self.done_ms);
        self.done_ms = ms;
        if !begins {
            return;
        }
        let mut key = self.head(far_slot(ms / NEAR as u64));
        while let Some(entry) = self.entries.get(key as usize) {
            let next = entry.next;
            if entry.due_ms < turn_start(ms) + NEAR as u64 {
                self.unlink(key);
                self.link(key);
            }
            key = next;
        }
    }

    /// Expires all timers in a slot of the near wheel, and appends their values to `due`.
    fn give_back(&mut self, slot: usize, due: &mut Vec<T>) {
        while let Some(entry) = self.entries.get(self.head(slot) as usize) {
            due.push(entry.value);
            self.cancel(TimerKey(self.head(slot)));
        }
    }

    fn head(&self, slot: usize) -> u32 {
        self.heads.get(slot).copied().unwrap_or(NONE)
    }

    /// Puts an entry into the slot for its time.
    fn link(&mut self, key: u32) {
        let Some(entry) = self.entries.get_mut(key as usize) else { return };
        let turn = entry.due_ms / NEAR as u64;
        let slot = if turn == self.done_ms / NEAR as u64 { slot_in_turn(entry.due_ms) } else { far_slot(turn) };
        let head = std::mem::replace(&mut self.heads[slot], key);
        (entry.slot, entry.previous, entry.next) = (slot as u32, NONE, head);
        if let Some(next) = self.entries.get_mut(head as usize) {
            next.previous = key;
        }
        self.occupied[slot / 64] |= 1 << (slot % 64);
    }

    fn unlink(&mut self, key: u32) {
        let Some(entry) = self.entries.get(key as usize) else { return };
        let (slot, previous, next) = (entry.slot as usize, entry.previous, entry.next);
        match self.entries.get_mut(previous as usize) {
            Some(entry) => entry.next = next,
            None => self.heads[slot] = next,
        }
        if let Some(entry) = self.entries.get_mut(next as usize) {
            entry.previous = previous;
        }
        if self.heads[slot] == NONE {
            self.occupied[slot / 64] &= !(1 << (slot % 64));
        }
    }

    /// Returns the first slot of a range that has timers.
    fn next_occupied(&self, slots: std::ops::Range<usize>) -> Option<usize> {
        let mut slot = slots.start;
        while slot < slots.end {
            let word = self.occupied.get(slot / 64)? >> (slot % 64);
            if word != 0 {
                return Some(slot + word.trailing_zeros() as usize).filter(|slot| *slot < slots.end);
            }
            slot = (slot / 64 + 1) * 64;
        }
        None
    }
}

fn ns(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(SECOND_NS).saturating_add(u64::from(duration.subsec_nanos()))
}

/// Returns the first millisecond of the turn that contains `ms`.
fn turn_start(ms: u64) -> u64 {
    ms / NEAR as u64 * NEAR as u64
}

fn slot_in_turn(ms: u64) -> usize {
    ms as usize % NEAR
}

fn far_slot(turn: u64) -> usize {
    NEAR + turn as usize % FAR
}

#[cfg(test)]
#[path = "timers_tests.rs"]
mod tests;
