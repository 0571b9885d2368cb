//! One persistent HTTP/1.1 connection, with one request at a time.

use std::net::SocketAddr;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::call::Answer;
use super::{CONNECT_TIMEOUT, Client, PAYLOAD_BYTES};

/// Header field with the name of the answering server.
pub(crate) const SERVER: &str = "x-echo-server";
const MAX_FIELDS: usize = 64;
/// Longest answer that is read.
const MAX_ANSWER_BYTES: usize = 64 << 10;
const READ_BYTES: usize = 4096;

/// A client that reconnects after a loss.
pub(super) struct Http1 {
    address: SocketAddr,
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
    pub(super) fn new(client: &Client) -> Self {
        let payload = "x".repeat(PAYLOAD_BYTES);
        let request = format!(
            "POST /echo HTTP/1.1\r\nhost: {}\r\nuser-agent: leno-lab\r\ncontent-type: text/plain\r\n\
             content-length: {PAYLOAD_BYTES}\r\n\r\n{payload}",
            client.authority
        );
        Self { address: client.address, request: request.into(), stream: None, answer: Vec::new() }
    }

    /// Sends a request and reads its answer, on a new connection if necessary.
    pub(super) async fn exchange(&mut self) -> Answer {
        // The connection is kept only after a complete answer.
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => connect(self.address).await?,
        };
        stream.write_all(&self.request).await.map_err(|error| error.to_string())?;
        self.answer.clear();
        loop {
            self.answer.reserve(READ_BYTES);
            let count = stream.read_buf(&mut self.answer).await.map_err(|error| error.to_string())?;
            let Some(Head { server, length, closes }) = head(&self.answer)? else {
                match count {
                    0 => return Err("closed before the answer arrived".to_owned()),
                    _ if self.answer.len() > MAX_ANSWER_BYTES => return Err("the answer is too long".to_owned()),
                    _ => continue,
                }
            };
            if self.answer.len() > length {
                return Err("the server sent more than the answer".to_owned());
            }
            if self.answer.len() == length {
                self.stream = (!closes).then_some(stream);
                return Ok(server);
            }
            if count == 0 {
                return Err("closed within the answer".to_owned());
            }
        }
    }
}

async fn connect(address: SocketAddr) -> Result<TcpStream, String> {
    let connecting = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
    let stream = connecting.map_err(|_| "no connection in time".to_owned())?.map_err(|error| error.to_string())?;
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    Ok(stream)
}

/// Parses the header section of the answer. Returns `None` if it is incomplete.
fn head(bytes: &[u8]) -> Result<Option<Head>, String> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut response = httparse::Response::new(&mut fields);
    let head_bytes = match response.parse(bytes).map_err(|error| error.to_string())? {
        httparse::Status::Complete(bytes) => bytes,
        httparse::Status::Partial => return Ok(None),
    };
    if response.code != Some(200) {
        return Err(format!("HTTP status {}", response.code.unwrap_or_default()));
    }
    let field = |name: &str| response.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
    let length = field("content-length").and_then(|field| std::str::from_utf8(field.value).ok()?.parse().ok());
    let length: usize = length.ok_or_else(|| "the answer has no content-length".to_owned())?;
    let server = field(SERVER).ok_or_else(|| format!("the answer has no {SERVER}"))?;
    Ok(Some(Head {
        server: Bytes::copy_from_slice(server.value),
        length: head_bytes.saturating_add(length),
        closes: field("connection").is_some_and(|field| field.value.eq_ignore_ascii_case(b"close")),
    }))
}

#[cfg(test)]
#[path = "http1_tests.rs"]
mod tests;
