use super::*;
use crate::dns::names;
use crate::webhooks::fixtures::{DAY, signing, signing_from};

fn certificate(signing: watch::Receiver<Arc<Signing>>) -> Certificate {
    Certificate::issue(names("leno", "cluster.local").expect("names"), signing).expect("a certificate")
}

#[test]
fn it_is_renewed_after_two_thirds_of_its_life_and_not_before() {
    let (_sender, receiver) = watch::channel(signing());
    let mut certificate = certificate(receiver);
    let (mut config, now) = (certificate.config(), SystemTime::now());
    certificate.check(now + DAY / 2);
    assert!(!config.has_changed().expect("it lives"));
    certificate.check(now + DAY * 5 / 6 + Duration::from_secs(1));
    assert!(config.has_changed().expect("it lives"));
    config.mark_unchanged();
    // The next renewal depends on the new certificate's life.
    certificate.check(now + DAY * 5 / 6 + Duration::from_secs(2));
    assert!(!config.has_changed().expect("it lives"));
}

#[tokio::test]
async fn it_is_renewed_at_once_when_the_authority_changes() {
    let (sender, receiver) = watch::channel(signing());
    let certificate = certificate(receiver);
    let mut config = certificate.config();
    let (before, running) = (config.borrow_and_update().clone(), tokio::spawn(certificate.run()));
    sender.send_replace(signing());
    config.changed().await.expect("another");
    assert!(!Arc::ptr_eq(&before, &config.borrow()));
    running.abort();
}

#[test]
fn one_that_cannot_be_renewed_stays_in_use() {
    let (sender, receiver) = watch::channel(signing());
    let mut certificate = certificate(receiver);
    let config = certificate.config();
    // The authority expired a second ago, then 99 days ago.
    let second = Duration::from_secs(1);
    for (days, lifetime) in [(1_u32, DAY * 100 - second), (2, DAY)] {
        sender.send_replace(signing_from(SystemTime::now() - DAY * 100, lifetime));
        certificate.check(SystemTime::now() + DAY * days);
        assert!(!config.has_changed().expect("it lives"), "{lifetime:?}");
    }
    sender.send_replace(signing());
    certificate.check(SystemTime::now() + DAY * 3);
    assert!(config.has_changed().expect("it lives"));
}
