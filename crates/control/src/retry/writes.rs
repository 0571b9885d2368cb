//! Writes in many namespaces, several at the same time and one in each namespace.
//!
//! A namespace that refuses writes gets fewer and fewer attempts. So does a namespace whose writes get no answer, for
//! example because an admission webhook of this namespace hangs. Such namespaces take at most [`RETRIES_MAX`] of the
//! places, so that they do not delay the writes in other namespaces. They go before other namespaces only in
//! [`RETRIES_FIRST`] of the places, so that many busy namespaces do not delay them for ever. The other namespaces take
//! turns, so that namespaces whose objects change all the time do not delay them either. In a namespace in which another
//! program undoes the writes, the next write begins a second later ([`Writes::accepted`]).

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Bound;

use futures_util::future::{Join, Ready, join, ready};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::watch;

use super::namespaces::FailingNamespaces;

/// Maximum number of writes at the same time.
const WRITES_MAX: usize = 8;
/// Maximum number of writes at the same time in namespaces in which the latest write failed.
const RETRIES_MAX: usize = WRITES_MAX / 2;
/// Number of writes at the same time for which such namespaces go before other namespaces.
const RETRIES_FIRST: usize = 1;

/// The writes in all namespaces. `F` performs the write in one namespace.
pub(crate) struct Writes<F: Future> {
    failing: FailingNamespaces,
    /// The namespaces that may need a write. Contains the namespaces of `running` too: they may need another write.
    wanted: BTreeSet<Box<str>>,
    /// The namespaces of `running`.
    writing: BTreeSet<Box<str>>,
    /// The namespace of the latest write that was no retry. The next namespace in the order of names has the next turn.
    latest: Box<str>,
    running: FuturesUnordered<Join<Ready<Box<str>>, F>>,
}

impl<F: Future> Default for Writes<F> {
    fn default() -> Self {
        Self {
            failing: FailingNamespaces::default(),
            wanted: BTreeSet::new(),
            writing: BTreeSet::new(),
            latest: Box::default(),
            running: FuturesUnordered::new(),
        }
    }
}

impl<F: Future> Writes<F> {
    /// Replaces the namespaces that may need a write. Forgets the failures in all other namespaces, but not the wait
    /// after an accepted write. Writes that have begun continue.
    pub(crate) fn need(&mut self, namespaces: BTreeSet<Box<str>>) {
        self.failing.retain(|namespace| namespaces.contains(namespace));
        self.wanted = namespaces;
    }

    /// Begins no write until the next call of [`Writes::need`]. Writes that have begun continue.
    pub(crate) fn pause(&mut self) {
        self.wanted.clear();
    }

    /// Performs the due writes until one of them ends, and returns its namespace and its output. Waits for ever if no
    /// namespace needs a write. Dropping the returned future cancels no write: the next call continues the writes that
    /// have begun.
    ///
    /// `write` returns the write that a namespace needs; `None` if the namespace needs no write. Call
    /// [`Writes::succeeded`], [`Writes::accepted`] or [`Writes::failed`] after each write that was not cut short.
    pub(crate) async fn next(&mut self, write: impl Fn(&str) -> Option<F>) -> (Box<str>, F::Output) {
        loop {
            self.start(&write);
            // Without a free place, a namespace whose attempt is due must wait for the end of another write. Namespaces
            // whose latest write was accepted take no places of the retries.
            let has_place = self.running.len() < WRITES_MAX;
            let may_retry = self.retries() < RETRIES_MAX;
            let Self { failing, wanted, writing, running, latest: _ } = self;
            let failing = &*failing;
            let waits = |namespace: &str| {
                let has_turn = may_retry || failing.is_accepted(namespace);
                has_turn && wanted.contains(namespace) && !writing.contains(namespace)
            };
            tokio::select! {
                Some((namespace, output)) = running.next() => {
                    writing.remove(&namespace);
                    return (namespace, output);
                }
                () = failing.due(waits), if has_place => {}
            }
        }
    }

    /// Like [`Writes::next`], but returns `None` once `leads` or `news` has changed.
    pub(crate) async fn next_until<T>(
        &mut self,
        leads: &mut watch::Receiver<bool>,
        news: &mut watch::Receiver<T>,
        write: impl Fn(&str) -> Option<F>,
    ) -> Option<(Box<str>, F::Output)> {
        tokio::select! {
            // First see whether this replica still leads: otherwise it must not begin another write.
            biased;
            Ok(()) = leads.changed() => None,
            Ok(()) = news.changed() => None,
            ended = self.next(write) => Some(ended),
        }
    }

    /// Records that the write in a namespace succeeded.
    pub(crate) fn succeeded(&mut self, namespace: &str) {
        self.failing.succeeded(namespace);
    }

    /// Records a failed write. Warns once for each series of failures in a namespace; `object` names the object.
    pub(crate) fn failed(&mut self, namespace: &str, object: fmt::Arguments<'_>, error: &kube::Error) {
        self.failing.failed(namespace, object, error);
    }

    /// Makes the next attempt in a namespace due now, because the namespace now needs another write than the refused
    /// one. Does nothing if the latest write there got no answer.
    pub(crate) fn hasten(&mut self, namespace: &str) {
        self.failing.hasten(namespace);
    }

    /// Records a write that the API server accepted and that another program undid in the same moment, for example an
    /// admission webhook. Warns as [`Writes::failed`] does.
    pub(crate) fn undone(&mut self, namespace: &str, object: fmt::Arguments<'_>) {
        self.failing.undone(namespace, object);
    }

    /// Records a write that the API server accepted, and that another program may still undo. The next write in the
    /// namespace has to wait for a second. Use [`Writes::succeeded`] if no program has a reason to undo the write.
    pub(crate) fn accepted(&mut self, namespace: &str, object: fmt::Arguments<'_>) {
        self.failing.accepted(namespace, object);
    }

    /// Begins the due writes for which there are places.
    fn start(&mut self, write: impl Fn(&str) -> Option<F>) {
        while self.running.len() < WRITES_MAX {
            let Some(namespace) = self.first_due() else { return };
            match write(&namespace) {
                Some(write) => {
                    if !self.failing.contains(&namespace) {
                        self.latest = namespace.clone();
                    }
                    self.writing.insert(namespace.clone());
                    self.running.push(join(ready(namespace), write));
                }
                None => {
                    self.failing.succeeded(&namespace);
                    self.wanted.remove(&namespace);
                }
            }
        }
    }

    /// Returns a namespace in which to write now.
    fn first_due(&self) -> Option<Box<str>> {
        let waits = |namespace: &str| self.wanted.contains(namespace) && !self.writing.contains(namespace);
        let behind = self.wanted.range::<str, _>((Bound::Excluded(&*self.latest), Bound::Unbounded));
        let all = behind.chain(&self.wanted);
        let other = || {
            let mut others = all.filter(|namespace| !self.failing.contains(namespace));
            others.find(|namespace| waits(namespace)).cloned()
        };
        let retry = || self.failing.first_due(waits).map(Box::<str>::from);
        match self.retries() {
            ..RETRIES_FIRST => retry().or_else(other),
            RETRIES_FIRST..RETRIES_MAX => other().or_else(retry),
            _ => other(),
        }
    }

    /// The number of running writes in namespaces in which the latest write failed.
    fn retries(&self) -> usize {
        self.writing.iter().filter(|namespace| self.failing.contains(namespace)).count()
    }
}

#[cfg(test)]
#[path = "writes_tests.rs"]
mod tests;
