//! The authority with which a replica currently signs, and the control plane's own certificate from this authority.

use std::fmt::Write;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use leno_identity::Validity;
use leno_identity::authority::{Authority, SVID_LIFETIME, SignError};
use leno_identity::bundle::TrustBundle;
use leno_identity::issuer::{IssueError, Issued, Issuer, Issuing, Signer, Trust};
use leno_identity::svid::Request;
use leno_model::spiffe::{SpiffeId, TrustDomain};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, DnsName};
use tokio::sync::watch;

/// The issuing authority, and the trust bundle.
#[derive(Debug)]
pub(crate) struct Signing {
    authority: Arc<Authority>,
    trust: Trust,
    /// The authority's own certificates without the anchors. Every issued chain ends with these certificates.
    intermediates: Vec<CertificateDer<'static>>,
    /// The trust bundle as PEM, for every workload of the cluster. Encoded from the anchors alone, since the text in
    /// the Secret may also contain a private key.
    pub(crate) anchors_pem: String,
}

impl Signing {
    pub(crate) fn new(authority: Arc<Authority>, bundle: TrustBundle) -> Self {
        let intermediates = authority.intermediates(&bundle);
        let signer = Signer::of(authority.certificates());
        let anchors_pem = bundle.to_pem();
        Self { authority, trust: Trust { bundle, signer }, intermediates, anchors_pem }
    }

    pub(crate) fn trust(&self) -> &Trust {
        &self.trust
    }

    /// The trust domain of the certificates that this authority signs.
    pub(crate) fn trust_domain(&self) -> &TrustDomain {
        self.authority.trust_domain()
    }

    /// Writes two metrics: the time at which the authority expires, and the deadline for its renewal.
    pub(crate) fn write_metrics(&self, text: &mut String) {
        let validity = self.authority.validity();
        let deadline = validity.not_after - validity.least_left();
        for (what, help, time) in [
            ("expiration", "When the issuing authority expires", validity.not_after),
            ("renewal_deadline", "When the issuing authority must have been renewed", deadline),
        ] {
            let name = format!("leno_control_issuer_{what}_timestamp_seconds");
            let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            let _ = writeln!(text, "# HELP {name} {help}.\n# TYPE {name} gauge\n{name} {seconds}");
        }
    }

    /// Issues a certificate to `id` for the key in a request. Returns the chain, the workload's certificate first.
    ///
    /// # Errors
    /// [`SignError`] if the request cannot be certified.
    pub(crate) fn certify(&self, id: &SpiffeId, csr: &[u8]) -> Result<Vec<CertificateDer<'static>>, SignError> {
        self.certify_at(SystemTime::now(), id, csr, &[])
    }

    pub(super) fn certify_at(
        &self,
        now: SystemTime,
        id: &SpiffeId,
        csr: &[u8],
        dns_names: &[DnsName<'_>],
    ) -> Result<Vec<CertificateDer<'static>>, SignError> {
        let validity = Validity::starting(now, SVID_LIFETIME);
        let certificate = self.authority.sign_with_names(id, csr, dns_names, validity, now)?;
        Ok([vec![certificate], self.intermediates.clone()].concat())
    }

    /// Makes a key pair, and issues a server certificate with these DNS names for it. Also returns the time at which
    /// the certificate expires.
    ///
    /// # Errors
    /// [`SignError`] if the authority has expired.
    pub(crate) fn certify_server(&self, names: &[DnsName<'_>]) -> Result<(ServerConfig, SystemTime), SignError> {
        let now = SystemTime::now();
        let certificate = self.authority.certify_server(names, Validity::starting(now, SVID_LIFETIME), now)?;
        let not_after = certificate.not_after;
        Ok((certificate.into_config(&self.intermediates), not_after))
    }
}

/// Issues the control plane's own certificate, with the DNS names of its Service: gRPC clients compare these names with
/// the name that they dialled. The key never leaves this process.
#[derive(Debug)]
pub(crate) struct ClusterIssuer {
    trust_domain: TrustDomain,
    dns_names: Vec<DnsName<'static>>,
    signing: watch::Receiver<Arc<Signing>>,
}

impl ClusterIssuer {
    pub(crate) fn new(signing: watch::Receiver<Arc<Signing>>, dns_names: Vec<DnsName<'static>>) -> Self {
        let trust_domain = signing.borrow().trust_domain().clone();
        Self { trust_domain, dns_names, signing }
    }
}

impl Issuer for ClusterIssuer {
    fn trust_domain(&self) -> &TrustDomain {
        &self.trust_domain
    }

    fn issue<'a>(&'a self, request: &'a Request) -> Issuing<'a> {
        let signing = self.signing.borrow().clone();
        Box::pin(async move {
            let chain = signing.certify_at(SystemTime::now(), request.id(), request.csr(), &self.dns_names)?;
            Ok(Issued { chain, trust: signing.trust.clone() })
        })
    }

    fn trust(&self) -> Result<Trust, IssueError> {
        Ok(self.signing.borrow().trust.clone())
    }
}
