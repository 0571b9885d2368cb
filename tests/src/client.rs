//! A gRPC client on the `h2` crate.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::messages;

/// Longest time for a call; a longer call is regarded as hanging.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);

/// One HTTP/2 connection. Dropping this value closes the connection.
#[derive(Debug)]
pub struct Client {
    requests: SendRequest<Bytes>,
    connection: JoinHandle<Result<(), h2::Error>>,
    authority: String,
}

/// The service, method and header fields of a call that a [`Client`] can make.
#[derive(Debug, Clone)]
pub struct Call {
    service: String,
    method: String,
    authority: Option<String>,
    headers: Vec<(String, String)>,
}

impl Call {
    /// A call of `method` in `test.Test`, the only gRPC service of the test servers.
    pub fn new(method: &str) -> Self {
        Self { service: "test.Test".to_owned(), method: method.to_owned(), authority: None, headers: Vec::new() }
    }

    /// Sets the gRPC service, for a server other than the test servers.
    pub fn of_service(mut self, service: &str) -> Self {
        self.service = service.to_owned();
        self
    }

    /// Sets the call's `:authority`, in place of the client's default.
    pub fn to(mut self, authority: &str) -> Self {
        self.authority = Some(authority.to_owned());
        self
    }

    /// Adds a header field.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// A complete answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Header fields.
    pub headers: HeaderMap,
    /// DATA, including gRPC's framing.
    pub body: Bytes,
    /// Trailer fields; empty for a trailers-only answer.
    pub trailers: HeaderMap,
}

impl Answer {
    /// The gRPC status, from the trailers or from a trailers-only answer.
    pub fn grpc_status(&self) -> Option<u8> {
        self.field("grpc-status")?.parse().ok()
    }

    /// Returns a field of the trailers, or a header field if the trailers do not contain it.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.trailers.get(name).or_else(|| self.headers.get(name)).and_then(|value| value.to_str().ok())
    }
}

impl Client {
    /// Connects to `address`; calls go to `authority`.
    ///
    /// # Errors
    /// If the connection or the handshake fails.
    pub async fn try_connect(address: SocketAddr, authority: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (requests, connection) = h2::client::handshake(stream).await.map_err(io::Error::other)?;
        Ok(Self { requests, connection: tokio::spawn(connection), authority: authority.to_owned() })
    }

    /// Connects to `address`; calls go to `authority`.
    pub async fn connect(address: SocketAddr, authority: &str) -> Self {
        Self::try_connect(address, authority).await.expect("a connection")
    }

    /// Whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.connection.is_finished()
    }

    /// Begins a call. Returns the future of its answer, and the sender of its content.
    ///
    /// # Errors
    /// If the connection accepts no more streams.
    pub async fn open(&self, call: &Call) -> Result<(ResponseFuture, SendStream<Bytes>), h2::Error> {
        let authority = call.authority.as_ref().unwrap_or(&self.authority);
        let mut request = Request::post(format!("http://{authority}/{}/{}", call.service, call.method))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        for (name, value) in &call.headers {
            request = request.header(name, value);
        }
        let request = request.body(()).expect("a well-formed request");
        self.requests.clone().ready().await?.send_request(request, false)
    }

    /// Makes a call with one message, and reads the whole answer.
    ///
    /// # Errors
    /// If the answer is incomplete: a reset, a lost connection, or no answer within twenty seconds.
    pub async fn try_call(&self, call: &Call, payload: &[u8]) -> Result<Answer, String> {
        match tokio::time::timeout(CALL_TIMEOUT, self.exchange(call, payload)).await {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no answer after {CALL_TIMEOUT:?}")),
        }
    }

    /// Makes a call with one message, and reads the whole answer.
    pub async fn call(&self, call: &Call, payload: &[u8]) -> Answer {
        self.try_call(call, payload).await.expect("an answer")
    }

    async fn exchange(&self, call: &Call, payload: &[u8]) -> Result<Answer, h2::Error> {
        let (response, mut request) = self.open(call).await?;
        // Ignore a failure to send: a server may answer before it has read the whole request.
        let (_, answer) =
            tokio::join!(messages::send(&mut request, messages::message(payload), true), answer(response));
        answer
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// Reads an answer to its end.
///
/// # Errors
/// Errors of the stream, such as a reset by the peer.
pub async fn answer(response: ResponseFuture) -> Result<Answer, h2::Error> {
    let (head, mut body) = response.await?.into_parts();
    let data = messages::read(&mut body).await?;
    let trailers = body.trailers().await?.unwrap_or_default();
    Ok(Answer { status: head.status.as_u16(), headers: head.headers, body: data, trailers })
}

/// Reads at least `bytes` bytes of DATA.
///
/// # Errors
/// Errors of the stream, and [`h2::Reason::STREAM_CLOSED`] if the stream ends with fewer bytes.
pub async fn read_at_least(body: &mut RecvStream, bytes: usize) -> Result<Bytes, h2::Error> {
    let mut data = BytesMut::new();
    while data.len() < bytes {
        let part = body.data().await.ok_or(h2::Reason::STREAM_CLOSED)??;
        body.flow_control().release_capacity(part.len())?;
        data.extend_from_slice(&part);
    }
    Ok(data.freeze())
}
