use std::time::{Duration, Instant};

use super::{HedgeDelay, SHORTEST_PERIOD, SlowShare};

const FIXED: HedgeDelay = HedgeDelay::Fixed(Duration::from_millis(50));

/// Counts `count` calls; every `n`-th call is slow. Returns whether the Service is loaded.
fn calls(share: &mut SlowShare, count: u32, n: u32, now: Instant) -> bool {
    for number in 1..=count {
        share.note_call(now);
        if number % n == 0 {
            share.note_slow(now);
        }
    }
    share.is_loaded(now)
}

#[test]
fn a_service_is_loaded_if_many_of_its_calls_are_slow() {
    let now = Instant::now();
    let with = |n| calls(&mut SlowShare::new(FIXED, now), 1_000, n, now);
    assert_eq!([20, 10, 5].map(with), [false, false, true], "5 %, 10 % and 20 %");
}

#[test]
fn the_share_that_a_percentile_leaves_is_allowed_too() {
    let now = Instant::now();
    let with = |permille, n| calls(&mut SlowShare::new(HedgeDelay::Percentile(permille), now), 1_000, n, now);
    assert_eq!([10, 5].map(|n| with(950, n)), [false, true], "10 % and 20 % with p95");
    assert_eq!([2, 1].map(|n| with(500, n)), [false, true], "50 % and 100 % with the median");
}

#[test]
fn a_few_calls_show_nothing() {
    let now = Instant::now();
    assert!(!calls(&mut SlowShare::new(FIXED, now), 19, 1, now));
}

#[test]
fn what_was_two_periods_ago_counts_no_more() {
    let start = Instant::now();
    let mut share = SlowShare::new(FIXED, start);
    assert!(calls(&mut share, 1_000, 2, start));
    assert!(calls(&mut share, 40, 20, start + SHORTEST_PERIOD), "the period before counts");
    assert!(!calls(&mut share, 40, 20, start + 3 * SHORTEST_PERIOD));
}

#[test]
fn calls_with_a_long_delay_count_until_they_can_be_slow() {
    let (start, delay) = (Instant::now(), Duration::from_secs(10));
    let mut share = SlowShare::new(HedgeDelay::Fixed(delay), start);
    (0..100).for_each(|_| share.note_call(start));
    (0..5).for_each(|_| share.note_slow(start + delay));
    assert!(!share.is_loaded(start + delay), "5 of 100 are slow");
}
