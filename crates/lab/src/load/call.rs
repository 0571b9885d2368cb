//! One call: sends the request, receives the answer, and checks it against the gRPC protocol.

use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::{BufMut, Bytes, BytesMut};
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::header::{CONTENT_TYPE, TE, USER_AGENT};
use http::{HeaderMap, Request, Response, StatusCode, Uri};
use prost::Message;
use tonic::Status;

use super::exchange::{Exchange, UnaryCall, parse_path};
use super::failure::{Failure, FailureClass};
use super::inbox::Inbox;
use super::plain::{self, Content};
use super::traceparent::{TRACEPARENT, new_traceparent};
use super::traffic::{Shape, Traffic};
use crate::echo::proto::EchoRequest;
use crate::echo::{BIDI_PATH, SERVER_STREAM_PATH, UNARY_PATH};

const GRPC_STATUS: &str = "grpc-status";
const GRPC: &str = "application/grpc";
/// Length of a gRPC message's prefix: the compression flag and the message's length.
pub(crate) const PREFIX_BYTES: usize = 5;

/// The request for every call of a client, encoded once. Only the trace context differs between calls.
#[derive(Debug, Clone)]
pub(super) struct CallRequest {
    head: Request<()>,
    body: Bytes,
    shape: Shape,
    /// Messages of each stream; 1 for unary calls.
    messages: u32,
    /// Time after which a bidirectional stream sends no further message; `None` for no limit.
    until: Option<Instant>,
    wanted: Wanted,
    /// Whether each call begins a trace.
    is_traced: bool,
}

/// The kind of answer with which a call succeeds; any other answer is a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// gRPC messages of an echo server.
    Echoes,
    /// gRPC messages of any server.
    Messages,
    /// An echo server's content of this many bytes, without gRPC.
    EchoedContent(usize),
    /// Any server's content, without gRPC.
    Content,
}

impl CallRequest {
    /// The request that a client of `exchange` sends to `authority`.
    ///
    /// # Errors
    /// If `authority`, or a path in the exchange, is invalid.
    pub(super) fn new(authority: &str, exchange: &Exchange, traffic: &Traffic) -> Result<Self, http::Error> {
        match exchange {
            Exchange::Http2 => {
                let (head, body) = plain::request(authority, traffic)?;
                Ok(Self::of_one_message(head, body, Wanted::EchoedContent(traffic.response_bytes as usize)))
            }
            Exchange::Http2Get(path) | Exchange::Http1Get(path) => {
                Ok(Self::of_one_message(plain::get(authority, path)?, Bytes::new(), Wanted::Content))
            }
            Exchange::Call(UnaryCall { path, message }) => {
                Ok(Self::of_one_message(grpc_head(authority, path)?, framed(message), Wanted::Messages))
            }
            Exchange::TracedGrpc => Ok(Self { is_traced: true, ..Self::echo(authority, traffic)? }),
            Exchange::Grpc | Exchange::Http1 | Exchange::Handshake(_) => Self::echo(authority, traffic),
        }
    }

    fn of_one_message(head: Request<()>, body: Bytes, wanted: Wanted) -> Self {
        Self { head, body, shape: Shape::Unary, messages: 1, until: None, wanted, is_traced: false }
    }

    fn echo(authority: &str, traffic: &Traffic) -> Result<Self, http::Error> {
        let Traffic { shape, request_bytes, response_bytes, delay_ms, .. } = *traffic;
        let (path, messages) = match shape {
            Shape::Unary => (UNARY_PATH, 1),
            Shape::ServerStream => (SERVER_STREAM_PATH, traffic.messages.max(1)),
            Shape::BidiStream => (BIDI_PATH, traffic.messages.max(1)),
        };
        let head = grpc_head(authority, path)?;
        let message = EchoRequest {
            payload: vec![b'x'; request_bytes as usize],
            // The echo server returns the payload unless another size is requested.
            response_bytes: if response_bytes == request_bytes { 0 } else { response_bytes },
            delay_ms,
            messages,
            ..EchoRequest::default()
        };
        let body = framed(&message.encode_to_vec());
        Ok(Self { head, body, shape, messages, until: None, wanted: Wanted::Echoes, is_traced: false })
    }

    /// Sets the time after which bidirectional streams send no further message.
    pub(super) fn end_streams_at(&mut self, until: Instant) {
        self.until = Some(until);
    }

    /// Sends the request. The call's latency counts from `since`.
    ///
    /// # Errors
    /// If the connection accepts no more calls.
    pub(super) fn send(&self, sender: &mut SendRequest<Bytes>, since: Instant) -> Result<Call, h2::Error> {
        let is_empty = self.body.is_empty();
        let mut head = self.head.clone();
        if self.is_traced {
            head.headers_mut().insert(TRACEPARENT, new_traceparent());
        }
        let (answer, mut stream) = sender.send_request(head, is_empty)?;
        let sends_more = self.shape == Shape::BidiStream && self.messages > 1;
        if !is_empty {
            stream.send_data(self.body.clone(), !sends_more)?;
        }
        let outbox = sends_more.then(|| Outbox {
            stream,
            message: self.body.clone(),
            left: self.messages - 1,
            until: self.until,
        });
        let wanted = if self.shape == Shape::BidiStream { 1 } else { self.messages };
        let inbox = if self.wanted == Wanted::Messages { Inbox::nameless() } else { Inbox::default() };
        Ok(Call { since, stage: Stage::Head(answer, self.wanted), inbox, wanted, outbox })
    }
}

fn grpc_head(authority: &str, path: &str) -> Result<Request<()>, http::Error> {
    let uri = Uri::builder().scheme("http").authority(authority).path_and_query(parse_path(path)?).build()?;
    Request::post(uri).header(TE, "trailers").header(CONTENT_TYPE, GRPC).header(USER_AGENT, "leno-lab").body(())
}

/// Adds the gRPC prefix to a message of less than 4 GiB. The prefix has the compression flag 0 and the length.
pub(crate) fn framed(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(PREFIX_BYTES + message.len());
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    frame.put(message);
    frame.freeze()
}

/// A call that has not been answered.
pub(super) struct Call {
    /// Time from which the call's latency counts.
    pub(super) since: Instant,
    stage: Stage,
    inbox: Inbox,
    /// Number of messages that the answer must have.
    wanted: u32,
    /// The request's further messages; `None` after the last.
    outbox: Option<Outbox>,
}

enum Stage {
    /// Waits for the answer's header section.
    Head(ResponseFuture, Wanted),
    Body(RecvStream),
    /// The content of an answer without gRPC.
    Content(Content),
}

/// The messages that a bidirectional stream still sends.
struct Outbox {
    stream: SendStream<Bytes>,
    message: Bytes,
    left: u32,
    until: Option<Instant>,
}

/// The result of a call: the name of the server that answered with OK, or the failure.
pub(super) type Answer = Result<Bytes, Failure>;

impl Call {
    /// Processes the received part of the answer.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Answer> {
        loop {
            match &mut self.stage {
                Stage::Head(answer, wanted) => {
                    let response = ready!(Future::poll(std::pin::Pin::new(answer), cx))?;
                    self.stage = match *wanted {
                        Wanted::EchoedContent(bytes) => Stage::Content(Content::echoed(response, bytes)?),
                        Wanted::Content => Stage::Content(Content::nameless(response)?),
                        Wanted::Echoes | Wanted::Messages => {
                            check_head(&response)?;
                            Stage::Body(response.into_body())
                        }
                    };
                }
                Stage::Content(content) => return content.poll(cx),
                Stage::Body(body) => match ready!(poll_chunk(body, cx))? {
                    Some(chunk) => {
                        self.inbox.add(chunk);
                        while self.inbox.take_message()? {
                            self.send_next()?;
                        }
                    }
                    None => {
                        let trailers = ready!(body.poll_trailers(cx))?;
                        let trailers = trailers.ok_or_else(|| Failure::protocol("the answer ended without trailers"));
                        check_status(&trailers?)?;
                        return Poll::Ready(std::mem::take(&mut self.inbox).finish(self.wanted));
                    }
                },
            }
        }
    }

    /// Sends the next message of a bidirectional stream, or ends its request.
    fn send_next(&mut self) -> Result<(), h2::Error> {
        let Some(Outbox { stream, message, left, until }) = &mut self.outbox else { return Ok(()) };
        if until.is_some_and(|until| Instant::now() >= until) {
            stream.send_data(Bytes::new(), true)?;
            self.outbox = None;
            return Ok(());
        }
        *left -= 1;
        self.wanted += 1;
        let is_last = *left == 0;
        stream.send_data(message.clone(), is_last)?;
        if is_last {
            self.outbox = None;
        }
        Ok(())
    }
}

/// Polls the next part of the body. Returns the part's flow-control credit to the server at once.
pub(super) fn poll_chunk(body: &mut RecvStream, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, h2::Error>> {
    let chunk = match ready!(body.poll_data(cx)) {
        Some(chunk) => chunk?,
        None => return Poll::Ready(Ok(None)),
    };
    body.flow_control().release_capacity(chunk.len())?;
    Poll::Ready(Ok(Some(chunk)))
}

/// Checks the header section. The trailers can still make the call fail.
pub(crate) fn check_head(response: &Response<RecvStream>) -> Result<(), Failure> {
    // An answer that consists only of trailers has its status in the header section.
    if response.headers().contains_key(GRPC_STATUS) {
        check_status(response.headers())?;
    }
    let status = response.status();
    if status != StatusCode::OK {
        return Err(Failure::http(status.as_u16(), status));
    }
    let content_type = response.headers().get(CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
    match content_type.strip_prefix(GRPC.as_bytes()) {
        Some([] | [b'+' | b';', ..]) => Ok(()),
        _ => Err(Failure::protocol(format!("content-type {:?}, not {GRPC}", String::from_utf8_lossy(content_type)))),
    }
}

/// Checks that the trailers report OK.
pub(crate) fn check_status(trailers: &HeaderMap) -> Result<(), Failure> {
    match trailers.get(GRPC_STATUS) {
        Some(status) if status == "0" => Ok(()),
        Some(_) => Err(Status::from_header_map(trailers)
            .map_or_else(|| Failure::protocol("the answer has no valid gRPC status"), |status| describe(&status))),
        None => Err(Failure::protocol(format!("the answer's trailers have no {GRPC_STATUS}"))),
    }
}

fn describe(status: &Status) -> Failure {
    let class = FailureClass::Grpc(status.code() as u16);
    Failure::new(class, format!("{:?}: {}", status.code(), status.message()))
}

#[cfg(test)]
#[path = "call_tests.rs"]
mod tests;
