use std::io::Write;
use std::net::TcpListener;
use std::thread;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, ServerConnection};

use super::super::{Authority, CLIENT};
use super::*;

/// Serves this number of connections, one after the other, and sends five bytes on each. Then refuses connections.
fn serve(config: Arc<ServerConfig>, connections: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound socket");
    thread::spawn(move || {
        for socket in listener.incoming().take(connections).flatten() {
            let connection = ServerConnection::new(Arc::clone(&config)).expect("a valid configuration");
            // Ignore an error: the write fails if the server has rejected the client.
            StreamOwned::new(connection, socket).write_all(b"hello").ok();
        }
    });
    address
}

/// Checks a server that has a certificate for the identity `server`. `change` modifies the server's configuration.
fn check(server: &str, change: impl FnOnce(&mut ServerConfig)) -> std::result::Result<(), String> {
    check_serving(2, server, change)
}

/// Like [`check`], but the server serves only this number of connections.
fn check_serving(
    connections: usize,
    server: &str,
    change: impl FnOnce(&mut ServerConfig),
) -> std::result::Result<(), String> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let authority = Authority::create(dir.path()).expect("a writable directory");
    let [client, server] = [CLIENT, server].map(|workload| authority.issue(workload).expect("a certificate"));
    let mut config = Arc::unwrap_or_clone(config::server(&server).expect("a valid configuration"));
    config.alpn_protocols = vec![b"h2".to_vec()];
    change(&mut config);
    let address = serve(Arc::new(config), connections);
    ensure_mutual_tls(address, "mesh.test", &client, Some("h2")).map_err(|error| error.to_string())
}

#[test]
fn a_server_that_wants_certificates_of_its_authority_is_one_of_the_mesh() {
    assert_eq!(check(SERVER, |_| ()), Ok(()));
}

#[test]
fn a_server_with_another_identity_is_not() {
    let error = check("ns/lab/sa/stranger", |_| ()).expect_err("it is not the server");
    assert!(error.contains("no server of the mesh"), "{error}");
}

/// Makes `verifier` verify the clients' certificates, instead of the authority's certificate.
fn with_verifier(config: &mut ServerConfig, verifier: Arc<dyn ClientCertVerifier>) {
    let mut changed = ServerConfig::builder_with_provider(Arc::clone(config.crypto_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3 is there")
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::clone(&config.cert_resolver));
    changed.alpn_protocols = std::mem::take(&mut config.alpn_protocols);
    *config = changed;
}

#[test]
fn a_server_that_asks_nobody_is_not() {
    let error = check(SERVER, |config| with_verifier(config, WebPkiClientVerifier::no_client_auth()));
    assert!(error.expect_err("it asks nobody").contains("does not request a client certificate"));
}

/// Accepts any client certificate.
#[derive(Debug)]
struct Anybody;

impl ClientCertVerifier for Anybody {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> std::result::Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}

#[test]
fn a_server_that_takes_any_certificate_for_a_good_one_is_not() {
    let error = check(SERVER, |config| with_verifier(config, Arc::new(Anybody)));
    assert!(error.expect_err("it takes any").contains("another authority"));
}

#[test]
fn a_refused_connection_does_not_show_that_the_server_rejects_a_certificate() {
    let error = check_serving(1, SERVER, |_| ()).expect_err("the server has ended");
    assert!(error.contains("cannot check whether the proxy at"), "{error}");
}

#[test]
fn a_server_without_the_applications_protocol_is_not() {
    let error = check(SERVER, |config| config.alpn_protocols.clear()).expect_err("it has no ALPN");
    assert!(error.contains("ALPN"), "{error}");
}
