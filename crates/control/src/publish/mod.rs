//! Serves the mesh over xDS: aggregated discovery (ADS), both incremental and state-of-the-world.
//!
//! ```text
//! mesh -> changes -> subscribers -> session -> stream
//! ```
//!
//! `state` takes each new mesh, `changes` and `changed_pods` compare it with the last mesh, and `subscribers` finds the
//! clients that subscribe to a changed subject. The `session` of each such client uses its `holdings` to decide what to
//! send; `catalog` encodes each resource once for all clients, `kept` stores the encoded resources within a memory
//! budget, and `departed` stores removed clusters for clients that still need them. `accept` accepts connections,
//! `service` answers calls, and `stream` is one client's loop. `accounts`, with `ledger` and `metered`, limits how much
//! each namespace and each identity may use, and `unread` ends streams that are not read; `pace` and `sources` limit the
//! rates of each identity. `refused` tells a client which names exceed a limit. `clients`, with `ignored`, and `metrics`
//! feed the admin endpoint.

pub(crate) mod accounts;
mod audience;
mod catalog;
mod changed_pods;
mod changes;
mod clients;
mod delta;
mod departed;
mod holdings;
mod ignored;
mod kept;
mod ledger;
pub mod limits;
mod metered;
mod metrics;
mod pace;
mod refused;
pub(crate) mod service;
mod session;
mod sotw;
mod sources;
mod state;
mod stream;
mod subject;
mod subscribers;
mod unread;
mod variant;
mod version;
mod watchers;

#[cfg(test)]
mod fixtures;

use std::io;
use std::sync::Arc;

use futures_util::stream::poll_fn;
use leno_accept::{Listener, RoomSize};
use leno_identity::TlsIdentity;
use leno_model::authority::CLUSTER_DOMAIN;
use leno_model::mesh::Mesh;
use leno_model::spiffe::TrustDomain;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tonic::transport::Server;

use crate::accept::{Clients, Connection, Tls, accept};
use crate::budget::process_memory;
use limits::{
    CONNECTIONS_MAX, Capacity, KEEPALIVE, KEEPALIVE_TIMEOUT, STREAMS_PER_CONNECTION_MAX, WINDOW_BYTES, handshakes_max,
    kept_max_bytes,
};
use service::Service;
use state::State;

#[derive(Clone, Debug)]
pub struct Publisher {
    state: Arc<State>,
}

impl Publisher {
    /// Creates a publisher that serves `mesh`. The mesh's workloads have identities in `trust_domain`.
    pub fn new(mesh: Arc<Mesh>, trust_domain: TrustDomain) -> Self {
        Self::in_cluster(mesh, trust_domain, CLUSTER_DOMAIN)
    }

    /// Like [`Publisher::new`], for a cluster with the DNS domain `cluster_domain`. Clients may name Services with this
    /// domain.
    pub fn in_cluster(mesh: Arc<Mesh>, trust_domain: TrustDomain, cluster_domain: &str) -> Self {
        let state = State::new(mesh, trust_domain, Capacity::of_process(), kept_max_bytes(process_memory()));
        Self { state: Arc::new(state.in_cluster(cluster_domain)) }
    }

    /// Replaces the served mesh by the current value of `meshes` at once, since the mesh given to `new` may be older.
    /// The returned future serves each later mesh, and completes when the sender of `meshes` is dropped.
    pub fn follow(&self, mut meshes: watch::Receiver<Arc<Mesh>>) -> impl Future<Output = ()> {
        self.state.set_mesh(meshes.borrow_and_update().clone());
        async move {
            while meshes.changed().await.is_ok() {
                let mesh = meshes.borrow_and_update().clone();
                self.state.set_mesh(mesh);
            }
        }
    }

    /// Accepts clients: over mutual TLS if there is an `identity`, otherwise unencrypted.
    ///
    /// # Errors
    /// The error that stopped the server. The server never returns otherwise.
    pub async fn serve(
        &self,
        listener: TcpListener,
        identity: Option<watch::Receiver<Arc<TlsIdentity>>>,
    ) -> Result<(), tonic::transport::Error> {
        let (sender, mut connections) = mpsc::channel::<io::Result<Connection>>(1);
        let tls = identity.map(Tls::Mesh);
        // Without TLS, all clients are on this machine and have no certificate, so they may use all connections.
        let strangers = if tls.is_some() { handshakes_max(process_memory()) } else { CONNECTIONS_MAX };
        // A client needs one connection, with one stream. So more connections than streams would be useless.
        let identified = Capacity::of_process().streams_max.min(CONNECTIONS_MAX);
        let listener = Listener::new("xds", listener, RoomSize { strangers, identified });
        tokio::spawn(accept(listener, tls, Clients::Identified, sender));
        Server::builder()
            .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .http2_keepalive_interval(Some(KEEPALIVE))
            .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
            .add_service(Service { state: self.state.clone() })
            .serve_with_incoming(poll_fn(move |cx| connections.poll_recv(cx)))
            .await
    }

    /// The page /clients.
    pub fn clients(&self) -> impl Serialize + use<> {
        self.state.clients.pages(self.state.catalog().mesh())
    }

    pub fn metrics(&self) -> String {
        self.state.metrics.export(self.state.clients.count())
    }
}
