//! The client of the API server, with the time limits of its requests and watches.

use std::fmt::Debug;
use std::time::Duration;

use kube::client::ClientBuilder;
use kube::runtime::watcher;
use kube::{Api, Client, Config, Resource};
use serde::de::DeserializeOwned;
use tower::layer::layer_fn;

use crate::watch::{Hearing, Lasting};

/// Duration after which the API server ends a watch, in seconds; we then begin a new one. If the watch has neither
/// ended nor received anything 5 seconds later, the connection is lost, for example because the API server's node
/// failed. kube then also begins a new watch.
const WATCH_S: u32 = 120;
/// Maximum time to wait for the next byte of a response from the API server. Lists and other requests on a lost
/// connection fail after this time. Must be longer than a watch may receive nothing ([`WATCH_S`] and 5 seconds).
const READ_MAX: Duration = Duration::from_secs(130);

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
        // the failure meanwhile. All callers repeat their failed requests themselves, after at most 10 seconds.
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

#[cfg(test)]
#[path = "api_server_tests.rs"]
mod tests;
