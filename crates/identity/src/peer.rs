//! Reads the SPIFFE id of a peer from the certificates of its handshake.
//!
//! A workload's certificate has exactly one URI, its SPIFFE id (X509-SVID section 2).

use std::fmt;
use std::time::SystemTime;

use leno_model::spiffe::{BadName, SpiffeId, TrustDomain};
use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

use crate::x509::validity;

/// Limit on the number of URIs that an error message lists.
const SHOWN_MAX_URIS: usize = 4;

/// The reason why a peer's certificates name no workload. The error's message names the content that was found, and the
/// remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeerIdError {
    #[error("the peer sent no certificate; run it behind a proxy of this mesh")]
    NoCertificate,
    /// The peer's first certificate is not a valid X.509 certificate.
    #[error("the peer's certificate is not a valid X.509 certificate ({0}); have the mesh's authority issue it")]
    Malformed(webpki::Error),
    #[error("the peer's certificate has no SPIFFE id; have the mesh's authority issue it")]
    NoUri,
    #[error("the peer's certificate has several URIs, {0}; issue it with exactly one SPIFFE id")]
    SeveralUris(Uris),
    /// The certificate's URI is not the SPIFFE id of a workload.
    #[error("the peer's certificate: {0}")]
    NotAWorkload(#[from] BadName),
    /// The peer belongs to another trust domain.
    #[error("the peer is {id}, of another trust domain than ours, {ours}; issue its certificate in {ours}")]
    WrongTrustDomain {
        /// The peer's SPIFFE id.
        id: SpiffeId,
        /// The expected trust domain.
        ours: TrustDomain,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uris(Vec<String>);

impl fmt::Display for Uris {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// Returns the workload's SPIFFE id in a peer's certificates. The end-entity's certificate must be first; rustls
/// returns the certificates in this order after a handshake.
///
/// This function only reads the certificates; the handshake has verified them.
///
/// # Errors
/// [`PeerIdError`] unless the first certificate has exactly one URI, and this URI is a workload's SPIFFE id.
pub fn peer_id(certificates: &[CertificateDer<'_>]) -> Result<SpiffeId, PeerIdError> {
    let certificate = certificates.first().ok_or(PeerIdError::NoCertificate)?;
    let certificate = EndEntityCert::try_from(certificate).map_err(PeerIdError::Malformed)?;
    let mut uris = certificate.valid_uri_names();
    match (uris.next(), uris.next()) {
        (None, _) => Err(PeerIdError::NoUri),
        (Some(uri), None) => Ok(uri.parse()?),
        (Some(first), Some(second)) => {
            let all = [first, second].into_iter().chain(uris);
            Err(PeerIdError::SeveralUris(Uris(all.take(SHOWN_MAX_URIS).map(shown).collect())))
        }
    }
}

/// Returns the time from which a new handshake with this chain would fail: the earliest expiry date in the chain.
/// Issuer certificates that expired before `now` do not count, because a peer may send some that it does not need. The
/// peer's own certificate always counts, even if it expired between its verification and the end of the handshake.
/// `None` if the peer's own certificate cannot be read.
pub fn peer_expiry(certificates: &[CertificateDer<'_>], now: SystemTime) -> Option<SystemTime> {
    let (own, issuers) = certificates.split_first()?;
    let own = validity(own)?.not_after;
    let issuers = issuers.iter().filter_map(validity).map(|validity| validity.not_after).filter(|end| *end >= now);
    issuers.chain([own]).min()
}

/// Like [`peer_id`], but accepts one trust domain only.
pub(crate) fn peer_id_in(
    trust_domain: &TrustDomain,
    certificate: &CertificateDer<'_>,
) -> Result<SpiffeId, PeerIdError> {
    let id = peer_id(std::slice::from_ref(certificate))?;
    if id.trust_domain == *trust_domain {
        Ok(id)
    } else {
        Err(PeerIdError::WrongTrustDomain { id, ours: trust_domain.clone() })
    }
}

/// Shortens a peer's URI for a log line.
fn shown(uri: &str) -> String {
    const SHOWN_MAX_CHARS: usize = 100;
    uri.chars().take(SHOWN_MAX_CHARS).collect()
}

#[cfg(test)]
#[path = "peer_tests.rs"]
mod tests;
