use super::*;

const MS: Duration = Duration::from_millis(1);

/// Two servers, measured from `start` for a second.
fn measuring_stats(start: Instant) -> Stats {
    let mut stats = Stats::new(&["s1".to_owned(), "s2".to_owned()]);
    stats.measure(start, start + 1000 * MS);
    stats
}

#[test]
fn only_calls_sent_while_measuring_count() {
    let start = Instant::now() + 1000 * MS;
    let mut stats = measuring_stats(start);
    stats.record(start - MS, "s1", MS);
    stats.record(start, "s1", MS);
    stats.record(start + 999 * MS, "s1", MS);
    stats.record(start + 1000 * MS, "s1", MS);
    let snapshot = stats.snapshot(start + 5000 * MS);
    assert_eq!(snapshot.total.calls, 2);
    assert_eq!(snapshot.measured, 1000 * MS);
    assert!((snapshot.calls_per_second() - 2.0).abs() < 1e-9);
}

#[test]
fn latencies_are_kept_for_each_server_and_for_all() {
    let start = Instant::now();
    let mut stats = measuring_stats(start);
    for _ in 0..80 {
        stats.record(start, "s1", 2 * MS);
    }
    for _ in 0..20 {
        stats.record(start, "s2", 50 * MS);
    }
    let snapshot = stats.snapshot(start + 100 * MS);
    assert_eq!(snapshot.shares(), [0.8, 0.2]);
    let about = |value: f64, wanted: f64| (value / wanted - 1.0).abs() < 0.001;
    assert!(about(snapshot.total.p50_ms, 2.0), "{snapshot:?}");
    assert!(about(snapshot.total.p99_ms, 50.0), "{snapshot:?}");
    assert!(about(snapshot.servers[0].p99_ms, 2.0), "{snapshot:?}");
    assert!(about(snapshot.servers[1].p50_ms, 50.0), "{snapshot:?}");
}

#[test]
fn a_failure_before_measuring_counts_and_the_first_reason_stays() {
    let mut stats = measuring_stats(Instant::now() + 1000 * MS);
    stats.fail("Unavailable: no endpoint");
    stats.fail_unanswered(2, 5000 * MS);
    let snapshot = stats.snapshot(Instant::now());
    assert_eq!(snapshot.failed, 3);
    assert_eq!(snapshot.first_failure.as_deref(), Some("Unavailable: no endpoint"));
}

#[test]
fn an_answer_from_an_unknown_server_is_a_failure() {
    let start = Instant::now();
    let mut stats = measuring_stats(start);
    stats.record(start, "s9", MS);
    let snapshot = stats.snapshot(start);
    assert_eq!((snapshot.total.calls, snapshot.failed), (0, 1));
}

#[test]
fn calls_that_were_never_sent_are_no_failures_but_the_hold_up_is_told() {
    let mut stats = measuring_stats(Instant::now());
    stats.miss(1500 * MS);
    stats.miss(1499 * MS);
    let snapshot = stats.snapshot(Instant::now());
    assert_eq!((snapshot.failed, snapshot.held_up), (0, 1500 * MS));
}
