use super::*;

#[test]
fn waits_double_up_to_the_longest() {
    let now = Instant::now();
    let mut outage = Outage::none(now);
    let mut most = FIRST;
    for _ in 0..40 {
        let wait = outage.failed(now);
        assert!(wait >= most / 2 && wait <= most, "{wait:?} for at most {most:?}");
        most = (most * 2).min(LONGEST);
    }
}

#[test]
fn waits_go_on_growing_if_each_success_is_followed_by_a_failure() {
    let mut now = Instant::now();
    let mut outage = Outage::none(now);
    for _ in 0..10 {
        now += outage.failed(now);
        outage.succeeded(now);
    }
    assert!(outage.failed(now) >= LONGEST / 2);
    outage.succeeded(now);
    assert!(outage.failed(now + CALM * 2) <= FIRST, "it was calm");
}

#[test]
fn an_outage_ends_once_and_has_lasted_since_its_first_failure() {
    let start = Instant::now();
    let after = |seconds| start + Duration::from_secs(seconds);
    let mut outage = Outage::none(start);
    assert_eq!(outage.succeeded(after(1)), None);
    outage.failed(after(100));
    outage.failed(after(103));
    assert_eq!(outage.succeeded(after(102)), None, "that was before the last failure");
    assert_eq!(outage.succeeded(after(107)), Some(Duration::from_secs(7)));
    assert_eq!(outage.succeeded(after(108)), None);
}
