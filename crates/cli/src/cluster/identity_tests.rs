use std::time::{Duration, UNIX_EPOCH};

use leno_identity::authority::Authority;
use rustls::pki_types::pem::PemObject;
use serde_json::json;

use super::*;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn now() -> SystemTime {
    UNIX_EPOCH + 20_000 * DAY
}

/// An authority, and a certificate chain that it issued.
fn certified(id: &str) -> (Authority, Vec<CertificateDer<'static>>) {
    let authority = Authority::create("example.org".parse().expect("a trust domain"), now()).expect("an authority");
    let id = id.parse().expect("an id");
    let pair = authority.issue_key_pair(&id, Validity::starting(now(), DAY), now()).expect("a certificate");
    let chain = CertificateDer::pem_slice_iter(pair.certificate.as_bytes()).collect::<Result<_, _>>().expect("PEM");
    (authority, chain)
}

fn bundle(text: &str) -> TrustBundle {
    TrustBundle::from_pem(text.as_bytes()).expect("anchors")
}

fn pod(account: &str) -> Pod {
    let metadata = json!({"namespace": "shop", "name": "web-1"});
    serde_json::from_value(json!({"metadata": metadata, "spec": {"serviceAccountName": account, "containers": []}}))
        .expect("a Pod")
}

#[test]
fn a_proxys_certificate_is_shown_with_its_id_and_how_long_it_is_valid() {
    let (authority, chain) = certified("spiffe://example.org/ns/shop/sa/web");
    let own = bundle(authority.certificate_pem());
    let shown = conclude(&pod("web"), &chain, Some(&own), now() + DAY / 2);
    assert_eq!(shown.identity.as_deref(), Some("spiffe://example.org/ns/shop/sa/web"));
    assert_eq!((shown.problem.as_deref(), shown.expires.as_str()), (None, "in 12 h"));
    assert_eq!(shown.not_after.as_deref(), Some("2024-10-05T00:00:00Z"));
    assert_eq!((shown.authority_not_after.is_some(), shown.warning.as_deref()), (true, None));
    let text = table(&[shown]);
    assert!(text.starts_with("NAMESPACE   POD     IDENTITY "), "{text}");
    assert!(text.lines().nth(1).is_some_and(|line| line.ends_with("in 12 h   yes")), "{text}");
}

#[test]
fn an_authority_with_a_short_life_is_named_when_it_cuts_certificates_short() {
    let authority = |days: u32| Validity::starting(now(), days * DAY);
    let named = |days, left: Duration| warning("CN=issuer", &authority(days), now() + days * DAY - left).is_some();
    // An authority is named once less than a quarter of its lifetime is left. This limit is at least 24 hours, the
    // lifetime of a workload's certificate, and at most a week. With a lifetime of two days, the 24 hours apply.
    assert!(!named(2, DAY + DAY / 24) && named(2, DAY - DAY / 24));
    assert!(!named(8, 2 * DAY + DAY / 24) && named(8, 2 * DAY - DAY / 24), "a quarter");
    assert!(!named(365, 7 * DAY) && named(365, 7 * DAY - DAY / 24));
}

#[test]
fn an_authority_that_expires_soon_is_named_once() {
    let (anchor, _) = certified("spiffe://example.org/ns/shop/sa/web");
    let authority = anchor.delegate(now(), 30 * DAY).expect("an authority");
    let id = "spiffe://example.org/ns/shop/sa/web".parse().expect("an id");
    let pair = authority.issue_key_pair(&id, Validity::starting(now(), 30 * DAY), now()).expect("a certificate");
    let pem = [pair.certificate.as_str(), authority.certificate_pem()].concat();
    let chain: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().expect("PEM");
    let own = bundle(anchor.certificate_pem());
    let after = |days| conclude(&pod("web"), &chain, Some(&own), now() + days * DAY);
    assert_eq!(after(22).warning, None);
    let shown = || after(27);
    assert_eq!(shown().authority_not_after.as_deref(), Some("2024-11-03T00:00:00Z"));
    let text = table(&[shown(), shown()]);
    let told = "expires in 3 days, and all its certificates with it; leno check";
    assert_eq!((text.matches("the authority CN=").count(), text.matches(told).count()), (1, 1), "{text}");
}

#[test]
fn a_certificate_of_another_account_of_another_authority_or_over_is_not_believed() {
    let (authority, chain) = certified("spiffe://example.org/ns/shop/sa/web");
    let own = bundle(authority.certificate_pem());
    let other = bundle(certified("spiffe://example.org/ns/shop/sa/web").0.certificate_pem());
    let problem = |account: &str, bundle, at| conclude(&pod(account), &chain, bundle, at).problem.expect("a problem");
    assert_eq!(
        problem("cart", Some(&own), now()),
        "it is not the certificate of its service account: .../ns/shop/sa/cart"
    );
    assert!(problem("web", Some(&other), now()).starts_with("no anchor verifies it: "));
    assert!(problem("web", Some(&own), now() + 2 * DAY).contains("expired"));
    assert!(problem("web", None, now()).starts_with("there is no ConfigMap leno/leno-trust-bundle"));
    assert_eq!(conclude(&pod("web"), &[], Some(&own), now()).problem.as_deref(), Some("its certificate is malformed"));
}
