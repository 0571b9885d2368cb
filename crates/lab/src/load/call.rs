//! One call: sends the request, receives the answer, and checks it against the gRPC protocol.

use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::{BufMut, Bytes, BytesMut};
use h2::RecvStream;
use h2::client::{ResponseFuture, SendRequest};
use http::header::{CONTENT_TYPE, TE, USER_AGENT};
use http::{HeaderMap, Request, Response, StatusCode, Uri};
use prost::Message;
use tonic::Status;

use super::PAYLOAD_BYTES;
use crate::echo::UNARY_PATH;
use crate::echo::proto::EchoRequest;

const GRPC_STATUS: &str = "grpc-status";
const GRPC: &str = "application/grpc";
/// Length of a gRPC message's prefix: the compression flag and the message's length.
pub(crate) const PREFIX_BYTES: usize = 5;

/// The request for every call of a client, encoded once.
#[derive(Debug, Clone)]
pub(super) struct CallRequest {
    head: Request<()>,
    body: Bytes,
}

impl CallRequest {
    /// A unary call of the echo service at `authority`.
    ///
    /// # Errors
    /// If `authority` is invalid.
    pub(super) fn new(authority: &str) -> Result<Self, http::Error> {
        let uri = Uri::builder().scheme("http").authority(authority).path_and_query(UNARY_PATH).build()?;
        let head = Request::post(uri)
            .header(TE, "trailers")
            .header(CONTENT_TYPE, GRPC)
            .header(USER_AGENT, "leno-lab")
            .body(())?;
        let message = EchoRequest { payload: vec![b'x'; PAYLOAD_BYTES], ..EchoRequest::default() };
        Ok(Self { head, body: framed(&message.encode_to_vec()) })
    }

    /// Sends the request. The call's latency counts from `since`.
    ///
    /// # Errors
    /// If the connection accepts no more calls.
    pub(super) fn send(&self, sender: &mut SendRequest<Bytes>, since: Instant) -> Result<Call, h2::Error> {
        let (answer, mut body) = sender.send_request(self.head.clone(), false)?;
        body.send_data(self.body.clone(), true)?;
        Ok(Call { since, stage: Stage::Head(answer) })
    }
}

/// Adds the gRPC prefix to a message of less than 4 GiB: the flag for no compression, and the length.
pub(crate) fn framed(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(PREFIX_BYTES + message.len());
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    frame.put(message);
    frame.freeze()
}

/// A call that has not been answered.
pub(super) struct Call {
    /// Start of the measured time.
    pub(super) since: Instant,
    stage: Stage,
}

enum Stage {
    Head(ResponseFuture),
    Body(RecvStream, Bytes),
}

/// The name of the server that answered with OK, or why the call failed.
pub(super) type Answer = Result<Bytes, String>;

impl Call {
    /// Processes the received part of the answer.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Answer> {
        loop {
            match &mut self.stage {
                Stage::Head(answer) => {
                    let response = match ready!(Future::poll(std::pin::Pin::new(answer), cx)) {
                        Ok(response) => response,
                        Err(error) => return Poll::Ready(Err(error.to_string())),
                    };
                    if let Err(why) = check_head(&response) {
                        return Poll::Ready(Err(why));
                    }
                    self.stage = Stage::Body(response.into_body(), Bytes::new());
                }
                Stage::Body(body, message) => match ready!(poll_chunk(body, cx)) {
                    Ok(Some(chunk)) => join(message, chunk),
                    Ok(None) => {
                        let trailers = ready!(body.poll_trailers(cx));
                        return Poll::Ready(finish(trailers, message));
                    }
                    Err(error) => return Poll::Ready(Err(error.to_string())),
                },
            }
        }
    }
}

/// Polls the next part of the body. Returns the part's flow-control credit to the server at once.
fn poll_chunk(body: &mut RecvStream, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, h2::Error>> {
    let chunk = match ready!(body.poll_data(cx)) {
        Some(chunk) => chunk?,
        None => return Poll::Ready(Ok(None)),
    };
    body.flow_control().release_capacity(chunk.len())?;
    Poll::Ready(Ok(Some(chunk)))
}

/// Appends a part of the body. Usually there is only one part.
fn join(message: &mut Bytes, chunk: Bytes) {
    if message.is_empty() {
        *message = chunk;
    } else {
        *message = [message.as_ref(), &chunk].concat().into();
    }
}

/// Checks the header section. The trailers can still make the call fail.
pub(crate) fn check_head(response: &Response<RecvStream>) -> Result<(), String> {
    // An answer that consists only of trailers has its status in the header section.
    if response.headers().contains_key(GRPC_STATUS) {
        check_status(response.headers())?;
    }
    if response.status() != StatusCode::OK {
        return Err(format!("HTTP status {}", response.status()));
    }
    let content_type = response.headers().get(CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
    match content_type.strip_prefix(GRPC.as_bytes()) {
        Some([] | [b'+' | b';', ..]) => Ok(()),
        _ => Err(format!("content-type {:?}, not {GRPC}", String::from_utf8_lossy(content_type))),
    }
}

/// Checks that the trailers report OK.
pub(crate) fn check_status(trailers: &HeaderMap) -> Result<(), String> {
    match trailers.get(GRPC_STATUS) {
        Some(status) if status == "0" => Ok(()),
        Some(_) => Err(Status::from_header_map(trailers).map_or_else(String::new, |s| describe(&s))),
        None => Err(format!("the answer's trailers have no {GRPC_STATUS}")),
    }
}

fn describe(status: &Status) -> String {
    format!("{:?}: {}", status.code(), status.message())
}

fn finish(trailers: Result<Option<HeaderMap>, h2::Error>, message: &Bytes) -> Answer {
    let trailers = trailers.map_err(|error| error.to_string())?;
    check_status(&trailers.ok_or_else(|| "the answer ended without trailers".to_owned())?)?;
    server_name(message)
}

/// The part of `leno.echo.v1.EchoResponse` that the load reads. The rest is skipped, not copied.
#[derive(Message)]
struct ServerName {
    #[prost(bytes = "bytes", tag = "1")]
    server: Bytes,
}

/// Reads the name from a body of exactly one message.
fn server_name(body: &Bytes) -> Answer {
    let Some((prefix, message)) = body.split_first_chunk::<PREFIX_BYTES>() else {
        return Err(format!("the answer's body has {} bytes: no gRPC message", body.len()));
    };
    let [compressed, length @ ..] = *prefix;
    if compressed != 0 {
        return Err("the answer's message is compressed, although compression was not negotiated".to_owned());
    }
    let length = u32::from_be_bytes(length) as usize;
    if message.len() != length {
        return Err(format!("the answer's message should have {length} bytes, and has {}", message.len()));
    }
    let decoded = ServerName::decode(body.slice(PREFIX_BYTES..));
    decoded.map(|response| response.server).map_err(|error| error.to_string())
}

#[cfg(test)]
#[path = "call_tests.rs"]
mod tests;
