//! Hop: how a call travels from this proxy to an endpoint: in which protocol, and whether a proxy receives it.

use std::net::SocketAddr;

use leno_http2::fields::Known;
use leno_http2::{FieldSection, syntax};
use leno_model::balance::EndpointId;
use leno_model::mesh::{Endpoint, EndpointProxy};

use crate::call::Call;
use crate::downstream::accounts::Lane;

/// Value of `leno-orig-proto` for an HTTP/1 request that travels as HTTP/2 between proxies.
const HTTP1: &[u8] = b"HTTP/1.1";

/// The protocol of the application that makes a call. The application at the other end receives the same protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Protocol {
    Http2,
    Http1,
    Opaque,
}

/// The way in which a call travels to an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Hop {
    /// The call travels without mutual TLS, in the application's protocol.
    Plain(Protocol),
    /// The call travels to a proxy, as HTTP/2 over mutual TLS.
    Mesh,
    /// Opaque bytes travel to a proxy, in a CONNECT stream of HTTP/2 over mutual TLS (HBONE).
    Tunnel,
}

/// Identifies a pool: the connections to one endpoint that all calls with the same hop and lane can use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolKey {
    pub(crate) endpoint: EndpointId,
    pub(crate) hop: Hop,
    pub(crate) lane: Lane,
    /// The hop and the lane as one number. Each call looks for its pool among the pools of its endpoint. Comparing two
    /// numbers takes half as many instructions as comparing nested enums.
    way: u16,
}

impl PoolKey {
    pub(crate) fn new(endpoint: EndpointId, hop: Hop, lane: Lane) -> Self {
        let hop_number = match hop {
            Hop::Plain(Protocol::Http2) => 0,
            Hop::Plain(Protocol::Http1) => 1,
            Hop::Plain(Protocol::Opaque) => 2,
            Hop::Mesh => 3,
            Hop::Tunnel => 4,
        };
        let lane_number = match lane {
            Lane::Shared => 0,
            Lane::Unidentified => 1,
            Lane::Own(number) => 2 + u16::from(number),
        };
        Self { endpoint, hop, lane, way: hop_number << 12 | lane_number }
    }
}

impl PartialEq for PoolKey {
    fn eq(&self, other: &Self) -> bool {
        self.endpoint == other.endpoint && self.way == other.way
    }
}

impl Eq for PoolKey {}

impl Hop {
    /// Returns the hop to an endpoint.
    pub(crate) fn to(proxy: Option<&EndpointProxy>, protocol: Protocol) -> Self {
        match (proxy, protocol) {
            (None, _) => Self::Plain(protocol),
            (Some(_), Protocol::Opaque) => Self::Tunnel,
            (Some(_), Protocol::Http2 | Protocol::Http1) => Self::Mesh,
        }
    }

    /// Returns whether the call travels over mutual TLS to another proxy.
    pub(crate) fn is_mutual_tls(self) -> bool {
        matches!(self, Self::Mesh | Self::Tunnel)
    }

    /// Returns whether a connection carries many calls at once.
    pub(crate) fn is_shared(self) -> bool {
        !matches!(self, Self::Plain(Protocol::Http1 | Protocol::Opaque))
    }

    /// Returns the address to connect to.
    pub(crate) fn address(self, endpoint: &Endpoint) -> SocketAddr {
        let address = endpoint.address;
        let Some(proxy) = &endpoint.proxy else { return address };
        let port = match self {
            Self::Plain(_) => address.port(),
            Self::Mesh => proxy.inbound_port.unwrap_or(address.port()),
            Self::Tunnel => proxy.tunnel_port,
        };
        SocketAddr::new(address.ip(), port)
    }

    /// Changes a request's fields to those that the receiver of this hop expects.
    pub(crate) fn dress(self, request: &mut FieldSection, protocol: Protocol, endpoint: SocketAddr) {
        match self {
            Self::Plain(_) => request.remove(Known::LenoOrigProto),
            Self::Mesh if protocol == Protocol::Http1 => request.set(Known::LenoOrigProto, HTTP1),
            Self::Mesh => {}
            Self::Tunnel => request.set(Known::Authority, endpoint.to_string().as_bytes()),
        }
    }
}

/// Removes a `host` that is not a host, and gives the request the authority `usual` if its own is not a host. Call this
/// for requests to HTTP/2 servers: some HTTP/2 servers close the connection after many unusual requests, although other
/// clients' calls use the connection.
#[cold]
pub(crate) fn use_usual_authority(request: &mut FieldSection, usual: &str) {
    let is_unusual = |value: Option<&[u8]>| value.is_some_and(|value| !syntax::is_authority(value));
    if is_unusual(request.get(Known::Host)) {
        request.remove(Known::Host);
    }
    if is_unusual(request.get(Known::Authority)) {
        request.set(Known::Authority, usual.as_bytes());
    }
}

impl Protocol {
    /// Returns the original protocol of a request that another proxy sent as HTTP/2.
    pub(crate) fn of_request_from_proxy(request: &FieldSection) -> Self {
        if request.get(Known::LenoOrigProto) == Some(HTTP1) { Self::Http1 } else { Self::Http2 }
    }
}

impl Call {
    /// Returns the key of an endpoint's pool whose connections the call may use.
    pub(crate) fn pool_key(&self, endpoint: EndpointId, proxy: Option<&EndpointProxy>, lane: Lane) -> PoolKey {
        PoolKey::new(endpoint, Hop::to(proxy, self.protocol), lane)
    }
}

#[cfg(test)]
#[path = "hop_tests.rs"]
mod tests;
