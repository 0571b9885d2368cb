//! The spans of calls in OTLP, with the names of OpenTelemetry's semantic conventions for RPC and HTTP.
//!
//! An outbound call is a span of kind INTERNAL with one span of kind CLIENT below it for each attempt. An inbound call
//! is one span of kind SERVER. So each hop between two workloads has exactly one pair of spans, one CLIENT and one
//! SERVER. Tracing backends draw their graphs of services from these pairs.

use std::time::{Duration, UNIX_EPOCH};

use leno_model::http_method;
use leno_model::spiffe::Workload;
use leno_model::traffic::GrpcCodes;
use leno_relay::metrics::Direction;
use leno_relay::trace::{FinishedAttempt, FinishedCall, SpanId, Text};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};

/// The name of the service if the proxy has no identity and no option names it.
const UNNAMED: &str = "leno-proxy";

/// Bits of a span's flags: the trace is sampled; `IS_REMOTE` is meaningful; the parent is in another process.
const SAMPLED: u32 = 0x001;
const REMOTE_IS_KNOWN: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;

/// Protobuf field numbers in OTLP: `ResourceSpans.scope_spans` and `ScopeSpans.spans`.
const SCOPE_SPANS: u32 = 2;
const SPANS: u32 = 2;

/// Initial capacity for the attributes of a span; few spans have more attributes.
const ATTRIBUTES: usize = 12;

/// Returns the description of the service to which the spans belong.
pub(super) fn resource(name: Option<String>, own: Option<&Workload>, attributes: Vec<(String, String)>) -> Resource {
    let account = own.map(|own| own.service_account.to_string());
    let name = name.or(account).unwrap_or_else(|| UNNAMED.to_owned());
    let mut all = vec![attribute("service.name", name)];
    if let Some(own) = own {
        all.push(attribute("service.namespace", own.namespace.to_string()));
    }
    all.extend(attributes.into_iter().map(|(name, value)| attribute(&name, value)));
    Resource { attributes: all, ..Default::default() }
}

/// Returns the `ResourceSpans` with the spans of some calls, encoded, and the number of spans.
///
/// Each span is encoded as soon as it is made, and then freed. So all spans use the same memory, which stays in the
/// CPU's cache: the spans of a whole batch would take megabytes.
pub(super) fn resource_spans(calls: &[FinishedCall], resource: &Resource) -> (Vec<u8>, usize) {
    let scope = InstrumentationScope {
        name: "leno-proxy".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Default::default()
    };
    let mut scope_spans = ScopeSpans { scope: Some(scope), ..Default::default() }.encode_to_vec();
    let mut count = 0;
    for span in calls.iter().flat_map(spans) {
        count += 1;
        start_message(SPANS, span.encoded_len(), &mut scope_spans);
        // Encoding into a vector never fails.
        span.encode(&mut scope_spans).ok();
    }
    let mut all = ResourceSpans { resource: Some(resource.clone()), ..Default::default() }.encode_to_vec();
    start_message(SCOPE_SPANS, scope_spans.len(), &mut all);
    all.extend(scope_spans);
    (all, count)
}

/// Writes the protobuf header of a message that is a field of another message: the field's number with the wire type
/// LEN, and the length in bytes. A protobuf field may be appended to a message that is encoded already.
fn start_message(field: u32, length: usize, to: &mut Vec<u8>) {
    encode_key(field, WireType::LengthDelimited, to);
    encode_varint(length as u64, to);
}

/// Returns the spans of a call.
fn spans(call: &FinishedCall) -> Vec<Span> {
    let mut of_call = call_span(call);
    match call.direction {
        Direction::Outbound => {
            let attempts = call.attempts.iter().map(|attempt| attempt_span(call, attempt));
            std::iter::once(of_call).chain(attempts).collect()
        }
        // An inbound call has only one span, because all its attempts go to the application behind the proxy. The span
        // has the attributes of the last attempt.
        Direction::Inbound => {
            if let Some(last) = call.attempts.last() {
                add_attempt(&mut of_call.attributes, last);
                of_call.events = events(call, last);
            }
            vec![of_call]
        }
    }
}

fn call_span(call: &FinishedCall) -> Span {
    let kind = match call.direction {
        Direction::Inbound => SpanKind::Server,
        Direction::Outbound => SpanKind::Internal,
    };
    let mut span = span(call, (call.span, call.parent), (Duration::ZERO, call.duration));
    span.kind = kind.into();
    span.flags |= REMOTE_IS_KNOWN | if call.parent.is_some() { IS_REMOTE } else { 0 };
    span.attributes.push(attribute("client.address", call.client.ip().to_string()));
    if let Some(id) = &call.client_id {
        span.attributes.push(attribute("leno.client_id", id.to_string()));
    }
    let texts = [("leno.target", Text::Target), ("leno.route", Text::Route)];
    for (name, value) in texts.map(|(name, text)| (name, call.texts.get(text))) {
        if !value.is_empty() {
            span.attributes.push(attribute(name, value.to_owned()));
        }
    }
    for (name, count) in [("leno.retries", call.retries), ("leno.hedges", call.hedges)] {
        if count > 0 {
            span.attributes.push(number(name, i64::from(count)));
        }
    }
    let cancelled = call.was_cancelled.then_some("cancelled");
    end(&mut span, (call.http_status, call.grpc_status), call.proxy_error.or(cancelled), call.has_failed);
    span
}

fn attempt_span(call: &FinishedCall, attempt: &FinishedAttempt) -> Span {
    let mut span = span(call, (attempt.span, Some(call.span)), (attempt.began, attempt.ended));
    span.kind = SpanKind::Client.into();
    span.flags |= REMOTE_IS_KNOWN;
    add_attempt(&mut span.attributes, attempt);
    span.events = events(call, attempt);
    end(&mut span, (attempt.http_status, attempt.grpc_status), attempt.error, attempt.has_failed);
    span
}

fn add_attempt(all: &mut Vec<KeyValue>, attempt: &FinishedAttempt) {
    if attempt.number > 1 {
        all.push(number("leno.attempt", i64::from(attempt.number)));
        all.push(number("http.request.resend_count", i64::from(attempt.number - 1)));
    }
    if let Some(endpoint) = attempt.endpoint {
        all.push(attribute("network.peer.address", endpoint.ip().to_string()));
        all.push(number("network.peer.port", i64::from(endpoint.port())));
    }
    if let Some(id) = &attempt.server_id {
        all.push(attribute("leno.server_id", id.to_string()));
    }
    if attempt.is_hedge {
        all.push(pair("leno.is_hedge", Value::BoolValue(true)));
    }
    if let Some(reason) = attempt.reason {
        all.push(attribute("leno.balancer.reason", reason.to_string()));
    }
    if let Some(waited) = waited(attempt) {
        all.push(pair("leno.waited_ms", Value::DoubleValue(waited.as_secs_f64() * 1_000.0)));
    }
}

/// Returns the time that an attempt waited before it was sent; `None` if it did not wait or was not sent.
fn waited(attempt: &FinishedAttempt) -> Option<Duration> {
    attempt.sent?.checked_sub(attempt.began).filter(|waited| !waited.is_zero())
}

fn events(call: &FinishedCall, attempt: &FinishedAttempt) -> Vec<Event> {
    let sent = waited(attempt).and(attempt.sent);
    let named = [("sent", sent), ("response headers", attempt.answered)];
    let event = |(name, at): (&str, Option<Duration>)| {
        let time_unix_nano = unix_nanos(call, at?);
        Some(Event { time_unix_nano, name: name.to_owned(), ..Default::default() })
    };
    named.into_iter().filter_map(event).collect()
}

/// Returns a span with the fields that all spans of a call have. `began` and `ended` count from the start of the call.
fn span(call: &FinishedCall, (id, parent): (SpanId, Option<SpanId>), (began, ended): (Duration, Duration)) -> Span {
    let (method, path) = (call.texts.get(Text::Method), call.texts.get(Text::Path));
    let grpc_method = path.strip_prefix('/').unwrap_or(path);
    let known_method = http_method::known(method.as_bytes());
    let [first, second] = match call.is_grpc {
        true => [("rpc.system.name", "grpc"), ("rpc.method", grpc_method)],
        false => [("http.request.method", known_method.unwrap_or("_OTHER")), ("url.path", path)],
    };
    let mut attributes = Vec::with_capacity(ATTRIBUTES);
    attributes.extend([first, second].map(|(name, value)| attribute(name, value.to_owned())));
    if !call.is_grpc && known_method.is_none() {
        attributes.push(attribute("http.request.method_original", method.to_owned()));
    }
    let (host, port) = host_and_port(call.texts.get(Text::Authority));
    if !host.is_empty() {
        attributes.push(attribute("server.address", host.to_owned()));
        attributes.extend(port.map(|port| number("server.port", i64::from(port))));
    }
    Span {
        trace_id: call.trace.0.get().to_be_bytes().to_vec(),
        span_id: bytes(id),
        parent_span_id: parent.map(bytes).unwrap_or_default(),
        trace_state: call.texts.get(Text::TraceState).to_owned(),
        flags: if call.is_sampled { SAMPLED } else { 0 },
        // The name of an HTTP span contains neither the path nor an unknown method. Both may be any text, so there
        // would be too many different names.
        name: if call.is_grpc { grpc_method } else { known_method.unwrap_or("HTTP") }.to_owned(),
        start_time_unix_nano: unix_nanos(call, began),
        end_time_unix_nano: unix_nanos(call, ended),
        attributes,
        ..Default::default()
    }
}

/// Returns the host and the port of an authority (RFC 3986 section 3.2). An IPv6 address loses its brackets. The port is
/// `None` if the authority does not contain a valid port.
fn host_and_port(authority: &str) -> (&str, Option<u16>) {
    let in_brackets = authority.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (host, port) = match in_brackets {
        Some((address, rest)) => (address, rest.strip_prefix(':').unwrap_or_default()),
        None => authority.split_once(':').unwrap_or((authority, "")),
    };
    (host, port.parse().ok())
}

/// Adds the end of a span: its statuses, and why it failed or was not answered.
fn end(span: &mut Span, (http, grpc): (Option<u16>, Option<u8>), error: Option<&'static str>, has_failed: bool) {
    let grpc = grpc.map(|status| GrpcCodes::name(status).map_or_else(|| status.to_string(), str::to_owned));
    match (&grpc, http) {
        (Some(status), _) => span.attributes.push(attribute("rpc.response.status_code", status.clone())),
        (None, Some(status)) => span.attributes.push(number("http.response.status_code", i64::from(status))),
        (None, None) => {}
    }
    let kind = match (error, grpc, http) {
        (Some(why), _, _) => why.to_owned(),
        (None, Some(status), _) => status,
        (None, None, Some(status)) => status.to_string(),
        (None, None, None) => "unanswered".to_owned(),
    };
    if has_failed {
        span.status = Some(Status { code: StatusCode::Error.into(), message: kind.clone() });
    }
    if has_failed || error.is_some() {
        span.attributes.push(attribute("error.type", kind));
    }
}

fn unix_nanos(call: &FinishedCall, after: Duration) -> u64 {
    let at = call.started.duration_since(UNIX_EPOCH).unwrap_or_default() + after;
    u64::try_from(at.as_nanos()).unwrap_or(u64::MAX)
}

fn bytes(id: SpanId) -> Vec<u8> {
    id.0.get().to_be_bytes().to_vec()
}

fn attribute(name: &str, value: String) -> KeyValue {
    pair(name, Value::StringValue(value))
}

fn number(name: &str, value: i64) -> KeyValue {
    pair(name, Value::IntValue(value))
}

fn pair(name: &str, value: Value) -> KeyValue {
    KeyValue { key: name.to_owned(), value: Some(AnyValue { value: Some(value) }), ..Default::default() }
}

#[cfg(test)]
#[path = "otlp_tests.rs"]
pub(super) mod tests;
