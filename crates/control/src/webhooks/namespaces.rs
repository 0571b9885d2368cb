//! Finds the annotations of a Pod's namespace. If the watch has not reported a new namespace yet, we ask the API
//! server, so that the namespace's annotations also apply to its first Pod.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1 as kubernetes;
use kube::{Api, Client};
use leno_accept::{Overload, Queue, Source};
use leno_model::problem::quoted;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::index::Namespace;

/// Limit on concurrent requests for namespaces to the API server.
const LOOKUPS_MAX: usize = 16;
/// Limit on requests that wait for their turn to ask the API server. The source addresses of the requests take turns.
const LOOKUPS_WAITING_MAX: usize = 256;
/// Pauses between the attempts of one request, if the API server is busy. All attempts must fit into the time of a
/// review.
const PAUSES: [Duration; 3] = [Duration::from_millis(50), Duration::from_millis(200), Duration::from_millis(800)];

pub(super) struct Namespaces {
    known: watch::Receiver<Arc<BTreeMap<Box<str>, Namespace>>>,
    api: Api<kubernetes::Namespace>,
    turns: Queue<Source>,
}

/// The reason why a namespace's annotations are unknown. The error's message names the remedy.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoNamespace {
    #[error("{0} is not the name of a namespace; send that of the Pod in request.namespace")]
    Name(String),
    #[error("the API server did not return the namespace {name}: {error}")]
    Api { name: String, error: Box<kube::Error> },
    #[error("the API server is asked for too many namespaces: {0}")]
    Busy(Overload),
}

impl Namespaces {
    pub(super) fn new(known: watch::Receiver<Arc<BTreeMap<Box<str>, Namespace>>>, client: Client) -> Self {
        Self { known, api: Api::all(client), turns: Queue::new(LOOKUPS_MAX, LOOKUPS_WAITING_MAX) }
    }

    /// Finds a namespace, for a request from `source`.
    ///
    /// # Errors
    /// [`NoNamespace`] if the name is invalid, the API server does not return the namespace, or too many requests wait.
    pub(super) async fn find(&self, name: &str, source: Source) -> Result<Namespace, NoNamespace> {
        let known = self.known.borrow().get(name).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        if !is_name(name) {
            return Err(NoNamespace::Name(quoted(name)));
        }
        let _turn = self.turns.permit(source).await.map_err(NoNamespace::Busy)?;
        let mut pauses = PAUSES.into_iter();
        loop {
            let error = match self.api.get_metadata(name).await {
                Ok(found) => return Ok(Namespace::new(found.metadata.annotations.unwrap_or_default())),
                Err(error) => error,
            };
            let pause = pauses.next().filter(|_| is_passing(&error));
            let Some(pause) = pause else {
                return Err(NoNamespace::Api { name: name.to_owned(), error: error.into() });
            };
            sleep(pause).await;
        }
    }
}

/// Returns whether the API server may answer the same request a moment later.
fn is_passing(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => [429, 503, 504].contains(&status.code),
        _ => false,
    }
}

/// Maximum length of a namespace's name, in bytes.
const NAME_MAX_BYTES: usize = 63;

/// Returns whether a text may be put into the path of a request to the API server. The check is needed because the text
/// comes from a client.
fn is_name(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=NAME_MAX_BYTES).contains(&text.len()) && text.bytes().all(allowed)
}

#[cfg(test)]
#[path = "namespaces_tests.rs"]
mod tests;
