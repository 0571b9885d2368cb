use std::time::{Duration, SystemTime};

use leno_model::spiffe::SpiffeId;
use rcgen::{CertificateParams, DnType, IsCa, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P384_SHA384, SanType};
use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::{Authority, BadAuthority, CLOCK_SKEW, CSR_MAX_BYTES, SVID_LIFETIME, SignError};
use crate::fixtures::{HOUR, authority, bundle, id};
use crate::svid::Request;
use crate::x509::{Validity, trust_domain, validity};

fn day() -> Validity {
    Validity::starting(SystemTime::now(), SVID_LIFETIME)
}

/// Asks an authority of `example.org` to certify `cart`. The signing request has the content `params`, and is signed
/// with `key`.
fn sign(params: &CertificateParams, key: &KeyPair) -> Result<CertificateDer<'static>, SignError> {
    let csr = params.serialize_request(key).expect("a request");
    authority("example.org").sign(&id("cart"), csr.der(), day(), SystemTime::now())
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key")
}

fn named(names: Vec<SanType>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.subject_alt_names = names;
    params
}

fn uri(text: &str) -> SanType {
    SanType::URI(text.try_into().expect("ASCII"))
}

fn parse<'a>(certificate: &'a CertificateDer<'_>) -> X509Certificate<'a> {
    X509Certificate::from_der(certificate).expect("a certificate").1
}

#[test]
fn a_certificate_has_the_id_and_nothing_of_what_else_was_asked_for() {
    let mut greedy = named(vec![uri(&id("cart").to_string())]);
    greedy.distinguished_name.push(DnType::CommonName, "example.org");
    greedy.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    greedy.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let certificate = sign(&greedy, &key()).expect("a certificate");
    let parsed = parse(&certificate);
    assert!(!parsed.is_ca());
    assert_eq!(parsed.subject().iter().count(), 0);
    let usage = parsed.key_usage().expect("well-formed").expect("there is one").value;
    assert!(usage.digital_signature() && !usage.key_cert_sign() && usage.flags.count_ones() == 1);
    let purposes = parsed.extended_key_usage().expect("well-formed").expect("there is one").value;
    assert!(purposes.client_auth && purposes.server_auth && !purposes.any && !purposes.code_signing);
    let names = &parsed.subject_alternative_name().expect("well-formed").expect("there is one").value.general_names;
    assert_eq!(*names, [GeneralName::URI("spiffe://example.org/ns/shop/sa/cart")]);
}

#[test]
fn a_certificate_starts_before_now_and_ends_after_its_lifetime() {
    let now = SystemTime::now();
    let request = Request::new(id("cart")).expect("a request");
    let ca = authority("example.org");
    let certificate = ca.sign(&id("cart"), request.csr(), Validity::starting(now, HOUR), now).expect("a certificate");
    let found = validity(&certificate).expect("it has dates");
    let (backdated, left) = (now.duration_since(found.not_before), found.not_after.duration_since(now));
    let second = Duration::from_secs(1);
    assert!((CLOCK_SKEW..CLOCK_SKEW + second).contains(&backdated.expect("in the past")));
    assert!((HOUR - second..=HOUR).contains(&left.expect("in the future")));
}

#[test]
fn serial_numbers_are_random_positive_and_long() {
    let (ca, key) = (authority("example.org"), key());
    let csr = named(Vec::new()).serialize_request(&key).expect("a request");
    let serials: Vec<_> = (0..50)
        .map(|_| {
            let certificate = ca.sign(&id("cart"), csr.der(), day(), SystemTime::now()).expect("a certificate");
            parse(&certificate).raw_serial().to_vec()
        })
        .collect();
    for serial in &serials {
        assert_eq!(serial.len(), 16);
        assert!(serial[0] & 0x80 == 0 && serial[0] != 0, "{serial:?}");
    }
    let mut distinct = serials.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), serials.len(), "of one key, too");
}

#[test]
fn a_request_may_leave_the_name_to_the_authority() {
    assert!(sign(&named(Vec::new()), &key()).is_ok());
}

#[test]
fn a_request_that_names_somebody_else_is_refused() {
    for name in [
        uri(&id("web").to_string()),
        uri("spiffe://example.com/ns/shop/sa/cart"),
        SanType::DnsName("cart.shop".try_into().expect("ASCII")),
        SanType::IpAddress([10, 0, 0, 1].into()),
    ] {
        let right = uri(&id("cart").to_string());
        let error = sign(&named(vec![right, name.clone()]), &key()).expect_err("it is refused");
        assert!(matches!(error, SignError::WrongName { .. }), "{name:?}: {error}");
        assert!(error.to_string().ends_with("and only spiffe://example.org/ns/shop/sa/cart may be certified"));
    }
}

#[test]
fn a_request_that_is_not_signed_with_its_own_key_is_refused() {
    let (ca, key) = (authority("example.org"), key());
    let params = named(vec![uri(&id("cart").to_string())]);
    let csr = params.serialize_request(&key).expect("a request").der().to_vec();
    let position_of = |part: &[u8]| csr.windows(part.len()).position(|window| window == part).expect("it is there");
    for position in [position_of(key.public_key_raw()) + 1, position_of(b"sa/cart") + 3, csr.len() - 1] {
        let mut changed = csr.clone();
        changed[position] ^= 1;
        let signed = ca.sign(&id("cart"), &changed, day(), SystemTime::now());
        assert!(matches!(signed, Err(SignError::Request(_))), "byte {position}: {signed:?}");
    }
}

#[test]
fn keys_of_other_kinds_and_requests_that_are_too_long_are_refused() {
    let p384 = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).expect("a key");
    assert!(matches!(sign(&named(Vec::new()), &p384), Err(SignError::KeyKind)));
    let long = vec![48; CSR_MAX_BYTES + 1];
    let refused = authority("example.org").sign(&id("cart"), &long, day(), SystemTime::now());
    assert!(matches!(refused, Err(SignError::TooLong(_))), "{refused:?}");
}

#[test]
fn the_longest_id_fits_into_a_request() {
    let name = "a".repeat(253);
    let longest = format!("spiffe://{}/ns/{name}/sa/{name}", "d".repeat(255)).parse::<SpiffeId>().expect("an id");
    let ca = authority(longest.trust_domain.as_str());
    let request = Request::new(longest.clone()).expect("a request");
    assert!(ca.sign(&longest, request.csr(), day(), SystemTime::now()).is_ok(), "{} bytes", request.csr().len());
}

#[test]
fn workloads_of_another_trust_domain_are_not_certified() {
    let request = Request::new(id("cart")).expect("a request");
    let error =
        authority("example.com").sign(&id("cart"), request.csr(), day(), SystemTime::now()).expect_err("it is refused");
    assert!(error.to_string().contains("is not of this authority's trust domain, example.com"), "{error}");
}

#[test]
fn no_certificate_outlives_its_authority() {
    let ten_years = 3_652 * 24 * HOUR;
    let old = Authority::create("example.org".parse().expect("a trust domain"), SystemTime::now() - ten_years + HOUR)
        .expect("an authority");
    let request = Request::new(id("cart")).expect("a request");
    let certificate = old.sign(&id("cart"), request.csr(), day(), SystemTime::now()).expect("a certificate");
    let left = validity(&certificate).expect("it has dates").not_after.duration_since(SystemTime::now());
    assert!(left.expect("in the future") <= HOUR);

    let later = SystemTime::now() + 2 * HOUR;
    let signed = old.sign(&id("cart"), request.csr(), Validity::starting(later, SVID_LIFETIME), later);
    assert!(matches!(signed, Err(SignError::Expired)));
}

#[test]
fn an_authority_signs_nothing_from_the_moment_of_its_expiry() {
    let now = SystemTime::now();
    let anchor = Authority::create_anchor("example.org".parse().expect("a trust domain"), now).expect("an anchor");
    let expiring = anchor.delegate(now, HOUR).expect("an authority");
    let request = Request::new(id("cart")).expect("a request");
    let sign = |at: SystemTime| expiring.sign(&id("cart"), request.csr(), Validity::starting(at, SVID_LIFETIME), at);
    let second = Duration::from_secs(1);
    assert!(sign(now + HOUR - second).is_ok());
    // A new certificate is valid from some time before its issue, so the certificate would still overlap with the
    // authority's validity here.
    for at in [now + HOUR, now + HOUR + second, now + HOUR + CLOCK_SKEW - second] {
        assert!(matches!(sign(at), Err(SignError::Expired)), "{at:?}");
    }
    assert!(matches!(anchor.delegate(anchor.validity().not_after, HOUR), Err(SignError::Expired)));
}

/// `leno ca issue --not-before` sets the start of a validity.
#[test]
fn an_early_or_late_start_of_the_validity_changes_nothing_about_the_authoritys_expiry() {
    let now = SystemTime::now();
    let anchor = Authority::create_anchor("example.org".parse().expect("a trust domain"), now).expect("an anchor");
    let expiring = anchor.delegate(now, HOUR).expect("an authority");
    let capped = |not_before: SystemTime, at: SystemTime| {
        expiring.capped(Validity { not_before, not_after: not_before + HOUR }, at)
    };
    assert!(matches!(capped(now, now + 2 * HOUR), Err(SignError::Expired)), "an expired authority signs nothing");
    let late = capped(now + HOUR - CLOCK_SKEW / 2, now).expect("the authority has not expired");
    assert_eq!(late.not_after, expiring.validity().not_after);
    assert!(matches!(capped(now + HOUR, now), Err(SignError::Expired)), "the certificate would never be valid");
}

#[test]
fn an_authority_is_read_as_it_was_written() {
    let ca = authority("example.org");
    let again = Authority::from_pem(ca.certificate_pem(), &ca.key_pem()).expect("an authority");
    assert_eq!(again.trust_domain(), ca.trust_domain());
    let request = Request::new(id("cart")).expect("a request");
    let certificate = again.sign(&id("cart"), request.csr(), day(), SystemTime::now()).expect("a certificate");
    assert!(request.accept(vec![certificate], &crate::fixtures::bundle(&[&ca]), SystemTime::now()).is_ok());
}

#[test]
fn a_private_key_beside_a_certificate_does_not_leave_with_the_certificate() {
    let ca = authority("example.org");
    let combined = format!("{}# both\n{}", ca.key_pem(), ca.certificate_pem());
    let read = Authority::from_pem(&combined, &ca.key_pem()).expect("an authority");
    assert_eq!(read.certificate_pem(), ca.certificate_pem());
}

#[test]
fn an_authoritys_certificate_names_its_trust_domain() {
    let ca = authority("example.org");
    let bundle = crate::fixtures::bundle(&[&ca]);
    assert_eq!(trust_domain(&bundle.anchors()[0]).as_ref(), Some(ca.trust_domain()));
}

#[test]
fn texts_that_make_no_authority_are_refused() {
    let (ca, other) = (authority("example.org"), authority("example.org"));
    let read = |certificate: &str, key: &str| Authority::from_pem(certificate, key).map(drop);
    let pair = ca.issue_key_pair(&id("cart"), day(), SystemTime::now()).expect("a key pair");
    assert!(matches!(read(ca.certificate_pem(), &other.key_pem()), Err(BadAuthority::Mismatch)));
    assert!(matches!(read(&pair.certificate, &pair.private_key), Err(BadAuthority::Certificate)));
    assert!(matches!(read("", &ca.key_pem()), Err(BadAuthority::Certificate)));
    assert!(matches!(read(ca.certificate_pem(), ca.certificate_pem()), Err(BadAuthority::Key(_))));
}

#[test]
fn peers_believe_a_delegate_by_its_anchor_alone() {
    let now = SystemTime::now();
    let anchor = Authority::create_anchor("example.org".parse().expect("a trust domain"), now).expect("an anchor");
    let delegate = anchor.delegate(now, HOUR).expect("a delegate");
    let read = Authority::from_pem(delegate.certificate_pem(), &delegate.key_pem()).expect("the delegate");
    let request = Request::new(id("cart")).expect("a request");
    let mut chain = vec![read.sign(request.id(), request.csr(), day(), SystemTime::now()).expect("a certificate")];
    chain.extend_from_slice(read.certificates());
    let svid = request.accept(chain, &bundle(&[&anchor]), now).expect("an SVID");
    // The SVID expires no later than its authority.
    assert!(svid.not_after <= now + HOUR);
}

#[test]
fn a_delegate_cannot_delegate() {
    let now = SystemTime::now();
    let anchor = Authority::create_anchor("example.org".parse().expect("a trust domain"), now).expect("an anchor");
    let delegate = anchor.delegate(now, HOUR).expect("a delegate");
    let second = delegate.delegate(now, HOUR).expect("a certificate, though nobody believes it");
    let request = Request::new(id("cart")).expect("a request");
    let mut chain = vec![second.sign(request.id(), request.csr(), day(), SystemTime::now()).expect("a certificate")];
    chain.extend([second.certificates(), delegate.certificates()].concat());
    request.accept(chain, &bundle(&[&anchor]), now).expect_err("a chain that is longer than the anchor allows");
}

#[test]
fn an_authority_must_have_a_quarter_left_but_a_day_at_least_and_a_week_at_most() {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    for (days, least) in [(1, DAY), (2, DAY), (8, 2 * DAY), (28, 7 * DAY), (365, 7 * DAY)] {
        let now = SystemTime::now();
        let validity = Validity { not_before: now, not_after: now + days * DAY };
        assert_eq!(validity.least_left(), least, "{days} days");
    }
}
