//! Connections of clients: accepted, and where there is something to show secured by TLS, before anybody reads them.
//!
//! A connection has a place among those of its peer's address. One that shows a certificate of the mesh moves to the places by
//! identity. Either may lose its place to a newer connection ([`leno_accept`]), and reading from it fails then.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use leno_accept::{Arrival, Listener, Place, Replaced, Source, Standing};
use leno_identity::{TlsIdentity, explain_io, peer_id};
use leno_model::spiffe::SpiffeId;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

/// From accepting a connection to the end of its TLS handshake and of the head of its first request. Clients of every
/// kind connect when they have something to ask.
pub(crate) const FIRST_REQUEST_MAX: Duration = Duration::from_secs(5);

/// Says how the next connection is secured.
pub(crate) type Tls = Box<dyn Fn() -> Arc<ServerConfig> + Send>;

/// By what shows who we are as a workload; each that replaces it is used from then on.
pub(crate) fn by_identity(identity: watch::Receiver<Arc<TlsIdentity>>) -> Tls {
    Box::new(move || identity.borrow().server.clone())
}

/// Who is at the other end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// Where it is.
    pub(crate) address: SocketAddr,
    /// Who it is, by its certificate; `None` where it showed none.
    pub(crate) identity: Option<SpiffeId>,
    /// What it has said so far.
    pub(crate) presence: Presence,
}

impl Peer {
    /// The account of what it costs us while it has not shown who it is.
    pub(crate) fn source(&self) -> Source {
        Source::of(self.address.ip())
    }
}

/// What a connection has said so far, as those who answer it see it. The default is that of no connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Presence {
    has_asked: Arc<AtomicBool>,
    standing: Option<Standing>,
}

impl Presence {
    /// The head of a request has come.
    pub(crate) fn asked(&self) {
        self.has_asked.store(true, Ordering::Relaxed);
    }

    /// The connection has sent something that only somebody with a reason to be here can: it yields its place later than
    /// others.
    pub(crate) fn settle(&self) {
        if let Some(standing) = &self.standing {
            standing.settle();
        }
    }
}

/// A connection that may be read.
pub(crate) struct Connection {
    transport: Transport,
    peer: Peer,
    place: Place,
    /// The latest moment for the first request; nothing when that has come.
    first_request: Option<Pin<Box<Sleep>>>,
}

impl Connection {
    /// Who is at the other end.
    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Why nothing more is read, if there is a reason.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        if self.place.poll_replaced(cx).is_ready() {
            return Poll::Ready(io::Error::new(io::ErrorKind::ConnectionAborted, Replaced));
        }
        if let Some(latest) = &mut self.first_request {
            if self.peer.presence.has_asked.load(Ordering::Relaxed) {
                self.first_request = None;
            } else if latest.as_mut().poll(cx).is_ready() {
                let why = format!("no request within {} s", FIRST_REQUEST_MAX.as_secs());
                return Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, why));
            }
        }
        Poll::Pending
    }
}

enum Transport {
    Clear(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Who may connect where we show who we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clients {
    /// Those that show who they are too.
    Identified,
    /// Everybody: who comes for an identity has none yet, and an API server has none of the mesh.
    Anybody,
}

/// Accepts connections for ever, in clear where there is no `tls`.
pub(crate) async fn accept(
    mut listener: Listener,
    tls: Option<Tls>,
    clients: Clients,
    connections: mpsc::Sender<io::Result<Connection>>,
) -> Infallible {
    loop {
        let arrival = listener.accept().await;
        let tls = tls.as_ref().map(|tls| tls());
        let connections = connections.clone();
        tokio::spawn(async move {
            let address = arrival.address;
            match Connection::open(arrival, tls, clients).await {
                // When nobody takes it the server is ending.
                Ok(connection) => drop(connections.send(Ok(connection)).await),
                Err(why) => tracing::debug!(%address, why, "a connection was not secured"),
            }
        });
    }
}

impl Connection {
    async fn open(arrival: Arrival, tls: Option<Arc<ServerConfig>>, clients: Clients) -> Result<Self, String> {
        let Arrival { stream, address, mut place } = arrival;
        let latest = Instant::now() + FIRST_REQUEST_MAX;
        let secured = place.hold(secure(stream, tls, clients, latest)).await;
        let (transport, identity) = secured.map_err(|replaced| replaced.to_string())??;
        if let Some(identity) = &identity {
            place.identify(&identity.to_string()).map_err(|replaced| replaced.to_string())?;
        }
        let presence = Presence { has_asked: Arc::default(), standing: Some(place.standing()) };
        let peer = Peer { address, identity, presence };
        Ok(Self { transport, peer, place, first_request: Some(Box::pin(sleep_until(latest))) })
    }
}

async fn secure(
    stream: TcpStream,
    tls: Option<Arc<ServerConfig>>,
    clients: Clients,
    latest: Instant,
) -> Result<(Transport, Option<SpiffeId>), String> {
    // Requests and responses are whole messages: they are not to wait for more.
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let Some(tls) = tls else {
        return Ok((Transport::Clear(stream), None));
    };
    let handshake = TlsAcceptor::from(tls).accept(stream);
    let stream = match timeout_at(latest, handshake).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(explain_io(&error)),
        Err(_) => return Err(format!("no TLS handshake within {} s", FIRST_REQUEST_MAX.as_secs())),
    };
    let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let peer = match peer_id(certificates) {
        Ok(peer) => Some(peer),
        Err(_) if clients == Clients::Anybody => None,
        Err(error) => return Err(error.to_string()),
    };
    Ok((Transport::Tls(Box::new(stream)), peer))
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
            Transport::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.transport {
            Transport::Clear(stream) => Pin::new(stream).poll_write(cx, bytes),
            Transport::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
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
