//! A call, from the headers of its request to the last byte of its response. This file has the client's half of the
//! call; the endpoint's half is an [`Attempt`]. This table lists which file handles which step of a call:
//!
//! | when | file |
//! |---|---|
//! | the request arrives, gets its target, is authorized and admitted | `request` |
//! | the target and the endpoint are found | [`target`](crate::target) |
//! | an attempt begins, waits, and is sent | `send` |
//! | a response begins and goes on | `response` |
//! | an attempt ends without an answer | `retry` |
//! | an attempt fails, and the call's rule has retries | `retry_policy` |
//! | a call has not been answered in time, and its rule allows hedging | `hedge` |
//! | something that the call waits for is due | `deadline` |
//! | a client asks how many attempts its call took | `attempts_field` |
//! | a part of the call's policy would act, but its mode is Audit | `policy` |
//! | the proxy itself answers | `reply` |
//! | a call is traced | `trace` |
//! | `/calls` shows the calls in flight | `open` |
//! | the call ends, and is recorded | `end`, `record` |
//!
//! `calls` owns all calls, `attempt` has the attempts at one call, `due` has the times that a call waits for, `mirror`
//! makes copies of requests.

pub(crate) mod attempt;
pub(crate) mod attempts_field;
pub(crate) mod calls;
pub(crate) mod deadline;
pub(crate) mod due;
pub(crate) mod end;
pub(crate) mod hedge;
pub(crate) mod mirror;
pub(crate) mod open;
pub(crate) mod policy;
#[cfg_attr(not(test), expect(clippy::indexing_slicing, reason = "there are two directions"))]
pub(crate) mod record;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod retry;
pub(crate) mod retry_policy;
pub(crate) mod send;
pub(crate) mod trace;

use std::time::{Duration, Instant};

use leno_http2::fields::Known;
use leno_http2::{FieldSection, StreamKey};
use leno_model::balance::{EndpointId, Method};

use crate::call::attempt::{Attempt, Attempts};
use crate::call::due::DueTimes;
use crate::call::policy::PolicyProgress;
use crate::call::retry_policy::Unretried;
use crate::call::trace::CallTrace;
use crate::downstream::client::ClientId;
use crate::link::grpc;
use crate::link::messages::Messages;
use crate::pool::hop::Protocol;
use crate::slots::Id;
use crate::tap::TappedFields;
use crate::target::cluster::ClusterId;
use crate::target::methods::CallMethod;
use crate::target::routes::CallRoute;

/// Token of a stream whose call has ended.
pub(crate) const NO_CALL: u32 = u32::MAX;

/// Identifies a call within its worker.
pub(crate) type CallId = Id<Call>;

/// The part of the response that the relay has sent on to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Response {
    /// No part of the response. So the call can still be sent to another endpoint.
    Awaited,
    /// The header section.
    Begun,
    /// The whole response; the client may still be sending its request.
    Ended,
}

/// A call in flight.
///
/// Invariants: no attempt has sent fewer bytes than `released`, except while the call is being sent again; `request`
/// and `body` are complete while `replayable`.
#[derive(Debug)]
pub(crate) struct Call {
    /// The client's connection, and the stream on it. A copy of another call's request has no client.
    pub(crate) client: Option<ClientId>,
    pub(crate) client_stream: StreamKey,
    /// The cluster that the call is routed to; `None` if the call is not routed yet, or cannot be routed.
    pub(crate) cluster: Option<ClusterId>,
    /// Index of the call's metrics series among the cluster's series; `None` before the call is counted.
    pub(crate) traffic: Option<u32>,
    pub(crate) method: CallMethod,
    pub(crate) attempts: Attempts,
    /// Endpoints of earlier attempts that failed or whose response was dropped. The next attempt prefers other
    /// endpoints.
    pub(crate) tried: Vec<EndpointId>,
    /// Number of retries that the call's route rule has allowed so far.
    pub(crate) retries: u8,
    /// Whether an endpoint may have processed one of the failed attempts.
    pub(crate) may_be_processed: bool,
    /// Why the call got no further retry.
    pub(crate) unretried: Option<Unretried>,

    pub(crate) request: FieldSection,
    /// Number of bytes of the call's fields that the client is charged for ([`Call::fields_memory_bytes`]).
    pub(crate) fields_bytes: u32,
    /// Number of bytes by which the receive window of the response has grown. The client's
    /// [`grown_bytes`](crate::downstream::client::Client::grown_bytes) contains them.
    pub(crate) grown_bytes: u32,
    /// Request content that was not sent yet, or that is kept for another attempt.
    pub(crate) body: Vec<u8>,
    /// The request's trailers, if they came before the call was sent or are kept for another attempt.
    pub(crate) trailers: Option<Box<FieldSection>>,
    pub(crate) request_ended: bool,
    /// Whether the request did not end with its header section. Unlike `request_ended`, this stays the same when the
    /// rest of the request arrives, so policy gives the same answer at any time.
    pub(crate) has_content: bool,
    /// Whether an HTTP/1 client may send no content at all: its request has `Expect: 100-continue`, and no 100 response
    /// has followed.
    pub(crate) awaits_continue: bool,
    /// Whether the client's account counts the call as one with an incomplete request.
    pub(crate) counts_as_open: bool,
    /// Whether the latest piece of request content had only a few bytes, or no content has arrived yet.
    pub(crate) short_part: bool,
    pub(crate) replayable: bool,
    /// Number of content bytes for which the client got flow-control window again.
    pub(crate) released: usize,
    /// Number of bytes of `body` that [`Calls::held_bytes`](calls::Calls::held_bytes) counts.
    pub(crate) charged_bytes: usize,

    pub(crate) started: Instant,
    pub(crate) deadline: Option<Instant>,
    pub(crate) due: DueTimes,
    /// When content of the request last arrived, or last left for the endpoint. Content that waits in the proxy keeps
    /// the client from sending more.
    pub(crate) content_at: Instant,
    /// The route rule that the call matched, if routes are attached to its destination.
    pub(crate) route: Option<CallRoute>,

    /// The protocol of the application that made the call.
    pub(crate) protocol: Protocol,
    pub(crate) is_grpc: bool,
    /// Whether the proxy only guesses that the connection is opaque, because neither side has sent anything
    /// ([`server_first`](crate::downstream::server_first)). Metrics do not count such a call yet.
    pub(crate) is_guess: bool,
    /// Whether policy allows the call only because it is a health check.
    pub(crate) is_health_check: bool,
    /// Whether the client asks for the number of attempts (`leno-attempts`).
    pub(crate) asks_attempts: bool,
    /// Whether the request is a HEAD. No response to it has content, not even a response of the proxy itself.
    pub(crate) is_head: bool,
    /// Whether the call is, or asks for, a tunnel. The bytes in a tunnel may be meant for one endpoint only, so route
    /// rules neither retry nor hedge a tunnel. A tunnel may be silent for any time, even after `request` was dropped.
    pub(crate) is_tunnel: bool,
    /// Whether the call asks for an upgrade. A server may ignore an upgrade, and answer with 2xx like to any request.
    pub(crate) is_upgrade: bool,
    /// When the server accepted the tunnel or the upgrade for which the call asks; `None` before, and for other calls.
    pub(crate) accepted_at: Option<Instant>,
    pub(crate) response: Response,
    /// Whether the response is the denial of a policy, which the proxy of the called workload has answered.
    pub(crate) is_denied: bool,
    pub(crate) http_status: u16,
    /// Number of content bytes received from the client. `response_bytes` is the number of content bytes received from
    /// the endpoint.
    pub(crate) request_bytes: u64,
    pub(crate) response_bytes: u64,
    /// When content of the response began to wait for the client, or last left the queue. Only of use while content
    /// waits.
    pub(crate) unread_since: Instant,
    /// Counts the gRPC messages in the content of each direction, if the call is gRPC.
    pub(crate) request_messages: Messages,
    pub(crate) response_messages: Messages,
    /// The fields of the response, if a tap shows them.
    pub(crate) tapped: Option<Box<TappedFields>>,
    /// The spans of the call, if it is traced.
    pub(crate) trace: Option<Box<CallTrace>>,
    /// Number of interim responses (1xx) received.
    pub(crate) interim_responses: u32,
    /// Whether the end of the call was reported to the metrics and the balancer.
    pub(crate) recorded: bool,
}

impl Call {
    /// Creates a call whose request has begun.
    #[inline]
    pub(crate) fn new(
        (client, client_stream): (Option<ClientId>, StreamKey),
        request: FieldSection,
        protocol: Protocol,
        request_ended: bool,
        now: Instant,
    ) -> Self {
        let method = request.get(Known::Method);
        let is_upgrade = request.contains(Known::LenoUpgrade);
        let is_tunnel = protocol == Protocol::Opaque || is_upgrade || method == Some(b"CONNECT");
        Self {
            client,
            client_stream,
            cluster: None,
            traffic: None,
            method: match (client, protocol) {
                (None, _) | (_, Protocol::Opaque) => CallMethod::Uncounted,
                (Some(_), Protocol::Http1 | Protocol::Http2) => CallMethod::Unknown,
            },
            attempts: Attempts::default(),
            tried: Vec::new(),
            retries: 0,
            may_be_processed: false,
            unretried: None,
            // An error for gRPC has the status 200, which would accept the tunnel of a CONNECT request.
            is_grpc: method != Some(b"CONNECT") && grpc::is_grpc(&request),
            is_head: method == Some(b"HEAD"),
            is_tunnel,
            is_upgrade,
            accepted_at: None,
            awaits_continue: protocol == Protocol::Http1 && !request_ended && request.contains(Known::Expect),
            fields_bytes: 0,
            grown_bytes: 0,
            request,
            is_guess: false,
            is_health_check: false,
            asks_attempts: false,
            body: Vec::new(),
            trailers: None,
            request_ended,
            has_content: !request_ended,
            counts_as_open: false,
            short_part: true,
            replayable: true,
            released: 0,
            charged_bytes: 0,
            started: now,
            deadline: None,
            due: DueTimes::default(),
            content_at: now,
            route: None,
            protocol,
            response: Response::Awaited,
            is_denied: false,
            http_status: 0,
            request_bytes: 0,
            response_bytes: 0,
            unread_since: now,
            request_messages: Messages::default(),
            response_messages: Messages::default(),
            tapped: None,
            trace: None,
            interim_responses: 0,
            recorded: false,
        }
    }

    /// Returns whether the call is a copy of another call's request. The response to a copy is dropped.
    pub(crate) fn is_mirror(&self) -> bool {
        self.client.is_none()
    }

    /// Returns the memory of the call's fields in bytes: the request's fields, all copies of its trailers, the
    /// response's fields that taps show, and the spans.
    #[inline]
    pub(crate) fn fields_memory_bytes(&self) -> u32 {
        let trailers = self.trailers.as_ref().map_or(0, |trailers| trailers.capacity_bytes());
        let tapped = self.tapped.as_ref().map_or(0, |tapped| tapped.capacity_bytes());
        let trace = self.trace.as_ref().map_or(0, |trace| trace.memory_bytes());
        let bytes = u32::try_from(self.request.capacity_bytes() + trailers + tapped + trace).unwrap_or(u32::MAX);
        bytes.saturating_add(self.attempts.trailers_bytes())
    }

    /// Returns how many bytes of `body` no other charge includes. The charge of the client's link includes each byte of
    /// content until the client gets flow-control window for it. Before the call is sent, this byte is in `body` only.
    /// Once the call is sent, the byte waits in the endpoint's connection, and `body` has a second copy.
    fn extra_body_bytes(&self) -> usize {
        if self.attempts.is_sent() { self.body.len() } else { self.body.len().min(self.released) }
    }

    /// Returns whether the call may be sent to another endpoint: no part of a response was received, and the whole
    /// request is stored.
    pub(crate) fn can_be_resent(&self) -> bool {
        self.replayable && self.response == Response::Awaited
    }

    /// Returns whether the whole request was received and the whole response was relayed.
    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        self.request_ended && self.response == Response::Ended
    }

    /// Records that the client has sent its whole request.
    #[inline]
    pub(crate) fn end_request(&mut self, now: Instant) {
        self.request_ended = true;
        if let Some(route) = &mut self.route {
            route.request_ms = u32::try_from((now - self.started).as_millis()).unwrap_or(u32::MAX);
        }
    }

    /// Returns the latency of a call that ends now: the time until the end of its response. For a tunnel or an upgrade,
    /// the time until the server accepted it, because its client and its server then use it for as long as they like.
    #[inline]
    pub(crate) fn latency(&self, now: Instant) -> Duration {
        self.accepted_at.unwrap_or(now).saturating_duration_since(self.started)
    }

    /// Returns how long the endpoint of an attempt has had the whole request. `sent` is the time at which the attempt
    /// was sent. Returns zero if the request has not ended.
    pub(crate) fn response_time(&self, sent: Instant, now: Instant) -> Duration {
        if !self.request_ended {
            return Duration::ZERO;
        }
        let request_ms = self.route.as_ref().map_or(0, |route| route.request_ms);
        now.saturating_duration_since(sent.max(self.started + Duration::from_millis(request_ms.into())))
    }

    /// Returns whether the call's route rule has a hedge policy.
    #[inline]
    pub(crate) fn may_plan_hedge(&self) -> bool {
        self.route.as_ref().is_some_and(|route| route.hedge().is_some())
    }

    /// Returns whether the call's rule has retries in mode Enforce.
    pub(crate) fn has_retries(&self) -> bool {
        let retry = self.route.as_ref().and_then(CallRoute::retry);
        retry.is_some_and(|retry| !retry.is_audited())
    }

    /// Returns whether an endpoint has forbidden further attempts.
    pub(crate) fn is_pushed_back(&self) -> bool {
        self.progress().is_some_and(|progress| progress.is_pushed_back)
    }

    /// Returns whether a past or a present attempt at the call uses this endpoint.
    pub(crate) fn has_tried(&self, endpoint: EndpointId) -> bool {
        let goes_on = |attempt: &Attempt| attempt.pick.as_ref().is_some_and(|pick| pick.endpoint == endpoint);
        self.tried.contains(&endpoint) || self.attempts.iter().any(goes_on)
    }

    /// Returns how many hedges have begun: attempts that began while another attempt was in progress.
    pub(crate) fn hedges(&self) -> u8 {
        self.progress().map_or(0, |progress| progress.hedges)
    }

    /// Returns the method under which the relay records the latency of this call for hedging; `None` if the call's
    /// policy does not hedge it.
    #[inline]
    pub(crate) fn hedged_method(&self) -> Option<Method> {
        self.route.as_ref()?.hedged_method
    }

    /// Returns the state of the policy of the call's rule; `None` if the policy has stored no state for the call.
    #[inline]
    pub(crate) fn progress(&self) -> Option<&PolicyProgress> {
        self.route.as_ref()?.progress.as_deref()
    }

    /// Returns how many further attempts the call's policy has begun: retries and hedges.
    #[inline]
    pub(crate) fn further_attempts(&self) -> u8 {
        self.retries.saturating_add(self.hedges())
    }

    /// Returns the number of attempts without the policy's retries and hedges: the first attempt, and the attempts that
    /// the relay began on its own, because no endpoint had processed the call or a server had closed an idle
    /// connection.
    pub(crate) fn own_attempts(&self) -> u32 {
        self.attempts.begun().saturating_sub(u32::from(self.further_attempts()))
    }
}
