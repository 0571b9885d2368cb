//! A stranger's attacks that begin with a TLS handshake: invalid tokens, streams that wait for changes of the trust
//! bundle, and ports that require a client certificate.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leno_xds::identity::v1::CertifyRequest;
use prost::Message;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::requests::{framed, grpc};
use super::{Campaign, at};

/// Number of connections of each attack to each Pod.
const CONNECTIONS: u32 = 10;
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// Pause between two attempts.
const EVERY: Duration = Duration::from_secs(3);

pub(super) fn attack(campaign: &mut Campaign, proxies: &[IpAddr], controls: &[IpAddr]) {
    repeat(campaign, "control_bad_tokens", &at(controls, 15012), CONNECTIONS, ask_with_bad_tokens);
    repeat(campaign, "control_streams_of_news", &at(controls, 15012), CONNECTIONS, watch_trust);
    repeat(campaign, "control_xds_without_certificate", &at(controls, 15010), CONNECTIONS, shake_hands_only);
    repeat(campaign, "proxy_tunnel_without_certificate", &at(proxies, 15008), CONNECTIONS, shake_hands_only);
}

/// Runs `act` in endless loops: `connections` loops at once for each address.
pub(super) fn repeat<F>(
    campaign: &mut Campaign,
    name: &'static str,
    addresses: &[SocketAddr],
    connections: u32,
    act: impl Fn(SocketAddr) -> F + Clone + Send + Sync + 'static,
) where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let tried = campaign.count(name);
    campaign.spawn_each(addresses, connections, EVERY, |address| {
        let (tried, act) = (tried.clone(), act.clone());
        async move {
            loop {
                tried.fetch_add(1, Ordering::Relaxed);
                // Ignore the error: the attack is meant to fail, and other tests check the error.
                act(address).await.ok();
                tokio::time::sleep(EVERY).await;
            }
        }
    });
}

/// Requests a certificate ten times on one connection, with a token that is well-formed but invalid.
async fn ask_with_bad_tokens(address: SocketAddr) -> io::Result<()> {
    let claims =
        "eyJhdWQiOlsibGVuby5kZXYiXSwiZXhwIjo0MDAwMDAwMDAwLCJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6c2hvcDp3ZWIifQ";
    let token = format!("eyJhbGciOiJSUzI1NiJ9.{claims}.AAAA");
    let request = CertifyRequest { csr: b"no request".to_vec(), token };
    call(address, "Certify", &request.encode_to_vec(), 10).await
}

async fn watch_trust(address: SocketAddr) -> io::Result<()> {
    call(address, "WatchTrust", b"", 10).await
}

/// Calls a method of the identity service several times at once, and keeps the calls open for [`PATIENCE`].
async fn call(address: SocketAddr, method: &str, message: &[u8], times: usize) -> io::Result<()> {
    let stream = connect(address, "leno-control.leno.svc", b"h2").await?;
    let (mut requests, connection) = h2::client::handshake(stream).await.map_err(io::Error::other)?;
    let connection = tokio::spawn(connection);
    let framed = framed(message);
    let mut answers = Vec::new();
    for _ in 0..times {
        let request = grpc(&format!("https://{address}/leno.identity.v1.Identity/{method}"));
        let Ok((answer, mut content)) = requests.send_request(request, false) else { break };
        content.send_data(framed.clone(), true).ok();
        answers.push((answer, content));
    }
    tokio::time::sleep(PATIENCE).await;
    connection.abort();
    Ok(())
}

async fn shake_hands_only(address: SocketAddr) -> io::Result<()> {
    read_on(&mut connect(address, "50051.leno.internal", b"h2").await?).await
}

pub(super) async fn read_on(stream: &mut TlsStream<TcpStream>) -> io::Result<()> {
    let read = async { while stream.read(&mut [0; 512]).await.is_ok_and(|read| read > 0) {} };
    timeout(PATIENCE, read).await.map_err(io::Error::other)
}

pub(super) async fn connect(address: SocketAddr, name: &str, alpn: &[u8]) -> io::Result<TlsStream<TcpStream>> {
    let verifier = Arc::new(AcceptsAll);
    let mut config =
        ClientConfig::builder().dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    config.alpn_protocols = vec![alpn.to_vec()];
    let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
    timeout(PATIENCE, async {
        let stream = TcpStream::connect(address).await?;
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    })
    .await?
}

/// Accepts every server certificate: an attacker does not care which server answers.
#[derive(Debug)]
struct AcceptsAll;

impl ServerCertVerifier for AcceptsAll {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
