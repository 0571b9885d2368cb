//! Record: reports the end of every call to metrics, the balancer and the access log, exactly once, however the call
//! ends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leno_http2::FieldSection;
use leno_http2::fields::Known;
use leno_model::balance::Outcome;
pub(crate) use leno_model::balance::is_failure;
use leno_model::spiffe::SpiffeId;

use crate::Relay;
use crate::access_log;
use crate::call::attempt::{Attempt, AttemptId};
use crate::call::deadline::is_nearly_out_of_time;
use crate::call::response::status_code;
use crate::call::{Call, CallId};
use crate::certain::Certain;
use crate::downstream::origin::Door;
use crate::link::grpc::{self, Status};
use crate::metrics::{Class, Direction, TlsLabel, WorkerMetrics};
use crate::pool::hop::{Hop, Protocol};
use crate::target::cluster::ClusterState;

/// The outcome of a call, as the metrics, the balancer and the access log record it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The relay forwarded the complete response of the endpoint.
    Answered { grpc_status: Option<u8>, pushback: Option<Duration> },
    /// The endpoint reset the stream, or failed to serve a mirrored copy. The balancer has already recorded the
    /// failure.
    Broken,
    /// The proxy answered with an error. If an endpoint caused the error, the balancer has already recorded the
    /// failure.
    ProxyError { why: &'static str, grpc_status: Option<u8> },
    /// The client cancelled the call or closed its connection.
    Cancelled,
    /// The client already had the complete response, so the outcome of the call was recorded at that time.
    Complete,
}

impl Ending {
    /// Returns whether the call ended because its client or a time limit did not wait longer for the answer.
    pub(crate) fn took_too_long(self) -> bool {
        self.is_cancelled_or(&["deadline-exceeded", "request-timeout", "backend-timeout", "stream-idle"])
    }

    /// Returns whether the client has caused the end of the call: by cancelling it, or by a deadline or limit that the
    /// client itself has chosen, or by not sending or reading content. The proxy charges the client for resetting the
    /// streams of such calls. Otherwise, a client could use short deadlines to make the proxy reset many streams.
    pub(crate) fn is_caused_by_client(self) -> bool {
        self.is_cancelled_or(&[
            "deadline-exceeded",
            "content-late",
            "client-too-slow",
            "header-list-too-large",
            "response-header-list-too-large",
        ])
    }

    /// Returns the class of a call with these statuses.
    #[inline]
    pub(crate) fn class(self, http_status: u16, grpc_status: Option<u8>) -> Class {
        let has_failed = match self {
            Self::Cancelled | Self::Complete => return Class::Cancelled,
            Self::ProxyError { why: "denied", .. } => return Class::Denied,
            Self::Broken => true,
            Self::Answered { .. } => is_failure(http_status, grpc_status),
            Self::ProxyError { why, .. } => is_without_destination(why) || is_failure(http_status, grpc_status),
        };
        if has_failed { Class::Failure } else { Class::Success }
    }

    /// Returns whether the time of the whole call was over.
    pub(crate) fn has_expired(self) -> bool {
        matches!(self, Self::ProxyError { why: "deadline-exceeded" | "request-timeout", .. })
    }

    /// Returns whether the client cancelled the call, or the proxy answered with one of these errors.
    fn is_cancelled_or(self, errors: &[&str]) -> bool {
        match self {
            Self::Cancelled => true,
            Self::ProxyError { why, .. } => errors.contains(&why),
            Self::Answered { .. } | Self::Broken | Self::Complete => false,
        }
    }
}

/// Returns whether hedging drops an answer with these statuses while another attempt waits. For metrics and for the
/// balancer, more statuses are failures ([`is_failure`]), but the application at another endpoint would most likely
/// answer with the same status.
pub(crate) fn is_dropped_by_hedging(http_status: u16, grpc_status: Option<u8>) -> bool {
    const FAILURES: [Status; 3] = [Status::Unavailable, Status::ResourceExhausted, Status::Internal];
    http_status >= 500 || http_status == 429 || FAILURES.iter().any(|&status| grpc_status == Some(status as u8))
}

/// Applies [`is_dropped_by_hedging`] to a header section. Does not see the gRPC status of a response with content: that
/// status comes later, in the trailers.
pub(crate) fn is_dropped_answer(fields: &FieldSection, is_grpc: bool) -> bool {
    is_dropped_by_hedging(status_code(fields), grpc::status(fields).filter(|_| is_grpc))
}

/// Returns whether a reason of a [`ProxyError`](crate::call::reply::ProxyError) means that the call has no destination.
/// The status alone does not show this: an application also answers with 404 or UNIMPLEMENTED, and its answer is no
/// failure.
pub(crate) fn is_without_destination(why: &str) -> bool {
    ["no-route", "no-matching-rule", "loop"].contains(&why)
}

/// The server of an attempt.
struct Server {
    address: SocketAddr,
    hop: Hop,
    /// The identity that the server's certificate must prove; `None` without mutual TLS.
    id: Option<Arc<SpiffeId>>,
}

impl Server {
    fn id(&self) -> Option<&SpiffeId> {
        self.id.as_deref()
    }
}

impl Call {
    /// Returns the status that the client got; `None` if the client got none, or cancelled the call.
    pub(crate) fn status_seen(&self, class: Class) -> Option<u16> {
        (class != Class::Cancelled && self.http_status != 0).then_some(self.http_status)
    }

    /// Counts an attempt that has ended while its call goes on, in the metrics of the route rule that the call matched,
    /// if any. `error` is the reason why the attempt failed; `None` if the endpoint answered.
    #[cold]
    pub(crate) fn pass_over(
        &self,
        id: AttemptId,
        (http_status, grpc_status): (Option<u16>, Option<u8>),
        error: Option<&'static str>,
        now: Instant,
    ) {
        let Some(route) = &self.route else { return };
        route.metrics().passed_over(http_status, grpc_status, error);
        if let Some(attempt) = self.attempts.get(id).filter(|attempt| attempt.stream().is_some()) {
            route.metrics().responded(self.response_time(attempt.since, now));
        }
    }
}

impl Relay {
    /// Reports how a call ended. Does nothing if the end of the call was reported before.
    pub(crate) fn record(&mut self, id: CallId, ending: Ending) {
        let now = self.now;
        let Some(call) = self.calls.get_mut(id).certain() else { return };
        if std::mem::replace(&mut call.recorded, true) {
            return;
        }
        let call = if call.is_guess {
            self.count_guess(id);
            let Some(call) = self.calls.get_mut(id).certain() else { return };
            if call.is_guess {
                return self.forget_guess(id);
            }
            call
        } else {
            call
        };
        let was_cancelled = matches!(ending, Ending::Cancelled | Ending::Complete);
        let ending = call.recorded_ending(ending, now);
        let (latency, duration) = (call.latency(now), now - call.started);
        // An opaque connection lasts as long as the application keeps it, so its duration is no latency.
        let timed = (call.protocol != Protocol::Opaque).then_some(latency);
        let is_traced = call.trace.is_some();
        let mut cluster = self.targets.get_mut(call.cluster);
        let door = self.downstreams.get(call.client).map_or(Door::Outbound, |client| client.origin.door);
        let direction = door.direction();
        if call.traffic.is_none()
            && let Some(cluster) = &mut cluster
        {
            call.traffic = Some(count_unsent(cluster, &self.metrics));
        }
        let series = call.traffic.zip(cluster.as_deref()).and_then(|(place, cluster)| cluster.traffic(place));
        let metrics = series.unwrap_or_else(|| {
            let unrouted = &*self.unrouted[direction as usize];
            unrouted.request();
            unrouted
        });
        let grpc_status = match ending {
            Ending::Answered { grpc_status, .. } => grpc_status.or_else(|| missing_status(call)),
            Ending::ProxyError { grpc_status, .. } => grpc_status,
            Ending::Broken | Ending::Cancelled | Ending::Complete => None,
        };
        let class = match ending {
            Ending::Answered { .. } if call.is_denied => Class::Denied,
            _ => ending.class(call.http_status, grpc_status),
        };
        match (class, ending) {
            (Class::Cancelled, _) => metrics.no_response(),
            (Class::Denied, _) => metrics.response(call.http_status, grpc_status, class, None),
            // A reset before the response headers counts as 502 (Bad Gateway).
            (_, Ending::Broken) if call.http_status == 0 => metrics.response(502, None, class, timed),
            _ => metrics.response(call.http_status, grpc_status, class, timed),
        }
        // Another metric counts the mirrored copies that are dropped.
        if was_cancelled && !call.is_mirror() {
            self.metrics.cancelled_total.add(1);
        }
        if let Some(route) = &call.route {
            let is_answered = matches!(ending, Ending::Answered { .. });
            if call.retries > 0 && call.unretried.is_none() && is_answered && class == Class::Success {
                route.count_retry_success();
            }
            let response_took = call.attempts.latest_sent_at().map(|sent| call.response_time(sent, now));
            route.ended(call.http_status, (class, grpc_status), ending, (latency, response_took));
        }
        if let Some(cluster) = cluster {
            // If the call was not sent, its method has not begun.
            cluster.begin_method(call, &self.metrics, self.limits.relay.max_methods_per_service as usize);
            cluster.method_ended(call, ending, (class, grpc_status), now, &self.metrics);
            finish_picks(call, cluster, now, (ending, grpc_status));
        }
        if self.access_log.is_on() || self.taps.is_open() {
            self.log_access(id, ending, (class, grpc_status), duration);
        }
        if is_traced {
            self.finish_trace(id, ending, (class, grpc_status));
        }
    }

    /// Returns the server of a call's latest attempt, if the attempt was sent. Also finds the server if the attempt's
    /// connection is lost.
    fn server_of(&self, call: &Call) -> Option<Server> {
        if let Some((upstream, _)) = call.attempts.latest_stream() {
            let upstream = self.pools.upstream(upstream)?;
            return Some(Server { address: upstream.address, hop: upstream.key.hop, id: upstream.expected.clone() });
        }
        let pool = self.pools.get(call.attempts.latest_lost()?)?;
        let member = self.targets.get(pool.cluster)?.member(pool.key.endpoint)?;
        let proxy = member.proxy.as_ref().filter(|_| pool.key.hop.is_mutual_tls());
        let id = proxy.and_then(|proxy| self.targets.id_of(proxy)).map(Arc::new);
        Some(Server { address: pool.address, hop: pool.key.hop, id })
    }

    /// Counts a response that an endpoint has broken off among the errors of the proxy. The client gets no error message,
    /// because the proxy can only reset the client's stream.
    #[cold]
    pub(crate) fn count_broken(&self, id: CallId) {
        let Some(call) = self.calls.get(id).certain() else { return };
        let door = self.downstreams.get(call.client).map_or(Door::Outbound, |client| client.origin.door);
        self.metrics.count_proxy_error(door.direction(), self.why_broken(call));
    }

    /// Returns why the response of a call broke off, as a value of `leno-proxy-error`.
    fn why_broken(&self, call: &Call) -> &'static str {
        match self.server_of(call).map(|server| server.hop) {
            // An HTTP/1 server can break a response off only by closing the connection.
            Some(Hop::Plain(Protocol::Http1)) => "connection-closed",
            _ => "reset",
        }
    }

    /// Returns why a call ended before its endpoint had answered it completely, as a value of `leno-proxy-error`; `None`
    /// if the proxy did not end the call.
    pub(crate) fn error_of(&self, call: &Call, ending: Ending) -> Option<&'static str> {
        match ending {
            Ending::ProxyError { why, .. } => Some(why),
            Ending::Broken => Some(self.why_broken(call)),
            Ending::Answered { .. } | Ending::Cancelled | Ending::Complete => None,
        }
    }

    /// Handles the end of a connection that the relay wrongly guessed to be opaque. Such a connection was not a call,
    /// so only the balancer records the end. The metrics and the access log do not count it.
    fn forget_guess(&mut self, id: CallId) {
        let Some(call) = self.calls.get_mut(id).certain() else { return };
        if let Some(cluster) = self.targets.get_mut(call.cluster) {
            finish_picks(call, cluster, self.now, (Ending::Cancelled, None));
        }
    }

    /// Reports a call to the access log and to taps.
    fn log_access(
        &mut self,
        id: CallId,
        ending: Ending,
        (class, grpc_status): (Class, Option<u8>),
        duration: Duration,
    ) {
        let Some(call) = self.calls.get(id).certain() else { return };
        let Some(client) = self.downstreams.get(call.client) else { return };
        let server = self.server_of(call);
        let direction = client.origin.door.direction();
        let field = |known| call.request.get(known).unwrap_or_default();
        let tls = match (direction, &server) {
            (Direction::Inbound, _) => Some(client.tls_label().label()),
            (Direction::Outbound, Some(server)) => Some(self.endpoint_tls(direction, server.hop, server.id()).label()),
            (Direction::Outbound, None) => None,
        };
        let record = access_log::Record {
            time: self.wall_clock_at(call.started),
            direction,
            client: client.origin.peer,
            client_id: client.peer_id.as_deref(),
            server: server.as_ref().map(|server| server.address),
            server_id: server.as_ref().and_then(Server::id),
            tls,
            protocol: match call.protocol {
                Protocol::Http2 => access_log::Protocol::Http2,
                Protocol::Http1 => access_log::Protocol::Http11,
                Protocol::Opaque => access_log::Protocol::Opaque,
            },
            method: field(Known::Method),
            authority: field(Known::Authority),
            path: field(Known::Path),
            route: call.route.as_ref().map(|route| (route.name(), route.rule_name())),
            status: call.status_seen(class),
            grpc_status,
            request_bytes: call.request_bytes,
            response_bytes: call.response_bytes,
            duration,
            retries: call.retries,
            hedges: call.hedges(),
            audited: call.progress().map(|progress| progress.audited).unwrap_or_default(),
            request_id: field(Known::XRequestId),
            trace_id: call.trace_id(),
            user_agent: field(Known::UserAgent),
            proxy_error: self.error_of(call, ending),
        };
        self.access_log.write(&record);
        if self.taps.is_open() {
            let shown = (&record, class);
            self.taps.show(shown, &call.request, call.tapped.as_deref(), self.now, &mut self.random);
        }
    }
}

/// Counts a call that ends before an endpoint was chosen for it. Returns the index of its series in the cluster: the
/// series has the labels of the call's destination, and no labels of a server.
#[cold]
fn count_unsent(cluster: &mut ClusterState, metrics: &WorkerMetrics) -> u32 {
    let place = cluster.traffic_place(metrics, TlsLabel::Unknown, None);
    if let Some(traffic) = cluster.traffic(place) {
        traffic.request();
    }
    place
}

/// Returns the status that a gRPC client assumes if a response lacks `grpc-status`: UNKNOWN. `None` if the call is not
/// gRPC, or if its HTTP status shows the failure.
fn missing_status(call: &Call) -> Option<u8> {
    (call.is_grpc && call.http_status == 200).then_some(Status::Unknown as u8)
}

/// Returns the outcome for the balancer of an attempt that the endpoint has answered with these statuses. `grpc_status`
/// is `None` if the answer has none.
///
/// A gRPC call without `grpc-status` has failed, whatever its HTTP status is. For example, an HTTP server that has taken
/// over the address of a Pod answers with 404, and faster than the other endpoints.
pub(crate) fn outcome_of_answer(
    call: &Call,
    attempt: &Attempt,
    (http_status, grpc_status): (u16, Option<u8>),
    pushback: Option<Duration>,
    now: Instant,
) -> Outcome {
    // The server's timer for the call's deadline has fired before ours.
    if grpc_status == Some(Status::DeadlineExceeded as u8) && is_nearly_out_of_time(call, now) {
        return attempt.out_of_time(now);
    }
    let grpc_status = grpc_status.or_else(|| call.is_grpc.then_some(Status::Unknown as u8));
    Outcome::of_answer((http_status, grpc_status), now - attempt.since, pushback)
}

/// Tells the balancer how the attempts at a call have ended. The balancer has already recorded the attempts that
/// failed.
#[inline]
fn finish_picks(
    call: &mut Call,
    cluster: &mut ClusterState,
    now: Instant,
    (ending, grpc_status): (Ending, Option<u8>),
) {
    let outcome = match (ending, call.attempts.iter().next()) {
        // Once the response has begun, there is at most one attempt.
        (Ending::Answered { pushback, .. }, Some(attempt)) => {
            Some(outcome_of_answer(call, attempt, (call.http_status, grpc_status), pushback, now))
        }
        _ => None,
    };
    // The timer of a client or a server may have fired before ours. A mirrored copy that has reached its deadline has
    // been cancelled.
    let is_out_of_time = ending.has_expired() || is_nearly_out_of_time(call, now);
    for attempt in call.attempts.iter_mut() {
        let outcome = outcome.unwrap_or_else(|| match is_out_of_time {
            true => attempt.out_of_time(now),
            false => attempt.unanswered(now),
        });
        let Some(pick) = attempt.pick.take() else { continue };
        cluster.balancer.finish(now, pick, outcome);
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
