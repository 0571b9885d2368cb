//! Who a peer is, by the certificates that it proved to hold.
//!
//! A workload's certificate has exactly one URI, its SPIFFE id (X509-SVID section 2).

use std::fmt;
use std::time::SystemTime;

use leno_model::spiffe::{BadName, SpiffeId, TrustDomain};
use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

use crate::x509::validity;

/// How many URIs of a certificate an error shows.
const SHOWN_MAX_URIS: usize = 4;

/// Why a peer's certificates name no workload; it says what was found and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeerIdError {
    /// It sent none.
    #[error("the peer sent no certificate; run it behind a proxy of this mesh")]
    NoCertificate,
    /// The first one is no X.509 certificate.
    #[error("the peer's certificate is not a valid X.509 certificate ({0}); have the mesh's authority issue it")]
    Malformed(webpki::Error),
    /// It has no URI.
    #[error("the peer's certificate has no SPIFFE id; have the mesh's authority issue it")]
    NoUri,
    /// It has several URIs.
    #[error("the peer's certificate has several URIs, {0}; issue it with exactly one SPIFFE id")]
    SeveralUris(Uris),
    /// Its URI does not name a workload.
    #[error("the peer's certificate: {0}")]
    NotAWorkload(#[from] BadName),
    /// It is of another trust domain.
    #[error("the peer is {id}, of another trust domain than ours, {ours}; issue its certificate in {ours}")]
    WrongTrustDomain {
        /// Who the peer is.
        id: SpiffeId,
        /// The trust domain that it should be of.
        ours: TrustDomain,
    },
}

/// The first few URIs of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uris(Vec<String>);

impl fmt::Display for Uris {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// The workload that a peer's certificates name, the end-entity's first, as rustls gives them after a handshake.
///
/// This reads only: that the certificates are to be trusted is what the handshake has checked.
///
/// # Errors
/// [`PeerIdError`] unless the first certificate has exactly one URI and it is a workload's SPIFFE id.
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

/// When the first of a peer's certificates that are valid at `now` expires, its own or one that vouches for it: from then on
/// the same certificates pass no handshake. `None` if no date can be read.
pub fn peer_expiry(certificates: &[CertificateDer<'_>], now: SystemTime) -> Option<SystemTime> {
    certificates.iter().filter_map(validity).map(|validity| validity.not_after).filter(|end| *end >= now).min()
}

/// As [`peer_id`], of one trust domain only.
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

/// As much of a peer's URI as a log line should have.
fn shown(uri: &str) -> String {
    const SHOWN_MAX_CHARS: usize = 100;
    uri.chars().take(SHOWN_MAX_CHARS).collect()
}

#[cfg(test)]
#[path = "peer_tests.rs"]
mod tests;
