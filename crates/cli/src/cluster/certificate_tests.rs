use leno_identity::authority::Authority;

use super::*;

fn authority(now: SystemTime) -> Authority {
    Authority::create("example.org".parse().expect("a trust domain"), now).expect("an authority")
}

#[test]
fn a_workloads_certificate_says_who_it_is_who_signed_it_and_until_when() {
    let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let id = "spiffe://example.org/ns/shop/sa/web".parse().expect("an id");
    let validity = Validity::starting(now, Duration::from_secs(DAY));
    let pair = authority(now).issue_key_pair(&id, validity, now).expect("a certificate");
    let all = Certificate::read_all(pair.certificate.as_bytes()).expect("certificates");
    assert_eq!(all[0].uris, ["spiffe://example.org/ns/shop/sa/web"]);
    assert_eq!(all[0].validity.not_after, now + Duration::from_secs(DAY));
    assert!(!all[0].issuer.is_empty());
}

#[test]
fn only_an_authoritys_certificate_names_a_trust_domain() {
    let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let mut certificate = Certificate::read_all(authority(now).certificate_pem().as_bytes()).expect("one").remove(0);
    assert_eq!(certificate.trust_domain(), Some("example.org"));
    for uris in [&["spiffe://example.org/ns/shop/sa/web"][..], &["https://example.org"], &["spiffe://"], &[]] {
        certificate.uris = uris.iter().map(ToString::to_string).collect();
        assert_eq!(certificate.trust_domain(), None, "{uris:?}");
    }
    certificate.uris = vec!["spiffe://a".to_owned(), "spiffe://b".to_owned()];
    assert_eq!(certificate.trust_domain(), None);
}

#[test]
fn what_is_no_certificate_is_told() {
    assert_eq!(Certificate::read_all(b"hello"), Err("it has no certificate".to_owned()));
    let broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert_eq!(Certificate::read_all(broken), Err("a certificate in it is malformed".to_owned()));
}

#[test]
fn bundles_are_the_same_whatever_their_order() {
    let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let (a, b) = (authority(now), authority(now));
    let (a, b) = (a.certificate_pem(), b.certificate_pem());
    assert!(same_anchors(format!("{a}{b}").as_bytes(), format!("old and new\n{b}\n{a}").as_bytes()));
    assert!(!same_anchors(a.as_bytes(), b.as_bytes()));
    assert!(!same_anchors(b"", b""));
}

#[test]
fn times_are_told_in_the_unit_that_matters() {
    let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let told = |seconds: u64| relative(now + Duration::from_secs(seconds), now);
    assert_eq!(
        [told(59), told(3_599), told(7_199), told(7_210), told(86_399), told(59 * DAY + 5)],
        ["in 59 s", "in 59 min", "in 1 h 59 min", "in 2 h", "in 23 h", "in 59 days"]
    );
    assert_eq!(relative(now - Duration::from_secs(3 * HOUR), now), "3 h ago");
}
