//! Serves the identity service over TLS. Clients that already have a certificate present it: connections with a
//! certificate have a separate limit, which clients without a certificate cannot use up. The certificate has no other
//! effect.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::poll_fn;
use leno_accept::{Listener, RoomSize};
use leno_identity::TlsIdentity;
use leno_xds::identity::REQUEST_MAX_BYTES;
use leno_xds::identity::v1::identity_server::IdentityServer;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tonic::transport::Server;

use super::intake::{Intake, SMALL_BYTES};
use super::service::Service;
use super::signing::Signing;
use crate::accept::{Clients, Tls, accept};
use crate::budget::{CONNECTION_BYTES, IDENTITY_SERVICE, SMALL, at_most, process_memory};
use crate::publish::accounts::Accounts;
use crate::publish::limits::Capacity;

/// Limit on concurrent connections of workloads without a certificate. [`Door::of_memory`] lowers it if the process has
/// little memory. A proxy opens one connection for each certificate that it requests.
const STRANGERS_MAX: usize = 1_024;
/// Limit on concurrent connections of workloads that present their current certificate. [`Door::of_memory`] lowers it
/// if the process has little memory.
const IDENTIFIED_MAX: usize = 512;

/// If a client sends nothing for this time, the server sends it a PING.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// If a client does not answer a PING within this time, the server closes the connection.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Limit on open requests of one connection: one request for a certificate, and one that watches the trust bundle.
const STREAMS_PER_CONNECTION_MAX: u32 = 2;
/// Number of bytes that a client may send before we read them. HTTP/2 allows no smaller window for a connection. We
/// read requests as they arrive, and `intake` counts their bytes.
const WINDOW_BYTES: u32 = 65_535;
/// Maximum size of a request's header list, in bytes.
const HEADERS_MAX_BYTES: u32 = 8 << 10;

/// Memory of one open request, in bytes. It covers the headers, a small request and the decoder's buffer for it, and a
/// response in the encoder's buffer that the client has not read.
const STREAM_BYTES: usize = HEADERS_MAX_BYTES as usize + 2 * SMALL_BYTES + (8 << 10);
/// Memory of a connection with its open requests, in bytes, if the client also leaves an HTTP/2 frame incomplete.
const CLIENT_BYTES: usize = CONNECTION_BYTES + (8 << 10) + STREAMS_PER_CONNECTION_MAX as usize * STREAM_BYTES;

/// Limits on what all clients of the identity service together may use. The service has a share of the process's
/// memory. Half of this share is for connections without a certificate, a quarter for connections with a certificate,
/// and a quarter for requests that exceed `SMALL_BYTES`.
struct Door {
    room: RoomSize,
    long_requests_bytes: usize,
}

impl Door {
    const fn of_memory(memory: usize) -> Self {
        let share = IDENTITY_SERVICE.of(memory);
        let strangers = at_most(share / 2 / CLIENT_BYTES, STRANGERS_MAX);
        let identified = at_most(share / 4 / CLIENT_BYTES, IDENTIFIED_MAX);
        Self { room: RoomSize { strangers, identified }, long_requests_bytes: share / 4 }
    }
}

// If the process may use 256 MiB, 80 new workloads can request certificates at the same moment, 50 of them with
// requests of maximum size.
const LEAST: Door = Door::of_memory(SMALL);
const _: () = assert!(LEAST.room.strangers >= 80 && LEAST.room.identified >= 40);
const _: () = assert!(LEAST.long_requests_bytes >= 50 * 3 * REQUEST_MAX_BYTES);
const _: () = assert!(
    (LEAST.room.strangers + LEAST.room.identified) * CLIENT_BYTES + LEAST.long_requests_bytes
        <= IDENTITY_SERVICE.of(SMALL)
);

/// Serves the identity service on `listener`, for ever. New connections use the latest value of `identity`.
pub(crate) async fn serve(
    listener: TcpListener,
    client: kube::Client,
    identity: watch::Receiver<Arc<TlsIdentity>>,
    signing: watch::Receiver<Arc<Signing>>,
) -> Result<(), tonic::transport::Error> {
    let door = Door::of_memory(process_memory());
    let service = IdentityServer::new(Service::new(client, signing)).max_decoding_message_size(REQUEST_MAX_BYTES);
    // `streams_max` needs no limit here: the limits on connections and on streams per connection already bound it.
    // Clients of this service have no subscriptions, so `names_max` is 0.
    let capacity = Capacity { streams_max: usize::MAX, names_max: 0, bytes_max: door.long_requests_bytes };
    let service = Intake::new(service, Accounts::new(capacity));
    let (sender, mut connections) = mpsc::channel(1);
    let server = Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .http2_max_header_list_size(HEADERS_MAX_BYTES)
        .add_service(service)
        .serve_with_incoming(poll_fn(move |context| connections.poll_recv(context)));
    let listener = Listener::new("identity service", listener, door.room);
    tokio::select! {
        served = server => served,
        never = accept(listener, Some(Tls::Mesh(identity)), Clients::Anybody, sender) => match never {},
    }
}

#[cfg(test)]
#[path = "serve_tests.rs"]
mod tests;
