//! Serves the identity service over TLS. Only the server shows a certificate: a new workload has none yet.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::poll_fn;
use leno_accept::{Listener, RoomSize};
use leno_identity::TlsIdentity;
use leno_wire::identity::REQUEST_MAX_BYTES;
use leno_wire::identity::v1::identity_server::IdentityServer;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tonic::transport::Server;

use super::service::Service;
use super::signing::Signing;
use crate::accept::{Clients, accept, by_identity};

/// Most connections at once of workloads without a certificate. A proxy opens one for each certificate.
const STRANGERS_MAX: usize = 1_024;
/// Most connections at once of workloads that show their current certificate.
const IDENTIFIED_MAX: usize = 256;

/// Silence after which a client gets a PING.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// How long it may take to answer.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Most open requests on one connection.
const STREAMS_PER_CONNECTION_MAX: u32 = 8;

/// Bytes that a connection may send before they are read: two of the longest requests. Clients without a certificate
/// together can have 64 MiB waiting.
const WINDOW_BYTES: u32 = 65_535;

/// Serves the identity service on `listener`, for ever. New connections use the latest value of `identity`.
pub(crate) async fn serve(
    listener: TcpListener,
    client: kube::Client,
    identity: watch::Receiver<Arc<TlsIdentity>>,
    signing: watch::Receiver<Arc<Signing>>,
) -> Result<(), tonic::transport::Error> {
    let service = IdentityServer::new(Service::new(client, signing)).max_decoding_message_size(REQUEST_MAX_BYTES);
    let (sender, mut connections) = mpsc::channel(1);
    let server = Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .add_service(service)
        .serve_with_incoming(poll_fn(move |context| connections.poll_recv(context)));
    let size = RoomSize { strangers: STRANGERS_MAX, identified: IDENTIFIED_MAX };
    let listener = Listener::new("identity service", listener, size);
    tokio::select! {
        served = server => served,
        never = accept(listener, Some(by_identity(identity)), Clients::Anybody, sender) => match never {},
    }
}
