//! The certificate of a server with a DNS name, for clients that do not know SPIFFE: for example, an API server that
//! calls webhooks.
//!
//! The names come from the server's own command line. A workload cannot get such a certificate: the workload sends a
//! request, and [`Authority::sign`] certifies only the SPIFFE id in a request.

use std::sync::Arc;
use std::time::SystemTime;

use rcgen::{ExtendedKeyUsagePurpose, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, DnsName, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;
use rustls::version::TLS13;

use crate::authority::{Authority, SignError, dns};
use crate::tls::provider;
use crate::x509::Validity;

/// The protocol inside TLS, as its ALPN name (RFC 7301 section 6).
pub const ALPN: &[u8] = b"http/1.1";

/// A server's certificate and its key. The key was made in this process.
#[derive(Debug)]
pub struct ServerCertificate {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    pub not_after: SystemTime,
}

impl Authority {
    /// Makes a key pair, and issues a server certificate with these names for the key. The certificate is valid for
    /// servers only, not for clients.
    ///
    /// # Errors
    /// [`SignError`] if this authority has expired or the system's random numbers fail.
    pub fn certify_server(
        &self,
        names: &[DnsName<'_>],
        validity: Validity,
        now: SystemTime,
    ) -> Result<ServerCertificate, SignError> {
        let key = KeyPair::generate()?;
        let names: Result<Vec<_>, rcgen::Error> = names.iter().map(dns).collect();
        let certificate = self.certify_names(names?, vec![ExtendedKeyUsagePurpose::ServerAuth], &key, validity, now)?;
        let not_after = validity.not_after.min(self.validity().not_after);
        Ok(ServerCertificate { certificate: certificate.into(), key: key.into(), not_after })
    }
}

impl ServerCertificate {
    /// Returns the server's configuration: TLS 1.3 with HTTP/1.1, without client certificates. `intermediates` are the
    /// certificates that lead from the server's certificate to an anchor.
    pub fn into_config(self, intermediates: &[CertificateDer<'static>]) -> ServerConfig {
        let chain = [vec![self.certificate], intermediates.to_vec()].concat();
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .expect("the provider has TLS 1.3")
            .with_no_client_auth()
            .with_single_cert(chain, self.key)
            .expect("a key and the certificate that was made for it");
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
