//! Accept: a socket, where it was going, and what is to be found out of it before it carries calls.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use leno_model::mesh::canonical;
use leno_model::protocol::Protocol;
use leno_model::route::RouteKind;
use mio::Interest;
use mio::net::TcpStream;
use socket2::{SockRef, TcpKeepalive};

use super::Worker;
use super::client::Client;
use super::link::{LinkId, Wire};
use super::places::Seat;
use crate::failure::ConnectionFailure;

/// Connections accepted in one turn of the loop.
const MAX_ACCEPTS: usize = 64;

/// Whose connections arrive at a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Door {
    /// Those of the application beside us, to others.
    Outbound,
    /// Those of others, to the application beside us.
    Inbound,
    /// Those of other proxies, each stream to a TCP port of the application beside us (HBONE).
    Tunnel,
}

impl Door {
    /// The door whose [`Door::name`] this is.
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::Outbound, Self::Inbound, Self::Tunnel].into_iter().find(|door| door.name() == name)
    }

    /// The flag that sets its addresses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Outbound => "outbound",
            Self::Inbound => "inbound",
            Self::Tunnel => "tunnel",
        }
    }
}

/// How the kernel looks after a peer that is silent: probes after this time, every third of it, three at most.
pub(super) fn keepalive(silence: Duration) -> TcpKeepalive {
    TcpKeepalive::new().with_time(silence).with_interval(silence / 3).with_retries(3)
}

/// A connection of which it is not known yet what it carries.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) wire: Wire,
    pub(super) origin: Origin,
    pub(super) since: Instant,
    /// The control plane is being asked what it is for: until then it is left unread.
    pub(super) is_held: bool,
    /// What has come so far.
    pub(super) first: Vec<u8>,
    /// The port that a proxy named that was not redirected here.
    pub(super) named_port: Option<u16>,
    /// Its handshake began with a trust bundle that was replaced since.
    pub(super) is_outdated: bool,
    /// Its server had the chance to speak first, and it was wrong to give it.
    pub(super) was_guessed: bool,
    pub(super) seat: Seat,
    /// What it holds by the worker's budget.
    pub(super) charged_bytes: usize,
}

/// What is to be found out of a connection before it is relayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inspection {
    /// Nothing: its bytes are opaque, and its server may speak first.
    Nothing,
    /// Which server its TLS is for; all else that it may carry is opaque.
    ServerName,
    /// What it speaks.
    Protocol,
}

impl From<Protocol> for Inspection {
    fn from(declared: Protocol) -> Self {
        if declared == Protocol::Opaque { Self::Nothing } else { Self::Protocol }
    }
}

/// Where a connection comes from and where it was going.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin {
    pub(super) door: Door,
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
    /// Where its client meant to go, if netfilter has sent it here (SO_ORIGINAL_DST).
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
        // Connection tracking also knows connections that nobody redirected.
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
                    // Out of file descriptors, most likely: connections wait until some have closed.
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
        let link = LinkId::arrival(self.arrivals.vacant_key());
        let Ok(seat) = self.take_place(door, origin.peer.ip(), link) else {
            self.metrics.count_abuse("client_connections");
            return self.report(origin, ConnectionFailure::NoPlace);
        };
        let arrival = Arrival {
            wire: Wire::new(socket, None, self.now),
            origin,
            since: self.now,
            is_held: door == Door::Outbound && self.asks_first(&origin),
            first: Vec::new(),
            named_port: None,
            is_outdated: false,
            was_guessed: false,
            seat,
            charged_bytes: 0,
        };
        let index = self.arrivals.insert(arrival);
        self.charge_arrival(index);
        self.doors.rename(seat, LinkId::arrival(index));
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registered = match self.arrivals.get_mut(index) {
            Some(new) => self.poll.registry().register(&mut new.wire.socket, LinkId::arrival(index).token(), interest),
            None => Ok(()),
        };
        if let Err(error) = registered {
            tracing::warn!("cannot watch a connection: {error}");
            return self.drop_arrival(index);
        }
        self.review_arrival(index);
    }

    /// Which HTTP a connection's port is declared to speak, if it is declared. The proxy rejects other bytes at such a port: a
    /// lenient server could take them for a request, which would pass unseen by policy.
    ///
    /// An HTTP or gRPC probe in the Pod's spec declares its port too. In a cluster, the control plane tells the proxy which
    /// ports the Services of its own Pod declare.
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

    /// Whether a client's connection carries bytes other than HTTP, and other than TLS, to a port of the application that is
    /// declared to speak HTTP, and not to be carried unread. That a silent client's bytes are opaque is a guess, which [`Worker::settle_guess`] judges.
    pub(super) fn breaks_declaration(&self, client: &Client) -> bool {
        let codec = &client.link.codec;
        let carries_other = client.origin.door == Door::Inbound && codec.is_opaque() && codec.server().is_none();
        carries_other
            && !codec.is_guess()
            && self.inspection(&client.origin) == Inspection::Protocol
            && self.declared_http(&client.origin).is_some()
    }

    /// What is to be found out of a connection, by what is said of where it was going.
    pub(super) fn inspection(&self, origin: &Origin) -> Inspection {
        let Some(original) = origin.original_destination else { return Inspection::Protocol };
        if origin.door == Door::Inbound && self.http_ports.contains(original.port()) {
            // Whatever a Service says of it.
            return Inspection::Protocol;
        }
        if origin.door == Door::Inbound && self.opaque_ports.contains(original.port()) {
            return Inspection::Nothing;
        }
        // Before what Services of other namespaces say of the same address.
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

    /// Whether `address` is one of our own listeners, as a connection that came to the address `local` knows it: to
    /// forward there would go round for ever.
    pub(super) fn is_own(&self, address: SocketAddr, local: IpAddr) -> bool {
        let ip = address.ip();
        let is_here = ip.is_loopback() || ip == local;
        self.listeners
            .iter()
            .map(|listener| listener.address)
            .any(|own| own.port() == address.port() && (own.ip() == ip || (own.ip().is_unspecified() && is_here)))
    }
}
