//! Accept: accepts connections, records their source and destination, and decides what to detect in each before it
//! carries calls.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use leno_model::mesh::canonical;
use leno_model::protocol::Protocol;
use leno_model::route::RouteKind;
use mio::net::TcpStream;
use socket2::{SockRef, TcpKeepalive};

use super::Worker;
use super::client::Client;
use super::link::LinkId;
use super::slots::Id;
use super::wire::{Wire, WireId};
use crate::failure::ConnectionFailure;

/// Most connections accepted from one listener in one turn of the event loop.
const MAX_ACCEPTS: usize = 64;

/// The kind of connections that a listener accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Door {
    /// Connections from our own application to other servers.
    Outbound,
    /// Connections from other clients to our own application.
    Inbound,
    /// Connections from other proxies. Each stream leads to a TCP port of our own application (HBONE).
    Tunnel,
}

impl Door {
    /// Returns the door with this [`Door::name`].
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::Outbound, Self::Inbound, Self::Tunnel].into_iter().find(|door| door.name() == name)
    }

    /// Returns the name of the command-line flag that sets the door's addresses, without `--`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Outbound => "outbound",
            Self::Inbound => "inbound",
            Self::Tunnel => "tunnel",
        }
    }
}

/// Returns the TCP keepalive settings for a silent peer: the first probe after `silence`, then one after every third of
/// it, at most three in all.
pub(super) fn keepalive(silence: Duration) -> TcpKeepalive {
    TcpKeepalive::new().with_time(silence).with_interval(silence / 3).with_retries(3)
}

/// Identifies an arrival within its worker.
pub(super) type ArrivalId = Id<Arrival>;

/// A client's connection whose protocol is not known yet.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) wire: WireId,
    pub(super) origin: Origin,
    pub(super) since: Instant,
    /// The connection is not read until the control plane has answered what its destination is.
    pub(super) is_held: bool,
    /// Bytes received so far, decrypted if the proxy takes part in the TLS.
    pub(super) first: Vec<u8>,
    /// Target port that another proxy sent in its TLS server name. It counts if netfilter did not redirect the
    /// connection.
    pub(super) named_port: Option<u16>,
    /// The TLS handshake began with a trust bundle that has been replaced since.
    pub(super) is_outdated: bool,
    /// The worker has guessed that the server speaks first, and the guess was wrong.
    pub(super) was_guessed: bool,
    /// Memory that the worker's budget counts for this connection, in bytes.
    pub(super) charged_bytes: usize,
}

/// What the worker detects in a connection before it relays the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inspection {
    /// Nothing: the bytes are opaque, and the server may speak first.
    Nothing,
    /// The server name of a TLS ClientHello. Any other bytes are opaque.
    ServerName,
    /// The protocol.
    Protocol,
}

impl From<Protocol> for Inspection {
    fn from(declared: Protocol) -> Self {
        if declared == Protocol::Opaque { Self::Nothing } else { Self::Protocol }
    }
}

/// The source and the destination of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin {
    pub(super) door: Door,
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
    /// The address that the client connected to, if netfilter redirected the connection to the proxy (SO_ORIGINAL_DST).
    pub(super) original_destination: Option<SocketAddr>,
}

impl Origin {
    fn of(door: Door, peer: SocketAddr, socket: &TcpStream) -> io::Result<Self> {
        let local = canonical(socket.local_addr()?);
        let reference = SockRef::from(socket);
        let original = match local.ip() {
            IpAddr::V4(_) => reference.original_dst_v4(),
            IpAddr::V6(_) => reference.original_dst_v6(),
        };
        // Connection tracking also knows connections that netfilter did not redirect.
        let original_destination = original
            .ok()
            .and_then(|original| original.as_socket())
            .map(canonical)
            .filter(|&original| original != local);
        Ok(Self { door, peer: canonical(peer), local, original_destination })
    }
}

impl Worker {
    pub(super) fn accept(&mut self) {
        self.accept_again = false;
        for place in 0..self.listeners.len() {
            self.accept_at(place);
        }
    }

    fn accept_at(&mut self, place: usize) {
        for _ in 0..MAX_ACCEPTS {
            let Some(listener) = self.listeners.get(place) else { return };
            match listener.accept() {
                Ok((socket, peer)) => self.add_arrival(listener.door, socket, peer),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    // Most likely no file descriptor is left: new connections wait until others have closed.
                    tracing::warn!("cannot accept a connection: {error}; raise the limit of open files (ulimit -n)");
                    self.accept_failed = true;
                    return;
                }
            }
        }
        self.accept_again = true;
    }

    fn add_arrival(&mut self, door: Door, socket: TcpStream, peer: SocketAddr) {
        // A socket without an address has been reset already.
        let Ok(origin) = Origin::of(door, peer, &socket) else { return };
        let wire = self.wires.insert(Wire::new(socket, None, self.now));
        if self.take_place(door, origin.peer.ip(), wire).is_err() {
            self.wires.remove(wire);
            self.metrics.count_abuse("client_connections");
            return self.report(origin, ConnectionFailure::NoPlace);
        }
        let arrival = Arrival {
            wire,
            origin,
            since: self.now,
            is_held: door == Door::Outbound && self.asks_first(&origin),
            first: Vec::new(),
            named_port: None,
            is_outdated: false,
            was_guessed: false,
            charged_bytes: 0,
        };
        let id = self.arrivals.insert(arrival);
        self.charge_arrival(id);
        self.attach(wire, LinkId::Arrival(id));
        if let Err(error) = self.watch(wire) {
            tracing::warn!("cannot watch a connection: {error}");
            return self.drop_arrival(id);
        }
        self.review_arrival(id);
    }

    /// Returns which HTTP the connection's port is declared to speak, if any. The proxy rejects other bytes at such a
    /// port: a lenient server could read them as a request, and no policy would have checked it.
    ///
    /// An HTTP or gRPC probe in the Pod's spec declares its port too. In a cluster, the control plane tells the proxy
    /// which ports the Services of its own Pod declare.
    pub(super) fn declared_http(&self, origin: &Origin) -> Option<Protocol> {
        let original = origin.original_destination?;
        let port = original.port();
        let is_told = || !self.probes.on(port).is_empty() || self.mesh.is_own_http_port(port);
        let is_http = self.http_ports.contains(port) || (!self.opaque_ports.contains(port) && is_told());
        if origin.door == Door::Inbound && is_http {
            return Some(Protocol::Http1);
        }
        let of_service = self.mesh.cluster_by_address(original).filter(|_| origin.door == Door::Outbound);
        let of_endpoint = || self.mesh.endpoint_by_address(original).map(|(cluster, _)| cluster);
        let declared = of_service.or_else(of_endpoint)?.protocol;
        declared.is_http().then_some(declared)
    }

    /// Returns whether a client sends bytes that are neither HTTP nor TLS to a port of our application that is declared
    /// to speak HTTP and not declared opaque. A connection that is only guessed to be opaque does not count:
    /// [`Worker::settle_guess`] decides on it.
    pub(super) fn breaks_declaration(&self, client: &Client) -> bool {
        let codec = &client.link.codec;
        let carries_other = client.origin.door == Door::Inbound && codec.is_opaque() && codec.server().is_none();
        carries_other
            && !codec.is_guess()
            && self.inspection(&client.origin) == Inspection::Protocol
            && self.declared_http(&client.origin).is_some()
    }

    /// Returns what to detect in a connection, from the declarations about its destination.
    pub(super) fn inspection(&self, origin: &Origin) -> Inspection {
        let Some(original) = origin.original_destination else { return Inspection::Protocol };
        if origin.door == Door::Inbound && self.http_ports.contains(original.port()) {
            // `--http-ports` takes precedence over the declaration of a Service.
            return Inspection::Protocol;
        }
        if origin.door == Door::Inbound && self.opaque_ports.contains(original.port()) {
            return Inspection::Nothing;
        }
        // What the Services of our own Pod declare takes precedence over what Services of other namespaces declare for
        // the same address.
        if origin.door == Door::Inbound && self.mesh.is_own_http_port(original.port()) {
            return Inspection::Protocol;
        }
        let Some(cluster) = self.mesh.cluster_by_address(original) else {
            let of_endpoint = self.mesh.endpoint_by_address(original).map(|(cluster, _)| cluster.protocol);
            return of_endpoint.unwrap_or_else(|| Protocol::of_port(original.port())).into();
        };
        let routes = match origin.door {
            Door::Outbound => self.mesh.routes(&cluster.key, self.namespace()),
            Door::Inbound | Door::Tunnel => None,
        };
        match routes.map(|routes| routes.kind()) {
            Some(RouteKind::Tcp) => Inspection::Nothing,
            Some(RouteKind::Tls) if cluster.protocol == Protocol::Opaque => Inspection::ServerName,
            Some(RouteKind::Tls | RouteKind::Grpc | RouteKind::Http) | None => cluster.protocol.into(),
        }
    }

    /// Returns whether `address` is one of our own listeners, for a connection that arrived at the address `local`. A
    /// call forwarded there would come back to the proxy, without end.
    pub(super) fn is_own(&self, address: SocketAddr, local: IpAddr) -> bool {
        let ip = address.ip();
        let is_here = ip.is_loopback() || ip == local;
        self.listeners
            .iter()
            .map(|listener| listener.address)
            .any(|own| own.port() == address.port() && (own.ip() == ip || (own.ip().is_unspecified() && is_here)))
    }
}
