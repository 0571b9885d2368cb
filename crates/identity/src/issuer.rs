//! The interface to the issuer of a workload's certificate: an authority in a local directory, or a service in a
//! cluster.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest::{Context, SHA256};
use leno_model::spiffe::{SpiffeId, TrustDomain, Workload};
use rustls::pki_types::{CertificateDer, DnsName};

use crate::authority::{SVID_LIFETIME, SignError};
use crate::bundle::TrustBundle;
use crate::directory::{self, DirectoryError};
use crate::svid::{Request, Svid, SvidError};
use crate::x509::Validity;

/// Issues certificates to workloads of one trust domain, and provides the trust bundle.
pub trait Issuer {
    /// The trust domain of the certificates.
    fn trust_domain(&self) -> &TrustDomain;

    /// Sends a request to the issuer.
    fn issue<'a>(&'a self, request: &'a Request) -> Issuing<'a>;

    /// Returns the trust bundle and the signer that are known now. Called every second, so it must not wait for another
    /// machine.
    ///
    /// # Errors
    /// [`IssueError`] if the bundle or the signer cannot be read now; the caller keeps the previous values.
    fn trust(&self) -> Result<Trust, IssueError>;
}

pub type Issuing<'a> = Pin<Box<dyn Future<Output = Result<Issued, IssueError>> + 'a>>;

/// An issuer's answer to a request.
#[derive(Debug)]
pub struct Issued {
    /// The certificate chain, the end-entity's certificate first, without the anchor.
    pub chain: Vec<CertificateDer<'static>>,
    pub trust: Trust,
}

/// The trust bundle, and the issuer's signing key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trust {
    /// The anchors against which peers' certificates are verified.
    pub bundle: TrustBundle,
    /// Identifies the issuer's signing key. When it changes, workloads request new SVIDs.
    pub signer: Signer,
}

/// A text that changes whenever the issuer's signing key changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Signer(pub String);

impl Signer {
    /// Returns the digest of the issuer's certificates. The digest is public: it cannot reveal a private key that the
    /// issuer's files may contain.
    pub fn of(chain: &[CertificateDer<'_>]) -> Self {
        let mut context = Context::new(&SHA256);
        chain.iter().for_each(|certificate| context.update(certificate));
        Self(context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// The reason why no certificate was issued. The error's message names the remedy.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The directory cannot be used.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The authority rejected the request.
    #[error(transparent)]
    Sign(#[from] SignError),
    /// The key pair could not be made, or the answer does not match the request.
    #[error(transparent)]
    Svid(#[from] SvidError),
    /// The identity service failed or could not be reached; the text is its message.
    #[error("{0}")]
    Service(String),
    /// The directory now has an authority of another trust domain.
    #[error("{} is now of the trust domain {found} and was of {ours}; restart to change the trust domain", directory.display())]
    TrustDomainChanged {
        directory: PathBuf,
        /// The trust domain of the directory's authority now.
        found: TrustDomain,
        /// The trust domain of the directory's authority at the start.
        ours: TrustDomain,
    },
}

/// Makes a key pair, requests a certificate for a workload and checks the answer.
///
/// # Errors
/// [`IssueError`] of the issuer, or [`SvidError`] if its answer does not match the request.
pub async fn obtain(issuer: &dyn Issuer, workload: &Workload) -> Result<(Svid, Trust), IssueError> {
    let id = SpiffeId { trust_domain: issuer.trust_domain().clone(), workload: workload.clone() };
    let request = Request::new(id)?;
    let issued = issuer.issue(&request).await?;
    let svid = request.accept(issued.chain, &issued.trust.bundle, SystemTime::now())?;
    Ok((svid, issued.trust))
}

/// An issuer that uses the authority in a directory. It reads the files for every request, so that the files can be
/// replaced while the program runs.
#[derive(Debug)]
pub struct LocalIssuer {
    directory: PathBuf,
    trust_domain: TrustDomain,
    lifetime: Duration,
    dns_names: Vec<DnsName<'static>>,
}

impl LocalIssuer {
    /// Opens a directory that `leno ca init` wrote. The issuer's SVIDs are valid for [`SVID_LIFETIME`].
    ///
    /// # Errors
    /// [`IssueError::Directory`], which names the file and the remedy.
    pub fn open(directory: &Path) -> Result<Self, IssueError> {
        let trust_domain = directory::read_authority(directory)?.trust_domain().clone();
        directory::read_bundle(directory)?;
        Ok(Self { directory: directory.to_owned(), trust_domain, lifetime: SVID_LIFETIME, dns_names: Vec::new() })
    }

    /// Sets the lifetime of the issued SVIDs.
    #[must_use]
    pub fn with_lifetime(self, lifetime: Duration) -> Self {
        Self { lifetime, ..self }
    }

    /// Adds DNS names to the issued SVIDs, for clients that check the server's name: see
    /// [`crate::authority::Authority::sign_with_names`].
    #[must_use]
    pub fn with_dns_names(self, dns_names: Vec<DnsName<'static>>) -> Self {
        Self { dns_names, ..self }
    }

    fn sign(&self, request: &Request) -> Result<Issued, IssueError> {
        let authority = directory::read_authority(&self.directory)?;
        if *authority.trust_domain() != self.trust_domain {
            let (directory, found) = (self.directory.clone(), authority.trust_domain().clone());
            return Err(IssueError::TrustDomainChanged { directory, found, ours: self.trust_domain.clone() });
        }
        let now = SystemTime::now();
        let validity = Validity::starting(now, self.lifetime);
        let certificate = authority.sign_with_names(request.id(), request.csr(), &self.dns_names, validity, now)?;
        let bundle = directory::read_bundle(&self.directory)?;
        let signer = Signer::of(authority.certificates());
        let chain = [vec![certificate], authority.intermediates(&bundle)].concat();
        Ok(Issued { chain, trust: Trust { bundle, signer } })
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
        let bundle = directory::read_bundle(&self.directory)?;
        Ok(Trust { bundle, signer: Signer::of(&directory::read_chain(&self.directory)?) })
    }
}

#[cfg(test)]
#[path = "issuer_tests.rs"]
mod tests;
