//! The connection to the API server.

use std::fmt::Debug;
use std::time::Duration;

use kube::client::ClientBuilder;
use kube::runtime::watcher;
use kube::{Api, Client, Config, Resource};
use serde::de::DeserializeOwned;
use tower::layer::layer_fn;

use crate::watch::{Hearing, Lasting};

/// The API server ends each watch after this time, and we then begin another watch. If 5 more seconds pass without an
/// event or a bookmark, the connection must be lost, for example because the API server's node failed. kube then begins
/// another watch.
const WATCH_S: u32 = 120;
/// Longest time without a byte from the API server on a connection in use, longer than the longest silence of a watch.
/// If the connection was lost, lists and other requests fail after this time.
const READ_MAX: Duration = Duration::from_secs(130);

/// The client of the API server that all parts of the control plane share, with a record of each watch's silence.
#[derive(Clone)]
pub(crate) struct ApiServer {
    client: Client,
    hearing: Hearing,
}

impl ApiServer {
    /// Prepares connections; opens none.
    ///
    /// # Errors
    /// [`kube::Error`] if the configuration is invalid.
    pub(crate) fn new(mut config: Config) -> Result<Self, kube::Error> {
        config.read_timeout = Some(READ_MAX);
        // All parts of the control plane repeat their failed requests, after at most 10 seconds. The pauses of kube's
        // own retries would grow with the length of an outage, and meanwhile the log would not show the failure.
        config.default_retry = false;
        let hearing = Hearing::default();
        let listening = layer_fn(|service| hearing.listening(service));
        let client = ClientBuilder::try_from(config)?.with_layer(&listening).build();
        Ok(Self { client, hearing })
    }

    #[cfg(test)]
    pub(crate) fn of(client: Client, hearing: Hearing) -> Self {
        Self { client, hearing }
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// How long each watch has been silent.
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

#[cfg(test)]
#[path = "api_server_tests.rs"]
mod tests;
