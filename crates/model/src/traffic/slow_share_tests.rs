use std::time::Instant;

use super::{PERIOD, SlowShare};

/// Counts this many calls, of which every `n`-th is slow. Returns whether the last slow one finds the Service loaded.
fn calls(share: &mut SlowShare, count: u32, n: u32, expected_permille: u16, now: Instant) -> bool {
    let mut is_loaded = false;
    for number in 1..=count {
        share.note_call(now);
        if number % n == 0 {
            is_loaded = share.note_slow(now, expected_permille);
        }
    }
    is_loaded
}

#[test]
fn a_service_is_loaded_if_many_of_its_calls_are_slow() {
    let now = Instant::now();
    assert!(!calls(&mut SlowShare::new(now), 1_000, 20, 0, now), "5 %");
    assert!(!calls(&mut SlowShare::new(now), 1_000, 10, 0, now), "10 %");
    assert!(calls(&mut SlowShare::new(now), 1_000, 5, 0, now), "20 %");
}

#[test]
fn a_percentile_below_the_usual_share_allows_twice_what_it_leaves() {
    let now = Instant::now();
    assert!(!calls(&mut SlowShare::new(now), 1_000, 5, 200, now), "20 % after p80");
    assert!(calls(&mut SlowShare::new(now), 1_000, 2, 200, now), "50 % after p80");
}

#[test]
fn a_few_calls_show_nothing() {
    let now = Instant::now();
    assert!(!calls(&mut SlowShare::new(now), 19, 1, 0, now));
}

#[test]
fn what_was_two_periods_ago_counts_no_more() {
    let start = Instant::now();
    let mut share = SlowShare::new(start);
    assert!(calls(&mut share, 1_000, 2, 0, start));
    assert!(calls(&mut share, 40, 20, 0, start + PERIOD), "the period before counts");
    assert!(!calls(&mut share, 40, 20, 0, start + 3 * PERIOD));
}
