//! Keeps the rate limits ([`Paces`]) of each client account ([`Holder`]) at each address. The limits are kept after the
//! account's last stream ends, until its allowances are full again. So a client cannot reset its rate limits by opening
//! another stream.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::accounts::Holder;
use super::limits::READ_BYTES_PER_STREAM;
use super::pace::Paces;

/// Number of sources without streams that we check for removal when a stream opens. Each stream leaves behind at most
/// one such source, so two checks per stream keep up.
const CHECKS_PER_STREAM: usize = 2;

/// A source: a client account, and an address from which its clients connect.
pub(super) type Key = (Holder, IpAddr);

#[derive(Debug, Default)]
pub(super) struct Sources {
    known: HashMap<Key, Source>,
    /// Sources to check for removal, since their last stream has ended.
    resting: VecDeque<Key>,
}

#[derive(Debug)]
struct Source {
    streams: usize,
    /// Whether the source is in [`Sources::resting`].
    is_resting: bool,
    paces: Arc<Mutex<Paces>>,
}

impl Sources {
    /// Counts a new stream and charges the cost of opening it. Returns the rate limits that the stream shares with the
    /// other streams of its source.
    pub(super) fn open(&mut self, key: Key, now: Instant) -> Arc<Mutex<Paces>> {
        self.forget_rested(now);
        let source = self.known.entry(key).or_insert_with(|| Source {
            streams: 0,
            is_resting: false,
            paces: Arc::new(Mutex::new(Paces::new(now))),
        });
        source.streams += 1;
        lock(&source.paces).read.spend(READ_BYTES_PER_STREAM, now);
        source.paces.clone()
    }

    /// Counts a stream that has ended.
    pub(super) fn close(&mut self, key: Key) {
        let Some(source) = self.known.get_mut(&key) else { return };
        source.streams = source.streams.saturating_sub(1);
        if source.streams == 0 && !std::mem::replace(&mut source.is_resting, true) {
            self.resting.push_back(key);
        }
    }

    /// Checks a few of the sources without streams. Removes each of them whose allowances have refilled completely: a
    /// source that is added anew has full allowances, too.
    fn forget_rested(&mut self, now: Instant) {
        for _ in 0..CHECKS_PER_STREAM {
            let Some(key) = self.resting.pop_front() else { return };
            let Some(source) = self.known.get_mut(&key) else { continue };
            source.is_resting = source.streams == 0 && !lock(&source.paces).are_full(now);
            if source.is_resting {
                self.resting.push_back(key);
            } else if source.streams == 0 {
                self.known.remove(&key);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.known.len()
    }
}

pub(super) fn lock(paces: &Mutex<Paces>) -> MutexGuard<'_, Paces> {
    paces.lock().unwrap_or_else(PoisonError::into_inner)
}
