//! Upstream: a connection to an endpoint, from its first packet to the moment when calls may use it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Instant;

use leno_http2::limits::{OUTPUT_HIGH_WATER_BYTES, SMALL_UPLOAD_BYTES};
use leno_http2::{Connection, Role};
use leno_model::mesh::{Endpoint, EndpointProxy};
use leno_model::spiffe::SpiffeId;
use mio::net::TcpStream;
use socket2::SockRef;

use super::Worker;
use super::accept::{Door, keepalive};
use super::call::Call;
use super::cancel::CancelledCalls;
use super::cluster::{ClusterId, TargetKey};
use super::codec::Codec;
use super::hop::{Hop, PoolKey, Protocol};
use super::link::{Link, LinkId};
use super::opaque::Opaque;
use super::slots::Id;
use super::tls::Tls;
use super::wire::Wire;
use crate::failure::ConnectionFailure;
use crate::limits::ms;

/// Smallest room in an endpoint's connection window, in bytes, for a call with more than a little content. With less
/// room, such a call uses another connection: the application does not read the content that fills the window. This is
/// half of a server's initial window.
const MIN_WINDOW_BYTES: usize = 32_767;

/// Identifies a connection to an endpoint within its worker.
pub(super) type UpstreamId = Id<Upstream>;

/// A connection to an endpoint.
#[derive(Debug)]
pub(super) struct Upstream {
    pub(super) link: Link,
    pub(super) cluster: ClusterId,
    pub(super) key: PoolKey,
    /// The address to which the connection is opened.
    pub(super) address: SocketAddr,
    /// The endpoint's own address. If the endpoint has a proxy, we name this address to it.
    pub(super) target: SocketAddr,
    /// The identity that the server must prove; `None` without TLS.
    pub(super) expected: Option<SpiffeId>,
    /// Whether TCP is established.
    pub(super) connected: bool,
    /// Whether the server has proved its identity, or need not.
    pub(super) checked: bool,
    /// Whether the connection has ever been ready for calls. If so, its loss is no failure to connect.
    pub(super) ready: bool,
    /// How many calls have been sent on it.
    pub(super) calls: u64,
    /// Whether the connection gets no new calls, and closes after its last one.
    pub(super) retired: bool,
    /// Whether we have shown a certificate on the connection that was replaced since.
    pub(super) is_outdated: bool,
    /// Since when no current trust anchor verifies the certificate that the server has shown.
    pub(super) distrusted_since: Option<Instant>,
    pub(super) idle_since: Option<Instant>,
    pub(super) ping_sent: Option<Instant>,
    /// Whether the connection is in the worker's list of connections on which short pieces of content are collected.
    pub(super) collects: bool,
    /// Streams whose calls were cancelled, and whose server has not been told yet.
    pub(super) cancelled: CancelledCalls,
}

/// How much of an endpoint's flow-control window a call needs.
#[derive(Debug, Clone, Copy)]
pub(super) enum CallSize {
    /// All of the content has arrived; its number of bytes.
    Complete(usize),
    /// The client is still sending.
    Open,
}

impl CallSize {
    pub(super) fn of(call: &Call) -> Self {
        if call.request_ended { Self::Complete(call.body.len()) } else { Self::Open }
    }

    /// Returns whether the call may use the part of a flow-control window that is reserved for small calls.
    pub(super) fn is_small(self) -> bool {
        matches!(self, Self::Complete(bytes) if bytes <= SMALL_UPLOAD_BYTES)
    }
}

impl Upstream {
    /// Returns whether a call of this size can be sent on the connection now.
    pub(super) fn has_room(&self, size: CallSize) -> bool {
        let codec = &self.link.codec;
        let fits = match size {
            CallSize::Complete(bytes) if bytes <= SMALL_UPLOAD_BYTES => codec.send_window_bytes() >= bytes,
            CallSize::Complete(_) | CallSize::Open => codec.send_window_bytes() >= MIN_WINDOW_BYTES,
        };
        self.ready
            && !self.retired
            && codec.has_free_stream()
            && codec.pending_output() < OUTPUT_HIGH_WATER_BYTES
            && (fits || codec.stream_count() == 0)
    }
}

impl Worker {
    pub(super) fn add_upstream(
        &mut self,
        cluster: ClusterId,
        key: PoolKey,
        address: SocketAddr,
        member: &Endpoint,
    ) -> Result<(), String> {
        let now = self.now;
        let (tls, expected) = self.tls_for(key.hop, member)?;
        let socket = TcpStream::connect(address).map_err(|error| error.to_string())?;
        let _ = SockRef::from(&socket).set_tcp_keepalive(&keepalive(ms(self.limits.relay.keepalive_ms)));
        let codec = match key.hop {
            Hop::Plain(Protocol::Http1) => {
                Codec::Http1(leno_http1::Connection::new(Role::Client, self.limits.http1_endpoint.clone(), now))
            }
            Hop::Plain(Protocol::Opaque) => Codec::Opaque(Opaque::opened()),
            Hop::Plain(Protocol::Http2) | Hop::Mesh | Hop::Tunnel => {
                Codec::Http2(Connection::new(Role::Client, self.limits.endpoint.clone(), now))
            }
        };
        let wire = self.wires.insert(Wire::new(socket, tls, now));
        let link = Link::new(wire, codec, now);
        self.limit_unread(&link, ms(self.limits.relay.unread_timeout_ms));
        let id = self.upstreams.insert(Upstream {
            link,
            cluster,
            key,
            address,
            target: member.address,
            checked: expected.is_none(),
            expected,
            connected: false,
            ready: false,
            calls: 0,
            retired: false,
            is_outdated: false,
            distrusted_since: None,
            idle_since: None,
            ping_sent: None,
            collects: false,
            cancelled: CancelledCalls::new(now, &self.limits.relay),
        });
        if let Some(pool) = self.pool(cluster, key) {
            pool.connections.push(id);
            pool.connecting += 1;
        }
        self.attach(wire, LinkId::Endpoint(id));
        if let Err(error) = self.watch(wire) {
            self.close_upstream(id, &error.to_string());
        }
        Ok(())
    }

    /// Returns the address to connect to. If the endpoint is our own application, that is our own inbound listener: no
    /// rule redirects connections from this proxy to it.
    pub(super) fn address_of(&self, hop: Hop, member: &Endpoint) -> SocketAddr {
        let address = hop.address(member);
        let inbound = self.listeners.iter().find(|listener| listener.door == Door::Inbound);
        match inbound {
            Some(inbound) if hop == Hop::Mesh && address == member.address && is_own_ip(address.ip()) => {
                SocketAddr::new(address.ip(), inbound.address.port())
            }
            _ => address,
        }
    }

    /// Returns the TLS of a new connection to an endpoint, and the identity that the server must prove.
    fn tls_for(&self, hop: Hop, member: &Endpoint) -> Result<(Option<Box<Tls>>, Option<SpiffeId>), String> {
        let Some(proxy) = member.proxy.as_ref().filter(|_| hop.is_mutual_tls()) else { return Ok((None, None)) };
        let Some(identity) = &self.identity else {
            return Err("it takes mutual TLS only; start this proxy with --identity and --issuer".to_owned());
        };
        let tls = Tls::connect(&identity.client, member.address.port()).map_err(|error| error.to_string())?;
        Ok((Some(Box::new(tls)), self.id_of(proxy)))
    }

    /// Returns the identity that a proxy must prove; `None` if we have no identity, whose trust domain applies.
    pub(super) fn id_of(&self, proxy: &EndpointProxy) -> Option<SpiffeId> {
        let trust_domain = self.identity.as_ref()?.id.trust_domain.clone();
        Some(SpiffeId { trust_domain, workload: proxy.identity.clone() })
    }

    /// Completes the opening of a connection; called with each of its events. Returns whether TCP is established.
    pub(super) fn finish_connecting(&mut self, id: UpstreamId) -> bool {
        let Some(upstream) = self.upstreams.get_mut(id) else { return false };
        if upstream.connected {
            return true;
        }
        let Some(socket) = self.wires.get(upstream.link.wire).map(|wire| &wire.socket) else { return false };
        if let Some(error) = socket.take_error().ok().flatten() {
            self.close_upstream(id, &error.to_string());
            return false;
        }
        if socket.peer_addr().is_err() {
            return false;
        }
        upstream.connected = true;
        let cluster = upstream.cluster;
        // Only an HTTP/2 server tells us when it is ready.
        let is_ready = upstream.link.codec.http2().is_none();
        self.mark_dirty(LinkId::Endpoint(id));
        self.note_port(cluster);
        if self.upstreams.get(id).is_some_and(|upstream| upstream.checked) {
            self.count_upstream(id);
        }
        if is_ready {
            self.upstream_ready(id);
        }
        true
    }

    /// If an established connection leads to our own application, names the application's port in metrics from now on.
    fn note_port(&mut self, cluster: ClusterId) {
        let Some(state) = self.clusters.get_mut(cluster) else { return };
        let TargetKey::Local(address) = state.target else { return };
        if self.ports.serve(address.port()) {
            state.name_port();
            // This makes clients look up again which metrics count their calls.
            self.mesh_version += 1;
        }
    }

    /// After the handshake, verifies the server's identity. If it is wrong, closes the connection and returns `false`.
    pub(super) fn check_endpoint(&mut self, id: UpstreamId) -> bool {
        let Some(upstream) = self.upstreams.get(id) else { return false };
        if upstream.checked {
            return true;
        }
        let (Some(tls), Some(expected)) = (self.tls_on(upstream.link.wire), &upstream.expected) else { return true };
        if !tls.is_established() {
            return true;
        }
        let wrong = match self.peer_of(Some(tls)) {
            Ok(Some(found)) if found == *expected => None,
            Ok(Some(found)) => Some(ConnectionFailure::WrongIdentity { found, expected: expected.clone() }),
            // A server cannot complete the handshake without a certificate.
            Ok(None) => Some(ConnectionFailure::HandshakeCut),
            Err(failure) => Some(failure),
        };
        match wrong {
            Some(why) => {
                self.end_upstream(id, &why);
                false
            }
            None => {
                if let Some(upstream) = self.upstreams.get_mut(id) {
                    upstream.checked = true;
                    if upstream.is_outdated {
                        self.recheck.add(LinkId::Endpoint(id));
                    }
                }
                self.note_server(id);
                self.count_upstream(id);
                true
            }
        }
    }

    /// Counts the connection in the metrics of its server, whose identity is known now.
    fn count_upstream(&mut self, id: UpstreamId) {
        let series = self.upstreams.get(id).and_then(|upstream| self.endpoint_series(upstream));
        let wire = self.upstreams.get(id).map(|upstream| upstream.link.wire);
        if let (Some(wire), Some(series)) = (self.wires.get_mut(wire), series) {
            wire.meter.count_in(series);
        }
    }

    /// Marks the connection as ready for calls. Called when the server's SETTINGS have arrived, or at once if its
    /// protocol has none. A server that allows no streams yet is not ready.
    pub(super) fn upstream_ready(&mut self, id: UpstreamId) {
        let is_short_of_memory = self.is_short_of_memory();
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        let takes_none = |http2: &mut Connection| http2.peer_settings().max_concurrent_streams == 0;
        if upstream.link.codec.http2().is_some_and(takes_none) {
            return;
        }
        if std::mem::replace(&mut upstream.ready, true) {
            return;
        }
        upstream.idle_since = Some(self.now);
        upstream.link.codec.save_memory(is_short_of_memory);
        let (cluster, key) = (upstream.cluster, upstream.key);
        if let Some(pool) = self.pool(cluster, key) {
            pool.connecting = pool.connecting.saturating_sub(1);
            pool.failures = 0;
            pool.retry_at = None;
        }
        self.note_room(id);
    }
}

/// Returns whether an address belongs to this machine: then it is also the source of packets to it. Sends nothing.
fn is_own_ip(ip: IpAddr) -> bool {
    let any: IpAddr = if ip.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let source = || {
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect((ip, 9))?;
        socket.local_addr()
    };
    source().is_ok_and(|source| source.ip() == ip)
}
