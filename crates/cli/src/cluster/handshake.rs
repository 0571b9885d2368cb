//! Reads the certificates that a server presents in a TLS handshake, and does not verify them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leno_identity::explain_io;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Maximum time for each of three steps: until the server has completed its side of the handshake, until we have closed
/// our side of the connection, and until the server has closed its side.
const CLOSE_MAX: Duration = Duration::from_secs(1);

/// A verifier that accepts every certificate, so that the tool can show invalid certificates too. Must never be used to
/// send data.
#[derive(Debug)]
struct AnyCertificate {
    provider: Arc<CryptoProvider>,
    chain: Mutex<Vec<CertificateDer<'static>>>,
}

/// Returns the certificate chain that a proxy presents at its inbound port, `port`. The signature proves that the proxy
/// has the key. The chain is not verified, and no request is sent.
///
/// Completes the handshake and closes the connection cleanly. If the tool closed the connection earlier, the proxy
/// would log a failed connection as a warning.
///
/// # Errors
/// One line, if the proxy presents no certificate.
pub(crate) async fn chain(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    port: u16,
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
    // A proxy accepts a handshake without a client certificate only if the server name leads to no port of the
    // application. So name the proxy's own inbound port.
    let name = ServerName::try_from(format!("{port}.leno.internal")).map_err(|error| error.to_string())?;
    let shaken = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    close(shaken.map_err(|error| format!("it presents no certificate: {}", explain_io(&error)))?).await;
    Ok(std::mem::take(&mut *seen.chain.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// Closes a connection after its handshake. The server's first bytes, its SETTINGS, show that it has completed the
/// handshake too.
async fn close(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut buffer = [0; 1024];
    // The chain is known already, so later errors do not matter.
    let _ = timeout(CLOSE_MAX, stream.read(&mut buffer)).await;
    let _ = timeout(CLOSE_MAX, stream.shutdown()).await;
    let _ = timeout(CLOSE_MAX, async { while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {} }).await;
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
