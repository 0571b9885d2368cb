//! A small set of counters whose keys are only known at run time.

use std::sync::OnceLock;

use super::Counter;

/// Up to `N` counters. The first use of a key claims a free counter. If no counter is free, the key shares one extra
/// counter with all other such keys.
///
/// Keys are never removed, and the table's size is fixed, so peers cannot make the table grow. One thread writes, any
/// number of threads read, without a lock.
#[derive(Debug)]
pub(super) struct CountByKey<K, const N: usize> {
    slots: [(OnceLock<K>, Counter); N],
    others: Counter,
}

impl<K, const N: usize> Default for CountByKey<K, N> {
    fn default() -> Self {
        Self { slots: std::array::from_fn(|_| Default::default()), others: Counter::default() }
    }
}

impl<K: Copy + Eq, const N: usize> CountByKey<K, N> {
    /// Adds one to the count of `key`. Common keys occur early, so they have the first counters and are found at once.
    /// Returns whether the key has a counter of its own.
    pub(super) fn count(&self, key: K) -> bool {
        let slot = self.slots.iter().find(|(slot_key, _)| *slot_key.get_or_init(|| key) == key);
        slot.map_or(&self.others, |(_, counter)| counter).add(1);
        slot.is_some()
    }

    /// Returns every key that has a counter of its own, with its count.
    pub(super) fn counts(&self) -> impl Iterator<Item = (K, u64)> {
        self.slots.iter().map_while(|(key, counter)| Some((*key.get()?, counter.get())))
    }

    /// Returns the count of a key; 0 if the key has no counter of its own.
    pub(super) fn get(&self, key: K) -> u64 {
        self.counts().find(|(of, _)| *of == key).map_or(0, |(_, count)| count)
    }

    /// Returns the count of all keys without a counter of their own.
    pub(super) fn others(&self) -> u64 {
        self.others.get()
    }
}

/// Numbers of successes and failures among the events whose key has no counter of its own.
#[derive(Debug, Default)]
pub(super) struct Unkeyed {
    pub(super) successes: Counter,
    pub(super) failures: Counter,
}

impl Unkeyed {
    #[cold]
    pub(super) fn count(&self, failed: bool) {
        let counter = if failed { &self.failures } else { &self.successes };
        counter.add(1);
    }
}

#[cfg(test)]
#[path = "keyed_tests.rs"]
mod tests;
