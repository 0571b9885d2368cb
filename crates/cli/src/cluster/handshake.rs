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

/// Maximum time for each of three steps: the server completes the handshake, we close our half of the connection, the
/// server closes its half.
const CLOSE_MAX: Duration = Duration::from_secs(1);

/// A verifier that accepts every certificate, so that the tool can show invalid certificates too. Must never be used to
/// send data.
#[derive(Debug)]
struct AnyCertificate {
    provider: Arc<CryptoProvider>,
    chain: Mutex<Vec<CertificateDer<'static>>>,
}

/// Returns the certificate chain that a proxy presents at its inbound port, `port`. Checks the handshake's signature,
/// which proves that the proxy has the private key. Does not verify the chain, and sends no request.
///
/// Completes the handshake and closes the connection cleanly, because the proxy would log an aborted handshake as a
/// warning.
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
    // Name the proxy's own inbound port in the server name. If it named a port of the application, the proxy would
    // reject our handshake, which has no client certificate.
    let name = ServerName::try_from(format!("{port}.leno.internal")).map_err(|error| error.to_string())?;
    let shaken = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    close(shaken.map_err(|error| format!("it presents no certificate: {}", explain_io(&error)))?).await;
    Ok(std::mem::take(&mut *seen.chain.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// Closes a connection after its handshake. First waits for the server's first bytes, its SETTINGS, which show that the
/// server has completed the handshake too.
async fn close(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut buffer = [0; 1024];
    // Ignore errors from here on: we already have the chain.
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
