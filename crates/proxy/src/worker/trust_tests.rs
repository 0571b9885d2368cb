use std::time::UNIX_EPOCH;

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

/// The time at which the worker checks the certificates of the tests.
fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_000_000)
}

#[test]
fn a_client_gets_a_minute_of_notice_or_a_tenth_of_the_rest_if_that_is_shorter() {
    for (left, notice) in [(24 * 60 * MINUTE, MINUTE), (10 * MINUTE, MINUTE), (5 * MINUTE, MINUTE / 2)] {
        let expiry = now() + left;
        assert_eq!(Stay::of_client(expiry, now()), Stay { notice: expiry - notice, expiry }, "{left:?}");
    }
}

#[test]
fn connections_to_one_server_are_replaced_at_different_times_before_its_certificate_expires() {
    let expiry = now() + 24 * 60 * MINUTE;
    let notices = [0_u32, 1, 600, 1_439].map(|minutes| Stay::of_server(expiry, now() + minutes * MINUTE).notice);
    assert!(notices.is_sorted() && notices.iter().all(|notice| *notice < expiry), "{notices:?}");
    assert_eq!(notices[0], expiry - 144 * MINUTE);
    assert_eq!(notices[3], expiry - MINUTE / 10);
}

#[test]
fn a_connection_with_an_expired_certificate_gets_no_calls_at_once() {
    let expiry = now() - MINUTE;
    assert_eq!(Stay::of_server(expiry, now()), Stay { notice: expiry, expiry });
}
