use std::time::{Duration, SystemTime};

use leno_identity::Validity;
use leno_identity::authority::Authority;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use tokio_rustls::TlsAcceptor;

use super::*;

#[test]
fn the_chain_is_seen_in_a_handshake_that_needs_nobodys_trust() {
    let authority =
        Authority::create("example.org".parse().expect("a trust domain"), SystemTime::now()).expect("an authority");
    let id = "spiffe://example.org/ns/shop/sa/web".parse().expect("an id");
    let now = SystemTime::now();
    let validity = Validity::starting(now, Duration::from_secs(60));
    let pair = authority.issue_key_pair(&id, validity, now).expect("a certificate");
    let presented: Vec<_> =
        CertificateDer::pem_slice_iter(pair.certificate.as_bytes()).collect::<Result<_, _>>().expect("PEM");
    let key = PrivateKeyDer::from_pem_slice(pair.private_key.as_bytes()).expect("a key");
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("versions");
    let mut config = config.with_no_client_auth().with_single_cert(presented.clone(), key).expect("a certificate");
    config.alpn_protocols = vec![b"h2".to_vec()];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (seen, served) = runtime.block_on(async {
        let (mut here, there) = tokio::io::duplex(1 << 16);
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let serve = async {
            let mut stream = acceptor.accept(there).await?;
            let name = stream.get_ref().1.server_name().map(str::to_owned);
            stream.write_all(b"SETTINGS").await?;
            // Check that the client closes the connection cleanly: this read fails if the connection ends without
            // close_notify.
            let mut request = Vec::new();
            stream.read_to_end(&mut request).await?;
            Ok::<_, std::io::Error>((name, request))
        };
        tokio::join!(chain(&mut here, 4999), serve)
    });
    assert_eq!(seen, Ok(presented));
    let (name, request) = served.expect("the handshake and the connection end in order");
    assert_eq!((name.as_deref(), request.len()), (Some("4999.leno.internal"), 0));
}

#[test]
fn what_shows_no_certificate_is_told() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let seen = runtime.block_on(async {
        let (mut here, there) = tokio::io::duplex(1 << 16);
        drop(there);
        chain(&mut here, 4143).await
    });
    assert!(seen.is_err_and(|why| why.starts_with("it presents no certificate: ")));
}
