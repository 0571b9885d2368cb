//! Decides when to repeat a failed write in a namespace. Each namespace has its own series of attempts: a namespace
//! whose writes fail gets fewer and fewer of them.

use std::collections::BTreeMap;
use std::fmt;
use std::future::pending;

use hyper::StatusCode;

use super::Retry;

/// The API server names this cause if it refuses a new object because the object's namespace is being deleted.
const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";

/// The namespaces in which the latest writes failed, or were accepted and may be undone. Objects of cluster scope are in
/// the namespace with the empty name.
#[derive(Debug, Default)]
pub(crate) struct FailingNamespaces(BTreeMap<Box<str>, Failing>);

#[derive(Debug, Default)]
struct Failing {
    retry: Retry,
    latest: Latest,
}

/// The result of the latest write in a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Latest {
    /// The write failed, or another program undid it in the same moment.
    #[default]
    Failed,
    /// The API server refused the object ([`is_refusal`]). It may accept other objects.
    Refused,
    /// The API server accepted the write. If the namespace needs another write before the end of the series, another
    /// program has undone this one.
    Accepted,
}

impl Failing {
    fn is_accepted(&self) -> bool {
        self.latest == Latest::Accepted
    }

    /// Whether the latest write was accepted so lately that the next one has to wait.
    fn waits_after_accepted(&self) -> bool {
        self.is_accepted() && !self.retry.is_due()
    }
}

impl FailingNamespaces {
    /// Forgets the namespaces for which `needs_write` returns false. Keeps a namespace in which the next write has to
    /// wait after an accepted one: otherwise another program could avoid the wait, by deleting the object and creating it
    /// again.
    pub(crate) fn retain(&mut self, needs_write: impl Fn(&str) -> bool) {
        self.0.retain(|namespace, failing| needs_write(namespace) || failing.waits_after_accepted());
    }

    /// Whether the latest write in a namespace failed, or was accepted so lately that the next one has to wait.
    pub(crate) fn contains(&self, namespace: &str) -> bool {
        self.0.get(namespace).is_some_and(|failing| !failing.is_accepted() || failing.waits_after_accepted())
    }

    /// Whether the API server accepted the latest write in a namespace, and the series has not ended.
    pub(crate) fn is_accepted(&self, namespace: &str) -> bool {
        self.0.get(namespace).is_some_and(Failing::is_accepted)
    }

    /// Returns the namespace whose attempt has been due for the longest time, among the namespaces whose latest write
    /// failed and for which `waits` returns true; `None` if no attempt is due.
    pub(crate) fn first_due(&self, waits: impl Fn(&str) -> bool) -> Option<&str> {
        let has_failed = |namespace: &str| waits(namespace) && !self.is_accepted(namespace);
        self.first(has_failed).filter(|(_, retry)| retry.is_due()).map(|(namespace, _)| namespace)
    }

    /// Records that all writes in a namespace succeeded, or that no write is needed.
    pub(crate) fn succeeded(&mut self, namespace: &str) {
        self.0.remove(namespace);
    }

    /// Records a failed write. Warns once for each series of failures in a namespace; `object` names the object.
    pub(crate) fn failed(&mut self, namespace: &str, object: fmt::Arguments<'_>, error: &kube::Error) {
        let failing = self.0.entry(namespace.into()).or_default();
        failing.latest = if is_refusal(error) { Latest::Refused } else { Latest::Failed };
        failing.retry.failed(|| log(namespace, object, error));
    }

    /// Makes the next attempt in a namespace due now if the API server refused the latest write there. A namespace
    /// whose writes get no answer still has to wait, because its next write may take a place for a long time again.
    pub(crate) fn hasten(&mut self, namespace: &str) {
        if let Some(failing) = self.0.get_mut(namespace).filter(|failing| failing.latest == Latest::Refused) {
            failing.retry.hasten();
        }
    }

    /// Records a write that the API server accepted, and another program undid in the same moment. Warns as
    /// [`FailingNamespaces::failed`] does.
    pub(crate) fn undone(&mut self, namespace: &str, object: fmt::Arguments<'_>) {
        let failing = self.0.entry(namespace.into()).or_default();
        failing.latest = Latest::Failed;
        failing.retry.failed(|| warn_of_undone(namespace, object));
    }

    /// Records a write that the API server accepted, and that another program may still undo. The next write in the
    /// namespace waits for the shortest delay, so that a program that undoes each write does not cause a write for each
    /// of its own. The series ends if the namespace needs no write then. Otherwise the delay stays the same: what is
    /// written matters more than the few writes. Warns once for each series, after its second accepted write in a row.
    pub(crate) fn accepted(&mut self, namespace: &str, object: fmt::Arguments<'_>) {
        let failing = self.0.entry(namespace.into()).or_default();
        let was_undone = failing.is_accepted();
        failing.latest = Latest::Accepted;
        failing.retry.shorten();
        failing.retry.failed(|| was_undone && warn_of_undone(namespace, object));
    }

    /// Waits until the next attempt in a namespace for which `waits` returns true is due; for ever if there is no such
    /// namespace.
    pub(crate) async fn due(&self, waits: impl Fn(&str) -> bool) {
        match self.first(waits) {
            Some((_, retry)) => retry.due().await,
            None => pending().await,
        }
    }

    fn first(&self, waits: impl Fn(&str) -> bool) -> Option<(&str, &Retry)> {
        let waiting = self.0.iter().map(|(namespace, failing)| (&**namespace, &failing.retry));
        waiting.filter(|(namespace, _)| waits(namespace)).min_by_key(|(_, retry)| retry.next)
    }
}

/// Warns that another program changes what is written. Returns `true`: the series is logged.
fn warn_of_undone(namespace: &str, object: fmt::Arguments<'_>) -> bool {
    tracing::warn!(
        %namespace,
        "{object} was written, but another program changes what is written, for example an admission webhook; it is \
         written again until it stays"
    );
    true
}

/// Logs a failed write. Returns whether it logged a warning: a later failure with another reason still needs one.
fn log(namespace: &str, object: fmt::Arguments<'_>, error: &kube::Error) -> bool {
    // A namespace that is being deleted accepts no new objects. It is tried again nevertheless, because a namespace of
    // this name may be created soon.
    if is_terminating(error) {
        tracing::debug!(%namespace, "{object} was not written: the namespace is being deleted");
        return false;
    }
    if is_usual(error) {
        tracing::debug!(%namespace, "{object} was not written: {error}; it is tried again until it succeeds");
        return false;
    }
    tracing::warn!(%namespace, "{object} could not be written: {error}; it is tried again until it succeeds");
    true
}

/// Whether the API server refused a write for a usual reason, which passes:
///
/// - Another client has changed or created the object. Several controllers write the status of a route.
/// - The API server does not know the object, because the object was just deleted. Or the object's kind was just
///   installed: then some of several API servers do not know the kind yet.
pub(crate) fn is_usual(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    status.code == StatusCode::CONFLICT || status.code == StatusCode::NOT_FOUND
}

/// Whether the API server refused the write of this object only. It may accept the writes of other objects. If a
/// webhook hangs, the API server answers 500; if it is overloaded, 429.
pub(crate) fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if (400..500).contains(&status.code) && ![408, 429].contains(&status.code))
}

/// Returns whether the API server refused a write because the object's namespace is being deleted.
fn is_terminating(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    status.is_forbidden() && causes.any(|cause| cause.reason == NAMESPACE_TERMINATING)
}

#[cfg(test)]
#[path = "namespaces_tests.rs"]
mod tests;
