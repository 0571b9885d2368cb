//! The certificates that a server shows in a TLS handshake, whoever it is.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

/// A server name that tells a proxy that the handshake is for itself; of the port in it nothing is asked.
const SERVER_NAME: &str = "4143.leno.internal";

/// A certificate that is looked at, and believed by nobody.
#[derive(Debug)]
struct AnyCertificate {
    provider: Arc<CryptoProvider>,
    chain: Mutex<Vec<CertificateDer<'static>>>,
}

/// The chain that a server shows. Its signature proves that it has the key; nothing else of it is believed, and nothing is
/// sent to it.
///
/// # Errors
/// When it shows none; one line.
pub(crate) async fn chain(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
) -> Result<Vec<CertificateDer<'static>>, String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let seen = Arc::new(AnyCertificate { provider: provider.clone(), chain: Mutex::default() });
    let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13]);
    let mut config = config
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(seen.clone())
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let name = ServerName::try_from(SERVER_NAME).map_err(|error| error.to_string())?;
    let shaken: io::Result<_> = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    shaken.map_err(|error| format!("it shows no certificate: {error}"))?;
    Ok(std::mem::take(&mut *seen.chain.lock().unwrap_or_else(PoisonError::into_inner)))
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let chain = [end_entity].into_iter().chain(intermediates).map(|one| one.clone().into_owned()).collect();
        *self.chain.lock().unwrap_or_else(PoisonError::into_inner) = chain;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
