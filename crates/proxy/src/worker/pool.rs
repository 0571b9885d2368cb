//! The pool: a worker's connections to endpoints, opened on demand, closed when idle, shared by all clients.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use leno_http2::limits::{OUTPUT_HIGH_WATER_BYTES, SMALL_UPLOAD_BYTES};
use leno_http2::{Connection, Role};
use leno_model::balance::EndpointId;
use mio::Interest;
use mio::net::TcpStream;
use socket2::{SockRef, TcpKeepalive};

use super::Worker;
use super::call::Call;
use super::cancel::CancelledCalls;
use super::link::{Link, LinkId};

/// Room in an endpoint's connection window below which a call with more than a little content goes to another connection:
/// what holds the window is stuck in the application there. Half of the window that servers begin with.
const MIN_WINDOW_BYTES: usize = 32_767;
/// The kernel looks after silent peers: probes after this time, every third of it.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// A connection to an endpoint.
#[derive(Debug)]
pub(super) struct Upstream {
    pub(super) link: Link,
    pub(super) cluster: usize,
    pub(super) endpoint: EndpointId,
    pub(super) address: SocketAddr,
    /// TCP is established.
    pub(super) connected: bool,
    /// It has been ready for calls: its loss is not a failure to connect.
    pub(super) ready: bool,
    /// A call has been sent on it.
    pub(super) used: bool,
    /// It takes no new calls and closes with its last one.
    pub(super) retired: bool,
    pub(super) idle_since: Option<Instant>,
    pub(super) ping_sent: Option<Instant>,
    /// Streams whose calls are over and whose server does not know it yet.
    pub(super) cancelled: CancelledCalls,
}

/// How much of an endpoint's window a call will want.
#[derive(Debug, Clone, Copy)]
pub(super) enum CallSize {
    /// All of its content is here: so many bytes.
    Complete(usize),
    /// The client is still sending.
    Open,
}

impl CallSize {
    pub(super) fn of(call: &Call) -> Self {
        if call.request_ended { Self::Complete(call.body.len()) } else { Self::Open }
    }

    /// Whether it may use the part of a window that is kept for small calls.
    pub(super) fn is_small(self) -> bool {
        matches!(self, Self::Complete(bytes) if bytes <= SMALL_UPLOAD_BYTES)
    }
}

impl Upstream {
    /// Whether a call can go out here now.
    fn has_room(&self, size: CallSize) -> bool {
        let http2 = &self.link.http2;
        let fits = match size {
            CallSize::Complete(bytes) if bytes <= SMALL_UPLOAD_BYTES => http2.send_window_bytes() >= bytes,
            CallSize::Complete(_) | CallSize::Open => http2.send_window_bytes() >= MIN_WINDOW_BYTES,
        };
        self.ready
            && !self.retired
            && http2.takes_streams()
            && http2.stream_count() < http2.peer_settings().max_concurrent_streams as usize
            && http2.pending_output() < OUTPUT_HIGH_WATER_BYTES
            && (fits || http2.stream_count() == 0)
    }
}

impl Worker {
    /// A connection of the endpoint that can take a call now.
    pub(super) fn find_connection(&self, cluster: usize, endpoint: EndpointId, size: CallSize) -> Option<usize> {
        let connections = &self.clusters.get(cluster)?.endpoints.get(&endpoint)?.connections;
        connections
            .iter()
            .copied()
            .find(|&index| self.upstreams.get(index).is_some_and(|upstream| upstream.has_room(size)))
    }

    /// Opens another connection to an endpoint, unless one is being opened or there are enough.
    pub(super) fn connect(&mut self, cluster: usize, endpoint: EndpointId) {
        let now = self.now;
        let Some(state) = self.clusters.get_mut(cluster) else { return };
        let most = usize::from(state.cluster.settings.max_connections_per_endpoint);
        let Some(target) = state.endpoints.get_mut(&endpoint) else { return };
        let backing_off = target.retry_at.is_some_and(|at| now < at);
        if target.connecting || target.connections.len() >= most || backing_off {
            return;
        }
        let address = target.address;
        match TcpStream::connect(address) {
            Ok(socket) => self.add_upstream(cluster, endpoint, address, socket),
            Err(error) => self.connecting_failed(cluster, endpoint, &error.to_string()),
        }
    }

    fn add_upstream(&mut self, cluster: usize, endpoint: EndpointId, address: SocketAddr, socket: TcpStream) {
        let now = self.now;
        let _ = socket.set_nodelay(true);
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 3).with_retries(3);
        let reference = SockRef::from(&socket);
        let _ = reference.set_tcp_keepalive(&keepalive);
        let _ = reference.set_tcp_user_timeout(Some(KEEPALIVE));
        let http2 = Connection::new(Role::Client, self.limits.endpoint.clone(), now);
        let index = self.upstreams.insert(Upstream {
            link: Link::new(socket, http2, now),
            cluster,
            endpoint,
            address,
            connected: false,
            ready: false,
            used: false,
            retired: false,
            idle_since: None,
            ping_sent: None,
            cancelled: CancelledCalls::new(now, &self.limits.relay),
        });
        self.upstream_tcp.opened();
        if let Some(state) = self.endpoint(cluster, endpoint) {
            state.connections.push(index);
            state.connecting = true;
        }
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registered = match self.upstreams.get_mut(index) {
            Some(new) => self.poll.registry().register(&mut new.link.socket, LinkId::endpoint(index).token(), interest),
            None => Ok(()),
        };
        if let Err(error) = registered {
            self.close_upstream(index, &error.to_string());
        }
    }

    /// Called with every event of a connection; `false` when it is not established.
    pub(super) fn finish_connecting(&mut self, index: usize) -> bool {
        let Some(upstream) = self.upstreams.get_mut(index) else { return false };
        if upstream.connected {
            return true;
        }
        if let Some(error) = upstream.link.socket.take_error().ok().flatten() {
            self.close_upstream(index, &error.to_string());
            return false;
        }
        if upstream.link.socket.peer_addr().is_err() {
            return false;
        }
        upstream.connected = true;
        self.mark_dirty(LinkId::endpoint(index));
        true
    }

    /// The server's SETTINGS are there: calls may go out, unless it says that it takes none yet.
    pub(super) fn upstream_ready(&mut self, index: usize) {
        let Some(upstream) = self.upstreams.get_mut(index) else { return };
        if upstream.link.http2.peer_settings().max_concurrent_streams == 0 {
            return;
        }
        if std::mem::replace(&mut upstream.ready, true) {
            return;
        }
        upstream.idle_since = Some(self.now);
        let (cluster, endpoint) = (upstream.cluster, upstream.endpoint);
        if let Some(state) = self.endpoint(cluster, endpoint) {
            state.connecting = false;
            state.failures = 0;
            state.retry_at = None;
        }
    }

    /// Takes a connection out of the pool: it gets no new calls.
    pub(super) fn retire(&mut self, index: usize) {
        let Some(upstream) = self.upstreams.get_mut(index) else { return };
        upstream.retired = true;
        let (cluster, endpoint, ready) = (upstream.cluster, upstream.endpoint, upstream.ready);
        if let Some(state) = self.endpoint(cluster, endpoint) {
            state.connections.retain(|&other| other != index);
            state.connecting &= ready;
        }
    }

    /// A connection has ended: its calls are answered or sent elsewhere.
    pub(super) fn close_upstream(&mut self, index: usize, why: &str) {
        self.retire(index);
        let Some(upstream) = self.upstreams.try_remove(index) else { return };
        self.upstream_tcp.closed(self.now - upstream.link.opened);
        self.burst = true;
        for client in upstream.cancelled.clients() {
            self.cancelled_call_is_over(client);
        }
        let (cluster, endpoint) = (upstream.cluster, upstream.endpoint);
        if !upstream.ready {
            self.connecting_failed(cluster, endpoint, why);
        } else if upstream.link.http2.stream_count() > upstream.cancelled.len() {
            tracing::info!("the connection to {} ended with calls in flight: {why}", upstream.address);
        }
        for (stream, token) in upstream.link.http2.open_streams() {
            if self.call_on(index, stream, token).is_some() {
                self.upstream_lost(token, upstream.address);
            }
        }
    }

    /// Waiting calls go elsewhere, and the endpoint is left alone for a while.
    pub(super) fn connecting_failed(&mut self, cluster: usize, endpoint: EndpointId, why: &str) {
        let random = self.next_random();
        let now = self.now;
        let Some(state) = self.clusters.get_mut(cluster) else { return };
        let Some(target) = state.endpoints.get_mut(&endpoint) else { return };
        target.connecting = false;
        if target.failures == 0 {
            tracing::warn!("cannot connect to {} of {}: {why}", target.address, state.cluster.key);
        }
        target.back_off(now, why.to_owned(), random, &self.limits.relay);
        if target.connections.is_empty() {
            for id in std::mem::take(&mut target.waiting) {
                self.connect_failed_for(id);
            }
        }
    }
}
