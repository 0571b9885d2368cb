//! Accepts the connections of clients. With TLS, completes the handshake before a server reads the connection.
//!
//! The number of connections is limited. Connections with a certificate of the mesh are counted by namespace and
//! identity; other connections are counted by source address, under a separate limit. At a limit, a newer connection
//! may replace an older connection ([`leno_accept`]); reading and writing the older one then fail.

mod trust;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use leno_accept::{Arrival, Listener, Place, Replaced, Source, Standing};
use leno_identity::{TlsIdentity, explain_io, peer_id};
use leno_model::spiffe::SpiffeId;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use trust::{Distrust, distrusted};

/// Maximum time from accepting a connection to the head of its first request, including the TLS handshake. It can be
/// short, because clients connect only once they have a request to send.
pub(crate) const FIRST_REQUEST_MAX: Duration = Duration::from_secs(5);

/// Maximum time from the head of a request to its end, for requests that consist of one small message.
pub(crate) const WHOLE_REQUEST_MAX: Duration = Duration::from_secs(5);

/// Maximum number of received TLS bytes from which no application data could be decrypted yet. The limit is higher than
/// a record (at most 16,640 bytes) and than a client's handshake with its certificates. Without the limit, rustls would
/// buffer 64 KiB of handshake messages for any client, even without a certificate.
const UNREADABLE_MAX_BYTES: usize = 20 << 10;

/// The TLS configuration of a listener. Connections that are accepted after a renewal use the new certificate.
#[derive(Clone, Debug)]
pub(crate) enum Tls {
    /// The server presents our workload certificate. Clients may present a certificate of the mesh; when we no longer
    /// trust the client's certificate, its connection ends.
    Mesh(watch::Receiver<Arc<TlsIdentity>>),
    /// The server presents a certificate with only our DNS names. Clients present no certificate.
    Server(watch::Receiver<Arc<ServerConfig>>),
}

/// The client at the other end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    /// The SPIFFE id in the client's certificate; `None` without a certificate.
    pub(crate) identity: Option<SpiffeId>,
    pub(crate) presence: Presence,
}

impl Peer {
    /// Returns the client's source address as an account for limits, even if the client has a certificate.
    pub(crate) fn source(&self) -> Source {
        Source::of(self.address.ip())
    }
}

/// Lets the service that answers requests report what the client of a connection has sent so far. The reports decide
/// whether the connection stays open. The default value belongs to no connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Presence {
    has_asked: Arc<AtomicBool>,
    closing: Arc<Closing>,
    standing: Option<Standing>,
}

/// Why the service wants the connection closed, if it does, and the waker of the connection's task.
#[derive(Debug, Default)]
struct Closing {
    why: OnceLock<String>,
    task: AtomicWaker,
}

impl Presence {
    /// Records that the head of a request has arrived.
    pub(crate) fn asked(&self) {
        self.has_asked.store(true, Ordering::Relaxed);
    }

    /// Records that a request on the connection took too long to arrive; the connection is then closed.
    pub(crate) fn stalled(&self) {
        self.close(format!("a request was not whole within {} s", WHOLE_REQUEST_MAX.as_secs()));
    }

    /// Closes the connection with all its streams. No effect if it is already closing for another reason.
    pub(crate) fn close(&self, why: String) {
        // Ignore an error: the first reason stays.
        let _ = self.closing.why.set(why);
        self.closing.task.wake();
    }

    /// Why the connection is closing, if it is.
    #[cfg(test)]
    pub(crate) fn closing(&self) -> Option<&str> {
        self.closing.why.get().map(String::as_str)
    }

    /// Records that the client has sent a request that only a legitimate client can send. At the limit on connections,
    /// those without such a request are replaced before this one.
    pub(crate) fn settle(&self) {
        if let Some(standing) = &self.standing {
            standing.settle();
        }
    }
}

/// A connection from which the server can read requests.
pub(crate) struct Connection {
    transport: Transport,
    peer: Peer,
    place: Place,
    /// Deadline of the first request; `None` once a request has arrived.
    first_request: Option<Pin<Box<Sleep>>>,
    /// Completes when the client's certificate has expired or is no longer trusted; `None` without a certificate.
    distrust: Option<Distrust>,
    /// Why the connection has ended, if it has.
    end: Option<(io::ErrorKind, String)>,
}

impl Connection {
    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Returns ready with the reason once the connection must not be used any more. Call it for writes too: a server of
    /// HTTP/2 reads nothing while a client that does not read makes it wait to write, for example the answer to a PING.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let (kind, why) = match self.end.take() {
            Some(end) => end,
            None => ready!(self.poll_reason(cx)),
        };
        let error = io::Error::new(kind, why.clone());
        self.end = Some((kind, why));
        Poll::Ready(error)
    }

    /// Like [`Connection::poll_end`], but must not be called again once it has returned ready.
    fn poll_reason(&mut self, cx: &mut Context<'_>) -> Poll<(io::ErrorKind, String)> {
        if self.place.poll_replaced(cx).is_ready() {
            return Poll::Ready((io::ErrorKind::ConnectionAborted, Replaced.to_string()));
        }
        let closing = &self.peer.presence.closing;
        closing.task.register(cx.waker());
        if let Some(why) = closing.why.get() {
            return Poll::Ready((io::ErrorKind::TimedOut, why.clone()));
        }
        if let Some(distrust) = &mut self.distrust
            && let Poll::Ready(error) = distrust.as_mut().poll(cx)
        {
            let why = format!("the client's certificate is no longer valid: {error}");
            return Poll::Ready((io::ErrorKind::PermissionDenied, why));
        }
        if let Some(latest) = &mut self.first_request {
            if self.peer.presence.has_asked.load(Ordering::Relaxed) {
                self.first_request = None;
            } else if latest.as_mut().poll(cx).is_ready() {
                let why = format!("no request within {} s", FIRST_REQUEST_MAX.as_secs());
                return Poll::Ready((io::ErrorKind::TimedOut, why));
            }
        }
        Poll::Pending
    }
}

enum Transport {
    Clear(TcpStream),
    Tls(Box<TlsStream<Metered>>),
}

/// The TCP socket of a TLS connection. Counts the received bytes from which TLS has not yet decrypted application data.
struct Metered {
    socket: TcpStream,
    unreadable_bytes: usize,
}

impl AsyncRead for Metered {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.unreadable_bytes > UNREADABLE_MAX_BYTES {
            let why = format!("more than {UNREADABLE_MAX_BYTES} bytes of TLS in which nothing can be read");
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, why)));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(cx, buffer);
        self.unreadable_bytes += buffer.filled().len() - before;
        read
    }
}

impl AsyncWrite for Metered {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

/// Which clients may connect over TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clients {
    /// Only clients with a certificate of the mesh.
    Identified,
    /// Also clients without a certificate of the mesh: workloads that request their first certificate, and API servers.
    Anybody,
}

/// Accepts connections and sends them to `connections`; never returns. Without `tls`, the connections are unencrypted.
pub(crate) async fn accept(
    mut listener: Listener,
    tls: Option<Tls>,
    clients: Clients,
    connections: mpsc::Sender<io::Result<Connection>>,
) -> Infallible {
    loop {
        let arrival = listener.accept().await;
        let tls = tls.clone();
        let connections = connections.clone();
        tokio::spawn(async move {
            let address = arrival.address;
            match Connection::open(arrival, tls, clients).await {
                // Ignore an error: the send fails only while the server shuts down.
                Ok(connection) => drop(connections.send(Ok(connection)).await),
                Err(why) => tracing::debug!(%address, why, "a connection was closed during its TLS handshake"),
            }
        });
    }
}

impl Connection {
    async fn open(arrival: Arrival, tls: Option<Tls>, clients: Clients) -> Result<Self, String> {
        let Arrival { stream, address, mut place } = arrival;
        let latest = Instant::now() + FIRST_REQUEST_MAX;
        let secured = place.hold(secure(stream, tls, clients, latest)).await;
        let Secured { transport, identity, distrust } = secured.map_err(|replaced| replaced.to_string())??;
        if let Some(identity) = &identity {
            place.identify(&identity.to_string()).map_err(|replaced| replaced.to_string())?;
        }
        let presence = Presence { standing: Some(place.standing()), ..Presence::default() };
        // Convert the address of an IPv4 client to IPv4: a socket for both families reports it as an IPv6 address.
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        let peer = Peer { address, identity, presence };
        let first_request = Some(Box::pin(sleep_until(latest)));
        Ok(Self { transport, peer, place, first_request, distrust, end: None })
    }
}

/// A connection whose TLS handshake is complete, or an unencrypted connection.
struct Secured {
    transport: Transport,
    identity: Option<SpiffeId>,
    distrust: Option<Distrust>,
}

async fn secure(stream: TcpStream, tls: Option<Tls>, clients: Clients, latest: Instant) -> Result<Secured, String> {
    // Disable Nagle's algorithm: responses are written as complete messages, which need not wait for more data.
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let (config, own) = match tls {
        None => return Ok(Secured { transport: Transport::Clear(stream), identity: None, distrust: None }),
        Some(Tls::Server(config)) => (config.borrow().clone(), None),
        Some(Tls::Mesh(identities)) => {
            let shown = identities.borrow().clone();
            (shown.server.clone(), Some((shown, identities)))
        }
    };
    let handshake = TlsAcceptor::from(config).accept(Metered { socket: stream, unreadable_bytes: 0 });
    let mut stream = match timeout_at(latest, handshake).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(explain_io(&error)),
        Err(_) => return Err(format!("no TLS handshake within {} s", FIRST_REQUEST_MAX.as_secs())),
    };
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let identity = match peer_id(chain) {
        Ok(peer) => Some(peer),
        Err(_) if clients == Clients::Anybody => None,
        Err(error) => return Err(error.to_string()),
    };
    let distrust = own.filter(|_| identity.is_some()).map(|(trusting, identities)| -> Distrust {
        let chain = chain.iter().cloned().map(CertificateDer::into_owned).collect();
        Box::pin(distrusted(chain, trusting, identities))
    });
    stream.get_mut().0.unreadable_bytes = 0;
    Ok(Secured { transport: Transport::Tls(Box::new(stream)), identity, distrust })
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Poll::Ready(error) = self.poll_end(cx) {
            return Poll::Ready(Err(error));
        }
        match &mut self.transport {
            Transport::Clear(stream) => Pin::new(stream).poll_read(cx, buffer),
            // Do not use `poll_read`: it goes on to read later records from the socket after it has filled a part of
            // the buffer. Their bytes would count as undecrypted, although the caller has read all earlier data.
            Transport::Tls(stream) => {
                let readable = ready!(Pin::new(&mut *stream).poll_fill_buf(cx))?;
                let taken = readable.len().min(buffer.remaining());
                buffer.put_slice(&readable[..taken]);
                Pin::new(&mut *stream).consume(taken);
                if taken > 0 {
                    stream.get_mut().0.unreadable_bytes = 0;
                }
                Poll::Ready(Ok(()))
            }
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if let Poll::Ready(error) = self.poll_end(cx) {
            return Poll::Ready(Err(error));
        }
        match &mut self.transport {
            Transport::Clear(stream) => Pin::new(stream).poll_write(cx, bytes),
            Transport::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Poll::Ready(error) = self.poll_end(cx) {
            return Poll::Ready(Err(error));
        }
        match &mut self.transport {
            Transport::Clear(stream) => Pin::new(stream).poll_flush(cx),
            Transport::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.transport {
            Transport::Clear(stream) => Pin::new(stream).poll_shutdown(cx),
            Transport::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
#[path = "accept_tests.rs"]
mod tests;
