//! The control plane for linkerd2-proxies: four services of Linkerd's API on one address, in a thread of the lab.
//!
//! | service | answer to a proxy |
//! |---|---|
//! | [`identity`] | the certificate for its key |
//! | [`outbound`] | the routes and the balancer of a Service |
//! | [`destination`] | the endpoints of a Service, and their identities |
//! | [`inbound`] | the clients that may connect to a port |
//!
//! The services answer like Linkerd's own control plane in a cluster without policies. One exception: the default
//! inbound policy requires mutual TLS. The mesh never changes, so each stream sends one answer and then stays open.

mod destination;
#[cfg(test)]
mod fixtures;
mod identity;
mod inbound;
mod outbound;

use std::future::ready;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use linkerd2_proxy_api::destination::destination_server::DestinationServer;
use linkerd2_proxy_api::identity::identity_server::IdentityServer;
use linkerd2_proxy_api::inbound::inbound_server_policies_server::InboundServerPoliciesServer;
use linkerd2_proxy_api::outbound::outbound_policies_server::OutboundPoliciesServer;
use tonic::Status;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use super::super::service_thread::ServiceThread;
use crate::child::free_address;
use crate::error::{Result, io};
use crate::tls::Authority;

/// Time limit for a proxy to detect the protocol of a connection. Both outbound and inbound policies set it.
const DETECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A stream of answers.
type Answers<T> = Pin<Box<dyn Stream<Item = std::result::Result<T, Status>> + Send>>;

/// A Pod of the Service.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pod {
    /// The address of the application.
    pub(super) address: SocketAddr,
    /// The address on which the inbound proxy accepts connections from other proxies.
    pub(super) inbound: SocketAddr,
}

/// The Service and its Pods, as the control plane describes them to the proxies.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// The address of the only Service.
    pub(super) service: SocketAddr,
    pub(super) pods: Vec<Pod>,
    /// Whether the Service's port carries opaque bytes, so that proxies do not detect the protocol.
    pub(super) is_opaque: bool,
}

/// A running control plane. Dropping it ends its thread.
pub(in super::super) struct ControlPlane {
    address: SocketAddr,
    _thread: ServiceThread,
}

impl ControlPlane {
    /// Starts the services of the control plane. `authority` signs the certificates of the proxies. A proxy gets a
    /// certificate only if it sends `token`.
    ///
    /// # Errors
    /// If no port is free, or if the thread does not start.
    pub(super) fn start(plan: Plan, authority: Authority, token: String) -> Result<Self> {
        const WHAT: &str = "starting the control plane for linkerd2-proxy";
        let listener = TcpListener::bind(free_address()?).map_err(io(WHAT))?;
        let address = listener.local_addr().map_err(io(WHAT))?;
        let serve = move |listener| serve(listener, plan, authority, token);
        Ok(Self { address, _thread: ServiceThread::start("linkerd-control", WHAT, listener, serve)? })
    }

    /// The address on which all four services listen.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Serves until the future is dropped. Ignores an error, because the proxies log that they have lost their control
/// plane.
async fn serve(listener: tokio::net::TcpListener, plan: Plan, authority: Authority, token: String) {
    let plan = Arc::new(plan);
    let server = Server::builder()
        .add_service(IdentityServer::new(identity::Service::new(authority, token)))
        .add_service(DestinationServer::new(destination::Service(Arc::clone(&plan))))
        .add_service(OutboundPoliciesServer::new(outbound::Service(Arc::clone(&plan))))
        .add_service(InboundServerPoliciesServer::new(inbound::Service(plan)));
    let _ = server.serve_with_incoming(TcpIncoming::from(listener)).await;
}

/// A stream that sends one answer and then stays open.
fn only<T: Send + 'static>(answer: T) -> Answers<T> {
    Box::pin(stream::once(ready(Ok(answer))).chain(stream::pending()))
}

/// A duration in protobuf.
fn duration<T>(duration: Duration) -> Option<T>
where
    T: TryFrom<Duration>,
{
    T::try_from(duration).ok()
}

#[cfg(test)]
#[path = "control_tests.rs"]
mod tests;
