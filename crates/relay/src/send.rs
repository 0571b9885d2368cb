//! Send: sends a call to its endpoint over a pooled connection, lets it wait for one, or sends it again to another
//! endpoint.

use std::net::SocketAddr;

use leno_http2::fields::Known;
use leno_http2::limits::DRIBBLE_BYTES;
use leno_http2::{FieldSection, OpenError, Section};
use leno_model::balance::Outcome;

use crate::Relay;
use crate::call::{CallId, Response};
use crate::client::ClientId;
use crate::cluster::ClusterId;
use crate::deadline::time_left;
use crate::grpc;
use crate::hop::{Hop, PoolKey, Protocol};
use crate::link::LinkId;
use crate::record::Ending;
use crate::reply::ProxyError;
use crate::upstream::CallSize;
use crate::upstream::UpstreamId;
use crate::waiting::Turn;

impl Relay {
    /// Sends the calls of this turn. A call that was cancelled before is not sent, so no endpoint learns of it.
    pub fn dispatch(&mut self) {
        while let Some(id) = self.to_send.pop_front() {
            self.send(id);
        }
    }

    fn send(&mut self, id: CallId) {
        let (cluster, key, size) = match self.pick_endpoint(id) {
            Ok(picked) => picked,
            Err(error) => {
                if matches!(error, ProxyError::QueueFull { .. }) {
                    self.metrics.queue_full_total.add(1);
                }
                return self.fail(id, &error);
            }
        };
        match self.find_connection(cluster, key, size).filter(|_| self.next_in_line(cluster, key).is_none()) {
            Some(upstream) => self.open_on(id, upstream),
            None => self.wait_for_connection(id, cluster, key),
        }
    }

    fn wait_for_connection(&mut self, id: CallId, cluster: ClusterId, key: PoolKey) {
        let turn = self.take_turn();
        let Some(call) = self.calls.get_mut(id) else { return };
        call.waiting_at = Some((key, turn));
        call.waiting_since = self.now;
        let is_small = CallSize::of(call).is_small();
        self.metrics.waited_total.add(1);
        if let Some(client) = self.clients.get_mut(call.client) {
            client.waiting_calls += 1;
        }
        if let Some(state) = self.clusters.get_mut(cluster) {
            state.may_be_busy = true;
        }
        let Some(pool) = self.pool_of_member(cluster, key) else { return };
        pool.waiting.join(turn, id, is_small);
        if !std::mem::replace(&mut pool.listed, true) {
            self.waited_for.push((cluster, key));
        }
        self.connect(cluster, key);
    }

    fn take_turn(&mut self) -> Turn {
        self.next_turn += 1;
        Turn(self.next_turn)
    }

    /// Removes a call from the queue of its endpoint, and from its client's share of the queues.
    fn stop_waiting(&mut self, id: CallId) {
        let Some(call) = self.calls.get_mut(id) else { return };
        let (client, cluster, waiting_at) = (call.client, call.cluster, call.waiting_at.take());
        if let (Some(cluster), Some(at)) = (cluster, waiting_at) {
            self.leave_queue(client, cluster, at);
        }
    }

    /// Does the same as [`Self::stop_waiting`] for a call that is over.
    pub(crate) fn leave_queue(&mut self, client: Option<ClientId>, cluster: ClusterId, (key, turn): (PoolKey, Turn)) {
        if let Some(client) = self.clients.get_mut(client) {
            client.waiting_calls = client.waiting_calls.saturating_sub(1);
        }
        if let Some(pool) = self.pool(cluster, key) {
            pool.waiting.leave(turn);
        }
    }

    /// Marks a waiting call as small in its queue, if it is small now that its request has ended.
    pub(crate) fn note_size(&mut self, id: CallId) {
        let Some(call) = self.calls.get(id) else { return };
        let (Some((key, turn)), Some(cluster), true) = (call.waiting_at, call.cluster, CallSize::of(call).is_small())
        else {
            return;
        };
        if let Some(pool) = self.pool(cluster, key) {
            pool.waiting.note_small(turn);
        }
    }

    /// Sends waiting calls as far as connections have room.
    pub fn serve_waiting(&mut self) {
        if self.waited_for.is_empty() {
            return;
        }
        for (cluster, key) in std::mem::take(&mut self.waited_for) {
            let all_served = self.serve_pool(cluster, key);
            if let Some(pool) = self.pool(cluster, key) {
                pool.listed = !all_served;
                pool.wait_is_told &= !all_served;
                if !all_served {
                    self.waited_for.push((cluster, key));
                }
            }
        }
    }

    fn serve_pool(&mut self, cluster: ClusterId, key: PoolKey) -> bool {
        while let Some((turn, id, upstream)) = self.next_in_line(cluster, key) {
            self.stop_waiting(id);
            // Remove the entry even if the call does not know that it waits here, so that this loop ends.
            if let Some(pool) = self.pool(cluster, key) {
                pool.waiting.leave(turn);
            }
            self.open_on(id, upstream);
        }
        let all_served = self.first_waiting(cluster, key).is_none();
        if !all_served {
            self.connect(cluster, key);
        }
        all_served
    }

    /// Returns the waiting call that can be sent now, and the connection for it: the first call, or the first small
    /// call if the first one needs a larger flow-control window than there is.
    fn next_in_line(&self, cluster: ClusterId, key: PoolKey) -> Option<(Turn, CallId, UpstreamId)> {
        let waiting = &self.clusters.get(cluster)?.pools.get(&key)?.waiting;
        let size_of = |id: CallId| self.calls.get(id).map_or(CallSize::Open, CallSize::of);
        let connected = |(turn, id)| Some((turn, id, self.find_connection(cluster, key, size_of(id))?));
        let first = waiting.first()?;
        connected(first).or_else(|| connected(waiting.first_small().filter(|small| *small != first)?))
    }

    /// The call at the head of an endpoint's queue.
    pub(crate) fn first_waiting(&mut self, cluster: ClusterId, key: PoolKey) -> Option<CallId> {
        self.pool(cluster, key)?.waiting.first().map(|(_, id)| id)
    }

    /// Opens the call's stream, and sends the part of the request that has arrived.
    fn open_on(&mut self, id: CallId, upstream_id: UpstreamId) {
        let now = self.now;
        let (Some(call), Some(upstream)) = (self.calls.get_mut(id), self.upstreams.get_mut(upstream_id)) else {
            return;
        };
        let limit_bytes = upstream.link.codec.max_request_bytes();
        if call.request.list_size() > limit_bytes as usize {
            return self.fail(id, &ProxyError::HeaderListTooLarge { limit_bytes });
        }
        if let Some(time_left) = time_left(call, now) {
            call.request.set(Known::GrpcTimeout, grpc::format_timeout(time_left).as_bytes());
        }
        let hop = upstream.key.hop;
        hop.dress(&mut call.request, call.protocol, upstream.target);
        if hop == Hop::Plain(Protocol::Http1)
            && let Err(why) = leno_http1::check_request(&call.request)
        {
            return self.fail(id, &ProxyError::Unwritable(why));
        }
        let ends_with_body = call.request_ended && call.trailers.is_none();
        let codec = &mut upstream.link.codec;
        let stream = match codec.open(now, id.place(), &call.request, ends_with_body && call.body.is_empty()) {
            Ok(stream) => stream,
            Err(OpenError::StreamLimit | OpenError::Closed) => return self.send_again(id),
        };
        upstream.idle_since = None;
        upstream.calls += 1;
        call.upstream = Some((upstream_id, stream));
        call.sent_at = now;
        call.sent = 0;
        let (is_routed, is_mirror) = (call.route.is_some(), call.is_mirror());
        let is_short = (1..DRIBBLE_BYTES).contains(&call.body.len()) && !call.request_ended;
        let short_body = if is_short { call.body.clone() } else { Vec::new() };
        let taken = match call.body.is_empty() || is_short {
            true => 0,
            false => codec.send_data(stream, &call.body, ends_with_body),
        };
        call.trailers_sent_bytes = 0;
        if let Some(trailers) = &call.trailers {
            codec.send_headers(stream, Section::Trailers, trailers, true);
            let bytes = trailers.list_size();
            if taken < call.body.len() {
                call.trailers_wait(bytes);
            }
        }
        let (kept_bytes, has_trailers) = (call.body.len(), call.trailers.is_some());
        // The codec of an opaque connection creates the response itself, when the connection is read next.
        let answers_itself = codec.is_opaque();
        if has_trailers {
            self.count_fields(id);
        }
        if is_routed {
            self.calls.begin_attempt(id, now);
        }
        self.note_room(upstream_id);
        self.mark_dirty(LinkId::Endpoint(upstream_id));
        if answers_itself {
            self.read_on(LinkId::Endpoint(upstream_id));
        }
        if is_short {
            self.send_short_body(id, upstream_id, stream, &short_body);
        }
        if taken > 0 {
            self.request_bytes_sent(id, taken);
        }
        // A mirrored copy is sent only once.
        if is_mirror || !self.may_keep(kept_bytes, 0) {
            self.stop_replay(id);
        }
    }

    /// Takes a call back from an endpoint that has processed nothing of it, or from a queue, and sends it elsewhere.
    pub(crate) fn send_again(&mut self, id: CallId) {
        self.send_elsewhere(id, Outcome::NotSent);
    }

    /// Does the same as [`Self::send_again`]; the balancer records `outcome` for the endpoint that had the call.
    fn send_elsewhere(&mut self, id: CallId, outcome: Outcome) {
        if let Some(attempts) = self.take_back(id, outcome) {
            self.fail(id, &ProxyError::TooManyAttempts { attempts });
        }
    }

    /// Handles a call that waited for a connection which could not be opened: sends it elsewhere, or answers it with
    /// the error.
    pub(crate) fn connect_failed_for(&mut self, id: CallId) {
        let Some(call) = self.calls.get(id) else { return };
        let latency = self.now - call.waiting_since;
        if self.take_back(id, Outcome::Failure { latency, pushback: None }).is_some() {
            let error = self.last_connect_error(id);
            self.fail(id, &error);
        }
    }

    /// Takes a call back from the endpoint that had it, and lists the call to be sent again. If the call has no
    /// attempts left, returns the number of its attempts instead.
    fn take_back(&mut self, id: CallId, outcome: Outcome) -> Option<u32> {
        let call = self.calls.get_mut(id)?;
        if let (Some(pick), Some(cluster)) = (call.pick.take(), self.clusters.get_mut(call.cluster)) {
            call.tried.push(pick.endpoint);
            cluster.balancer.finish(self.now, pick, outcome);
        }
        call.upstream = None;
        let attempts = call.attempts;
        self.stop_waiting(id);
        self.calls.end_attempt(id);
        if attempts >= self.limits.relay.max_attempts {
            return Some(attempts);
        }
        self.to_send.push_back(id);
        None
    }

    fn last_connect_error(&self, id: CallId) -> ProxyError {
        let call = self.calls.get(id);
        let cluster = call.and_then(|call| call.cluster).and_then(|id| self.clusters.get(id));
        let failed = call.and_then(|call| call.tried.last()).zip(cluster);
        let pool = failed.and_then(|(&endpoint, cluster)| cluster.pools_of(endpoint).find(|pool| pool.failures > 0));
        match pool {
            Some(pool) => ProxyError::Connect { endpoint: pool.address, why: pool.last_error.clone() },
            None => ProxyError::NoRoute("the Service has been removed".to_owned()),
        }
    }

    /// Handles a call whose stream the server has certainly not processed: sends it to another endpoint if possible,
    /// else fails it.
    pub(crate) fn not_processed(&mut self, upstream: UpstreamId, id: CallId, outcome: Outcome) {
        let Some(address) = self.upstreams.get(upstream).map(|upstream| upstream.address) else { return };
        let max_attempts = self.limits.relay.max_attempts;
        let Some(call) = self.calls.get(id) else { return };
        if call.can_be_resent(max_attempts) {
            self.metrics.resent_total.add(1);
            self.send_elsewhere(id, outcome);
        } else {
            self.fail(id, &ProxyError::Refused { endpoint: address });
        }
    }

    /// Handles a call whose connection was lost. A server may close a used HTTP/1 connection at any moment, even while
    /// the next request is on its way. So a request that may be repeated is sent again (RFC 9110 section 9.2.2).
    pub(crate) fn upstream_lost(&mut self, id: CallId, endpoint: SocketAddr, was_used: bool) {
        let Some(call) = self.calls.get_mut(id) else { return };
        call.upstream = None;
        if call.response == Response::Ended {
            let (client, client_stream) = (call.client, call.client_stream);
            self.stop_client(client, client_stream);
            return self.end_call(id, Ending::Complete);
        }
        let max_attempts = self.limits.relay.max_attempts;
        if was_used
            && call.protocol == Protocol::Http1
            && is_idempotent(&call.request)
            && call.can_be_resent(max_attempts)
        {
            self.metrics.resent_total.add(1);
            return self.send_again(id);
        }
        self.fail(id, &ProxyError::ConnectionClosed { endpoint });
    }
}

/// Returns whether a request may be repeated (RFC 9110 section 9.2.2).
fn is_idempotent(request: &FieldSection) -> bool {
    let method = request.get(Known::Method).unwrap_or_default();
    matches!(method, b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE" | b"PUT" | b"DELETE")
        && !request.contains(Known::LenoUpgrade)
}
