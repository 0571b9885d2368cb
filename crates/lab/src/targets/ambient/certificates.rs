//! The certificate service for ztunnels: a thread of the lab that replaces istiod in signing the certificates of
//! workloads.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use rustls::pki_types::CertificateSigningRequestDer;
use rustls::pki_types::pem::PemObject;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use tonic::{Request, Response, Status};

use super::super::service_thread::ServiceThread;
use crate::child::free_address;
use crate::error::{Result, io};
use crate::tls::{Authority, one_sided_server};

/// The protobuf messages and the server of `istio.v1.auth.IstioCertificateService`.
#[allow(missing_docs, unreachable_pub, clippy::all)]
mod proto {
    tonic::include_proto!("istio.v1.auth");
}

use proto::istio_certificate_service_server::{IstioCertificateService, IstioCertificateServiceServer};
use proto::{IstioCertificateRequest, IstioCertificateResponse};

/// The pause after an error in accepting a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
const WHAT: &str = "starting the certificate service for ztunnel";

/// A running certificate service. Dropping it ends its thread.
pub(super) struct CertificateService {
    port: u16,
    _thread: ServiceThread,
}

impl CertificateService {
    /// Starts the service on all addresses of the experiment's namespace. Its own certificate is valid for `addresses`.
    /// `tokens` maps each token to a SPIFFE id. A client with a token gets only certificates for the SPIFFE id of this
    /// token.
    ///
    /// # Errors
    /// If no port is free, or if the thread does not start.
    pub(super) fn start(authority: Authority, addresses: &[IpAddr], tokens: HashMap<String, String>) -> Result<Self> {
        let own = authority.issue_for_addresses("certificate-service", addresses)?;
        let acceptor = TlsAcceptor::from(one_sided_server(&own, b"h2")?);
        // Listen on all addresses, because the links to the nodes, whose addresses the ztunnels call, do not exist yet.
        let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, free_address()?.port()));
        let listener = TcpListener::bind(address).map_err(io(WHAT))?;
        let service = Arc::new(Service { authority, tokens });
        let serve = move |listener| serve(listener, acceptor, service);
        Ok(Self { port: address.port(), _thread: ServiceThread::start("certificates", WHAT, listener, serve)? })
    }

    /// The port of the service.
    pub(super) fn port(&self) -> u16 {
        self.port
    }
}

/// Serves until the future is dropped. Ignores a connection that fails: its client, a ztunnel, logs the failure.
async fn serve(listener: tokio::net::TcpListener, acceptor: TlsAcceptor, service: Arc<Service>) {
    let service = IstioCertificateServiceServer::from_arc(service);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // The process may have too many open files, for example. A later attempt may succeed.
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (acceptor, service) = (acceptor.clone(), TowerToHyperService::new(service.clone()));
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let http2 = http2::Builder::new(TokioExecutor::new());
            let _ = http2.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

struct Service {
    authority: Authority,
    /// The SPIFFE id of each token.
    tokens: HashMap<String, String>,
}

#[tonic::async_trait]
impl IstioCertificateService for Service {
    async fn create_certificate(
        &self,
        request: Request<IstioCertificateRequest>,
    ) -> std::result::Result<Response<IstioCertificateResponse>, Status> {
        let credentials = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
        let token = credentials.and_then(|credentials| credentials.strip_prefix("Bearer "));
        let Some(id) = token.and_then(|token| self.tokens.get(token)) else {
            return Err(Status::unauthenticated("the request has no token of this run"));
        };
        let invalid = |why: String| Status::invalid_argument(why);
        let csr = CertificateSigningRequestDer::from_pem_slice(request.get_ref().csr.as_bytes());
        let csr = csr.map_err(|error| invalid(format!("the request has no PEM: {error}")))?;
        let signed = self.authority.sign_only(&csr, id).map_err(|error| invalid(error.to_string()))?;
        let cert_chain = vec![signed.pem, self.authority.certificate().map_err(|error| invalid(error.to_string()))?];
        Ok(Response::new(IstioCertificateResponse { cert_chain }))
    }
}

#[cfg(test)]
#[path = "certificates_tests.rs"]
mod tests;
