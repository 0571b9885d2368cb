//! Call: the state of one call, from the headers of its request to the last byte of its response.

use std::time::Instant;

use leno_http2::fields::Known;
use leno_http2::{FieldSection, StreamKey};
use leno_model::balance::{EndpointId, Pick};

use super::accounts::Lane;
use super::client::ClientId;
use super::cluster::ClusterId;
use super::follow::Followed;
use super::grpc;
use super::hop::{PoolKey, Protocol};
use super::slots::Id;
use super::timers::TimerKey;
use super::upstream::UpstreamId;
use super::waiting::Turn;

/// Token of a stream whose call is over.
pub(super) const NO_CALL: u32 = u32::MAX;

/// Identifies a call within its worker.
pub(super) type CallId = Id<Call>;

/// How much of the response has been relayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Response {
    /// Nothing: the call can still be sent to another endpoint.
    Awaited,
    /// The header section.
    Begun,
    /// The whole response; the client may still be sending its request.
    Ended,
}

/// A call in flight.
///
/// Invariants: `released <= sent`, except while the call is being sent again; `request` and `body` are complete while
/// `replayable`; `waiting_at` and `upstream` are not both set.
#[derive(Debug)]
pub(super) struct Call {
    /// The client's connection, and the stream on it. A copy of another call's request has no client.
    pub(super) client: Option<ClientId>,
    pub(super) client_stream: StreamKey,
    /// The cluster that the call is routed to; `None` until it is routed, or if it cannot be.
    pub(super) cluster: Option<ClusterId>,
    /// Index of the metrics series in which the call counts, among the cluster's series; `None` before it counts.
    pub(super) traffic: Option<u32>,
    /// The endpoint's connection and stream, once the call has been sent.
    pub(super) upstream: Option<(UpstreamId, StreamKey)>,
    pub(super) pick: Option<Pick>,
    /// The lane of connections that the call may use, selected when its endpoint was chosen.
    pub(super) lane: Lane,
    /// The pool in which the call waits for a connection, and its place in the queue.
    pub(super) waiting_at: Option<(PoolKey, Turn)>,
    pub(super) waiting_since: Instant,

    pub(super) request: FieldSection,
    /// Memory of the request's fields and trailers that is counted for the client, in bytes.
    pub(super) fields_bytes: u32,
    /// Request content that has not been sent, or that is kept for another attempt.
    pub(super) body: Vec<u8>,
    /// The request's trailers, if they came before the call was sent or are kept for another attempt.
    pub(super) trailers: Option<Box<FieldSection>>,
    /// Size of a copy of the trailers that waits behind content in the endpoint's connection, in bytes; 0 without such
    /// a copy.
    pub(super) trailers_sent_bytes: u32,
    pub(super) request_ended: bool,
    /// The account counts the call among its calls with incomplete requests.
    pub(super) counts_as_open: bool,
    /// The latest piece of content had a few bytes only, or there was no content yet.
    pub(super) short_part: bool,
    pub(super) replayable: bool,
    /// Bytes of content that the endpoint's connection has moved to its output, in this attempt.
    pub(super) sent: usize,
    /// Bytes of content for which the client was given room (flow control) again.
    pub(super) released: usize,

    pub(super) started: Instant,
    pub(super) sent_at: Instant,
    pub(super) deadline: Option<(Instant, TimerKey)>,
    /// The timer of the next check whether content still arrives; `None` for calls whose clients may be silent.
    pub(super) content_timer: Option<TimerKey>,
    /// The value of `request_bytes` at the latest such check.
    pub(super) content_seen: u64,
    /// The route rule that the call matched, if routes are attached to its destination.
    pub(super) route: Option<Box<Followed>>,
    pub(super) attempts: u32,
    /// Endpoints that were chosen for earlier attempts and did not process the call.
    pub(super) tried: Vec<EndpointId>,

    /// The protocol of the application that made the call.
    pub(super) protocol: Protocol,
    pub(super) is_grpc: bool,
    /// The connection of the call is a guess: we only assume that its server speaks first. The call counts nowhere yet.
    pub(super) is_guess: bool,
    /// Policy allows the call only because it asks for a workload's health.
    pub(super) is_health_check: bool,
    /// The request is a HEAD: no response to it has content, not even one that the proxy itself makes.
    pub(super) is_head: bool,
    pub(super) response: Response,
    pub(super) http_status: u16,
    /// Bytes of content received from the client. `response_bytes` are those received from the endpoint.
    pub(super) request_bytes: u64,
    pub(super) response_bytes: u64,
    /// Number of interim responses (1xx) received.
    pub(super) interim_responses: u32,
    /// The metrics and the balancer have been told how the call ended.
    pub(super) recorded: bool,
}

impl Call {
    /// Creates a call whose request has begun.
    #[inline]
    pub(super) fn new(
        (client, client_stream): (Option<ClientId>, StreamKey),
        request: FieldSection,
        protocol: Protocol,
        request_ended: bool,
        now: Instant,
    ) -> Self {
        Self {
            client,
            client_stream,
            cluster: None,
            traffic: None,
            upstream: None,
            pick: None,
            lane: Lane::Shared,
            waiting_at: None,
            waiting_since: now,
            is_grpc: grpc::is_grpc(&request),
            is_head: request.get(Known::Method) == Some(b"HEAD"),
            fields_bytes: 0,
            request,
            is_guess: false,
            is_health_check: false,
            body: Vec::new(),
            trailers: None,
            trailers_sent_bytes: 0,
            request_ended,
            counts_as_open: false,
            short_part: true,
            replayable: true,
            sent: 0,
            released: 0,
            started: now,
            sent_at: now,
            deadline: None,
            content_timer: None,
            content_seen: 0,
            route: None,
            attempts: 0,
            tried: Vec::new(),
            protocol,
            response: Response::Awaited,
            http_status: 0,
            request_bytes: 0,
            response_bytes: 0,
            interim_responses: 0,
            recorded: false,
        }
    }

    /// Returns whether the call is a copy of another call's request. The response to a copy is dropped.
    pub(super) fn is_mirror(&self) -> bool {
        self.client.is_none()
    }

    /// Records that trailers of `bytes` bytes wait in the endpoint's connection until all content has gone.
    pub(super) fn trailers_wait(&mut self, bytes: usize) {
        self.trailers_sent_bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    }

    /// Returns the memory of the request's fields and trailers, wherever they wait, in bytes.
    #[inline]
    pub(super) fn fields_memory_bytes(&self) -> u32 {
        let trailers = self.trailers.as_ref().map_or(0, |trailers| trailers.capacity_bytes());
        let bytes = u32::try_from(self.request.capacity_bytes() + trailers).unwrap_or(u32::MAX);
        bytes.saturating_add(self.trailers_sent_bytes)
    }

    /// Returns whether the call may be sent to another endpoint: no part of a response was received, the whole request
    /// is stored, and attempts are left.
    pub(super) fn can_be_resent(&self, max_attempts: u32) -> bool {
        self.replayable && self.response == Response::Awaited && self.attempts < max_attempts
    }
}
