//! Upstream: a connection to an endpoint, from its first packet to the moment when calls may use it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leno_http2::limits::{OUTPUT_HIGH_WATER_BYTES, SMALL_UPLOAD_BYTES};
use leno_http2::{Connection, Role};
use leno_model::mesh::Endpoint;
use leno_model::spiffe::SpiffeId;

use crate::Relay;
use crate::call::Call;
use crate::certain::Certain;
use crate::downstream::accounts::Count;
use crate::downstream::origin::Door;
use crate::effect::{Effect, ServerTls, WireId};
use crate::failure::ConnectionFailure;
use crate::limits::RelayLimits;
use crate::link::codec::Codec;
use crate::link::opaque::Opaque;
use crate::link::{Link, LinkId};
use crate::pool::answered::Answered;
use crate::pool::cancel::CancelledCalls;
use crate::pool::hop::{Hop, PoolKey, Protocol};
use crate::pool::liveness::Liveness;
use crate::pool::pools::PoolId;
use crate::slots::Id;
use crate::target::cluster::{ClusterId, TargetKey};

/// Minimum free part of a connection's flow-control window, in bytes, for a call that may have more than
/// [`SMALL_UPLOAD_BYTES`] of content. If less is free, the application is slow to read the content of earlier calls on
/// this connection, and the new call must use another connection. The value is half of a server's initial window.
const MIN_WINDOW_BYTES: usize = 32_767;

/// Time before the announced end of an idle connection ([`Codec::keep_alive`]) from which the connection takes no call:
/// the server would close the connection while the request is on its way. If the server keeps idle connections for less
/// than twice this time, half of the server's time applies instead.
const CLOSES_SOON: Duration = Duration::from_secs(1);

/// Identifies a connection to an endpoint within its worker.
pub type UpstreamId = Id<Upstream>;

/// A connection to an endpoint.
#[derive(Debug)]
pub struct Upstream {
    pub(crate) link: Link,
    pub(crate) cluster: ClusterId,
    /// The pool to which the connection belongs, and the pool's key. If the endpoint is removed, the pool is removed
    /// before the connection ends.
    pub(crate) pool: PoolId,
    pub(crate) key: PoolKey,
    /// The address to which the connection is opened.
    pub(crate) address: SocketAddr,
    /// The endpoint's own address. If `address` is the endpoint's proxy, that proxy forwards the calls to this address.
    pub(crate) target: SocketAddr,
    /// The identity that the server must prove; `None` without TLS.
    pub(crate) expected: Option<Arc<SpiffeId>>,
    /// Whether the connection has ever been ready for calls. If it has been ready, the loss of the connection is not a
    /// failure to connect.
    pub(crate) ready: bool,
    /// Whether the server has closed its sending side before the connection was ready for calls. The connection never
    /// becomes ready then, so its end is a failure to connect.
    pub(crate) has_left: bool,
    /// Whether the connection has already counted as a failed attempt to connect, because of the server's GOAWAY.
    pub(crate) has_failed: bool,
    /// Number of connections of the pool that had failed in a row when this connection became ready.
    pub(crate) earlier_failures: u32,
    /// Number of calls that were sent on the connection.
    pub(crate) calls: u64,
    /// Whether the connection had carried other calls, or had been idle, when the latest call was sent on it. If so, an
    /// HTTP/1 server may have closed the connection before the call arrived.
    pub(crate) is_reused: bool,
    /// Whether the connection gets no new calls, and closes after its last call.
    pub(crate) retired: bool,
    /// Whether our certificate has been renewed since we showed it on the connection.
    pub(crate) is_outdated: bool,
    pub(crate) idle_since: Option<Instant>,
    /// Whether the server is still there, as far as we know.
    pub(crate) liveness: Liveness,
    /// Whether the connection is in the worker's list of connections on which short pieces of content are collected.
    pub(crate) collects: bool,
    /// Short pieces of content that the connection has sent at once since the latest sweep.
    pub(crate) dribbles: Count,
    /// Cancelled calls that the relay has not reset on the server yet.
    pub(crate) cancelled: CancelledCalls,
    /// Streams of calls that the server has answered without accepting the whole request, the oldest first.
    pub(crate) answered: Vec<Answered>,
    /// Whether the output may contain the end of an answered call's request.
    pub(crate) has_answered_output: bool,
}

/// The pool to which a connection belongs, with the pool's cluster and key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) cluster: ClusterId,
    pub(crate) pool: PoolId,
    pub(crate) key: PoolKey,
}

/// The size of a call's request content. It determines how much flow-control window a connection must have free for the
/// call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CallSize {
    /// All of the content has arrived, and has this number of bytes.
    Complete(usize),
    /// The client is still sending.
    Open,
}

impl CallSize {
    pub(crate) fn of(call: &Call) -> Self {
        if call.request_ended { Self::Complete(call.body.len()) } else { Self::Open }
    }

    /// Returns whether the call may use the part of a flow-control window that is reserved for small calls.
    pub(crate) fn is_small(self) -> bool {
        matches!(self, Self::Complete(bytes) if bytes <= SMALL_UPLOAD_BYTES)
    }
}

impl Upstream {
    /// Creates the state of a connection to `address`, before the connection is established. If the endpoint has a
    /// proxy, the caller must then set `target` and `expected`.
    pub(crate) fn new(place: Place, address: SocketAddr, codec: Codec, now: Instant, relay: &RelayLimits) -> Self {
        let Place { cluster, pool, key } = place;
        Self {
            link: Link::new(None, codec, now),
            cluster,
            pool,
            key,
            address,
            target: address,
            expected: None,
            ready: false,
            has_left: false,
            has_failed: false,
            earlier_failures: 0,
            calls: 0,
            is_reused: false,
            retired: false,
            is_outdated: false,
            idle_since: None,
            liveness: Liveness::default(),
            collects: false,
            dribbles: Count::default(),
            cancelled: CancelledCalls::new(now, relay),
            answered: Vec::new(),
            has_answered_output: false,
        }
    }

    /// Returns whether both connections lead to the same proxy, which must prove the same identity on both. The proxy
    /// remembers the newest certificate of each of its clients, so it may have seen ours on either connection.
    pub(crate) fn has_server_of(&self, other: &Self) -> bool {
        self.address == other.address && self.expected.is_some() && self.expected == other.expected
    }

    /// Returns whether a call of this size can be sent on the connection now.
    pub(crate) fn has_room(&self, size: CallSize) -> bool {
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

    /// Returns whether the server will soon close the connection, if the connection is idle. The server has announced
    /// how long it keeps an idle connection, and this time begins with the last byte of its response. Servers round the
    /// time down to seconds, so 0 says only that the time is short.
    pub(crate) fn is_nearly_closed(&self, now: Instant) -> bool {
        self.link.codec.keep_alive().filter(|kept| !kept.is_zero()).is_some_and(|kept| {
            let usable = kept - CLOSES_SOON.min(kept / 2);
            now.saturating_duration_since(self.link.last_read) >= usable
        })
    }

    /// Returns whether the server has not answered a PING, and may be gone ([`Liveness`]).
    #[inline]
    pub(crate) fn is_doubtful(&self) -> bool {
        self.liveness.is_doubtful(self.link.last_read)
    }

    /// Returns whether the connection has no call and no output. The last output of a finished call may still wait for
    /// the socket.
    pub(crate) fn is_idle(&self) -> bool {
        let codec = &self.link.codec;
        codec.stream_count() == 0 && !codec.wants_write() && !self.link.is_blocked()
    }
}

impl Relay {
    /// Begins to connect to an endpoint, for a pool of this endpoint.
    pub(crate) fn add_upstream(&mut self, pool_id: PoolId, member: &Endpoint) {
        let Some(pool) = self.pools.get(pool_id).certain() else { return };
        let key = pool.key;
        let proxy = member.proxy.as_ref().filter(|_| key.hop.is_mutual_tls());
        let expected = proxy.and_then(|proxy| self.targets.id_of(proxy));
        if proxy.is_some() && expected.is_none() {
            let error = "it takes mutual TLS only; start this proxy with --identity and --issuer".to_owned();
            return self.connecting_failed(pool_id, &ConnectionFailure::Connect { error });
        }
        let codec = self.new_codec(key.hop);
        let place = Place { cluster: pool.cluster, pool: pool_id, key };
        let mut upstream = Upstream::new(place, pool.address, codec, self.now, &self.limits.relay);
        upstream.target = member.address;
        upstream.expected = expected.map(Arc::new);
        self.open(upstream);
    }

    /// Begins to open a connection to the server of another connection, for no pool and no call. The server only sees
    /// our current certificate. The connection closes soon after it is ready. Used if the other connection's endpoint has
    /// left its cluster, and so has no pool any more.
    pub(crate) fn open_beside(&mut self, id: UpstreamId) {
        let Some(other) = self.pools.upstream(id) else { return };
        let codec = self.new_codec(other.key.hop);
        let place = Place { cluster: other.cluster, pool: other.pool, key: other.key };
        let mut upstream = Upstream::new(place, other.address, codec, self.now, &self.limits.relay);
        upstream.target = other.target;
        upstream.expected = other.expected.clone();
        upstream.retired = true;
        self.open(upstream);
    }

    /// Creates the state of the protocol that we speak on connections of this kind.
    fn new_codec(&self, hop: Hop) -> Codec {
        match hop {
            Hop::Plain(Protocol::Http1) => {
                Codec::Http1(leno_http1::Connection::new(Role::Client, self.limits.http1_endpoint.clone(), self.now))
            }
            Hop::Plain(Protocol::Opaque) => Codec::Opaque(Opaque::opened()),
            Hop::Plain(Protocol::Http2) | Hop::Mesh | Hop::Tunnel => {
                Codec::Http2(Connection::new(Role::Client, self.limits.endpoint.clone(), self.now))
            }
        }
    }

    /// Begins to open a connection.
    fn open(&mut self, upstream: Upstream) {
        let (key, address, target) = (upstream.key, upstream.address, upstream.target);
        let expected = upstream.expected.as_deref().cloned();
        let tls = expected.map(|expected| ServerTls { target_port: target.port(), expected });
        let id = self.pools.add(upstream);
        let is_redirected = key.hop == Hop::Mesh && address == target;
        let inbound = self.listening.iter().find(|(door, _)| is_redirected && *door == Door::Inbound);
        let own_inbound_port = inbound.map(|(_, address)| address.port());
        self.effects.push(Effect::Connect { upstream: id, address, tls, own_inbound_port });
    }

    /// Records which wire carries the bytes of a connection, and to which address the wire leads.
    pub fn attach_upstream(&mut self, id: UpstreamId, wire: WireId, address: SocketAddr) {
        if let Some(upstream) = self.pools.upstream_mut(id) {
            upstream.link.wire = Some(wire);
            upstream.address = address;
        }
    }

    /// Continues to open a connection after its TCP connection was established. TLS, if used, may still be in progress.
    pub fn connected(&mut self, id: UpstreamId) {
        let Some(upstream) = self.pools.upstream_mut(id) else { return };
        let (cluster, pool, is_checked) = (upstream.cluster, upstream.pool, upstream.expected.is_none());
        // Wait for the SETTINGS of an HTTP/2 server. Other protocols have no such message, so the connection is ready.
        let is_ready = upstream.link.codec.http2().is_none();
        self.mark_dirty(LinkId::Endpoint(id));
        self.note_port(cluster);
        if is_checked {
            self.count_upstream(id);
        }
        if is_ready {
            self.upstream_ready(id);
            // Give the connection to a call before the event loop reads it. If the server has already closed it, its end
            // is the answer to this call. Otherwise, the pool would open connection after connection without a pause.
            self.serve_pool(pool);
        }
    }

    /// If an established connection leads to our own application, names the application's port in metrics from now on.
    /// The application may have several addresses, each with a state of its own, so the port may be named already.
    fn note_port(&mut self, cluster: ClusterId) {
        let Some(state) = self.targets.get_mut(cluster) else { return };
        let TargetKey::Local(address) = state.target else { return };
        self.ports.serve(address.port());
        if self.ports.is_named(address.port()) && !state.is_named() {
            state.name_port();
            // `outdate` makes all clients look up their routes again, and with them the metrics that count their calls.
            self.targets.outdate();
        }
    }

    /// Counts the connection in the metrics of its server. Must be called after the server has proved its identity, if
    /// the server must prove one.
    pub fn count_upstream(&mut self, id: UpstreamId) {
        let Some(upstream) = self.pools.upstream(id) else { return };
        if let (Some(wire), Some(series)) = (upstream.link.wire, self.endpoint_series(upstream)) {
            self.effects.push(Effect::Count(wire, series));
        }
    }

    /// Marks the connection as ready for calls. Called when the server's SETTINGS have arrived, or at once if the
    /// connection's protocol has no SETTINGS. Does nothing if an HTTP/2 server does not allow any streams yet, or has
    /// already left ([`Upstream::has_left`]).
    pub(crate) fn upstream_ready(&mut self, id: UpstreamId) {
        let is_short_of_memory = self.is_short_of_memory();
        let Some(upstream) = self.pools.upstream_mut(id) else { return };
        let takes_none = |http2: &mut Connection| http2.peer_settings().max_concurrent_streams == 0;
        if upstream.link.codec.http2().is_some_and(takes_none) {
            return;
        }
        if upstream.ready || upstream.has_left {
            return;
        }
        upstream.idle_since = Some(self.now);
        upstream.link.codec.save_memory(is_short_of_memory);
        self.pools.note_ready(id);
        self.pools.note_room(id);
        self.certificate_was_shown(id);
    }
}
