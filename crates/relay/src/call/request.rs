//! Request: handles a client's events. The header section of a request begins a call, and this file admits the call.

use leno_http2::fields::Known;
use leno_http2::limits::DRIBBLE_BYTES;
use leno_http2::{ErrorCode, Event, FieldSection, Section, StreamKey};
use smallvec::SmallVec;

use crate::Relay;
use crate::call::attempt::AttemptId;
use crate::call::calls::MAX_SPARE_SECTION_BYTES;
use crate::call::record::Ending;
use crate::call::reply::ProxyError;
use crate::call::{Call, CallId, attempts_field};
use crate::certain::Certain;
use crate::downstream::client::ClientId;
use crate::downstream::origin::Door;
use crate::effect::Effect;
use crate::link::LinkId;
use crate::metrics::{NoTlsReason, TlsLabel};
use crate::pool::hop::Protocol;
use crate::pool::upstream::UpstreamId;
use crate::target::cluster::{ClusterId, ClusterState};
use crate::target::find::{Routed, protocol_of, set_client_fields, strip_identities};
use crate::target::methods::CallMethod;
use crate::target::routes::CallRoute;

/// When the relay frees request fields larger than this, in bytes, it lowers the client's charge at once. For smaller
/// fields, the charge stays until the call ends, because an update is not worth its cost.
const FEW_FIELDS_BYTES: u32 = 1 << 10;

impl Relay {
    pub(crate) fn on_client_event(&mut self, client: ClientId, event: &Event<'_>, fields: &mut FieldSection) {
        match *event {
            Event::Headers { stream, section: Section::Request, end_stream, oversize, .. } => {
                self.on_request(client, stream, end_stream, oversize, fields);
            }
            Event::Headers { stream, token, oversize, .. } => {
                let Some((id, call)) = self.calls.of(client, stream, token) else { return };
                let protocol = call.protocol;
                if oversize {
                    let limit_bytes = self.limits.client.max_header_list_bytes;
                    self.fail(id, &ProxyError::HeaderListTooLarge { limit_bytes });
                } else if protocol == Protocol::Http2 {
                    self.drop_request_trailers(id);
                } else {
                    self.on_request_trailers(client, id, fields);
                }
            }
            Event::Data { stream, token, bytes, end_stream } => {
                let Some((id, call)) = self.calls.of(client, stream, token) else { return };
                if call.route.as_ref().is_some_and(|route| !route.mirrors.is_empty()) {
                    self.mirror_data(id, bytes, end_stream);
                }
                self.take_request_data(id, bytes, end_stream);
            }
            Event::Reset { stream, token, .. } => {
                if let Some((id, _)) = self.calls.of(client, stream, token) {
                    self.end_call(id, Ending::Cancelled);
                }
            }
            Event::GoAway { .. } | Event::Settings => {}
        }
    }

    fn on_request(
        &mut self,
        client: ClientId,
        stream: StreamKey,
        end_stream: bool,
        oversize: bool,
        fields: &mut FieldSection,
    ) {
        let Some(downstream) = self.downstreams.get_mut(client).certain() else { return };
        downstream.idle_since = None;
        // For an opaque connection, the relay may create the request before the client has sent anything. So the
        // request does not prove that the client has sent bytes.
        if !downstream.has_spoken && !downstream.link.codec.is_opaque() {
            downstream.has_spoken = true;
            self.effects.extend(downstream.link.wire.map(Effect::Settle));
        }
        let relay = &self.limits.relay;
        if downstream.cancelled_calls >= relay.max_cancelled_calls_per_client {
            // The client's cancelled calls still occupy endpoints. So the proxy accepts no new calls of this client
            // until it has cancelled those calls at their endpoints, too.
            downstream.link.codec.reset(stream, ErrorCode::REFUSED_STREAM);
            return;
        }
        let mut request = self.calls.take_section();
        std::mem::swap(&mut request, fields);
        let protocol = protocol_of(downstream, &mut request);
        set_client_fields(downstream, self.settings.forwarded_for, &mut request);
        let asks_attempts = downstream.origin.door == Door::Outbound && attempts_field::take(&mut request);
        // The relay reuses the memory of field sections. An earlier call with large fields may have left a large
        // allocation in `request`.
        request.shrink(MAX_SPARE_SECTION_BYTES);
        let is_guess = downstream.link.codec.is_guess();
        let mut call = Call::new((Some(client), stream), request, protocol, end_stream, self.now);
        call.is_guess = is_guess;
        call.asks_attempts = asks_attempts;
        if let Some(is_drawn) = self.tracer.look_at(&call.request, &mut self.random) {
            call.trace = self.begin_trace(client, &call, is_drawn);
        }
        call.fields_bytes = call.fields_memory_bytes();
        let fields_bytes = call.fields_bytes;
        let id = self.calls.insert(call);
        self.downstreams.call_begun(client, stream, id.place(), fields_bytes);
        if oversize {
            let limit_bytes = self.limits.client.max_header_list_bytes;
            return self.fail(id, &ProxyError::HeaderListTooLarge { limit_bytes });
        }
        self.enter(id);
    }

    /// Finds the target of a call, and authorizes the call.
    pub(crate) fn enter(&mut self, id: CallId) {
        let Some(client) = self.calls.get(id).and_then(|call| call.client) else { return };
        let cluster = match self.find_cluster(client, id) {
            Ok(Routed::To(cluster)) => cluster,
            Ok(Routed::Later(subject)) => return self.wait_for_answer(id, &subject),
            Err(error) => return self.fail(id, &error),
        };
        self.name_host(id, cluster);
        self.count_inbound(client, id, cluster);
        match self.authorize(client, id) {
            Ok(()) => self.apply_routes(id, cluster),
            Err(denied) => {
                self.join_cluster(id, cluster);
                self.fail(id, &denied);
            }
        }
    }

    /// Assigns a call to its cluster. The cluster counts the call until the call ends.
    pub(crate) fn join_cluster(&mut self, id: CallId, cluster: ClusterId) {
        let Some(call) = self.calls.get_mut(id).certain() else { return };
        call.cluster = Some(cluster);
        if let Some(cluster) = self.targets.get_mut(cluster) {
            cluster.call_joined();
        }
    }

    /// Counts an inbound call in the metrics of its client. A kubelet's probes have metrics of their own. Does not
    /// count calls to the port where this proxy serves taps, because they are not traffic of the application. The relay
    /// counts an outbound call later, when its endpoint is known or when the call ends without being sent.
    fn count_inbound(&mut self, client: ClientId, id: CallId, cluster: ClusterId) {
        let is_probe = self.is_probe(client, id);
        let is_tap = self.targets.get(cluster).is_some_and(ClusterState::is_tap);
        if (is_probe || is_tap)
            && let Some(call) = self.calls.get_mut(id)
        {
            call.method = CallMethod::Uncounted;
            call.trace = None;
        }
        let place = if is_probe {
            let state = self.targets.get_mut(cluster);
            state.map(|state| state.traffic_place(&self.metrics, TlsLabel::None(NoTlsReason::Probe), None))
        } else {
            let latest = self.downstreams.get(client).and_then(|client| client.latest_target.as_ref());
            latest.and_then(|latest| latest.traffic)
        };
        if let Some(place) = place {
            self.count_request(id, cluster, place);
        }
    }

    /// Admits a call whose cluster is known: checks the limits on calls in flight, starts the call's deadline, and adds
    /// the call to a list. The relay sends the calls on this list after it has read all input of this turn of the event
    /// loop.
    pub(crate) fn admit(&mut self, id: CallId, cluster: ClusterId) {
        let calls = self.calls.len();
        self.join_cluster(id, cluster);
        let Some(call) = self.calls.get(id).certain() else { return };
        if !self.downstreams.may_begin(call.client, calls, self.limits.relay.max_calls as usize) {
            return self.fail(id, &ProxyError::TooManyCalls { calls });
        }
        let policy = call.route.as_ref().map(CallRoute::policy);
        let is_limited = policy.is_some_and(|policy| policy.request_timeout.is_some());
        let has_idle_limit = policy.is_some_and(|policy| policy.stream_idle_timeout.is_some());
        if is_limited || has_idle_limit || call.request.contains(Known::GrpcTimeout) {
            self.limit_call(id);
        }
        self.expect_content(id);
        self.calls.list(id);
    }

    /// Forwards content of a request, or keeps it until the call is sent.
    #[inline]
    pub(crate) fn take_request_data(&mut self, id: CallId, bytes: &[u8], end_stream: bool) {
        let now = self.now;
        if end_stream {
            self.request_is_complete(id);
        }
        let Some(call) = self.calls.get_mut(id).certain() else { return };
        if end_stream {
            call.end_request(now);
        }
        call.request_bytes += bytes.len() as u64;
        if !bytes.is_empty() {
            call.content_at = now;
        }
        let are_many = call.is_grpc && call.request_messages.read(bytes);
        // Never hold back the bytes of an opaque connection: the client may send no more until the server has answered
        // them.
        let is_short = bytes.len() < DRIBBLE_BYTES && !end_stream && call.protocol != Protocol::Opaque;
        let is_repeated = std::mem::replace(&mut call.short_part, is_short);
        if !call.attempts.is_sent() {
            // The call was not sent yet, so keep its content. The client gets no new flow-control window for this
            // content, so the client's window limits the content that is kept.
            let is_waiting = call.attempts.len() > 0;
            self.calls.keep(id, bytes);
            if end_stream && is_waiting {
                self.note_size(id);
            }
            return;
        }
        if call.replayable {
            let kept_bytes = call.body.len();
            if self.may_keep(kept_bytes, bytes.len()) {
                self.calls.keep(id, bytes);
            } else {
                self.stop_replay(id);
            }
        }
        if are_many {
            self.count_messages(id);
        }
        for (attempt, upstream, stream) in self.streams_of(id) {
            if !is_short || !self.collect(id, (upstream, stream), bytes, is_repeated) {
                self.send_data(attempt, (upstream, stream), bytes, end_stream);
            }
        }
        if end_stream {
            self.end_call_if_complete(id);
        }
    }

    /// Returns the streams of all attempts that have a stream.
    #[inline]
    fn streams_of(&self, id: CallId) -> SmallVec<[(AttemptId, UpstreamId, StreamKey); 1]> {
        let attempts = self.calls.get(id).into_iter().flat_map(|call| call.attempts.ids(id));
        attempts.filter_map(|(id, attempt)| attempt.stream().map(|(upstream, stream)| (id, upstream, stream))).collect()
    }

    /// Sends content of a request on the stream of one attempt.
    fn send_data(
        &mut self,
        id: AttemptId,
        (upstream, stream): (UpstreamId, StreamKey),
        bytes: &[u8],
        end_stream: bool,
    ) {
        let Some(link) = self.pools.upstream_mut(upstream).map(|upstream| &mut upstream.link) else { return };
        let taken = link.codec.send_data(stream, bytes, end_stream);
        self.mark_dirty(LinkId::Endpoint(upstream));
        self.request_bytes_sent(id, taken);
    }

    /// Ends the content of an HTTP/2 request that has trailers, and drops the trailers (RFC 9110 section 6.5.1 allows
    /// it). A server of grpc-go closes the whole connection if a request has a second field section, whatever its
    /// content type. Other clients' calls use this connection, too. In gRPC, requests have no trailers.
    #[cold]
    fn drop_request_trailers(&mut self, id: CallId) {
        self.mirror_data(id, &[], true);
        self.take_request_data(id, &[], true);
    }

    fn on_request_trailers(&mut self, client: ClientId, id: CallId, fields: &mut FieldSection) {
        // Remove fields that claim an identity or an address from trailers too: an application may read trailers as if
        // they were part of the header section.
        if self.downstreams.get(client).is_some_and(|client| client.origin.door != Door::Outbound) {
            strip_identities(fields);
            self.settings.forwarded_for.strip_trailer(fields);
        }
        if self.calls.get(id).is_some_and(|call| call.route.is_some()) {
            self.mirror_trailers(id, fields);
        }
        self.take_request_trailers(id, fields);
    }

    /// Forwards the trailers of a request, or keeps them until the call is sent.
    pub(crate) fn take_request_trailers(&mut self, id: CallId, fields: &FieldSection) {
        let now = self.now;
        let Some(call) = self.calls.get_mut(id).certain() else { return };
        call.end_request(now);
        if call.replayable || !call.attempts.is_sent() {
            call.trailers = Some(Box::new(fields.clone()));
        }
        let request_bytes = call.request_bytes;
        for attempt in call.attempts.iter_mut() {
            if attempt.stream().is_some() && request_bytes > attempt.sent_bytes as u64 {
                attempt.trailers_wait(fields.list_size());
            }
        }
        self.count_fields(id);
        self.request_is_complete(id);
        self.note_size(id);
        for (_, upstream, stream) in self.streams_of(id) {
            if let Some(upstream) = self.pools.upstream_mut(upstream) {
                upstream.link.codec.send_headers(stream, Section::Trailers, fields, true, &mut self.heads);
            }
            self.mark_dirty(LinkId::Endpoint(upstream));
        }
        self.end_call_if_complete(id);
    }

    /// Records the end of a request. The request no longer counts among the incomplete requests of its client
    /// ([`crate::downstream::accounts`]).
    fn request_is_complete(&mut self, id: CallId) {
        let Some(call) = self.calls.get_mut(id).certain() else { return };
        if std::mem::take(&mut call.counts_as_open) {
            self.downstreams.request_ended(call.client);
        }
    }

    /// Records that `bytes` bytes of a request's content were sent to the endpoint of an attempt. The client gets
    /// flow-control window for the bytes that every attempt has now sent.
    pub(crate) fn request_bytes_sent(&mut self, id: AttemptId, bytes: usize) {
        let Some(mut call) = self.calls.get_mut(id.call).certain() else { return };
        let request_bytes = call.request_bytes;
        let Some(attempt) = call.attempts.get_mut(id).certain() else { return };
        attempt.sent_bytes += bytes;
        if attempt.trailers_bytes > 0 && attempt.sent_bytes as u64 >= request_bytes {
            // All content has been sent, and with it the trailers that waited behind the content.
            attempt.trailers_bytes = 0;
            self.count_fields(id.call);
            let Some(same) = self.calls.get_mut(id.call).certain() else { return };
            call = same;
        }
        let sent_bytes = call.attempts.sent_bytes();
        let Some(room) = sent_bytes.checked_sub(call.released).filter(|&room| room > 0) else { return };
        call.released = sent_bytes;
        call.content_at = self.now;
        let (client, stream) = (call.client, call.client_stream);
        match self.downstreams.get_mut(client) {
            Some(client) => client.link.codec.release(stream, room),
            None => return self.calls.copied_content_sent(room),
        }
        self.mark_client(client);
    }

    /// Returns whether a call that was sent may keep `more_bytes` of content in addition to `kept_bytes`. A call keeps
    /// its content so that the proxy can send it to another endpoint.
    pub(crate) fn may_keep(&self, kept_bytes: usize, more_bytes: usize) -> bool {
        let relay = &self.limits.relay;
        kept_bytes + more_bytes <= relay.max_replay_bytes_per_call as usize
            && self.calls.has_room_for_replay(more_bytes, relay.max_replay_bytes as usize)
    }

    /// Drops the kept copy of the request, so that the call can no longer be sent to another endpoint.
    pub(crate) fn stop_replay(&mut self, id: CallId) {
        // If the response shows that the method exists, metrics need the method's name, which is in the request.
        let may_be_named =
            self.limits.relay.max_methods_per_service > 0 && self.calls.get(id).is_some_and(Call::may_be_named);
        let is_traced = self.calls.get(id).is_some_and(|call| call.trace.is_some());
        let keeps_fields = self.access_log.is_on() || self.taps.is_open() || may_be_named || is_traced;
        let Some(call) = self.calls.stop_replay(id, keeps_fields) else { return };
        if call.fields_bytes > FEW_FIELDS_BYTES {
            self.count_fields(id);
        }
    }

    /// Updates how much memory the client is charged for the fields of a call.
    pub(crate) fn count_fields(&mut self, id: CallId) {
        let Some(call) = self.calls.get_mut(id).certain() else { return };
        let after = call.fields_memory_bytes();
        let before = std::mem::replace(&mut call.fields_bytes, after);
        if let Some(client) = self.downstreams.get_mut(call.client) {
            client.fields_bytes = (client.fields_bytes + after as usize).saturating_sub(before as usize);
        }
    }

    /// Resets a client's stream. Drops the content that waits for the client, unless the client speaks HTTP/2 and
    /// the code is NO_ERROR: some servers (Node.js) end complete responses with this code instead of END_STREAM, and
    /// clients take the content before it for the whole response.
    pub(crate) fn reset_client_stream(&mut self, client: Option<ClientId>, stream: StreamKey, code: ErrorCode) {
        if let Some(client) = self.downstreams.get_mut(client) {
            if code == ErrorCode::NO_ERROR {
                client.link.codec.reset_after_queue(stream, code);
            } else {
                client.link.codec.reset(stream, code);
            }
        }
        self.mark_client(client);
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
