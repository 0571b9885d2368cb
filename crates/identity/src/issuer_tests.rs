use std::fs;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::SystemTime;

use tempfile::TempDir;

use super::{Issuer, LocalIssuer, Trust, obtain};
use crate::authority::Authority;
use crate::directory::{BUNDLE_FILE, CERTIFICATE_FILE, KEY_FILE, write_authority};
use crate::fixtures::{HOUR, authority, id};
use crate::issuer::IssueError;
use crate::svid::Svid;

fn directory(authority: &Authority) -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    write_authority(directory.path(), authority).expect("written");
    directory
}

fn open(directory: &TempDir) -> LocalIssuer {
    LocalIssuer::open(directory.path()).expect("an issuer")
}

/// Requests a certificate for a workload by polling only once: a local issuer never waits.
fn issue(issuer: &dyn Issuer) -> Result<(Svid, Trust), IssueError> {
    let workload = "ns/shop/sa/cart".parse().expect("a workload");
    match pin!(obtain(issuer, &workload)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("it waits for something"),
    }
}

fn write_signer(directory: &Path, authority: &Authority) {
    fs::write(directory.join(CERTIFICATE_FILE), authority.certificate_pem()).expect("written");
    fs::write(directory.join(KEY_FILE), authority.key_pem()).expect("written");
}

#[test]
fn a_local_issuer_certifies_workloads_of_its_authoritys_trust_domain() {
    let directory = directory(&authority("example.org"));
    let issuer = open(&directory).with_lifetime(HOUR);
    let (svid, trust) = issue(&issuer).expect("an SVID");
    assert_eq!(svid.id, id("cart"));
    assert!(svid.not_after <= SystemTime::now() + HOUR);
    assert_eq!(trust, issuer.trust().expect("whom to trust"));
}

#[test]
fn every_svid_has_a_key_of_its_own() {
    let directory = directory(&authority("example.org"));
    let issuer = open(&directory);
    let key = |svid: &Svid| svid.certified_key().key.public_key().expect("a public key").to_vec();
    let (first, second) = (issue(&issuer).expect("an SVID").0, issue(&issuer).expect("an SVID").0);
    assert_ne!(key(&first), key(&second));
}

#[test]
fn files_that_were_exchanged_are_used_from_then_on() {
    let (old, new) = (authority("example.org"), authority("example.org"));
    let directory = directory(&old);
    let issuer = open(&directory);
    let before = issuer.trust().expect("whom to trust");

    let both = format!("{}{}", old.certificate_pem(), new.certificate_pem());
    fs::write(directory.path().join(BUNDLE_FILE), both).expect("written");
    let with_both = issuer.trust().expect("whom to trust");
    assert_eq!(with_both.signer, before.signer);
    assert_eq!(with_both.bundle.anchors().len(), 2);

    // A comment in the file does not change the signer.
    let commented = format!("# ours\n{}", old.certificate_pem());
    fs::write(directory.path().join(CERTIFICATE_FILE), commented).expect("written");
    assert_eq!(issuer.trust().expect("whom to trust").signer, before.signer);

    write_signer(directory.path(), &new);
    assert_ne!(issuer.trust().expect("whom to trust").signer, before.signer);
    let (svid, _) = issue(&issuer).expect("an SVID");
    assert!(svid.verify(&crate::fixtures::bundle(&[&new]), SystemTime::now()).is_ok());
}

#[test]
fn an_authority_that_is_not_in_its_own_bundle_certifies_nobody() {
    let directory = directory(&authority("example.org"));
    write_signer(directory.path(), &authority("example.org"));
    let error = issue(&open(&directory)).expect_err("nobody would believe it").to_string();
    assert!(error.contains("add its anchor to the trust bundle"), "{error}");
}

#[test]
fn another_trust_domain_needs_a_restart() {
    let directory = directory(&authority("example.org"));
    let issuer = open(&directory);
    write_authority(directory.path(), &authority("example.com")).expect("written");
    let error = issue(&issuer).expect_err("it is another's").to_string();
    assert!(error.contains("is now of the trust domain example.com and was of example.org; restart"), "{error}");
}

#[test]
fn a_directory_that_is_none_is_refused_at_the_start() {
    let error = LocalIssuer::open(Path::new("/proc/none")).expect_err("it is not there").to_string();
    assert!(error.starts_with("/proc/none/ca.crt: ") && error.contains("leno ca init"), "{error}");
}

/// A directory with an authority that `anchor` has certified, followed by the certificates `above`. The trust bundle
/// contains only the anchor.
fn delegated(anchor: &Authority, above: &[&Authority]) -> TempDir {
    let directory = directory(anchor);
    let delegate = anchor.delegate(SystemTime::now(), HOUR).expect("an authority");
    write_signer(directory.path(), &delegate);
    let chain: String = [&delegate].iter().chain(above).map(|authority| authority.certificate_pem()).collect();
    fs::write(directory.path().join(CERTIFICATE_FILE), chain).expect("written");
    directory
}

fn anchor() -> Authority {
    Authority::create_anchor("example.org".parse().expect("a trust domain"), SystemTime::now()).expect("an anchor")
}

#[test]
fn a_chain_has_the_certificates_between_the_authority_and_its_anchor() {
    let (former, anchor) = (anchor(), anchor());
    for above in [&[][..], &[&anchor][..]] {
        let (svid, _) = issue(&open(&delegated(&anchor, above))).expect("an SVID that peers accept");
        assert_eq!(svid.chain().len(), 2, "without the anchor");
    }
    let (svid, _) = issue(&open(&delegated(&anchor, &[&anchor, &former, &former, &former]))).expect("an SVID");
    assert_eq!(svid.chain().len(), 2, "without what follows the anchor");
}

#[test]
fn a_certificate_is_never_left_out_of_a_chain_that_is_too_long() {
    let (anchor, foreign) = (anchor(), anchor());
    let error = issue(&open(&delegated(&anchor, &[&foreign; 3]))).expect_err("five certificates").to_string();
    assert!(error.starts_with("the issuer sent 5 certificates, and a chain has at most 4; keep only"), "{error}");
}
