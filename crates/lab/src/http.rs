//! Requests to the pages of admin endpoints.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST};
use hyper::http::request;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime;
use tokio::time::timeout;

/// Longest content of an answer, in bytes. The metrics page of a proxy with its maximum number of series is shorter.
const CONTENT_MAX_BYTES: usize = 32 << 20;
/// Longest line of a response that is read line by line, in bytes.
const LINE_MAX_BYTES: usize = 256 << 10;
/// Longest time until the head of the response to a POST.
const HEAD_MAX: Duration = Duration::from_secs(15);
/// Longest time that [`fetch`] takes.
const FETCH_MAX: Duration = Duration::from_secs(2);

/// The answer to a GET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

/// The reason why a request got no usable answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error("it is longer than {} MiB", CONTENT_MAX_BYTES >> 20)]
    TooLong,
    #[error("a line of it is longer than {} KiB", LINE_MAX_BYTES >> 10)]
    LineTooLong,
    #[error("nothing came within {} s", HEAD_MAX.as_secs())]
    Late,
    #[error("it is not HTTP")]
    NotHttp,
    #[error("it is not text")]
    NotText,
    #[error("the connection ended before it was whole")]
    Cut,
    #[error("{0}")]
    Io(String),
}

/// Requests a page on a new connection. Any status is an answer.
///
/// # Errors
/// If no HTTP response with text arrives, or its content is longer than 32 MiB.
pub async fn get(stream: impl AsyncRead + AsyncWrite + Unpin, path: &str) -> Result<Answer, Unreadable> {
    exchange(stream, Request::get(path), (Bytes::new(), None), whole).await
}

/// Sends JSON to a page on a new connection. Any status is an answer.
///
/// # Errors
/// The errors of [`get`]; also if the head of the answer does not arrive within 15 s.
pub async fn post(stream: impl AsyncRead + AsyncWrite + Unpin, path: &str, json: String) -> Result<Answer, Unreadable> {
    exchange(stream, Request::post(path), (json.into(), Some(HEAD_MAX)), whole).await
}

/// Sends JSON to a page on a new connection, and passes each line of the response to `line` when the line arrives.
/// An empty line is a line too: it shows that the server serves the request. Skips a last line without a line break.
/// Returns when the response ends. If the status is not 200, passes no lines, and returns the response's content.
///
/// # Errors
/// The errors of [`post`]; also if a line is longer than 256 KiB. The limit of 32 MiB does not apply to the lines.
pub async fn post_for_lines(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    path: &str,
    json: String,
    line: impl FnMut(&str),
) -> Result<Answer, Unreadable> {
    let lines = async |response: Response<Incoming>| match response.status() {
        StatusCode::OK => lines(response, line).await,
        _ => whole(response).await,
    };
    exchange(stream, Request::post(path), (json.into(), Some(HEAD_MAX)), lines).await
}

/// Sends a request with this content. Waits at most `head_max` for the head of the answer. Without `head_max`, the
/// caller must limit the time of the whole exchange.
async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    request: request::Builder,
    (content, head_max): (Bytes, Option<Duration>),
    read: impl AsyncFnOnce(Response<Incoming>) -> Result<Answer, Unreadable>,
) -> Result<Answer, Unreadable> {
    let request = request.header(HOST, "localhost").header(CONNECTION, "close").body(Full::new(content));
    let request = request.map_err(|error| Unreadable::Io(error.to_string()))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| why(&error))?;
    let exchange = async {
        let sent = sender.send_request(request);
        let head = match head_max {
            Some(head_max) => timeout(head_max, sent).await.map_err(|_| Unreadable::Late)?,
            None => sent.await,
        };
        read(head.map_err(|error| why(&error))?).await
    };
    let mut exchange = pin!(exchange);
    // Poll the connection, because it moves the bytes of the exchange. When the connection has ended, `select!` drops
    // it: otherwise, a request that the connection has not sent yet would wait forever.
    tokio::select! {
        answer = &mut exchange => return answer,
        _ = connection => {}
    }
    exchange.await
}

async fn whole(response: Response<Incoming>) -> Result<Answer, Unreadable> {
    let status = response.status().as_u16();
    let content = Limited::new(response.into_body(), CONTENT_MAX_BYTES).collect().await;
    let content = content.map_err(|error| why_cut_short(&*error))?.to_bytes();
    let body = String::from_utf8(content.into()).map_err(|_| Unreadable::NotText)?;
    Ok(Answer { status, body })
}

async fn lines(response: Response<Incoming>, mut line: impl FnMut(&str)) -> Result<Answer, Unreadable> {
    let status = response.status().as_u16();
    let (mut content, mut rest) = (response.into_body(), Vec::<u8>::new());
    while let Some(frame) = content.frame().await {
        let Ok(bytes) = frame.map_err(|error| why(&error))?.into_data() else { continue };
        // The rest of the previous frame is the beginning of a line that has not ended.
        let mut begun = std::mem::take(&mut rest);
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            begun.extend_from_slice(part);
            if begun.len() > LINE_MAX_BYTES {
                return Err(Unreadable::LineTooLong);
            }
            if !part.ends_with(b"\n") {
                rest = std::mem::take(&mut begun);
                break;
            }
            line(std::str::from_utf8(&begun).map_err(|_| Unreadable::NotText)?.trim());
            begun.clear();
        }
    }
    Ok(Answer { status, body: String::new() })
}

fn why_cut_short(error: &(dyn Error + Send + Sync + 'static)) -> Unreadable {
    if error.is::<LengthLimitError>() {
        return Unreadable::TooLong;
    }
    error.downcast_ref().map_or_else(|| Unreadable::Io(error.to_string()), why)
}

fn why(error: &hyper::Error) -> Unreadable {
    let is_cut = |error: &hyper::Error| {
        let io = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        io.is_some_and(|io| io.kind() == io::ErrorKind::UnexpectedEof)
    };
    match error {
        error if error.is_parse() => Unreadable::NotHttp,
        error if error.is_incomplete_message() || is_cut(error) => Unreadable::Cut,
        error => Unreadable::Io(error.to_string()),
    }
}

/// Returns whether a GET of a page gets the status 200 within 2 s. Blocks the calling thread.
pub fn is_ok(address: SocketAddr, path: &str) -> bool {
    fetch(address, path).is_some_and(|answer| answer.status == 200)
}

/// Returns the answer to a GET of a page, if it arrives within 2 s. Blocks the calling thread, and connects from the
/// network namespace of that thread.
pub fn fetch(address: SocketAddr, path: &str) -> Option<Answer> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(async {
        let answer = async { get(TcpStream::connect(address).await.ok()?, path).await.ok() };
        timeout(FETCH_MAX, answer).await.ok().flatten()
    })
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
