use std::time::Duration;

use super::*;
use crate::limits::RelayLimits;
use crate::worker::places::Doors;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const ELSEWHERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
const HOUR: Duration = Duration::from_secs(3_600);

fn chain(name: &str) -> [CertificateDer<'static>; 1] {
    [CertificateDer::from(name.as_bytes().to_vec())]
}

fn member(account: &str) -> Member {
    let id = format!("spiffe://example.org/ns/shop/sa/{account}").parse().expect("an id");
    // The digest's key is one `Doors`' own.
    thread_local!(static DOORS: Doors = Doors::new(&RelayLimits::default()));
    DOORS.with(|doors| doors.member(&id))
}

#[test]
fn a_later_certificate_counts_for_the_same_workload_at_the_same_address_only() {
    let (now, mut standing) = (SystemTime::now(), Standing::default());
    standing.note(member("web"), HERE, (now + HOUR, now), &chain("first"));
    standing.note(member("web"), HERE, (now + 2 * HOUR, now), &chain("second"));
    standing.note(member("web"), HERE, (now + HOUR, now), &chain("first"));
    let expiry = |member, address| standing.expiry_of(member, address, now, |_| true);
    assert_eq!(expiry(member("web"), HERE), Some(now + 2 * HOUR));
    assert_eq!(expiry(member("web"), ELSEWHERE), None);
    assert_eq!(expiry(member("cart"), HERE), None);
}

#[test]
fn a_certificate_counts_no_more_when_it_has_expired_or_is_not_trusted() {
    let (now, mut standing) = (SystemTime::now(), Standing::default());
    standing.note(member("web"), HERE, (now + HOUR, now), &chain("one"));
    assert_eq!(standing.expiry_of(member("web"), HERE, now + HOUR, |_| true), None);
    assert_eq!(standing.expiry_of(member("web"), HERE, now, |shown| *shown != chain("one")), None);
}

#[test]
fn no_more_is_remembered_than_the_limit_and_what_has_expired_makes_room() {
    let (now, mut standing) = (SystemTime::now(), Standing::default());
    for number in 0..MAX_SHOWN + 10 {
        standing.note(member(&number.to_string()), HERE, (now + HOUR, now), &chain("one"));
    }
    assert_eq!(standing.shown.len(), MAX_SHOWN);
    standing.note(member("late"), HERE, (now + 3 * HOUR, now + 2 * HOUR), &chain("late"));
    assert_eq!(standing.shown.len(), 1);
}
