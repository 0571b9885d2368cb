//! rustls configurations for the lab's meshes: TLS 1.3, one cipher suite, no resumption, and SPIFFE ids instead of host
//! names.

use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::aws_lc_rs::{self, cipher_suite};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme};
use rustls::{CipherSuite, PeerIncompatible};

use super::{Credentials, spiffe_id};
use crate::error::{Error, Result};

/// The cipher suite that all meshes use.
pub(super) const SUITE: CipherSuite = CipherSuite::TLS13_AES_128_GCM_SHA256;

/// The configuration of a client that presents its certificate, and accepts only servers with the identity `server`.
///
/// # Errors
/// If a file cannot be read or is invalid.
pub(crate) fn client(credentials: &Credentials, server: &str, alpn: Option<&str>) -> Result<Arc<ClientConfig>> {
    const WHAT: &str = "configuring a TLS client";
    let provider = provider();
    let roots = roots(&credentials.authority)?;
    let verifier = ServerIs { id: spiffe_id(server), roots, provider: Arc::clone(&provider) };
    let (chain, key) = own(credentials)?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(cannot(WHAT))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_client_auth_cert(chain, key)
        .map_err(cannot(WHAT))?;
    config.alpn_protocols = alpn.into_iter().map(|name| name.as_bytes().to_vec()).collect();
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

fn provider() -> Arc<CryptoProvider> {
    let cipher_suites = vec![cipher_suite::TLS13_AES_128_GCM_SHA256];
    Arc::new(CryptoProvider { cipher_suites, ..aws_lc_rs::default_provider() })
}

fn roots(path: &Path) -> Result<Arc<RootCertStore>> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(cannot(&path.display().to_string()))?;
    }
    Ok(Arc::new(roots))
}

fn own(credentials: &Credentials) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
    let path = &credentials.key;
    let key = PrivateKeyDer::from_pem_file(path).map_err(cannot(&path.display().to_string()))?;
    Ok((certificates(&credentials.certificate)?, key))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let certificates = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    certificates.map_err(cannot(&path.display().to_string()))
}

fn cannot<E: std::error::Error>(what: &str) -> impl FnOnce(E) -> Error {
    let what = what.to_owned();
    move |error| Error::Tls { what, why: error.to_string() }
}

/// Verifies a server's certificate by its SPIFFE id. Host names are ignored, because certificates of a mesh do not
/// contain them.
#[derive(Debug)]
struct ServerIs {
    id: String,
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for ServerIs {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        let parsed = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&parsed, &self.roots, intermediates, now, algorithms)?;
        let certificate = webpki::EndEntityCert::try_from(end_entity).map_err(|_| CertificateError::BadEncoding)?;
        if certificate.valid_uri_names().eq([self.id.as_str()]) {
            return Ok(ServerCertVerified::assertion());
        }
        Err(CertificateError::NotValidForName.into())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// The configuration of a server that accepts any client with a certificate of the server's authority.
///
/// # Errors
/// If a file cannot be read or is invalid.
pub(super) fn server(credentials: &Credentials) -> Result<Arc<ServerConfig>> {
    const WHAT: &str = "configuring a TLS server";
    let provider = provider();
    let roots = roots(&credentials.authority)?;
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
    let (chain, key) = own(credentials)?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(cannot(WHAT))?
        .with_client_cert_verifier(verifier.map_err(cannot(WHAT))?)
        .with_single_cert(chain, key)
        .map_err(cannot(WHAT))?;
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// The configuration of a server that presents its certificate, and requests none from clients. A certificate service
/// needs this, because its clients do not have a certificate yet.
///
/// # Errors
/// If a file cannot be read or is invalid.
pub(crate) fn one_sided_server(credentials: &Credentials, alpn: &[u8]) -> Result<Arc<ServerConfig>> {
    const WHAT: &str = "configuring a TLS server";
    let (chain, key) = own(credentials)?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(cannot(WHAT))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(cannot(WHAT))?;
    config.alpn_protocols = vec![alpn.to_vec()];
    Ok(Arc::new(config))
}
