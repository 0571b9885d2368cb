use super::*;

fn destination(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], port))
}

#[test]
fn a_destination_is_known_until_it_is_forgotten_or_was_not_used_for_long() {
    let now = Instant::now();
    let mut known = ServerFirst::default();
    known.remember(destination(1), now);
    known.remember(destination(2), now);
    known.forget(destination(2));
    assert!(known.knows(destination(1), now + REMEMBERED_FOR - Duration::from_secs(1)));
    assert!(!known.knows(destination(1), now + REMEMBERED_FOR));
    assert!(!known.knows(destination(2), now));
}

#[test]
fn the_destination_that_was_used_longest_ago_is_forgotten_first() {
    let now = Instant::now();
    let mut known = ServerFirst::default();
    for (age, port) in (0..MAX_REMEMBERED as u64).zip(1..) {
        known.remember(destination(port), now + Duration::from_millis(age));
    }
    let later = now + Duration::from_secs(1);
    known.remember(destination(1), later);
    known.remember(destination(9_999), later);
    assert_eq!(known.last_used.len(), MAX_REMEMBERED);
    assert!(known.knows(destination(1), later) && known.knows(destination(9_999), later));
    assert!(!known.knows(destination(2), later));
}
