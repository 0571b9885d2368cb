//! Who certifies a workload's key: here the authority in a directory, in a cluster a service.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use leno_model::spiffe::{SpiffeId, TrustDomain, Workload};
use rustls::pki_types::CertificateDer;

use crate::authority::{SVID_LIFETIME, SignError};
use crate::bundle::TrustBundle;
use crate::directory::{self, DirectoryError};
use crate::svid::{Request, Svid, SvidError};
use crate::x509::Validity;

/// Certifies workloads of one trust domain, and says whom to trust.
pub trait Issuer {
    /// The trust domain that it certifies in.
    fn trust_domain(&self) -> &TrustDomain;

    /// Has a request certified.
    fn issue<'a>(&'a self, request: &'a Request) -> Issuing<'a>;

    /// Whom to trust as far as is known now. This is asked each second, so it must not wait for another machine.
    ///
    /// # Errors
    /// [`IssueError`] if it cannot be read now; what was said before holds on.
    fn trust(&self) -> Result<Trust, IssueError>;
}

/// A request under way.
pub type Issuing<'a> = Pin<Box<dyn Future<Output = Result<Issued, IssueError>> + 'a>>;

/// What an issuer answers to a request.
#[derive(Debug)]
pub struct Issued {
    /// The certificate chain, the end-entity's first, without the anchor.
    pub chain: Vec<CertificateDer<'static>>,
    /// Whom to trust.
    pub trust: Trust,
}

/// Whom to trust, and who certifies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trust {
    /// The anchors to check peers by.
    pub bundle: TrustBundle,
    /// What the issuer signs with; when it changes, workloads ask for new SVIDs.
    pub signer: Signer,
}

/// A text that is another one when an issuer signs with another key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Signer(pub String);

/// Why an issuer gave nothing; it says what to do.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The directory cannot be used.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The authority would not sign.
    #[error(transparent)]
    Sign(#[from] SignError),
    /// The key pair could not be made, or the answer was not what was asked for.
    #[error(transparent)]
    Svid(#[from] SvidError),
    /// The identity service gave nothing; this is what it, or the way to it, said.
    #[error("{0}")]
    Service(String),
    /// The authority was replaced by one of another trust domain.
    #[error("{} is now of the trust domain {found} and was of {ours}; restart to change the trust domain", directory.display())]
    TrustDomainChanged {
        /// Where the authority is.
        directory: PathBuf,
        /// Its trust domain now.
        found: TrustDomain,
        /// Its trust domain at the start.
        ours: TrustDomain,
    },
}

/// Makes a key pair, has it certified for a workload and checks the answer.
///
/// # Errors
/// [`IssueError`] of the issuer, or [`SvidError`] if its answer is not what was asked for.
pub async fn obtain(issuer: &dyn Issuer, workload: &Workload) -> Result<(Svid, Trust), IssueError> {
    let id = SpiffeId { trust_domain: issuer.trust_domain().clone(), workload: workload.clone() };
    let request = Request::new(id)?;
    let issued = issuer.issue(&request).await?;
    let svid = request.accept(issued.chain, &issued.trust.bundle, SystemTime::now())?;
    Ok((svid, issued.trust))
}

/// The authority in a directory, read anew each time, so that its files may be exchanged.
#[derive(Debug)]
pub struct LocalIssuer {
    directory: PathBuf,
    trust_domain: TrustDomain,
    lifetime: Duration,
}

impl LocalIssuer {
    /// Opens a directory that `leno ca init` wrote; its SVIDs live for [`SVID_LIFETIME`].
    ///
    /// # Errors
    /// [`IssueError::Directory`] that names the file and what to do.
    pub fn open(directory: &Path) -> Result<Self, IssueError> {
        let trust_domain = directory::read_authority(directory)?.trust_domain().clone();
        directory::read_bundle(directory)?;
        Ok(Self { directory: directory.to_owned(), trust_domain, lifetime: SVID_LIFETIME })
    }

    /// The same, with SVIDs that live for another time.
    #[must_use]
    pub fn with_lifetime(self, lifetime: Duration) -> Self {
        Self { lifetime, ..self }
    }

    fn sign(&self, request: &Request) -> Result<Issued, IssueError> {
        let authority = directory::read_authority(&self.directory)?;
        if *authority.trust_domain() != self.trust_domain {
            let (directory, found) = (self.directory.clone(), authority.trust_domain().clone());
            return Err(IssueError::TrustDomainChanged { directory, found, ours: self.trust_domain.clone() });
        }
        let validity = Validity::starting(SystemTime::now(), self.lifetime);
        let certificate = authority.sign(request.id(), request.csr(), validity)?;
        let bundle = directory::read_bundle(&self.directory)?;
        let signer = Signer(authority.certificate_pem().to_owned());
        Ok(Issued { chain: vec![certificate], trust: Trust { bundle, signer } })
    }
}

impl Issuer for LocalIssuer {
    fn trust_domain(&self) -> &TrustDomain {
        &self.trust_domain
    }

    fn issue<'a>(&'a self, request: &'a Request) -> Issuing<'a> {
        Box::pin(async move { self.sign(request) })
    }

    fn trust(&self) -> Result<Trust, IssueError> {
        let signer = Signer(directory::read_certificate(&self.directory)?);
        Ok(Trust { bundle: directory::read_bundle(&self.directory)?, signer })
    }
}

#[cfg(test)]
#[path = "issuer_tests.rs"]
mod tests;
