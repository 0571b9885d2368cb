//! The TLS that proxies speak with each other: version 1.3 only, both sides with their SVID, HTTP/2 inside.
//!
//! Sessions are never resumed, so every connection shows the peer's certificate as it is now and is checked against
//! the trust bundle as it is now.

use std::sync::Arc;
use std::time::SystemTime;

use leno_model::spiffe::{SpiffeId, TrustDomain};
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider, kx_group};
use rustls::pki_types::CertificateDer;
use rustls::server::NoServerSessionStorage;
use rustls::sign::SingleCertAndKey;
use rustls::version::TLS13;
use rustls::{ClientConfig, ServerConfig};

use crate::bundle::TrustBundle;
use crate::svid::Svid;
use crate::verify::{ClientVerifier, ServerVerifier, WithoutCertificate};

/// What is spoken inside, by its ALPN name (RFC 9113 section 3.2).
pub const ALPN: &[u8] = b"h2";

/// What the data plane needs to be a workload of the mesh, until `not_after`.
#[derive(Debug, Clone)]
pub struct TlsIdentity {
    /// Who we are; its trust domain is the one that peers must be of.
    pub id: SpiffeId,
    /// For connections that come in where policy decides about clients without a certificate. A certificate that a client
    /// sends is checked.
    pub server: Arc<ServerConfig>,
    /// For connections that come in where only proxies of the mesh connect: the handshake with a client that sends no
    /// certificate fails.
    pub strict_server: Arc<ServerConfig>,
    /// For connections that go out. Give it any server name: the peer's SPIFFE id is what the caller has to compare.
    pub client: Arc<ClientConfig>,
    /// When the SVID expires.
    pub not_after: SystemTime,
    /// The anchors that peers are checked against.
    pub bundle: TrustBundle,
}

impl TlsIdentity {
    /// The identity of an SVID, whose peers are those that the bundle vouches for.
    pub fn new(svid: &Svid, bundle: &TrustBundle) -> Self {
        let provider = provider();
        Self {
            id: svid.id.clone(),
            server: Arc::new(server_config(svid, bundle, &provider, WithoutCertificate::Accept)),
            strict_server: Arc::new(server_config(svid, bundle, &provider, WithoutCertificate::Reject)),
            client: Arc::new(client_config(svid, bundle, &provider)),
            not_after: svid.not_after,
            bundle: bundle.clone(),
        }
    }

    /// Whether every anchor that `before` trusts is trusted still, so that every peer checked then would pass now.
    pub fn trusts_all_anchors_of(&self, before: &Self) -> bool {
        before.bundle.anchors().iter().all(|anchor| self.bundle.anchors().contains(anchor))
    }

    /// Checks again that an anchor vouches at `now` for the certificates that a peer showed in its handshake, its own first.
    ///
    /// # Errors
    /// As [`TrustBundle::verify`].
    pub fn verify_again(&self, chain: &[CertificateDer<'_>], now: SystemTime) -> Result<(), rustls::Error> {
        self.bundle.verify(chain, now)
    }
}

fn server_config(
    svid: &Svid,
    bundle: &TrustBundle,
    provider: &Arc<CryptoProvider>,
    without: WithoutCertificate,
) -> ServerConfig {
    let verifier = ClientVerifier::new(svid.id.trust_domain.clone(), bundle, provider, without);
    let mut config = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])
        .expect("the provider has TLS 1.3")
        .with_client_cert_verifier(Arc::new(verifier))
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(svid.certified_key().clone())));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.max_early_data_size = 0;
    config
}

fn client_config(svid: &Svid, bundle: &TrustBundle, provider: &Arc<CryptoProvider>) -> ClientConfig {
    let verifier = ServerVerifier::new(svid.id.trust_domain.clone(), bundle, provider);
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])
        .expect("the provider has TLS 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(svid.certified_key().clone())));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_early_data = false;
    config
}

/// For a client that has no SVID yet, which is who asks for one: the server must be of `trust_domain` and vouched for by
/// the bundle. Give it any server name, and compare the server's SPIFFE id after the handshake.
pub fn anonymous_client(trust_domain: &TrustDomain, bundle: &TrustBundle) -> ClientConfig {
    let provider = provider();
    let verifier = ServerVerifier::new(trust_domain.clone(), bundle, &provider);
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .expect("the provider has TLS 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.resumption = Resumption::disabled();
    config
}

/// The cryptography of the mesh, most wanted first.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        // AES-128 first: as strong as the signatures and the classical key exchange beside it, and the cheapest.
        cipher_suites: vec![
            cipher_suite::TLS13_AES_128_GCM_SHA256,
            cipher_suite::TLS13_AES_256_GCM_SHA384,
            cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        ],
        // The hybrid first: what is recorded today stays secret from tomorrow's quantum computer.
        kx_groups: vec![kx_group::X25519MLKEM768, kx_group::X25519, kx_group::SECP256R1],
        ..default_provider()
    })
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;
