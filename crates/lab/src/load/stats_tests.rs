use std::collections::BTreeMap;

use super::super::failure::FailureClass;
use super::*;

const MS: Duration = Duration::from_millis(1);

/// Statistics of two servers. The measured time begins at `start` and takes 1 s.
fn measuring_stats(start: Instant) -> Stats {
    let mut stats = Stats::new(2);
    stats.measure(start, start, start + 1000 * MS);
    stats
}

#[test]
fn only_calls_sent_while_measuring_count() {
    let start = Instant::now() + 1000 * MS;
    let mut stats = measuring_stats(start);
    stats.answer(start - MS, 0, MS);
    stats.answer(start, 0, MS);
    stats.answer(start + 999 * MS, 0, MS);
    stats.answer(start + 1000 * MS, 0, MS);
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
        stats.answer(start, 0, 2 * MS);
    }
    for _ in 0..20 {
        stats.answer(start, 1, 50 * MS);
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
fn a_call_of_the_warm_up_counts_in_the_windows_and_one_before_the_start_does_not() {
    let start = Instant::now() + 1000 * MS;
    let mut stats = Stats::new(1);
    stats.measure(start, start + 1000 * MS, start + 2000 * MS);
    stats.answer(start - MS, 0, MS);
    stats.answer(start, 0, MS);
    stats.answer(start + 1000 * MS, 0, MS);
    let snapshot = stats.finish();
    assert_eq!(snapshot.windows.iter().map(|window| window.calls).collect::<Vec<_>>(), [1, 1]);
    assert_eq!((snapshot.answered, snapshot.total.calls), (2, 1));
}

#[test]
fn a_recording_has_the_whole_measured_time_although_the_last_answer_came_earlier() {
    let stats = measuring_stats(Instant::now());
    assert_eq!(stats.recording().measured, 1000 * MS);
    assert_eq!(Stats::new(2).recording().measured, Duration::ZERO);
}

#[test]
fn a_load_whose_last_answer_comes_early_has_no_higher_rate_than_planned() {
    // Two calls are due in two seconds. The last answer comes after one second.
    let start = Instant::now();
    let mut stats = Stats::new(1);
    stats.measure(start, start, start + 2000 * MS);
    stats.answer(start, 0, MS);
    stats.answer(start + 1000 * MS, 0, MS);
    let snapshot = stats.finish();
    assert_eq!(snapshot.measured, 2000 * MS);
    assert!((snapshot.calls_per_second() - 1.0).abs() < 1e-9);
}

#[test]
fn a_failure_before_measuring_counts_and_the_first_measured_reason_stays() {
    let from = Instant::now() + 1000 * MS;
    let mut stats = measuring_stats(from);
    stats.fail(from - MS, Failure::new(FailureClass::Grpc(14), "Unavailable: no endpoint"));
    assert_eq!(stats.finish().first_failure.as_deref(), Some("Unavailable: no endpoint"));
    stats.fail(from, Failure::new(FailureClass::TimeOut, "too late"));
    stats.fail(from, Failure::new(FailureClass::TimeOut, "much too late"));
    let snapshot = stats.finish();
    assert_eq!(snapshot.failed, 3);
    assert_eq!(snapshot.first_failure.as_deref(), Some("too late"));
    let in_timeline: u64 = snapshot.timeline.iter().map(|slice| slice.failed).sum();
    assert_eq!(in_timeline, 2);
    assert_eq!(snapshot.classes, BTreeMap::from([(FailureClass::TimeOut, 2)]));
}

#[test]
fn the_timeline_has_each_call_in_the_slice_in_which_it_was_sent() {
    let start = Instant::now();
    let mut stats = Stats::new(2);
    stats.measure(start, start, start + 250 * MS);
    stats.answer(start + 99 * MS, 0, 500 * MS);
    stats.answer(start + 100 * MS, 1, MS);
    stats.answer(start + 249 * MS, 1, MS);
    stats.fail(start + 200 * MS, Failure::connection("gone"));
    stats.answer(start + 250 * MS, 1, MS);
    let slice = |calls: [u64; 2], failed| Slice { calls: calls.to_vec(), failed };
    let timeline = stats.finish().timeline;
    assert_eq!(timeline, [slice([1, 0], 0), slice([0, 1], 0), slice([0, 1], 1)]);
}

#[test]
fn lateness_is_told_with_its_longest_and_with_how_many_were_over_a_millisecond() {
    let start = Instant::now();
    let mut stats = measuring_stats(start);
    for us in [20, 50, 1000, 1001, 30_000] {
        stats.sent(start, Duration::from_micros(us));
    }
    stats.sent(start - MS, 1000 * MS);
    let snapshot = stats.snapshot(start);
    assert_eq!((snapshot.late, snapshot.held_up), (2, 30 * MS));
    assert_eq!(snapshot.lateness.calls, 5);
}

#[test]
fn a_peer_with_many_kinds_of_failures_takes_a_bounded_number_of_classes() {
    let start = Instant::now();
    let mut stats = measuring_stats(start);
    for code in 0..1000 {
        stats.fail(start, Failure::new(FailureClass::Reset(code), "reset"));
    }
    let classes = stats.snapshot(start).classes;
    assert_eq!((classes.len(), classes.values().sum::<u64>()), (CLASSES_MAX + 1, 1000));
    assert_eq!(classes.get(&FailureClass::Other), Some(&936));
}

#[test]
fn a_call_that_was_not_sent_failed_but_was_not_sent() {
    let from = Instant::now() + 1000 * MS;
    let mut stats = Stats::new(1);
    stats.measure(from - 500 * MS, from, from + 1000 * MS);
    for since in [from - MS, from] {
        stats.answer(since, 0, MS);
        stats.fail(since, Failure::connection("gone"));
        stats.fail(since, Failure::not_sent());
        stats.fail(since, Failure::not_sent());
    }
    let snapshot = stats.finish();
    assert_eq!((snapshot.failed, snapshot.not_sent, snapshot.errors()), (6, 4, 3));
    assert_eq!((snapshot.sent(), snapshot.sent_since_start()), (2, 4));
}
