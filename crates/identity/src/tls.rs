//! The TLS between proxies: version 1.3 only, an SVID on both sides, HTTP/2 inside.
//!
//! Sessions are never resumed, so every connection checks the peer's current certificate against the current trust
//! bundle.

use std::sync::Arc;
use std::time::SystemTime;

use leno_model::spiffe::{SpiffeId, TrustDomain};
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider, kx_group};
use rustls::pki_types::CertificateDer;
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::SingleCertAndKey;
use rustls::version::TLS13;
use rustls::{ClientConfig, ServerConfig};

use crate::bundle::TrustBundle;
use crate::svid::Svid;
use crate::verify::{ClientVerifier, ServerVerifier, WithoutCertificate, unix};

/// The protocol inside TLS, as its ALPN name (RFC 9113 section 3.2).
pub const ALPN: &[u8] = b"h2";

/// Everything that the data plane needs to connect as a workload of the mesh, until `not_after`.
#[derive(Debug, Clone)]
pub struct TlsIdentity {
    svid: Svid,
    /// Verifies the certificates of clients that must present one.
    clients: Arc<ClientVerifier>,
    /// Our SPIFFE id; peers must have an id in the same trust domain.
    pub id: SpiffeId,
    /// Configuration of inbound connections that clients may open without a certificate: a policy decides about such
    /// clients. If a client sends a certificate, the certificate is verified.
    pub server: Arc<ServerConfig>,
    /// Configuration of inbound connections that only proxies of the mesh may open: without a client certificate the
    /// handshake fails.
    pub strict_server: Arc<ServerConfig>,
    /// Configuration of outbound connections. This configuration accepts any server name, so the caller must compare
    /// the peer's SPIFFE id.
    pub client: Arc<ClientConfig>,
    pub not_after: SystemTime,
    /// The anchors against which peers' certificates are verified.
    pub bundle: TrustBundle,
}

impl TlsIdentity {
    /// Creates the identity of an SVID. The identity accepts peers whose certificates lead to an anchor in the bundle.
    pub fn new(svid: &Svid, bundle: &TrustBundle) -> Self {
        let provider = provider();
        let verifier =
            |without| Arc::new(ClientVerifier::new(svid.id.trust_domain.clone(), bundle, &provider, without));
        let clients = verifier(WithoutCertificate::Reject);
        Self {
            id: svid.id.clone(),
            server: Arc::new(server_config(svid, verifier(WithoutCertificate::Accept), &provider)),
            strict_server: Arc::new(server_config(svid, clients.clone(), &provider)),
            clients,
            client: Arc::new(client_config(svid, bundle, &provider)),
            not_after: svid.not_after,
            bundle: bundle.clone(),
            svid: svid.clone(),
        }
    }

    pub fn svid(&self) -> &Svid {
        &self.svid
    }

    /// Returns whether we still trust every anchor that `before` trusts. If so, every peer that `before` accepted would
    /// still be accepted.
    pub fn trusts_all_anchors_of(&self, before: &Self) -> bool {
        before.bundle.anchors().iter().all(|anchor| self.bundle.anchors().contains(anchor))
    }

    /// Verifies the certificates of a peer's handshake again, at `now`. The peer's own certificate is first in the
    /// chain, and may be for servers or for clients: the handshake has checked this purpose.
    ///
    /// # Errors
    /// The errors of [`TrustBundle::verify`].
    pub fn verify_again(&self, chain: &[CertificateDer<'_>], now: SystemTime) -> Result<(), rustls::Error> {
        self.bundle.verify(chain, now).or_else(|error| match chain.split_first() {
            Some((own, issuers)) => {
                let verified = self.clients.verify_client_cert(own, issuers, unix(now));
                verified.map(|_| ()).map_err(|_| error)
            }
            None => Err(error),
        })
    }
}

fn server_config(svid: &Svid, clients: Arc<ClientVerifier>, provider: &Arc<CryptoProvider>) -> ServerConfig {
    let mut config = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])
        .expect("the provider has TLS 1.3")
        .with_client_cert_verifier(clients)
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

/// Returns the configuration of a client that has no SVID and is requesting one. The server must belong to
/// `trust_domain` and have a certificate that leads to an anchor in the bundle. The configuration accepts any server
/// name, so the caller must compare the server's SPIFFE id after the handshake.
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

/// Returns the cipher suites and key exchanges of the mesh, each in order of preference.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        // AES-128 first: as strong as the signatures and the classical key exchange, and the cheapest.
        cipher_suites: vec![
            cipher_suite::TLS13_AES_128_GCM_SHA256,
            cipher_suite::TLS13_AES_256_GCM_SHA384,
            cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        ],
        // The hybrid key exchange is first: recorded traffic stays secret even from a future quantum computer.
        kx_groups: vec![kx_group::X25519MLKEM768, kx_group::X25519, kx_group::SECP256R1],
        ..default_provider()
    })
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;
