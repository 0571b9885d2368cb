use tonic::Code;

use super::super::super::names;
use super::*;
use crate::tls::{CLIENT, Request as Csr, SERVER};

async fn certify(token: &str, identity: &str) -> Result<CertifyResponse, Status> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let service = Service::new(Authority::create(dir.path()).expect("a writable directory"), "token".to_owned());
    let csr = Csr::new(&names::identity(SERVER), SERVER).expect("a request").csr;
    let request = CertifyRequest {
        identity: identity.to_owned(),
        token: token.as_bytes().to_vec(),
        certificate_signing_request: csr,
    };
    service.certify(Request::new(request)).await.map(Response::into_inner)
}

#[tokio::test]
async fn a_proxy_with_the_token_gets_a_certificate_for_its_identity() {
    let identity = names::identity(SERVER);
    let answer = certify("token", &identity).await.expect("a certificate");
    let leaf = answer.leaf_certificate.into();
    let leaf = webpki::EndEntityCert::try_from(&leaf).expect("a certificate");
    assert!(leaf.valid_dns_names().eq([identity.as_str()]));
    assert!(answer.valid_until.is_some() && answer.intermediate_certificates.is_empty());
}

#[tokio::test]
async fn another_token_or_another_identity_gets_no_certificate() {
    let code = |answer: Result<CertifyResponse, Status>| answer.map(|_| ()).expect_err("no certificate").code();
    assert_eq!(code(certify("stolen", &names::identity(SERVER)).await), Code::PermissionDenied);
    assert_eq!(code(certify("token", &names::identity(CLIENT)).await), Code::InvalidArgument);
}
