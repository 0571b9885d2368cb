//! Certificate checks in a handshake, on both sides: a chain to an anchor of the trust bundle, and one SPIFFE id of our
//! trust domain.
//!
//! The caller compares the peer's workload after the handshake. The TLS server name is not compared: it names the
//! server's port, such as `8080.leno.internal`, and an SVID contains a SPIFFE id instead of a DNS name.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leno_model::spiffe::TrustDomain;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, RootCertStore, SignatureScheme,
};

use crate::bundle::TrustBundle;
use crate::peer::peer_id_in;
use crate::svid::CHAIN_MAX_CERTIFICATES;
use crate::tls::provider;

/// Maximum size of a chain that is verified, in bytes. A peer can send any chain, even if it has no keys for the
/// certificates. webpki tries every path through intermediates that name each other as issuers: twelve such
/// intermediates take 200,000 steps, which is a second of CPU time.
const CHAIN_MAX_BYTES: usize = 16 << 10;

/// The error for a chain that is too long to be verified.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "its chain has {certificates} certificates with {bytes} bytes; at most {CHAIN_MAX_CERTIFICATES} with {CHAIN_MAX_BYTES} bytes are \
     verified, so give it a chain without certificates that it does not need"
)]
struct TooLong {
    certificates: usize,
    bytes: usize,
}

impl TrustBundle {
    /// Checks that a chain (the end-entity's certificate first) leads to one of the anchors at `now`. Does not check
    /// the name in the certificate.
    ///
    /// # Errors
    /// If the chain is empty or too long, a certificate is malformed or not valid at `now`, or the chain leads to no
    /// anchor.
    pub fn verify(&self, chain: &[CertificateDer<'_>], now: SystemTime) -> Result<(), Error> {
        let (end_entity, intermediates) = chain.split_first().ok_or(Error::NoCertificatesPresented)?;
        verify_chain(self.roots(), &provider().signature_verification_algorithms, end_entity, intermediates, unix(now))
    }
}

/// Verifies a server's certificate in a client's handshake.
#[derive(Debug)]
pub(crate) struct ServerVerifier {
    trust_domain: TrustDomain,
    roots: Arc<RootCertStore>,
    algorithms: WebPkiSupportedAlgorithms,
}

/// A server's reaction to a client that sends no certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WithoutCertificate {
    /// Accept the client: policies decide about its calls.
    Accept,
    /// Fail the handshake.
    Reject,
}

/// Verifies a client's certificate in a server's handshake.
#[derive(Debug)]
pub(crate) struct ClientVerifier {
    trust_domain: TrustDomain,
    chain: Arc<dyn ClientCertVerifier>,
}

impl ServerVerifier {
    pub(crate) fn new(trust_domain: TrustDomain, bundle: &TrustBundle, provider: &CryptoProvider) -> Self {
        let algorithms = provider.signature_verification_algorithms;
        Self { trust_domain, roots: bundle.roots().clone(), algorithms }
    }

    /// Verifies a chain (the end-entity's certificate first).
    pub(crate) fn verify(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        verify_chain(&self.roots, &self.algorithms, end_entity, intermediates, now)?;
        verify_id(&self.trust_domain, end_entity)
    }
}

impl ClientVerifier {
    pub(crate) fn new(
        trust_domain: TrustDomain,
        bundle: &TrustBundle,
        provider: &Arc<CryptoProvider>,
        without: WithoutCertificate,
    ) -> Self {
        // Do not send clients the names of our anchors: a workload has one certificate, so it needs no hint which
        // certificate to send.
        let builder = WebPkiClientVerifier::builder_with_provider(bundle.roots().clone(), provider.clone())
            .clear_root_hint_subjects();
        let builder = match without {
            WithoutCertificate::Accept => builder.allow_unauthenticated(),
            WithoutCertificate::Reject => builder,
        };
        Self { trust_domain, chain: builder.build().expect("a trust bundle has an anchor") }
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.verify(end_entity, intermediates, now).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        self.chain.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chain.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        check_length(end_entity, intermediates)?;
        let verified = self.chain.verify_client_cert(end_entity, intermediates, now)?;
        verify_id(&self.trust_domain, end_entity).map(|()| verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}

fn verify_chain(
    roots: &RootCertStore,
    algorithms: &WebPkiSupportedAlgorithms,
    end_entity: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    now: UnixTime,
) -> Result<(), Error> {
    check_length(end_entity, intermediates)?;
    let parsed = ParsedCertificate::try_from(end_entity)?;
    verify_server_cert_signed_by_trust_anchor(&parsed, roots, intermediates, now, algorithms.all)
}

/// Converts a time to the type that rustls uses. A time before 1970 becomes 1970.
pub(crate) fn unix(time: SystemTime) -> UnixTime {
    UnixTime::since_unix_epoch(time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO))
}

/// Rejects a chain that is too long to be verified.
fn check_length(end_entity: &CertificateDer<'_>, intermediates: &[CertificateDer<'_>]) -> Result<(), Error> {
    let certificates = 1 + intermediates.len();
    let bytes = end_entity.len() + intermediates.iter().map(|certificate| certificate.len()).sum::<usize>();
    if certificates <= CHAIN_MAX_CERTIFICATES && bytes <= CHAIN_MAX_BYTES {
        return Ok(());
    }
    Err(CertificateError::Other(OtherError(Arc::new(TooLong { certificates, bytes }))).into())
}

fn verify_id(trust_domain: &TrustDomain, end_entity: &CertificateDer<'_>) -> Result<(), Error> {
    match peer_id_in(trust_domain, end_entity) {
        Ok(_) => Ok(()),
        Err(error) => Err(CertificateError::Other(OtherError(Arc::new(error))).into()),
    }
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
