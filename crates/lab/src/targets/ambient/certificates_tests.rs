use rcgen::{CertificateParams, KeyPair, SanType};
use rustls::pki_types::CertificateDer;
use tonic::Code;

use super::*;
use crate::tls::{CLIENT, SERVER, spiffe_id};

/// A certificate request as ztunnel makes it: in PEM, with the SPIFFE id as its only name.
fn csr(workload: &str) -> String {
    csr_of(&[workload])
}

fn csr_of(workloads: &[&str]) -> String {
    let key = KeyPair::generate().expect("a key");
    let id = |workload: &&str| SanType::URI(spiffe_id(workload).try_into().expect("ASCII"));
    let mut params = CertificateParams::default();
    params.subject_alt_names = workloads.iter().map(id).collect();
    params.serialize_request(&key).and_then(|request| request.pem()).expect("a request")
}

async fn create(token: &str, csr: String) -> std::result::Result<Vec<String>, Status> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let authority = Authority::create(dir.path()).expect("a writable directory");
    let service = Service { authority, tokens: HashMap::from([("token".to_owned(), spiffe_id(CLIENT))]) };
    let mut request = Request::new(IstioCertificateRequest { csr, validity_duration: 86_400 });
    let credentials = format!("Bearer {token}").parse().expect("ASCII");
    request.metadata_mut().insert("authorization", credentials);
    service.create_certificate(request).await.map(|answer| answer.into_inner().cert_chain)
}

#[tokio::test]
async fn a_ztunnel_with_a_token_gets_a_chain_for_the_tokens_identity() {
    let chain = create("token", csr(CLIENT)).await.expect("a certificate");
    assert_eq!(chain.len(), 2);
    let leaf = CertificateDer::from_pem_slice(chain[0].as_bytes()).expect("PEM");
    let leaf = webpki::EndEntityCert::try_from(&leaf).expect("a certificate");
    assert!(leaf.valid_uri_names().eq([spiffe_id(CLIENT).as_str()]));
}

#[tokio::test]
async fn another_token_or_another_identity_gets_no_certificate() {
    let code = |answer: std::result::Result<_, Status>| answer.map(|_: Vec<_>| ()).expect_err("no certificate").code();
    assert_eq!(code(create("stolen", csr(CLIENT)).await), Code::Unauthenticated);
    assert_eq!(code(create("token", csr(SERVER)).await), Code::InvalidArgument);
    assert_eq!(code(create("token", csr_of(&[CLIENT, SERVER])).await), Code::InvalidArgument);
    assert_eq!(code(create("token", csr_of(&[])).await), Code::InvalidArgument);
    assert_eq!(code(create("token", "no PEM".to_owned()).await), Code::InvalidArgument);
}
