use std::time::{Duration, Instant};

use super::super::limits::{REQUESTS_BURST, REQUESTS_PER_SECOND};
use super::RequestRate;

#[test]
fn a_burst_is_taken_and_what_comes_after_it_is_not() {
    let now = Instant::now();
    let mut rate = RequestRate::new(now);
    assert!((0..REQUESTS_BURST).all(|_| rate.takes(now)));
    assert!(!rate.takes(now));
}

#[test]
fn with_time_more_is_taken_and_never_more_than_a_burst() {
    let now = Instant::now();
    let mut rate = RequestRate::new(now);
    while rate.takes(now) {}
    let later = now + Duration::from_secs(1);
    assert_eq!((0..).take_while(|_| rate.takes(later)).count(), REQUESTS_PER_SECOND as usize);
    let much_later = later + Duration::from_secs(3_600);
    assert_eq!((0..).take_while(|_| rate.takes(much_later)).count(), REQUESTS_BURST as usize);
}
