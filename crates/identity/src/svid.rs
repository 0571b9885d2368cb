//! An X.509 SVID and the key that proves it (X509-SVID section 2). The key is made here and never leaves the memory.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use leno_model::spiffe::SpiffeId;
use rcgen::{CertificateParams, DistinguishedName, KeyPair, SanType};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::CertifiedKey;

use crate::bundle::TrustBundle;
use crate::peer::{PeerIdError, peer_id};
use crate::tls::provider;
use crate::verify::{ClientVerifier, ServerVerifier, WithoutCertificate};
use crate::x509::validity;

/// How many certificates a chain may have.
pub const CHAIN_MAX_CERTIFICATES: usize = 8;

/// A new key pair, and the request to certify it.
#[derive(Debug)]
pub struct Request {
    id: SpiffeId,
    key: KeyPair,
    csr: Vec<u8>,
}

/// A certificate chain that was checked, and its key.
#[derive(Debug, Clone)]
pub struct Svid {
    /// Whom it names.
    pub id: SpiffeId,
    /// The first moment of its validity; a little before it was issued, for peers whose clocks are behind.
    pub not_before: SystemTime,
    /// The last moment of its validity.
    pub not_after: SystemTime,
    certified_key: Arc<CertifiedKey>,
}

/// Why there is no SVID; it says what to do.
#[derive(Debug, thiserror::Error)]
pub enum SvidError {
    /// The machine could not make a key pair or sign with it.
    #[error("a key pair could not be made: {0}")]
    Key(#[from] rcgen::Error),
    /// The chain has no certificate, or too many.
    #[error("the issuer sent {0} certificates; a chain has 1 to {CHAIN_MAX_CERTIFICATES}")]
    Length(usize),
    /// The certificate is for another key or cannot be used.
    #[error("the issued certificate does not fit our key ({0}); look whether the issuer mixes up its clients")]
    KeyMismatch(rustls::Error),
    /// The certificate names no workload.
    #[error("the issued certificate is no SVID: {0}")]
    NoId(#[from] PeerIdError),
    /// The certificate names somebody else.
    #[error("the issuer certified {found} and not {wanted}; look at what it knows of this workload")]
    WrongId {
        /// Whom it names.
        found: SpiffeId,
        /// Whom it should name.
        wanted: SpiffeId,
    },
    /// Nobody would believe it.
    #[error(
        "the issued certificate does not pass our own check ({0}); add its anchor to the trust bundle, set the clocks"
    )]
    Refused(rustls::Error),
    /// Its dates cannot be read.
    #[error("the issued certificate has no readable dates; look at the issuer")]
    Dates,
}

impl Request {
    /// Makes a key pair (ECDSA on P-256) and a request that names `id`.
    ///
    /// # Errors
    /// [`SvidError::Key`] if the machine gives no random numbers.
    pub fn new(id: SpiffeId) -> Result<Self, SvidError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.subject_alt_names = vec![SanType::URI(id.to_string().try_into()?)];
        let csr = params.serialize_request(&key)?.der().to_vec();
        Ok(Self { id, key, csr })
    }

    /// Whom it names.
    pub fn id(&self) -> &SpiffeId {
        &self.id
    }

    /// The certificate signing request (RFC 2986), in DER.
    pub fn csr(&self) -> &[u8] {
        &self.csr
    }

    /// Takes the issuer's answer, the end-entity's certificate first, after checking it as a peer would.
    ///
    /// # Errors
    /// [`SvidError`] if the chain is not for this key and id, or is not valid `now` by this bundle.
    pub fn accept(
        self,
        chain: Vec<CertificateDer<'static>>,
        bundle: &TrustBundle,
        now: SystemTime,
    ) -> Result<Svid, SvidError> {
        let end_entity = match chain.as_slice() {
            [end_entity, ..] if chain.len() <= CHAIN_MAX_CERTIFICATES => end_entity,
            _ => return Err(SvidError::Length(chain.len())),
        };
        let found = peer_id(&chain)?;
        if found != self.id {
            return Err(SvidError::WrongId { found, wanted: self.id });
        }
        let validity = validity(end_entity).ok_or(SvidError::Dates)?;
        let key = PrivateKeyDer::from(self.key);
        let certified_key = CertifiedKey::from_der(chain, key, &provider()).map_err(SvidError::KeyMismatch)?;
        let svid = Svid {
            id: self.id,
            not_before: validity.not_before,
            not_after: validity.not_after,
            certified_key: Arc::new(certified_key),
        };
        svid.verify(bundle, now).map_err(SvidError::Refused)?;
        Ok(svid)
    }
}

impl Svid {
    /// Checks that peers with this bundle believe it `now`, be they client or server.
    ///
    /// # Errors
    /// What a peer's handshake would fail with.
    pub fn verify(&self, bundle: &TrustBundle, now: SystemTime) -> Result<(), rustls::Error> {
        let provider = provider();
        let trust_domain = &self.id.trust_domain;
        let now = UnixTime::since_unix_epoch(now.duration_since(UNIX_EPOCH).unwrap_or_default());
        let end_entity = self.certified_key.end_entity_cert()?;
        let intermediates = self.certified_key.cert.get(1..).unwrap_or_default();
        ServerVerifier::new(trust_domain.clone(), bundle, &provider).verify(end_entity, intermediates, now)?;
        ClientVerifier::new(trust_domain.clone(), bundle, &provider, WithoutCertificate::Accept)
            .verify_client_cert(end_entity, intermediates, now)
            .map(drop)
    }

    /// Its chain, the end-entity's certificate first.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.certified_key.cert
    }

    pub(crate) fn certified_key(&self) -> &Arc<CertifiedKey> {
        &self.certified_key
    }
}

#[cfg(test)]
#[path = "svid_tests.rs"]
mod tests;
