//! The connection to the control plane: in clear on this machine, by mutual TLS with an identity.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use leno_identity::{TlsIdentity, explain_io, peer_id};
use leno_model::spiffe::{SpiffeId, Workload};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint, Uri};
use tower_service::Service;

/// How long a connection and its handshake may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How often the control plane is asked for a sign of life, and how long it may take.
const KEEPALIVE: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Where the control plane is, and who it must be.
#[derive(Clone, Debug)]
pub(in crate::control) struct ControlPlane {
    /// A name or an address, and a port.
    pub(in crate::control) address: String,
    /// Who must be there; asked only where we have an identity ourselves.
    pub(in crate::control) workload: Workload,
    /// Who we are.
    pub(in crate::control) identity: Option<watch::Receiver<Arc<TlsIdentity>>>,
}

impl ControlPlane {
    /// Connects.
    ///
    /// # Errors
    /// What to look for, in a line.
    pub(super) async fn connect(&self) -> Result<Channel, String> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address))
            .map_err(|error| error.to_string())?
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .keep_alive_while_idle(true);
        endpoint.connect_with_connector(Connector(self.clone())).await.map_err(|error| innermost(&error))
    }

    async fn open(self) -> Result<TokioIo<Box<dyn Transport>>, io::Error> {
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let Some(identity) = self.identity.as_ref().map(|identity| identity.borrow().clone()) else {
            return Ok(TokioIo::new(Box::new(stream)));
        };
        let expected = SpiffeId { trust_domain: identity.id.trust_domain.clone(), workload: self.workload };
        // What is checked is the SPIFFE id; the name only says that a Leno proxy is calling.
        let name = ServerName::try_from("15010.leno.internal").map_err(io::Error::other)?;
        let stream = TlsConnector::from(identity.client.clone()).connect(name, stream).await;
        let stream = stream.map_err(|error| io::Error::other(explain_io(&error)))?;
        let found = peer_id(stream.get_ref().1.peer_certificates().unwrap_or_default()).map_err(io::Error::other)?;
        if found != expected {
            return Err(io::Error::other(format!("{found} is there, and it must be {expected}")));
        }
        Ok(TokioIo::new(Box::new(stream)))
    }
}

trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// Opens the connections of a channel.
struct Connector(ControlPlane);

impl Service<Uri> for Connector {
    type Response = TokioIo<Box<dyn Transport>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        Box::pin(self.0.clone().open())
    }
}

/// The error that all others are about.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
