//! Declared: what flags, Services, routes and probes declare about the protocol of a connection's destination. These
//! declarations determine what the proxy detects before the connection carries calls.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use leno_model::mesh::Cluster;
use leno_model::policy::{Caller, Decision};
use leno_model::protocol::Protocol;
use leno_model::route::RouteKind;

use crate::Relay;
use crate::downstream::client::Client;
use crate::downstream::origin::{Door, Inspection, Origin};

impl Relay {
    /// Returns which version of HTTP a connection's port is declared to speak, if any. The proxy rejects other bytes at
    /// such a port. Otherwise, a lenient server could read the bytes as a request that no policy has checked.
    ///
    /// An HTTP or gRPC probe in the Pod's spec declares its port too. In Kubernetes, the control plane tells the proxy
    /// which ports the Services of its own Pod declare.
    pub fn declared_http(&self, origin: &Origin) -> Option<Protocol> {
        let original = origin.original_destination?;
        let port = original.port();
        let is_told = || !self.settings.probes.on(port).is_empty() || self.targets.mesh().is_own_http_port(port);
        let is_http =
            self.settings.http_ports.contains(port) || (!self.settings.opaque_ports.contains(port) && is_told());
        if origin.door == Door::Inbound && is_http {
            return Some(Protocol::Http1);
        }
        let declared = self.declaring(origin.door, original)?.protocol;
        declared.is_http().then_some(declared)
    }

    /// Returns the Service's port whose declarations apply to a connection to `address`.
    ///
    /// With a control plane, no such port declares anything about connections to our own application. The mesh then has
    /// the Services that our application calls. Their owners may list our application's address in an EndpointSlice,
    /// but must not decide which bytes our proxy lets its callers send. The control plane tells the proxy separately
    /// what the Services of its own namespace declare.
    fn declaring(&self, door: Door, address: SocketAddr) -> Option<&Arc<Cluster>> {
        let mesh = self.targets.mesh();
        if door != Door::Outbound && !mesh.is_complete() {
            return None;
        }
        let of_endpoint = || Some(mesh.endpoint_by_address(address)?.0);
        mesh.cluster_by_address(address).or_else(of_endpoint)
    }

    /// Returns whether a client sends opaque bytes to a port of our application that is declared to speak HTTP, and is
    /// not declared opaque. Opaque bytes are neither HTTP nor TLS. Returns `false` while the proxy only guesses that
    /// the connection is opaque: [`Relay::settle_guess`] handles such a connection.
    pub(crate) fn breaks_declaration(&self, client: &Client) -> bool {
        let codec = &client.link.codec;
        let carries_other = client.origin.door == Door::Inbound && codec.is_opaque() && codec.server().is_none();
        carries_other
            && !codec.is_guess()
            && self.inspection(&client.origin) == Inspection::Protocol
            && self.declared_http(&client.origin).is_some()
    }

    /// Returns what to detect in a connection, from the declarations about its destination.
    pub fn inspection(&self, origin: &Origin) -> Inspection {
        let Some(original) = origin.original_destination else { return Inspection::Protocol };
        if origin.door == Door::Inbound && self.settings.http_ports.contains(original.port()) {
            // `--http-ports` takes precedence over the declaration of a Service.
            return Inspection::Protocol;
        }
        if origin.door == Door::Inbound && self.settings.opaque_ports.contains(original.port()) {
            return Inspection::Nothing;
        }
        if origin.door == Door::Inbound && self.targets.mesh().is_own_http_port(original.port()) {
            return Inspection::Protocol;
        }
        let declaring = self.declaring(origin.door, original);
        let protocol = declaring.map_or_else(|| Protocol::of_port(original.port()), |cluster| cluster.protocol);
        // Routes apply only to connections that are balanced over a Service.
        let mesh = self.targets.mesh();
        let balanced = mesh.cluster_by_address(original).filter(|_| origin.door == Door::Outbound);
        let routes = balanced.and_then(|cluster| mesh.routes(&cluster.key, self.targets.namespace()));
        match routes.map(|routes| routes.kind()) {
            Some(RouteKind::Tcp) => Inspection::Nothing,
            Some(RouteKind::Tls) if protocol == Protocol::Opaque => Inspection::ServerName,
            Some(RouteKind::Tls | RouteKind::Grpc | RouteKind::Http | RouteKind::Service) | None => protocol.into(),
        }
    }

    /// Returns whether `address` is one of our own listeners, for a connection that arrived at the address `local`. If
    /// the proxy forwarded a call to its own listener, the call would come back to the proxy, without end.
    pub fn is_own(&self, address: SocketAddr, local: IpAddr) -> bool {
        let ip = address.ip();
        let is_here = ip.is_loopback() || ip == local;
        self.listening
            .iter()
            .any(|(_, own)| own.port() == address.port() && (own.ip() == ip || (own.ip().is_unspecified() && is_here)))
    }

    /// Returns whether the proxy may guess that a silent connection is opaque, with a server that speaks first. For an
    /// inbound connection, the proxy may guess only if policy allows clients without a certificate. The reason: a
    /// client shows its certificate only when it begins to send. If the proxy guessed before that, it would treat the
    /// client as one without a certificate, and would deny it.
    pub fn may_guess(&self, origin: &Origin) -> bool {
        self.inspection(origin) == Inspection::Protocol
            && self.declared_http(origin).is_none()
            && match origin.door {
                Door::Outbound => true,
                Door::Inbound => self.lets_strangers_in(origin),
                Door::Tunnel => false,
            }
    }

    fn lets_strangers_in(&self, origin: &Origin) -> bool {
        let policy = origin.original_destination.and_then(|destination| self.port_policy(destination.port()));
        let Some(policy) = policy else { return true };
        let stranger = Caller { identity: None, address: origin.peer.ip() };
        matches!(policy.authorize(&stranger, None), Decision::Allow | Decision::AllowAudited(_))
    }
}

#[cfg(test)]
#[path = "declared_tests.rs"]
mod tests;
