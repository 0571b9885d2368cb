//! Send: begins an attempt at a call, and sends it to its endpoint over a pooled connection, or lets it wait for one.

use leno_http2::fields::Known;
use leno_http2::limits::DRIBBLE_BYTES;
use leno_http2::{OpenError, Section};

use crate::Relay;
use crate::attempt::{AttemptId, Stage};
use crate::call::CallId;
use crate::client::ClientId;
use crate::cluster::ClusterId;
use crate::deadline::time_left;
use crate::grpc;
use crate::hop::{Hop, PoolKey, Protocol};
use crate::link::LinkId;
use crate::reply::ProxyError;
use crate::retry::Failure;
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
        let (attempt, cluster, key, size) = match self.begin_attempt(id) {
            Ok(begun) => begun,
            Err(error) => {
                if matches!(error, ProxyError::QueueFull { .. }) {
                    self.metrics.queue_full_total.add(1);
                }
                return self.fail(id, &error);
            }
        };
        match self.find_connection(cluster, key, size).filter(|_| self.next_in_line(cluster, key).is_none()) {
            Some(upstream) => self.open_on(attempt, upstream),
            None => self.wait_for_connection(attempt, cluster, key),
        }
    }

    fn wait_for_connection(&mut self, id: AttemptId, cluster: ClusterId, key: PoolKey) {
        let turn = self.take_turn();
        let Some(call) = self.calls.get_mut(id.call) else { return };
        let Some(attempt) = call.attempts.get_mut(id) else { return };
        attempt.stage = Stage::Waiting(turn);
        attempt.since = self.now;
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

    /// Removes an attempt from the queue of its endpoint if it waits there, and its call from its client's share of the
    /// queues.
    pub(crate) fn leave_queue(&mut self, id: AttemptId) {
        let Some(call) = self.calls.get_mut(id.call) else { return };
        let Some(attempt) = call.attempts.get_mut(id) else { return };
        let Stage::Waiting(turn) = attempt.stage else { return };
        attempt.stage = Stage::Chosen;
        let (client, cluster, key) = (call.client, call.cluster, attempt.pool);
        self.give_up_turn(client, cluster, key, turn);
    }

    /// Does the same as [`Self::leave_queue`] for an attempt at a call that is over.
    pub(crate) fn give_up_turn(
        &mut self,
        client: Option<ClientId>,
        cluster: Option<ClusterId>,
        key: PoolKey,
        turn: Turn,
    ) {
        if let Some(client) = self.clients.get_mut(client) {
            client.waiting_calls = client.waiting_calls.saturating_sub(1);
        }
        if let Some(pool) = cluster.and_then(|cluster| self.pool(cluster, key)) {
            pool.waiting.leave(turn);
        }
    }

    /// Marks a waiting call as small in its queue, if it is small now that its request has ended.
    pub(crate) fn note_size(&mut self, id: CallId) {
        let Some(call) = self.calls.get(id) else { return };
        let (Some(cluster), true) = (call.cluster, CallSize::of(call).is_small()) else { return };
        for attempt in call.attempts.iter() {
            let Stage::Waiting(turn) = attempt.stage else { continue };
            let pool = self.clusters.get_mut(cluster).and_then(|state| state.pools.get_mut(&attempt.pool));
            if let Some(pool) = pool {
                pool.waiting.note_small(turn);
            }
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
            self.leave_queue(id);
            // Remove the entry even if the attempt does not know that it waits here, so that this loop ends.
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
    fn next_in_line(&self, cluster: ClusterId, key: PoolKey) -> Option<(Turn, AttemptId, UpstreamId)> {
        let waiting = &self.clusters.get(cluster)?.pools.get(&key)?.waiting;
        let size_of = |id: AttemptId| self.calls.get(id.call).map_or(CallSize::Open, CallSize::of);
        let connected = |(turn, id)| Some((turn, id, self.find_connection(cluster, key, size_of(id))?));
        let first = waiting.first()?;
        connected(first).or_else(|| connected(waiting.first_small().filter(|small| *small != first)?))
    }

    /// The call at the head of an endpoint's queue.
    pub(crate) fn first_waiting(&mut self, cluster: ClusterId, key: PoolKey) -> Option<AttemptId> {
        self.pool(cluster, key)?.waiting.first().map(|(_, id)| id)
    }

    /// Opens the stream of an attempt, and sends the part of the request that has arrived.
    fn open_on(&mut self, id: AttemptId, upstream_id: UpstreamId) {
        let now = self.now;
        let (Some(call), Some(upstream)) = (self.calls.get_mut(id.call), self.upstreams.get_mut(upstream_id)) else {
            return;
        };
        let limit_bytes = upstream.link.codec.max_request_bytes();
        if call.request.list_size() > limit_bytes as usize {
            return self.fail(id.call, &ProxyError::HeaderListTooLarge { limit_bytes });
        }
        if let Some(time_left) = time_left(call, now) {
            call.request.set(Known::GrpcTimeout, grpc::format_timeout(time_left).as_bytes());
        }
        let hop = upstream.key.hop;
        hop.dress(&mut call.request, call.protocol, upstream.target);
        if hop == Hop::Plain(Protocol::Http1)
            && let Err(why) = leno_http1::check_request(&call.request)
        {
            return self.fail(id.call, &ProxyError::Unwritable(why));
        }
        let ends_with_body = call.request_ended && call.trailers.is_none();
        let codec = &mut upstream.link.codec;
        let stream = match codec.open(now, id.call.place(), &call.request, ends_with_body && call.body.is_empty()) {
            Ok(stream) => stream,
            Err(OpenError::StreamLimit | OpenError::Closed) => return self.attempt_failed(id, Failure::NotSent),
        };
        upstream.idle_since = None;
        upstream.calls += 1;
        let (is_routed, is_mirror) = (call.route.is_some(), call.is_mirror());
        let Some(attempt) = call.attempts.get_mut(id) else { return };
        attempt.stage = Stage::Sent(upstream_id, stream);
        attempt.since = now;
        let is_short = (1..DRIBBLE_BYTES).contains(&call.body.len()) && !call.request_ended;
        let short_body = if is_short { call.body.clone() } else { Vec::new() };
        let taken = match call.body.is_empty() || is_short {
            true => 0,
            false => codec.send_data(stream, &call.body, ends_with_body),
        };
        if let Some(trailers) = &call.trailers {
            codec.send_headers(stream, Section::Trailers, trailers, true);
            let bytes = trailers.list_size();
            if taken < call.body.len() {
                attempt.trailers_wait(bytes);
            }
        }
        let (kept_bytes, has_trailers) = (call.body.len(), call.trailers.is_some());
        // The codec of an opaque connection creates the response itself, when the connection is read next.
        let answers_itself = codec.is_opaque();
        if has_trailers {
            self.count_fields(id.call);
        }
        if is_routed {
            self.calls.limit_attempt(id, now);
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
            self.stop_replay(id.call);
        }
    }
}
