use std::time::Duration;

use super::{BOUNDS, BOUNDS_MS, Histogram, HistogramTotals};

const BUCKETS: usize = BOUNDS + 1;

fn totals(latencies: &[Duration]) -> HistogramTotals<BOUNDS> {
    let histogram = Histogram::default();
    for latency in latencies {
        histogram.record(&BOUNDS_MS, *latency);
    }
    let mut totals = HistogramTotals::default();
    histogram.add_to(&mut totals);
    totals
}

fn bucket_of(latency: Duration) -> usize {
    let totals = totals(&[latency]);
    assert_eq!(totals.count(), 1);
    let buckets = totals.buckets(&BOUNDS_MS, 1.0);
    buckets.iter().position(|&(_, count)| count == 1).expect("one bucket has it")
}

#[test]
fn a_latency_equal_to_a_bound_belongs_to_that_bucket() {
    for (index, bound) in BOUNDS_MS.iter().enumerate() {
        assert_eq!(bucket_of(Duration::from_millis((*bound).into())), index, "{bound} ms");
    }
}

#[test]
fn a_latency_just_above_a_bound_belongs_to_the_next_bucket() {
    for (index, bound) in BOUNDS_MS.iter().enumerate() {
        let latency = Duration::from_millis((*bound).into()) + Duration::from_micros(1);
        assert_eq!(bucket_of(latency), index + 1, "{bound} ms and 1 us");
    }
}

#[test]
fn nothing_at_all_and_the_longest_duration_have_a_bucket() {
    assert_eq!(bucket_of(Duration::ZERO), 0);
    assert_eq!(bucket_of(Duration::MAX), BUCKETS - 1);
}

#[test]
fn the_sum_keeps_fractions_of_a_millisecond() {
    let totals = totals(&[Duration::from_micros(250), Duration::from_micros(1_500)]);
    assert_eq!(totals.sum_ms(), 1.75);
    assert_eq!(totals.count(), 2);
}

#[test]
fn buckets_carry_their_bounds_in_milliseconds_and_end_without_one() {
    let buckets = totals(&[Duration::from_millis(15)]).buckets(&BOUNDS_MS, 1.0);
    assert_eq!(buckets.len(), BUCKETS);
    assert_eq!(buckets[6], (20.0, 1));
    assert_eq!(buckets[BUCKETS - 1], (f64::INFINITY, 0));
}

#[test]
fn a_histogram_has_the_bounds_of_its_caller_and_keeps_hours() {
    const BOUNDS_MS: [u32; 3] = [25, 50, 10_000];
    let histogram = Histogram::default();
    let hours = Duration::from_secs(7_200);
    for latency in [Duration::ZERO, Duration::from_millis(25), Duration::from_micros(25_001), hours] {
        histogram.record(&BOUNDS_MS, latency);
    }
    let mut totals = HistogramTotals::default();
    histogram.add_to(&mut totals);
    assert_eq!(totals.buckets(&BOUNDS_MS, 1_000.0), [(0.025, 2), (0.05, 1), (10.0, 0), (f64::INFINITY, 1)]);
    assert_eq!((totals.count(), totals.sum_s()), (4, 7_200.050_001));

    let mut twice = totals;
    twice.add(&totals);
    assert_eq!((twice.count(), twice.buckets(&BOUNDS_MS, 1_000.0)[0]), (8, (0.025, 4)));
}
