//! Our identity in a cluster: the control plane's identity service issues our certificate. We authenticate with our
//! Pod's token.
//!
//! The service decides by the token alone. We also show our current certificate, because the service reserves some of
//! its connections for clients with a certificate. So clients without a certificate cannot prevent our renewal. If a
//! request with our certificate gets no answer, we repeat it without the certificate: the certificate may have expired,
//! or its anchor may have been removed.
//!
//! The trust bundle's file alone decides which anchors we trust. The cluster mounts the file into the Pod and keeps it
//! up to date, so no server that answers us can add an anchor.

use std::cell::{OnceCell, RefCell};
use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use leno_identity::TlsIdentity;
use leno_identity::issuer::{IssueError, Issued, Issuer, Issuing, Signer, Trust};
use leno_identity::svid::{Request, Svid};
use leno_identity::upkeep::Upkeep;
use leno_model::spiffe::{TrustDomain, Workload};
use leno_xds::identity::RESPONSE_MAX_BYTES;
use leno_xds::identity::v1::identity_client::IdentityClient;
use leno_xds::identity::v1::{CertifyRequest, CertifyResponse};
use rustls::pki_types::CertificateDer;
use tokio::sync::watch;
use tokio::time::sleep;

use super::connect::{ControlPlane, Security, explain_status, read_trust_bundle};
use super::retry::Retry;

/// Shortest and longest pause after a failed request for the first certificate.
const RETRY_MIN: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(10);

/// The identity service, its required identity, and our credentials for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IdentityService {
    /// A name or an address, and a port.
    pub(crate) address: String,
    /// The identity that the service must prove.
    pub(crate) workload: Workload,
    /// The mesh's trust domain.
    pub(crate) trust_domain: TrustDomain,
    /// The file of the trust bundle, in PEM.
    pub(crate) trust_bundle: PathBuf,
    /// The file of the token. The cluster replaces the token about every hour.
    pub(crate) token: PathBuf,
}

/// Obtains the first certificate of `workload`. Retries for as long as needed, because a Pod may start before the
/// control plane.
pub(super) async fn start(service: &IdentityService, workload: &Workload) -> Upkeep {
    let mut retry = Retry::new(RETRY_MIN, RETRY_MAX);
    loop {
        let own = Rc::new(OnceCell::new());
        let issuer = ServiceIssuer { service: service.clone(), own: own.clone(), signer: RefCell::default() };
        match Upkeep::start(Box::new(issuer), workload.clone(), fastrand::u64(..)).await {
            Ok(upkeep) => {
                own.get_or_init(|| upkeep.identity());
                return upkeep;
            }
            Err(error) => {
                let pause = retry.pause();
                let (address, retry_s) = (&service.address, pause.as_secs_f64());
                tracing::warn!(%address, retry_s, "no certificate yet: {error}");
                sleep(pause).await;
            }
        }
    }
}

/// Issues certificates by requests to the identity service.
struct ServiceIssuer {
    service: IdentityService,
    /// Our identity; empty until the first certificate is issued.
    own: Rc<OnceCell<watch::Receiver<Arc<TlsIdentity>>>>,
    /// The signer that the service named in its last response.
    signer: RefCell<Option<Signer>>,
}

impl ServiceIssuer {
    async fn certify(&self, request: &Request) -> Result<Issued, String> {
        let service = &self.service;
        let asked = CertifyRequest { csr: request.csr().to_vec(), token: read_token(&service.token)? };
        let own = self.own.get().map(|own| own.borrow().svid().clone());
        let mut answer = self.ask(&asked, own.clone()).await;
        if own.is_some()
            && let Err(Failure::NoAnswer(why)) = &answer
        {
            tracing::info!(why, "the identity service gave no answer to our certificate; asking without it");
            answer = self.ask(&asked, None).await;
        }
        let CertifyResponse { chain, trust } = answer.map_err(Failure::text)?;
        let signer = Signer(trust.unwrap_or_default().signer);
        self.signer.replace(Some(signer.clone()));
        let trust = Trust { bundle: read_trust_bundle(&service.trust_bundle)?, signer };
        Ok(Issued { chain: chain.into_iter().map(CertificateDer::from).collect(), trust })
    }

    /// Sends one request on a new connection, on which we show the certificate `own`.
    async fn ask(&self, asked: &CertifyRequest, own: Option<Svid>) -> Result<CertifyResponse, Failure> {
        let service = &self.service;
        let control_plane = ControlPlane {
            address: service.address.clone(),
            workload: service.workload.clone(),
            security: Security::Certification {
                trust_domain: service.trust_domain.clone(),
                trust_bundle: service.trust_bundle.clone(),
                own,
            },
        };
        let connection = control_plane.connect().await.map_err(Failure::NoAnswer)?;
        let mut client = IdentityClient::new(connection).max_decoding_message_size(RESPONSE_MAX_BYTES);
        let answered = client.certify(asked.clone()).await.map_err(|status| match status.source() {
            Some(_) => Failure::NoAnswer(explain_status(&status)),
            None => Failure::Refused(explain_status(&status)),
        })?;
        Ok(answered.into_inner())
    }
}

/// Why the identity service issued no certificate.
enum Failure {
    /// The connection could not be opened, or it broke. It also breaks if the service rejects our certificate, because
    /// the service verifies our certificate only after the TLS handshake has ended on our side.
    NoAnswer(String),
    /// The service refused the request, for this reason.
    Refused(String),
}

impl Failure {
    fn text(self) -> String {
        match self {
            Self::NoAnswer(why) | Self::Refused(why) => why,
        }
    }
}

impl Issuer for ServiceIssuer {
    fn trust_domain(&self) -> &TrustDomain {
        &self.service.trust_domain
    }

    fn issue<'a>(&'a self, request: &'a Request) -> Issuing<'a> {
        Box::pin(async move { self.certify(request).await.map_err(IssueError::Service) })
    }

    fn trust(&self) -> Result<Trust, IssueError> {
        let bundle = read_trust_bundle(&self.service.trust_bundle).map_err(IssueError::Service)?;
        Ok(Trust { bundle, signer: self.signer.borrow().clone().unwrap_or_default() })
    }
}

fn read_token(path: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("--token {}: {error}", path.display()))?;
    match text.trim() {
        "" => Err(format!("--token {}: it is empty; mount a token of the Pod's ServiceAccount", path.display())),
        token => Ok(token.to_owned()),
    }
}

#[cfg(test)]
#[path = "certify_tests.rs"]
mod tests;
