//! The trust bundle: the anchors that vouch for the workloads of a trust domain.
//!
//! While anchors are rotated it has several. An anchor is trusted for as long as it is in the bundle: chain building
//! does not look at an anchor's own dates (RFC 5280 section 6.1.1).

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};

use crate::x509;

/// How many anchors a bundle may have; rotation needs two.
pub const ANCHORS_MAX: usize = 32;

/// Anchors of one trust domain, at least one.
#[derive(Debug, Clone)]
pub struct TrustBundle {
    anchors: Vec<CertificateDer<'static>>,
    roots: Arc<RootCertStore>,
}

/// Why something is no trust bundle; it says what to do.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The text is not PEM.
    #[error("it is not PEM ({0}); write certificates as -----BEGIN CERTIFICATE----- blocks")]
    Pem(pem::Error),
    /// There is no certificate.
    #[error("it has no certificate; write at least one trust anchor")]
    Empty,
    /// There are too many.
    #[error("it has more than {ANCHORS_MAX} certificates; keep only the anchors that are in use")]
    TooMany,
    /// One cannot be parsed.
    #[error("its certificate {position} is malformed; remove it or write it again")]
    Malformed {
        /// Which one, from 1.
        position: usize,
    },
    /// One is a workload's, and trusting it would let that workload name others.
    #[error("its certificate {position} is not of a certificate authority; remove it")]
    NotAnAuthority {
        /// Which one, from 1.
        position: usize,
    },
}

impl TrustBundle {
    /// Reads PEM text; what is not a certificate is passed over.
    ///
    /// # Errors
    /// [`BundleError`] as [`TrustBundle::new`], or if the text is no PEM.
    pub fn from_pem(text: &[u8]) -> Result<Self, BundleError> {
        let anchors: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).take(ANCHORS_MAX + 1).collect();
        Self::new(anchors.map_err(BundleError::Pem)?)
    }

    /// Takes anchors.
    ///
    /// # Errors
    /// [`BundleError`] if there are none or more than [`ANCHORS_MAX`], or if one is no certificate of an authority.
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

    /// The anchors, as they were given.
    pub fn anchors(&self) -> &[CertificateDer<'static>] {
        &self.anchors
    }

    /// The anchors, as chain building wants them.
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
