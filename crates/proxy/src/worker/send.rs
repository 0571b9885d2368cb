//! Send: sends a call to its endpoint over a pooled connection, lets it wait for one, or sends it again to another
//! endpoint.

use std::net::SocketAddr;

use leno_http2::fields::Known;
use leno_http2::limits::DRIBBLE_BYTES;
use leno_http2::{FieldSection, OpenError, Section, StreamKey};
use leno_model::balance::Outcome;

use super::Worker;
use super::call::{CallId, Response};
use super::grpc;
use super::hop::{Hop, PoolKey, Protocol};
use super::link::LinkId;
use super::record::Ending;
use super::reply::ProxyError;
use super::upstream::CallSize;
use super::waiting::Turn;

impl Worker {
    /// Sends the calls of this turn. A call that was cancelled before is not sent, so no endpoint learns of it.
    pub(super) fn dispatch(&mut self) {
        while let Some(id) = self.to_send.pop_front() {
            self.send(id);
        }
    }

    pub(super) fn call_exists(&self, id: CallId) -> bool {
        self.calls.get(id.slot as usize).is_some_and(|call| call.serial == id.serial)
    }

    fn send(&mut self, id: CallId) {
        if !self.call_exists(id) {
            return;
        }
        let key = match self.pick_endpoint(id.slot) {
            Ok(key) => key,
            Err(error) => {
                if matches!(error, ProxyError::QueueFull { .. }) {
                    self.metrics.queue_full_total.add(1);
                }
                return self.fail(id.slot, &error);
            }
        };
        let Some(call) = self.calls.get_mut(id.slot as usize) else { return };
        let (Some(cluster), size) = (call.cluster, CallSize::of(call)) else { return };
        call.attempts += 1;
        match self.find_connection(cluster, key, size).filter(|_| self.next_in_line(cluster, key).is_none()) {
            Some(upstream) => self.open_on(id, upstream),
            None => self.wait_for_connection(id, cluster, key),
        }
    }

    fn wait_for_connection(&mut self, id: CallId, cluster: usize, key: PoolKey) {
        let turn = Turn(self.take_serial());
        let Some(call) = self.calls.get_mut(id.slot as usize) else { return };
        call.waiting_at = Some((key, turn));
        call.waiting_since = self.now;
        let is_small = CallSize::of(call).is_small();
        self.metrics.waited_total.add(1);
        if let Some(client) = self.clients.get_mut(call.client) {
            client.waiting_calls += 1;
        }
        let Some(pool) = self.pool_of_member(cluster, key) else { return };
        pool.waiting.join(turn, id, is_small);
        if !std::mem::replace(&mut pool.listed, true) {
            self.waited_for.push((cluster, key));
        }
        self.connect(cluster, key);
    }

    /// Removes a call from the queue of its endpoint, and from its client's share of the queues.
    pub(super) fn stop_waiting(&mut self, slot: u32) {
        let Some(call) = self.calls.get_mut(slot as usize) else { return };
        let Some((key, turn)) = call.waiting_at.take() else { return };
        let (client, cluster) = (call.client, call.cluster);
        if let Some(client) = self.clients.get_mut(client) {
            client.waiting_calls = client.waiting_calls.saturating_sub(1);
        }
        if let Some(pool) = cluster.and_then(|cluster| self.pool(cluster, key)) {
            pool.waiting.leave(turn);
        }
    }

    /// Marks a waiting call as small in its queue, if it is small now that its request has ended.
    pub(super) fn note_size(&mut self, slot: u32) {
        let Some(call) = self.calls.get(slot as usize) else { return };
        let (Some((key, turn)), Some(cluster), true) = (call.waiting_at, call.cluster, CallSize::of(call).is_small())
        else {
            return;
        };
        if let Some(pool) = self.pool(cluster, key) {
            pool.waiting.note_small(turn);
        }
    }

    /// Sends waiting calls as far as connections have room.
    pub(super) fn serve_waiting(&mut self) {
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

    fn serve_pool(&mut self, cluster: usize, key: PoolKey) -> bool {
        while let Some((turn, id, upstream)) = self.next_in_line(cluster, key) {
            self.stop_waiting(id.slot);
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
    fn next_in_line(&self, cluster: usize, key: PoolKey) -> Option<(Turn, CallId, usize)> {
        let waiting = &self.clusters.get(cluster)?.pools.get(&key)?.waiting;
        let size_of = |id: CallId| self.calls.get(id.slot as usize).map_or(CallSize::Open, CallSize::of);
        let connected = |(turn, id)| Some((turn, id, self.find_connection(cluster, key, size_of(id))?));
        let first = waiting.first()?;
        connected(first).or_else(|| connected(waiting.first_small().filter(|small| *small != first)?))
    }

    /// The call at the head of an endpoint's queue.
    pub(super) fn first_waiting(&mut self, cluster: usize, key: PoolKey) -> Option<CallId> {
        self.pool(cluster, key)?.waiting.first().map(|(_, id)| id)
    }

    /// Opens the call's stream, and sends the part of the request that has arrived.
    fn open_on(&mut self, id: CallId, index: usize) {
        let now = self.now;
        let (Some(call), Some(upstream)) = (self.calls.get(id.slot as usize), self.upstreams.get_mut(index)) else {
            return;
        };
        let limit_bytes = upstream.link.codec.max_request_bytes();
        if call.request.list_size() > limit_bytes as usize {
            return self.fail(id.slot, &ProxyError::HeaderListTooLarge { limit_bytes });
        }
        let (time_left, is_mirror) = (self.time_left(call).map(grpc::format_timeout), call.is_mirror());
        let (Some(call), Some(upstream)) = (self.calls.get_mut(id.slot as usize), self.upstreams.get_mut(index)) else {
            return;
        };
        if let Some(time_left) = time_left {
            call.request.set(Known::GrpcTimeout, time_left.as_bytes());
        }
        let hop = upstream.key.hop;
        hop.dress(&mut call.request, call.protocol, upstream.target);
        if hop == Hop::Plain(Protocol::Http1)
            && let Err(why) = leno_http1::check_request(&call.request)
        {
            return self.fail(id.slot, &ProxyError::Unwritable(why));
        }
        let ends_with_body = call.request_ended && call.trailers.is_none();
        let codec = &mut upstream.link.codec;
        let stream = match codec.open(now, id.slot, &call.request, ends_with_body && call.body.is_empty()) {
            Ok(stream) => stream,
            Err(OpenError::StreamLimit | OpenError::Closed) => return self.send_again(id),
        };
        upstream.idle_since = None;
        upstream.calls += 1;
        call.upstream = Some((index, stream));
        call.sent_at = now;
        call.sent = 0;
        let is_routed = call.route.is_some();
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
            self.count_fields(id.slot);
        }
        if is_routed {
            self.begin_attempt(id);
        }
        self.note_room(index);
        self.mark_dirty(LinkId::endpoint(index));
        if answers_itself {
            self.mark_unfinished(LinkId::endpoint(index));
        }
        if is_short {
            self.send_short_body(id.slot, index, stream, &short_body);
        }
        self.request_bytes_sent(id.slot, taken);
        // A mirrored copy is sent only once.
        if is_mirror || !self.may_keep(kept_bytes, 0) {
            self.stop_replay(id.slot);
        }
    }

    /// Takes a call back from an endpoint that has processed nothing of it, or from a queue, and sends it elsewhere.
    pub(super) fn send_again(&mut self, id: CallId) {
        self.send_elsewhere(id, Outcome::NotSent);
    }

    /// Does the same as [`Self::send_again`]; the balancer records `outcome` for the endpoint that had the call.
    fn send_elsewhere(&mut self, id: CallId, outcome: Outcome) {
        if let Some(attempts) = self.take_back(id, outcome) {
            self.fail(id.slot, &ProxyError::TooManyAttempts { attempts });
        }
    }

    /// Handles a call that waited for a connection which could not be opened: sends it elsewhere, or answers it with
    /// the error.
    pub(super) fn connect_failed_for(&mut self, id: CallId) {
        let Some(call) = self.calls.get(id.slot as usize) else { return };
        let latency = self.now - call.waiting_since;
        if self.take_back(id, Outcome::Failure { latency, pushback: None }).is_some() {
            let error = self.last_connect_error(id.slot);
            self.fail(id.slot, &error);
        }
    }

    /// Takes a call back from the endpoint that had it, and lists the call to be sent again. If the call has no
    /// attempts left, returns the number of its attempts instead.
    fn take_back(&mut self, id: CallId, outcome: Outcome) -> Option<u32> {
        let call = self.calls.get_mut(id.slot as usize).filter(|call| call.serial == id.serial)?;
        if let (Some(pick), Some(cluster)) = (call.pick.take(), call.cluster.and_then(|i| self.clusters.get_mut(i))) {
            call.tried.push(pick.endpoint);
            cluster.balancer.finish(self.now, pick, outcome);
        }
        call.upstream = None;
        let attempts = call.attempts;
        self.stop_waiting(id.slot);
        self.end_attempt(id.slot);
        if attempts >= self.limits.relay.max_attempts {
            return Some(attempts);
        }
        self.to_send.push_back(id);
        None
    }

    fn last_connect_error(&self, slot: u32) -> ProxyError {
        let call = self.calls.get(slot as usize);
        let cluster = call.and_then(|call| call.cluster).and_then(|index| self.clusters.get(index));
        let failed = call.and_then(|call| call.tried.last()).zip(cluster);
        let pool = failed.and_then(|(&endpoint, cluster)| cluster.pools_of(endpoint).find(|pool| pool.failures > 0));
        match pool {
            Some(pool) => ProxyError::Connect { endpoint: pool.address, why: pool.last_error.clone() },
            None => ProxyError::NoRoute("the Service has been removed".to_owned()),
        }
    }

    /// Handles a call whose stream the server has certainly not processed: sends it to another endpoint if possible,
    /// else fails it.
    pub(super) fn not_processed(&mut self, upstream: usize, stream: StreamKey, token: u32, outcome: Outcome) {
        let Some(address) = self.upstreams.get(upstream).map(|upstream| upstream.address) else { return };
        let max_attempts = self.limits.relay.max_attempts;
        let Some(call) = self.calls.get(token as usize).filter(|call| call.upstream == Some((upstream, stream))) else {
            return;
        };
        if call.can_be_resent(max_attempts) {
            let id = CallId { slot: token, serial: call.serial };
            self.metrics.resent_total.add(1);
            self.send_elsewhere(id, outcome);
        } else {
            self.fail(token, &ProxyError::Refused { endpoint: address });
        }
    }

    /// Handles a call whose connection was lost. A server may close a used HTTP/1 connection at any moment, even while
    /// the next request is on its way. So a request that may be repeated is sent again (RFC 9110 section 9.2.2).
    pub(super) fn upstream_lost(&mut self, slot: u32, endpoint: SocketAddr, was_used: bool) {
        let Some(call) = self.calls.get_mut(slot as usize) else { return };
        call.upstream = None;
        if call.response == Response::Ended {
            let (client, client_stream) = (call.client, call.client_stream);
            self.stop_client(client, client_stream);
            return self.end_call(slot, Ending::Complete);
        }
        let max_attempts = self.limits.relay.max_attempts;
        if was_used
            && call.protocol == Protocol::Http1
            && is_idempotent(&call.request)
            && call.can_be_resent(max_attempts)
        {
            let id = CallId { slot, serial: call.serial };
            self.metrics.resent_total.add(1);
            return self.send_again(id);
        }
        self.fail(slot, &ProxyError::ConnectionClosed { endpoint });
    }
}

/// Returns whether a request may be repeated (RFC 9110 section 9.2.2).
fn is_idempotent(request: &FieldSection) -> bool {
    let method = request.get(Known::Method).unwrap_or_default();
    matches!(method, b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE" | b"PUT" | b"DELETE")
        && !request.contains(Known::LenoUpgrade)
}
