//! What is annotated on a Pod's namespace. A namespace that was made a moment ago may not have been told by the watch yet;
//! the API server is asked for it, so that its first Pod is no exception.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as kubernetes;
use kube::{Api, Client};
use leno_model::problem::quoted;
use tokio::sync::{Semaphore, watch};

use crate::index::Namespace;

/// Most namespaces that the API server is asked for at once; whoever comes then waits.
const LOOKUPS_MAX: usize = 16;

/// The namespaces by their names.
pub(super) struct Namespaces {
    known: watch::Receiver<Arc<BTreeMap<Box<str>, Namespace>>>,
    api: Api<kubernetes::Namespace>,
    places: Semaphore,
}

/// Why nothing is known of a namespace; it says what to do.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoNamespace {
    #[error("{0} is not the name of a namespace; send that of the Pod in request.namespace")]
    Name(String),
    #[error("the API server does not tell what is annotated on the namespace {name}: {error}")]
    Api { name: String, error: Box<kube::Error> },
}

impl Namespaces {
    pub(super) fn new(known: watch::Receiver<Arc<BTreeMap<Box<str>, Namespace>>>, client: Client) -> Self {
        Self { known, api: Api::all(client), places: Semaphore::new(LOOKUPS_MAX) }
    }

    /// Finds one.
    ///
    /// # Errors
    /// [`NoNamespace`] if there is none, or the API server cannot be asked.
    pub(super) async fn find(&self, name: &str) -> Result<Namespace, NoNamespace> {
        let known = self.known.borrow().get(name).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        if !is_name(name) {
            return Err(NoNamespace::Name(quoted(name)));
        }
        let _place = self.places.acquire().await.expect("nobody closes the semaphore");
        let found = self.api.get_metadata(name).await;
        let found = found.map_err(|error| NoNamespace::Api { name: name.to_owned(), error: error.into() })?;
        Ok(Namespace::new(found.metadata.annotations.unwrap_or_default()))
    }
}

/// The longest name of a namespace, in bytes.
const NAME_MAX_BYTES: usize = 63;

/// Whether a text may be put into the path of a question to the API server: it comes from whoever asks us.
fn is_name(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=NAME_MAX_BYTES).contains(&text.len()) && text.bytes().all(allowed)
}

#[cfg(test)]
#[path = "namespaces_tests.rs"]
mod tests;
