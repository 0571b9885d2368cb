//! Trace: the spans of a call and of its attempts, from the request to the end of the call.

use std::fmt::{self, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use leno_http2::FieldSection;
use leno_http2::fields::Known;
use leno_model::balance::PickReason;
use leno_model::spiffe::SpiffeId;
use smallvec::SmallVec;

use crate::Relay;
use crate::call::attempt::AttemptId;
use crate::call::record::{Ending, is_failure};
use crate::call::{Call, CallId};
use crate::certain::Certain;
use crate::downstream::client::ClientId;
use crate::metrics::{Class, Direction, Exemplar};
use crate::spent_chains::ChainId;
use crate::target::cluster::ClusterState;
use crate::target::routes::CallRoute;
use crate::trace::{
    FinishedAttempt, FinishedCall, SpanId, Text, Texts, TraceContext, TraceId, push_printable, push_trace_state,
};

/// The path of the calls that export spans. The relay never traces these calls: otherwise each export of spans would
/// cause new spans, without end.
const EXPORT_PATH: &[u8] = b"/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// The spans of a call.
#[derive(Debug)]
pub(crate) struct CallTrace {
    pub(crate) trace: TraceId,
    span: SpanId,
    is_sampled: bool,
    direction: Direction,
    context: TraceContext,
    attempts: SmallVec<[AttemptTrace; 1]>,
}

#[derive(Debug)]
struct AttemptTrace {
    span: SpanId,
    number: u32,
    endpoint: Option<SocketAddr>,
    server_id: Option<Arc<SpiffeId>>,
    is_hedge: bool,
    reason: Option<PickReason>,
    began: Instant,
    sent: Option<Instant>,
    answered: Option<Instant>,
    /// When and how the attempt ended; `None` if the attempt ends together with the call.
    end: Option<(Instant, AttemptEnd)>,
}

/// The end of an attempt whose call went on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AttemptEnd {
    /// The endpoint answered, but the relay did not forward the answer to the client.
    Answered { http_status: u16, grpc_status: Option<u8> },
    /// The attempt failed without an answer.
    Unanswered { why: &'static str },
    /// The relay cancelled the attempt, because another attempt answers the call.
    Cancelled,
}

impl CallTrace {
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.attempts.capacity() * size_of::<AttemptTrace>()
    }

    /// Begins the span of an attempt.
    #[cold]
    pub(crate) fn begin_attempt(
        &mut self,
        id: AttemptId,
        (endpoint, reason, is_hedge): (Option<SocketAddr>, Option<PickReason>, bool),
        now: Instant,
        random: &mut fastrand::Rng,
    ) {
        if self.attempts.len() >= FinishedCall::MAX_ATTEMPTS {
            return;
        }
        self.attempts.push(AttemptTrace {
            span: SpanId::random(random),
            number: id.number(),
            endpoint,
            server_id: None,
            is_hedge,
            reason,
            began: now,
            sent: None,
            answered: None,
            end: None,
        });
    }

    /// Writes the trace context into the request of an attempt that is being sent. The parent of the endpoint's span is
    /// the attempt's span if the call is outbound, and the call's span if the call is inbound. The attempt's span is a
    /// child of the call's span. The call's span is a child of the caller's span.
    #[cold]
    pub(crate) fn send(
        &mut self,
        id: AttemptId,
        expected: Option<&Arc<SpiffeId>>,
        request: &mut FieldSection,
        now: Instant,
    ) {
        let (trace, is_sampled, direction) = (self.trace, self.is_sampled, self.direction);
        let call = (self.span, self.context.caller.map(|(_, caller)| caller));
        let (span, parent) = match self.attempt(id) {
            Some(attempt) => {
                attempt.sent = Some(now);
                attempt.server_id = expected.cloned();
                if direction == Direction::Outbound { (attempt.span, Some(call.0)) } else { call }
            }
            None => call,
        };
        self.context.write(request, (trace, span, parent), is_sampled);
    }

    /// Records when the response headers of an attempt arrived.
    #[cold]
    pub(crate) fn answered(&mut self, id: AttemptId, now: Instant) {
        if let Some(attempt) = self.attempt(id) {
            attempt.answered = Some(now);
        }
    }

    /// Records how an attempt has ended, unless this has been recorded before.
    #[cold]
    pub(crate) fn end_attempt(&mut self, id: AttemptId, end: AttemptEnd, now: Instant) {
        if let Some(attempt) = self.attempt(id) {
            attempt.end.get_or_insert((now, end));
        }
    }

    fn attempt(&mut self, id: AttemptId) -> Option<&mut AttemptTrace> {
        self.attempts.iter_mut().find(|attempt| attempt.number == id.number())
    }
}

impl AttemptTrace {
    /// Returns the attempt for the exporter. An attempt without a recorded end has ended together with its call.
    fn finish(self, call: &Call, (ending, grpc_status): (Ending, Option<u8>), now: Instant) -> FinishedAttempt {
        let after = |at: Instant| at.saturating_duration_since(call.started);
        let (ended, http_status, grpc_status, error, has_failed) = match (self.end, ending) {
            (Some((at, AttemptEnd::Answered { http_status, grpc_status })), _) => {
                (at, Some(http_status), grpc_status, None, is_failure(http_status, grpc_status))
            }
            (Some((at, AttemptEnd::Unanswered { why })), _) => (at, None, None, Some(why), true),
            (Some((at, AttemptEnd::Cancelled)), _) => (at, None, None, Some("cancelled"), false),
            (None, Ending::Answered { .. }) => {
                (now, Some(call.http_status), grpc_status, None, is_failure(call.http_status, grpc_status))
            }
            (None, Ending::ProxyError { why, .. }) => (now, None, None, Some(why), true),
            (None, Ending::Broken) => (now, None, None, Some("reset"), true),
            (None, Ending::Cancelled | Ending::Complete) => (now, None, None, Some("cancelled"), false),
        };
        FinishedAttempt {
            span: self.span,
            number: self.number,
            endpoint: self.endpoint,
            server_id: self.server_id,
            is_hedge: self.is_hedge,
            reason: self.reason,
            began: after(self.began),
            sent: self.sent.map(after),
            answered: self.answered.map(after),
            ended: after(ended),
            http_status,
            grpc_status,
            error,
            has_failed,
        }
    }
}

impl Call {
    /// Returns the id of the call's trace for [`spent_chains`](crate::spent_chains); `None` if the call has no trace.
    pub(crate) fn chain(&self) -> Option<ChainId> {
        self.trace_id().map(|TraceId(id)| ChainId::of_trace(id.get()))
    }

    /// Returns the trace that the call belongs to, whether the proxy traces the call or not.
    pub(crate) fn trace_id(&self) -> Option<TraceId> {
        match &self.trace {
            Some(trace) => Some(trace.trace),
            None => TraceContext::of(&self.request)?.caller.map(|caller| caller.0),
        }
    }
}

impl Relay {
    /// Begins the trace of a call; returns `None` if the call is not traced. `is_drawn`: the sampler has selected the
    /// call; see [`Tracer::look_at`].
    ///
    /// [`Tracer::look_at`]: crate::trace::Tracer::look_at
    #[cold]
    pub(crate) fn begin_trace(&mut self, client: ClientId, call: &Call, is_drawn: bool) -> Option<Box<CallTrace>> {
        if call.is_tunnel || call.request.get(Known::Path) == Some(EXPORT_PATH) {
            return None;
        }
        let client = self.downstreams.get(Some(client))?;
        let direction = client.origin.door.direction();
        let has_deciding_proxy = direction == Direction::Inbound && client.peer_id.is_some();
        let (max, now) = (self.limits.relay.max_traced_calls_per_second, self.now);
        let context = TraceContext::of(&call.request);
        let (is_sampled, context) = self.tracer.admit(context, (is_drawn, has_deciding_proxy), max, now)?;
        let trace = context.caller.map_or_else(|| TraceId::random(&mut self.random), |caller| caller.0);
        let span = SpanId::random(&mut self.random);
        let attempts = SmallVec::new();
        Some(Box::new(CallTrace { trace, span, is_sampled, direction, context, attempts }))
    }

    /// Passes the spans of a finished call to the exporter, if the call was sampled, was slow or has failed.
    #[cold]
    pub(crate) fn finish_trace(&mut self, id: CallId, ending: Ending, (class, grpc_status): (Class, Option<u8>)) {
        let now = self.now;
        let Some(trace) = self.calls.get_mut(id).and_then(|call| call.trace.take()) else { return };
        let Some(call) = self.calls.get(id).certain() else { return };
        let duration = now.saturating_duration_since(call.started);
        let was_cancelled = class == Class::Cancelled;
        let has_failed = class == Class::Failure;
        if !trace.is_sampled && !self.tracer.keeps(duration, has_failed) {
            return;
        }
        let (Some(outbox), Some(client)) = (self.tracer.outbox(), self.downstreams.get(call.client)) else { return };
        let cluster = self.targets.get(call.cluster);
        let started = self.wall_clock_at(call.started);
        let CallTrace { trace, span, is_sampled, direction, context, attempts } = *trace;
        let is_offered = outbox.offer(FinishedCall {
            trace,
            span,
            parent: context.caller.map(|caller| caller.1),
            is_sampled,
            direction,
            started,
            duration,
            is_grpc: call.is_grpc,
            texts: texts(call, context, cluster),
            client: client.origin.peer,
            client_id: client.peer_id.clone(),
            http_status: call.status_seen(class),
            grpc_status,
            proxy_error: self.error_of(call, ending),
            was_cancelled,
            has_failed,
            retries: call.retries,
            hedges: call.hedges(),
            attempts: attempts.into_iter().map(|attempt| attempt.finish(call, (ending, grpc_status), now)).collect(),
        });
        if is_offered && matches!(class, Class::Success | Class::Failure) {
            let exemplar = Exemplar { trace, duration, at: started + duration };
            if let Some(cluster) = self.targets.get_mut(call.cluster) {
                cluster.method_traced(call, exemplar, &self.metrics);
            }
        }
    }
}

fn texts(call: &Call, context: TraceContext, cluster: Option<&ClusterState>) -> Texts {
    let field = |known| call.request.get(known).unwrap_or_default();
    Texts::new(|text, to| match text {
        Text::TraceState if context.has_state() => {
            let fields = call.request.iter().filter(|field| field.known == Known::Tracestate);
            push_trace_state(fields.map(|field| field.value), to);
        }
        Text::TraceState => {}
        Text::Method => push_printable(field(Known::Method), to),
        Text::Path => {
            let path = field(Known::Path).split(|byte| b"?#".contains(byte)).next();
            push_printable(path.unwrap_or_default(), to);
        }
        Text::Authority => push_printable(field(Known::Authority), to),
        Text::Target => write_all(cluster.map(|cluster| &cluster.target), to),
        Text::Route => write_all(call.route.as_ref().map(CallRoute::name), to),
    })
}

fn write_all(part: Option<impl fmt::Display>, to: &mut String) {
    if let Some(part) = part {
        // Writing to a string cannot fail.
        let _ = write!(to, "{part}");
    }
}

#[cfg(test)]
#[path = "trace_tests.rs"]
mod tests;
