//! Connections of clients: accepted, and where there is something to show secured by TLS, before anybody reads them.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use leno_identity::{TlsIdentity, explain_io, peer_id};
use leno_model::spiffe::SpiffeId;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use crate::publish::limits::HANDSHAKE_MAX;

/// How long to wait after a connection could not be accepted, which is when files run out.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

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
}

/// A connection that may be read.
pub(crate) struct Connection {
    transport: Transport,
    peer: Peer,
    _place: OwnedSemaphorePermit,
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

/// Accepts connections for ever, in clear where there is no `tls`. At most `connections_max` are open at once; more wait.
pub(crate) async fn accept(
    listener: TcpListener,
    tls: Option<Tls>,
    clients: Clients,
    connections_max: usize,
    connections: mpsc::Sender<io::Result<Connection>>,
) -> Infallible {
    let places = Arc::new(Semaphore::new(connections_max));
    loop {
        let place = places.clone().acquire_owned().await.expect("nobody closes the semaphore");
        match listener.accept().await {
            Ok((stream, address)) => {
                let tls = tls.as_ref().map(|tls| tls());
                let connections = connections.clone();
                tokio::spawn(async move {
                    match secure(stream, tls, clients).await {
                        Ok((transport, identity)) => {
                            let connection = Connection { transport, peer: Peer { address, identity }, _place: place };
                            // When nobody takes it the server is ending.
                            let _ = connections.send(Ok(connection)).await;
                        }
                        Err(why) => tracing::debug!(%address, why, "a connection was not secured"),
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

async fn secure(
    stream: TcpStream,
    tls: Option<Arc<ServerConfig>>,
    clients: Clients,
) -> Result<(Transport, Option<SpiffeId>), String> {
    // Requests and responses are whole messages: they are not to wait for more.
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let Some(tls) = tls else {
        return Ok((Transport::Clear(stream), None));
    };
    let handshake = TlsAcceptor::from(tls).accept(stream);
    let stream = match timeout(HANDSHAKE_MAX, handshake).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(explain_io(&error)),
        Err(_) => return Err(format!("no TLS handshake within {} s", HANDSHAKE_MAX.as_secs())),
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
