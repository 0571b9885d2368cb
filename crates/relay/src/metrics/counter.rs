//! Numbers with one writer and any number of readers.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows (it wraps after 2^64).
///
/// Only one thread may call [`Counter::add`]: a second writer's additions would be lost.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        // There is only one writer, so a plain load and store is enough. A locked read-modify-write costs ten times
        // more.
        self.0.store(self.get().wrapping_add(n), Ordering::Relaxed);
    }

    /// Returns the current value.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that goes up and down and is never negative.
///
/// Only one thread may change it, as with [`Counter`].
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Adds one.
    #[inline]
    pub fn inc(&self) {
        self.set(self.get().saturating_add(1));
    }

    /// Subtracts one. A value of 0 stays 0.
    #[inline]
    pub fn dec(&self) {
        self.set(self.get().saturating_sub(1));
    }

    /// Replaces the value.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Returns the current value.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
