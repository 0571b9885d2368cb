use std::time::{Duration, Instant};

use super::super::limits::{AGAIN_BURST_BYTES, AGAIN_BYTES_PER_SECOND};
use super::Paces;

#[test]
fn a_burst_costs_no_wait_and_what_is_owed_is_waited_for() {
    let now = Instant::now();
    let mut again = Paces::new(now).again;
    again.spend(AGAIN_BURST_BYTES as usize, now);
    assert_eq!(again.wait(now), None);
    again.spend(AGAIN_BYTES_PER_SECOND as usize * 3, now);
    let wait = again.wait(now).expect("three seconds' worth is owed");
    assert!(wait > Duration::from_millis(2_990) && wait < Duration::from_millis(3_010), "{wait:?}");
    assert_eq!(again.wait(now + Duration::from_millis(3_010)), None);
}

#[test]
fn with_time_no_more_than_a_burst_is_saved() {
    let now = Instant::now();
    let mut again = Paces::new(now).again;
    let much_later = now + Duration::from_secs(86_400);
    again.spend(AGAIN_BURST_BYTES as usize + AGAIN_BYTES_PER_SECOND as usize, much_later);
    assert!(again.wait(much_later).is_some());
}
