//! gRPC streams over mutual TLS. They need little work for each message, so that thousands of streams can share a
//! thread.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use h2::client::{Builder, SendRequest};
use h2::{RecvStream, SendStream};
use http::header::{CONTENT_TYPE, TE};
use http::{HeaderMap, Request};
use leno_identity::{explain_io, peer_id};
use leno_model::spiffe::SpiffeId;
use prost::Message;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::load::{PREFIX_BYTES, check_head, check_status, framed};

/// Server name for TLS. It has no effect: the client verifies the SPIFFE id instead.
const SERVER_NAME: &str = "control.leno.internal";
/// Longest time for a connection and the first answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest message that a stream reads; leno-proxy has the same limit.
const MESSAGE_MAX_BYTES: usize = 64 << 20;
/// Flow-control windows, of the same size as in leno-proxy's client.
const STREAM_WINDOW_BYTES: u32 = 2 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 5 << 20;

/// A gRPC server, and the identity that it must have.
#[derive(Debug, Clone)]
pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) id: SpiffeId,
}

/// A bidirectional gRPC stream.
pub(super) struct Exchange {
    requests: SendStream<Bytes>,
    responses: RecvStream,
    /// Received bytes of incomplete messages.
    received: BytesMut,
}

/// Connects, and begins a stream with its first message.
///
/// # Errors
/// One line with the reason.
pub(super) async fn open(
    server: &Server,
    tls: Arc<ClientConfig>,
    path: &str,
    first: &impl Message,
) -> Result<Exchange, String> {
    in_time(begin(server, tls, path, first, false)).await
}

/// Connects and makes a unary call.
///
/// # Errors
/// One line with the reason.
pub(super) async fn call<A: Message + Default>(
    server: &Server,
    tls: Arc<ClientConfig>,
    path: &str,
    question: &impl Message,
) -> Result<A, String> {
    let answer = in_time(async { begin(server, tls, path, question, true).await?.next().await }).await?;
    A::decode(answer).map_err(text)
}

async fn in_time<T>(done: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    timeout(ANSWER_TIMEOUT, done).await.unwrap_or_else(|_| Err(format!("no answer for {} s", ANSWER_TIMEOUT.as_secs())))
}

async fn begin(
    server: &Server,
    tls: Arc<ClientConfig>,
    path: &str,
    first: &impl Message,
    is_last: bool,
) -> Result<Exchange, String> {
    let mut sender = connect(server, tls).await?;
    let request = Request::post(format!("http://{SERVER_NAME}{path}"))
        .header(CONTENT_TYPE, "application/grpc")
        .header(TE, "trailers")
        .body(())
        .map_err(text)?;
    poll_fn(|cx| sender.poll_ready(cx)).await.map_err(text)?;
    let (response, mut requests) = sender.send_request(request, false).map_err(text)?;
    requests.send_data(framed(&first.encode_to_vec()), is_last).map_err(text)?;
    let response = response.await.map_err(text)?;
    check_head(&response)?;
    Ok(Exchange { requests, responses: response.into_body(), received: BytesMut::new() })
}

async fn connect(server: &Server, tls: Arc<ClientConfig>) -> Result<SendRequest<Bytes>, String> {
    let stream = TcpStream::connect(server.address).await.map_err(text)?;
    stream.set_nodelay(true).map_err(text)?;
    let name = ServerName::try_from(SERVER_NAME).map_err(text)?;
    let stream = TlsConnector::from(tls).connect(name, stream).await.map_err(|error| explain_io(&error))?;
    let found = peer_id(stream.get_ref().1.peer_certificates().unwrap_or_default()).map_err(text)?;
    if found != server.id {
        return Err(format!("the server is {found}, and it must be {}", server.id));
    }
    let mut builder = Builder::new();
    builder.initial_window_size(STREAM_WINDOW_BYTES).initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    let (sender, connection) = builder.handshake(stream).await.map_err(text)?;
    // Ignore the connection's error: its streams report it too.
    tokio::spawn(async move { connection.await.ok() });
    Ok(sender)
}

impl Exchange {
    /// Sends a message.
    ///
    /// # Errors
    /// If the stream has ended.
    pub(super) fn send(&mut self, message: &impl Message) -> Result<(), String> {
        self.requests.send_data(framed(&message.encode_to_vec()), false).map_err(text)
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// The status, if the stream has ended.
    pub(super) async fn next(&mut self) -> Result<Bytes, String> {
        loop {
            if let Some(message) = take_message(&mut self.received)? {
                return Ok(message);
            }
            let Some(chunk) = self.responses.data().await else {
                let trailers: Option<HeaderMap> = self.responses.trailers().await.map_err(text)?;
                check_status(&trailers.unwrap_or_default())?;
                return Err("the server has ended the stream".to_owned());
            };
            let chunk = chunk.map_err(text)?;
            self.responses.flow_control().release_capacity(chunk.len()).map_err(text)?;
            self.received.extend_from_slice(&chunk);
        }
    }
}

/// Takes the first message out of `received`, if it is complete.
fn take_message(received: &mut BytesMut) -> Result<Option<Bytes>, String> {
    let Some((&[compressed, ref length @ ..], rest)) = received.split_first_chunk::<PREFIX_BYTES>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*length) as usize;
    if compressed != 0 {
        return Err("a message is compressed, although compression was not negotiated".to_owned());
    }
    if length > MESSAGE_MAX_BYTES {
        return Err(format!("a message has {length} bytes; the limit is {MESSAGE_MAX_BYTES}"));
    }
    if rest.len() < length {
        return Ok(None);
    }
    received.advance(PREFIX_BYTES);
    Ok(Some(received.split_to(length).freeze()))
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
#[path = "grpc_tests.rs"]
mod tests;
