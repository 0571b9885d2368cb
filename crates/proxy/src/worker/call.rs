//! One call: everything the relay knows of it, from its request's headers to the last byte of its response.

use std::time::Instant;

use leno_http2::fields::Known;
use leno_http2::{FieldSection, StreamKey};
use leno_model::balance::{EndpointId, Pick};

use super::accounts::Lane;
use super::follow::Followed;
use super::grpc;
use super::hop::{PoolKey, Protocol};
use super::timers::TimerKey;
use super::waiting::Turn;

/// Token of a stream whose call is over.
pub(super) const NO_CALL: u32 = u32::MAX;

/// The client of a mirrored request, which is nobody's.
pub(super) const NO_CLIENT: usize = usize::MAX;

/// Names a call for as long as it lives: slots are used again, serial numbers are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallId {
    pub(super) slot: u32,
    pub(super) serial: u64,
}

/// How far the response is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Response {
    /// Nothing has been relayed: the call can still be sent elsewhere.
    Awaited,
    /// Its header section has been relayed.
    Begun,
    /// It is complete; the client may still be sending.
    Ended,
}

/// A call in flight.
///
/// Invariants: `released <= sent` except while it is being sent again; `request` and `body` are whole while
/// `replayable`; `waiting_at` and `upstream` are not both set.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) serial: u64,
    /// The client's connection and stream.
    pub(super) client: usize,
    pub(super) client_stream: StreamKey,
    /// Where it is balanced; none if it could not be routed.
    pub(super) cluster: Option<usize>,
    /// Where it counts: the place of a series of the cluster's; none as long as it is in no series.
    pub(super) traffic: Option<u32>,
    /// The endpoint's connection and stream, once it has been sent.
    pub(super) upstream: Option<(usize, StreamKey)>,
    pub(super) pick: Option<Pick>,
    /// Which connections to an endpoint it may use, as was found when it was sent.
    pub(super) lane: Lane,
    /// The pool for whose connection it waits, and its place there.
    pub(super) waiting_at: Option<(PoolKey, Turn)>,
    pub(super) waiting_since: Instant,

    pub(super) request: FieldSection,
    /// Memory of its fields and trailers, as it was counted for the client.
    pub(super) fields_bytes: u32,
    /// Content that has not been sent, or that is kept to be sent again.
    pub(super) body: Vec<u8>,
    /// The request's trailers, if they came before it was sent.
    pub(super) trailers: Option<Box<FieldSection>>,
    /// A copy of them waits behind content in the endpoint's connection, in bytes.
    pub(super) trailers_sent_bytes: u32,
    pub(super) request_ended: bool,
    /// Its account counts it among those whose requests are still coming.
    pub(super) counts_as_open: bool,
    /// The latest content was of a few bytes, or there was none yet.
    pub(super) short_part: bool,
    pub(super) replayable: bool,
    /// Bytes of content in the endpoint's connection, in this attempt.
    pub(super) sent: usize,
    /// Bytes of content for which the client was given room again.
    pub(super) released: usize,

    pub(super) started: Instant,
    pub(super) sent_at: Instant,
    pub(super) deadline: Option<(Instant, TimerKey)>,
    /// When it is looked at whether content still comes; none for calls whose clients may be silent.
    pub(super) content_timer: Option<TimerKey>,
    /// `request_bytes` when that was looked at last.
    pub(super) content_seen: u64,
    /// The rule that it met, where routes are attached to what it is for.
    pub(super) route: Option<Box<Followed>>,
    pub(super) attempts: u32,
    /// Endpoints that did not take it.
    pub(super) tried: Vec<EndpointId>,

    /// What its application speaks.
    pub(super) protocol: Protocol,
    pub(super) is_grpc: bool,
    /// It counts nowhere yet: a connection of which we only guess that its server speaks first.
    pub(super) is_guess: bool,
    /// Policy allows it only because it asks for a workload's health.
    pub(super) is_health_check: bool,
    /// Its response has no content, ours neither.
    pub(super) is_head: bool,
    pub(super) response: Response,
    pub(super) http_status: u16,
    /// Content that has come from the client, and from the endpoint.
    pub(super) request_bytes: u64,
    pub(super) response_bytes: u64,
    /// Interim responses (1xx) that have come.
    pub(super) interim_responses: u32,
    /// Metrics and balancer have been told how it ended.
    pub(super) recorded: bool,
}

impl Call {
    /// A call whose request has begun.
    #[inline]
    pub(super) fn new(
        serial: u64,
        (client, client_stream): (usize, StreamKey),
        request: FieldSection,
        protocol: Protocol,
        request_ended: bool,
        now: Instant,
    ) -> Self {
        Self {
            serial,
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

    /// Whether it is a copy of another call's request, for whose answer nobody waits.
    pub(super) fn is_mirror(&self) -> bool {
        self.client == NO_CLIENT
    }

    /// Its trailers, of so many bytes, wait in the endpoint's connection until all of its content has gone.
    pub(super) fn trailers_wait(&mut self, bytes: usize) {
        self.trailers_sent_bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    }

    /// Memory of its fields and trailers, wherever they wait, in bytes.
    #[inline]
    pub(super) fn fields_memory_bytes(&self) -> u32 {
        let trailers = self.trailers.as_ref().map_or(0, |trailers| trailers.capacity_bytes());
        let bytes = u32::try_from(self.request.capacity_bytes() + trailers).unwrap_or(u32::MAX);
        bytes.saturating_add(self.trailers_sent_bytes)
    }

    /// Whether it may go to another endpoint: nothing of a response was seen and all of the request is at hand.
    pub(super) fn can_be_resent(&self, max_attempts: u32) -> bool {
        self.replayable && self.response == Response::Awaited && self.attempts < max_attempts
    }
}
