//! The client of the API server, with the time limits of its requests and watches.

use std::fmt::Debug;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::{Request, Response};
use kube::client::ClientBuilder;
use kube::runtime::watcher;
use kube::{Api, Client, Config, Resource};
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tower::layer::layer_fn;
use tower::{BoxError, Service};

use crate::watch::{Hearing, Lasting, is_list_or_watch};

/// Duration after which the API server ends a watch, in seconds; we then begin a new one. If the watch has neither
/// ended nor received anything 5 seconds later, the connection is lost, for example because the API server's node
/// failed. kube then also begins a new watch.
const WATCH_S: u32 = 120;
/// Maximum time to wait for the next byte of a response from the API server. Lists and watches on a lost
/// connection fail after this time. Must be longer than a watch may receive nothing ([`WATCH_S`] and 5 seconds).
const READ_MAX: Duration = Duration::from_secs(130);
/// Maximum time to wait for the response to a write, or to the read of one object. By default, an API server ends such a
/// request after 60 seconds. Before this, it may wait for the webhooks of several other programs.
const ANSWER_MAX: Duration = Duration::from_secs(65);

/// The client of the API server that all components of the control plane share. Records for how long each watch has
/// received nothing.
#[derive(Clone)]
pub(crate) struct ApiServer {
    client: Client,
    hearing: Hearing,
}

impl ApiServer {
    /// Creates the client; opens no connection yet.
    ///
    /// # Errors
    /// [`kube::Error`] if the configuration is invalid.
    pub(crate) fn new(mut config: Config) -> Result<Self, kube::Error> {
        config.read_timeout = Some(READ_MAX);
        // Disable kube's own retries: their pauses would grow with the length of an outage, and the log would not show
        // the failure meanwhile. All callers repeat their failed requests themselves, after at most a minute.
        config.default_retry = false;
        let hearing = Hearing::default();
        let listening = layer_fn(|service| hearing.listening(service));
        let client = ClientBuilder::try_from(config)?.with_layer(&listening).with_layer(&layer_fn(Hurried)).build();
        Ok(Self { client, hearing })
    }

    #[cfg(test)]
    pub(crate) fn of(client: Client, hearing: Hearing) -> Self {
        Self { client, hearing }
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns the record that shows for how long each watch has received nothing.
    pub(crate) fn hearing(&self) -> Hearing {
        self.hearing.clone()
    }

    /// Watches the objects that `config` selects.
    pub(crate) fn watch<K>(&self, objects: Api<K>, config: watcher::Config) -> Lasting<K>
    where
        K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        Lasting::new(objects, config.timeout(WATCH_S), &self.hearing)
    }
}

/// A service whose requests fail after [`ANSWER_MAX`] without an answer, except lists and watches: their length depends
/// on the cluster.
#[derive(Clone)]
struct Hurried<S>(S);

#[derive(Debug, thiserror::Error)]
#[error("the API server did not answer within {} s", ANSWER_MAX.as_secs())]
struct Unanswered;

impl<S, R, B> Service<Request<R>> for Hurried<S>
where
    S: Service<Request<R>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<R>) -> Self::Future {
        let is_list_or_watch = is_list_or_watch(&request);
        let answer = self.0.call(request);
        Box::pin(async move {
            if is_list_or_watch {
                return answer.await.map_err(Into::into);
            }
            timeout(ANSWER_MAX, answer).await.map_err(|_| Unanswered)?.map_err(Into::into)
        })
    }
}

#[cfg(test)]
#[path = "api_server_tests.rs"]
mod tests;
