//! The proxies that `leno tap` watches, while Pods start and end. No I/O.

use std::collections::BTreeSet;

use crate::cluster::printable::cut;
use crate::cluster::source::ProxyAt;

/// Maximum number of proxies that the command watches at the same time.
pub(super) const PROXIES_MAX: usize = 64;

#[derive(Default)]
pub(super) struct Watched {
    /// The proxies with an open tap, at most [`PROXIES_MAX`].
    open: BTreeSet<ProxyAt>,
    /// The proxies whose tap failed. The command does not tap them again as long as they are listed: it has reported
    /// the error, and most errors would repeat.
    failed: BTreeSet<ProxyAt>,
    /// Number of listed proxies that are not watched because of [`PROXIES_MAX`].
    omitted: usize,
}

impl Watched {
    /// Takes a new list of the selected proxies, and returns the proxies at which a tap must be opened. A proxy whose
    /// tap ended without an error is among them if it is still listed: a Pod of a StatefulSet has the name of the Pod
    /// that it replaces.
    pub(super) fn list(&mut self, listed: impl Iterator<Item = ProxyAt>) -> Vec<ProxyAt> {
        let listed: BTreeSet<ProxyAt> = listed.collect();
        self.failed.retain(|proxy| listed.contains(proxy));
        let is_new = |proxy: &ProxyAt| !self.open.contains(proxy) && !self.failed.contains(proxy);
        let mut new: Vec<ProxyAt> = listed.into_iter().filter(is_new).collect();
        self.omitted = cut(&mut new, PROXIES_MAX.saturating_sub(self.open.len()));
        self.open.extend(new.iter().cloned());
        new
    }

    /// Notes that the tap of a proxy has ended. `is_well`: without an error.
    pub(super) fn end(&mut self, proxy: ProxyAt, is_well: bool) {
        self.open.remove(&proxy);
        if !is_well {
            self.failed.insert(proxy);
        }
    }

    /// Number of proxies of the last list that are not watched because of [`PROXIES_MAX`].
    pub(super) fn omitted(&self) -> usize {
        self.omitted
    }

    /// Whether a tap of a listed proxy failed.
    pub(super) fn has_failed(&self) -> bool {
        !self.failed.is_empty()
    }
}

#[cfg(test)]
#[path = "watched_tests.rs"]
mod tests;
