//! Serves the mesh over xDS: aggregated discovery (ADS), both incremental and state-of-the-world.
//!
//! ```text
//! mesh -> changes -> subscribers -> session -> stream
//! ```
//!
//! `state` takes each new mesh, `changes` says what is different, `subscribers` knows who wants to hear of that, and the
//! `session` of each such client decides what is sent by its `holdings`, which `catalog` writes once for all. `accept` lets clients in,
//! `service` answers their calls, `stream` is one client's loop, `accounts`, `metered` and `pace` are what each identity may have and how fast,
//! `clients` and `metrics` show it all.

mod accounts;
mod audience;
mod catalog;
mod changes;
mod clients;
mod delta;
mod holdings;
pub mod limits;
mod metered;
mod metrics;
mod pace;
mod service;
mod session;
mod sotw;
mod state;
mod stream;
mod subject;
mod subscribers;
mod variant;

#[cfg(test)]
mod fixtures;

use std::io;
use std::sync::Arc;

use futures_util::stream::poll_fn;
use leno_accept::{Listener, RoomSize};
use leno_identity::TlsIdentity;
use leno_model::mesh::Mesh;
use leno_model::spiffe::TrustDomain;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tonic::transport::Server;

use crate::accept::{Clients, Connection, accept, by_identity};
use limits::{
    CONNECTIONS_MAX, Capacity, HANDSHAKES_MAX, KEEPALIVE, KEEPALIVE_TIMEOUT, STREAMS_PER_CONNECTION_MAX, WINDOW_BYTES,
};
use service::Service;
use state::State;

/// Serves meshes to xDS clients.
#[derive(Clone, Debug)]
pub struct Publisher {
    state: Arc<State>,
}

impl Publisher {
    /// Serves this mesh at first; its workloads are of `trust_domain`.
    pub fn new(mesh: Arc<Mesh>, trust_domain: TrustDomain) -> Self {
        Self { state: Arc::new(State::new(mesh, trust_domain, Capacity::of_process())) }
    }

    /// Takes in each mesh that comes; returns when no more can.
    pub async fn follow(&self, mut meshes: watch::Receiver<Arc<Mesh>>) {
        // The one that is there may be newer than the first.
        self.state.set_mesh(meshes.borrow_and_update().clone());
        while meshes.changed().await.is_ok() {
            let mesh = meshes.borrow_and_update().clone();
            self.state.set_mesh(mesh);
        }
    }

    /// Lets clients in: in clear, or by mutual TLS where there is an identity. Returns only with an error.
    ///
    /// # Errors
    /// When the server cannot go on.
    pub async fn serve(
        &self,
        listener: TcpListener,
        identity: Option<watch::Receiver<Arc<TlsIdentity>>>,
    ) -> Result<(), tonic::transport::Error> {
        let (sender, mut connections) = mpsc::channel::<io::Result<Connection>>(1);
        let tls = identity.map(by_identity);
        // In clear every client is a stranger, of this machine.
        let strangers = if tls.is_some() { HANDSHAKES_MAX } else { CONNECTIONS_MAX };
        // A client needs a connection for its stream, and none beside.
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

    /// What each client has, and what it refused and why.
    pub fn clients(&self) -> impl Serialize + use<> {
        self.state.clients.pages()
    }

    /// What was counted, in Prometheus' text format.
    pub fn metrics(&self) -> String {
        self.state.metrics.export(self.state.clients.count())
    }
}
