use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::TlsIdentity;
use crate::authority::{Authority, SVID_LIFETIME};
use crate::directory::{BUNDLE_FILE, CERTIFICATE_FILE, KEY_FILE, write_authority};
use crate::issuer::LocalIssuer;
use crate::renewal::{RETRY_MAX, SIGNER_DELAY};
use tempfile::TempDir;

use super::Upkeep;

const SEED: u64 = 7;

fn authority() -> Authority {
    Authority::create("example.org".parse().expect("a trust domain"), SystemTime::now()).expect("an authority")
}

/// Makes a directory with an authority, and the upkeep of a workload that has an SVID from this authority.
async fn start() -> (TempDir, Authority, Upkeep) {
    let (directory, authority) = (tempfile::tempdir().expect("a directory"), authority());
    write_authority(directory.path(), &authority).expect("the files");
    let issuer = Box::new(LocalIssuer::open(directory.path()).expect("an issuer"));
    let workload = "ns/shop/sa/cart".parse().expect("a workload");
    let task = Upkeep::start(issuer, workload, SEED).await.expect("an SVID");
    (directory, authority, task)
}

fn write_bundle(directory: &Path, authorities: &[&Authority]) {
    let text: String = authorities.iter().map(|authority| authority.certificate_pem()).collect();
    fs::write(directory.join(BUNDLE_FILE), text).expect("the bundle");
}

fn write_signer(directory: &Path, authority: &Authority) {
    fs::write(directory.join(CERTIFICATE_FILE), authority.certificate_pem()).expect("the certificate");
    fs::write(directory.join(KEY_FILE), authority.key_pem()).expect("the key");
}

fn since_1970(time: SystemTime) -> Duration {
    time.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970")
}

fn identity(task: &Upkeep) -> Arc<TlsIdentity> {
    task.identity().borrow().clone()
}

/// Returns the number of issued certificates and the number of failures.
fn refreshes(task: &Upkeep) -> (u64, u64) {
    let metrics = task.metrics().get();
    (metrics.good_refreshes, metrics.bad_refreshes)
}

#[tokio::test]
async fn the_first_identity_is_there_at_the_start() {
    let (_directory, _, task) = start().await;
    let identity = identity(&task);
    assert_eq!(identity.id.to_string(), "spiffe://example.org/ns/shop/sa/cart");
    assert_eq!(refreshes(&task), (1, 0));
    let expiration = SystemTime::UNIX_EPOCH + task.metrics().get().expiration_since_1970;
    assert_eq!(expiration, identity.not_after);
    assert_eq!(task.metrics().get().anchors_expiration_since_1970, identity.bundle.not_after().map(since_1970));
}

#[tokio::test]
async fn the_metrics_follow_the_anchor_that_expires_last() {
    let (directory, authority, mut task) = start().await;
    let later = Authority::create(
        "example.org".parse().expect("a trust domain"),
        SystemTime::now() + Duration::from_secs(24 * 60 * 60),
    )
    .expect("an authority");
    let expires = |of: &Authority| Some(since_1970(of.validity().not_after)).map(|time| time.as_secs());
    let shown = |task: &Upkeep| task.metrics().get().anchors_expiration_since_1970.map(|time| time.as_secs());
    assert_eq!(shown(&task), expires(&authority));
    write_bundle(directory.path(), &[&authority, &later]);
    task.check(SystemTime::now()).await;
    assert_eq!(shown(&task), expires(&later));
}

#[tokio::test]
async fn a_directory_that_cannot_certify_fails_the_start_with_what_to_do() {
    let (directory, _, _) = start().await;
    write_bundle(directory.path(), &[&authority()]);
    let issuer = Box::new(LocalIssuer::open(directory.path()).expect("an issuer"));
    let workload = "ns/shop/sa/cart".parse().expect("a workload");
    let error = Upkeep::start(issuer, workload, SEED).await.err().expect("no anchor vouches for the authority");
    assert!(error.to_string().contains("add its anchor to the trust bundle"), "{error}");
}

#[tokio::test]
async fn nothing_is_published_while_nothing_is_due() {
    let (_directory, _, mut task) = start().await;
    let first = identity(&task);
    task.check(SystemTime::now()).await;
    task.check(SystemTime::now() + SVID_LIFETIME / 2).await;
    assert!(Arc::ptr_eq(&first, &identity(&task)));
    assert_eq!(refreshes(&task), (1, 0));
}

#[tokio::test]
async fn an_svid_is_renewed_before_it_expires() {
    let (_directory, _, mut task) = start().await;
    let (first, mut changes) = (identity(&task), task.identity());
    task.check(SystemTime::now() + SVID_LIFETIME.mul_f64(0.9)).await;
    assert!(changes.has_changed().expect("the task lives"));
    assert!(!Arc::ptr_eq(&first, &changes.borrow_and_update()));
    assert_eq!(refreshes(&task), (2, 0));
}

#[tokio::test]
async fn while_the_issuer_fails_the_last_identity_stays_and_it_is_asked_again() {
    let (directory, authority, mut task) = start().await;
    let first = identity(&task);
    let due = SystemTime::now() + SVID_LIFETIME.mul_f64(0.9);
    fs::remove_file(directory.path().join(KEY_FILE)).expect("the key");
    task.check(due).await;
    assert_eq!(refreshes(&task), (1, 1));
    task.check(due).await;
    assert_eq!(refreshes(&task), (1, 1), "not at once");
    task.check(due + RETRY_MAX).await;
    assert_eq!(refreshes(&task), (1, 2));
    assert!(Arc::ptr_eq(&first, &identity(&task)));

    write_signer(directory.path(), &authority);
    task.check(due + 2 * RETRY_MAX).await;
    assert_eq!(refreshes(&task), (2, 2));
    assert!(!Arc::ptr_eq(&first, &identity(&task)));
}

#[tokio::test]
async fn a_bundle_that_cannot_be_read_leaves_the_last_one_in_use() {
    let (directory, authority, mut task) = start().await;
    let first = identity(&task);
    fs::write(directory.path().join(BUNDLE_FILE), "-----BEGIN CERTIFICATE-----\nMIIB").expect("half a bundle");
    task.check(SystemTime::now()).await;
    assert!(Arc::ptr_eq(&first, &identity(&task)));
    assert!(task.trust_problem.is_some());
    write_bundle(directory.path(), &[&authority]);
    task.check(SystemTime::now()).await;
    assert!(task.trust_problem.is_none());
}

#[tokio::test]
async fn anchors_are_added_and_removed_and_the_signer_exchanged_without_a_restart() {
    let (directory, old, mut task) = start().await;
    let (new, now) = (authority(), SystemTime::now());
    let first = identity(&task);

    write_bundle(directory.path(), &[&old, &new]);
    task.check(now).await;
    let both = identity(&task);
    assert!(!Arc::ptr_eq(&first, &both), "the new bundle is in use");
    assert_eq!(refreshes(&task), (1, 0), "with the SVID that is good still");

    write_signer(directory.path(), &new);
    task.check(now).await;
    assert_eq!(refreshes(&task), (1, 0), "a peer may not know the new anchor yet");
    task.check(now + 2 * SIGNER_DELAY).await;
    assert_eq!(refreshes(&task), (2, 0));

    write_bundle(directory.path(), &[&new]);
    task.check(now + 2 * SIGNER_DELAY).await;
    assert_eq!(task.trust.bundle.anchors().len(), 1);
    assert_eq!(refreshes(&task), (2, 0), "the SVID is the new anchor's already");
}

#[tokio::test]
async fn an_svid_whose_anchor_was_removed_is_replaced_at_once() {
    let (directory, _, mut task) = start().await;
    let new = authority();
    write_signer(directory.path(), &new);
    write_bundle(directory.path(), &[&new]);
    task.check(SystemTime::now()).await;
    assert_eq!(refreshes(&task), (2, 0));
}

#[tokio::test]
async fn a_bundle_that_vouches_neither_for_us_nor_for_our_issuer_is_not_taken() {
    let (directory, _, mut task) = start().await;
    let first = identity(&task);
    let anchors_of = |task: &Upkeep| task.metrics().get().anchors_expiration_since_1970;
    let shown = anchors_of(&task);
    let stranger = Authority::create("example.org".parse().expect("a trust domain"), SystemTime::now() + SVID_LIFETIME);
    write_bundle(directory.path(), &[&stranger.expect("an authority")]);
    task.check(SystemTime::now()).await;
    assert_eq!(refreshes(&task), (1, 1));
    assert!(Arc::ptr_eq(&first, &identity(&task)));
    assert_eq!(anchors_of(&task), shown, "the metric shows the bundle in use");
    // When the SVID has expired, the anchors that were removed are trusted no longer.
    task.check(SystemTime::now() + SVID_LIFETIME + Duration::from_secs(60)).await;
    assert!(!identity(&task).trusts_all_anchors_of(&first));
    assert_ne!(anchors_of(&task), shown);
}

#[tokio::test]
async fn an_authority_of_another_trust_domain_is_not_followed() {
    let (directory, _, mut task) = start().await;
    let other = Authority::create("example.com".parse().expect("a trust domain"), SystemTime::now());
    write_authority(directory.path(), &other.expect("an authority")).expect("the files");
    task.check(SystemTime::now() + Duration::from_secs(10)).await;
    assert_eq!(refreshes(&task), (1, 1));
    assert_eq!(identity(&task).id.trust_domain.as_str(), "example.org");
}
