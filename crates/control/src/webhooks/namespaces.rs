//! What is annotated on a Pod's namespace. A namespace that was made a moment ago may not have been told by the watch yet;
//! the API server is asked for it, so that its first Pod is no exception.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as kubernetes;
use kube::{Api, Client};
use leno_accept::{Overload, Queue, Source};
use leno_model::problem::quoted;
use tokio::sync::watch;

use crate::index::Namespace;

/// Most namespaces that the API server is asked for at once.
const LOOKUPS_MAX: usize = 16;
/// Most requests that wait for their turn to ask. Sources take turns.
const LOOKUPS_WAITING_MAX: usize = 256;

/// The namespaces by their names.
pub(super) struct Namespaces {
    known: watch::Receiver<Arc<BTreeMap<Box<str>, Namespace>>>,
    api: Api<kubernetes::Namespace>,
    turns: Queue<Source>,
}

/// Why nothing is known of a namespace; it says what to do.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoNamespace {
    #[error("{0} is not the name of a namespace; send that of the Pod in request.namespace")]
    Name(String),
    #[error("the API server does not tell what is annotated on the namespace {name}: {error}")]
    Api { name: String, error: Box<kube::Error> },
    #[error("the API server is asked for too many namespaces: {0}")]
    Busy(Overload),
}

impl Namespaces {
    pub(super) fn new(known: watch::Receiver<Arc<BTreeMap<Box<str>, Namespace>>>, client: Client) -> Self {
        Self { known, api: Api::all(client), turns: Queue::new(LOOKUPS_MAX, LOOKUPS_WAITING_MAX) }
    }

    /// Finds one, for a request from `source`.
    ///
    /// # Errors
    /// [`NoNamespace`] if there is none, or the API server cannot be asked.
    pub(super) async fn find(&self, name: &str, source: Source) -> Result<Namespace, NoNamespace> {
        let known = self.known.borrow().get(name).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        if !is_name(name) {
            return Err(NoNamespace::Name(quoted(name)));
        }
        let _turn = self.turns.permit(source).await.map_err(NoNamespace::Busy)?;
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
