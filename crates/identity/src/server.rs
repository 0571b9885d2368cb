//! The certificate of a server that is called by a DNS name, by clients that know no SPIFFE: an API server calls webhooks.
//!
//! The names are the server's own, of its command line. Workloads never get one: what they send is a request, and of a
//! request [`Authority::sign`] certifies a SPIFFE id and nothing else.

use std::sync::Arc;
use std::time::SystemTime;

use rcgen::{ExtendedKeyUsagePurpose, KeyPair, SanType};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, DnsName, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;
use rustls::version::TLS13;

use crate::authority::{Authority, SignError};
use crate::tls::provider;
use crate::x509::Validity;

/// What is spoken inside, by its ALPN name (RFC 7301 section 6).
pub const ALPN: &[u8] = b"http/1.1";

/// A key that was made here, and the certificate for it.
#[derive(Debug)]
pub struct ServerCertificate {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    /// When it expires.
    pub not_after: SystemTime,
}

impl Authority {
    /// Makes a key pair and certifies that it is that of the server with these names; good for nothing but to be a server.
    ///
    /// # Errors
    /// [`SignError`] if this authority has expired or the machine gives no random numbers.
    pub fn certify_server(&self, names: &[DnsName<'_>], validity: Validity) -> Result<ServerCertificate, SignError> {
        let key = KeyPair::generate()?;
        let name = |name: &DnsName<'_>| Ok(SanType::DnsName(name.as_ref().try_into()?));
        let names: Result<Vec<_>, rcgen::Error> = names.iter().map(name).collect();
        let certificate = self.certify_names(names?, vec![ExtendedKeyUsagePurpose::ServerAuth], &key, validity)?;
        let not_after = validity.not_after.min(self.validity().not_after);
        Ok(ServerCertificate { certificate: certificate.into(), key: key.into(), not_after })
    }
}

impl ServerCertificate {
    /// The server's side of TLS 1.3 for HTTP/1.1, with nobody asked who they are. `intermediates` lead from the certificate
    /// to an anchor.
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
