//! A strict gRPC server: the `h2` crate with all of its defaults. So the server closes the connection of a proxy that
//! forwards abuse.
//!
//! A call selects the form of its answer by header fields:
//! - `delay-ms`: wait before the answer's headers;
//! - `reply-bytes`: answer with a message of this size instead of an echo;
//! - `reply-messages`: send the message this many times;
//! - `reply-status`: the `grpc-status`. 0, the default, goes into the trailers after the messages. Any other status
//!   makes a trailers-only answer.
//!
//! The method `Bidi` echoes DATA as it arrives, `Hang` never answers and never reads, and `Text` answers with a fixed
//! message. Every other method reads the request and echoes it.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::server::{Connection, SendResponse};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::messages;

/// The message of `Text`.
const TEXT: &[u8] = b"An answer of some length, for clients that look at how DATA is sent and not at what it says.";

/// Connections, calls and resets that a server has seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// Connections accepted.
    pub connections: AtomicU64,
    /// Connections open now.
    pub open_connections: AtomicU64,
    /// Calls begun.
    pub calls: AtomicU64,
    /// Calls that the peer reset.
    pub resets: AtomicU64,
    /// For each connection that this server closed because the peer misbehaved, the reason.
    pub punished: Mutex<Vec<String>>,
    /// Header fields of the last call; values of one name are joined with commas.
    pub last_headers: Mutex<BTreeMap<String, String>>,
}

impl Seen {
    /// Returns the reasons for which this server closed connections.
    pub fn punishments(&self) -> Vec<String> {
        self.punished.lock().expect("not poisoned").clone()
    }

    /// Returns a header field of the last call.
    pub fn last_header(&self, name: &str) -> Option<String> {
        self.last_headers.lock().expect("not poisoned").get(name).cloned()
    }

    fn note(&self, headers: &HeaderMap) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let mut fields: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, value) in headers {
            fields.entry(name.to_string()).or_default().push(text(value));
        }
        let joined = fields.into_iter().map(|(name, values)| (name, values.join(","))).collect();
        *self.last_headers.lock().expect("not poisoned") = joined;
    }
}

/// The settings of a server. The default is a server that answers at once.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Delay of every answer, in addition to `delay-ms`.
    pub delay: Duration,
    /// Pause between accepting one call on a connection and reading that connection again.
    pub accept_pause: Duration,
    /// SETTINGS_MAX_CONCURRENT_STREAMS; `None` is the `h2` crate's default.
    pub max_streams: Option<u32>,
}

/// The state of a server: it serves new calls, only finishes its open calls, or ends. All its connections follow this
/// state.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    Serve,
    Finish,
    End,
}

/// A running server. Dropping this value cuts all connections of the server.
#[derive(Debug)]
pub struct Backend {
    address: SocketAddr,
    seen: Arc<Seen>,
    phase: watch::Sender<Phase>,
    accepting: JoinHandle<()>,
}

impl Backend {
    /// Starts a server on a free port.
    pub async fn start() -> Self {
        Self::start_with(Settings::default()).await
    }

    /// Starts a server with these settings.
    pub async fn start_with(settings: Settings) -> Self {
        Self::start_on((Ipv4Addr::LOCALHOST, 0).into(), settings).await
    }

    /// Starts a server on `address`, for example on the address of a stopped server.
    pub async fn start_on(address: SocketAddr, settings: Settings) -> Self {
        let listener = TcpListener::bind(address).await.expect("the port is free");
        let address = listener.local_addr().expect("its address");
        let seen = Arc::new(Seen::default());
        let (phase, phases) = watch::channel(Phase::Serve);
        let accepting = tokio::spawn(accept(listener, settings, seen.clone(), phases));
        Self { address, seen, phase, accepting }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Calls begun so far.
    pub fn calls(&self) -> u64 {
        self.seen.calls.load(Ordering::Relaxed)
    }

    /// Stops gracefully: GOAWAY, finish the calls, close.
    pub async fn stop_gracefully(self) {
        self.accepting.abort();
        self.phase.send_replace(Phase::Finish);
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.seen.open_connections.load(Ordering::Relaxed) > 0 && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.accepting.abort();
        self.phase.send_replace(Phase::End);
    }
}

async fn accept(listener: TcpListener, settings: Settings, seen: Arc<Seen>, phases: watch::Receiver<Phase>) {
    while let Ok((stream, _)) = listener.accept().await {
        // Ignore an error: it means that the connection is lost, and serving it will fail below.
        stream.set_nodelay(true).ok();
        seen.connections.fetch_add(1, Ordering::Relaxed);
        seen.open_connections.fetch_add(1, Ordering::Relaxed);
        let (settings, seen, mut phases) = (settings.clone(), seen.clone(), phases.clone());
        let mut ended = phases.clone();
        tokio::spawn(async move {
            let result = tokio::select! {
                result = serve(stream, &settings, &seen, &mut phases) => result,
                _ = ended.wait_for(|phase| *phase == Phase::End) => Ok(()),
            };
            if let Err(error) = result
                && !error.is_io()
            {
                seen.punished.lock().expect("not poisoned").push(format!("{error:?}"));
            }
            seen.open_connections.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

async fn serve(
    stream: TcpStream,
    settings: &Settings,
    seen: &Arc<Seen>,
    phases: &mut watch::Receiver<Phase>,
) -> Result<(), h2::Error> {
    let mut builder = h2::server::Builder::new();
    if let Some(max) = settings.max_streams {
        builder.max_concurrent_streams(max);
    }
    let mut connection: Connection<TcpStream, Bytes> = builder.handshake(stream).await?;
    loop {
        let accepted = tokio::select! {
            accepted = connection.accept() => accepted,
            _ = phases.wait_for(|phase| *phase != Phase::Serve) => break,
        };
        match accepted {
            Some(call) => spawn_answer(call?, settings.delay, seen),
            None => return Ok(()),
        }
        if !settings.accept_pause.is_zero() {
            tokio::time::sleep(settings.accept_pause).await;
        }
    }
    connection.graceful_shutdown();
    while let Some(call) = connection.accept().await {
        spawn_answer(call?, settings.delay, seen);
    }
    Ok(())
}

fn spawn_answer(call: (Request<RecvStream>, SendResponse<Bytes>), delay: Duration, seen: &Arc<Seen>) {
    let (request, response) = call;
    let seen = seen.clone();
    tokio::spawn(async move {
        seen.note(request.headers());
        if let Err(error) = answer(request, response, delay).await
            && error.reason().is_some()
            && !error.is_go_away()
        {
            seen.resets.fetch_add(1, Ordering::Relaxed);
        }
    });
}

/// The form of one call's answer, see the module's documentation.
struct Wish {
    delay: Duration,
    reply_bytes: Option<usize>,
    reply_messages: usize,
    status: HeaderValue,
}

impl Wish {
    fn of(headers: &HeaderMap) -> Self {
        let number = |name| headers.get(name).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
        Self {
            delay: Duration::from_millis(number("delay-ms").unwrap_or(0) as u64),
            reply_bytes: number("reply-bytes"),
            reply_messages: number("reply-messages").unwrap_or(1),
            status: headers.get("reply-status").cloned().unwrap_or(HeaderValue::from_static("0")),
        }
    }
}

async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    delay: Duration,
) -> Result<(), h2::Error> {
    let (head, mut body) = request.into_parts();
    let wish = Wish::of(&head.headers);
    match head.uri.path() {
        "/test.Test/Bidi" => return echo_as_it_comes(body, respond).await,
        "/test.Test/Hang" => {
            let reason = std::future::poll_fn(|context| respond.poll_reset(context)).await?;
            return Err(reason.into());
        }
        _ => {}
    }
    let received = tokio::select! {
        received = messages::read(&mut body) => received?,
        reset = std::future::poll_fn(|context| respond.poll_reset(context)) => return Err(reset?.into()),
    };
    tokio::select! {
        () = tokio::time::sleep(delay + wish.delay) => {}
        reset = std::future::poll_fn(|context| respond.poll_reset(context)) => return Err(reset?.into()),
    }
    let response = Response::builder().header("content-type", "application/grpc");
    if wish.status != "0" {
        let trailers_only = response.header("grpc-status", wish.status).body(()).expect("a well-formed answer");
        respond.send_response(trailers_only, true)?;
        return Ok(());
    }
    let mut stream = respond.send_response(response.body(()).expect("a well-formed answer"), false)?;
    let reply = match wish.reply_bytes {
        Some(bytes) => messages::message(&vec![b'x'; bytes]),
        None if head.uri.path() == "/test.Test/Text" => messages::message(TEXT),
        None => received,
    };
    for _ in 0..wish.reply_messages {
        messages::send(&mut stream, reply.clone(), false).await?;
    }
    end(&mut stream)
}

async fn echo_as_it_comes(mut body: RecvStream, mut respond: SendResponse<Bytes>) -> Result<(), h2::Error> {
    let response = Response::builder().header("content-type", "application/grpc");
    let mut stream = respond.send_response(response.body(()).expect("a well-formed answer"), false)?;
    while let Some(part) = body.data().await {
        let part = part?;
        let length = part.len();
        messages::send(&mut stream, part, false).await?;
        // Release the caller's window only after the echo was sent: the caller must not send more than this server can
        // echo.
        body.flow_control().release_capacity(length)?;
    }
    end(&mut stream)
}

fn end(stream: &mut SendStream<Bytes>) -> Result<(), h2::Error> {
    let trailers =
        HeaderMap::from_iter([(http::HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"))]);
    stream.send_trailers(trailers)
}
