//! Connections to the control plane: unencrypted if the control plane is on this machine, otherwise over TLS with
//! verification of the control plane's identity.

use std::error::Error as _;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use leno_identity::bundle::TrustBundle;
use leno_identity::svid::Svid;
use leno_identity::tls::anonymous_client;
use leno_identity::{TlsIdentity, explain_io, innermost, peer_id};
use leno_model::spiffe::{SpiffeId, TrustDomain, Workload};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tonic::Status;
use tonic::transport::{Channel, Endpoint, Uri};
use tower_service::Service;

/// Longest time for a connection and its handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time without data from the control plane after which we send a PING, and the longest time for the PING's answer.
const KEEPALIVE: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// A service of the control plane: its address, and its required identity.
#[derive(Clone, Debug)]
pub(super) struct ControlPlane {
    /// A name or an address, and a port.
    pub(super) address: String,
    /// The identity that the control plane must prove; not verified without TLS.
    pub(super) workload: Workload,
    /// How the proxy and the control plane authenticate each other.
    pub(super) security: Security,
}

/// How we and the control plane authenticate each other.
#[derive(Clone, Debug)]
pub(super) enum Security {
    /// No authentication: the control plane is on this machine.
    Clear,
    /// By mutual TLS, with our identity.
    Mutual(watch::Receiver<Arc<TlsIdentity>>),
    /// By TLS, to request a certificate: the control plane shows its identity, and we show our current certificate, if
    /// any.
    Certification {
        /// The mesh's trust domain.
        trust_domain: TrustDomain,
        /// File of the trust bundle, in PEM; read for each connection.
        trust_bundle: PathBuf,
        /// Our certificate; `None` before we have our first certificate.
        own: Option<Svid>,
    },
}

impl ControlPlane {
    /// Opens a channel to the control plane.
    ///
    /// # Errors
    /// One line with the reason and the remedy.
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
        let tls = self.security.tls()?;
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let Some((config, trust_domain)) = tls else {
            return Ok(TokioIo::new(Box::new(stream)));
        };
        let expected = SpiffeId { trust_domain, workload: self.workload };
        // TLS needs a server name. This name only shows that a Leno proxy connects: we verify the control plane's
        // SPIFFE id, and not the name.
        let name = ServerName::try_from("control.leno.internal").map_err(io::Error::other)?;
        let stream = TlsConnector::from(config).connect(name, stream).await;
        let stream = stream.map_err(|error| io::Error::other(explain_io(&error)))?;
        let found = peer_id(stream.get_ref().1.peer_certificates().unwrap_or_default()).map_err(io::Error::other)?;
        if found != expected {
            return Err(io::Error::other(format!("{found} is there, and it must be {expected}")));
        }
        Ok(TokioIo::new(Box::new(stream)))
    }
}

impl Security {
    /// The TLS configuration, and the control plane's required trust domain; `None` for an unencrypted connection.
    fn tls(&self) -> io::Result<Option<(Arc<ClientConfig>, TrustDomain)>> {
        match self {
            Self::Clear => Ok(None),
            Self::Mutual(identity) => {
                let identity = identity.borrow();
                Ok(Some((identity.client.clone(), identity.id.trust_domain.clone())))
            }
            Self::Certification { trust_domain, trust_bundle, own } => {
                let bundle = read_trust_bundle(trust_bundle).map_err(io::Error::other)?;
                let config = match own {
                    Some(own) => TlsIdentity::new(own, &bundle).client,
                    None => Arc::new(anonymous_client(trust_domain, &bundle)),
                };
                Ok(Some((config, trust_domain.clone())))
            }
        }
    }
}

/// Returns a message with the reason why the control plane gave no answer or an error, and the remedy.
pub(super) fn explain_status(status: &Status) -> String {
    match status.source() {
        // The control plane's own answer; its message names the remedy.
        None if !status.message().is_empty() => status.message().to_owned(),
        None => format!("the control plane answered {:?} without a reason; look at its log", status.code()),
        // The status's message names only a layer of the library ("h2 protocol error"). The innermost source has the
        // reason.
        Some(source) => format!(
            "the connection to the control plane broke: {}; if this repeats, look whether its Pods restart (kubectl get pods -n leno) and at \
             the network between",
            innermost(source)
        ),
    }
}

/// Reads a trust bundle that another program keeps up to date.
///
/// # Errors
/// One line that names the file and the remedy.
pub(super) fn read_trust_bundle(path: &Path) -> Result<TrustBundle, String> {
    let failed = |why: &dyn std::fmt::Display| format!("--trust-bundle {}: {why}", path.display());
    let pem = std::fs::read(path).map_err(|error| failed(&error))?;
    TrustBundle::from_pem(&pem).map_err(|error| failed(&error))
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

#[cfg(test)]
#[path = "connect_tests.rs"]
mod tests;
