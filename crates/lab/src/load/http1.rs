//! One persistent HTTP/1.1 connection, with one request at a time.

use std::net::SocketAddr;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::call::Answer;
use super::connect::connect;
use super::failure::{Failure, FailureClass};
use super::traffic::Traffic;
use super::{CONNECT_TIMEOUT, Client};

/// Header field with the name of the answering server.
pub(crate) const SERVER: &str = "x-echo-server";
/// Header field with the length that the answer's content should have, in bytes. Without it, the answer repeats the
/// request's content.
pub(crate) const RESPONSE_BYTES: &str = "x-echo-response-bytes";
const MAX_FIELDS: usize = 64;
/// Longest header section that is read.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Longest content that is read; a little more than the longest payload.
const MAX_CONTENT_BYTES: usize = 17 << 20;
const READ_BYTES: usize = 16 << 10;

/// A client that reconnects after a loss.
pub(super) struct Http1 {
    address: SocketAddr,
    /// Index among the load's clients.
    index: usize,
    request: Bytes,
    stream: Option<TcpStream>,
    answer: Vec<u8>,
}

/// The data of an answer's header section, once the section is complete.
struct Head {
    server: Bytes,
    /// Length of the header section and the body together, in bytes.
    length: usize,
    closes: bool,
}

impl Http1 {
    /// The client with this index.
    pub(super) fn new(client: &Client, index: usize, traffic: &Traffic) -> Self {
        Self { address: client.address, index, request: request(client, traffic), stream: None, answer: Vec::new() }
    }

    /// Sends a request and reads its answer, on a new connection if necessary.
    pub(super) async fn exchange(&mut self) -> Answer {
        // The connection is kept only after a complete answer.
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => self.connect().await?,
        };
        stream.write_all(&self.request).await.map_err(Failure::connection)?;
        self.answer.clear();
        let Head { server, length, closes } = loop {
            self.read(&mut stream).await?;
            if let Some(head) = head(&self.answer)? {
                break head;
            }
            if self.answer.len() > MAX_HEAD_BYTES {
                return Err(Failure::protocol("the answer's header section is too long"));
            }
        };
        while self.answer.len() < length {
            self.read(&mut stream).await?;
        }
        if self.answer.len() > length {
            return Err(Failure::protocol("the server sent more than the answer"));
        }
        self.stream = (!closes).then_some(stream);
        Ok(server)
    }

    async fn connect(&self) -> Result<TcpStream, Failure> {
        match tokio::time::timeout(CONNECT_TIMEOUT, connect(self.address, self.index)).await {
            Ok(opened) => opened.map_err(Failure::connection),
            Err(_) => Err(Failure::new(FailureClass::TimeOut, "no connection in time")),
        }
    }

    /// Reads the next part of the answer.
    async fn read(&mut self, stream: &mut TcpStream) -> Result<(), Failure> {
        self.answer.reserve(READ_BYTES);
        match stream.read_buf(&mut self.answer).await.map_err(Failure::connection)? {
            0 if self.answer.is_empty() => Err(Failure::connection("closed before the answer arrived")),
            0 => Err(Failure::connection("closed within the answer")),
            _ => Ok(()),
        }
    }
}

/// The bytes of every request: a GET, or a POST if it has content.
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
fn head(bytes: &[u8]) -> Result<Option<Head>, Failure> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut response = httparse::Response::new(&mut fields);
    let head_bytes = match response.parse(bytes).map_err(Failure::protocol)? {
        httparse::Status::Complete(bytes) => bytes,
        httparse::Status::Partial => return Ok(None),
    };
    let status = response.code.unwrap_or_default();
    if status != 200 {
        return Err(Failure::http(status, status));
    }
    let field = |name: &str| response.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
    let length = field("content-length").and_then(|field| std::str::from_utf8(field.value).ok()?.parse().ok());
    let length: usize = length.ok_or_else(|| Failure::protocol("the answer has no content-length"))?;
    if length > MAX_CONTENT_BYTES {
        return Err(Failure::protocol(format!("the answer has {length} bytes; the limit is {MAX_CONTENT_BYTES}")));
    }
    let server = field(SERVER).ok_or_else(|| Failure::protocol(format!("the answer has no {SERVER}")))?;
    Ok(Some(Head {
        server: Bytes::copy_from_slice(server.value),
        length: head_bytes + length,
        closes: field("connection").is_some_and(|field| field.value.eq_ignore_ascii_case(b"close")),
    }))
}

#[cfg(test)]
#[path = "http1_tests.rs"]
mod tests;
