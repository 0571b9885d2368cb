use std::time::Duration;

use super::*;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const ELSEWHERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
const HOUR: Duration = Duration::from_secs(3_600);

fn chain(name: &str) -> [CertificateDer<'static>; 1] {
    [CertificateDer::from(name.as_bytes().to_vec())]
}

fn id(account: &str) -> SpiffeId {
    format!("spiffe://example.org/ns/shop/sa/{account}").parse().expect("an id")
}

#[test]
fn a_later_certificate_counts_for_the_same_workload_at_the_same_address_only() {
    let (now, standing) = (SystemTime::now(), Standing::default());
    standing.note(&id("web"), HERE, (now + HOUR, now), &chain("first"));
    standing.note(&id("web"), HERE, (now + 2 * HOUR, now), &chain("second"));
    standing.note(&id("web"), HERE, (now + HOUR, now), &chain("first"));
    let expiry = |account, address| standing.expiry_of(&id(account), address, now, |_| true);
    assert_eq!(expiry("web", HERE), Some(now + 2 * HOUR));
    assert_eq!(expiry("web", ELSEWHERE), None);
    assert_eq!(expiry("cart", HERE), None);
}

#[test]
fn a_certificate_counts_no_more_when_it_has_expired_or_is_not_trusted() {
    let (now, standing) = (SystemTime::now(), Standing::default());
    standing.note(&id("web"), HERE, (now + HOUR, now), &chain("one"));
    assert_eq!(standing.expiry_of(&id("web"), HERE, now + HOUR, |_| true), None);
    assert_eq!(standing.expiry_of(&id("web"), HERE, now, |shown| *shown != chain("one")), None);
}

#[test]
fn a_worker_counts_what_another_worker_was_shown() {
    let (now, standing) = (SystemTime::now(), Arc::new(Standing::default()));
    let other = standing.clone();
    let worker = std::thread::spawn(move || other.note(&id("web"), HERE, (now + HOUR, now), &chain("one")));
    worker.join().expect("no panic");
    assert_eq!(standing.expiry_of(&id("web"), HERE, now, |_| true), Some(now + HOUR));
}

#[test]
fn no_more_is_remembered_than_the_limit_and_what_has_expired_makes_room() {
    let (now, standing) = (SystemTime::now(), Standing::default());
    for number in 0..MAX_SHOWN + 10 {
        standing.note(&id(&number.to_string()), HERE, (now + HOUR, now), &chain("one"));
    }
    assert_eq!(standing.lock().len(), MAX_SHOWN);
    standing.note(&id("late"), HERE, (now + 3 * HOUR, now + 2 * HOUR), &chain("late"));
    assert_eq!(standing.lock().len(), 1);
}
