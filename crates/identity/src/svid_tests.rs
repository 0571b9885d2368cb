use std::time::SystemTime;

use super::{CHAIN_MAX_CERTIFICATES, Request, Svid, SvidError};
use crate::authority::SVID_LIFETIME;
use crate::fixtures::{HOUR, authority, bundle, id, svid, svid_from};
use crate::peer::peer_id;
use crate::x509::Validity;

fn request() -> Request {
    Request::new(id("cart")).expect("a request")
}

/// Issues a certificate for the request `asked`, and passes it to the request `ours`.
fn answered(ours: Request, asked: &Request) -> Result<Svid, SvidError> {
    let (ca, now) = (authority("example.org"), SystemTime::now());
    let certificate = ca.sign(asked.id(), asked.csr(), Validity::starting(now, HOUR), now).expect("a certificate");
    ours.accept(vec![certificate], &bundle(&[&ca]), now)
}

#[test]
fn an_answer_to_the_request_is_an_svid() {
    let svid = svid(&authority("example.org"), &id("cart"));
    assert_eq!(svid.id, id("cart"));
    assert_eq!(peer_id(svid.chain()), Ok(id("cart")));
    let now = SystemTime::now();
    assert!(svid.not_before < now && svid.not_after > now + SVID_LIFETIME - HOUR);
}

#[test]
fn a_certificate_for_another_key_is_refused() {
    let error = answered(request(), &request()).expect_err("the key is another's");
    assert!(matches!(error, SvidError::KeyMismatch(_)), "{error}");
}

#[test]
fn a_certificate_for_another_workload_is_refused_and_both_are_named() {
    let error = answered(request(), &Request::new(id("web")).expect("a request")).expect_err("it is another's");
    assert_eq!(
        error.to_string(),
        "the issuer certified spiffe://example.org/ns/shop/sa/web and not spiffe://example.org/ns/shop/sa/cart; \
         check what it has configured for this workload"
    );
}

#[test]
fn a_certificate_that_its_own_bundle_does_not_vouch_for_is_refused() {
    let (ca, now, request) = (authority("example.org"), SystemTime::now(), request());
    let certificate = ca.sign(&id("cart"), request.csr(), Validity::starting(now, HOUR), now).expect("a certificate");
    let error = request.accept(vec![certificate], &bundle(&[&authority("example.org")]), now).expect_err("no anchor");
    assert!(error.to_string().contains("UnknownIssuer"), "{error}");
}

#[test]
fn a_certificate_that_is_not_valid_now_is_refused() {
    for start in [SystemTime::now() - 2 * HOUR, SystemTime::now() + HOUR] {
        let (ca, request) = (authority("example.org"), request());
        let certificate =
            ca.sign(&id("cart"), request.csr(), Validity::starting(start, HOUR), start).expect("a certificate");
        let error = request.accept(vec![certificate], &bundle(&[&ca]), SystemTime::now()).expect_err("not now");
        assert!(matches!(error, SvidError::Refused(_)), "{error}");
    }
}

#[test]
fn a_chain_that_is_empty_or_too_long_is_refused() {
    let ca = authority("example.org");
    let certificate = svid(&ca, &id("cart")).chain()[0].clone();
    let refused = |length| {
        let chain = vec![certificate.clone(); length];
        request().accept(chain, &bundle(&[&ca]), SystemTime::now()).expect_err("no chain")
    };
    assert!(matches!(refused(0), SvidError::Empty));
    assert!(matches!(refused(CHAIN_MAX_CERTIFICATES + 1), SvidError::Length(5)));
}

#[test]
fn an_svid_passes_a_bundle_for_as_long_as_its_anchor_is_there_and_it_is_valid() {
    let (old, new, now) = (authority("example.org"), authority("example.org"), SystemTime::now());
    let svid = svid_from(&old, &id("cart"), now, HOUR);
    assert_eq!(svid.verify(&bundle(&[&new, &old]), now), Ok(()));
    assert!(svid.verify(&bundle(&[&new]), now).is_err());
    assert!(svid.verify(&bundle(&[&old]), now + 2 * HOUR).is_err());
}

#[test]
fn what_is_printed_of_a_request_or_an_svid_has_no_key() {
    let request = request();
    let key = request.key.serialize_der();
    // These 32 bytes of the key's PKCS #8 form are the key itself.
    let secret = &key[36..68];
    let shown = format!("{request:?}");
    assert!(!shown.contains(&format!("{secret:?}").replace(['[', ']'], "")), "{shown}");
    assert!(format!("{:?}", svid(&authority("example.org"), &id("cart"))).contains("example.org"));
}
