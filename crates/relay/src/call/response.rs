//! Response: handles an endpoint's events, and forwards the endpoint's response to the client.

use std::cmp::Reverse;
use std::time::Duration;

use leno_http2::fields::Known;
use leno_http2::{Drained, ErrorCode, Event, FieldSection, Section, StreamKey};

use crate::Relay;
use crate::call::attempt::AttemptId;
use crate::call::deadline::is_nearly_out_of_time;
use crate::call::due::Due;
use crate::call::record::{Ending, is_failure};
use crate::call::reply::ProxyError;
use crate::call::retry::Failure;
use crate::call::retry_policy::may_have_failed;
use crate::call::{CallId, Response};
use crate::certain::Certain;
use crate::downstream::client::ClientId;
use crate::downstream::origin::Door;
use crate::failure::ConnectionFailure;
use crate::link::grpc::{Pushback, Status};
use crate::link::{LinkId, grpc};
use crate::pool::hop::{Hop, Protocol};
use crate::pool::upstream::UpstreamId;
use crate::target::methods::{CallMethod, PROXY_ERROR};

/// If the server sends GOAWAY within this time after the connection was opened, and before its first call, the relay
/// treats the connection as a failed attempt to connect. If the connection was never ready for calls, the time does not
/// matter.
const SHORT_LIFE: Duration = Duration::from_secs(1);
/// A pool replaces at most one connection in this time because its server rejected a call with ENHANCE_YOUR_CALM. A
/// client may cause rejected calls on purpose, and each replaced connection lives as long as its calls.
const REPLACE_EVERY: Duration = Duration::from_secs(1);
/// Assumed waiting time of the rest of a response whose call has ended: the relay no longer records the real time.
const UNREAD_REST: Duration = Duration::from_secs(1);

impl Relay {
    pub(crate) fn on_endpoint_event(&mut self, upstream: UpstreamId, event: &Event<'_>, fields: &mut FieldSection) {
        match *event {
            Event::Headers { stream, token, section, end_stream, oversize } => {
                let Some(id) = self.calls.on(upstream, stream, token) else { return };
                if oversize {
                    return self.response_broken(upstream, id, "its header fields are too large");
                }
                self.on_response_headers(upstream, id, section, fields, end_stream);
            }
            Event::Data { stream, token, bytes, end_stream } => {
                if let Some(id) = self.calls.on(upstream, stream, token) {
                    self.on_response_data((upstream, stream), id.call, bytes, end_stream);
                }
            }
            Event::Reset { stream, token, code, by_peer } => {
                if let Some(id) = self.calls.on(upstream, stream, token) {
                    self.on_reset((upstream, stream), id, code, by_peer);
                }
            }
            Event::GoAway { last_stream, code } => self.on_goaway(upstream, last_stream, code),
            Event::Settings => self.upstream_ready(upstream),
        }
    }

    fn on_response_headers(
        &mut self,
        upstream: UpstreamId,
        id: AttemptId,
        section: Section,
        fields: &mut FieldSection,
        end_stream: bool,
    ) {
        if self.pools.upstream(upstream).is_some_and(|upstream| upstream.key.hop == Hop::Plain(Protocol::Http2)) {
            // Remove the proxies' internal field `leno-upgrade`. An application that speaks HTTP/2 cannot accept an
            // upgrade, so it must have created the field itself.
            fields.remove(Known::LenoUpgrade);
        }
        let max_interim_responses = self.limits.relay.max_interim_responses;
        let Some(call) = self.calls.get_mut(id.call).certain() else { return };
        let (client, client_stream, has_route) = (call.client, call.client_stream, call.route.is_some());
        if section == Section::Interim {
            call.interim_responses += 1;
            if call.interim_responses > max_interim_responses {
                self.metrics.count_abuse("interim_responses");
                return self.response_broken(upstream, id, "too many interim responses (1xx)");
            }
            // Drop the interim response: the call has several attempts, and this attempt may not be the one that
            // answers the call.
            if call.attempts.len() > 1 {
                return;
            }
            call.awaits_continue &= status_code(fields) != 100;
        }
        call.tell_attempts(section, fields);
        if section == Section::Response
            && call.route.as_ref().is_some_and(|route| route.retry().is_some() || call.attempts.len() > 1)
            && may_have_failed(fields, end_stream)
            && self.retry_answered(id, fields)
        {
            return;
        }
        if section == Section::Response && may_have_failed(fields, end_stream) {
            self.pass_on_spent_chain(id.call, fields);
            self.note_denial(id.call, fields);
        }
        if section == Section::Response
            && has_route
            && let Some(route) = self.calls.get(id.call).and_then(|call| call.route.as_ref())
        {
            route.modify_response(fields);
        }
        // Measure the section after all changes to it.
        let bytes = fields.list_size();
        let link = self.downstreams.get(client).map(|client| &client.link);
        if let Some(limit_bytes) = link.map(|link| link.codec.max_section_bytes()).filter(|&most| bytes > most as usize)
        {
            // Do not send the section: the client would close the connection, and with it all its other calls.
            return self.response_too_large(upstream, id, section, (bytes, limit_bytes));
        }
        if section == Section::Response {
            self.begin_response(id, fields, end_stream);
        }
        if self.taps.shows_fields() {
            self.tap_fields(id.call, section, fields);
        }
        if let Some(client) = self.downstreams.get_mut(client) {
            client.link.codec.send_headers(client_stream, section, fields, end_stream, &mut self.heads);
        }
        self.mark_client(client);
        if end_stream {
            let ending = Ending::Answered {
                grpc_status: grpc::status(fields),
                pushback: grpc::pushback(fields).and_then(Pushback::wait),
            };
            self.response_complete(id.call, ending);
        }
    }

    /// Records whether the response to an outbound call is the denial of a policy. For an inbound call, this proxy has
    /// already decided, and the response is the application's.
    #[cold]
    fn note_denial(&mut self, id: CallId, fields: &FieldSection) {
        let Some(call) = self.calls.get_mut(id).certain() else { return };
        let door = self.downstreams.get(call.client).map(|client| client.origin.door);
        let is_refusal = status_code(fields) == 403 || grpc::status(fields) == Some(Status::PermissionDenied as u8);
        let is_marked = || fields.iter().any(|line| line.name == PROXY_ERROR && line.value == b"denied");
        call.is_denied = door == Some(Door::Outbound) && is_refusal && is_marked();
    }

    /// Handles a field section that is larger than the client accepts. If the section is an interim response, drops it,
    /// because the client does not need it. Otherwise, ends the attempt.
    #[cold]
    fn response_too_large(
        &mut self,
        upstream: UpstreamId,
        id: AttemptId,
        section: Section,
        (bytes, limit_bytes): (usize, u32),
    ) {
        let Some(endpoint) = self.pools.upstream(upstream).map(|upstream| upstream.address).certain() else { return };
        if section != Section::Interim {
            self.give_up_attempt(id, &ProxyError::ResponseTooLarge { endpoint, bytes, limit_bytes });
        }
    }

    /// Keeps the fields of a response for the taps that show them.
    #[cold]
    fn tap_fields(&mut self, id: CallId, section: Section, fields: &FieldSection) {
        let Some(call) = self.calls.get_mut(id).certain() else { return };
        let tapped = call.tapped.get_or_insert_default();
        match section {
            Section::Response => tapped.response = fields.clone(),
            Section::Trailers => tapped.trailers = fields.clone(),
            Section::Request | Section::Interim => {}
        }
        self.count_fields(id);
    }

    /// Handles the header section of the response that answers a call. Cancels the call's other attempts. From now on,
    /// the call gets no further attempt.
    fn begin_response(&mut self, id: AttemptId, fields: &FieldSection, end_stream: bool) {
        let now = self.now;
        let Some(call) = self.calls.get_mut(id.call).certain() else { return };
        call.response = Response::Begun;
        // The response has begun in time, so the call needs no hedge, however long the content takes.
        call.due.call_off(Due::Hedge);
        call.http_status = status_seen(fields);
        if call.is_tunnel {
            call.tunnel_answered(now);
        }
        let mut cluster = self.targets.get_mut(call.cluster);
        if let (CallMethod::Unnamed(_), Some(cluster)) = (call.method, cluster.as_deref_mut()) {
            cluster.learn_method(call, fields, &self.metrics, self.limits.relay.max_methods_per_service as usize);
            // Free a request that cannot be sent again, and was only kept for the method's name.
            let is_shown = self.access_log.is_on() || self.taps.is_open() || call.trace.is_some();
            if !call.replayable && !call.is_health_check && !is_shown {
                call.request = FieldSection::new();
            }
        }
        let has_others = call.attempts.len() > 1;
        let Some(took) = call.attempts.get(id).map(|attempt| now - attempt.since).certain() else { return };
        if let (Some(method), Some(cluster)) = (call.hedged_method(), cluster.as_deref_mut()) {
            call.note_hedged_answer((id, method, took), fields, cluster, now);
        }
        let pick = call.attempts.get_mut(id).and_then(|attempt| attempt.pick.as_mut());
        // The balancer learns the latency of a failure together with the outcome: a fast failure does not show that the
        // endpoint is fast. A gRPC call with another HTTP status than 2xx mostly lacks `grpc-status`, and has failed then.
        let is_failed = is_failure(call.http_status, grpc::status(fields).filter(|_| call.is_grpc))
            || (call.is_grpc && !(200..300).contains(&call.http_status));
        if let (Some(pick), Some(cluster)) = (pick, cluster)
            && !end_stream
            && !is_failed
        {
            cluster.balancer.answered(now, pick, took);
        }
        if let Some(trace) = &mut call.trace {
            trace.answered(id, now);
        }
        if has_others {
            self.abandon_others(id);
        }
        self.stop_replay(id.call);
    }

    fn on_response_data(
        &mut self,
        (upstream, stream): (UpstreamId, StreamKey),
        id: CallId,
        bytes: &[u8],
        end_stream: bool,
    ) {
        let now = self.now;
        let Some(call) = self.calls.get_mut(id).certain() else { return };
        call.response_bytes += bytes.len() as u64;
        let (client, client_stream, is_guess) = (call.client, call.client_stream, call.is_guess);
        if call.is_grpc && call.response_messages.read(bytes) {
            self.count_messages(id);
        }
        let Some(to) = self.downstreams.get_mut(client) else {
            return self.discard((upstream, stream), id, bytes.len(), end_stream);
        };
        let taken = to.link.codec.send_data(client_stream, bytes, end_stream);
        let waits = taken < bytes.len();
        // If nothing else is queued for the stream, the wait of its content begins now.
        if waits
            && to.link.codec.queued_on(client_stream) == bytes.len() - taken
            && let Some(call) = self.calls.get_mut(id)
        {
            call.unread_since = now;
        }
        let is_settled = is_guess && !to.link.codec.is_guess();
        let buffered_bytes = to.link.codec.queued_bytes();
        let is_tunnel = to.is_tunnel();
        self.mark_client(client);
        if is_settled {
            self.count_guess(id);
        }
        if taken > 0 && !end_stream {
            self.release_response((upstream, stream), id, taken);
            self.mark_dirty(LinkId::Endpoint(upstream));
        }
        if end_stream {
            self.response_complete(id, Ending::Answered { grpc_status: None, pushback: None });
        } else if waits
            && !is_tunnel
            && buffered_bytes > self.limits.relay.max_buffered_bytes_per_client as usize
            && let Some(client) = client
        {
            self.reset_unread_streams(client);
        }
    }

    /// Resets streams of a client for which too much response content waits. Begins with the stream whose content has
    /// waited longest without progress. If the client reads a stream, the content of this stream makes progress, so the
    /// streams that the client does not read are reset first.
    ///
    /// Frees a sixteenth of the limit at once, because the search visits all streams of the client: the next search
    /// follows only after as much content has arrived.
    #[cold]
    fn reset_unread_streams(&mut self, client: ClientId) {
        let now = self.now;
        let limit = self.limits.relay.max_buffered_bytes_per_client as usize;
        let Some(codec) = self.downstreams.get(client).map(|client| &client.link.codec).certain() else { return };
        let mut unread = Vec::new();
        for (stream, token) in codec.open_streams() {
            if codec.queued_on(stream) > 0 {
                let call = self.calls.of(client, stream, token);
                let waited = call.map_or(UNREAD_REST, |(_, call)| now.saturating_duration_since(call.unread_since));
                unread.push((Reverse(waited), stream, token));
            }
        }
        unread.sort_unstable_by_key(|(waited, stream, _)| (*waited, stream.id));
        for (_, stream, token) in unread {
            let buffered_bytes = self.downstreams.get(client).map_or(0, |client| client.link.codec.queued_bytes());
            if buffered_bytes <= limit - limit / 16 {
                return;
            }
            self.reset_unread_stream(client, (stream, token), buffered_bytes);
        }
    }

    /// Resets a client's stream because too much response content waits for the client. Drops the content that is
    /// queued for the stream.
    fn reset_unread_stream(&mut self, client: ClientId, (stream, token): (StreamKey, u32), buffered_bytes: usize) {
        let door = self.downstreams.get(client).map_or(Door::Outbound, |client| client.origin.door);
        let error = ProxyError::ClientTooSlow { buffered_bytes };
        self.metrics.count_proxy_error(door.direction(), error.why());
        self.reset_client_stream(Some(client), stream, ErrorCode::ENHANCE_YOUR_CALM);
        // The call has ended if the endpoint has sent the whole response.
        let Some((id, call)) = self.calls.of(client, stream, token) else { return };
        let (http_status, grpc_status) = error.statuses();
        let grpc_status = call.is_grpc.then_some(grpc_status as u8);
        if !call.is_grpc {
            call.http_status = http_status;
        }
        self.end_call(id, Ending::ProxyError { why: error.why(), grpc_status });
    }

    fn on_reset(
        &mut self,
        (upstream_id, stream): (UpstreamId, StreamKey),
        id: AttemptId,
        code: ErrorCode,
        by_peer: bool,
    ) {
        let Some(call) = self.calls.get(id.call).certain() else { return };
        let Some(upstream) = self.pools.upstream(upstream_id).certain() else { return };
        let (response, endpoint, client) = (call.response, upstream.address, call.client);
        let is_rejected = by_peer && response == Response::Awaited && code == ErrorCode::ENHANCE_YOUR_CALM;
        // Of a call with several attempts, none counts: the call would count several times.
        let charged = client.filter(|_| call.attempts.len() == 1);
        let failure = match response {
            // The server has answered the request and needs no more of it (RFC 9113 section 8.1).
            Response::Ended => Failure::Reset(code),
            _ if !by_peer => return self.response_broken(upstream_id, id, "a malformed response"),
            // Servers on grpc-go and grpc-java cancel a call at its deadline. For the caller, and for the balancer, it
            // must make no difference whose timer fires first.
            _ if code == ErrorCode::CANCEL && is_nearly_out_of_time(call, self.now) => {
                return self.deadline_passed(id.call);
            }
            // In HTTP/1, a reset means that the server closed the connection.
            Response::Awaited if upstream.key.hop == Hop::Plain(Protocol::Http1) => {
                Failure::lost(call, upstream, stream)
            }
            Response::Awaited if code == ErrorCode::REFUSED_STREAM => Failure::Refused { endpoint },
            // Do not forward REFUSED_STREAM after a response has begun. The code means that no server has processed the
            // call (RFC 9113 section 8.7), so the client might send the call again.
            Response::Begun if code == ErrorCode::REFUSED_STREAM => Failure::Reset(ErrorCode::INTERNAL_ERROR),
            Response::Awaited | Response::Begun => Failure::Reset(code),
        };
        if is_rejected {
            self.call_rejected(upstream_id, charged);
        }
        self.attempt_failed(id, &failure);
    }

    /// Handles a call that its server rejects with ENHANCE_YOUR_CALM. A server has one of these reasons:
    ///
    /// - The connection takes too much of the server's memory. Node.js rejects each new call while more than 10 MB of
    ///   responses wait on the connection because their clients do not read. After 100 rejected calls, Node.js closes the
    ///   connection. So the connection gets no new calls. Its calls in flight go on.
    /// - The call itself asks too much: for Node.js, it has more than 128 fields. So the call counts as cancelled by its
    ///   client, `charged`: a client with many such calls uses its own connections, and replaces no connections of other
    ///   clients.
    #[cold]
    fn call_rejected(&mut self, upstream_id: UpstreamId, charged: Option<ClientId>) {
        let Some(upstream) = self.pools.upstream_mut(upstream_id).certain() else { return };
        // A proxy passes on the codes of its application, so they say nothing about the connection to the proxy.
        if upstream.key.hop != Hop::Plain(Protocol::Http2) {
            return;
        }
        let (pool, is_common, is_retired) = (upstream.pool, upstream.key.lane.is_common(), upstream.retired);
        // Without a response that has content, no content of responses can wait on this connection.
        let may_hold_content = upstream.link.codec.http2().is_some_and(|http2| http2.highest_with_content() > 0);
        if is_common && let Some(client) = charged {
            self.downstreams.call_rejected(client, &self.limits.relay);
        }
        let Some(pool) = self.pools.get_mut(pool) else { return };
        if may_hold_content && !is_retired && pool.keeps_until.is_none_or(|until| self.now >= until) {
            pool.keeps_until = Some(self.now + REPLACE_EVERY);
            self.retire(upstream_id);
        }
    }

    fn response_broken(&mut self, upstream: UpstreamId, id: AttemptId, why: &'static str) {
        let Some(endpoint) = self.pools.upstream(upstream).map(|upstream| upstream.address).certain() else { return };
        self.attempt_failed(id, &Failure::Fault(ProxyError::Protocol { endpoint, why: why.to_owned() }));
    }

    /// Handles GOAWAY. The relay sends the calls that the server did not process to another endpoint. The other calls
    /// finish on this connection.
    fn on_goaway(&mut self, upstream_id: UpstreamId, last_stream: u32, code: ErrorCode) {
        let Some(upstream) = self.pools.upstream_mut(upstream_id).certain() else { return };
        if code != ErrorCode::NO_ERROR {
            tracing::warn!("{} sent GOAWAY {code}", upstream.address);
        }
        let (pool, earlier_failures) = (upstream.pool, upstream.earlier_failures);
        let was_short = self.now - upstream.link.opened < SHORT_LIFE;
        let was_no_use = (was_short || !upstream.ready) && upstream.calls == 0 && !upstream.retired;
        upstream.has_failed |= was_no_use;
        let is_strict = code == ErrorCode::ENHANCE_YOUR_CALM && upstream.cancelled.exceeds_strict_limit(self.now);
        self.retire(upstream_id);
        if is_strict && let Some(pool) = self.pools.get_mut(pool) {
            pool.is_strict_about_resets = true;
        }
        if was_no_use {
            // The server may send such a GOAWAY on every connection. So each such connection counts as another failure in
            // a row, and the pauses before the next attempts to connect grow.
            if let Some(pool) = self.pools.get_mut(pool) {
                pool.failures = pool.failures.max(earlier_failures);
            }
            let error = format!("GOAWAY {code} before the first call");
            self.connecting_failed(pool, &ConnectionFailure::Connect { error });
        }
        let Some(upstream) = self.pools.upstream_mut(upstream_id).certain() else { return };
        let endpoint = upstream.address;
        let Some(http2) = upstream.link.codec.http2() else { return };
        for (stream, token) in http2.streams_above(last_stream) {
            if let Some(http2) = self.pools.upstream_mut(upstream_id).and_then(|upstream| upstream.link.codec.http2()) {
                http2.abandon(stream);
            }
            if let Some(id) = self.calls.on(upstream_id, stream, token) {
                self.attempt_failed(id, &Failure::GoneAway { endpoint });
            }
        }
    }

    /// Tells the client to send no more on a stream whose response is complete.
    pub(crate) fn stop_client(&mut self, client: Option<ClientId>, stream: StreamKey) {
        if let Some(client) = self.downstreams.get_mut(client) {
            client.link.codec.stop_receiving(stream);
        }
        self.mark_client(client);
    }

    /// Resets the client of an opaque connection after the end of the response ([`Codec::refuse_rest`]).
    ///
    /// [`Codec::refuse_rest`]: crate::link::codec::Codec::refuse_rest
    pub(crate) fn cut_client(&mut self, client: Option<ClientId>, stream: StreamKey) {
        if let Some(client) = self.downstreams.get_mut(client) {
            client.link.codec.refuse_rest(stream);
        }
        self.mark_client(client);
    }

    /// Returns flow-control window to the senders of content, after a link has moved this content from its queue to its
    /// output. The senders may then send as many bytes again.
    pub(crate) fn return_room(&mut self, link: LinkId) {
        match link {
            LinkId::Client(client) => {
                self.return_room_to_endpoints(client);
                self.read_on_for_tunnel(client);
            }
            LinkId::Endpoint(upstream) => self.return_room_to_clients(upstream),
        }
    }

    fn return_room_to_endpoints(&mut self, client: ClientId) {
        let now = self.now;
        while let Some(Drained { stream, token, bytes }) =
            self.downstreams.get_mut(client).and_then(|client| client.link.codec.next_drained())
        {
            let Some((id, call)) = self.calls.of(client, stream, token) else { continue };
            call.unread_since = now;
            let Some((upstream, upstream_stream)) = call.attempts.latest_stream() else { continue };
            self.release_response((upstream, upstream_stream), id, bytes as usize);
            self.mark_dirty(LinkId::Endpoint(upstream));
        }
    }

    /// Lets an endpoint send as many bytes of a response as were passed on to the client. Limits how much of the response
    /// may wait for the client ([`Client::response_window`](crate::downstream::client::Client::response_window)).
    fn release_response(&mut self, (upstream, stream): (UpstreamId, StreamKey), id: CallId, bytes: usize) {
        let Some(upstream) = self.pools.upstream_mut(upstream) else { return };
        // The codec asks for the limit only after much content, so short responses do not pay for the limit.
        let growth = upstream.link.codec.release_within(stream, bytes, |window_bytes| {
            let client = self.downstreams.get(self.calls.get(id).and_then(|call| call.client));
            client.map_or(u32::MAX, |client| client.response_window(&self.limits, window_bytes))
        });
        if growth != 0 {
            self.count_window_growth(id, growth);
        }
    }

    fn return_room_to_clients(&mut self, upstream: UpstreamId) {
        while let Some(Drained { stream, token, bytes }) =
            self.pools.upstream_mut(upstream).and_then(|upstream| upstream.link.codec.next_drained())
        {
            if let Some(id) = self.calls.on(upstream, stream, token) {
                self.request_bytes_sent(id, bytes as usize);
            }
        }
    }
}

/// Returns `:status` as a number. The engine has checked that it has three digits.
pub(crate) fn status_code(fields: &FieldSection) -> u16 {
    let digits = fields.get(Known::Status).unwrap_or_default();
    digits.iter().fold(0, |n, digit| n * 10 + u16::from(digit - b'0'))
}

/// Returns the HTTP status that the client receives. Inside the mesh, an accepted upgrade is a response 200 with the
/// internal field `leno-upgrade`. An HTTP/1 client receives 101 instead.
fn status_seen(fields: &FieldSection) -> u16 {
    match status_code(fields) {
        200 if fields.contains(Known::LenoUpgrade) => 101,
        status => status,
    }
}
