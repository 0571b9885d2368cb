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
fn a_certificate_that_is_shown_after_an_anchor_was_removed_replaces_one_that_lasts_longer() {
    let (now, standing) = (SystemTime::now(), Standing::default());
    standing.note(&id("web"), HERE, (now + 2 * HOUR, now), &chain("old anchor"));
    standing.note(&id("web"), HERE, (now + HOUR, now), &chain("new anchor"));
    let is_trusted = |shown: &[CertificateDer<'static>]| *shown == chain("new anchor");
    assert_eq!(standing.expiry_of(&id("web"), HERE, now, is_trusted), None);
    standing.anchors_removed();
    standing.note(&id("web"), HERE, (now + HOUR, now), &chain("new anchor"));
    assert_eq!(standing.expiry_of(&id("web"), HERE, now, is_trusted), Some(now + HOUR));
}

#[test]
fn a_worker_counts_what_another_worker_was_shown() {
    let (now, standing) = (SystemTime::now(), Arc::new(Standing::default()));
    let other = standing.clone();
    let worker = std::thread::spawn(move || other.note(&id("web"), HERE, (now + HOUR, now), &chain("one")));
    worker.join().expect("no panic");
    assert_eq!(standing.expiry_of(&id("web"), HERE, now, |_| true), Some(now + HOUR));
}

fn address(number: u32) -> IpAddr {
    std::net::Ipv4Addr::from(0x0a00_0000 + number).into()
}

#[test]
fn what_has_expired_makes_room_and_then_the_identity_that_takes_most() {
    let (now, standing) = (SystemTime::now(), Standing::default());
    let usual = [CertificateDer::from(vec![0; 1_500])];
    let later = now + 2 * HOUR;
    standing.note(&id("gone"), HERE, (now + HOUR, now), &usual);
    standing.note(&id("web"), HERE, (now + 3 * HOUR, now), &usual);
    for number in 0..10_000 {
        standing.note(&id("crowd"), address(number), (now + 24 * HOUR, later), &usual);
        let memory = standing.lock();
        assert!(memory.bytes <= MAX_SHOWN_BYTES, "{}", memory.bytes);
        assert_eq!(memory.bytes, memory.by_peer.values().map(Shown::bytes).sum::<usize>());
    }
    let expiry = |account, address| standing.expiry_of(&id(account), address, now, |_| true);
    assert_eq!(expiry("gone", HERE), None, "it has expired");
    assert_eq!(expiry("web", HERE), Some(now + 3 * HOUR), "only certificates of the crowd were forgotten");
    assert_eq!(expiry("crowd", address(9_999)), Some(now + 24 * HOUR), "the newest certificate is remembered");
    assert!(standing.lock().by_peer.len() > 2_000);
}

#[test]
fn the_longest_chain_that_a_handshake_accepts_is_remembered_and_counts_for_its_identity_only() {
    let (now, standing) = (SystemTime::now(), Standing::default());
    let longest = [CertificateDer::from(vec![0; 16 << 10])];
    standing.note(&id("web"), HERE, (now + HOUR, now), &chain("usual"));
    for number in 0..1_000 {
        standing.note(&id("long"), address(number), (now + HOUR, now), &longest);
        assert!(standing.lock().bytes <= MAX_SHOWN_BYTES);
    }
    let expiry = |account, address| standing.expiry_of(&id(account), address, now, |_| true);
    assert_eq!(expiry("long", address(999)), Some(now + HOUR));
    assert_eq!(expiry("web", HERE), Some(now + HOUR), "only certificates with long chains were forgotten");
}
