//! The pool: a worker's connections to endpoints, opened on demand, closed when idle, shared by all clients.

use std::net::SocketAddr;

use crate::Relay;
use crate::cluster::ClusterId;
use crate::codec::CodecError;
use crate::effect::Effect;
use crate::failure::{ConnectionFailure, FailedConnection};
use crate::hop::PoolKey;
use crate::metrics::{Direction, Peer};
use crate::reply::ProxyError;
use crate::retry::Failure;
use crate::upstream::{CallSize, UpstreamId};

impl Relay {
    /// Returns a connection of the pool that can accept a call now.
    pub(crate) fn find_connection(&self, cluster: ClusterId, key: PoolKey, size: CallSize) -> Option<UpstreamId> {
        let connections = &self.clusters.get(cluster)?.pools.get(&key)?.connections;
        let has_room = |&id: &UpstreamId| self.upstreams.get(id).is_some_and(|upstream| upstream.has_room(size));
        // The oldest shared connection with room gets the call, so that the others become idle.
        if key.hop.is_shared() { connections.iter().find(has_room) } else { connections.free().find(has_room) }
    }

    /// Records whether a connection is free now. Does nothing if the connection can carry several calls at a time.
    #[inline]
    pub(crate) fn note_room(&mut self, id: UpstreamId) {
        if self.upstreams.get(id).is_some_and(|upstream| !upstream.key.hop.is_shared()) {
            self.note_unshared_room(id);
        }
    }

    fn note_unshared_room(&mut self, id: UpstreamId) {
        let Some(upstream) = self.upstreams.get(id) else { return };
        let (cluster, key, is_free) = (upstream.cluster, upstream.key, upstream.has_room(CallSize::Open));
        if let Some(pool) = self.pool(cluster, key) {
            pool.connections.set_free(id, is_free);
        }
    }

    /// Opens another connection to an endpoint, unless as many are being opened as the waiting calls can use, the limit
    /// is reached, or the last attempt has failed recently.
    pub(crate) fn connect(&mut self, cluster: ClusterId, key: PoolKey) {
        let now = self.now;
        let most_unshared = self.limits.relay.max_unshared_connections_per_endpoint as usize;
        let Some(state) = self.clusters.get(cluster) else { return };
        let (Some(pool), Some(member)) = (state.pools.get(&key), state.member(key.endpoint)) else { return };
        let (most, useful) = match key.hop.is_shared() {
            true => (usize::from(state.cluster.settings.max_connections_per_endpoint), 1),
            false => (most_unshared, pool.waiting.len()),
        };
        let backing_off = pool.retry_at.is_some_and(|at| now < at);
        if pool.connecting >= useful || pool.connections.len() >= most || backing_off {
            return;
        }
        let (address, member) = (pool.address, member.clone());
        self.add_upstream(cluster, key, address, &member);
    }

    /// Takes a connection out of the pool, so that it gets no new calls.
    pub fn retire(&mut self, id: UpstreamId) {
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        upstream.retired = true;
        let (cluster, key, ready) = (upstream.cluster, upstream.key, upstream.ready);
        if let Some(pool) = self.pool(cluster, key)
            && pool.connections.remove(id)
        {
            pool.connecting = pool.connecting.saturating_sub(usize::from(!ready));
        }
    }

    /// Replaces a connection on which we have shown an old certificate. If it has streams, opens a new connection at
    /// once, even if the old one was retired before. So the server sees the new certificate before the old one expires,
    /// and keeps the streams.
    pub(crate) fn replace_outdated(&mut self, id: UpstreamId) {
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        upstream.is_outdated = false;
        let is_used = upstream.link.codec.stream_count() > 0;
        let (cluster, key) = (upstream.cluster, upstream.key);
        self.retire(id);
        if is_used {
            self.connect(cluster, key);
        }
    }

    /// Takes a connection out of the pool, and opens another one.
    pub fn replace(&mut self, id: UpstreamId) {
        let Some(upstream) = self.upstreams.get(id) else { return };
        let (cluster, key) = (upstream.cluster, upstream.key);
        self.retire(id);
        self.connect(cluster, key);
    }

    /// Replaces the connections on which we have shown our former certificate.
    pub fn show_new_certificate(&mut self) {
        for (_, upstream) in self.upstreams.iter_mut().filter(|(_, upstream)| upstream.expected.is_some()) {
            upstream.is_outdated = true;
        }
    }

    /// Removes a connection that has ended. Its calls are answered, or sent to another endpoint.
    pub fn close_upstream(&mut self, id: UpstreamId, why: &str) {
        self.end_upstream(id, &ConnectionFailure::Connect { error: why.to_owned() });
    }

    /// Ends the connection of a server that broke the protocol: the calls that it was answering fail with the reason.
    pub(crate) fn end_violator(&mut self, upstream_id: UpstreamId, error: &CodecError) {
        let Some(upstream) = self.upstreams.get(upstream_id) else { return };
        let (address, codec) = (upstream.address, &upstream.link.codec);
        let mut answering = codec.open_streams();
        answering.retain(|(stream, _)| codec.is_taken_up(*stream));
        let direction =
            self.clusters.get(upstream.cluster).map_or(Direction::Outbound, |state| state.target.direction());
        let why = || ConnectionFailure::Violation { error: error.to_string() };
        // If the connection was not ready, `end_upstream` below reports its failure, with the calls that wait for it.
        if upstream.ready {
            self.report_server(direction, address, why());
        }
        for (stream, token) in answering {
            if let Some(id) = self.calls.on(upstream_id, stream, token) {
                let error = ProxyError::violation(address, error);
                self.attempt_failed(id, Failure::Violation(error));
            }
        }
        self.end_upstream(upstream_id, &why());
    }

    /// Counts and logs a failure of a server's connection.
    fn report_server(&mut self, direction: Direction, address: SocketAddr, why: ConnectionFailure) {
        self.metrics.count_failed_connection(direction, why.label());
        let failed = FailedConnection { direction, peer: Peer::Destination, address, why };
        if let Some(line) = self.failures.line(&failed, self.now) {
            tracing::warn!("{line}");
        }
    }

    /// Removes a connection that has ended or cannot be used.
    pub fn end_upstream(&mut self, upstream_id: UpstreamId, why: &ConnectionFailure) {
        self.retire(upstream_id);
        let Some(upstream) = self.upstreams.remove(upstream_id) else { return };
        self.discharge(&upstream.link);
        self.effects.extend(upstream.link.wire.map(Effect::Close));
        for client in upstream.cancelled.clients() {
            self.cancelled_call_is_over(client);
        }
        let (cluster, key) = (upstream.cluster, upstream.key);
        if !upstream.ready {
            self.connecting_failed(cluster, key, why);
        } else if key.hop.is_shared() && upstream.link.codec.stream_count() > upstream.cancelled.len() {
            tracing::info!("the connection to {} ended with calls in flight: {why}", upstream.address);
        }
        for (stream, token) in upstream.link.codec.open_streams() {
            if let Some(id) = self.calls.on(upstream_id, stream, token) {
                self.attempt_failed(id, Failure::Lost { endpoint: upstream.address, was_used: upstream.calls > 1 });
            }
        }
    }

    /// Handles a failed connection to an endpoint: no other is opened for a while. If the pool has no connection left,
    /// its waiting calls are sent elsewhere.
    pub(crate) fn connecting_failed(&mut self, cluster: ClusterId, key: PoolKey, why: &ConnectionFailure) {
        let random = self.random.u64(..);
        let now = self.now;
        let Some(state) = self.clusters.get_mut(cluster) else { return };
        state.may_be_busy = true;
        let Some(pool) = state.pools.get_mut(&key) else { return };
        let direction = state.target.direction();
        self.metrics.count_failed_connection(direction, why.label());
        if pool.failures == 0 {
            let (side, address, target) = (direction.label(), pool.address, &state.target);
            tracing::warn!("{side} connection to {address}, for {target}, failed: {why}");
        }
        let (endpoint, why) = (pool.address, why.to_string());
        pool.back_off(now, why.clone(), random, &self.limits.relay);
        if pool.connections.is_empty() {
            for id in std::mem::take(&mut pool.waiting).into_attempts() {
                self.attempt_failed(id, Failure::NotConnected { endpoint, why: why.clone() });
            }
        }
    }
}
