//! Relay: forwards an endpoint's frames to the client that waits for them.

use std::time::{Duration, Instant};

use leno_http2::fields::Known;
use leno_http2::{Drained, ErrorCode, Event, FieldSection, Section, StreamKey};
use leno_model::balance::Outcome;

use super::Worker;
use super::accept::Door;
use super::call::{Call, Response};
use super::grpc;
use super::hop::{Hop, Protocol};
use super::link::{LinkId, Side};
use super::record::Ending;
use super::reply::ProxyError;
use crate::failure::ConnectionFailure;

/// A connection on which the server sends GOAWAY sooner than this, and before the first call, counts as a failed
/// attempt to connect.
const SHORT_LIFE: Duration = Duration::from_secs(1);

impl Worker {
    pub(super) fn on_endpoint_event(&mut self, upstream: usize, event: &Event<'_>, fields: &mut FieldSection) {
        match *event {
            Event::Headers { stream, token, section, end_stream, oversize } => {
                if oversize {
                    return self.response_broken(upstream, stream, token, "its header fields are too large");
                }
                self.on_response_headers(upstream, stream, token, section, fields, end_stream);
            }
            Event::Data { stream, token, bytes, end_stream } => {
                self.on_response_data(upstream, stream, token, bytes, end_stream);
            }
            Event::Reset { stream, token, code, by_peer } => self.on_reset(upstream, stream, token, code, by_peer),
            Event::GoAway { last_stream, code } => self.on_goaway(upstream, last_stream, code),
            Event::Settings => self.upstream_ready(upstream),
        }
    }

    pub(super) fn call_on(&mut self, upstream: usize, stream: StreamKey, token: u32) -> Option<&mut Call> {
        self.calls.get_mut(token as usize).filter(|call| call.upstream == Some((upstream, stream)))
    }

    fn on_response_headers(
        &mut self,
        upstream: usize,
        stream: StreamKey,
        token: u32,
        section: Section,
        fields: &mut FieldSection,
        end_stream: bool,
    ) {
        if self.upstreams.get(upstream).is_some_and(|upstream| upstream.key.hop == Hop::Plain(Protocol::Http2)) {
            // HTTP/2 has no upgrades, so this internal field can only come from the application itself.
            fields.remove(Known::LenoUpgrade);
        }
        let now = self.now;
        let max_interim_responses = self.limits.relay.max_interim_responses;
        let Some(call) = self.call_on(upstream, stream, token) else { return };
        let (client, client_stream) = (call.client, call.client_stream);
        if section == Section::Interim {
            call.interim_responses += 1;
            if call.interim_responses > max_interim_responses {
                self.metrics.count_abuse("interim_responses");
                return self.response_broken(upstream, stream, token, "too many interim responses (1xx)");
            }
        }
        if section == Section::Response {
            call.response = Response::Begun;
            call.http_status = status_seen(fields);
            if let Some(route) = &call.route {
                route.modify_response(fields);
            }
            let since_sent = now - call.sent_at;
            let cluster = call.cluster;
            if let Some(call) = self.calls.get_mut(token as usize)
                && let (Some(pick), Some(cluster)) =
                    (call.pick.as_mut(), cluster.and_then(|i| self.clusters.get_mut(i)))
            {
                cluster.balancer.answered(now, pick, since_sent);
            }
            self.stop_replay(token);
        }
        if let Some(client) = self.clients.get_mut(client) {
            client.link.codec.send_headers(client_stream, section, fields, end_stream);
        }
        self.mark_dirty(LinkId::client(client));
        if end_stream {
            let ending = Ending::Answered { grpc_status: grpc::status(fields), pushback: grpc::pushback(fields) };
            self.response_complete(token, ending);
        }
    }

    fn on_response_data(&mut self, upstream: usize, stream: StreamKey, token: u32, bytes: &[u8], end_stream: bool) {
        let Some(call) = self.call_on(upstream, stream, token) else { return };
        call.response_bytes += bytes.len() as u64;
        let (client, client_stream, is_guess) = (call.client, call.client_stream, call.is_guess);
        let Some(to) = self.clients.get_mut(client) else {
            return self.discard(upstream, stream, token, bytes.len(), end_stream);
        };
        let taken = to.link.codec.send_data(client_stream, bytes, end_stream);
        let is_settled = is_guess && !to.link.codec.is_guess();
        let buffered_bytes = to.link.codec.queued_bytes();
        let is_tunnel = to.is_tunnel();
        self.mark_dirty(LinkId::client(client));
        if is_settled {
            self.count_guess(token);
        }
        if taken > 0 && !end_stream {
            if let Some(upstream) = self.upstreams.get_mut(upstream) {
                upstream.link.codec.release(stream, taken);
            }
            self.mark_dirty(LinkId::endpoint(upstream));
        }
        if end_stream {
            self.response_complete(token, Ending::Answered { grpc_status: None, pushback: None });
        } else if buffered_bytes > self.limits.relay.max_buffered_bytes_per_client as usize && !is_tunnel {
            self.fail_slow_client(token, client, client_stream, buffered_bytes);
        }
    }

    /// Resets the stream that overflows the client's buffer, and drops the output that is queued for it.
    fn fail_slow_client(&mut self, token: u32, client: usize, stream: StreamKey, buffered_bytes: usize) {
        let door = self.clients.get(client).map_or(Door::Outbound, |client| client.origin.door);
        self.metrics.count_proxy_error(door.direction(), ProxyError::ClientTooSlow { buffered_bytes }.why());
        self.reset_client_stream(client, stream, ErrorCode::ENHANCE_YOUR_CALM);
        self.end_call(token, Ending::Cancelled);
    }

    /// Records a call whose response was relayed completely. The call ends once its request is complete, too.
    pub(super) fn response_complete(&mut self, token: u32, ending: Ending) {
        self.record(token, ending);
        let Some(call) = self.calls.get_mut(token as usize) else { return };
        call.response = Response::Ended;
        self.cancel_timers(token);
        self.end_call_if_complete(token);
    }

    fn on_reset(&mut self, upstream: usize, stream: StreamKey, token: u32, code: ErrorCode, by_peer: bool) {
        let Some(call) = self.call_on(upstream, stream, token) else { return };
        let (client, client_stream, response) = (call.client, call.client_stream, call.response);
        let sent_at = call.sent_at;
        if response == Response::Ended {
            // The server has answered the request and needs no more of it (RFC 9113 section 8.1).
            self.stop_client(client, client_stream);
            self.end_call(token, Ending::Complete);
        } else if !by_peer {
            self.response_broken(upstream, stream, token, "a malformed response");
        } else if response == Response::Awaited && self.is_http1(upstream) {
            let Some((address, calls)) = self.upstreams.get(upstream).map(|to| (to.address, to.calls)) else { return };
            self.upstream_lost(token, address, calls > 1);
        } else if code == ErrorCode::REFUSED_STREAM && response == Response::Awaited {
            let outcome = self.outcome_of_refusal(upstream, sent_at);
            self.not_processed(upstream, stream, token, outcome);
        } else {
            self.reset_client_stream(client, client_stream, code);
            self.end_call(token, Ending::Broken);
        }
    }

    /// Returns the balancer's outcome for a refused stream. A proxy refuses calls that it cannot forward to its
    /// application, which is a failure. A server refuses calls that are too much for it at the moment, which is none.
    fn outcome_of_refusal(&self, upstream: usize, sent_at: Instant) -> Outcome {
        let is_proxys = self.upstreams.get(upstream).is_some_and(|upstream| upstream.key.hop.is_mutual_tls());
        let failure = Outcome::Failure { latency: self.now - sent_at, pushback: None };
        if is_proxys { failure } else { Outcome::NotSent }
    }

    /// Returns whether the connection is HTTP/1, where a reset means that the server closed the connection.
    fn is_http1(&self, upstream: usize) -> bool {
        self.upstreams.get(upstream).is_some_and(|upstream| upstream.key.hop == Hop::Plain(Protocol::Http1))
    }

    fn response_broken(&mut self, upstream: usize, stream: StreamKey, token: u32, why: &'static str) {
        let Some(endpoint) = self.upstreams.get(upstream).map(|upstream| upstream.address) else { return };
        if self.call_on(upstream, stream, token).is_some() {
            self.fail(token, &ProxyError::Protocol { endpoint, why: why.to_owned() });
        }
    }

    /// Handles GOAWAY: calls that the server did not process are sent to another endpoint, the others finish on this
    /// connection.
    fn on_goaway(&mut self, index: usize, last_stream: u32, code: ErrorCode) {
        let Some(upstream) = self.upstreams.get(index) else { return };
        if code != ErrorCode::NO_ERROR {
            tracing::warn!("{} sent GOAWAY {code}", upstream.address);
        }
        let (cluster, key) = (upstream.cluster, upstream.key);
        let was_short = self.now - upstream.link.opened < SHORT_LIFE;
        let was_no_use = was_short && upstream.calls == 0 && !upstream.retired;
        self.retire(index);
        if was_no_use {
            // The server may send such a GOAWAY on every connection, so the next attempt waits a little.
            let error = format!("GOAWAY {code} before the first call");
            self.connecting_failed(cluster, key, &ConnectionFailure::Connect { error });
        }
        let Some(upstream) = self.upstreams.get_mut(index) else { return };
        let Some(http2) = upstream.link.codec.http2() else { return };
        for (stream, token) in http2.streams_above(last_stream) {
            if let Some(http2) = self.upstreams.get_mut(index).and_then(|upstream| upstream.link.codec.http2()) {
                http2.abandon(stream);
            }
            self.not_processed(index, stream, token, Outcome::NotSent);
        }
    }

    /// Tells the client to send no more on a stream whose response is complete.
    pub(super) fn stop_client(&mut self, client: usize, stream: StreamKey) {
        if let Some(client) = self.clients.get_mut(client) {
            client.link.codec.stop_receiving(stream);
        }
        self.mark_dirty(LinkId::client(client));
    }

    /// After queued DATA was written to a link, lets the other side of each call send as much again.
    pub(super) fn return_room(&mut self, id: LinkId) {
        while let Some(Drained { stream, token, bytes }) = self.link(id).and_then(|link| link.codec.next_drained()) {
            let Some(call) = self.calls.get(token as usize) else { continue };
            match id.side {
                Side::Endpoint if call.upstream == Some((id.index, stream)) => {
                    self.request_bytes_sent(token, bytes as usize);
                }
                Side::Arrival => {}
                Side::Client if call.client == id.index && call.client_stream == stream => {
                    let Some((upstream, upstream_stream)) = call.upstream else { continue };
                    if let Some(upstream) = self.upstreams.get_mut(upstream) {
                        upstream.link.codec.release(upstream_stream, bytes as usize);
                    }
                    self.mark_dirty(LinkId::endpoint(upstream));
                }
                _ => {}
            }
        }
        if id.side == Side::Client {
            self.read_on_for_tunnel(id.index);
        }
    }
}

/// Returns `:status` as a number. The engine has checked that it has three digits.
fn status_code(fields: &FieldSection) -> u16 {
    let digits = fields.get(Known::Status).unwrap_or_default();
    digits.iter().fold(0, |n, digit| n * 10 + u16::from(digit - b'0'))
}

/// Returns the status that the client receives. Between proxies and codecs, 200 with the internal field for upgrades
/// stands for 101.
fn status_seen(fields: &FieldSection) -> u16 {
    match status_code(fields) {
        200 if fields.contains(Known::LenoUpgrade) => 101,
        status => status,
    }
}
