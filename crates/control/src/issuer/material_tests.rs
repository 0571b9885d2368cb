use std::time::UNIX_EPOCH;

use leno_identity::svid::Request;

use super::*;

fn ours() -> TrustDomain {
    "cluster.local".parse().expect("a trust domain")
}

fn created(now: SystemTime) -> Material {
    Material::create(ours(), now).expect("an authority")
}

fn secret(data: BTreeMap<String, ByteString>) -> Secret {
    Secret { data: Some(data), ..Secret::default() }
}

fn refusal(data: BTreeMap<String, ByteString>) -> String {
    Material::read(&secret(data), &ours()).expect_err("a Secret that cannot be used").to_string()
}

#[test]
fn what_was_made_is_read_back_and_certifies() {
    let now = SystemTime::now();
    let made = created(now);
    let read = Material::read(&secret(made.data()), &ours()).expect("what was written");
    assert_eq!(read.data(), made.data());
    let request = Request::new("spiffe://cluster.local/ns/shop/sa/cart".parse().expect("an id")).expect("a request");
    let signing = read.signing();
    let chain = signing.certify(request.id(), request.csr()).expect("a chain");
    assert_eq!(chain.len(), 2, "the workload's certificate and the issuing authority's");
    request.accept(chain, &signing.trust().bundle, now).expect("an SVID that peers believe");
}

#[test]
fn it_is_renewed_after_two_thirds_of_its_life_by_the_same_anchor() {
    let now = SystemTime::now();
    let made = created(now);
    assert!(!made.is_due(now + LIFETIME / 2));
    assert!(made.is_due(now + LIFETIME * 7 / 10));
    let later = now + LIFETIME * 7 / 10;
    let renewed = made.renewed(later).expect("it is ours").expect("a new authority");
    assert!(!renewed.is_due(later));
    assert_ne!(renewed.signing().trust().signer, made.signing().trust().signer);
    assert_eq!(renewed.signing().trust().bundle, made.signing().trust().bundle);
}

#[test]
fn an_authority_from_a_clock_that_was_ahead_is_renewed_once_when_the_clock_is_right_again() {
    let now = SystemTime::now();
    let made = created(now + LIFETIME * 4);
    assert!(made.is_due(now), "it is not valid before a year is over");
    let renewed = made.renewed(now).expect("it is ours").expect("a new authority");
    assert!(!renewed.is_due(now) && renewed.is_due(now + LIFETIME * 7 / 10));
    assert_eq!(renewed.signing().trust().bundle, made.signing().trust().bundle);
    assert!(!created(now + Duration::from_secs(60)).is_due(now), "clocks are corrected by seconds all the time");
}

#[test]
fn one_without_the_anchors_key_is_somebody_elses_to_renew() {
    let mut data = created(UNIX_EPOCH + LIFETIME).data();
    data.remove(ANCHOR_KEY);
    let read = Material::read(&secret(data), &ours()).expect("what cert-manager writes");
    assert!(!read.is_due(SystemTime::now()) && read.renewed(SystemTime::now()).is_none());
}

#[test]
fn a_ca_key_that_another_program_has_left_in_its_secret_is_ignored() {
    let now = SystemTime::now();
    let (first, next) = (created(now), created(now));
    let mut data = next.data();
    data.insert(ANCHOR_KEY.to_owned(), first.data()[ANCHOR_KEY].clone());
    assert!(refusal(data.clone()).starts_with("its ca.crt and ca.key: "));
    let read = Material::read_external(&secret(data), &ours()).expect("what the other program has written");
    assert!(!read.is_ours() && !read.is_due(now + LIFETIME));
    assert_eq!(read.signing().trust(), next.signing().trust());
}

#[test]
fn an_authority_that_is_its_own_anchor_is_not_sent_along() {
    let authority = Authority::create(ours(), SystemTime::now()).expect("an authority");
    let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
    let data = BTreeMap::from([
        (ISSUER_CERTIFICATE.to_owned(), bytes(authority.certificate_pem())),
        (KEY.to_owned(), bytes(&authority.key_pem())),
        (ANCHORS.to_owned(), bytes(authority.certificate_pem())),
    ]);
    let signing = Material::read(&secret(data), &ours()).expect("a Secret").signing();
    let request = Request::new("spiffe://cluster.local/ns/shop/sa/cart".parse().expect("an id")).expect("a request");
    assert_eq!(signing.certify(request.id(), request.csr()).expect("a chain").len(), 1);
}

#[test]
fn an_authority_that_does_not_lead_to_its_anchors_is_refused() {
    let now = SystemTime::now();
    let (old, new) = (created(now), created(now));
    let with_anchors = |anchors: &str| {
        let mut data = new.data();
        data.remove(ANCHOR_KEY);
        data.insert(ANCHORS.to_owned(), ByteString(anchors.as_bytes().to_vec()));
        data
    };
    let said = refusal(with_anchors(&old.bundle.to_pem()));
    assert!(
        said.starts_with("its tls.crt does not lead to an anchor in its ca.crt (") && said.contains("; write"),
        "{said}"
    );
    let both = format!("{}{}", old.bundle.to_pem(), new.bundle.to_pem());
    Material::read(&secret(with_anchors(&both)), &ours()).expect("one of two anchors is enough");
}

/// The data of a new Secret, with `count` certificates of other authorities appended to the entry `key`.
fn with_further_certificates(key: &str, count: usize) -> BTreeMap<String, ByteString> {
    let now = SystemTime::now();
    let mut data = created(now).data();
    let entry = data.get_mut(key).expect("an entry of every Secret");
    (0..count).for_each(|_| entry.0.extend(created(now).bundle.to_pem().into_bytes()));
    data
}

#[test]
fn a_chain_that_is_too_long_is_not_cut() {
    let said = refusal(with_further_certificates(ISSUER_CERTIFICATE, 3));
    assert!(
        said.starts_with("its tls.crt leads to chains of 5 certificates, and a chain has at most 4; keep"),
        "{said}"
    );
}

#[test]
fn more_anchors_than_a_chain_has_certificates_are_read() {
    let data = with_further_certificates(ANCHORS, 6);
    let read = Material::read(&secret(data), &ours()).expect("seven anchors");
    assert!(read.is_ours() && read.bundle.anchors().len() == 7);
}

#[test]
fn a_secret_that_cannot_be_used_says_which_key_is_wrong() {
    let good = created(SystemTime::now()).data();
    let with = |key: &str, text: &str| {
        let mut data = good.clone();
        data.insert(key.to_owned(), ByteString(text.as_bytes().to_vec()));
        refusal(data)
    };
    for key in [ISSUER_CERTIFICATE, KEY, ANCHORS] {
        let mut data = good.clone();
        data.remove(key);
        assert!(refusal(data).starts_with(&format!("it has no {key}; ")));
    }
    assert!(with(ISSUER_CERTIFICATE, "nonsense").starts_with("its tls.crt and tls.key: "));
    assert!(with(ANCHORS, "nonsense").starts_with("its ca.crt: "));
    let other =
        Authority::create("example.org".parse().expect("a trust domain"), SystemTime::now()).expect("an authority");
    assert!(with(ANCHOR_KEY, &other.key_pem()).starts_with("its ca.crt and ca.key: "));
    let foreign =
        Material::create("example.org".parse().expect("a trust domain"), SystemTime::now()).expect("an authority");
    assert!(refusal(foreign.data()).starts_with("its trust domain is example.org, and the mesh's is cluster.local; "));
}

#[test]
fn a_private_key_beside_the_certificates_is_reported_and_not_published() {
    let made = created(SystemTime::now());
    let mut data = made.data();
    for (entry, key) in [(ISSUER_CERTIFICATE, KEY), (ANCHORS, ANCHOR_KEY)] {
        let key = data[key].0.clone();
        data.get_mut(entry).expect("an entry").0.extend(key);
    }
    let secret = secret(data);
    let label = || "PRIVATE KEY".to_owned();
    assert_eq!(Material::foreign_blocks(&secret), [(ISSUER_CERTIFICATE, label()), (ANCHORS, label())]);
    let read = Material::read(&secret, &ours()).expect("a usable Secret");
    let signing = read.signing();
    assert_eq!(signing.anchors_pem, made.signing().anchors_pem);
    assert_eq!(signing.trust().signer, made.signing().trust().signer);
    assert!(!signing.trust().signer.0.contains('-'), "a digest");
    assert_eq!(read.data(), made.data(), "the next write leaves out the keys");
}
