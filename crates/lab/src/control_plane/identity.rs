//! The certificate of the simulated proxies, which the identity service issues for a token of their ServiceAccount.

use std::sync::Arc;
use std::time::SystemTime;

use leno_identity::TlsIdentity;
use leno_identity::bundle::TrustBundle;
use leno_identity::svid::Request;
use leno_identity::tls::anonymous_client;
use leno_model::spiffe::{SpiffeId, Workload};
use leno_xds::identity::v1::{CertifyRequest, CertifyResponse};
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;

use super::control::trust_domain;
use super::grpc::{Server, call};
use super::plan::NAMESPACE;
use crate::error::{Error, Result};

/// The ServiceAccount of all proxies.
pub(super) const SERVICE_ACCOUNT: &str = "proxy";

const CERTIFY: &str = "/leno.identity.v1.Identity/Certify";

/// The credentials of a Pod: the proof of its identity, and its trust anchors.
#[derive(Debug, Clone)]
pub(super) struct Credentials {
    /// Token of the ServiceAccount, for the identity service.
    pub(super) token: String,
    /// The trust bundle, in PEM.
    pub(super) trust_bundle: String,
}

/// The identity of the proxies.
pub(super) fn workload() -> Workload {
    Workload { namespace: NAMESPACE.into(), service_account: SERVICE_ACCOUNT.into() }
}

/// Obtains a certificate for a new key, as leno-proxy does at its start.
///
/// # Errors
/// The identity service's error, or the reason why its answer is invalid.
pub(super) async fn certify(service: &Server, credentials: &Credentials) -> Result<Arc<ClientConfig>> {
    let certified = async {
        let bundle = TrustBundle::from_pem(credentials.trust_bundle.as_bytes()).map_err(|error| error.to_string())?;
        let id = SpiffeId { trust_domain: trust_domain(), workload: workload() };
        let request = Request::new(id).map_err(|error| error.to_string())?;
        let question = CertifyRequest { csr: request.csr().to_vec(), token: credentials.token.clone() };
        let tls = Arc::new(anonymous_client(&trust_domain(), &bundle));
        let answer: CertifyResponse = call(service, tls, CERTIFY, &question).await?;
        let chain = answer.chain.into_iter().map(CertificateDer::from).collect();
        let svid = request.accept(chain, &bundle, SystemTime::now()).map_err(|error| error.to_string())?;
        Ok(TlsIdentity::new(&svid, &bundle).client)
    };
    certified
        .await
        .map_err(|why: String| Error::Cluster { what: "no certificate for the simulated proxies".to_owned(), why })
}
