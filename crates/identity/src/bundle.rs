//! The trust bundle: the anchors of a trust domain.
//!
//! During a rotation, a bundle has several anchors. Peers trust an anchor as long as the bundle contains it, even after
//! the anchor's expiry date: the verification of a chain ignores the anchor's own dates (RFC 5280 section 6.1.1).

use std::sync::Arc;
use std::time::SystemTime;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};

use crate::pem::{CERTIFICATE, block};
use crate::x509;

/// Limit on the number of anchors in a bundle; a rotation needs two.
pub const ANCHORS_MAX: usize = 32;

/// One or more anchors of one trust domain.
#[derive(Debug, Clone)]
pub struct TrustBundle {
    anchors: Vec<CertificateDer<'static>>,
    roots: Arc<RootCertStore>,
}

/// The reason why a text or list is not a trust bundle. The error's message names the remedy.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    #[error("it is not PEM ({0}); write certificates as -----BEGIN CERTIFICATE----- blocks")]
    Pem(pem::Error),
    #[error("it has no certificate; write at least one trust anchor")]
    Empty,
    #[error("it has more than {ANCHORS_MAX} certificates; keep only the anchors that are in use")]
    TooMany,
    #[error("its certificate {position} is malformed; remove it or write it again")]
    Malformed {
        /// The certificate's position, from 1.
        position: usize,
    },
    /// The certificate belongs to a workload. As an anchor it would allow that workload to issue certificates.
    #[error("its certificate {position} is not of a certificate authority; remove it")]
    NotAnAuthority {
        /// The certificate's position, from 1.
        position: usize,
    },
}

impl TrustBundle {
    /// Reads PEM text. Skips blocks that are not certificates.
    ///
    /// # Errors
    /// [`BundleError`] in the same cases as [`TrustBundle::new`], and if the text is not PEM.
    pub fn from_pem(text: &[u8]) -> Result<Self, BundleError> {
        let anchors: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).take(ANCHORS_MAX + 1).collect();
        Self::new(anchors.map_err(BundleError::Pem)?)
    }

    /// Checks the anchors and creates a bundle of them.
    ///
    /// # Errors
    /// [`BundleError`] if there is no anchor, or more than [`ANCHORS_MAX`], or if an anchor is not the certificate of
    /// an authority.
    pub fn new(anchors: Vec<CertificateDer<'static>>) -> Result<Self, BundleError> {
        match anchors.len() {
            0 => return Err(BundleError::Empty),
            1..=ANCHORS_MAX => {}
            _ => return Err(BundleError::TooMany),
        }
        let mut roots = RootCertStore::empty();
        for (position, anchor) in (1..).zip(&anchors) {
            match x509::is_authority(anchor) {
                Some(true) => {}
                Some(false) => return Err(BundleError::NotAnAuthority { position }),
                None => return Err(BundleError::Malformed { position }),
            }
            roots.add(anchor.clone()).map_err(|_| BundleError::Malformed { position })?;
        }
        Ok(Self { anchors, roots: Arc::new(roots) })
    }

    pub fn anchors(&self) -> &[CertificateDer<'static>] {
        &self.anchors
    }

    /// Returns the time at which the last anchor expires. An authority issues no certificate that outlives its anchor,
    /// so no certificate is valid after this time. `None` if no anchor has readable dates from 1970 on.
    pub fn not_after(&self) -> Option<SystemTime> {
        self.anchors.iter().filter_map(x509::validity).map(|validity| validity.not_after).max()
    }

    /// Returns the anchors as PEM text.
    pub fn to_pem(&self) -> String {
        self.anchors.iter().map(|anchor| block(CERTIFICATE, anchor)).collect()
    }

    /// Returns the anchors in the form that rustls needs to verify a chain.
    pub(crate) fn roots(&self) -> &Arc<RootCertStore> {
        &self.roots
    }
}

impl PartialEq for TrustBundle {
    fn eq(&self, other: &Self) -> bool {
        self.anchors == other.anchors
    }
}

impl Eq for TrustBundle {}

#[cfg(test)]
#[path = "bundle_tests.rs"]
mod tests;
