//! Reply: responses that the proxy itself creates, and the table of its errors. The proxy marks these responses as its
//! own, so that users do not blame the application.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use leno_http2::fields::Known;
use leno_http2::{ErrorCode, FieldSection, Section};
use leno_model::discovery::Subject;
use leno_model::route::RouteName;

use crate::Relay;
use crate::call::record::Ending;
use crate::call::{Call, CallId, Response};
use crate::certain::Certain;
use crate::downstream::client::Client;
use crate::downstream::origin::Door;
use crate::link::codec::CodecError;
use crate::link::grpc::{self, Status};
use crate::pool::hop::Protocol;

/// The beginning of the `user-agent` with which a kubelet calls an HTTP lifecycle hook (`postStart`, `preStop`).
const LIFECYCLE_HOOK: &[u8] = b"kube-lifecycle/";

/// Error with which the proxy ends a call. The error's text tells the caller what to do.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum ProxyError {
    #[error("{0}")]
    NoRoute(String),
    #[error(
        "no rule of the routes attached to {cluster} matches this request; add a rule without matches for the rest"
    )]
    NoMatch { cluster: String },
    #[error("the rule of {route} that matches this request has no backend with a weight; add one")]
    NoBackend { route: RouteName },
    #[error("{route}: {why}")]
    InvalidBackend { route: RouteName, why: String },
    #[error("the request's header fields exceed {limit_bytes} bytes; send fewer or shorter ones")]
    HeaderListTooLarge { limit_bytes: u32 },
    #[error(
        "{endpoint} sent header fields of {bytes} bytes, and the client accepts {limit_bytes}; send fewer or shorter ones"
    )]
    ResponseTooLarge { endpoint: SocketAddr, bytes: usize, limit_bytes: u32 },
    #[error("the request cannot be written in HTTP/1: {0}")]
    Unwritable(leno_http1::Unwritable),
    #[error("the path has a character that some HTTP/2 servers reject; percent-encode it (RFC 3986 section 2.1)")]
    UnusualPath,
    #[error("{cluster} has no ready endpoint; check its pods")]
    NoEndpoint { cluster: String },
    #[error(
        "all connections to {cluster} are busy and {waiting} calls wait already, {own} of this client; try again later"
    )]
    QueueFull { cluster: String, waiting: usize, own: usize },
    #[error("no connection to {cluster} was free within {waited_ms} ms; try again later")]
    WaitedTooLong { cluster: String, waited_ms: u128 },
    #[error("the proxy has {calls} calls in flight, its limit; try again later")]
    TooManyCalls { calls: usize },
    #[error("cannot connect to {endpoint}: {why}")]
    Connect { endpoint: SocketAddr, why: String },
    #[error("cannot connect to {endpoint}: {why}")]
    NoSocket { endpoint: SocketAddr, why: String },
    #[error("the proxy knows {targets} addresses, its limit; try again later")]
    TooManyTargets { targets: usize },
    #[error("the control plane has not said within {waited_ms} ms what {subject} is; look whether leno-control runs")]
    Unanswered { subject: Subject, waited_ms: u128 },
    #[error("the control plane has not said within {waited_ms} ms who may call; look whether leno-control runs")]
    PoliciesUnknown { waited_ms: u128 },
    #[error(
        "the proxy makes no tunnel to this port, because it must read each request; if the application is a forward \
         proxy, declare its port as opaque (leno.dev/opaque-ports)"
    )]
    NoTunnel,
    #[error("{target} is this proxy itself, so the call would go round for ever; call the application's port")]
    Loop { target: SocketAddr },
    #[error("{0}")]
    Denied(String),
    #[error("{endpoint} closed the connection before it answered")]
    ConnectionClosed { endpoint: SocketAddr },
    #[error("{endpoint} broke the protocol: {why}")]
    Protocol { endpoint: SocketAddr, why: String },
    #[error("the response of {endpoint} is malformed: {why}; correct the server")]
    Malformed { endpoint: SocketAddr, why: &'static str },
    #[error("{endpoint} reset the stream ({code})")]
    Reset { endpoint: SocketAddr, code: ErrorCode },
    #[error("{endpoint} refused the call, and so did the others tried; look whether the applications there run")]
    Refused { endpoint: SocketAddr },
    #[error("the call was given to {attempts} endpoints, its limit, and none took it; try again later")]
    TooManyAttempts { attempts: u32 },
    #[error("the call's deadline passed")]
    DeadlineExceeded,
    #[error("the request took longer than the {timeout:?} that {set_by} allows it")]
    RequestTimeout { set_by: Arc<str>, timeout: Duration },
    #[error("neither side sent anything for the {timeout:?} that {set_by} allows")]
    StreamIdle { set_by: Arc<str>, timeout: Duration },
    #[error("no content of the request came for {waited_ms} ms; send it, or end the request")]
    ContentLate { waited_ms: u32 },
    #[error("{endpoint} took longer than the {timeout:?} that {set_by} allows a backend")]
    BackendTimeout { endpoint: SocketAddr, set_by: Arc<str>, timeout: Duration },
    #[error("{buffered_bytes} bytes of responses wait for this client; read faster")]
    ClientTooSlow { buffered_bytes: usize },
}

impl ProxyError {
    /// Returns the error for a call whose server violated the protocol of the connection.
    pub(crate) fn violation(endpoint: SocketAddr, error: &CodecError) -> Self {
        match error {
            CodecError::Http1(error) => Self::Malformed { endpoint, why: error.why },
            CodecError::Http2(error) => Self::Protocol { endpoint, why: error.why.to_string() },
        }
    }

    /// Returns the error's name: the value of the response field `leno-proxy-error`, and of a label in metrics.
    pub(crate) fn why(&self) -> &'static str {
        match self {
            Self::NoRoute(_) => "no-route",
            Self::NoMatch { .. } => "no-matching-rule",
            Self::NoBackend { .. } => "no-backend",
            Self::InvalidBackend { .. } => "invalid-backend",
            Self::HeaderListTooLarge { .. } => "header-list-too-large",
            Self::ResponseTooLarge { .. } => "response-header-list-too-large",
            Self::Unwritable(_) => "unwritable-request",
            Self::UnusualPath => "unusual-path",
            Self::NoEndpoint { .. } => "no-endpoint",
            Self::QueueFull { .. } => "queue-full",
            Self::WaitedTooLong { .. } => "waited-too-long",
            Self::TooManyCalls { .. } => "too-many-calls",
            Self::TooManyTargets { .. } => "too-many-targets",
            Self::Unanswered { .. } => "unanswered",
            Self::PoliciesUnknown { .. } => "policies-unknown",
            Self::NoTunnel => "no-tunnel",
            Self::Loop { .. } => "loop",
            Self::Denied(_) => "denied",
            Self::Connect { .. } => "connect-failed",
            Self::NoSocket { .. } => "no-socket",
            Self::ConnectionClosed { .. } => "connection-closed",
            Self::Protocol { .. } => "protocol-error",
            Self::Malformed { .. } => "malformed-response",
            Self::Reset { .. } => "reset",
            Self::Refused { .. } => "refused",
            Self::TooManyAttempts { .. } => "too-many-attempts",
            Self::DeadlineExceeded => "deadline-exceeded",
            Self::RequestTimeout { .. } => "request-timeout",
            Self::BackendTimeout { .. } => "backend-timeout",
            Self::StreamIdle { .. } => "stream-idle",
            Self::ContentLate { .. } => "content-late",
            Self::ClientTooSlow { .. } => "client-too-slow",
        }
    }

    /// Returns whether it is certain that the call's last attempt has not reached an application.
    fn is_unprocessed(&self) -> bool {
        self.is_unconnected() || matches!(self, Self::Refused { .. } | Self::TooManyAttempts { .. })
    }

    /// Returns whether there was no connection to send the call on.
    pub(crate) fn is_unconnected(&self) -> bool {
        matches!(self, Self::Connect { .. } | Self::NoSocket { .. })
    }

    /// Returns whether the endpoint that received the call has caused the error.
    fn is_endpoints(&self) -> bool {
        matches!(
            self,
            Self::ConnectionClosed { .. }
                | Self::Protocol { .. }
                | Self::Malformed { .. }
                | Self::Reset { .. }
                | Self::BackendTimeout { .. }
        )
    }

    pub(crate) fn statuses(&self) -> (u16, Status) {
        match self {
            Self::NoRoute(_) | Self::NoMatch { .. } => (404, Status::Unimplemented),
            Self::NoTunnel => (405, Status::Unimplemented),
            Self::NoBackend { .. } | Self::InvalidBackend { .. } => (500, Status::Unavailable),
            Self::ResponseTooLarge { .. } => (502, Status::ResourceExhausted),
            Self::Unwritable(_) | Self::UnusualPath => (400, Status::Internal),
            Self::HeaderListTooLarge { .. } => (431, Status::ResourceExhausted),
            Self::NoEndpoint { .. }
            | Self::QueueFull { .. }
            | Self::WaitedTooLong { .. }
            | Self::TooManyCalls { .. }
            | Self::TooManyTargets { .. }
            | Self::Unanswered { .. }
            | Self::PoliciesUnknown { .. }
            | Self::NoSocket { .. }
            | Self::Refused { .. }
            | Self::TooManyAttempts { .. } => (503, Status::Unavailable),
            Self::Connect { .. }
            | Self::ConnectionClosed { .. }
            | Self::Protocol { .. }
            | Self::Malformed { .. }
            | Self::Reset { .. } => (502, Status::Unavailable),
            Self::ContentLate { .. } => (408, Status::DeadlineExceeded),
            Self::Loop { .. } => (508, Status::Aborted),
            Self::Denied(_) => (403, Status::PermissionDenied),
            Self::DeadlineExceeded
            | Self::RequestTimeout { .. }
            | Self::BackendTimeout { .. }
            | Self::StreamIdle { .. } => (504, Status::DeadlineExceeded),
            Self::ClientTooSlow { .. } => (503, Status::ResourceExhausted),
        }
    }
}

impl Relay {
    /// Answers a call with an error and ends it.
    pub(crate) fn fail(&mut self, id: CallId, error: &ProxyError) {
        let Some(call) = self.calls.get(id).certain() else { return };
        let (client, stream, response) = (call.client, call.client_stream, call.response);
        let (is_grpc, is_head) = (call.is_grpc, call.is_head);
        if response == Response::Ended {
            return self.end_call(id, Ending::Complete);
        }
        if call.is_mirror() {
            return self.fail_mirror(id, error.is_endpoints());
        }
        let (http_status, grpc_status) = error.statuses();
        let is_unprocessed = error.is_unprocessed() && !call.may_be_processed;
        let downstream = self.downstreams.get(client);
        let door = downstream.map_or(Door::Outbound, |client| client.origin.door);
        let is_proxys = downstream.is_some_and(Client::is_callers_proxy);
        let is_hook = downstream.is_some_and(|client| is_lifecycle_hook(client, call));
        self.metrics.count_proxy_error(door.direction(), error.why());
        tracing::debug!(why = error.why(), "{error}");
        if let Some(call) = self.calls.get_mut(id) {
            call.http_status = if is_grpc { 200 } else { http_status };
        }
        // A proxy refuses calls when the application beside it has ended.
        if matches!(error, ProxyError::Connect { .. } | ProxyError::Refused { .. }) {
            self.let_caller_dial_again(id);
        }
        let call = self.calls.get(id);
        let cluster = call.and_then(|call| self.targets.get(call.cluster?)).map(|cluster| &cluster.target);
        let not_retried = call.zip(cluster).and_then(|(call, cluster)| call.unretried_text(cluster));
        let mark = |fields: &mut FieldSection| {
            let Some(call) = call.certain() else { return };
            call.mark_unretried(fields);
            call.tell_attempts(Section::Response, fields);
        };
        if let Some(link) = self.downstreams.get_mut(client).map(|client| &mut client.link) {
            let mut message = error.to_string();
            if let Some(why) = not_retried.filter(|_| response == Response::Awaited) {
                message += &format!("; not sent again: {why}");
            }
            // Call `stop_receiving` before the response is sent, so that an HTTP/1 response to an incomplete request
            // announces that the proxy will close the connection.
            link.codec.stop_receiving(stream);
            match (response, is_grpc) {
                (Response::Awaited, _) if is_proxys && is_unprocessed => {
                    link.codec.reset(stream, ErrorCode::REFUSED_STREAM);
                }
                // A kubelet ignores the status of the response: with any response, the hook has succeeded. So without
                // the application's response, there must be none.
                (Response::Awaited, _) if is_hook => link.codec.reset(stream, ErrorCode::INTERNAL_ERROR),
                (Response::Awaited, true) => {
                    let mut fields = grpc_error(Section::Response, grpc_status, &message, error.why());
                    mark(&mut fields);
                    link.codec.send_headers(stream, Section::Response, &fields, true, &mut self.heads);
                }
                (Response::Awaited, false) => {
                    let mut fields = http_error(http_status, &message, error);
                    mark(&mut fields);
                    link.codec.send_headers(stream, Section::Response, &fields, is_head, &mut self.heads);
                    if !is_head {
                        link.codec.send_data(stream, format!("{message}\n").as_bytes(), true);
                    }
                }
                (_, true) => {
                    let fields = grpc_error(Section::Trailers, grpc_status, &message, error.why());
                    link.codec.send_headers(stream, Section::Trailers, &fields, true, &mut self.heads);
                }
                (_, false) => link.codec.reset(stream, ErrorCode::INTERNAL_ERROR),
            }
            self.mark_client(client);
        }
        let grpc_status = is_grpc.then_some(grpc_status as u8);
        self.end_call(id, Ending::ProxyError { why: error.why(), grpc_status });
    }

    /// Answers a call with a redirect instead of sending it to an endpoint, and ends the call.
    pub(crate) fn redirect(&mut self, id: CallId, status: u16, location: &[u8]) {
        let Some(call) = self.calls.get_mut(id).certain() else { return };
        call.http_status = status;
        let (client, stream) = (call.client, call.client_stream);
        let mut fields = FieldSection::new();
        fields.push(b":status", status.to_string().as_bytes());
        fields.push(b"location", location);
        fields.push(b"content-length", b"0");
        if let Some(route) = &call.route {
            route.modify_response(&mut fields);
        }
        call.tell_attempts(Section::Response, &mut fields);
        if let Some(link) = self.downstreams.get_mut(client).map(|client| &mut client.link) {
            link.codec.stop_receiving(stream);
            link.codec.send_headers(stream, Section::Response, &fields, true, &mut self.heads);
            self.mark_client(client);
        }
        self.end_call(id, Ending::Answered { grpc_status: None, pushback: None });
    }
}

/// Returns whether a kubelet may have made a call, for an HTTP lifecycle hook of the application. Any client without an
/// identity can pretend to be a kubelet, and gains nothing: if the proxy ends its call, the client learns less.
fn is_lifecycle_hook(client: &Client, call: &Call) -> bool {
    let can_be = client.origin.door == Door::Inbound && client.peer_id.is_none() && call.protocol == Protocol::Http1;
    can_be && call.request.get(Known::UserAgent).is_some_and(|agent| agent.starts_with(LIFECYCLE_HOOK))
}

/// Returns the fields of a gRPC error: a trailers-only response for [`Section::Response`], otherwise trailers.
fn grpc_error(section: Section, status: Status, message: &str, why: &str) -> FieldSection {
    let mut fields = FieldSection::new();
    if section == Section::Response {
        fields.push(b":status", b"200");
        fields.push(b"content-type", b"application/grpc");
    }
    fields.push(b"grpc-status", (status as u8).to_string().as_bytes());
    fields.push(b"grpc-message", grpc::encode_message(message).as_bytes());
    fields.push(b"leno-proxy-error", why.as_bytes());
    fields
}

fn http_error(status: u16, message: &str, error: &ProxyError) -> FieldSection {
    let mut fields = FieldSection::new();
    fields.push(b":status", status.to_string().as_bytes());
    fields.push(b"content-type", b"text/plain");
    fields.push(b"content-length", (message.len() + 1).to_string().as_bytes());
    fields.push(b"leno-proxy-error", error.why().as_bytes());
    fields
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
