//! One review: the bytes that an API server sends, to its answer.

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

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Webhook {
    /// To give a Pod its proxy.
    Inject,
    /// To look whether the mesh can read an object.
    Validate,
}

/// What answers depend on.
pub(super) struct Reviewer {
    pub(super) namespaces: Namespaces,
    /// What all proxies are set up with.
    pub(super) options: watch::Receiver<Arc<Options>>,
    /// Who wants to know where a Pod with a proxy is about to be made.
    pub(super) changes: mpsc::Sender<(Kind, Change)>,
    /// The namespaces of which that is known.
    pub(super) trusting: watch::Receiver<BTreeSet<Box<str>>>,
}

impl Webhook {
    /// The webhook that is at a path.
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
    /// Finds the namespace that a Pod is to be made in. All else in the review is skipped.
    ///
    /// # Errors
    /// [`Refusal`] if it is no review, or the namespace is not known.
    pub(super) async fn namespace(&self, review: &[u8], source: Source) -> Result<Namespace, Refusal> {
        let name = AdmissionReview::namespace(review)?;
        Ok(self.namespaces.find(&name, source).await?)
    }

    /// Answers one request: about a Pod in `namespace`, or without one about any object.
    ///
    /// # Errors
    /// [`Refusal`] if it is no request.
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
        // Where the namespace injects, or was told of before, it is known already that it needs the trust bundle.
        let is_news = || !namespace.injects() && !self.trusting.borrow().contains(request.namespace.as_str());
        if answer.patch.is_some() && !request.dry_run && is_news() {
            // When there are so many changes that this one finds no place, the Pod itself will tell.
            self.changes.try_send((Kind::Pod, Change::Expected(request.namespace.as_str().into()))).ok();
        }
        answer
    }
}

/// A namespace as the injector knows it.
fn described(name: &str, namespace: &Namespace) -> inject::Namespace {
    let annotations = namespace.annotations().iter();
    inject::Namespace {
        name: name.to_owned(),
        annotations: annotations.map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect(),
    }
}
