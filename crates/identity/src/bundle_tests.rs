use rustls::pki_types::CertificateDer;

use super::{ANCHORS_MAX, BundleError, TrustBundle};
use crate::authority::SVID_LIFETIME;
use crate::fixtures::{authority, id};
use crate::x509::Validity;

fn error_of(text: &str) -> BundleError {
    TrustBundle::from_pem(text.as_bytes()).expect_err("it is no bundle")
}

#[test]
fn anchors_are_read_in_order_with_what_people_write_between() {
    let (old, new) = (authority("example.org"), authority("example.org"));
    let text = format!("# the old one\n{}\n\n# the new one\n{}", old.certificate_pem(), new.certificate_pem());
    let bundle = TrustBundle::from_pem(text.as_bytes()).expect("a bundle");
    assert_eq!(bundle.anchors().len(), 2);
    assert_eq!(bundle.roots().len(), 2);
    let only_old = TrustBundle::from_pem(old.certificate_pem().as_bytes()).expect("a bundle");
    assert_eq!(bundle.anchors().first(), only_old.anchors().first());
    assert_ne!(bundle, only_old);
}

#[test]
fn a_bundle_without_an_anchor_is_refused() {
    assert!(matches!(error_of(""), BundleError::Empty));
    assert!(matches!(error_of("nothing here"), BundleError::Empty));
    assert!(matches!(error_of(&authority("example.org").key_pem()), BundleError::Empty));
}

#[test]
fn a_bundle_that_is_half_written_is_refused() {
    let text = authority("example.org").certificate_pem().to_owned();
    // Cut the text at every position from inside the first line of base64 to inside the END line.
    for length in 40..text.len() - 4 {
        let error = error_of(&text[..length]);
        assert!(matches!(error, BundleError::Pem(_)), "{length} bytes: {error:?}");
    }
}

#[test]
fn a_workloads_certificate_is_no_anchor() {
    let ca = authority("example.org");
    let now = std::time::SystemTime::now();
    let validity = Validity::starting(now, SVID_LIFETIME);
    let pair = ca.issue_key_pair(&id("cart"), validity, now).expect("a key pair");
    let error = error_of(&format!("{}{}", ca.certificate_pem(), pair.certificate));
    assert_eq!(error.to_string(), "its certificate 2 is not of a certificate authority; remove it");
}

#[test]
fn bytes_that_are_no_certificate_are_no_anchor() {
    let error = TrustBundle::new(vec![CertificateDer::from(vec![48, 1, 0])]).expect_err("no certificate");
    assert!(matches!(error, BundleError::Malformed { position: 1 }), "{error:?}");
}

#[test]
fn a_bundle_has_a_limit() {
    let text = authority("example.org").certificate_pem().repeat(ANCHORS_MAX);
    assert!(TrustBundle::from_pem(text.as_bytes()).is_ok());
    let more = format!("{text}{}", authority("example.org").certificate_pem());
    assert!(matches!(error_of(&more), BundleError::TooMany));
}
