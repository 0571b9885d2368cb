//! The proxies that `leno tap` watches, while Pods start and end. No I/O.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::printable::cut;
use crate::cluster::source::ProxyAt;

/// Maximum number of proxies that the command watches at the same time.
pub(super) const PROXIES_MAX: usize = 64;

/// Number of consecutive failed taps of a proxy after which the command no longer taps the proxy. One of them proves
/// little: a proxy that restarts ends its taps with an error, and the list may be older than the restart.
const FAILURES_MAX: u32 = 3;

#[derive(Default)]
pub(super) struct Watched {
    /// The proxies with an open tap, at most [`PROXIES_MAX`].
    open: BTreeSet<ProxyAt>,
    /// Number of consecutive failed taps of each proxy whose last tap has failed. At [`FAILURES_MAX`], the command stops
    /// tapping the proxy until a list omits the proxy. The user has seen the errors, and another tap would probably fail
    /// with the same error.
    failures: BTreeMap<ProxyAt, u32>,
    /// Number of listed proxies that are not watched because of [`PROXIES_MAX`].
    omitted: usize,
}

impl Watched {
    /// Takes a new list of the selected proxies, and returns the proxies at which a tap must be opened. A proxy whose
    /// tap ended is among them if it is still listed: a proxy may restart, and a Pod of a StatefulSet has the name of the
    /// Pod that it replaces.
    pub(super) fn list(&mut self, listed: impl Iterator<Item = ProxyAt>) -> Vec<ProxyAt> {
        let listed: BTreeSet<ProxyAt> = listed.collect();
        self.failures.retain(|proxy, _| listed.contains(proxy));
        let has_failed = |proxy: &ProxyAt| self.failures.get(proxy).is_some_and(|count| *count >= FAILURES_MAX);
        let is_new = |proxy: &ProxyAt| !self.open.contains(proxy) && !has_failed(proxy);
        let mut new: Vec<ProxyAt> = listed.into_iter().filter(is_new).collect();
        self.omitted = cut(&mut new, PROXIES_MAX.saturating_sub(self.open.len()));
        self.open.extend(new.iter().cloned());
        new
    }

    /// Notes that the tap of a proxy has ended. `is_failure`: with an error, and soon.
    pub(super) fn end(&mut self, proxy: ProxyAt, is_failure: bool) {
        self.open.remove(&proxy);
        if is_failure {
            let count = self.failures.entry(proxy).or_default();
            *count = count.saturating_add(1);
        } else {
            self.failures.remove(&proxy);
        }
    }

    /// Number of proxies of the last list that are not watched because of [`PROXIES_MAX`].
    pub(super) fn omitted(&self) -> usize {
        self.omitted
    }

    /// Whether the command no longer taps a listed proxy.
    pub(super) fn has_given_up(&self) -> bool {
        self.failures.values().any(|count| *count >= FAILURES_MAX)
    }
}

#[cfg(test)]
#[path = "watched_tests.rs"]
mod tests;
