use super::*;

/// Returns the time `ms` milliseconds after `start`.
fn at(start: Instant, ms: u64) -> Instant {
    start + Duration::from_millis(ms)
}

/// A change for which the API server took 2 ms.
fn write(start: Instant, service: u32, serial: u32, ms: u64) -> Write {
    Write { service, serial, sent: at(start, ms), acknowledged: at(start, ms + 2) }
}

fn arrival(start: Instant, proxy: u32, service: u32, serial: u32, ms: u64) -> Arrival {
    Arrival { proxy, service, serial, at: at(start, ms) }
}

#[test]
fn a_change_is_timed_from_its_sending_and_from_its_acknowledgement() {
    let start = Instant::now();
    let judged = judge(&[write(start, 0, 1, 10)], &[arrival(start, 0, 0, 1, 25)], &[vec![0]]);
    assert_eq!((judged.expected, judged.lost, judged.coalesced), (1, 0, 0));
    assert!((judged.since_sent.p99_ms - 15.0).abs() < 0.1, "{judged:?}");
    assert!((judged.since_acknowledged.p99_ms - 13.0).abs() < 0.1, "{judged:?}");
    assert_eq!(judged.busy, Duration::from_millis(15));
}

#[test]
fn a_change_that_arrives_before_its_acknowledgement_took_no_time_since_then() {
    let start = Instant::now();
    let judged = judge(&[write(start, 0, 1, 10)], &[arrival(start, 0, 0, 1, 11)], &[vec![0]]);
    assert!(judged.since_acknowledged.max_ms < 0.01, "{judged:?}");
}

#[test]
fn a_newer_change_of_the_same_service_stands_for_the_older_one() {
    let start = Instant::now();
    let writes = [write(start, 0, 1, 0), write(start, 0, 2, 5), write(start, 0, 3, 50)];
    let arrivals = [arrival(start, 0, 0, 2, 20), arrival(start, 0, 0, 3, 60)];
    let judged = judge(&writes, &arrivals, &[vec![0]]);
    assert_eq!((judged.expected, judged.coalesced, judged.lost), (3, 1, 0));
    assert!((judged.since_sent.max_ms - 20.0).abs() < 0.1, "{judged:?}");
    assert_eq!(judged.busy, Duration::from_millis(30), "the first two overlap");
}

#[test]
fn what_another_proxy_or_another_service_got_stands_for_nothing() {
    let start = Instant::now();
    let writes = [write(start, 0, 1, 0)];
    let arrivals = [arrival(start, 0, 1, 2, 5), arrival(start, 1, 0, 1, 5)];
    let judged = judge(&writes, &arrivals, &[vec![0, 1], vec![0]]);
    assert_eq!((judged.expected, judged.lost), (2, 1));
}

#[test]
fn what_arrives_twice_counts_when_it_came_first() {
    let start = Instant::now();
    let arrivals = [arrival(start, 0, 0, 1, 5), arrival(start, 0, 0, 1, 500)];
    let judged = judge(&[write(start, 0, 1, 0)], &arrivals, &[vec![0]]);
    assert!(judged.since_sent.max_ms < 6.0, "{judged:?}");
}

#[test]
fn a_change_of_a_service_that_nobody_subscribed_to_is_not_waited_for() {
    let judged = judge(&[write(Instant::now(), 0, 1, 0)], &[], &[vec![]]);
    assert_eq!((judged.expected, judged.lost), (0, 0));
}
