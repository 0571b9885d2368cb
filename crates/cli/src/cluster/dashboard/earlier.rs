//! Keeps earlier readings of the open calls, so that the dashboard can compare the next readings with them. All tabs of
//! the browser share these earlier readings. No I/O, no clock: each reading has its time.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use crate::cluster::clock::BootInstant;
use crate::cluster::source::ProxyAt;
use crate::cluster::stat::streams::{BETWEEN, Reading};

/// If no tab has read a proxy for this time, the dashboard drops the proxy's readings: the proxy may be gone. A tab
/// reads the proxies at least every minute.
const UNREAD_MAX: Duration = Duration::from_secs(120);

/// The earlier readings of each proxy.
#[derive(Default)]
pub(super) struct EarlierCalls {
    proxies: HashMap<ProxyAt, Earlier>,
}

struct Earlier {
    last: Reading,
    /// A reading at least [`BETWEEN`] older than `last`. A new reading is compared with it while `last` is less than
    /// [`BETWEEN`] old.
    previous: Option<Reading>,
}

impl EarlierCalls {
    /// For each new reading, returns the latest kept reading of the same proxy that is at least [`BETWEEN`] older. A
    /// shorter interval does not prove that a call stalls: even a healthy client or server may read no content for that
    /// long.
    pub(super) fn comparable(&self, new: &[Reading]) -> Vec<&Reading> {
        new.iter().filter_map(|(proxy, at, _)| self.proxies.get(proxy)?.comparable(*at)).collect()
    }

    /// Keeps each new reading, unless a reading of the same proxy was kept less than [`BETWEEN`] before it.
    pub(super) fn keep(&mut self, new: Vec<Reading>) {
        if let Some(now) = new.iter().map(|(_, at, _)| *at).max() {
            self.proxies.retain(|_, earlier| now - earlier.last.1 < UNREAD_MAX);
        }
        for reading in new {
            match self.proxies.entry(reading.0.clone()) {
                Entry::Vacant(entry) => {
                    entry.insert(Earlier { last: reading, previous: None });
                }
                Entry::Occupied(mut entry) => entry.get_mut().keep(reading),
            }
        }
    }
}

impl Earlier {
    fn comparable(&self, at: BootInstant) -> Option<&Reading> {
        if is_apart(&self.last, at) { Some(&self.last) } else { self.previous.as_ref() }
    }

    fn keep(&mut self, new: Reading) {
        if is_apart(&self.last, new.1) {
            self.previous = Some(std::mem::replace(&mut self.last, new));
        }
    }
}

/// Whether a reading is old enough for a comparison with a reading at the time `at`.
fn is_apart((_, then, _): &Reading, at: BootInstant) -> bool {
    at - *then >= BETWEEN
}

#[cfg(test)]
#[path = "earlier_tests.rs"]
mod tests;
