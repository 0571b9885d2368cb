//! Route: handles a client's events. Calls begin, continue and end here.

use leno_http2::fields::Known;
use leno_http2::limits::DRIBBLE_BYTES;
use leno_http2::{ErrorCode, Event, FieldSection, Section, StreamKey};

use super::Worker;
use super::accept::Door;
use super::call::{Call, CallId, NO_CALL, Response};
use super::link::LinkId;
use super::record::Ending;
use super::reply::ProxyError;
use super::target::{Routed, protocol_of, strip_identities, tell_client};
use crate::metrics::{NoTlsReason, Tls};

/// Most field sections that are kept for later calls.
const MAX_SPARE_SECTIONS: usize = 256;
/// A call whose fields take at most this many bytes is charged for them until it ends, even if the fields are freed
/// before.
const FEW_FIELDS_BYTES: u32 = 1 << 10;
/// Most memory that a spare field section may keep, in bytes.
const MAX_SPARE_SECTION_BYTES: usize = 4_096;

impl Worker {
    pub(super) fn on_client_event(&mut self, client: usize, event: &Event<'_>, fields: &mut FieldSection) {
        match *event {
            Event::Headers { stream, section: Section::Request, end_stream, oversize, .. } => {
                self.on_request(client, stream, end_stream, oversize, fields);
            }
            Event::Headers { stream, token, oversize, .. } => {
                self.on_request_trailers(client, stream, token, oversize, fields);
            }
            Event::Data { stream, token, bytes, end_stream } => {
                self.on_request_data(client, stream, token, bytes, end_stream);
            }
            Event::Reset { stream, token, .. } => {
                if self.is_call_of(client, stream, token) {
                    self.end_call(token, Ending::Cancelled);
                }
            }
            Event::GoAway { .. } | Event::Settings => {}
        }
    }

    fn on_request(
        &mut self,
        client: usize,
        stream: StreamKey,
        end_stream: bool,
        oversize: bool,
        fields: &mut FieldSection,
    ) {
        let Some(downstream) = self.clients.get_mut(client) else { return };
        downstream.idle_since = None;
        // An opaque connection is one request from its start, so that request does not show that the client has sent
        // anything.
        if !downstream.has_spoken && !downstream.link.codec.is_opaque() {
            downstream.has_spoken = true;
            self.doors.settle(downstream.seat);
        }
        let relay = &self.limits.relay;
        if downstream.cancelled_calls >= relay.max_cancelled_calls_per_client {
            // The client's cancelled calls still occupy endpoints, so it gets no new calls until the endpoints know of
            // them.
            downstream.link.codec.reset(stream, ErrorCode::REFUSED_STREAM);
            return;
        }
        let mut request = self.spare_sections.pop().unwrap_or_default();
        std::mem::swap(&mut request, fields);
        let protocol = protocol_of(downstream, &mut request);
        tell_client(downstream, self.forwarded_for, &mut request);
        // Large trailers of another call may have been read into the same memory.
        request.shrink(MAX_SPARE_SECTION_BYTES);
        let is_guess = downstream.link.codec.is_guess();
        let serial = self.take_serial();
        let mut call = Call::new(serial, (client, stream), request, protocol, end_stream, self.now);
        call.is_guess = is_guess;
        call.fields_bytes = call.fields_memory_bytes();
        let fields_bytes = call.fields_bytes as usize;
        let slot = self.calls.insert(call) as u32;
        if let Some(downstream) = self.clients.get_mut(client) {
            downstream.link.codec.set_token(stream, slot);
            downstream.fields_bytes += fields_bytes;
            self.accounts.call_begun(downstream.account);
        }
        if oversize {
            let limit_bytes = self.limits.client.max_header_list_bytes;
            return self.fail(slot, &ProxyError::HeaderListTooLarge { limit_bytes });
        }
        self.enter(CallId { slot, serial });
    }

    /// Finds the target of a call, and authorizes the call.
    pub(super) fn enter(&mut self, id: CallId) {
        let Some(call) = self.calls.get(id.slot as usize).filter(|call| call.serial == id.serial) else { return };
        let client = call.client;
        let cluster = match self.route(client, id.slot) {
            Ok(Routed::To(cluster)) => cluster,
            Ok(Routed::Later(subject)) => return self.wait_for_answer(id, &subject),
            Err(error) => return self.fail(id.slot, &error),
        };
        self.name_host(id.slot, cluster);
        self.count_inbound(client, id.slot, cluster);
        match self.authorize(client, id.slot) {
            Ok(()) => self.follow(id, cluster),
            Err(denied) => {
                self.join_cluster(id.slot, cluster);
                self.fail(id.slot, &denied);
            }
        }
    }

    /// Assigns a call to its cluster, which counts it until it ends.
    fn join_cluster(&mut self, slot: u32, cluster: usize) {
        let Some(call) = self.calls.get_mut(slot as usize) else { return };
        call.cluster = Some(cluster);
        if let Some(cluster) = self.clusters.get_mut(cluster) {
            cluster.calls += 1;
        }
    }

    /// Counts an inbound call in the metrics of its client; a kubelet's probes have metrics of their own. Outbound
    /// calls are counted when their endpoint is known.
    fn count_inbound(&mut self, client: usize, slot: u32, cluster: usize) {
        let place = if self.is_probe(client, slot) {
            let state = self.clusters.get_mut(cluster);
            state.map(|state| state.traffic_place(&self.metrics, Tls::None(NoTlsReason::Probe)))
        } else {
            let latest = self.clients.get(client).and_then(|client| client.latest_route.as_ref());
            latest.and_then(|latest| latest.traffic)
        };
        if let Some(place) = place {
            self.count_request(slot, cluster, place);
        }
    }

    /// Starts the deadline of a call whose cluster is known, and lists the call to be sent after all input of this turn
    /// is read.
    pub(super) fn admit(&mut self, id: CallId, cluster: usize) {
        let calls = self.calls.len();
        self.join_cluster(id.slot, cluster);
        let Some(call) = self.calls.get(id.slot as usize) else { return };
        let account = self.clients.get(call.client).map(|client| client.account);
        if !self.accounts.may_begin(account, calls, self.limits.relay.max_calls as usize) {
            return self.fail(id.slot, &ProxyError::TooManyCalls { calls });
        }
        if call.route.is_some() || call.request.contains(Known::GrpcTimeout) {
            self.set_deadline(id);
        }
        self.expect_content(id);
        self.to_send.push_back(id);
    }

    /// Returns whether a rule of a route matched the call.
    fn is_routed(&self, token: u32) -> bool {
        self.calls.get(token as usize).is_some_and(|call| call.route.is_some())
    }

    /// Returns whether `token` names a call that belongs to this stream of the client.
    fn is_call_of(&self, client: usize, stream: StreamKey, token: u32) -> bool {
        self.calls.get(token as usize).is_some_and(|call| call.client == client && call.client_stream == stream)
    }

    fn on_request_data(&mut self, client: usize, stream: StreamKey, token: u32, bytes: &[u8], end_stream: bool) {
        if !self.is_call_of(client, stream, token) {
            return;
        }
        if self.is_routed(token) {
            self.mirror_data(token, bytes, end_stream);
        }
        self.take_request_data(token, bytes, end_stream);
    }

    /// Forwards content of a request, or keeps it until the call is sent.
    #[inline]
    pub(super) fn take_request_data(&mut self, token: u32, bytes: &[u8], end_stream: bool) {
        let Some(call) = self.calls.get_mut(token as usize) else { return };
        call.request_ended |= end_stream;
        call.request_bytes += bytes.len() as u64;
        let is_short = bytes.len() < DRIBBLE_BYTES && !end_stream;
        let dribbles = std::mem::replace(&mut call.short_part, is_short) && is_short;
        let Some((upstream, upstream_stream)) = call.upstream else {
            // The call was not sent yet, so its content stays here. The client gets no more flow-control window for it,
            // which bounds the content.
            call.body.extend_from_slice(bytes);
            self.replay_bytes += bytes.len();
            if end_stream && call.waiting_at.is_some() {
                self.note_size(token);
            }
            return;
        };
        let (replayable, kept_bytes) = (call.replayable, call.body.len());
        if !self.may_keep(kept_bytes, bytes.len()) {
            self.stop_replay(token);
        } else if replayable && let Some(call) = self.calls.get_mut(token as usize) {
            call.body.extend_from_slice(bytes);
            self.replay_bytes += bytes.len();
        }
        if end_stream {
            self.request_is_complete(token);
        }
        if dribbles && self.collect(token, upstream, upstream_stream, bytes) {
            return;
        }
        let Some(link) = self.upstreams.get_mut(upstream).map(|upstream| &mut upstream.link) else { return };
        let taken = link.codec.send_data(upstream_stream, bytes, end_stream);
        self.mark_dirty(LinkId::endpoint(upstream));
        self.request_bytes_sent(token, taken);
        self.end_call_if_complete(token);
    }

    fn on_request_trailers(
        &mut self,
        client: usize,
        stream: StreamKey,
        token: u32,
        oversize: bool,
        fields: &mut FieldSection,
    ) {
        if !self.is_call_of(client, stream, token) {
            return;
        }
        // An application may read trailers as if they were part of the header section.
        if self.clients.get(client).is_some_and(|client| client.origin.door != Door::Outbound) {
            strip_identities(fields);
            self.forwarded_for.strip_trailer(fields);
        }
        if oversize {
            let limit_bytes = self.limits.client.max_header_list_bytes;
            return self.fail(token, &ProxyError::HeaderListTooLarge { limit_bytes });
        }
        if self.is_routed(token) {
            self.mirror_trailers(token, fields);
        }
        self.take_request_trailers(token, fields);
    }

    /// Forwards the trailers of a request, or keeps them until the call is sent.
    pub(super) fn take_request_trailers(&mut self, token: u32, fields: &FieldSection) {
        let Some(call) = self.calls.get_mut(token as usize) else { return };
        call.request_ended = true;
        if call.replayable || call.upstream.is_none() {
            call.trailers = Some(Box::new(fields.clone()));
        }
        let upstream = call.upstream;
        if upstream.is_some() && call.request_bytes > call.sent as u64 {
            call.trailers_wait(fields.list_size());
        }
        self.count_fields(token);
        self.request_is_complete(token);
        self.note_size(token);
        if let Some((upstream, upstream_stream)) = upstream {
            if let Some(upstream) = self.upstreams.get_mut(upstream) {
                upstream.link.codec.send_headers(upstream_stream, Section::Trailers, fields, true);
            }
            self.mark_dirty(LinkId::endpoint(upstream));
        }
        self.end_call_if_complete(token);
    }

    /// Records the end of a request: it no longer counts among the incomplete requests of its client
    /// ([`super::accounts`]).
    fn request_is_complete(&mut self, token: u32) {
        let Some(call) = self.calls.get_mut(token as usize) else { return };
        if std::mem::take(&mut call.counts_as_open)
            && let Some(client) = self.clients.get(call.client)
        {
            self.accounts.request_ended(client.account);
        }
    }

    /// Records that content of a request was sent to the endpoint, and lets the client send as much again.
    pub(super) fn request_bytes_sent(&mut self, token: u32, bytes: usize) {
        let Some(mut call) = self.calls.get_mut(token as usize) else { return };
        call.sent += bytes;
        if call.trailers_sent_bytes > 0 && call.sent as u64 >= call.request_bytes {
            // The trailers that waited behind the content have been sent, too.
            call.trailers_sent_bytes = 0;
            self.count_fields(token);
            let Some(same) = self.calls.get_mut(token as usize) else { return };
            call = same;
        }
        let Some(room) = call.sent.checked_sub(call.released).filter(|&room| room > 0) else { return };
        call.released = call.sent;
        let (client, stream) = (call.client, call.client_stream);
        match self.clients.get_mut(client) {
            Some(client) => client.link.codec.release(stream, room),
            None => return self.mirror_bytes_sent(room),
        }
        self.mark_dirty(LinkId::client(client));
    }

    /// Returns whether a call that was sent may keep `more_bytes` of content beside `kept_bytes`, in case it has to be
    /// sent to another endpoint.
    pub(super) fn may_keep(&self, kept_bytes: usize, more_bytes: usize) -> bool {
        let relay = &self.limits.relay;
        kept_bytes + more_bytes <= relay.max_replay_bytes_per_call as usize
            && self.replay_bytes + more_bytes <= relay.max_replay_bytes as usize
    }

    /// Drops the kept copy of the request, so that the call can no longer be sent to another endpoint.
    pub(super) fn stop_replay(&mut self, token: u32) {
        let Some(call) = self.calls.get_mut(token as usize) else { return };
        if !std::mem::replace(&mut call.replayable, false) {
            return;
        }
        self.replay_bytes = self.replay_bytes.saturating_sub(call.body.len());
        call.body = Vec::new();
        call.trailers = None;
        // A health check keeps its request: when policies change, its path decides whether it is still allowed.
        if !self.access_log.is_on() && !call.is_health_check {
            self.recycle_request(token);
        }
        if self.calls.get(token as usize).is_some_and(|call| call.fields_bytes > FEW_FIELDS_BYTES) {
            self.count_fields(token);
        }
    }

    /// Updates the memory that the client is charged for the fields of a call.
    pub(super) fn count_fields(&mut self, slot: u32) {
        let Some(call) = self.calls.get_mut(slot as usize) else { return };
        let after = call.fields_memory_bytes();
        let before = std::mem::replace(&mut call.fields_bytes, after);
        if let Some(client) = self.clients.get_mut(call.client) {
            client.fields_bytes = (client.fields_bytes + after as usize).saturating_sub(before as usize);
        }
    }

    /// Keeps a request's field section for later calls, once the request is no longer needed.
    fn recycle_request(&mut self, token: u32) {
        let Some(call) = self.calls.get_mut(token as usize) else { return };
        let mut section = std::mem::take(&mut call.request);
        if self.spare_sections.len() < MAX_SPARE_SECTIONS {
            section.clear();
            section.shrink(MAX_SPARE_SECTION_BYTES);
            self.spare_sections.push(section);
        }
    }

    /// Ends a call if both its request and its response are complete.
    pub(super) fn end_call_if_complete(&mut self, token: u32) {
        let complete = |call: &Call| call.request_ended && call.response == Response::Ended;
        if self.calls.get(token as usize).is_some_and(complete) {
            self.end_call(token, Ending::Complete);
        }
    }

    /// Ends a call, whatever its state: both streams forget it, it is recorded, its memory is given back.
    pub(super) fn end_call(&mut self, slot: u32, ending: Ending) {
        self.record(slot, ending);
        self.stop_replay(slot);
        if self.access_log.is_on() || self.calls.get(slot as usize).is_some_and(|call| call.is_health_check) {
            self.recycle_request(slot);
        }
        self.stop_waiting(slot);
        self.cancel_timers(slot);
        self.request_is_complete(slot);
        let Some(call) = self.calls.try_remove(slot as usize) else { return };
        match self.clients.get_mut(call.client) {
            Some(client) => {
                client.link.codec.set_token(call.client_stream, NO_CALL);
                client.fields_bytes = client.fields_bytes.saturating_sub(call.fields_bytes as usize);
                self.accounts.call_ended(client.account);
            }
            None => self.mirror_ended(&call),
        }
        if let Some((upstream, stream)) = call.upstream {
            self.cancel_upstream(upstream, stream, call.client);
        }
        if let Some(index) = call.cluster {
            self.call_left_cluster(index);
        }
        if let Some(route) = &call.route {
            self.release_mirrors(call.request_ended, &route.mirrors);
        }
    }

    /// Resets a client's stream.
    pub(super) fn reset_client_stream(&mut self, client: usize, stream: StreamKey, code: ErrorCode) {
        if let Some(client) = self.clients.get_mut(client) {
            client.link.codec.reset(stream, code);
        }
        self.mark_dirty(LinkId::client(client));
    }
}
