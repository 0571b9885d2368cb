//! The control plane for linkerd2-proxies: four services of Linkerd's API on one address, in a thread of the lab.
//!
//! | service | question of a proxy |
//! |---|---|
//! | [`identity`] | the certificate for its key |
//! | [`outbound`] | which routes and which balancer a Service has |
//! | [`destination`] | which endpoints a Service has, and their identities |
//! | [`inbound`] | which clients may connect to a port |
//!
//! Every answer is the answer of Linkerd's own control plane in a cluster without any policy, except the default
//! inbound policy, which requires mutual TLS. The mesh never changes, so each stream has one answer and stays open.

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

/// Time for the detection of a connection's protocol, in outbound and inbound policies.
const DETECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A stream of answers.
type Answers<T> = Pin<Box<dyn Stream<Item = std::result::Result<T, Status>> + Send>>;

/// A Pod of the Service.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pod {
    /// The address of the application.
    pub(super) address: SocketAddr,
    /// The address of the inbound proxy's own port.
    pub(super) inbound: SocketAddr,
}

/// The mesh from the view of its control plane.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// The address of the only Service.
    pub(super) service: SocketAddr,
    pub(super) pods: Vec<Pod>,
    /// Whether the Service's port is declared opaque.
    pub(super) is_opaque: bool,
}

/// A running control plane. Dropping it ends its thread.
pub(in super::super) struct ControlPlane {
    address: SocketAddr,
    _thread: ServiceThread,
}

impl ControlPlane {
    /// Starts the services for a mesh whose certificates `authority` signs. Only proxies with `token` get a
    /// certificate.
    ///
    /// # Errors
    /// If no port is free, or the thread does not start.
    pub(super) fn start(plan: Plan, authority: Authority, token: String) -> Result<Self> {
        const WHAT: &str = "starting the control plane for linkerd2-proxy";
        let listener = TcpListener::bind(free_address()?).map_err(io(WHAT))?;
        let address = listener.local_addr().map_err(io(WHAT))?;
        let serve = move |listener| serve(listener, plan, authority, token);
        Ok(Self { address, _thread: ServiceThread::start("linkerd-control", WHAT, listener, serve)? })
    }

    /// The address of all services.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Serves until the future is dropped. If serving fails, the proxies lose their control plane, and report that.
async fn serve(listener: tokio::net::TcpListener, plan: Plan, authority: Authority, token: String) {
    let plan = Arc::new(plan);
    let server = Server::builder()
        .add_service(IdentityServer::new(identity::Service::new(authority, token)))
        .add_service(DestinationServer::new(destination::Service(Arc::clone(&plan))))
        .add_service(OutboundPoliciesServer::new(outbound::Service(Arc::clone(&plan))))
        .add_service(InboundServerPoliciesServer::new(inbound::Service(plan)));
    let _ = server.serve_with_incoming(TcpIncoming::from(listener)).await;
}

/// A stream with one answer, which stays open.
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
