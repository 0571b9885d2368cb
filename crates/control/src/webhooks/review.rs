//! One review: the bytes that an API server sends, to its answer.

use std::sync::Arc;

use leno_install::inject::{self, Options};
use leno_install::webhook::{AdmissionRequest, AdmissionResponse, AdmissionReview, BadReview, mutate, validate};
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use super::namespaces::{Namespaces, NoNamespace};
use crate::index::{Change, Kind, Namespace};

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Webhook {
    /// To give a Pod its proxy.
    Inject,
    /// To look whether the mesh can read an object.
    Validate,
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoAnswer {
    #[error(transparent)]
    Review(#[from] BadReview),
    #[error(transparent)]
    Namespace(#[from] NoNamespace),
}

/// What answers depend on.
pub(super) struct Reviewer {
    pub(super) namespaces: Namespaces,
    /// What all proxies are set up with.
    pub(super) options: watch::Receiver<Arc<Options>>,
    /// Who wants to know where a Pod with a proxy is about to be made.
    pub(super) changes: mpsc::Sender<(Kind, Change)>,
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
    /// Answers one request.
    ///
    /// # Errors
    /// [`NoAnswer`] if it is no request, or what it depends on is not known.
    pub(super) async fn answer(&self, webhook: Webhook, review: &[u8]) -> Result<AdmissionResponse, NoAnswer> {
        let request = AdmissionReview::read(review)?;
        match webhook {
            Webhook::Inject => self.inject(&request).await,
            Webhook::Validate => Ok(validate(&request)),
        }
    }

    async fn inject(&self, request: &AdmissionRequest) -> Result<AdmissionResponse, NoAnswer> {
        let namespace = self.namespaces.find(&request.namespace).await?;
        let options = self.options.borrow().clone();
        let answer = mutate(request, &described(&request.namespace, &namespace), &options);
        // Where the namespace injects, that it needs the trust bundle is known already.
        if answer.patch.is_some() && !namespace.injects() && !request.dry_run {
            // When there are so many changes that this one finds no place, the Pod itself will tell.
            self.changes.try_send((Kind::Pod, Change::Expected(request.namespace.as_str().into()))).ok();
        }
        Ok(answer)
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
