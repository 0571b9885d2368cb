//! HTTP/2 requests without gRPC, and their answers.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use http::header::USER_AGENT;
use http::{Method, Request, Response, StatusCode, Uri};

use super::call::poll_chunk;
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

/// An answer whose content is still arriving.
pub(super) struct Content {
    body: RecvStream,
    server: Bytes,
    received_bytes: usize,
    wanted_bytes: usize,
}

impl Content {
    /// Checks the header section of an answer that must have this many bytes of content.
    pub(super) fn of(response: Response<RecvStream>, wanted_bytes: usize) -> Result<Self, Failure> {
        let status = response.status();
        if status != StatusCode::OK {
            return Err(Failure::http(status.as_u16(), status));
        }
        let server = response.headers().get(SERVER).map(|name| Bytes::copy_from_slice(name.as_bytes()));
        let server = server.ok_or_else(|| Failure::protocol(format!("the answer has no {SERVER}")))?;
        Ok(Self { body: response.into_body(), server, received_bytes: 0, wanted_bytes })
    }

    /// Reads the content to its end. Returns the name of the server.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, Failure>> {
        while let Some(chunk) = ready!(poll_chunk(&mut self.body, cx))? {
            self.received_bytes += chunk.len();
        }
        let (received, wanted) = (self.received_bytes, self.wanted_bytes);
        if received != wanted {
            let why = format!("the answer should have {wanted} bytes, and has {received}");
            return Poll::Ready(Err(Failure::protocol(why)));
        }
        Poll::Ready(Ok(std::mem::take(&mut self.server)))
    }
}
