//! Repeats failed writes in many namespaces. A namespace that refuses writes gets fewer and fewer attempts, and delays
//! no other namespace.

use std::collections::BTreeMap;
use std::fmt;
use std::future::pending;

use super::Retry;

/// The API server names this cause if it refuses a new object because the object's namespace is being deleted.
const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";

/// The namespaces in which the latest writes failed. Objects of cluster scope are in the namespace with the empty name.
#[derive(Debug, Default)]
pub(crate) struct FailingNamespaces(BTreeMap<Box<str>, Retry>);

impl FailingNamespaces {
    /// Forgets the namespaces for which `needs_write` returns false.
    pub(crate) fn retain(&mut self, needs_write: impl Fn(&str) -> bool) {
        self.0.retain(|namespace, _| needs_write(namespace));
    }

    /// Whether to write in a namespace now: its latest write succeeded, or its next attempt is due.
    pub(crate) fn is_due(&self, namespace: &str) -> bool {
        self.0.get(namespace).is_none_or(Retry::is_due)
    }

    /// Records that all writes in a namespace succeeded, or that no write is needed.
    pub(crate) fn succeeded(&mut self, namespace: &str) {
        self.0.remove(namespace);
    }

    /// Records a failed write. Warns once for each series of failures in a namespace; `object` names the object.
    pub(crate) fn failed(&mut self, namespace: &str, object: fmt::Arguments<'_>, error: &kube::Error) {
        let retry = self.0.entry(namespace.into()).or_default();
        retry.failed(|| log(namespace, object, error));
    }

    /// Waits until the next attempt in any namespace is due; for ever if all latest writes succeeded.
    pub(crate) async fn due(&self) {
        match self.0.values().min_by_key(|retry| retry.next) {
            Some(first) => first.due().await,
            None => pending().await,
        }
    }
}

/// Logs a failed write. Returns whether it logged a warning: a later failure with another reason still needs one.
fn log(namespace: &str, object: fmt::Arguments<'_>, error: &kube::Error) -> bool {
    let is_terminating = is_terminating(error);
    // A namespace that is being deleted accepts no new objects. It is tried again nevertheless, because a namespace of
    // this name may be created soon.
    if is_terminating {
        tracing::debug!(%namespace, "{object} was not written: the namespace is being deleted");
    } else {
        tracing::warn!(%namespace, "{object} could not be written: {error}; it is tried again until it succeeds");
    }
    !is_terminating
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
