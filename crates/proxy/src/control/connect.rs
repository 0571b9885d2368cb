//! Connections to the control plane: in clear on this machine, else by TLS with somebody whose identity is checked.

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

/// How long a connection and its handshake may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How often the control plane is asked for a sign of life, and how long it may take.
const KEEPALIVE: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// A service of the control plane: where it is, and who it must be.
#[derive(Clone, Debug)]
pub(super) struct ControlPlane {
    /// A name or an address, and a port.
    pub(super) address: String,
    /// Who must be there; not asked in clear.
    pub(super) workload: Workload,
    /// How both sides know each other.
    pub(super) security: Security,
}

/// How we and the control plane know each other.
#[derive(Clone, Debug)]
pub(super) enum Security {
    /// Not at all: it is on this machine.
    Clear,
    /// By mutual TLS, as who we are.
    Mutual(watch::Receiver<Arc<TlsIdentity>>),
    /// By TLS, for a new certificate: the control plane shows who it is, and we show the certificate that we have.
    Certification {
        /// The mesh's.
        trust_domain: TrustDomain,
        /// The file of the trust bundle, in PEM; read for each connection.
        trust_bundle: PathBuf,
        /// Our certificate; `None` before the first one.
        own: Option<Svid>,
    },
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
        let tls = self.security.tls()?;
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let Some((config, trust_domain)) = tls else {
            return Ok(TokioIo::new(Box::new(stream)));
        };
        let expected = SpiffeId { trust_domain, workload: self.workload };
        // What is checked is the SPIFFE id; the name only says that a Leno proxy is calling.
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
    /// The TLS to connect with, and the trust domain that the control plane must be of; nothing in clear.
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

/// Why the control plane gave no answer, and what to look at.
pub(super) fn explain_status(status: &Status) -> String {
    match status.source() {
        // The control plane's own answer, whose message says what to do.
        None if !status.message().is_empty() => status.message().to_owned(),
        None => format!("the control plane answered {:?} without a reason; look at its log", status.code()),
        // The message names a layer of the library ("h2 protocol error"), the innermost source what happened.
        Some(source) => format!(
            "the connection to the control plane broke: {}; if this repeats, look whether its Pods restart (kubectl get pods -n leno) and at \
             the network between",
            innermost(source)
        ),
    }
}

/// Reads a trust bundle that somebody else keeps up to date.
///
/// # Errors
/// A line that names the file and what to do.
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
