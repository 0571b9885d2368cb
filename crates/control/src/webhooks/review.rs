//! Handles one review: parses an API server's request, and makes the answer.

use std::collections::BTreeSet;
use std::sync::Arc;

use leno_accept::Source;
use leno_install::inject::{self, Options};
use leno_install::webhook::{AdmissionRequest, AdmissionResponse, AdmissionReview, mutate, validate};
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use super::namespaces::Namespaces;
use super::refusal::Refusal;
use crate::index::{Change, Kind, Namespace};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Webhook {
    /// Adds the proxy to a Pod.
    Inject,
    /// Checks whether the mesh can read an object.
    Validate,
}

/// Answers reviews. The fields are the data on which the answers depend.
pub(super) struct Reviewer {
    pub(super) namespaces: Namespaces,
    /// Options for all proxies.
    pub(super) options: watch::Receiver<Arc<Options>>,
    /// Channel to the index. It carries namespaces that need the trust bundle for a Pod that is being created.
    pub(super) changes: mpsc::Sender<(Kind, Change)>,
    /// The namespaces that already get the trust bundle.
    pub(super) trusting: watch::Receiver<BTreeSet<Box<str>>>,
}

impl Webhook {
    /// Returns the webhook that is served at a path.
    pub(super) fn at(path: &str) -> Option<Self> {
        match path {
            "/inject" => Some(Self::Inject),
            "/validate" => Some(Self::Validate),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Inject => "inject",
            Self::Validate => "validate",
        }
    }
}

impl Reviewer {
    /// Finds the namespace of the new Pod. Ignores the rest of the review.
    ///
    /// # Errors
    /// [`Refusal`] if the bytes are no review or the namespace is unknown.
    pub(super) async fn namespace(&self, review: &[u8], source: Source) -> Result<Namespace, Refusal> {
        let name = AdmissionReview::namespace(review)?;
        Ok(self.namespaces.find(&name, source).await?)
    }

    /// Answers one request. With a `namespace`, injects the proxy into the request's Pod, which is in that namespace.
    /// Without a namespace, validates the request's object.
    ///
    /// # Errors
    /// [`Refusal`] if the bytes are no review.
    pub(super) fn answer(&self, review: &[u8], namespace: Option<&Namespace>) -> Result<AdmissionResponse, Refusal> {
        let request = AdmissionReview::read(review)?;
        Ok(match namespace {
            Some(namespace) => self.inject(&request, namespace),
            None => validate(&request),
        })
    }

    fn inject(&self, request: &AdmissionRequest, namespace: &Namespace) -> AdmissionResponse {
        let options = self.options.borrow().clone();
        let answer = mutate(request, &described(&request.namespace, namespace), &options);
        // Report only a namespace that lacks the trust bundle. A namespace with injection, or one reported before, gets
        // it already.
        let is_news = || !namespace.injects() && !self.trusting.borrow().contains(request.namespace.as_str());
        if answer.patch.is_some() && !request.dry_run && is_news() {
            // If the channel is full, this change is lost. The watch reports the Pod itself later.
            self.changes.try_send((Kind::Pod, Change::Expected(request.namespace.as_str().into()))).ok();
        }
        answer
    }
}

/// Converts a namespace to the injector's type.
fn described(name: &str, namespace: &Namespace) -> inject::Namespace {
    let annotations = namespace.annotations().iter();
    inject::Namespace {
        name: name.to_owned(),
        annotations: annotations.map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect(),
    }
}
