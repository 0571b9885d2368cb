//! Connect: opens connections to endpoints on demand, takes them out of their pools, replaces them and ends them.

use std::net::SocketAddr;

use crate::Relay;
use crate::call::reply::ProxyError;
use crate::call::retry::Failure;
use crate::certain::Certain;
use crate::failure::{ConnectionFailure, FailedConnection};
use crate::link::codec::CodecError;
use crate::metrics::{Direction, PeerLabel};
use crate::pool::pools::PoolId;
use crate::pool::upstream::{Upstream, UpstreamId};
use crate::target::cluster::{ClusterId, TargetKey};

/// Whether a server has seen our newest certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum NewestCertificate {
    Unseen,
    /// The server will see it on a connection that is being established.
    Underway,
    Seen,
}

impl Relay {
    /// Opens another connection to an endpoint. Does nothing in these cases:
    ///
    /// - The pool is already opening as many connections as the waiting calls can use.
    /// - The pool has as many connections as its limit allows.
    /// - A connection has failed recently, so the pool pauses. If the pool has no connection left that takes calls, the
    ///   attempts in its queue fail.
    pub(crate) fn connect(&mut self, id: PoolId) {
        let Some(pool) = self.pools.get(id) else { return };
        if pool.is_backing_off(self.now) {
            return self.fail_waiting(id);
        }
        let Some(state) = self.targets.get(pool.cluster).certain() else { return };
        let Some(member) = state.member(pool.key.endpoint).certain() else { return };
        let most = pool.max_connections(&state.cluster.settings, &self.limits.relay);
        let useful = if pool.key.hop.is_shared() { 1 } else { pool.waiting().len() };
        if pool.connecting() >= useful || pool.connections().len() >= most || pool.is_pausing(self.now) {
            return;
        }
        let member = member.clone();
        self.add_upstream(id, &member);
    }

    /// Takes a connection out of the pool, so that it gets no new calls.
    pub fn retire(&mut self, id: UpstreamId) {
        self.pools.retire(id);
    }

    /// Replaces a connection on which we have shown our former certificate. If the connection has streams, opens a new
    /// connection at once, even if the old connection was retired before. The new connection shows our new certificate
    /// to the server before the former certificate expires, so the server does not end the streams of the old
    /// connection. If the new connection fails, the next sweep tries again.
    pub(crate) fn replace_outdated(&mut self, id: UpstreamId) {
        let Some(upstream) = self.pools.upstream(id) else { return };
        let is_used = upstream.link.codec.stream_count() > 0;
        match self.newest_certificate(upstream) {
            NewestCertificate::Seen => {
                self.pools.retire(id);
                if let Some(upstream) = self.pools.upstream_mut(id) {
                    upstream.is_outdated = false;
                }
            }
            NewestCertificate::Unseen if is_used => self.replace(id),
            NewestCertificate::Unseen | NewestCertificate::Underway => self.pools.retire(id),
        }
    }

    /// Returns whether the server of an outdated connection has seen our newest certificate, on another connection.
    fn newest_certificate(&self, outdated: &Upstream) -> NewestCertificate {
        let mut newest = NewestCertificate::Unseen;
        let mut look_at = |upstream: &Upstream| {
            if !upstream.is_outdated {
                newest = newest.max(if upstream.ready { NewestCertificate::Seen } else { NewestCertificate::Underway });
            }
        };
        match self.pools.get(outdated.pool) {
            Some(pool) => pool.connections().iter().filter_map(|id| self.pools.upstream(id)).for_each(look_at),
            // The endpoint has left its cluster. The server may be an endpoint of another cluster, or again of this one.
            None => {
                let same = self.pools.upstreams().filter(|(_, upstream)| upstream.has_server_of(outdated));
                same.for_each(|(_, upstream)| look_at(upstream));
            }
        }
        newest
    }

    /// Records that the server of a connection which is ready has seen the certificate that we have shown on the
    /// connection. Connections whose endpoints have left their clusters need no replacement then.
    pub(crate) fn certificate_was_shown(&mut self, id: UpstreamId) {
        let Some(shown) = self.pools.upstream(id).filter(|upstream| upstream.retired && !upstream.is_outdated) else {
            return;
        };
        let is_same = |(_, upstream): &(UpstreamId, &Upstream)| {
            upstream.is_outdated && upstream.retired && upstream.has_server_of(shown)
        };
        let same: Vec<_> = self.pools.upstreams().filter(is_same).map(|(id, _)| id).collect();
        for id in same {
            if let Some(upstream) = self.pools.upstream_mut(id) {
                upstream.is_outdated = false;
            }
        }
    }

    /// Takes a connection out of its pool, and opens another connection to the same server.
    pub fn replace(&mut self, id: UpstreamId) {
        let Some(pool) = self.pools.upstream(id).map(|upstream| upstream.pool) else { return };
        self.pools.retire(id);
        match self.pools.get(pool) {
            Some(_) => self.connect(pool),
            None => self.open_beside(id),
        }
    }

    /// Marks the connections on which we have shown our former certificate, so that they are replaced.
    pub fn show_new_certificate(&mut self) {
        for upstream in self.pools.upstreams_mut().filter(|upstream| upstream.expected.is_some()) {
            upstream.is_outdated = true;
        }
    }

    /// Removes a connection that has ended. The relay sends its calls to another endpoint, or answers them with an
    /// error.
    pub fn close_upstream(&mut self, id: UpstreamId, why: &str) {
        self.end_upstream(id, &ConnectionFailure::Connect { error: why.to_owned() });
    }

    /// Ends the connection of a server that broke the protocol. The calls that the server was answering fail, and the
    /// error names the violation.
    pub(crate) fn end_violator(&mut self, upstream_id: UpstreamId, error: &CodecError) {
        let Some(upstream) = self.pools.upstream(upstream_id) else { return };
        let (address, codec) = (upstream.address, &upstream.link.codec);
        let mut answering = codec.open_streams();
        answering.retain(|(stream, _)| codec.is_taken_up(*stream));
        let direction = self.direction_to(upstream.cluster);
        let why = || ConnectionFailure::Violation { error: error.to_string() };
        // Do not report a connection that was not ready: `end_upstream` below reports its failure.
        if upstream.ready {
            self.report_server(direction, address, why());
        }
        for (stream, token) in answering {
            if let Some(id) = self.calls.on(upstream_id, stream, token) {
                let error = ProxyError::violation(address, error);
                self.attempt_failed(id, &Failure::Violation(error));
            }
        }
        self.end_upstream(upstream_id, &why());
    }

    /// Returns the direction of connections to the endpoints of a cluster; outbound if the cluster is gone.
    fn direction_to(&self, cluster: ClusterId) -> Direction {
        self.targets.get(cluster).map_or(Direction::Outbound, |state| state.target.direction())
    }

    /// Counts and logs a failure of a connection to a server.
    fn report_server(&mut self, direction: Direction, address: SocketAddr, why: ConnectionFailure) {
        self.metrics.count_failed_connection(direction, why.label());
        let failed = FailedConnection { direction, peer: PeerLabel::Destination, address, why };
        if let Some(line) = self.failures.line(&failed, self.now) {
            tracing::warn!("{line}");
        }
    }

    /// Removes a connection that has ended or cannot be used.
    pub fn end_upstream(&mut self, upstream_id: UpstreamId, why: &ConnectionFailure) {
        let is_beside = |upstream: &Upstream| upstream.retired && self.pools.get(upstream.pool).is_none();
        let is_beside = self.pools.upstream(upstream_id).is_some_and(is_beside);
        let Some(upstream) = self.pools.end(upstream_id) else { return };
        self.release(&upstream.link);
        for client in upstream.cancelled.clients() {
            self.downstreams.cancelled_call_is_over(client);
        }
        if !upstream.ready && is_beside {
            let direction = self.direction_to(upstream.cluster);
            self.report_server(direction, upstream.address, why.clone());
        } else if !upstream.ready && !upstream.has_failed {
            self.connecting_failed(upstream.pool, why);
        } else if upstream.key.hop.is_shared() && upstream.link.codec.stream_count() > upstream.cancelled.len() {
            tracing::info!("the connection to {} ended with calls in flight: {why}", upstream.address);
        }
        for (stream, token) in upstream.link.codec.open_streams() {
            if let Some(id) = self.calls.on(upstream_id, stream, token)
                && let Some(call) = self.calls.get(id.call)
            {
                let failure = Failure::lost(call, &upstream, stream);
                self.attempt_failed(id, &failure);
            }
        }
    }

    /// Handles a failed connection to an endpoint: the pool opens no other connection for a while. If the pool has no
    /// connection left that takes calls, the attempts in its queue fail. Their calls can then go to another endpoint.
    pub(crate) fn connecting_failed(&mut self, id: PoolId, why: &ConnectionFailure) {
        if let ConnectionFailure::NoSocket { error } = why {
            return self.lack_socket(id, error);
        }
        let random = self.random.u64(..);
        let Some(pool) = self.pools.get_mut(id) else { return };
        let Some(cluster) = self.targets.get_mut(pool.cluster).certain() else { return };
        cluster.note_busy();
        let direction = cluster.target.direction();
        self.metrics.count_failed_connection(direction, why.label());
        if pool.failures == 0 {
            let (side, address, target) = (direction.label(), pool.address, &cluster.target);
            tracing::warn!("{side} connection to {address}, for {target}, failed: {why}");
        }
        pool.back_off(self.now, why.to_string(), random, &self.limits.relay);
        let can_serve = pool.connections().can_serve();
        if let TargetKey::Address(address) = cluster.target
            && !can_serve
        {
            self.let_all_dial_again(address);
        }
        if !can_serve {
            self.fail_waiting(id);
        }
    }

    /// Handles a connection for which this proxy could not open a socket. The pool pauses, so that the calls go to
    /// endpoints that have connections. Unlike in [`Relay::connecting_failed`], the endpoint has not failed.
    fn lack_socket(&mut self, id: PoolId, error: &str) {
        let Some(pool) = self.pools.get_mut(id) else { return };
        let Some(cluster) = self.targets.get_mut(pool.cluster).certain() else { return };
        cluster.note_busy();
        pool.lack_socket(self.now, error.to_owned(), &self.limits.relay);
        let (direction, address, can_serve) =
            (cluster.target.direction(), pool.address, pool.connections().can_serve());
        self.report_server(direction, address, ConnectionFailure::NoSocket { error: error.to_owned() });
        if !can_serve {
            self.fail_waiting(id);
        }
    }

    /// Fails the attempts in the queue of a pool whose latest attempt to connect has failed.
    fn fail_waiting(&mut self, id: PoolId) {
        let Some(pool) = self.pools.get_mut(id) else { return };
        let failure = Failure::NotConnected(pool.connect_error());
        for id in pool.take_waiting() {
            self.attempt_failed(id, &failure);
        }
    }
}

#[cfg(test)]
#[path = "connect_tests.rs"]
mod tests;
