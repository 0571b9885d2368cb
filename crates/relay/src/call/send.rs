//! Send: sends an attempt to its endpoint over a pooled connection, or lets it wait for a connection.

use leno_http1::Unwritable;
use leno_http2::Section;
use leno_http2::fields::{Defects, Known};
use leno_http2::limits::DRIBBLE_BYTES;
use leno_http2::syntax;

use crate::Relay;
use crate::call::attempt::{AttemptId, Stage};
use crate::call::deadline::time_left;
use crate::call::reply::ProxyError;
use crate::call::retry::Failure;
use crate::call::{Call, CallId};
use crate::certain::Certain;
use crate::downstream::client::ClientId;
use crate::link::codec::CannotOpen;
use crate::link::{LinkId, grpc};
use crate::pool::hop::{Hop, Protocol, use_usual_authority};
use crate::pool::pools::PoolId;
use crate::pool::upstream::{CallSize, UpstreamId};
use crate::pool::waiting::Turn;
use crate::target::balance::{Begun, Choice};

impl Relay {
    /// Sends the calls on the list of calls to send: new calls that were admitted in this turn of the event loop, and
    /// calls to be sent again. Does not send a call that was cancelled in the meantime.
    pub fn dispatch(&mut self) {
        while let Some(id) = self.calls.next_listed() {
            if self.calls.contains(id) {
                self.send(id);
            }
        }
    }

    fn send(&mut self, id: CallId) {
        let begun = match self.begin_attempt(id, Choice::Any) {
            Ok(begun) => begun,
            Err(error) => {
                if matches!(error, ProxyError::QueueFull { .. }) {
                    self.metrics.queue_full_total.add(1);
                }
                if error.is_unconnected() && self.retry_later(id) {
                    return;
                }
                return self.fail(id, &error);
            }
        };
        if self.calls.get(id).is_some_and(Call::may_plan_hedge) {
            self.plan_hedge(id);
        }
        self.place(begun);
    }

    /// Sends an attempt that has begun, or lets it wait for a connection.
    pub(crate) fn place(&mut self, Begun { attempt, pool, size }: Begun) {
        match self.pools.find(pool, size, self.now).filter(|_| self.next_in_line(pool).is_none()) {
            Some(upstream) => self.open_on(attempt, upstream),
            None => self.wait_for_connection(attempt, pool),
        }
    }

    fn wait_for_connection(&mut self, id: AttemptId, pool: PoolId) {
        let Some(call) = self.calls.get_mut(id.call).certain() else { return };
        let turn = self.pools.join(pool, id, CallSize::of(call).is_small());
        let Some(attempt) = call.attempts.get_mut(id).certain() else { return };
        attempt.stage = Stage::Waiting(turn);
        attempt.since = self.now;
        self.metrics.waited_total.add(1);
        if let Some(client) = self.downstreams.get_mut(call.client) {
            client.waiting_calls += 1;
        }
        if let Some(cluster) = self.targets.get_mut(call.cluster) {
            cluster.note_busy();
        }
        self.connect(pool);
    }

    /// Removes an attempt from the queue in which it waits, and subtracts one from the client's number of waiting
    /// calls. Does nothing if the attempt does not wait.
    pub(crate) fn leave_queue(&mut self, id: AttemptId) {
        let Some(call) = self.calls.get_mut(id.call).certain() else { return };
        let Some(attempt) = call.attempts.get_mut(id).certain() else { return };
        let Stage::Waiting(turn) = attempt.stage else { return };
        attempt.stage = Stage::Chosen;
        let (client, pool) = (call.client, attempt.pool);
        self.give_up_turn(client, pool, turn);
    }

    /// Removes a waiting attempt from the queue of a pool, and subtracts one from the client's number of waiting calls.
    /// Also works if the call is already gone.
    pub(crate) fn give_up_turn(&mut self, client: Option<ClientId>, pool: PoolId, turn: Turn) {
        if let Some(client) = self.downstreams.get_mut(client) {
            client.waiting_calls = client.waiting_calls.saturating_sub(1);
        }
        self.pools.leave(pool, turn);
    }

    /// Marks the waiting attempts of a call as small in their queues, if the call's request is complete and small.
    /// Small attempts may use the part of a flow-control window that is reserved for them.
    pub(crate) fn note_size(&mut self, id: CallId) {
        let Some(call) = self.calls.get(id).filter(|call| CallSize::of(call).is_small()) else { return };
        for attempt in call.attempts.iter() {
            if let Stage::Waiting(turn) = attempt.stage {
                self.pools.note_small(attempt.pool, turn);
            }
        }
    }

    /// Sends as many waiting calls as the connections have room for.
    pub fn serve_waiting(&mut self) {
        let mut place = 0;
        while let Some(&pool) = self.pools.waited_for().get(place) {
            self.serve_pool(pool);
            place += 1;
        }
        if place > 0 {
            self.pools.unlist_served();
        }
    }

    pub(crate) fn serve_pool(&mut self, pool: PoolId) {
        while let Some((turn, id, upstream)) = self.next_in_line(pool) {
            self.leave_queue(id);
            // Remove the entry even if the attempt's stage is not `Waiting`. Otherwise, this loop would not end.
            self.pools.leave(pool, turn);
            self.open_on(id, upstream);
        }
        if self.pools.first_waiting(pool).is_some() {
            self.connect(pool);
        }
    }

    /// See [`Pools::next_in_line`](crate::pool::pools::Pools::next_in_line).
    #[inline]
    fn next_in_line(&mut self, pool: PoolId) -> Option<(Turn, AttemptId, UpstreamId)> {
        let size_of = |id: AttemptId| self.calls.get(id.call).map_or(CallSize::Open, CallSize::of);
        self.pools.next_in_line(pool, size_of, self.now)
    }

    /// Opens the stream of an attempt, and sends the part of the request that has arrived.
    fn open_on(&mut self, id: AttemptId, upstream_id: UpstreamId) {
        let now = self.now;
        let (Some(call), Some(upstream)) =
            (self.calls.get_mut(id.call).certain(), self.pools.upstream_mut(upstream_id).certain())
        else {
            return;
        };
        if let Some(time_left) = time_left(call, now) {
            call.request.set(Known::GrpcTimeout, grpc::format_timeout(time_left).as_bytes());
        }
        let further = call.further_attempts();
        if further > 0 && call.is_grpc {
            call.request.set(Known::GrpcPreviousRpcAttempts, further.to_string().as_bytes());
        }
        if let Some(trace) = &mut call.trace {
            trace.send(id, upstream.expected.as_ref(), &mut call.request, now);
        }
        let hop = upstream.key.hop;
        if hop == Hop::Plain(Protocol::Http2)
            && call.request.defects().contains(Defects::UNUSUAL_AUTHORITY)
            && let Some(cluster) = call.cluster.and_then(|cluster| self.targets.get(cluster))
        {
            use_usual_authority(&mut call.request, &cluster.target.host());
        }
        // Some servers close the connection after many such paths. Other clients' calls use this connection, too.
        if hop == Hop::Plain(Protocol::Http2)
            && call.request.defects().contains(Defects::UNUSUAL_PATH)
            // A rule may have replaced the path.
            && !call.request.get(Known::Path).is_some_and(syntax::is_uri_path)
        {
            return self.give_up_attempt(id, &ProxyError::UnusualPath);
        }
        // HTTP/2 has no forms of a target, so the application behind the endpoint's proxy gets the path alone. For
        // another scheme, the path would name another resource.
        if hop == Hop::Mesh
            && call.protocol == Protocol::Http1
            && call.request.get(Known::Scheme).is_some_and(|scheme| scheme != b"http")
        {
            return self.give_up_attempt(id, &ProxyError::Unwritable(Unwritable::OTHER_SCHEME));
        }
        hop.dress(&mut call.request, call.protocol, upstream.target);
        let ends_with_body = call.request_ended && call.trailers.is_none();
        let codec = &mut upstream.link.codec;
        // Measure the request after all changes. If it is larger than the endpoint accepts, the endpoint rejects the
        // call, and closes the connection after many such calls.
        let limit_bytes = codec.max_section_bytes();
        if call.request.list_size() > limit_bytes as usize {
            return self.give_up_attempt(id, &ProxyError::HeaderListTooLarge { limit_bytes });
        }
        let (token, end_stream) = (id.call.place(), ends_with_body && call.body.is_empty());
        let stream = match codec.open(now, token, &call.request, end_stream, &mut self.heads) {
            Ok(stream) => stream,
            Err(CannotOpen::NoRoom) => return self.attempt_failed(id, &Failure::NotSent),
            Err(CannotOpen::Unwritable(why)) => return self.give_up_attempt(id, &ProxyError::Unwritable(why)),
        };
        upstream.is_reused = upstream.calls > 0 || upstream.idle_since.is_some_and(|since| since < now);
        upstream.idle_since = None;
        upstream.calls += 1;
        upstream.liveness.call_sent(now, upstream.link.last_read);
        let is_limited = call.route.as_ref().is_some_and(|route| route.policy().backend_request_timeout.is_some());
        let is_mirror = call.is_mirror();
        let Some(attempt) = call.attempts.get_mut(id).certain() else { return };
        attempt.stage = Stage::Sent(upstream_id, stream);
        attempt.since = now;
        let has_few_bytes = (1..DRIBBLE_BYTES).contains(&call.body.len());
        let is_short = has_few_bytes && !call.request_ended && call.protocol != Protocol::Opaque;
        let short_body = if is_short { call.body.clone() } else { Vec::new() };
        let taken = match call.body.is_empty() || is_short {
            true => 0,
            false => codec.send_data(stream, &call.body, ends_with_body),
        };
        if let Some(trailers) = &call.trailers {
            codec.send_headers(stream, Section::Trailers, trailers, true, &mut self.heads);
            let bytes = trailers.list_size();
            if taken < call.body.len() {
                attempt.trailers_wait(bytes);
            }
        }
        let (kept_bytes, has_trailers) = (call.body.len(), call.trailers.is_some());
        // If another attempt at the call still waits, keep the request: that attempt will need it.
        let is_waited_for = call.attempts.is_waiting();
        // The codec of an opaque connection creates the response itself, when the connection is read next.
        let answers_itself = codec.is_opaque();
        if has_trailers {
            self.count_fields(id.call);
        }
        if kept_bytes > 0 {
            self.calls.charge_body(id.call);
        }
        if is_limited {
            self.limit_attempt(id.call);
        }
        self.pools.note_room(upstream_id);
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
        if is_mirror || (!is_waited_for && !self.may_keep(kept_bytes, 0)) {
            self.stop_replay(id.call);
        }
    }
}
