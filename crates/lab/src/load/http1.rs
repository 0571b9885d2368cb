//! One persistent HTTP/1.1 connection, with one request at a time.

use std::io::ErrorKind;
use std::net::SocketAddr;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::call::Answer;
use super::connect::connect;
use super::exchange::{Exchange, NAMELESS, parse_path};
use super::failure::{Failure, FailureClass};
use super::http1_content::Content;
use super::traffic::Traffic;
use super::{CONNECT_TIMEOUT, Client};

/// Header field with the name of the answering server.
pub(crate) const SERVER: &str = "x-echo-server";
/// Header field with the length that the answer's content should have, in bytes. Without this field, the answer repeats
/// the request's content.
pub(crate) const RESPONSE_BYTES: &str = "x-echo-response-bytes";
const MAX_FIELDS: usize = 64;
/// Longest header section that is read.
const MAX_HEAD_BYTES: usize = 64 << 10;
const READ_BYTES: usize = 16 << 10;

/// A client that reconnects after a loss.
pub(super) struct Http1 {
    address: SocketAddr,
    /// Index among the load's clients.
    index: usize,
    request: Bytes,
    /// Whether any server may answer. If false, only an echo server may answer, and its answer contains its name.
    is_nameless: bool,
    stream: Option<TcpStream>,
    answer: Vec<u8>,
}

/// The data of an answer's header section, once the section is complete.
struct Head {
    /// The name of the server if the status is OK, otherwise the failure. The answer has content in both cases.
    answer: Answer,
    content: Content,
    closes: bool,
}

impl Http1 {
    /// The client with this index.
    ///
    /// # Errors
    /// If the path in the exchange is invalid.
    pub(super) fn new(
        client: &Client,
        index: usize,
        exchange: &Exchange,
        traffic: &Traffic,
    ) -> Result<Self, http::Error> {
        let (request, is_nameless) = match exchange {
            Exchange::Http1Get(path) => (get(client, path)?, true),
            _ => (request(client, traffic), false),
        };
        Ok(Self { address: client.address, index, request, is_nameless, stream: None, answer: Vec::new() })
    }

    /// Sends a request and reads its answer, on a new connection if necessary.
    pub(super) async fn exchange(&mut self) -> Answer {
        // The connection is kept only after a complete answer, whatever its status.
        let mut stream = match self.stream.take().filter(is_open) {
            Some(stream) => stream,
            None => self.connect().await?,
        };
        stream.write_all(&self.request).await.map_err(Failure::connection)?;
        self.answer.clear();
        let Head { answer, mut content, closes } = loop {
            if !self.read(&mut stream).await? {
                let what = if self.answer.is_empty() { "before" } else { "within" };
                return Err(Failure::connection(format!("closed {what} the answer")));
            }
            if let Some(head) = head(&self.answer, self.is_nameless)? {
                break head;
            }
            if self.answer.len() > MAX_HEAD_BYTES {
                return Err(Failure::protocol("the answer's header section is too long"));
            }
        };
        let length = loop {
            if let Some(length) = content.end(&self.answer)? {
                break length;
            }
            if !self.read(&mut stream).await? {
                if content != Content::UntilClose {
                    return Err(Failure::connection("closed within the answer"));
                }
                break self.answer.len();
            }
        };
        if self.answer.len() > length {
            return Err(Failure::protocol("the server sent more than the answer"));
        }
        self.stream = (!closes).then_some(stream);
        answer
    }

    async fn connect(&self) -> Result<TcpStream, Failure> {
        match tokio::time::timeout(CONNECT_TIMEOUT, connect(self.address, self.index)).await {
            Ok(opened) => opened.map_err(Failure::connection),
            Err(_) => Err(Failure::new(FailureClass::TimeOut, "no connection in time")),
        }
    }

    /// Reads the next part of the answer. Returns false if the server has closed the connection.
    async fn read(&mut self, stream: &mut TcpStream) -> Result<bool, Failure> {
        self.answer.reserve(READ_BYTES);
        let read_bytes = stream.read_buf(&mut self.answer).await.map_err(Failure::connection)?;
        Ok(read_bytes > 0)
    }
}

/// Returns whether a connection can carry a further request. The server may have closed it while it was idle.
fn is_open(stream: &TcpStream) -> bool {
    matches!(stream.try_read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
}

/// The bytes of every GET request for `path`.
fn get(client: &Client, path: &str) -> Result<Bytes, http::Error> {
    let (path, host) = (parse_path(path)?, &client.authority);
    Ok(format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nuser-agent: leno-lab\r\n\r\n").into())
}

/// The bytes of every request to an echo server: a GET, or a POST if it has content.
fn request(client: &Client, traffic: &Traffic) -> Bytes {
    let Traffic { request_bytes, response_bytes, .. } = *traffic;
    let (method, content_fields) = match request_bytes {
        0 => ("GET", String::new()),
        bytes => ("POST", format!("content-type: text/plain\r\ncontent-length: {bytes}\r\n")),
    };
    let answer_field = match response_bytes {
        bytes if bytes == request_bytes => String::new(),
        bytes => format!("{RESPONSE_BYTES}: {bytes}\r\n"),
    };
    let content = "x".repeat(request_bytes as usize);
    let (host, fields) = (&client.authority, content_fields + &answer_field);
    format!("{method} /echo HTTP/1.1\r\nhost: {host}\r\nuser-agent: leno-lab\r\n{fields}\r\n{content}").into()
}

/// Parses the header section of the answer. Returns `None` if it is incomplete.
fn head(bytes: &[u8], is_nameless: bool) -> Result<Option<Head>, Failure> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut response = httparse::Response::new(&mut fields);
    let head_bytes = match response.parse(bytes).map_err(Failure::protocol)? {
        httparse::Status::Complete(bytes) => bytes,
        httparse::Status::Partial => return Ok(None),
    };
    let status = response.code.unwrap_or_default();
    let is_ok = if is_nameless { (200..300).contains(&status) } else { status == 200 };
    let field = |name: &str| response.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
    let answer = match field(SERVER) {
        _ if !is_ok => Err(Failure::http(status, status)),
        _ if is_nameless => Ok(Bytes::from_static(NAMELESS.as_bytes())),
        Some(server) => Ok(Bytes::copy_from_slice(server.value)),
        None => return Err(Failure::protocol(format!("the answer has no {SERVER}"))),
    };
    let content = Content::of(status, response.headers, head_bytes)?;
    let is_http1_0 = response.version == Some(0);
    let says_so = field("connection").is_some_and(|field| field.value.eq_ignore_ascii_case(b"close"));
    // Do not reuse a connection after an interim status (1xx): the final answer of this request would still follow.
    let is_interim = status < 200;
    let closes = says_so || is_http1_0 || is_interim || content == Content::UntilClose;
    Ok(Some(Head { answer, content, closes }))
}

#[cfg(test)]
#[path = "http1_tests.rs"]
mod tests;
