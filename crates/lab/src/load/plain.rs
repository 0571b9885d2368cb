//! HTTP/2 requests without gRPC, and their answers.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use http::header::USER_AGENT;
use http::{Method, Request, Response, StatusCode, Uri};

use super::call::poll_chunk;
use super::exchange::{NAMELESS, parse_path};
use super::failure::Failure;
use super::http1::{RESPONSE_BYTES, SERVER};
use super::traffic::Traffic;

/// The request's header section, and its content: a GET, or a POST if it has content.
///
/// # Errors
/// If `authority` is invalid.
pub(super) fn request(authority: &str, traffic: &Traffic) -> Result<(Request<()>, Bytes), http::Error> {
    let Traffic { request_bytes, response_bytes, .. } = *traffic;
    let uri = Uri::builder().scheme("http").authority(authority).path_and_query("/echo").build()?;
    let method = if request_bytes == 0 { Method::GET } else { Method::POST };
    let mut head = Request::builder().method(method).uri(uri).header(USER_AGENT, "leno-lab");
    if response_bytes != request_bytes {
        head = head.header(RESPONSE_BYTES, response_bytes);
    }
    Ok((head.body(())?, vec![b'x'; request_bytes as usize].into()))
}

/// The header section of a GET request for `path`.
///
/// # Errors
/// If `authority` or `path` is invalid.
pub(super) fn get(authority: &str, path: &str) -> Result<Request<()>, http::Error> {
    let uri = Uri::builder().scheme("http").authority(authority).path_and_query(parse_path(path)?).build()?;
    Request::get(uri).header(USER_AGENT, "leno-lab").body(())
}

/// An answer whose content is still arriving.
pub(super) struct Content {
    body: RecvStream,
    server: Bytes,
    received_bytes: usize,
    /// `None` for content of any length.
    wanted_bytes: Option<usize>,
}

impl Content {
    /// Checks the header section of an answer of an echo server, which must have this many bytes of content.
    pub(super) fn echoed(response: Response<RecvStream>, wanted_bytes: usize) -> Result<Self, Failure> {
        let status = response.status();
        if status != StatusCode::OK {
            return Err(Failure::http(status.as_u16(), status));
        }
        let server = response.headers().get(SERVER).map(|name| Bytes::copy_from_slice(name.as_bytes()));
        let server = server.ok_or_else(|| Failure::protocol(format!("the answer has no {SERVER}")))?;
        Ok(Self { body: response.into_body(), server, received_bytes: 0, wanted_bytes: Some(wanted_bytes) })
    }

    /// Checks the header section of an answer of any server.
    pub(super) fn nameless(response: Response<RecvStream>) -> Result<Self, Failure> {
        let status = response.status();
        if !status.is_success() {
            return Err(Failure::http(status.as_u16(), status));
        }
        let server = Bytes::from_static(NAMELESS.as_bytes());
        Ok(Self { body: response.into_body(), server, received_bytes: 0, wanted_bytes: None })
    }

    /// Reads the content to its end. Returns the name of the server.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, Failure>> {
        while let Some(chunk) = ready!(poll_chunk(&mut self.body, cx))? {
            self.received_bytes += chunk.len();
        }
        let received = self.received_bytes;
        if let Some(wanted) = self.wanted_bytes.filter(|&wanted| received != wanted) {
            let why = format!("the answer should have {wanted} bytes, and has {received}");
            return Poll::Ready(Err(Failure::protocol(why)));
        }
        Poll::Ready(Ok(std::mem::take(&mut self.server)))
    }
}
