use std::time::{Duration, Instant};

use super::super::limits::{
    ASKED_BURST_BYTES, ASKED_BYTES_PER_SECOND, DISPLACEMENTS_BURST, DISPLACEMENTS_PER_SECOND, REQUESTS_BURST,
    REQUESTS_PER_SECOND,
};
use super::{Paces, Purse};

#[test]
fn a_burst_costs_no_wait_and_what_is_owed_is_waited_for() {
    let now = Instant::now();
    let mut asked = Paces::new(now).asked;
    asked.spend(ASKED_BURST_BYTES as usize, now);
    assert_eq!(asked.wait(now), None);
    asked.spend(ASKED_BYTES_PER_SECOND as usize * 3, now);
    let wait = asked.wait(now).expect("three seconds' worth is owed");
    assert!(wait > Duration::from_millis(2_990) && wait < Duration::from_millis(3_010), "{wait:?}");
    assert_eq!(asked.wait(now + Duration::from_millis(3_010)), None);
}

#[test]
fn with_time_no_more_than_a_burst_is_saved() {
    let now = Instant::now();
    let mut asked = Paces::new(now).asked;
    let much_later = now + Duration::from_secs(86_400);
    asked.spend(ASKED_BURST_BYTES as usize + ASKED_BYTES_PER_SECOND as usize, much_later);
    assert!(asked.wait(much_later).is_some());
}

#[test]
fn requests_beyond_a_burst_are_read_at_their_rate() {
    let now = Instant::now();
    let mut requests = Purse::of_requests(now);
    for _ in 0..REQUESTS_BURST {
        requests.spend(1, now);
        assert_eq!(requests.wait(now), None);
    }
    requests.spend(1, now);
    let wait = requests.wait(now).expect("one is owed");
    assert!(wait <= Duration::from_secs(1) / REQUESTS_PER_SECOND + Duration::from_millis(1), "{wait:?}");
}

#[test]
fn an_allowance_has_only_whole_units() {
    let now = Instant::now();
    let mut displacements = Purse::of_displacements(now);
    let burst = DISPLACEMENTS_BURST as usize;
    assert_eq!(displacements.whole(now), burst);
    displacements.spend(burst - 1, now);
    assert_eq!(displacements.whole(now), 1);
    displacements.spend(2, now);
    assert_eq!(displacements.whole(now), 0, "the purse is overdrawn");
    let second = now + Duration::from_secs(1);
    assert_eq!(displacements.whole(second), DISPLACEMENTS_PER_SECOND as usize - 1);
    let half = Duration::from_secs(1) / (2 * DISPLACEMENTS_PER_SECOND);
    assert_eq!(displacements.whole(second + half), DISPLACEMENTS_PER_SECOND as usize - 1);
}
