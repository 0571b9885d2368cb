//! An X.509 SVID and its private key (X509-SVID section 2). The key is made in this process. The key leaves the process
//! only through [`Svid::key_pair_pem`], for a program that does its own TLS.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use leno_model::spiffe::SpiffeId;
use rcgen::{CertificateParams, DistinguishedName, KeyPair, SanType};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::CertifiedKey;

use crate::authority::KeyPairPem;
use crate::bundle::TrustBundle;
use crate::peer::{PeerIdError, peer_id};
use crate::pem;
use crate::tls::provider;
use crate::verify::{ClientVerifier, ServerVerifier, WithoutCertificate};
use crate::x509::validity;

/// Limit on the number of certificates in a chain.
pub const CHAIN_MAX_CERTIFICATES: usize = 4;

/// A new key pair, and its certificate signing request.
#[derive(Debug)]
pub struct Request {
    id: SpiffeId,
    key: KeyPair,
    csr: Vec<u8>,
}

/// A verified certificate chain, and its key.
#[derive(Debug, Clone)]
pub struct Svid {
    pub id: SpiffeId,
    /// Start of the validity: a little before the time of issue, for peers whose clocks are behind.
    pub not_before: SystemTime,
    /// End of the validity.
    pub not_after: SystemTime,
    certified_key: Arc<CertifiedKey>,
    /// A copy of the private key in `certified_key`: `certified_key` does not give access to the key's bytes.
    key: Arc<PrivateKeyDer<'static>>,
}

/// The reason why no SVID could be obtained. The error's message names the remedy.
#[derive(Debug, thiserror::Error)]
pub enum SvidError {
    /// Making a key pair or a signature failed.
    #[error("a key pair could not be made: {0}")]
    Key(#[from] rcgen::Error),
    /// The chain is empty.
    #[error("the issuer sent no certificate; check the issuer's log")]
    Empty,
    /// The chain is too long.
    #[error(
        "the issuer sent {0} certificates, and a chain has at most {CHAIN_MAX_CERTIFICATES}; keep only the certificates between the \
         issuing authority and its anchor"
    )]
    Length(usize),
    /// The certificate is for another key or cannot be used.
    #[error("the issued certificate does not fit our key ({0}); check whether the issuer mixes up its clients")]
    KeyMismatch(rustls::Error),
    /// The certificate names no workload.
    #[error("the issued certificate is no SVID: {0}")]
    NoId(#[from] PeerIdError),
    /// The certificate names another workload.
    #[error("the issuer certified {found} and not {wanted}; check what it has configured for this workload")]
    WrongId { found: SpiffeId, wanted: SpiffeId },
    /// Peers would reject the certificate.
    #[error(
        "the issued certificate does not pass our own check ({0}); add its anchor to the trust bundle, set the clocks"
    )]
    Refused(rustls::Error),
    #[error("the issued certificate has no readable dates; check the issuer")]
    Dates,
}

impl Request {
    /// Makes a key pair (ECDSA on P-256) and a request that names `id`.
    ///
    /// # Errors
    /// [`SvidError::Key`] if the system's random numbers fail.
    pub fn new(id: SpiffeId) -> Result<Self, SvidError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.subject_alt_names = vec![SanType::URI(id.to_string().try_into()?)];
        let csr = params.serialize_request(&key)?.der().to_vec();
        Ok(Self { id, key, csr })
    }

    pub fn id(&self) -> &SpiffeId {
        &self.id
    }

    /// The certificate signing request (RFC 2986), in DER.
    pub fn csr(&self) -> &[u8] {
        &self.csr
    }

    /// Accepts the issuer's chain (the end-entity's certificate first) after the same checks that a peer would make.
    ///
    /// # Errors
    /// [`SvidError`] if the chain is not for this key and id, or if the bundle does not verify the chain at `now`.
    pub fn accept(
        self,
        chain: Vec<CertificateDer<'static>>,
        bundle: &TrustBundle,
        now: SystemTime,
    ) -> Result<Svid, SvidError> {
        let end_entity = match chain.as_slice() {
            [] => return Err(SvidError::Empty),
            [end_entity, ..] if chain.len() <= CHAIN_MAX_CERTIFICATES => end_entity,
            _ => return Err(SvidError::Length(chain.len())),
        };
        let found = peer_id(&chain)?;
        if found != self.id {
            return Err(SvidError::WrongId { found, wanted: self.id });
        }
        let validity = validity(end_entity).ok_or(SvidError::Dates)?;
        let key = PrivateKeyDer::from(self.key);
        let signing_key = key.clone_key();
        let certified_key = CertifiedKey::from_der(chain, signing_key, &provider()).map_err(SvidError::KeyMismatch)?;
        let svid = Svid {
            id: self.id,
            not_before: validity.not_before,
            not_after: validity.not_after,
            certified_key: Arc::new(certified_key),
            key: Arc::new(key),
        };
        svid.verify(bundle, now).map_err(SvidError::Refused)?;
        Ok(svid)
    }
}

impl Svid {
    /// Checks that clients and servers with this trust bundle accept the SVID at `now`.
    ///
    /// # Errors
    /// The error with which a peer's handshake would fail.
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

    /// Returns the certificate chain, the end-entity's certificate first.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.certified_key.cert
    }

    /// Returns the chain and the key as PEM text, for a program that does its own TLS.
    pub fn key_pair_pem(&self) -> KeyPairPem {
        let blocks = self.chain().iter().map(|certificate| pem::block(pem::CERTIFICATE, certificate));
        KeyPairPem { certificate: blocks.collect(), private_key: pem::block(pem::PRIVATE_KEY, self.key.secret_der()) }
    }

    pub(crate) fn certified_key(&self) -> &Arc<CertifiedKey> {
        &self.certified_key
    }
}

#[cfg(test)]
#[path = "svid_tests.rs"]
mod tests;
